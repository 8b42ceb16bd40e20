"""Whether an answer is a stale copy from a cache: older than the newest answer that was taken. Pure functions.

A feed is a state, so what was fetched later counts as newer. A stale copy would turn edits back. Three instants show its age:
when the answer was made, when the server says that the feed changed, and when the feed says that it was built.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from stoppress.model.event import CLOCK_SKEW_MAX
from stoppress.primitives import dates
from stoppress.primitives.instants import iso

# Several servers answer for one URL, and their clocks differ by seconds.
CLOCKS_APART_MAX = timedelta(seconds=60)
# An instant may go back for good: the newest entry was removed, a backup was restored, a time zone was mended. After an
# hour of such answers the feed itself is like that. Few caches keep a feed for longer.
STALE_MAX = timedelta(hours=1)

_AGE = re.compile(r"\s*(\d{1,9})\s*", re.ASCII)
_BUILT = re.compile(
    r"<(?:[\w.-]+:)?(?:lastBuildDate|updated)(?:\s[^<>]*)?>\s*(?:<!\[CDATA\[)?([^<>\]]{1,200})", re.IGNORECASE
)


@dataclass(frozen=True, slots=True)
class Freshness:
    """How new an answer is: when it was made (`Date`, `Age`), changed (`Last-Modified`) and built (its own words)."""

    made_at: datetime | None = None
    modified_at: datetime | None = None
    built_at: datetime | None = None


def of_answer(headers: Mapping[str, str], now: datetime, head: str = "", zone: ZoneInfo = dates.UTC_ZONE) -> Freshness:
    """How new an answer is that came `now`; `head` is its document without the entries. What is ill-formed counts as absent.

    No instant is later than `now`. Else a clock that was ahead would make the answers stale that follow when it is set right.
    """
    date, modified_at = (dates.instant(headers.get(name), dates.UTC_ZONE) for name in ("date", "last-modified"))
    age = _AGE.fullmatch(headers.get("age", ""))
    # Most caches leave `Date` as it was and count `Age` from there (RFC 9111, 4.2.3); some write a new `Date` beside the `Age`.
    ends = [end for end in (date, now - timedelta(seconds=int(age[1])) if age else None) if end]
    built = _BUILT.search(head)
    built_at = dates.instant(built[1].strip(), zone) if built else None
    return Freshness(min([*ends, now]) if ends else None, _heard(modified_at, now), _heard(built_at, now))


def _heard(instant: datetime | None, now: datetime) -> datetime | None:
    """An instant, `now` at most. One that is far ahead has a wrong time zone and shows nothing: mended, it may be before `now`."""
    return None if instant is None or instant - now > CLOCK_SKEW_MAX else min(instant, now)


def staleness(answer: Freshness, newest: Freshness) -> str | None:
    """Why an answer is a stale copy, for the log; None where nothing shows that it is older than the `newest` taken."""
    for name, label, tolerance in (
        ("made_at", "Date less Age", CLOCKS_APART_MAX),
        ("modified_at", "Last-Modified", timedelta()),
        ("built_at", "the feed's build date", timedelta()),
    ):
        instant, known = getattr(answer, name), getattr(newest, name)
        if instant and known and instant < known - tolerance:
            return f"a stale copy from a cache: {label} went back from {iso(known)} to {iso(instant)}"
    return None


def newest_of(newest: Freshness, answer: Freshness) -> Freshness:
    """What is remembered after an answer that is not stale: of each instant the later, so that no tolerance adds up."""
    pairs = ((getattr(newest, one.name), getattr(answer, one.name)) for one in fields(Freshness))
    return Freshness(*(max((instant for instant in pair if instant), default=None) for pair in pairs))
