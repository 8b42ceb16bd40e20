"""Whether an answer is a stale copy from a cache: older than the newest answer that was used. Pure functions.

Of two answers, the one fetched later counts as newer, so a stale copy would undo edits. Three instants reveal a stale
copy: when the answer was made, when it changed by the server's headers, and the build date in the feed.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from zoneinfo import ZoneInfo

from stoppress.model.event import CLOCK_SKEW_MAX
from stoppress.primitives import dates
from stoppress.primitives.instants import iso

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
class Freshness:
    """When an answer was made (`Date`, `Age`), changed (`Last-Modified`) and built (`lastBuildDate`, `updated`)."""

    made_at: datetime | None = None
    modified_at: datetime | None = None
    built_at: datetime | None = None


def of_answer(headers: Mapping[str, str], now: datetime, head: str = "", zone: ZoneInfo = dates.UTC_ZONE) -> Freshness:
    """The instants of an answer that came at `now`; `head` is its document without the entries. Malformed values count as absent.

    No instant is later than `now`. Otherwise, once a clock that was ahead is corrected, the next answers would look stale.
    """
    date, modified_at = (dates.instant(headers.get(name), dates.UTC_ZONE) for name in ("date", "last-modified"))
    age = _AGE.fullmatch(headers.get("age", ""))
    # Most caches keep `Date` and count `Age` from it (RFC 9111, 4.2.3). Some write a new `Date` beside the `Age`.
    ends = [end for end in (date, now - timedelta(seconds=int(age[1])) if age else None) if end]
    built = _BUILT.search(head)
    built_at = dates.instant(built[1].strip(), zone) if built else None
    return Freshness(min([*ends, now]) if ends else None, _until(modified_at, now), _until(built_at, now))


def _until(instant: datetime | None, now: datetime) -> datetime | None:
    """An instant, at most `now`. None if it is far ahead: then its time zone is wrong, so the real instant is unknown."""
    return None if instant is None or instant - now > CLOCK_SKEW_MAX else min(instant, now)


def staleness(answer: Freshness, newest: Freshness) -> str | None:
    """Why an answer is a stale copy, for the log; None unless an instant is before that of `newest`."""
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
    """The later of each pair of instants. The newest is kept, so that small steps back do not add up."""
    pairs = ((getattr(newest, field.name), getattr(answer, field.name)) for field in fields(Freshness))
    return Freshness(*(max((instant for instant in pair if instant), default=None) for pair in pairs))
