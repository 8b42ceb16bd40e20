"""Read dates as feeds write them: RFC 822, even misspelt, and ISO 8601, in many languages, with or without a zone."""

import json
import re
import unicodedata
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from html import unescape
from pathlib import Path
from zoneinfo import ZoneInfo

# Dates in earlier years are the zero values of programs (1 January of year 1 or of 1970), not dates of stories.
YEAR_MIN, YEAR_MAX = 1971, 9998
# RFC 2822, 4.3: years of two digits below 50 belong to this century.
CENTURY_PIVOT = 50
DATE_CHARACTERS_MAX = 100

UTC_ZONE = ZoneInfo("UTC")

_WORDS = json.loads(Path(__file__).with_name("date_words.json").read_text("utf-8"))
# The first letters of the names of each month, enough of them to distinguish months and days of the week.
# Programs write dates in the language of their server. Other readers report Russian (RssSyndication issue 2), Finnish
# (feedjira 186), Swedish (BlogEngine.NET 73), Polish (Plot 14) and Spanish (freeCodeCamp 43079). `lip`, `srp` and `lis`
# are absent: each is one month in Croatian, and the next month in Polish or Czech.
_MONTH_OF = {name: number for number, names in enumerate(_WORDS["months"], start=1) for name in names}
# RFC 822 has Z, UT, GMT and the North American zones. The others are unambiguous. An ambiguous or unknown abbreviation,
# such as IST, means the site's own zone. So does an abbreviation of the site's own zone, such as CST in China.
_ZONE_HOURS: dict[str, float] = _WORDS["zone_hours"]
# American abbreviations for both standard and daylight time. The date decides between them. feedparser reads them too.
_ZONES_OF_THE_YEAR: dict[str, str] = _WORDS["zones_of_the_year"]
# Kiribati has the largest offset.
OFFSET_HOURS_MAX = 14

# Day and time are separated by T, a space or `at`. `2006/01/02` and `2006-01-02 at 15:04:05` are formats of miniflux.
_ISO = re.compile(
    r"(?P<year>\d{4})(?:[-/](?P<month>\d\d?)[-/](?P<day>\d\d?)|(?P<month2>\d\d)(?P<day2>\d\d))"
    # The look-ahead keeps a second date from being read as a time.
    r"(?:(?:T|\s+(?:at )?(?=\d\d?:))(?P<hour>\d\d?):?(?P<minute>\d\d)(?::?(?P<second>\d\d)(?:[.,]\d+)?)?(?P<rest>.*)"
    # A date without a time may have a zone, too (XML Schema, 3.3.9).
    r"|(?P<zone>Z|[+-]\d\d:\d\d))?",
    re.IGNORECASE,
)
_TIME = re.compile(r"(?<!\d)(?P<hour>\d\d?):(?P<minute>\d\d?)(?::(?P<second>\d\d?)(?:[.,]\d+)?)?(?P<rest>.*)")
# Formats of dates in digits, and their replacements in ISO 8601.
_RESPELLED = (
    # `2004년 05월 28일  01:31:15`. The Korean host OnBlog wrote so, as feedparser's tests show.
    (re.compile(r"(\d{4})년\s*(\d\d?)월\s*(\d\d?)일"), r"\1-\2-\3"),
    # `2004-05-25 오후 11:23:17` of the Korean host Nate, in feedparser's tests too.
    (re.compile(r"오전\s*(\d\d?:\d\d?(?::\d\d?)?)"), r"\1 AM"),
    (re.compile(r"오후\s*(\d\d?:\d\d?(?::\d\d?)?)"), r"\1 PM"),
    # A day of the week before ISO 8601: `Fri, 2006/09/15 08:19:53 EDT` (Perforce, in feedparser's tests).
    (re.compile(r"\A[^\W\d_]{2,20}\.?,? (?=\d{4}[-/])"), ""),
    # Minutes and seconds of one digit: `20:0:0` at distill.pub.
    (re.compile(r":(\d)(?!\d)"), r":0\1"),
    # `20.11.2026`, the German form (miniflux and picoFeed list it).
    (re.compile(r"(\d\d?)\.(\d\d?)\.(\d{4})\b"), r"\3-\2-\1"),
)
# `Mon, 03/30/2020 - 19:19`, `Fri, 26/06/2020` and `20-11-2026` (miniflux's tests and formats). A number above 12, or the
# day of the week, shows which number is the day.
_DIGIT_DATE = re.compile(r"(?:([^\W\d_]{2,20})\.?,? )?(\d\d?)[/-](\d\d?)[/-](\d{4})\b,?(?: -)?")
_WEEKDAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
# An offset such as `+0100`, `-05:00` or `GMT+1`.
_OFFSET = re.compile(r"(?:gmt|utc|ut)?\s*(?P<sign>[+-])(?P<hours>\d\d?):?(?P<minutes>\d\d)?(?!\d)", re.IGNORECASE)
# `02:02:33 PM` (nbcnewyork.com), `10:57 a.m.` (miniflux's tests), and `p. m.` (Spanish in Unicode's CLDR).
_HALF = re.compile(r"\s*([ap])\.?\s?m\b\.?", re.IGNORECASE)
# A name of the zone database: `America/Los_Angeles` (miniflux's tests).
_ZONE_NAME = re.compile(r"[A-Za-z]+(?:/[A-Za-z0-9_+-]+)+")
_WORD = re.compile(r"[^\W\d_]+")
_NUMBER = re.compile(r"\d+")


def instant(text: object, zone: ZoneInfo) -> datetime | None:
    """Return a feed's date as an instant in UTC, cut to the second; None if the text is not a date.

    `zone` is the newsroom's. It applies to a date without a zone or with an unknown one.
    """
    # feedparser returns an object for some broken dates.
    if not isinstance(text, str) or not text or len(text) > DATE_CHARACTERS_MAX:
        return None
    try:
        tidy = _respell_digits(unicodedata.normalize("NFC", " ".join(unescape(text).split())))
        local, rest = _read_iso(tidy) or _read_named(tidy)
        moment = local.replace(tzinfo=_zone(rest, local, zone))
        return moment.astimezone(UTC) if YEAR_MIN <= moment.year <= YEAR_MAX else None
    except (ValueError, OverflowError):  # the text is not a date, or beyond the calendar
        return None


def _respell_digits(text: str) -> str:
    """Rewrite a date in digits as ISO 8601 if it can mean only one day. Put AM or PM after the time."""
    for spelling, replacement in _RESPELLED:
        text = spelling.sub(replacement, text)
    if (match := _DIGIT_DATE.match(text)) and (only := _only_date(match)):
        return f"{only.isoformat()}{text[match.end() :]}"
    return text


def _only_date(match: re.Match[str]) -> date | None:
    """Return the date that two numbers and a year mean; None if they can mean two dates, or none."""
    weekday, first, second, year = match.groups()
    days = set()
    for month, day in ((first, second), (second, first)):
        try:
            days.add(date(int(year), int(month), int(day)))
        except ValueError:
            continue
    if weekday and (name := weekday[:3].lower()) in _WEEKDAYS:
        days = {day for day in days if _WEEKDAYS[day.weekday()] == name}
    return days.pop() if len(days) == 1 else None


def _read_iso(text: str) -> tuple[datetime, str] | None:
    """Read `2026-11-20T08:00:00Z`, `2026-11-20 08:00`, `2026/11/20` or `20261120T080000Z`: local time, text of the zone."""
    match = _ISO.fullmatch(text)
    if not match:
        return None
    month, day = int(match["month"] or match["month2"]), int(match["day"] or match["day2"])
    date = datetime(int(match["year"]), month, day)  # noqa: DTZ001 - the zone is read from what follows
    if match["hour"] is None:
        return date, match["zone"] or ""
    return _add_time(date, match)


def _read_named(text: str) -> tuple[datetime, str]:
    """Read a date whose month is a name: its local time, and the text of its zone. Raises ValueError.

    `Fri, 20 Nov 2026 08:00:00 GMT`, `mer, 16 nov 2022 00:38`, `Sat, Dec 16 2023 02:02:33 PM`, `Nov 20 08:00:00 2026`.
    """
    time = _TIME.search(text)
    before = text[: time.start()] if time else text
    numbers = [number.group() for number in _NUMBER.finditer(before)]
    # The month's name precedes the last number. The last such word counts, because "mar" is also Tuesday in three languages.
    words = _WORD.findall(before.rpartition(numbers[-1])[0]) if numbers else []
    months = [month for word in map(str.lower, words) if (month := _MONTH_OF.get(word[:4]) or _MONTH_OF.get(word[:3]))]
    rest = ""
    if time and len(numbers) == 1 and (last := re.search(r"\b\d{4}\b(?!.*\d)", time["rest"])):
        # asctime: the year follows the time, and the zone is between them.
        numbers.append(last.group())
        rest = time["rest"][: last.start()]
    if not months or len(numbers) != 2:
        raise ValueError("not a date")
    day, year_digits = numbers[:2] if len(numbers[0]) < len("2026") else numbers[1::-1]
    year = int(year_digits)
    if len(year_digits) == len("26"):
        year += 2000 if year < CENTURY_PIVOT else 1900
    date = datetime(year, months[-1], int(day))  # noqa: DTZ001 - the zone is read from what follows
    if not time:
        return date, ""
    moment, zone = _add_time(date, time)
    return moment, rest or zone


def _add_time(day: datetime, match: re.Match[str]) -> tuple[datetime, str]:
    hour, rest = int(match["hour"]), match["rest"]
    if half := _HALF.match(rest):
        hour = hour % 12 + (12 if half[1].lower() == "p" else 0)
        rest = rest[half.end() :]
    minute, second = int(match["minute"]), int(match["second"] or 0)
    # datetime accepts neither 24:00 nor leap seconds, so timedelta adds the time to the day.
    if hour > 24 or minute > 59 or second > 60:
        raise ValueError("no time of day")
    return day + timedelta(hours=hour, minutes=minute, seconds=second), rest


def _zone(rest: str, local: datetime, site_zone: ZoneInfo) -> tzinfo:
    """Return the zone in `rest`, the text after the time. An abbreviation of the site's own zone counts first. Raises ValueError."""
    if offset := _OFFSET.match(rest.strip()):
        delta = timedelta(hours=int(offset["hours"]), minutes=int(offset["minutes"] or 0))
        if delta > timedelta(hours=OFFSET_HOURS_MAX):
            return site_zone
        return timezone(delta if offset["sign"] == "+" else -delta)
    name = _WORD.search(rest)
    if name is None:
        return site_zone
    if not name.group().isascii():
        raise ValueError("perhaps AM or PM in another language")
    if local.replace(tzinfo=site_zone).tzname() == name.group().upper():
        return site_zone
    abbreviation = name.group().lower()
    hours = _ZONE_HOURS.get(abbreviation)
    if hours is not None:
        return timezone(timedelta(hours=hours))
    # A place such as `[Europe/Paris]` counts only without an offset or a known abbreviation. After Z or GMT a place does not change
    # the instant (RFC 9557, 2).
    place = _ZONE_NAME.search(rest)
    try:
        return ZoneInfo(_ZONES_OF_THE_YEAR.get(abbreviation) or (place.group() if place else site_zone.key))
    except (KeyError, ValueError, OSError):
        return site_zone
