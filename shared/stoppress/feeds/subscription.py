"""A feed's subscription at its hub (WebSub): what is remembered of it, and what each thing that happens changes.

Pure functions of state and `now`. A subscription is asked for, and holds once the hub has asked back and we have confirmed, until
the end of its lease. While pushes bring what is new the hub is trusted, and the feed is polled as a backup only (`backup`). A poll
that finds what no push has brought in the grace ends the trust.
"""

import hashlib
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from functools import cached_property

from stoppress.model.event import ArticleEvent, digest_of
from stoppress.primitives.instants import exact

# What we ask for: the specification's own example, and what hubs usually grant.
LEASE_WANTED = timedelta(days=10)
# What is believed of a lease, whatever a hub says: one that says nothing, or 0, is asked again tomorrow.
LEASE_MIN, LEASE_USUAL, LEASE_MAX = timedelta(minutes=5), timedelta(days=1), timedelta(days=30)
# A request that came to nothing is repeated after this time, then after twice as long, and so on. A denial waits longest.
RETRY_FIRST, RETRY_MAX = timedelta(minutes=10), timedelta(days=1)

# How often a feed is polled whose hub is trusted: a fifteenth of the usual requests, and of a hub that dies in silence the first
# story is late by that much, once.
BACKUP = timedelta(minutes=15)
# A hub that has been good for an hour is left alone for five minutes: what it may lose stays in proportion to what it has brought.
TRUST_PARTS = 12
# How long a push may come after the poll that found its story: hubs fetch the feed themselves, and take their time.
GRACE = timedelta(minutes=5)

# Of what pushes have brought since the last poll; a feed that is not polled for hours forgets the oldest.
PUSHED_MAX = 100
# What a feed does not show so long after the last push, it will not show any more.
PUSHED_KEPT = timedelta(hours=1)
REASON_CHARACTERS_MAX = 500
_NAME_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class EntryDigest:
    """What an entry said: the entry and its content in short, and its version, empty where it has none."""

    entry: str
    digest: str
    version: str = ""

    @classmethod
    def of(cls, event: ArticleEvent) -> "EntryDigest":
        """The digest of an entry's event."""
        entry = hashlib.sha256(event.name.encode()).hexdigest()[:_NAME_CHARACTERS]
        changed_at = event.updated_at or event.published_at
        return cls(entry, digest_of(event), exact(changed_at) if changed_at else "")

    @classmethod
    def read(cls, text: str) -> "EntryDigest":
        """The mark that was written so."""
        return cls(*text.split(" "))

    def __str__(self) -> str:
        return f"{self.entry} {self.digest} {self.version}".rstrip()

    def is_older(self, other: "EntryDigest") -> bool:
        """Whether the other says that it is newer."""
        return bool(self.version and other.version) and self.version < other.version

    def is_of_the_same_version(self, other: "EntryDigest") -> bool:
        """Whether both speak of one entry and have the same date or the same content."""
        return self.entry == other.entry and (self.version == other.version or self.digest == other.digest)


@dataclass(frozen=True)
class Subscription:
    """What is remembered of a subscription.

    `asked_at` is set from a request until the hub has verified it; `asks` counts the requests since the last time that it has.
    `last_push` is the last one that brought something. `pushed` are marks of what pushes have brought and no poll has seen yet, one
    for each entry, `owed` those of what a poll found first (see `EntryDigest`).
    """

    hub: str
    topic: str
    asked_at: datetime | None = None
    asks: int = 0
    next_ask_at: datetime | None = None
    refused: str | None = None
    verified_at: datetime | None = None
    lease_until: datetime | None = None
    last_push: datetime | None = None
    trusted_since: datetime | None = None
    pushed: tuple[str, ...] = ()
    owed: tuple[str, ...] = ()
    owed_since: datetime | None = None

    @property
    def id(self) -> str:
        """Of hub and topic: part of the callback, so that a hub that was left is told apart."""
        return hashlib.sha256(f"{self.hub}\n{self.topic}".encode()).hexdigest()[:16]

    @cached_property
    def marks(self) -> dict[str, "EntryDigest"]:
        """The marks of what pushes have brought, by the entry."""
        return {mark.entry: mark for mark in map(EntryDigest.read, self.pushed)}

    def has_news(self, event: ArticleEvent, polled: Container[str]) -> bool:
        """Whether an entry of a push or poll says something that was not heard last; `polled` are digests of what the last poll saw.

        A push has the last word of an entry, though not over a newer version: a feed may lag behind its hub.
        """
        mark = EntryDigest.of(event)
        last = self.marks.get(mark.entry)
        if last is None:
            return mark.digest not in polled
        return mark.digest != last.digest and not mark.is_older(last)

    def has_overtaken(self, event: ArticleEvent) -> bool:
        """Whether a push has said something newer of an entry of a poll."""
        mark = EntryDigest.of(event)
        last = self.marks.get(mark.entry)
        return last is not None and mark.digest != last.digest and mark.is_older(last)

    @property
    def renew_at(self) -> datetime | None:
        """When to ask for another lease: in the middle of this one, at a moment of the feed's own."""
        if not (self.verified_at and self.lease_until):
            return None
        return self.verified_at + (self.lease_until - self.verified_at) * (0.4 + 0.2 * _fraction(self.id))

    def holds(self, now: datetime) -> bool:
        """Whether the hub has said that it will tell."""
        return self.lease_until is not None and now < self.lease_until

    def is_trusted(self, now: datetime) -> bool:
        """Whether its pushes bring what is new."""
        return self.trusted_since is not None and self.holds(now)

    def is_to_ask(self, hub: str, topic: str, now: datetime) -> bool:
        """Whether to send a request for this hub and topic now.

        A feed that names another hub or topic with each answer has one asked once in a while only.
        """
        if (hub, topic) != (self.hub, self.topic):
            last = self.asked_at or self.verified_at
            return last is None or now - last >= RETRY_FIRST
        if self.next_ask_at:
            return now >= self.next_ask_at
        return not self.holds(now) or (self.renew_at is not None and now >= self.renew_at)

    def backup(self, now: datetime) -> timedelta | None:
        """How long the feed may be left alone; None where polling does not rely on the hub."""
        if not self.is_trusted(now) or self.trusted_since is None:
            return None
        wait = min((now - self.trusted_since) / TRUST_PARTS, BACKUP)
        return min(wait, max(self.owed_since + GRACE - now, timedelta())) if self.owed_since else wait


def asked(known: Subscription | None, hub: str, topic: str, now: datetime) -> Subscription:
    """The state when a request is about to be sent. Until it is verified it counts as one that came to nothing."""
    same = known if known and (known.hub, known.topic) == (hub, topic) else Subscription(hub, topic)
    wait = min(RETRY_FIRST * 2 ** min(same.asks, 12), RETRY_MAX)
    wait -= wait * 0.25 * _fraction(f"{same.id}#{same.asks}")
    return replace(same, asked_at=now, asks=same.asks + 1, next_ask_at=now + wait)


def failed(state: Subscription, asked_at: datetime, reason: str) -> Subscription:
    """The state when the request of that instant has failed; the hub may have verified it all the same."""
    return replace(state, refused=reason[:REASON_CHARACTERS_MAX]) if state.asked_at == asked_at else state


def verified(state: Subscription, lease_s: int | None, now: datetime) -> Subscription | None:
    """The state when the hub asks whether we want it; None where nobody asked for it.

    A hub that did not hear our answer asks again, and may.
    """
    if state.asked_at is None and not state.holds(now):
        return None
    lease = min(max(timedelta(seconds=lease_s), LEASE_MIN), LEASE_MAX) if lease_s else LEASE_USUAL
    return replace(
        state, asked_at=None, asks=0, next_ask_at=None, refused=None, verified_at=now, lease_until=now + lease
    )


def denied(state: Subscription, reason: str, now: datetime) -> Subscription:
    """The state when the hub says that it will not tell, or will not any more (WebSub, 5.2)."""
    return replace(
        state,
        asked_at=None,
        next_ask_at=now + RETRY_MAX,
        refused=f"the hub denied it: {reason or 'it gave no reason'}"[:REASON_CHARACTERS_MAX],
        lease_until=None,
        trusted_since=None,
        owed=(),
        owed_since=None,
    )


def told(state: Subscription, brought: Sequence[ArticleEvent], now: datetime) -> Subscription:
    """The state after a push; `brought` is what was new in it, or owed."""
    marks = [EntryDigest.of(event) for event in brought]
    if not marks:
        return state
    kept = [mark for mark in state.marks.values() if mark.entry not in {one.entry for one in marks}]
    owed = _unpaid(state, marks)
    return replace(
        state,
        last_push=now,
        trusted_since=state.trusted_since or now,
        pushed=tuple(map(str, [*marks, *kept][:PUSHED_MAX])),
        owed=owed,
        owed_since=state.owed_since if owed else None,
    )


def polled(
    state: Subscription, new: Sequence[ArticleEvent], seen: Collection[str], now: datetime, *, blamed: bool = True
) -> Subscription:
    """The state after a poll that found `new` in a feed, of all whose entries `seen` are the digests.

    What it has seen of what pushes brought needs no mark any more. What no push has brought is owed, and where that is overdue,
    the trust is over. A hub without trust that misses something is asked anew, once a day at most: it may have lost the subscription.
    Not `blamed`: what is new is no fault of the hub.
    """
    marks = [EntryDigest.of(event) for event in new]
    sent = {mark.entry for mark in marks}
    left = [mark for mark in state.marks.values() if mark.digest not in seen and mark.entry not in sent]
    if seen and state.last_push and now - state.last_push >= PUSHED_KEPT:
        left = []
    brought = state.marks
    owing = [
        mark
        for mark in marks
        if blamed and not ((last := brought.get(mark.entry)) and mark.is_of_the_same_version(last))
    ]
    after = replace(state, pushed=tuple(map(str, left)))
    overdue = state.owed_since is not None and now - state.owed_since >= GRACE
    if not state.is_trusted(now) or overdue:
        if (overdue or owing) and state.verified_at and now - state.verified_at >= RETRY_MAX:
            after = replace(after, next_ask_at=state.next_ask_at or now)
        return replace(after, trusted_since=None, owed=(), owed_since=None)
    owed = tuple(dict.fromkeys((*state.owed, *map(str, owing))))[:PUSHED_MAX]
    return replace(after, owed=owed, owed_since=(state.owed_since or now) if owed else None)


def is_owed(state: Subscription, event: ArticleEvent) -> bool:
    """Whether a poll has found this first."""
    return len(_unpaid(state, [EntryDigest.of(event)])) < len(state.owed)


def _unpaid(state: Subscription, brought: Sequence[EntryDigest]) -> tuple[str, ...]:
    return tuple(
        text for text in state.owed if not any(EntryDigest.read(text).is_of_the_same_version(one) for one in brought)
    )


def _fraction(text: str) -> float:
    """A number from 0 to 1, the same for the same text."""
    return int.from_bytes(hashlib.sha256(text.encode()).digest()[:4]) / 0xFFFF_FFFF
