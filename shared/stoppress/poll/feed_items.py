"""A feed that is due, the outcome of polling it, and its items in the table.

The items are in the partition `feed#<site>#<hash of the feed's URL>`: state, digests of the entries, subscription.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from stoppress.aws.codec import to_item
from stoppress.aws.items import Item
from stoppress.feeds.feed_schedule import FeedState, Pace, pace_of
from stoppress.feeds.subscription import Subscription
from stoppress.model.site import Site
from stoppress.model.site_parts import Feed
from stoppress.primitives.urls import key_of

Result: TypeAlias = Literal["changed", "unchanged", "failed", "not reached", "waiting", "subscribing", "not subscribed"]


@dataclass(frozen=True, slots=True)
class PollOutcome:
    """The result of one feed in a run: the number of events sent, and why entries were skipped.

    A failed feed may have sent events: the complete entries of a truncated feed are sent. A feed that was not reached is among
    the first of the next run. `needs_attention`: the feed is gone or has failed for an hour. Such a feed has an outcome in every
    run, `waiting` while it is not due. `new_trouble`: the feed has just entered that state. `our_fault`: the table or the queue
    failed, not the feed. After a request to its hub a feed has a second outcome: `subscribing` or `not subscribed`.
    """

    site: str
    url: str
    result: Result
    sent: int = 0
    skipped: tuple[str, ...] = ()
    reason: str | None = None
    needs_attention: bool = False
    new_trouble: bool = False
    our_fault: bool = False


@dataclass(frozen=True, slots=True)
class DueFeed:
    """A feed of a site that is to be polled, its state, and the revision of its item."""

    site: Site
    feed: Feed
    state: FeedState
    rev: int | None
    now: datetime  # when the run began
    waited: timedelta = timedelta()  # the time from `now` to the request

    def outcome(self, result: Result, **details: Any) -> PollOutcome:
        return PollOutcome(self.site.host, self.feed.url, result, **details)

    @property
    def has_this_configuration(self) -> bool:
        """Return True if the last body was read with the site's current configuration. If not, it is read again."""
        return self.state.config_version == self.site.version

    @property
    def pace(self) -> Pace:
        """Return how often the feed may be polled."""
        return pace_of(self.feed, self.site)

    @property
    def url(self) -> str:
        """Return the URL to fetch now: the configured URL, or the target of its permanent redirect."""
        return self.state.url_to_ask(self.feed.url, self.now)

    @property
    def host(self) -> str:
        """Return the host of the URL to fetch now."""
        return urlsplit(self.url).hostname or ""

    @property
    def conditions(self) -> Mapping[str, str]:
        """Return the conditional headers, with the validators (ETag, Last-Modified) of the last good answer, byte for byte."""
        if not self.has_this_configuration:
            return {}
        validators = {"If-None-Match": self.state.etag, "If-Modified-Since": self.state.last_modified}
        return {name: value for name, value in validators.items() if value}


def feed_key(site: str, url: str) -> tuple[str, str]:
    return f"feed#{site}#{key_of(url)}", "-"


def feed_item(site: str, url: str, state: FeedState) -> Item:
    """Return the item of a feed's state, nearly always one write unit."""
    return to_item(state, feed_key(site, url), url=url)


def feed_entries_key(site: str, url: str) -> tuple[str, str]:
    """Return the key of the digests of a feed's entries: a separate item, because most polls neither read nor write it."""
    return feed_key(site, url)[0], "entries"


def subscription_key(site: str, url: str) -> tuple[str, str]:
    """Return the key of a feed's subscription: a separate item, because poll_feeds and receive_push both write it."""
    return feed_key(site, url)[0], "hub"


def subscription_item(site: str, url: str, state: Subscription) -> Item:
    """Return the item of a feed's subscription. Nothing in it is secret."""
    return to_item(state, subscription_key(site, url), url=url)
