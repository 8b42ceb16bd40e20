"""What a feed asks of those who poll it: how long to wait, in which hours and on which days not to come (R10.4)."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

# RSS 1.0, module syndication: daily, once, is what an empty wish means.
_PERIODS = {"hourly": 1, "daily": 24, "weekly": 7 * 24, "monthly": 30 * 24, "yearly": 365 * 24}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# Nobody means more; it also keeps the arithmetic of dates in its bounds.
WISH_MAX = timedelta(days=366)

# What stands before the first entry and behind the last one is short.
HEAD_CHARACTERS_MAX = 65_536

_ITEM = re.compile(r"<(?:[\w.-]+:)?(?:item|entry)[\s/>]", re.IGNORECASE)
_ITEM_END = re.compile(r"</(?:[\w.-]+:)?(?:item|entry)\s*>", re.IGNORECASE)
_TTL = re.compile(r"<ttl[^<>]*>\s*(\d{1,6})", re.IGNORECASE)
_PERIOD = re.compile(r"<(?:[\w.-]+:)updatePeriod[^<>]*>\s*(\w{1,20})", re.IGNORECASE)
_FREQUENCY = re.compile(r"<(?:[\w.-]+:)updateFrequency[^<>]*>\s*(\d{1,6})", re.IGNORECASE)
_SKIPPED_HOURS = re.compile(r"<skipHours[\s>].{0,2000}?</skipHours", re.IGNORECASE | re.DOTALL)
_SKIPPED_DAYS = re.compile(r"<skipDays[\s>].{0,2000}?</skipDays", re.IGNORECASE | re.DOTALL)
_HOUR = re.compile(r"<hour[^<>]*>\s*(\d{1,2})\s*<", re.IGNORECASE)
_DAY = re.compile(r"<day[^<>]*>\s*(\w{1,20})\s*<", re.IGNORECASE)
_MAX_AGE = re.compile(r"(?:^|[\s,])(?:max-age|s-maxage)\s*=\s*\"?(\d{1,9})", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Hints:
    """What a feed asks for: `document_s` of its own elements, `answer_s` of the last answer's headers, both in seconds.

    Hours are 0 to 23 and days 0 (Monday) to 6, in GMT.
    """

    document_s: int = 0
    answer_s: int = 0
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[int, ...] = ()

    @property
    def least(self) -> timedelta:
        """The shortest wait that it asks for."""
        return timedelta(seconds=max(self.document_s, self.answer_s))

    def awake(self, due: datetime) -> datetime:
        """The first instant from `due` on in an hour and on a day that it does not name; `due` where it names all."""
        moment = due.astimezone(UTC)
        for _ in range(8 * 24):
            if moment.hour not in self.skip_hours and moment.weekday() not in self.skip_days:
                return moment
            moment = moment.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return due


def of_document(text: str) -> Hints:
    """The wishes among the elements of a feed itself, not of its entries: `ttl`, `sy:*`, `skipHours`, `skipDays`."""
    text = without_entries(text)
    wishes = [timedelta(minutes=int(found[1])) for found in _TTL.finditer(text)]
    if period := _PERIOD.search(text):
        frequency = _FREQUENCY.search(text)
        times = max(1, int(frequency[1])) if frequency else 1
        wishes.append(timedelta(hours=_PERIODS.get(period[1].lower(), 0)) / times)
    hours = {int(hour) % 24 for block in _SKIPPED_HOURS.findall(text) for hour in _HOUR.findall(block)}
    named = {day.lower() for block in _SKIPPED_DAYS.findall(text) for day in _DAY.findall(block)}
    days = {number for number, day in enumerate(_DAYS) if day in named}
    return Hints(_seconds(max(wishes, default=timedelta())), 0, tuple(sorted(hours)), tuple(sorted(days)))


def without_entries(text: str) -> str:
    """What a feed says before its first entry and behind its last one, as far as it is short."""
    first = _ITEM.search(text)
    if first is None:
        return text[:HEAD_CHARACTERS_MAX]
    ends = [found.end() for found in _ITEM_END.finditer(text)]
    return text[: first.start()][:HEAD_CHARACTERS_MAX] + (text[ends[-1] :][:HEAD_CHARACTERS_MAX] if ends else "")


def with_answer(hints: Hints, headers: Mapping[str, str], now: datetime) -> Hints:
    """With the wish of an answer's headers: `Cache-Control: max-age`, else `Expires`. A 304's count as well."""
    control = headers.get("cache-control", "")
    if ages := [int(age) for age in _MAX_AGE.findall(control)]:
        return replace(hints, answer_s=_seconds(timedelta(seconds=max(ages))))
    # RFC 9111, 5.3: whoever says that it must be asked each time has no age, whatever else he says.
    expires = None if "no-cache" in control.lower() else _date(headers.get("expires"))
    return replace(hints, answer_s=_seconds(expires - now) if expires else 0)


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text) if text else None
    except (ValueError, OverflowError):
        return None
    return date and (date if date.tzinfo else date.replace(tzinfo=UTC))


def _seconds(wish: timedelta) -> int:
    return int(min(max(wish, timedelta()), WISH_MAX).total_seconds())
