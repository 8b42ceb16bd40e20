"""The wishes of a feed to its pollers: how long to wait, and which hours and days to skip."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime

# The hours of each `sy:updatePeriod` (RSS 1.0, module syndication). Without `sy:updateFrequency`, one update a period.
_PERIODS = {"hourly": 1, "daily": 24, "weekly": 7 * 24, "monthly": 30 * 24, "yearly": 365 * 24}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# The longest wait that is kept, so that date arithmetic cannot overflow.
WISH_MAX = timedelta(days=366)

# The limit for the text before the first entry, and for the text after the last one. Real feeds have little there.
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
    """The waits that a feed asks for, in seconds: `document_s` in its elements, `answer_s` in the last answer's headers.

    `skip_hours` are 0 to 23 and `skip_days` 0 (Monday) to 6, in GMT.
    """

    document_s: int = 0
    answer_s: int = 0
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[int, ...] = ()

    @property
    def least(self) -> timedelta:
        """The shortest wait that the feed allows."""
        return timedelta(seconds=max(self.document_s, self.answer_s))

    def awake(self, due: datetime) -> datetime:
        """The first instant at or after `due` outside the skipped hours and days; `due` if all are skipped."""
        moment = due.astimezone(UTC)
        for _ in range(8 * 24):
            if moment.hour not in self.skip_hours and moment.weekday() not in self.skip_days:
                return moment
            moment = moment.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return due


def of_document(text: str) -> Hints:
    """The hints among a feed's own elements, not its entries': `ttl`, `sy:*`, `skipHours`, `skipDays`."""
    text = without_entries(text)
    wishes = [timedelta(minutes=int(ttl[1])) for ttl in _TTL.finditer(text)]
    if period := _PERIOD.search(text):
        frequency = _FREQUENCY.search(text)
        times = max(1, int(frequency[1])) if frequency else 1
        wishes.append(timedelta(hours=_PERIODS.get(period[1].lower(), 0)) / times)
    hours = {int(hour) % 24 for block in _SKIPPED_HOURS.findall(text) for hour in _HOUR.findall(block)}
    named = {day.lower() for block in _SKIPPED_DAYS.findall(text) for day in _DAY.findall(block)}
    days = {number for number, day in enumerate(_DAYS) if day in named}
    return Hints(_seconds(max(wishes, default=timedelta())), 0, tuple(sorted(hours)), tuple(sorted(days)))


def without_entries(text: str) -> str:
    """The text before a feed's first entry and after its last one, up to HEAD_CHARACTERS_MAX each."""
    first = _ITEM.search(text)
    if first is None:
        return text[:HEAD_CHARACTERS_MAX]
    ends = [end.end() for end in _ITEM_END.finditer(text)]
    return text[: first.start()][:HEAD_CHARACTERS_MAX] + (text[ends[-1] :][:HEAD_CHARACTERS_MAX] if ends else "")


def with_answer(hints: Hints, headers: Mapping[str, str], now: datetime) -> Hints:
    """The hints with `answer_s` from an answer's headers: `Cache-Control: max-age`, else `Expires`. A 304 has them too."""
    control = headers.get("cache-control", "")
    if ages := [int(age) for age in _MAX_AGE.findall(control)]:
        return replace(hints, answer_s=_seconds(timedelta(seconds=max(ages))))
    # `no-cache` overrides `Expires` (RFC 9111, 5.3).
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
