"""How each feed of a stack is, from the state that poll_feeds keeps."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import sites, table
from stoppress.feeds.hubs import can_be_trusted
from stoppress.feeds.schedule import FeedState, interval_of, pace_of
from stoppress.feeds.subscription import Subscription
from stoppress.model.site import Feed, Site
from stoppress.poll.items import feed_key, read_feed, read_subscription, subscription_key
from stoppress_cli.printing import counted, iso_or_none

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Health:
    """A feed of a site with its state and its subscription; None before the first request."""

    site: Site
    feed: Feed
    state: FeedState | None
    subscription: Subscription | None = None

    @property
    def condition(self) -> str:
        """`well`, `failing`, `gone` or `not asked yet`."""
        if self.state is None:
            return "not asked yet"
        if self.state.is_gone(self.site.feeds_version):
            return "gone"
        return "failing" if self.state.failures else "well"

    def report(self, now: datetime) -> dict[str, Any]:
        """The feed for programs: instants in ISO 8601 and UTC, intervals in minutes."""
        state, pace = self.state or FeedState(), pace_of(self.feed, self.site)
        return {
            "site": self.site.host,
            "url": self.feed.url,
            "condition": self.condition,
            "last_success": iso_or_none(state.last_success),
            "last_new_story": iso_or_none(self.last_new),
            "interval_minutes": interval_of(state, now, pace, self.subscription) / timedelta(minutes=1),
            "floor_minutes": pace.floor / timedelta(minutes=1),
            "cap_minutes": pace.cap / timedelta(minutes=1),
            "own": pace.own,
            "next_poll": None if self.condition == "gone" else iso_or_none(state.next_poll_at),
            "failures": state.failures,
            "failing_since": iso_or_none(state.failing_since),
            "last_error": state.last_error,
            "moved_to": state.moved_to,
            "hub": state.hub,
            "subscribed_until": iso_or_none(self.subscription.lease_until)
            if self.subscription and self.is_subscribed(now)
            else None,
            "last_push": iso_or_none(self.subscription.last_push) if self.subscription else None,
            "not_subscribed": self.not_subscribed(now),
        }

    @property
    def last_new(self) -> datetime | None:
        """When the last new story came, by poll or by push."""
        instants = [self.state and self.state.last_new, self.subscription and self.subscription.last_push]
        return max((instant for instant in instants if instant), default=None)

    def is_subscribed(self, now: datetime) -> bool:
        """Whether the hub that the feed names pushes new entries."""
        if self.subscription is None or self.state is None:
            return False
        return self.feed.websub and self.subscription.hub == self.state.hub and self.subscription.holds(now)

    def not_subscribed(self, now: datetime) -> str | None:
        """Why there is no subscription at the hub that the feed names; None if there is one, or the feed names no hub."""
        hub = self.state.hub if self.state else None
        if hub is None or self.is_subscribed(now):
            return None
        if not self.feed.websub:
            return "the site's configuration sets websub to false"
        if not can_be_trusted(hub):
            return "this hub is not https, and would get a secret"
        if self.subscription is None or self.subscription.hub != hub:
            return "no subscription was requested yet, or the stack's parameter Hubs is no"
        if self.subscription.refused:
            return self.subscription.refused
        return "the hub has not confirmed it yet" if self.subscription.asked_at else "the subscription has expired"


def states_of(host: str | None) -> list[Health]:
    """The feeds of a site, or of all sites of the stack. Raises UnknownSite, BadConfiguration, and the table's errors."""
    chosen = [site for site in sites.load_all_usable()[0] if host in (None, site.host)]
    if host and not chosen:
        chosen = [sites.load(host)]
    feeds = {feed_key(site.host, feed.url): (site, feed) for site in chosen for feed in site.feeds}
    items = table.get_many([*feeds, *(subscription_key(site.host, feed.url) for site, feed in feeds.values())])
    states = []
    for key, (site, feed) in feeds.items():
        subscription = items.get(subscription_key(site.host, feed.url))
        state = read_feed(items[key]) if key in items else None
        states.append(Health(site, feed, state, read_subscription(subscription) if subscription else None))
    return states


def as_lines(feeds: Sequence[Health], now: datetime) -> Iterator[str]:
    """The feeds for people: the URL and condition of each, then the details."""
    if not feeds:
        yield "no feeds are polled: name them in `feeds` of a site's parameter"
    for health in feeds:
        yield f"{health.feed.url}  {health.condition}"
        if health.state is not None:
            yield from (f"  {line}" for line in _lines(health, health.state, now))


def _lines(health: Health, state: FeedState, now: datetime) -> Iterator[str]:
    pace = pace_of(health.feed, health.site)
    yield f"last success {_ago(state.last_success, now)}, last new story {_ago(health.last_new, now)}"
    if health.condition == "gone":
        yield "it answered 410 and is not asked any more; put the site's parameter again to have it asked"
    else:
        own = "" if pace.own else ", or as seldom as it asks for"
        pace_text = f"every {_minutes(interval_of(state, now, pace, health.subscription))}, between {_minutes(pace.floor)} and {_minutes(pace.cap)}"
        yield f"asked {pace_text}{own}; next {_at(state.next_poll_at)}"
    if state.failures:
        yield f"failing since {_at(state.failing_since)}, {state.failures} in a row: {state.last_error}"
    if state.moved_to:
        yield f"moved to {state.moved_to}: name that in the site's parameter"
    if state.hub and health.subscription and health.is_subscribed(now):
        trusted = "polled as a backup" if health.subscription.is_trusted(now) else "polled as ever"
        yield f"subscribed at {state.hub} until {_at(health.subscription.lease_until)}, last push {_ago(health.subscription.last_push, now)}; {trusted}"
    elif state.hub:
        yield f"not subscribed at {state.hub}, and polled all the same: {health.not_subscribed(now)}"


def _at(instant: datetime | None) -> str:
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC" if instant else "at once"


def _ago(instant: datetime | None, now: datetime) -> str:
    if instant is None:
        return "never"
    age = now - instant
    unit, name = (_DAY, "day") if age >= 2 * _DAY else (_HOUR, "hour") if age >= 2 * _HOUR else (_HOUR / 60, "minute")
    return f"{_at(instant)} ({counted(age // unit, name)} ago)"


def _minutes(time: timedelta) -> str:
    return f"{time / timedelta(minutes=1):g} min"
