"""The order of events: which of two words about one article is the newer one, and which word is only a repeat.

Clocks of senders are wrong in ways that senders do not know. Three things are known of every event: what the sender says
(a version, a timestamp), when this stack first heard it, and whether it is a removal. The rule, in one paragraph:

Two events of an article are ordered by `version`, then `sequence`, if both have one of the same kind and they differ. Else the
senders' timestamps decide, as given, if both events have one. If one instant was ahead of our
clock when heard and the other was not, the first counts as the moment we heard it. So nothing is lost when a sender's clock is
set right. If that is so of two versions, timestamps that differ decide instead. Of equal
timestamps the one heard later wins if both were heard within a few seconds; else a removal wins. Without timestamps the order
of hearing decides. After `article.deleted` versions may begin anew: then timestamps decide where both events have one.
"""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Literal, TypeAlias

from stoppress.primitives.instants import exact, parse

Removal: TypeAlias = Literal["", "unpublished", "deleted"]

# Timestamps often have whole seconds, so two events can share one. If we heard both within this time, they came in order.
# A longer gap means that one was delayed.
BURST = timedelta(seconds=5)
# Deliveries that an article remembers: an article's item stays below one write unit.
DELIVERIES_KEPT = 8
# 48 bits: a new delivery is mistaken for a remembered one less than once in 10^13. In base64 it is eight characters.
_HASH_BYTES = 6
# Marks the hash of a publication without a timestamp: it is forgotten when the article is unpublished.
_UNDATED = "~"


@dataclass(frozen=True, slots=True)
class Order:
    """An event's place among the events of its article. Instants are text as `instants.exact` writes it, so they sort.

    `version` and `timestamp` are the sender's, as given; `heard` is our clock's. `removal` is empty for a publication.
    """

    version: int | str | None
    sequence: int | None
    timestamp: str | None
    heard: str
    removal: Removal = ""

    def is_before(self, other: "Order") -> bool:
        """Whether `other` is the newer word. Equal places: neither is."""
        return _compared(self, other) < 0


def _compared(order: Order, other: Order) -> int:
    """Negative if `other` is newer, positive if `order` is newer, 0 if both have the same place."""
    by_version = _by_usable_version(order, other)
    if order.timestamp is None or other.timestamp is None:
        return by_version or _sign(order.heard, other.heard)
    by_timestamp = _by_instant((order.timestamp, order.heard), (other.timestamp, other.heard))
    # Of two versions only one was ahead: its event came late, or the clock was set right. Timestamps may be another clock's.
    if by_version and (not by_timestamp or _is_ahead(order) == _is_ahead(other)):
        return by_version
    in_a_burst = timedelta() < _apart(order, other) <= BURST
    if by_timestamp or bool(order.removal) == bool(other.removal) or in_a_burst:
        return by_timestamp or _sign(order.heard, other.heard)
    return 1 if order.removal else -1


def _by_usable_version(order: Order, other: Order) -> int:
    """Compare two versions; 0 if they are equal, of two kinds, or begin anew after a deletion."""
    if order.version is None or type(order.version) is not type(other.version):
        return 0
    by_version = _by_version(order, other)
    older = order if by_version < 0 else other
    timestamped = order.timestamp is not None and other.timestamp is not None
    begins_anew = timestamped and not older.removal and "deleted" in (order.removal, other.removal)
    return 0 if begins_anew else by_version


def _by_version(order: Order, other: Order) -> int:
    if isinstance(order.version, str) and isinstance(other.version, str):
        by_version = _by_instant((order.version, order.heard), (other.version, other.heard))
    else:
        by_version = _sign(order.version, other.version)
    if by_version or order.sequence is None or other.sequence is None:
        return by_version
    return _sign(order.sequence, other.sequence)


def _is_ahead(order: Order) -> bool:
    """Whether the version is an instant that was ahead of our clock when heard."""
    return isinstance(order.version, str) and order.version > order.heard


def _by_instant(instant: tuple[str, str], other: tuple[str, str]) -> int:
    """Compare two instants of a sender, each with the moment it was heard."""
    if (instant[0] > instant[1]) == (other[0] > other[1]):
        return _sign(instant[0], other[0])
    return _sign(min(instant), min(other)) or _sign(instant[0], other[0])


def _apart(order: Order, other: Order) -> timedelta:
    return abs(parse(order.heard) - parse(other.heard))


def _sign(value: Any, other: Any) -> int:
    return int(value > other) - int(value < other)


def page_order(order: Order) -> Order:
    """The place of an event among the claims on a URL: versions count within one article only."""
    return Order(None, None, order.timestamp, order.heard)


def is_claimed_before(one: Order, other: Order, *, same_source: bool) -> bool:
    """Whether `other` is the newer claim on a URL. Clocks of two sources are compared by ours where they are ahead of it."""
    if same_source:
        return page_order(one).is_before(page_order(other))
    return _own_time(one) < _own_time(other)


def _own_time(order: Order) -> str:
    return min(order.timestamp, order.heard) if order.timestamp else order.heard


def known_by(
    *, verb: str, timestamp: datetime | None, version: int | datetime | None, delivery: str | None, digest: str
) -> tuple[str, ...]:
    """What a repeat of a delivery is known by: type, timestamp, version and content; and its id, version and content.

    Without a timestamp only a publication is known by its content: a headline may be turned back, and a story removed again.
    """
    names, digest = [], f"{version} {digest}"
    if timestamp is not None:
        names.append(_hashed(verb, exact(timestamp), digest))
    elif verb == "published":
        names.append(_UNDATED + _hashed(verb, digest))
    if delivery:
        names.append(_hashed("id", delivery, verb, digest))
    return tuple(names)


def dated_names(names: Iterable[str]) -> tuple[str, ...]:
    """The names of a delivery but for that of a publication without a timestamp."""
    return tuple(name for name in names if not name.startswith(_UNDATED))


def remembered(deliveries: Iterable[str], names: tuple[str, ...], *, removal: Removal) -> tuple[str, ...]:
    """The deliveries an article remembers after one more, newest first. What is unpublished may be published again as it was."""
    kept = [name for name in deliveries if name not in names and not (removal == "unpublished" and name[0] == _UNDATED)]
    return (*names, *kept)[: 2 * DELIVERIES_KEPT]


def _hashed(*parts: str) -> str:
    digest = hashlib.sha256("\n".join(parts).encode()).digest()
    return base64.urlsafe_b64encode(digest[:_HASH_BYTES]).decode()
