"""Instants: read from text with a zone, kept in UTC, written as W3C datetimes.

Inside, an instant is an aware `datetime` in UTC, never in the far corner of the calendar where a zone could overflow it.
"""

import re
from datetime import UTC, datetime, timedelta

_BEFORE = datetime(1, 1, 2, tzinfo=UTC)
_AFTER = datetime(9999, 12, 30, tzinfo=UTC)
# Offsets as ISO 8601's basic form writes them (+0000), which datetime.fromisoformat of 3.11 reads, but only without colons in the time.
_BASIC_OFFSET = re.compile(r"(T\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?[+-]\d\d)(\d\d)$")
# Formatting a number takes longer than looking it up, and a file has an instant a line.
TWO_DIGITS = tuple(f"{number:02}" for number in range(100))
_LONG_FRACTION = re.compile(r"([.,]\d{6})\d+")


def parse(text: str) -> datetime:
    """An ISO 8601 date and time with a zone, as an instant in UTC.

    Raises ValueError, with what to change, for a text that is no date, a date without a time, or a time without a zone:
    a guess would put an article hours away from its place in the window.
    """
    tidy = _BASIC_OFFSET.sub(r"\1:\2", _LONG_FRACTION.sub(r"\1", text.strip().upper().replace(" ", "T", 1)))
    try:
        instant = datetime.fromisoformat(tidy)
    except ValueError:
        raise ValueError(f"{text[:60]!r} is not an ISO 8601 instant such as 2026-11-20T08:00:00Z") from None
    if instant.tzinfo is None:
        raise ValueError(f"{text[:60]!r} has no zone: add Z, or an offset such as +01:00")
    return utc(instant)


def utc(instant: datetime) -> datetime:
    """An aware instant in UTC. Raises ValueError where the calendar ends."""
    try:
        moved = instant.astimezone(UTC)
    except OverflowError:
        moved = _AFTER
    if not _BEFORE <= moved < _AFTER:
        raise ValueError(f"the year {instant.year} is outside what a sitemap can say")
    return moved


def iso(instant: datetime) -> str:
    """To the second, as files show it: 2026-11-20T08:00:00Z (W3C datetime with seconds and zone, R1.17)."""
    two, year = TWO_DIGITS, instant.year
    return (
        f"{two[year // 100]}{two[year % 100]}-{two[instant.month]}-{two[instant.day]}"
        f"T{two[instant.hour]}:{two[instant.minute]}:{two[instant.second]}Z"
    )


def exact(instant: datetime) -> str:
    """To the microsecond, always of one length, so that texts sort as the instants do."""
    return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def whole(instant: datetime) -> datetime:
    """Cut to the second, as files show it."""
    return instant.replace(microsecond=0)


def epoch_seconds(instant: datetime) -> int:
    """Seconds since 1970, as DynamoDB's time to live wants them."""
    return int((instant - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1))
