"""Instants and deadlines. Instants are read from text with a zone, kept in UTC, written as W3C datetimes.

An instant is an aware `datetime` in UTC. It is never in the first or last days of the calendar, where a conversion to a zone
could overflow.
"""

import math
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import NamedTuple
from zoneinfo import ZoneInfo

_BEFORE = datetime(1, 1, 2, tzinfo=UTC)
_AFTER = datetime(9999, 12, 30, tzinfo=UTC)
# ISO 8601's basic offsets (+0000). Python 3.11's datetime.fromisoformat reads them only in times without colons.
_BASIC_OFFSET = re.compile(r"(T\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?[+-]\d\d)(\d\d)$")
# Formatting a number is slower than a lookup, and each line of a file has an instant.
TWO_DIGITS = tuple(f"{number:02}" for number in range(100))
_LONG_FRACTION = re.compile(r"([.,]\d{6})\d+")


def parse(text: str) -> datetime:
    """Read an ISO 8601 date and time with a zone as an instant in UTC.

    Raises ValueError, with what to change, for a text that is not a date, a date without a time, or a time without a zone. A
    guessed zone could keep an article in the news for hours too long or too short.
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
    """Convert an aware datetime to UTC. Raises ValueError at either end of the calendar."""
    try:
        converted = instant.astimezone(UTC)
    except OverflowError:
        converted = _AFTER
    if not _BEFORE <= converted < _AFTER:
        raise ValueError(f"the year {instant.year} is outside what a sitemap can contain: correct the date")
    return converted


def iso(instant: datetime) -> str:
    """Return the instant to the second, as in files: 2026-11-20T08:00:00Z (W3C datetime with seconds and zone, R1.17)."""
    two, year = TWO_DIGITS, instant.year
    return (
        f"{two[year // 100]}{two[year % 100]}-{two[instant.month]}-{two[instant.day]}"
        f"T{two[instant.hour]}:{two[instant.minute]}:{two[instant.second]}Z"
    )


def local_time(instant: datetime, zone: ZoneInfo) -> str:
    """Return an instant in a time zone, as all output shows it: `2026-11-20 12:00:00 +01:00`."""
    text = instant.astimezone(zone).isoformat(" ", "seconds")
    return f"{text[:-6]} {text[-6:]}"


def exact(instant: datetime) -> str:
    """Return the instant to the microsecond. Such texts have one length and sort by time."""
    return instant.replace(tzinfo=None).isoformat(timespec="microseconds") + "Z"


def whole(instant: datetime) -> datetime:
    """Return the instant cut to the second, as in files."""
    return instant.replace(microsecond=0)


def epoch_seconds(instant: datetime) -> int:
    """Return the seconds since 1970, for DynamoDB's time to live."""
    return int((instant - datetime(1970, 1, 1, tzinfo=UTC)) / timedelta(seconds=1))


class Deadline(NamedTuple):
    """The instant at which work stops: `reserve_s` seconds before Lambda ends the function.

    `remaining_ms` is `get_remaining_time_in_millis` of Lambda's context. The reserve is the time to return unfinished work.
    """

    remaining_ms: Callable[[], float]
    reserve_s: float = 0.0

    @property
    def seconds_left(self) -> float:
        """Return the seconds until work stops; 0 afterwards."""
        return max(0.0, self.remaining_ms() / 1_000 - self.reserve_s)

    def is_over(self) -> bool:
        return self.seconds_left <= 0


NEVER = Deadline(lambda: math.inf)
OVER = Deadline(lambda: 0)
