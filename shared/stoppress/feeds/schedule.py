"""When to ask a feed again: what is remembered of it, and what a poll changes of that. Pure functions of state and `now`.

A feed is asked between two intervals, its floor and its cap (`pace_of`): near the floor while stories come, and the more
seldom the longer none has come. What the feed itself asks for (`hints`) is a lower bound where it is not the
publisher's own. A hub that is trusted (`subscription`) has it asked as a backup only. Failures wait longer each time; a feed that
is gone (410) is not asked again under this configuration.
"""

import hashlib
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from stoppress.feeds.freshness import STALE_MAX, Freshness
from stoppress.feeds.hints import Hints
from stoppress.feeds.subscription import Subscription
from stoppress.model.site import Feed, Site
from stoppress.primitives import dates

BACKOFF_MAX = timedelta(hours=1)
# However long a server asks to be left alone, and whatever a feed says of itself, it is asked again after a day.
PAUSE_MAX = timedelta(days=1)
# Of a wait after a failure at most this part is left out, so that feeds of one broken server do not come back together.
JITTER_MAX = 0.25

# After an hour without a story the next may wait five minutes: what is left unseen stays in proportion to the silence.
QUIET_PARTS = 12
# A backup poll comes twice while what the feed holds is replaced once: what a lost push told of is still there.
POLLS_A_TURNOVER = 2
# R10.4: readers of other people's feeds ask no more often than this, unless they were told they may.
FOREIGN_FLOOR = timedelta(minutes=15)
FOREIGN_CAP = timedelta(hours=1)

# Longer than poll_feeds may run (template.yaml), shorter than the minute until its next run.
LEASE = timedelta(seconds=55)
# How long the new place of a feed is believed before the old one is asked again: a redirect may have been a mistake.
MOVE_TRUSTED = timedelta(days=1)
# From then on a feed that fails is somebody's business (the alarm).
FAILING_AFTER = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a feed may be asked. Hints of the feed are heeded unless it is the publisher's `own`."""

    floor: timedelta
    cap: timedelta
    own: bool


@dataclass(frozen=True, slots=True)
class FeedState:
    """What is remembered of a feed from one poll to the next.

    `answered_by` is where the validators come from; `last_new` when the last new story came, `known_since` when the feed
    was first read; `turnover_s` in what time all that it holds is replaced, as the last poll that found something new has seen it;
    `gone_by` the version of the site's configuration under which the server answered 410; `topic` what the
    feed is called at its `hub`. `newest` shows how new the answers are that were taken, `stale_since` is the first stale copy since.
    """

    next_poll_at: datetime | None = None
    leased_until: datetime | None = None
    etag: str | None = None
    last_modified: str | None = None
    answered_by: str | None = None
    body_digest: str | None = None
    config_version: int = 0
    hints: Hints = field(default_factory=Hints)
    failures: int = 0
    failing_since: datetime | None = None
    last_error: str | None = None
    last_success: datetime | None = None
    last_new: datetime | None = None
    known_since: datetime | None = None
    turnover_s: int | None = None
    gone_by: int | None = None
    moved_to: str | None = None
    moved_at: datetime | None = None
    hub: str | None = None
    topic: str | None = None
    newest: Freshness = field(default_factory=Freshness)
    stale_since: datetime | None = None

    def is_due(self, now: datetime, config_version: int = 0) -> bool:
        """Whether to poll in this minute's run: its time has come, and no other run is at it."""
        if self.is_gone(config_version) or (self.leased_until and self.leased_until > now):
            return False
        return self.next_poll_at is None or self.next_poll_at <= now

    def is_gone(self, config_version: int) -> bool:
        """Whether it answered 410. Whoever changes the site's configuration, or puts it again, has it asked again.

        Not by a higher version: a parameter that was deleted and made again counts from 1 again.
        """
        return self.gone_by == config_version

    def needs_somebody(self, now: datetime, config_version: int) -> bool:
        """Whether it is gone, or has failed for an hour."""
        failing = self.failing_since is not None and now - self.failing_since >= FAILING_AFTER
        return failing or self.is_gone(config_version)

    def skips_stale(self, now: datetime) -> bool:
        """Whether a stale copy is skipped. After an hour of nothing else it is taken, so that no feed freezes."""
        return self.stale_since is None or now - self.stale_since < STALE_MAX

    def url_to_ask(self, url: str, now: datetime) -> str:
        """Where to ask for the feed that is configured under `url`: there, or where it has moved to for good."""
        believed = self.moved_at is not None and now - self.moved_at < MOVE_TRUSTED
        return self.moved_to if self.moved_to and believed else url


@dataclass(frozen=True, slots=True)
class Seen:
    """What was last seen of a feed's entries: digests of their events, and the guids that several pages share, in short."""

    digests: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


def pace_of(feed: Feed, site: Site) -> Pace:
    """The pace of a feed: its own settings, or what is usual for the publisher's own feeds and for those of others."""
    own = is_own(feed, site)
    floor = timedelta(minutes=feed.interval_minutes)
    if not own and "interval_minutes" not in feed.model_fields_set:
        floor = FOREIGN_FLOOR
    usual = floor if own else FOREIGN_CAP
    cap = timedelta(minutes=feed.interval_max_minutes) if feed.interval_max_minutes else usual
    return Pace(floor, max(floor, cap), own)


def is_own(feed: Feed, site: Site) -> bool:
    """Whether a feed is the publisher's own: said so, or on the site's host or one below its domain."""
    if feed.own is not None:
        return feed.own
    host, domain = urlsplit(feed.url).hostname or "", site.host.removeprefix("www.")
    return host == domain or host.endswith(f".{domain}")


def leased(state: FeedState, now: datetime) -> FeedState:
    """The state while a run is at the feed."""
    return replace(state, leased_until=now + LEASE)


def after_success(state: FeedState, now: datetime, pace: Pace, told: Subscription | None = None) -> FeedState:
    """The state after a poll that went well; `last_new` and `hints` are those of the answer already.

    `told` is the feed's subscription, if it has one.
    """
    state = replace(
        state,
        leased_until=None,
        failures=0,
        failing_since=None,
        last_error=None,
        last_success=now,
        known_since=state.known_since or now,
        gone_by=None,
    )
    if told and told.last_push and (state.last_new is None or told.last_push > state.last_new):
        state = replace(state, last_new=told.last_push)
    interval = interval_of(state, now, pace, told)
    # In the run that is so many minutes after this one, whatever second of its minute this one began in.
    due = _minute(now) + interval
    if not pace.own:
        due = state.hints.awake(max(due, now + min(state.hints.least, PAUSE_MAX)))
    return replace(state, next_poll_at=due)


def interval_of(state: FeedState, now: datetime, pace: Pace, told: Subscription | None = None) -> timedelta:
    """How long to wait after a good answer: a part of the silence, between floor and cap, and no less than it asks for.

    Longer where its hub is trusted, though no longer than until the subscription is to be renewed, nor than what the feed
    holds is sure to stay, unless it has fallen silent since.
    """
    quiet = now - (state.last_new or state.known_since or now)
    wanted = min(max(_whole_minutes(quiet / QUIET_PARTS), pace.floor), pace.cap)
    of_today = told is not None and (told.hub, told.topic) == (state.hub, state.topic)
    if told and of_today and (backup := told.backup(now)) is not None:
        until_renewal = told.renew_at - now if told.renew_at else backup
        stays = timedelta(seconds=state.turnover_s) / POLLS_A_TURNOVER if state.turnover_s else backup
        wanted = max(wanted, _whole_minutes(min(backup, until_renewal, max(stays, quiet / QUIET_PARTS))))
    return wanted if pace.own else max(wanted, min(state.hints.least, PAUSE_MAX))


def turned_over(state: FeedState, held: int, new: int, now: datetime) -> FeedState:
    """The state after a poll that found `new` entries among the `held`, those that pushes had brought before among them.

    Where none is new, or no poll was before it, nothing is learnt.
    """
    if not new or state.last_success is None:
        return state
    return replace(state, turnover_s=max(int((now - state.last_success).total_seconds() * held / new), 1))


def after_failure(
    state: FeedState,
    now: datetime,
    pace: Pace,
    reason: str,
    *,
    url: str = "",
    retry_after: str | None = None,
    gone_by: int | None = None,
) -> FeedState:
    """The state after a poll that failed: the wait doubles each time, up to an hour, or is what the server asks for.

    `retry_after` is that header's value, seconds or a date; `gone_by` the configuration's version where it was a 410.
    A feed that had moved is asked at its old place again: the new one is no better.
    """
    failures = state.failures + 1
    full = min(pace.floor * 2 ** min(failures, 12), BACKOFF_MAX)
    wait = max(pace.floor, full * (1 - JITTER_MAX * _fraction(url, failures)))
    if not pace.own:
        wait = max(wait, min(state.hints.least, PAUSE_MAX))
    asked = min(_asked_wait(retry_after, now), PAUSE_MAX)
    return replace(
        state,
        leased_until=None,
        next_poll_at=max(_minute(now) + wait, now + asked),
        failures=failures,
        failing_since=state.failing_since or now,
        last_error=reason[:500],
        gone_by=gone_by,
        moved_to=None,
        moved_at=None,
    )


def moved(state: FeedState, asked: str, permanent_url: str | None, configured: str, now: datetime) -> FeedState:
    """The state after a good answer that came by permanent redirects, or by none: where to ask the next time."""
    target = permanent_url or (asked if asked != configured else None)
    if target is None or target == configured:
        return replace(state, moved_to=None, moved_at=None)
    # The day counts from when the old place itself said so.
    heard_again = asked == configured or target != state.moved_to
    return replace(state, moved_to=target, moved_at=now if heard_again else state.moved_at)


def _fraction(url: str, failures: int) -> float:
    """A number from 0 to 1, the same for the same feed and attempt."""
    digest = hashlib.sha256(f"{url}#{failures}".encode()).digest()
    return int.from_bytes(digest[:4]) / 0xFFFF_FFFF


def _asked_wait(retry_after: str | None, now: datetime) -> timedelta:
    text = (retry_after or "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=min(int(text[:9]), 10**9))
    until = dates.instant(text, dates.UTC_ZONE)
    return max(until - now, timedelta()) if until else timedelta()


def _whole_minutes(time: timedelta) -> timedelta:
    return timedelta(minutes=time // timedelta(minutes=1))


def _minute(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(second=0, microsecond=0)
