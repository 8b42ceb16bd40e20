"""Dates as feeds write them: RFC 822 with its common mistakes, ISO 8601, many languages, any zone or none (R10.8)."""

import re
import unicodedata
from calendar import monthrange
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from email.utils import parsedate_to_datetime
from html import unescape
from zoneinfo import ZoneInfo

# Earlier dates are a program's zero (1 January of year 1 or of 1970), not a story's.
YEAR_MIN, YEAR_MAX = 1971, 9998
# RFC 2822, 4.3: years of two digits below it are of this century.
CENTURY_PIVOT = 50
DATE_CHARACTERS_MAX = 100

UTC_ZONE = ZoneInfo("UTC")

# The first letters of month names, enough to tell them from each other and from days of the week: English, French, Italian,
# German, Spanish, Portuguese, Galician; Dutch and Indonesian, the Scandinavian languages, Romanian, Turkish, Hungarian, Finnish,
# Latvian; Polish, Czech, Croatian, Slovene; Russian, Ukrainian, Bulgarian, Serbian, Greek; Hebrew, Arabic.
_MONTHS = (
    "jan gen ene jän ian xan oca tamm sty led sij янв січ яну јан ιαν ינו ينا",
    "feb fév fev şub helm lut úno vel фев лют φεβ פבר فبر",
    "mar mär mrz mrt már maal bře ožu мар бер μαρ μάρ מרץ מרס مار",
    "apr avr abr ápr nis huht kwi dub tra апр кві απρ אפר أبر ابر إبر",
    "may mai mag mei maj máj maí touk kvě svi май мая тра мај μαι μάι μαΐ מאי ماي",
    "jun juin giu iun xuñ jún jūn haz kesä cze čvn июн чер юни јун ιουν ιούν יונ يون",
    "jul juil lug iul xul júl jūl tem hein čvc июл лип юли јул ιουλ ιούλ יול يول",
    "aug aoû aou ago agu ağu avg ágú elok sie kol авг сер αυγ αύγ אוג أغس اغس",
    "sep set szep eyl syys wrz zář ruj сен вер сеп σεπ ספט سبتم",
    "oct ott okt out eki loka paź říj окт жов οκτ אוק أكت اكت",
    "nov noi nóv kas marr stu ноя лис ное нов νοε νοέ נוב نوف",
    "dec déc dic dez des ara joul gru pro дек гру дец δεκ דצמ ديس",
)
_MONTH_OF = {name: number for number, names in enumerate(_MONTHS, start=1) for name in names.split()}
# This month in Croatian, the next one in Polish or Czech. The day of the week decides.
_MONTH_OR_NEXT = {"lip": 6, "srp": 7, "lis": 10}

# RFC 822 names the first ten; the others are unambiguous. Ambiguous names (IST, CST of China) are read as the site's own zone.
_ZONE_HOURS: dict[str, float] = {
    "z": 0, "ut": 0, "utc": 0, "gmt": 0, "est": -5, "edt": -4, "cst": -6, "cdt": -5, "mst": -7, "mdt": -6, "pst": -8,
    "pdt": -7, "wet": 0, "west": 1, "cet": 1, "cest": 2, "mez": 1, "mesz": 2, "eet": 2, "eest": 3, "bst": 1, "msk": 3,
    "jst": 9, "kst": 9, "hkt": 8, "sgt": 8, "aest": 10, "aedt": 11, "acst": 9.5, "awst": 8, "nzst": 12, "nzdt": 13,
    "akst": -9, "akdt": -8, "hst": -10, "wib": 7, "pkt": 5, "sast": 2, "brt": -3,
}  # fmt: skip
# American names without a season, which feedparser reads too.
_ZONES_OF_THE_YEAR = {
    "et": "America/New_York", "ct": "America/Chicago", "mt": "America/Denver", "pt": "America/Los_Angeles",
}  # fmt: skip
# Kiribati has the largest offset.
OFFSET_HOURS_MAX = 14

_ISO = re.compile(
    r"(?P<year>\d{4})(?:[-/.](?P<month>\d\d?)[-/.](?P<day>\d\d?)|(?P<month2>\d\d)(?P<day2>\d\d))"
    r"(?:(?:T|\s+(?!\d{8}))(?P<hour>\d\d?):?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,]\d+)?)?(?P<rest>.*)"
    # A day may have a zone as well (XML Schema, 3.3.9).
    r"|(?P<zone>Z|[+-]\d\d:\d\d))?",
    re.IGNORECASE,
)
_TIME = re.compile(r"(?<!\d)(?P<hour>\d\d?):(?P<minute>\d\d?)(?::(?P<second>\d\d?)(?:[.,]\d+)?)?(?P<rest>.*)")
# `Thu, 02 Sep 2021 20:0:0 Z`: distill.pub/rss.xml.
_ONE_DIGIT = re.compile(r":(\d)(?!\d)")
# `8/21/2018 9:00:00 AM`: gatesnotes.com/rss. The size of a number or the weekday decides which is the day.
_DIGIT_DATE = re.compile(r"(?:([^\W\d_]{2,20})\.?,? )?(\d\d?)[/-](\d\d?)[/-](\d{4})\b,?")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# Polish, Czech, Croatian.
_SLAVIC_WEEKDAYS = (
    "pon po",
    "wto wt úte út uto",
    "śro śr stř st sri",
    "czw čtv čt čet",
    "pią pt pát pá pet",
    "sob so sub",
    "nie nd ned ne",
)
_WEEKDAY_OF = {name: day for day, names in enumerate(_SLAVIC_WEEKDAYS) for name in (_WEEKDAYS[day], *names.split())}
# `2004년 05월 28일 01:31:15` and `2004-05-25 오후 11:23:17`: the Korean hosts OnBlog and Nate.
_KOREAN_DATE = re.compile(r"(\d{4})년\s*(\d\d?)월\s*(\d\d?)일")
# 12-hour forms (R10.8): `오후 11:23:17`, `PM 08:00`; `8 a.m. ET`; in Arabic and Greek too.
_HALF_BEFORE_TIME = re.compile(r"(?:\b([ap])\.?m\b\.?|(오전)|(오후))\s*(\d\d?:\d\d?(?::\d\d?)?)", re.IGNORECASE)
_HOUR_ALONE = re.compile(r"(?<![\d:.])(\d\d?)(?=\s?[ap]\.?\s?m\b)", re.IGNORECASE)
_OFFSET = re.compile(
    r"(?:gmt|utc|ut)?\s*(?P<sign>[+\-\N{MINUS SIGN}])(?P<hours>\d\d?):?(?P<minutes>\d\d)?(?!\d)", re.IGNORECASE
)
# `Sat, Dec 16 2023 02:02:33 PM`: nbcnewyork.com.
_HALF = re.compile(r"\s*(?:[ap]\.?\s?m\b\.?|(?:م|ص)\b|مساء|صباح|[μπ]\.?\s?μ\b\.?)", re.IGNORECASE)
_LATE = ("p", "م", "μ")
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+")


def instant(text: object, zone: ZoneInfo) -> datetime | None:
    """The instant that a feed's date names, in UTC and whole seconds; None if `text` is no date.

    A date without a zone, or with an unknown one, is read in `zone`, the newsroom's.
    """
    # feedparser turns some damaged elements into objects.
    if not isinstance(text, str) or not text or len(text) > DATE_CHARACTERS_MAX:
        return None
    try:
        local = _rfc_822(text) or _any(" ".join(unescape(text).split()), zone)
        moment = local.astimezone(UTC) if YEAR_MIN <= local.year <= YEAR_MAX else None
    except (ValueError, OverflowError):
        return None
    return moment


def _rfc_822(text: str) -> datetime | None:
    """`Fri, 20 Nov 2026 08:00:00 GMT`, in a sixth of the time of `_any`. None for other zones, which depend on the site's."""
    if not text.endswith(("GMT", "UTC")) and text[-5:-4] not in ("+", "-"):
        return None
    try:
        moment = parsedate_to_datetime(text)
    except ValueError:
        return None
    offset = moment.utcoffset()
    return moment if offset is not None and abs(offset) <= timedelta(hours=OFFSET_HOURS_MAX) else None


def _any(text: str, site_zone: ZoneInfo) -> datetime:
    """A date of any form. Raises ValueError if there is none, OverflowError at the end of the calendar."""
    text = _iso_spelt(text if text.isascii() else unicodedata.normalize("NFC", text))
    local, rest = _iso(text) or _written(text)
    return local.replace(tzinfo=_zone(rest, local, site_zone))


def _iso_spelt(text: str) -> str:
    """Rewrite dates in digits as ISO 8601 where they can mean only one day."""
    text = _KOREAN_DATE.sub(r"\1-\2-\3", text)
    text = _HALF_BEFORE_TIME.sub(lambda half: f"{half[4]} {half[1] or ('a' if half[2] else 'p')}m", text)
    text = _ONE_DIGIT.sub(r":0\1", text)
    if (digits := _DIGIT_DATE.match(text)) and (day := _only_day(digits)):
        return f"{day.isoformat()}{text[digits.end() :]}"
    return text


def _only_day(digits: re.Match[str]) -> date | None:
    """The day that two numbers and a year mean; None where they can mean two, or none."""
    weekday, first, second, year = digits.groups()
    days = set()
    for month, day in ((first, second), (second, first)):
        try:
            days.add(date(int(year), int(month), int(day)))
        except ValueError:
            continue
    if weekday and (name := weekday[:3].lower()) in _WEEKDAYS:
        days = {day for day in days if _WEEKDAYS[day.weekday()] == name}
    return days.pop() if len(days) == 1 else None


def _iso(text: str) -> tuple[datetime, str] | None:
    """`2026-11-20T08:00:00Z`, `2026-11-20 08:00`, `2026/11/20`, `20261120T080000Z`: the local time, and the zone's text."""
    parts = _ISO.fullmatch(text)
    if not parts:
        return None
    month, day = int(parts["month"] or parts["month2"]), int(parts["day"] or parts["day2"])
    date = datetime(int(parts["year"]), month, day)  # noqa: DTZ001 - `_zone` reads the zone
    return (date, parts["zone"] or "") if parts["hour"] is None else _at(date, parts)


def _written(text: str) -> tuple[datetime, str]:
    """`Fri, 20 Nov 2026 08:00:00 GMT`, `mer, 16 nov 2022 00:38`, `Sat, Dec 16 2023 02:02:33 PM`, `Nov 20 08:00:00 2026`.

    Returns the local time and the zone's text. Raises ValueError.
    """
    time = _TIME.search(text) or _TIME.search(text := _HOUR_ALONE.sub(r"\1:00", text, count=1))
    before = text[: time.start()] if time else text
    numbers = [number.group() for number in _NUMBER.finditer(before)]
    month_name = _month_name(before)
    zone = ""
    if time and len(numbers) == 1 and (year := re.search(r"\b\d{4}\b(?!.*\d)", time["rest"])):
        # asctime: the year follows the time, and the zone is between them.
        numbers.append(year.group())
        zone = time["rest"][: year.start()]
    # A third number may be a time that is not read here, like "8h": midnight would be wrong.
    if not month_name or not numbers[1:] or (not time and numbers[2:]):
        raise ValueError("no date")
    day, year_written = numbers[:2] if len(numbers[0]) < len("2026") else numbers[1::-1]
    if month := _month(month_name):
        date = datetime(_year(year_written), month, int(day))  # noqa: DTZ001 - `_zone` reads the zone
    else:
        date = _of_two_months(_year(year_written), month_name, int(day), before)
    if not time:
        return date, ""
    moment, rest = _at(date, time)
    return moment, zone or rest


def _month_name(text: str) -> str | None:
    """The last word that names a month ("mar" is Tuesday in three languages), preferably before the last number.

    Behind it may be a place that begins like a month: "Dublin", "Stuttgart".
    """
    last = max((number.start() for number in _NUMBER.finditer(text)), default=0)
    words = ((word.start(), word.group().lower()) for word in _WORD.finditer(text))
    months = [(start, name) for start, name in words if _month(name) or name[:3] in _MONTH_OR_NEXT]
    before = [name for start, name in months if start < last]
    return before[-1] if before else months[-1][1] if months else None


def _of_two_months(year: int, name: str, day: int, text: str) -> datetime:
    """The day in the one month or the next, by its day of the week. Raises ValueError where that decides nothing."""
    first_word = _WORD.search(text)
    word = first_word.group().lower() if first_word else ""
    weekday = next((_WEEKDAY_OF[short] for short in (word[:3], word[:2]) if short in _WEEKDAY_OF), None)
    first = _MONTH_OR_NEXT[name[:3]]
    days = [datetime(year, month, day) for month in (first, first + 1) if day <= monthrange(year, month)[1]]  # noqa: DTZ001
    matching = [day for day in days if day.weekday() == weekday]
    if not matching:
        raise ValueError("one of two months")
    return matching[0]


def _month(name: str) -> int | None:
    return _MONTH_OF.get(name[:4]) or _MONTH_OF.get(name[:3])


def _year(digits: str) -> int:
    if len(digits) == len("26"):
        return int(digits) + (2000 if int(digits) < CENTURY_PIVOT else 1900)
    return int(digits)


def _at(day: datetime, time: re.Match[str]) -> tuple[datetime, str]:
    """The day at the time, and what follows the time. Raises ValueError for no time of day."""
    hour, rest = int(time["hour"]), time["rest"]
    if half := _HALF.match(rest):
        hour = hour % 12 + (12 if half.group().strip().lower().startswith(_LATE) else 0)
        rest = rest[half.end() :]
    minute, second = int(time["minute"]), int(time["second"] or 0)
    # 24:00 and leap seconds are valid, but datetime has neither.
    if hour > 24 or minute > 59 or second > 60:
        raise ValueError("no time of day")
    return day + timedelta(hours=hour, minutes=minute, seconds=second), rest


def _zone(rest: str, local: datetime, site_zone: ZoneInfo) -> tzinfo:
    """The zone that follows the time. A name that the site's own zone has at that time means the site's zone."""
    if offset := _OFFSET.match(rest.strip()):
        delta = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        if delta > timedelta(hours=OFFSET_HOURS_MAX):
            return site_zone
        return timezone(delta if offset["sign"] == "+" else -delta)
    name = _WORD.search(rest)
    if name is None or local.replace(tzinfo=site_zone).tzname() == name.group().upper():
        return site_zone
    abbreviation = name.group().lower()
    if (hours := _ZONE_HOURS.get(abbreviation)) is not None:
        return timezone(timedelta(hours=hours))
    return ZoneInfo(_ZONES_OF_THE_YEAR[abbreviation]) if abbreviation in _ZONES_OF_THE_YEAR else site_zone
