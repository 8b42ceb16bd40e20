"""The order of events: which of two events of an article is newer, and which event is a repeat.

Senders' clocks may be wrong. The order of an event consists of the sender's version and timestamp, the time when it was (first)
received, and whether it is a removal. The rule:

1. If both events have a `version` (both numbers or both instants), versions decide, then `sequence`. After `article.deleted`
   versions may start again, so there timestamps decide about an event with a lower version, if both events have one.
2. Else timestamps decide, as given, if both events have one. A timestamp that was ahead of Stoppress's clock counts as the time
   of receipt, if the other was not ahead. So nothing is lost when a sender corrects its clock.
3. If timestamps are equal and both events were received within a few seconds, the one received later is newer. Else a
   removal is newer.
4. Without timestamps the event received later is newer.

A timestamp ahead of Stoppress's clock is stored as given. If it were replaced by the time of receipt, each attempt of one
delivery would get another order.
"""

import base64
import hashlib
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Literal, TypeAlias

from stoppress.primitives.instants import parse

Removal: TypeAlias = Literal["", "unpublished", "deleted"]

# Timestamps often have whole seconds, so two events can share one. Two events received within this time arrived in order. After a
# longer gap one of them was delayed.
BURST = timedelta(seconds=5)
# How many deliveries an article remembers: few enough to keep its item below one write unit (1 KB).
DELIVERIES_KEPT = 8
# 48 bits: fewer than one new delivery in 10^13 is mistaken for a remembered one. In base64 that is eight characters.
_HASH_BYTES = 6
# Marks the hash of a publication without a timestamp. An unpublished article forgets such hashes.
UNDATED = "~"
# Marks the hash of a delivery with an id.
BY_ID = "#"


@dataclass(frozen=True, slots=True)
class Order:
    """An event's place among the events of its article. Instants are sortable text as `instants.exact` writes it.

    `version` and `timestamp` are the sender's, as given; `received` is by Stoppress's clock. `removal` is empty for a publication.
    """

    version: int | str | None
    sequence: int | None
    timestamp: str | None
    received: str
    removal: Removal = ""

    def is_before(self, other: "Order") -> bool:
        """Return True if `other` is newer. If both are equal, neither is newer."""
        return _compare(self, other) < 0


def _compare(order: Order, other: Order) -> int:
    """Return negative if `other` is newer, positive if `order` is newer, 0 if both have the same place."""
    by_version = _by_usable_version(order, other)
    if order.timestamp is None or other.timestamp is None:
        return by_version or _sign(order.received, other.received)
    by_timestamp = _by_instant((order.timestamp, order.received), (other.timestamp, other.received))
    # If only one version was ahead of Stoppress's clock, its event arrived late or the sender's clock was corrected since. Then
    # timestamps decide, because they may be from another clock.
    if by_version and (not by_timestamp or _is_ahead(order) == _is_ahead(other)):
        return by_version
    in_a_burst = timedelta() < abs(parse(order.received) - parse(other.received)) <= BURST
    if by_timestamp or bool(order.removal) == bool(other.removal) or in_a_burst:
        return by_timestamp or _sign(order.received, other.received)
    return 1 if order.removal else -1


def _by_usable_version(order: Order, other: Order) -> int:
    """Compare two versions; 0 if they are equal, of different kinds, or restart after a deletion."""
    if order.version is None or type(order.version) is not type(other.version):
        return 0
    by_version = _by_version(order, other)
    older = order if by_version < 0 else other
    timestamped = order.timestamp is not None and other.timestamp is not None
    restarts = timestamped and not older.removal and "deleted" in (order.removal, other.removal)
    return 0 if restarts else by_version


def _by_version(order: Order, other: Order) -> int:
    if isinstance(order.version, str) and isinstance(other.version, str):
        by_version = _by_instant((order.version, order.received), (other.version, other.received))
    else:
        by_version = _sign(order.version, other.version)
    if by_version or order.sequence is None or other.sequence is None:
        return by_version
    return _sign(order.sequence, other.sequence)


def _is_ahead(order: Order) -> bool:
    """Return True if the version is an instant that was ahead of Stoppress's clock when received."""
    return isinstance(order.version, str) and order.version > order.received


def _by_instant(instant: tuple[str, str], other: tuple[str, str]) -> int:
    """Compare two instants of a sender, each with the moment it was received."""
    if (instant[0] > instant[1]) == (other[0] > other[1]):
        return _sign(instant[0], other[0])
    return _sign(min(instant), min(other)) or _sign(instant[0], other[0])


def _sign(value: Any, other: Any) -> int:
    return int(value > other) - int(value < other)


def page_order(order: Order) -> Order:
    """Return an event's order among the claims on a URL. It has no version: versions compare within one article only."""
    return Order(None, None, order.timestamp, order.received)


def newest(*orders: Order | None) -> Order | None:
    """Return the newest of the orders; None if there is none."""
    latest = None
    for order in orders:
        if latest is None or (order is not None and latest.is_before(order)):
            latest = order
    return latest


def is_claimed_before(order: Order, other: Order, *, same_source: bool) -> bool:
    """Return True if `other` is the newer claim on a URL. Between sources a timestamp in the future counts as the time of receipt."""
    if same_source:
        return page_order(order).is_before(page_order(other))
    return own_time(order) < own_time(other)


def own_time(order: Order) -> str:
    """Return the sender's timestamp if it was not in the future when received, else the time of receipt."""
    return min(order.timestamp, order.received) if order.timestamp else order.received


def is_repeat(names: Iterable[str], deliveries: Iterable[str]) -> bool:
    """Return True if a delivery with these hashes is among the remembered ones.

    If there is an id, only the id decides: it is constant over all attempts, so another id is another delivery, even of the same content.
    """
    ids = {name for name in names if name.startswith(BY_ID)}
    return not (ids or set(names)).isdisjoint(deliveries)


def remember_deliveries(deliveries: Iterable[str], names: tuple[str, ...], *, removal: Removal) -> tuple[str, ...]:
    """Return the hashes of deliveries to remember after one more delivery, newest first. `removal` is of the article's newest event.

    An unpublished article may be published again unchanged. So it forgets the hashes of publications without a timestamp.
    """
    kept = dict.fromkeys((*names, *deliveries))
    return tuple(name for name in kept if removal != "unpublished" or name[0] != UNDATED)[: 2 * DELIVERIES_KEPT]


def hash_parts(*parts: str) -> str:
    """Return a short hash of texts."""
    digest = hashlib.sha256("\n".join(parts).encode()).digest()
    return base64.urlsafe_b64encode(digest[:_HASH_BYTES]).decode()
