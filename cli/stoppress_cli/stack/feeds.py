"""`stoppress feeds`: how each feed of a stack is, as the poller remembers it."""

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
from stoppress.primitives.instants import iso
from stoppress_cli.printing import counted

_HOUR, _DAY = timedelta(hours=1), timedelta(days=1)


@dataclass(frozen=True)
class Health:
    """A feed of a site, and what is remembered of it and of its subscription; None where it was not asked yet."""

    site: Site
    feed: Feed
    state: FeedState | None
    told: Subscription | None = None

    @property
    def condition(self) -> str:
        """`well`, `failing`, `gone` or `not asked yet`."""
        if self.state is None:
            return "not asked yet"
        if self.state.is_gone(self.site.version):
            return "gone"
        return "failing" if self.state.failures else "well"

    def report(self, now: datetime) -> dict[str, Any]:
        """Everything that is known, for JSON: instants ISO 8601 in UTC, the interval in minutes."""
        state, pace = self.state or FeedState(), pace_of(self.feed, self.site)
        return {
            "site": self.site.host,
            "url": self.feed.url,
            "condition": self.condition,
            "last_success": _iso(state.last_success),
            "last_new_story": _iso(self.last_new),
            "interval_minutes": interval_of(state, now, pace, self.told) / timedelta(minutes=1),
            "floor_minutes": pace.floor / timedelta(minutes=1),
            "cap_minutes": pace.cap / timedelta(minutes=1),
            "own": pace.own,
            "next_poll": None if self.condition == "gone" else _iso(state.next_poll_at),
            "failures": state.failures,
            "failing_since": _iso(state.failing_since),
            "last_error": state.last_error,
            "moved_to": state.moved_to,
            "hub": state.hub,
            "subscribed_until": _iso(self.told.lease_until) if self.told and self.is_subscribed(now) else None,
            "last_push": _iso(self.told.last_push) if self.told else None,
            "not_subscribed": self.not_subscribed(now),
        }

    @property
    def last_new(self) -> datetime | None:
        """When the last new story came, by a poll or by a push."""
        instants = [self.state and self.state.last_new, self.told and self.told.last_push]
        return max((instant for instant in instants if instant), default=None)

    def is_subscribed(self, now: datetime) -> bool:
        """Whether the hub that the feed names tells of what is new."""
        of_this_hub = self.told is not None and self.state is not None and self.told.hub == self.state.hub
        return self.feed.websub and of_this_hub and self.told is not None and self.told.holds(now)

    def not_subscribed(self, now: datetime) -> str | None:
        """Why the feed is not subscribed to at the hub that it names; None where it is, or names none."""
        hub = self.state.hub if self.state else None
        if hub is None or self.is_subscribed(now):
            return None
        if not self.feed.websub:
            return "the site's configuration has it so"
        if not can_be_trusted(hub):
            return "this hub is not https, and would be told a secret"
        if self.told is None or self.told.hub != hub:
            return "it was not asked yet"
        if self.told.refused:
            return self.told.refused
        return "it has not asked back yet" if self.told.asked_at else "the lease is over"


def health(host: str | None) -> list[Health]:
    """The feeds of a site, or of all sites of the stack. Raises UnknownSite, BadConfiguration, and what the doors raise."""
    found = [sites.load_usable(host)] if host else sites.load_all()[0]
    feeds = {feed_key(site.host, feed.url): (site, feed) for site in found for feed in site.feeds}
    items = table.get_many([*feeds, *(subscription_key(site.host, feed.url) for site, feed in feeds.values())])
    found_of = []
    for key, (site, feed) in feeds.items():
        told = items.get(subscription_key(site.host, feed.url))
        state = read_feed(items[key]) if key in items else None
        found_of.append(Health(site, feed, state, read_subscription(told) if told else None))
    return found_of


def as_lines(feeds: Sequence[Health], now: datetime) -> Iterator[str]:
    """All of it, for people: a feed's URL, then what is to be known of it."""
    if not feeds:
        yield "no feeds are polled: name them in `feeds` of a site's parameter"
    for one in feeds:
        yield f"{one.feed.url}  {one.condition}"
        if one.state is not None:
            yield from (f"  {line}" for line in _lines(one, one.state, now))


def _lines(one: Health, state: FeedState, now: datetime) -> Iterator[str]:
    pace = pace_of(one.feed, one.site)
    yield f"last success {_ago(state.last_success, now)}, last new story {_ago(one.last_new, now)}"
    if one.condition == "gone":
        yield "it answered 410 and is not asked any more; put the site's parameter again to have it asked"
    else:
        own = "" if pace.own else ", or as seldom as it asks for"
        asked = f"every {_minutes(interval_of(state, now, pace, one.told))}, between {_minutes(pace.floor)} and {_minutes(pace.cap)}"
        yield f"asked {asked}{own}; next {_at(state.next_poll_at)}"
    if state.failures:
        yield f"failing since {_at(state.failing_since)}, {state.failures} in a row: {state.last_error}"
    if state.moved_to:
        yield f"moved to {state.moved_to}: name that in the site's parameter"
    if state.hub and one.told and one.is_subscribed(now):
        trusted = "polled as a backup" if one.told.is_trusted(now) else "polled as ever"
        yield f"subscribed at {state.hub} until {_at(one.told.lease_until)}, last push {_ago(one.told.last_push, now)}; {trusted}"
    elif state.hub:
        yield f"not subscribed at {state.hub}, and polled all the same: {one.not_subscribed(now)}"


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


def _iso(instant: datetime | None) -> str | None:
    return iso(instant) if instant else None
