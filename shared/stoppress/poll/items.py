"""The table's items of a feed, under `feed#<site>#<hash of its URL>`: state, digests of its entries, subscription."""

from stoppress.aws.codec import to_item
from stoppress.aws.items import Item
from stoppress.feeds.schedule import FeedState, Seen
from stoppress.feeds.subscription import Subscription
from stoppress.primitives.urls import key_of


def feed_key(site: str, url: str) -> tuple[str, str]:
    return f"feed#{site}#{key_of(url)}", "-"


def feed_item(site: str, url: str, state: FeedState) -> Item:
    """The item of a feed's state, nearly always one write unit."""
    return to_item(state, feed_key(site, url), url=url)


def feed_entries_key(site: str, url: str) -> tuple[str, str]:
    """Key of the digests of a feed's entries: an item of its own, because most polls neither read nor write it."""
    return feed_key(site, url)[0], "entries"


def feed_entries_item(site: str, url: str, seen: Seen) -> Item:
    return to_item(seen, feed_entries_key(site, url))


def subscription_key(site: str, url: str) -> tuple[str, str]:
    """Key of a feed's subscription: an item of its own, because poll_feeds and receive_push both write it."""
    return feed_key(site, url)[0], "hub"


def subscription_item(site: str, url: str, state: Subscription) -> Item:
    """The item of a feed's subscription. Nothing in it is secret."""
    return to_item(state, subscription_key(site, url), url=url)
