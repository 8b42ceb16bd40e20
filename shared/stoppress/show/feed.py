"""The status of a feed, from the state that poll_feeds keeps. Pure."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stoppress.feeds.feed_schedule import WRITTEN_EVERY, FeedState, interval_of, pace_of
from stoppress.feeds.subscription import Subscription
from stoppress.feeds.websub import can_be_trusted
from stoppress.model.site import Site
from stoppress.model.site_parts import Feed

# poll_feeds may leave the instant of the next poll unwritten for WRITTEN_EVERY. Five more minutes allow for late runs.
OVERDUE_AFTER = WRITTEN_EVERY + timedelta(minutes=5)


@dataclass(frozen=True)
class FeedStatus:
    """A feed of a site. `state` is None before the first poll, `subscription` before the first request to a hub."""

    site: Site
    feed: Feed
    state: FeedState | None
    subscription: Subscription | None = None

    @property
    def condition(self) -> str:
        """Return `healthy`, `failing`, `gone` or `not polled yet`."""
        if self.state is None:
            return "not polled yet"
        if self.state.is_gone(self.site.version):
            return "gone"
        return "failing" if self.state.failures else "healthy"

    def report(self, now: datetime) -> dict[str, Any]:
        """Return the feed under the keys of `stoppress feeds show --json`, intervals in minutes."""
        state, pace, hub = self.state or FeedState(), pace_of(self.feed, self.site), self.subscription
        return {
            "site": self.site.host,
            "url": self.feed.url,
            "condition": self.condition,
            "last_success": state.last_success,
            "last_new_story": self.last_new,
            "interval_minutes": interval_of(state, now, pace, hub) / timedelta(minutes=1),
            "floor_minutes": pace.floor / timedelta(minutes=1),
            "cap_minutes": pace.cap / timedelta(minutes=1),
            "own": pace.own,
            "next_poll": None if self.condition == "gone" else state.next_poll_at,
            "failures": state.failures,
            "failing_since": state.failing_since,
            "last_error": state.last_error,
            "moved_to": state.moved_to,
            "hub": state.hub,
            "subscribed_until": hub.lease_until if hub and self.is_subscribed(now) else None,
            "last_push": hub and hub.last_push,
            "not_subscribed": self.not_subscribed(now),
        }

    @property
    def last_new(self) -> datetime | None:
        """Return when the last new story was received, by poll or by push."""
        instants = [self.state and self.state.last_new, self.subscription and self.subscription.last_push]
        return max((instant for instant in instants if instant), default=None)

    def is_subscribed(self, now: datetime) -> bool:
        """Return True if the feed's hub pushes new entries."""
        hub, state = self.subscription, self.state
        return bool(self.feed.websub and hub and state and hub.hub == state.hub and hub.holds(now))

    def not_subscribed(self, now: datetime) -> str | None:
        """Return why there is no subscription at the feed's hub; None if there is one, or the feed has no hub."""
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
