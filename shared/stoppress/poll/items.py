"""How feeds are kept in the table: the items of `feed#<site>#<hash>`, written and read back."""

from collections.abc import Mapping
from dataclasses import fields
from datetime import datetime
from typing import Any

from stoppress.aws.items import Item
from stoppress.feeds.freshness import Freshness
from stoppress.feeds.hints import Hints
from stoppress.feeds.schedule import FeedState, Seen
from stoppress.feeds.subscription import Subscription
from stoppress.primitives.instants import exact, iso, parse
from stoppress.primitives.urls import key_of

_FEED_INSTANTS = {
    "next_poll_at", "leased_until", "failing_since", "last_success", "last_new", "known_since", "moved_at", "stale_since",
}  # fmt: skip
_SUBSCRIPTION_INSTANTS = {
    "asked_at", "next_ask_at", "verified_at", "lease_until", "last_push", "trusted_since", "owed_since",
}  # fmt: skip


def feed_key(site: str, url: str) -> tuple[str, str]:
    """Key of what is remembered of a feed."""
    return f"feed#{site}#{key_of(url)}", "-"


def feed_entries_key(site: str, url: str) -> tuple[str, str]:
    """Key of the entries of a feed that were sent already: apart, since most polls neither read nor write them."""
    return feed_key(site, url)[0], "entries"


def feed_item(site: str, url: str, state: FeedState) -> Item:
    """The item of a feed, a unit to write in nearly all cases."""
    pk, sk = feed_key(site, url)
    said = {one.name: getattr(state, one.name) for one in fields(FeedState) if one.name not in {"hints", "newest"}}
    said = {name: exact(value) if isinstance(value, datetime) else value for name, value in said.items()}
    hints = {one.name: getattr(state.hints, one.name) for one in fields(Hints)}
    hints = {name: list(value) if isinstance(value, tuple) else value for name, value in hints.items() if value}
    instants = ((one.name, getattr(state.newest, one.name)) for one in fields(Freshness))
    newest = {name: iso(instant) for name, instant in instants if instant}
    item = {"pk": pk, "sk": sk, "url": url, **said, "hints": hints or None, "newest": newest or None}
    return {name: value for name, value in item.items() if value is not None}


def read_feed(item: Mapping[str, Any]) -> FeedState:
    """Read a feed's item."""
    said = {one.name: item[one.name] for one in fields(FeedState) if one.name in item}
    said |= {name: parse(said[name]) for name in _FEED_INSTANTS & said.keys()}
    said |= {name: int(said[name]) for name in ("config_version", "failures", "gone_by", "turnover_s") if name in said}
    hints = said.get("hints", {})
    said["hints"] = Hints(
        int(hints.get("document_s", 0)),
        int(hints.get("answer_s", 0)),
        tuple(map(int, hints.get("skip_hours", ()))),
        tuple(map(int, hints.get("skip_days", ()))),
    )
    said["newest"] = Freshness(**{name: parse(instant) for name, instant in said.get("newest", {}).items()})
    return FeedState(**said)


def feed_entries_item(site: str, url: str, seen: Seen) -> Item:
    """The item of a feed's entries."""
    pk, sk = feed_entries_key(site, url)
    return {"pk": pk, "sk": sk, "digests": list(seen.digests)} | ({"shared": list(seen.shared)} if seen.shared else {})


def read_feed_entries(item: Mapping[str, Any] | None) -> Seen:
    """Read the item of a feed's entries; nothing was seen where there is none."""
    return Seen(tuple(item["digests"]), tuple(item.get("shared", ()))) if item else Seen()


def subscription_key(site: str, url: str) -> tuple[str, str]:
    """Key of a feed's subscription: apart, since the hub's requests and the poller both write it."""
    return feed_key(site, url)[0], "hub"


def subscription_item(site: str, url: str, state: Subscription) -> Item:
    """The item of a feed's subscription. Nothing in it is secret."""
    pk, sk = subscription_key(site, url)
    said = {one.name: getattr(state, one.name) for one in fields(Subscription)}
    said = {name: exact(value) if isinstance(value, datetime) else value for name, value in said.items()}
    said = {name: list(value) if isinstance(value, tuple) else value for name, value in said.items() if value}
    return {"pk": pk, "sk": sk, "url": url, **said}


def read_subscription(item: Mapping[str, Any]) -> Subscription:
    """Read a subscription's item."""
    said = {one.name: item[one.name] for one in fields(Subscription) if one.name in item}
    said |= {name: parse(said[name]) for name in _SUBSCRIPTION_INSTANTS & said.keys()}
    said |= {name: tuple(said[name]) for name in ("pushed", "owed") if name in said}
    return Subscription(**said | {"asks": int(said.get("asks", 0))})
