"""When to poll a feed again: the feed's state, and how a poll changes it. Pure functions of state and `now`.

The interval lies between a floor and a cap (`pace_of`). It is the floor while stories arrive, and grows with the time since the
last story. The `hints` in the feed are a lower bound, unless the feed is the publisher's own. With a trusted hub
(`subscription`) polling is only a backup. Each failure doubles the wait. A feed that is gone (410) is not polled again under
the same configuration.
"""

from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from urllib.parse import urlsplit

from stoppress.feeds.feed_hints import STALE_MAX, Freshness, Hints
from stoppress.feeds.subscription import Subscription, backoff
from stoppress.model.site import Site
from stoppress.model.site_parts import Feed

BACKOFF_MAX = timedelta(hours=1)
# The longest wait that a server or a feed can ask for.
PAUSE_MAX = timedelta(days=1)

# The wait is the time since the last story divided by this: after an hour without a story, five minutes.
IDLE_PARTS = 12
# The number of backup polls in the time that a feed takes to replace all its entries, so that a poll still finds the
# entries of a lost push.
POLLS_A_TURNOVER = 2
# Feeds of other publishers are polled at most this often, unless the configuration sets another interval.
FOREIGN_FLOOR = timedelta(minutes=15)
FOREIGN_CAP = timedelta(hours=1)

# How long a feed's new URL is used before the old one is tried again: the redirect may have been a mistake.
MOVE_TRUSTED = timedelta(days=1)
# How often to write the state of an unchanged feed that is polled each minute. Each write costs a write unit.
WRITTEN_EVERY = timedelta(minutes=15)
# An alarm fires if a feed fails for this long.
FAILING_AFTER = timedelta(hours=1)
# How long `has_just_failed_long` is true: two intervals of poll_feeds, because a run may begin some seconds late.
JUST = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Pace:
    """How often a feed may be polled. Its hints count unless it is the publisher's `own`."""

    floor: timedelta
    cap: timedelta
    own: bool


@dataclass(frozen=True, slots=True)
class FeedState:
    """The state of a feed that is kept from one poll to the next.

    `last_new`: when the last new story arrived. `known_since`: the first good poll. `turnover_s`: how long it takes to replace
    all entries, by the last poll that found new ones. `gone_by`: the version of the site's configuration under which the
    server answered 410. `topic`: the feed's URL at its `hub`. `newest`: the latest instants of the answers used so far.
    `stale_since`: the first stale copy since the last good answer.
    """

    next_poll_at: datetime | None = None
    etag: str | None = None
    last_modified: str | None = None
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
        """Return True if `next_poll_at` is reached and the feed is not gone."""
        return not self.is_gone(config_version) and (self.next_poll_at is None or self.next_poll_at <= now)

    def is_gone(self, config_version: int) -> bool:
        """Return True if the feed answered 410 under this configuration. A new version of the configuration starts polling again.

        Versions are compared for equality, because a parameter that is deleted and created again starts at 1.
        """
        return self.gone_by == config_version

    def needs_attention(self, now: datetime, config_version: int) -> bool:
        """Return True if the feed is gone, or has failed for an hour."""
        failing = self.failing_since is not None and now - self.failing_since >= FAILING_AFTER
        return failing or self.is_gone(config_version)

    def has_just_failed_long(self, now: datetime, config_version: int) -> bool:
        """Return True if the feed reached an hour of failures in the last two minutes. False for a feed that is gone."""
        if self.failing_since is None or self.is_gone(config_version):
            return False
        return FAILING_AFTER <= now - self.failing_since < FAILING_AFTER + JUST

    def skips_stale(self, now: datetime) -> bool:
        """Return True if a stale copy is skipped. After an hour one is used, so that no feed freezes."""
        return self.stale_since is None or now - self.stale_since < STALE_MAX

    def url_to_ask(self, url: str, now: datetime) -> str:
        """Return the URL to fetch: the configured `url`, or for a day the URL to which its permanent redirects lead."""
        is_trusted = self.moved_at is not None and now - self.moved_at < MOVE_TRUSTED
        return self.moved_to if self.moved_to and is_trusted else url


@dataclass(frozen=True, slots=True)
class Seen:
    """The result of the last poll: digests of the entries' events, and short hashes of guids that several pages share."""

    digests: tuple[str, ...] = ()
    shared: tuple[str, ...] = ()


def pace_of(feed: Feed, site: Site) -> Pace:
    """Return the pace of a feed: its settings, or the defaults for the publisher's own feeds and for others.

    A feed is the publisher's own by its setting, or because its host is the site's or a subdomain.
    """
    host, domain = urlsplit(feed.url).hostname or "", site.host.removeprefix("www.")
    own = host == domain or host.endswith(f".{domain}") if feed.own is None else feed.own
    floor = timedelta(minutes=feed.interval_minutes)
    if not own and "interval_minutes" not in feed.model_fields_set:
        floor = FOREIGN_FLOOR
    usual = floor if own else FOREIGN_CAP
    cap = timedelta(minutes=feed.interval_max_minutes) if feed.interval_max_minutes else usual
    return Pace(floor, max(floor, cap), own)


def after_success(state: FeedState, now: datetime, pace: Pace, subscribed: Subscription | None = None) -> FeedState:
    """Return the state after a good poll. `state` has the answer's `last_new` and `hints`; `subscribed` is the feed's subscription."""
    state = replace(
        state,
        failures=0,
        failing_since=None,
        last_error=None,
        last_success=now,
        known_since=state.known_since or now,
        gone_by=None,
    )
    if subscribed and subscribed.last_push and (state.last_new is None or subscribed.last_push > state.last_new):
        state = replace(state, last_new=subscribed.last_push)
    interval = interval_of(state, now, pace, subscribed)
    # From the start of the minute, whichever second this run began in.
    due = _minute(now) + interval
    if not pace.own:
        due = state.hints.awake(max(due, now + min(state.hints.least, PAUSE_MAX)))
    return replace(state, next_poll_at=due)


def must_be_written(before: FeedState, after: FeedState, now: datetime, *, is_pushed: bool = False) -> bool:
    """Return True if the state must be written after a poll. An unchanged state may stay unwritten if the feed is due in the next minute.

    The state of a feed that a hub may push is always written, because `turned_over` needs an exact `last_success`.
    """
    if is_pushed or before.last_success is None or now - before.last_success >= WRITTEN_EVERY:
        return True
    is_due_next = after.next_poll_at is not None and after.next_poll_at <= now + timedelta(minutes=1)
    same = replace(after, next_poll_at=before.next_poll_at, last_success=before.last_success, newest=before.newest)
    return not is_due_next or same != before


def interval_of(state: FeedState, now: datetime, pace: Pace, subscribed: Subscription | None = None) -> timedelta:
    """Return how long to wait after a good answer: a part of the time since the last story, between floor and cap.

    Another publisher's feed waits at least as long as its hints ask. A trusted hub can lengthen the wait to
    `Subscription.backup`, but not beyond the renewal of the subscription. Nor may the entries of a lost push leave the feed
    before the next poll, unless the feed has had no story for long.
    """
    idle = now - (state.last_new or state.known_since or now)
    wait = min(max(_whole_minutes(idle / IDLE_PARTS), pace.floor), pace.cap)
    is_current = subscribed is not None and (subscribed.hub, subscribed.topic) == (state.hub, state.topic)
    if subscribed and is_current and (backup := subscribed.backup(now)) is not None:
        until_renewal = subscribed.next_ask_at - now if subscribed.next_ask_at else backup
        stays = timedelta(seconds=state.turnover_s) / POLLS_A_TURNOVER if state.turnover_s else backup
        wait = max(wait, _whole_minutes(min(backup, until_renewal, max(stays, idle / IDLE_PARTS))))
    return wait if pace.own else max(wait, min(state.hints.least, PAUSE_MAX))


def turned_over(state: FeedState, total: int, new: int, now: datetime) -> FeedState:
    """Return the state with the `turnover_s` of a poll that found `new` entries among `total`. Entries of pushes count as new.

    Unchanged if none is new, or if this is the first poll.
    """
    if not new or state.last_success is None:
        return state
    return replace(state, turnover_s=max(int((now - state.last_success).total_seconds() * total / new), 1))


def after_failure(
    state: FeedState,
    now: datetime,
    pace: Pace,
    reason: str,
    *,
    url: str = "",
    pause: timedelta | None = None,
    gone_by: int | None = None,
) -> FeedState:
    """Return the state after a failed poll. The wait doubles each time, up to an hour; a longer `pause` has priority.

    `pause` is the wait that the server asks for. `gone_by` is the configuration's version after a 410. A feed that
    had moved is polled at its configured URL next, so that a wrong redirect cannot keep it failing.
    """
    failures = state.failures + 1
    wait = max(pace.floor, backoff(pace.floor, failures, BACKOFF_MAX, url))
    if not pace.own:
        wait = max(wait, min(state.hints.least, PAUSE_MAX))
    return replace(
        state,
        next_poll_at=max(_minute(now) + wait, now + min(pause or timedelta(), PAUSE_MAX)),
        failures=failures,
        failing_since=state.failing_since or now,
        last_error=reason[:500],
        gone_by=gone_by,
        moved_to=None,
        moved_at=None,
    )


def moved(state: FeedState, requested: str, permanent_url: str | None, configured: str, now: datetime) -> FeedState:
    """Return the state after a good answer to `requested`: which URL to fetch next, if permanent redirects led to `permanent_url`."""
    target = permanent_url or (requested if requested != configured else None)
    if target is None or target == configured:
        return replace(state, moved_to=None, moved_at=None)
    # MOVE_TRUSTED counts from the last time that the configured URL itself redirected.
    is_renewed = requested == configured or target != state.moved_to
    return replace(state, moved_to=target, moved_at=now if is_renewed else state.moved_at)


def _whole_minutes(time: timedelta) -> timedelta:
    return timedelta(minutes=time // timedelta(minutes=1))


def _minute(now: datetime) -> datetime:
    return now.astimezone(UTC).replace(second=0, microsecond=0)
