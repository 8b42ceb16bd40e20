"""When to ask a feed again: what is remembered of it, and what a poll changes of that."""

from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoppress import feed_dates

BACKOFF_MAX = timedelta(hours=1)
# However long a server asks to be left alone, it is asked again after a day; so is a feed that is gone (410).
PAUSE_MAX = timedelta(days=1)


@dataclass(frozen=True, slots=True)
class FeedState:
    """What is remembered of a feed from one poll to the next. `entries` are digests of what was already sent."""

    next_poll_at: datetime | None = None
    etag: str | None = None
    last_modified: str | None = None
    body_digest: str | None = None
    entries: tuple[str, ...] = ()
    config_version: int = 0
    failures: int = 0
    last_error: str | None = None
    last_success: datetime | None = None
    gone: bool = False
    moved_to: str | None = None

    def is_due(self, now: datetime) -> bool:
        """Whether to poll in this minute's run."""
        return self.next_poll_at is None or self.next_poll_at <= now


def after_success(state: FeedState, now: datetime, interval_minutes: int) -> FeedState:
    """The state after a poll that went well: due again in the run that is `interval_minutes` after this one."""
    return replace(
        state,
        next_poll_at=_minute(now) + timedelta(minutes=interval_minutes),
        failures=0,
        last_error=None,
        last_success=now,
        gone=False,
    )


def after_failure(
    state: FeedState,
    now: datetime,
    interval_minutes: int,
    reason: str,
    *,
    retry_after: str | None = None,
    gone: bool = False,
) -> FeedState:
    """The state after a poll that failed: the wait doubles each time, up to an hour, or is what the server asks for.

    `retry_after` is that header's value, seconds or a date; `gone` is a 410.
    """
    failures = state.failures + 1
    interval = timedelta(minutes=interval_minutes)
    wait = max(interval, min(interval * 2 ** min(failures, 12), BACKOFF_MAX))
    if gone:
        wait = PAUSE_MAX
    asked = min(_asked_wait(retry_after, now), PAUSE_MAX)
    return replace(
        state,
        next_poll_at=max(_minute(now) + wait, now + asked),
        failures=failures,
        last_error=reason[:500],
        gone=gone,
    )


def _asked_wait(retry_after: str | None, now: datetime) -> timedelta:
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:9]), 10**9))
    until = feed_dates.instant(text, feed_dates.UTC_ZONE)
    return max(until - now, timedelta()) if until else timedelta()


def _minute(now: datetime) -> datetime:
    return now.replace(second=0, microsecond=0)
