"""The instants and waits in an answer: how long the feed asks to wait, and whether the answer is a stale copy. Pure functions.

Of two answers, the one fetched later counts as newer, so a stale copy from a cache would undo edits. Three instants show
this: when the answer was created and last modified by its headers, and the build date in the feed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

from stoppress.model.event import CLOCK_SKEW_MAX
from stoppress.primitives import dates
from stoppress.primitives.instants import iso

# The hours of each `sy:updatePeriod` (RSS 1.0, module syndication). Without `sy:updateFrequency`, one update a period.
_PERIODS = {"hourly": 1, "daily": 24, "weekly": 7 * 24, "monthly": 30 * 24, "yearly": 365 * 24}
_DAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
# The longest wait that is kept, in seconds, so that date arithmetic cannot overflow.
WAIT_MAX_S = 366 * 86_400

# The limit for the text before the first entry, and for the text after the last one. Real feeds have little there.
HEAD_CHARACTERS_MAX = 65_536

_ITEM = re.compile(r"<(?:[\w.-]+:)?(?:item|entry)[\s/>]", re.IGNORECASE)
_ITEM_END = re.compile(r"</(?:[\w.-]+:)?(?:item|entry)\s*>", re.IGNORECASE)
_TTL = re.compile(r"<ttl[^<>]*>\s*(\d{1,6})", re.IGNORECASE)
_PERIOD = re.compile(r"<(?:[\w.-]+:)updatePeriod[^<>]*>\s*(\w{1,20})", re.IGNORECASE)
_FREQUENCY = re.compile(r"<(?:[\w.-]+:)updateFrequency[^<>]*>\s*(\d{1,6})", re.IGNORECASE)
# RSS 2.0 has these elements in `skipHours` and `skipDays` alone.
_HOUR = re.compile(r"<hour[^<>]*>\s*(\d{1,2})\s*<", re.IGNORECASE)
_DAY = re.compile(r"<day[^<>]*>\s*(\w{1,20})\s*<", re.IGNORECASE)
_MAX_AGE = re.compile(r"(?:^|[\s,])(?:max-age|s-maxage)\s*=\s*\"?(\d{1,9})", re.IGNORECASE)

# Several servers may answer for one URL, and their clocks differ by seconds.
CLOCKS_APART_MAX = timedelta(seconds=60)
# An instant may go back for good reasons: the newest entry was removed, a backup restored, a time zone corrected. So after an
# hour of stale copies the answers count as new. Few caches keep a feed for longer.
STALE_MAX = timedelta(hours=1)

_AGE = re.compile(r"\s*(\d{1,9})\s*", re.ASCII)
_BUILT = re.compile(
    r"<(?:[\w.-]+:)?(?:lastBuildDate|updated)(?:\s[^<>]*)?>\s*(?:<!\[CDATA\[)?([^<>\]]{1,200})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Hints:
    """The waits that a feed asks for, in seconds: `document_s` from its elements, `answer_s` from the last answer's headers.

    `skip_hours` are 0 to 23 and `skip_days` 0 (Monday) to 6, in GMT.
    """

    document_s: int = 0
    answer_s: int = 0
    skip_hours: tuple[int, ...] = ()
    skip_days: tuple[int, ...] = ()

    @property
    def least(self) -> timedelta:
        """Return the shortest wait that the feed allows."""
        return timedelta(seconds=max(self.document_s, self.answer_s))

    def awake(self, due: datetime) -> datetime:
        """Return the first instant at or after `due` outside the skipped hours and days; `due` if all are skipped."""
        moment = due.astimezone(UTC)
        for _ in range(8 * 24):
            if moment.hour not in self.skip_hours and moment.weekday() not in self.skip_days:
                return moment
            moment = moment.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        return due


def read_hints(text: str) -> Hints:
    """Return the hints among a feed's own elements, not its entries': `ttl`, `sy:*`, `skipHours`, `skipDays`."""
    text = without_entries(text)
    waits_s = [60 * int(minutes) for minutes in _TTL.findall(text)]
    if period := _PERIOD.search(text):
        frequency = _FREQUENCY.search(text)
        waits_s.append(3_600 * _PERIODS.get(period[1].lower(), 0) // max(1, int(frequency[1]) if frequency else 1))
    hours = {int(hour) % 24 for hour in _HOUR.findall(text)}
    days = {_DAYS.index(day) for day in map(str.lower, _DAY.findall(text)) if day in _DAYS}
    return Hints(min(max(waits_s, default=0), WAIT_MAX_S), 0, tuple(sorted(hours)), tuple(sorted(days)))


def without_entries(text: str) -> str:
    """Return the text before a feed's first entry and after its last one, up to HEAD_CHARACTERS_MAX each."""
    first = _ITEM.search(text)
    if first is None:
        return text[:HEAD_CHARACTERS_MAX]
    ends = [end.end() for end in _ITEM_END.finditer(text)]
    return text[: first.start()][:HEAD_CHARACTERS_MAX] + (text[ends[-1] :][:HEAD_CHARACTERS_MAX] if ends else "")


def add_answer_hints(hints: Hints, headers: Mapping[str, str], now: datetime) -> Hints:
    """Return the hints with `answer_s` from an answer's headers: `Cache-Control: max-age`, else `Expires`. A 304 has them too."""
    control = headers.get("cache-control", "")
    if ages := [int(age) for age in _MAX_AGE.findall(control)]:
        return replace(hints, answer_s=min(max(ages), WAIT_MAX_S))
    # `no-cache` overrides `Expires` (RFC 9111, 5.3).
    expires = None if "no-cache" in control.lower() else dates.instant(headers.get("expires"), dates.UTC_ZONE)
    expires_s = int((expires - now).total_seconds()) if expires else 0
    return replace(hints, answer_s=min(max(expires_s, 0), WAIT_MAX_S))


@dataclass(frozen=True, slots=True)
class Freshness:
    """When an answer was created (`Date`, `Age`), modified (`Last-Modified`) and built (`lastBuildDate`, `updated`)."""

    made_at: datetime | None = None
    modified_at: datetime | None = None
    built_at: datetime | None = None


def read_freshness(
    headers: Mapping[str, str], now: datetime, head: str = "", zone: ZoneInfo = dates.UTC_ZONE
) -> Freshness:
    """Return the instants of an answer received at `now`; `head` is its document without the entries. Malformed values count as absent.

    No instant is later than `now`. Otherwise, once a clock that was ahead is corrected, the next answers would look stale.
    """
    date, modified_at = (dates.instant(headers.get(name), dates.UTC_ZONE) for name in ("date", "last-modified"))
    age = _AGE.fullmatch(headers.get("age", ""))
    # Most caches keep `Date` and count `Age` from it (RFC 9111, 4.2.3). Some write a new `Date` beside the `Age`.
    ends = [end for end in (date, now - timedelta(seconds=int(age[1])) if age else None) if end]
    built = _BUILT.search(head)
    built_at = dates.instant(built[1].strip(), zone) if built else None
    return Freshness(min([*ends, now]) if ends else None, _cap_at(modified_at, now), _cap_at(built_at, now))


def _cap_at(instant: datetime | None, now: datetime) -> datetime | None:
    """Return an instant, at most `now`. None if it is far ahead, because then its time zone is wrong."""
    return None if instant is None or instant - now > CLOCK_SKEW_MAX else min(instant, now)


def find_staleness(answer: Freshness, newest: Freshness) -> str | None:
    """Return why an answer is a stale copy, for the log; None unless an instant is before that of `newest`."""
    for name, label, tolerance in (
        ("made_at", "Date less Age", CLOCKS_APART_MAX),
        ("modified_at", "Last-Modified", timedelta()),
        ("built_at", "the feed's build date", timedelta()),
    ):
        instant, latest = getattr(answer, name), getattr(newest, name)
        if instant and latest and instant < latest - tolerance:
            return f"a stale copy from a cache: {label} went back from {iso(latest)} to {iso(instant)}"
    return None


def merge_freshness(newest: Freshness, answer: Freshness) -> Freshness:
    """Return the later of each pair of instants. The newest is kept, so that small steps back do not add up."""
    pairs = ((getattr(newest, field.name), getattr(answer, field.name)) for field in fields(Freshness))
    return Freshness(*(max((instant for instant in pair if instant), default=None) for pair in pairs))
