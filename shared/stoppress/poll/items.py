"""The table's items of a feed, under `feed#<site>#<hash of its URL>`: state, digests of its entries, subscription."""

from collections.abc import Mapping, Sequence
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
    "next_poll_at", "failing_since", "last_success", "last_new", "known_since", "moved_at", "stale_since",
}  # fmt: skip
_SUBSCRIPTION_INSTANTS = {
    "asked_at", "next_ask_at", "verified_at", "lease_until", "last_push", "trusted_since", "owed_since",
}  # fmt: skip


# Key of the lease's item. poll_feeds may write only partitions that begin with `feed#`.
RUN_KEY = ("feed#", "run")


# The keys of so many feeds take at most 300 KB. An item may have 400 KB.
_UNREACHED_MAX = 1_000


def run_item(until: datetime, unreached: Sequence[str]) -> Item:
    """The item with which a run leases all feeds until an instant. `unreached`: partition keys of the feeds to poll first."""
    pk, sk = RUN_KEY
    item = {"pk": pk, "sk": sk, "leased_until": exact(until)}
    return item | ({"unreached": list(unreached[:_UNREACHED_MAX])} if unreached else {})


def leased_until(item: Mapping[str, Any]) -> datetime:
    """When the lease of a run ends."""
    return parse(item["leased_until"])


def feed_key(site: str, url: str) -> tuple[str, str]:
    return f"feed#{site}#{key_of(url)}", "-"


def feed_entries_key(site: str, url: str) -> tuple[str, str]:
    """Key of the digests of a feed's entries: an item of its own, because most polls neither read nor write it."""
    return feed_key(site, url)[0], "entries"


def feed_item(site: str, url: str, state: FeedState) -> Item:
    """The item of a feed's state, nearly always one write unit."""
    pk, sk = feed_key(site, url)
    hints = {name: value for name, value in _stored(state.hints).items() if value}
    instants = {name: iso(getattr(state.newest, name)) for name in _names(Freshness) if getattr(state.newest, name)}
    item = {"pk": pk, "sk": sk, "url": url, **_stored(state), "hints": hints or None, "newest": instants or None}
    return {name: value for name, value in item.items() if value is not None}


def read_feed(item: Mapping[str, Any]) -> FeedState:
    values = {name: item[name] for name in _names(FeedState) if name in item}
    values |= {name: parse(values[name]) for name in _FEED_INSTANTS & values.keys()}
    values |= {
        name: int(values[name]) for name in ("config_version", "failures", "gone_by", "turnover_s") if name in values
    }
    hints = values.get("hints", {})
    values["hints"] = Hints(
        int(hints.get("document_s", 0)),
        int(hints.get("answer_s", 0)),
        tuple(map(int, hints.get("skip_hours", ()))),
        tuple(map(int, hints.get("skip_days", ()))),
    )
    values["newest"] = Freshness(**{name: parse(instant) for name, instant in values.get("newest", {}).items()})
    return FeedState(**values)


def feed_entries_item(site: str, url: str, seen: Seen) -> Item:
    pk, sk = feed_entries_key(site, url)
    return {"pk": pk, "sk": sk, "digests": list(seen.digests)} | ({"shared": list(seen.shared)} if seen.shared else {})


def read_feed_entries(item: Mapping[str, Any] | None) -> Seen:
    """Read the item of the digests of a feed's entries. Without an item, nothing was seen."""
    return Seen(tuple(item["digests"]), tuple(item.get("shared", ()))) if item else Seen()


def subscription_key(site: str, url: str) -> tuple[str, str]:
    """Key of a feed's subscription: an item of its own, because poll_feeds and receive_push both write it."""
    return feed_key(site, url)[0], "hub"


def subscription_item(site: str, url: str, state: Subscription) -> Item:
    """The item of a feed's subscription. Nothing in it is secret."""
    pk, sk = subscription_key(site, url)
    return {"pk": pk, "sk": sk, "url": url, **{name: value for name, value in _stored(state).items() if value}}


def read_subscription(item: Mapping[str, Any]) -> Subscription:
    values = {name: item[name] for name in _names(Subscription) if name in item}
    values |= {name: parse(values[name]) for name in _SUBSCRIPTION_INSTANTS & values.keys()}
    values |= {name: tuple(values[name]) for name in ("pushed", "owed") if name in values}
    return Subscription(**values | {"asks": int(values.get("asks", 0))})


def _names(kind: type[FeedState | Freshness | Subscription]) -> list[str]:
    return [field.name for field in fields(kind)]


def _stored(state: FeedState | Hints | Subscription) -> dict[str, Any]:
    """The fields of a state as the table takes them: instants as text, tuples as lists."""
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    values = {name: exact(value) if isinstance(value, datetime) else value for name, value in values.items()}
    return {name: list(value) if isinstance(value, tuple) else value for name, value in values.items()}
