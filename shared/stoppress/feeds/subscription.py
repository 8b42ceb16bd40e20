"""A feed's subscription at its hub (WebSub): its state, and how each event changes the state.

Pure functions of state and `now`. A subscription is valid from the hub's verification to the end of its lease. While pushes deliver
the new entries, the hub is trusted, and the feed is polled only as a backup (`backup`). The trust ends if a poll finds an
entry that no push delivers within GRACE.
"""

import hashlib
from collections.abc import Collection, Container, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoppress.model.event import ArticleEvent, digest_of
from stoppress.primitives.instants import exact

# The requested lease: the example in the specification, which hubs usually grant.
LEASE_WANTED = timedelta(days=10)
# The lease if the hub sends none or 0.
LEASE_USUAL = timedelta(days=1)
# A failed request is repeated after RETRY_FIRST, then after twice as long, and so on. After a denial the wait is RETRY_MAX.
# A lease is renewed near its middle, but no sooner than RETRY_FIRST.
RETRY_FIRST, RETRY_MAX = timedelta(minutes=10), timedelta(days=1)
# A wait is shortened by up to this part, so that the feeds of one server are not renewed together.
JITTER_MAX = 0.25

# The longest wait between backup polls. Polls each minute would send fifteen times as many requests. If the hub stops
# silently, a story is late by up to this time.
BACKUP = timedelta(minutes=15)
# The wait for a backup poll is the time of trust divided by this: after an hour of trust, five minutes.
TRUST_PARTS = 12
# How long after the poll a push may arrive. Hubs fetch the feed themselves, which takes time.
GRACE = timedelta(minutes=5)

# The limit for digests of pushed entries that no poll has seen yet. If a feed is not polled for hours, the oldest are dropped.
PUSHED_MAX = 100
# A feed that does not show an entry this long after the last push will never show it.
PUSHED_KEPT = timedelta(hours=1)
REASON_CHARACTERS_MAX = 500
_NAME_CHARACTERS = 12


@dataclass(frozen=True, slots=True)
class EntryDigest:
    """An entry, its content and its version: two short hashes and an instant, which is empty if the entry has no date."""

    entry: str
    digest: str
    version: str = ""

    @classmethod
    def of(cls, event: ArticleEvent) -> "EntryDigest":
        entry = hashlib.sha256(event.name.encode()).hexdigest()[:_NAME_CHARACTERS]
        changed_at = event.updated_at or event.published_at
        return cls(entry, digest_of(event), exact(changed_at) if changed_at else "")

    def is_older(self, other: "EntryDigest") -> bool:
        return bool(self.version and other.version) and self.version < other.version

    def is_of_the_same_version(self, other: "EntryDigest") -> bool:
        """Return True if both are of one entry, and have the same date or the same content."""
        return self.entry == other.entry and (self.version == other.version or self.digest == other.digest)


@dataclass(frozen=True)
class Subscription:
    """The state of a subscription.

    `asked_at` is the last request's time until the hub verifies it; `asks` counts requests since the last verification.
    `next_ask_at` is when the next request is due, whether or not the last one failed.
    `last_push` is the last push with a new entry. `pushed` has an `EntryDigest` for each entry that pushes delivered
    and no poll has seen. If a push delivers an edit and the publisher then undoes the edit, an earlier poll has seen the
    restored version. Only `pushed` shows that this version is news. `owed` has the entries that a poll found before any push.
    `started` is the digest of a push whose reading began and has delivered nothing.
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
    pushed: tuple[EntryDigest, ...] = ()
    owed: tuple[EntryDigest, ...] = ()
    owed_since: datetime | None = None
    started: str | None = None

    @property
    def id(self) -> str:
        """Return a hash of hub and topic. It is part of the callback URL, so that a former hub's requests are recognised."""
        return hashlib.sha256(f"{self.hub}\n{self.topic}".encode()).hexdigest()[:16]

    def has_news(self, event: ArticleEvent, polled: Container[str]) -> bool:
        """Return True if an entry of a push or poll is new; `polled` are the digests of the entries in the last poll.

        An entry that a push delivered is compared with that push, because a feed may lag behind its hub. An older version is
        never new.
        """
        digest = EntryDigest.of(event)
        last = self._last_push_of(digest)
        if last is None:
            return digest.digest not in polled
        return digest.digest != last.digest and not digest.is_older(last)

    def has_overtaken(self, event: ArticleEvent) -> bool:
        """Return True if a push delivered a newer version of an entry of a poll."""
        digest = EntryDigest.of(event)
        last = self._last_push_of(digest)
        return last is not None and digest.digest != last.digest and digest.is_older(last)

    def is_owed(self, event: ArticleEvent) -> bool:
        """Return True if a poll found this event before any push."""
        return any(EntryDigest.of(event).is_of_the_same_version(owed) for owed in self.owed)

    def _last_push_of(self, digest: EntryDigest) -> EntryDigest | None:
        return next((last for last in self.pushed if last.entry == digest.entry), None)

    def holds(self, now: datetime) -> bool:
        """Return True if the hub has verified the subscription and its lease has not ended."""
        return self.lease_until is not None and now < self.lease_until

    def is_trusted(self, now: datetime) -> bool:
        """Return True if the hub is trusted: its pushes have delivered the new entries."""
        return self.trusted_since is not None and self.holds(now)

    def is_to_ask(self, hub: str, topic: str, now: datetime) -> bool:
        """Return True if a request for this hub and topic is due.

        A feed that links another hub or topic in each answer causes at most one request in each RETRY_FIRST.
        """
        if (hub, topic) != (self.hub, self.topic):
            last = self.asked_at or self.verified_at
            return last is None or now - last >= RETRY_FIRST
        return self.next_ask_at is None or now >= self.next_ask_at

    def backup(self, now: datetime) -> timedelta | None:
        """Return how long the next poll may wait; None if the hub is not trusted."""
        if not self.is_trusted(now) or self.trusted_since is None:
            return None
        wait = min((now - self.trusted_since) / TRUST_PARTS, BACKUP)
        return min(wait, max(self.owed_since + GRACE - now, timedelta())) if self.owed_since else wait


def requested(state: Subscription | None, hub: str, topic: str, now: datetime) -> Subscription:
    """Return the state before a request is sent. The request counts as failed until the hub verifies it."""
    before = state if state and (state.hub, state.topic) == (hub, topic) else Subscription(hub, topic)
    wait = backoff(RETRY_FIRST, before.asks, RETRY_MAX, before.id)
    return replace(before, asked_at=now, asks=before.asks + 1, next_ask_at=now + wait)


def failed(state: Subscription, asked_at: datetime, reason: str) -> Subscription:
    """Return the state after the request sent at `asked_at` failed; unchanged if the hub has verified it nevertheless."""
    return replace(state, refused=reason[:REASON_CHARACTERS_MAX]) if state.asked_at == asked_at else state


def verified(state: Subscription, lease_s: int | None, now: datetime) -> Subscription | None:
    """Return the state after the hub verified the subscription; None if Stoppress did not request it.

    A hub that missed our answer may verify again.
    """
    if state.asked_at is None and not state.holds(now):
        return None
    lease = timedelta(seconds=lease_s) if lease_s else LEASE_USUAL
    renewal = now + max(shorten(lease / 2, state.id), RETRY_FIRST)
    return replace(
        state, asked_at=None, asks=0, next_ask_at=renewal, refused=None, verified_at=now, lease_until=now + lease
    )


def denied(state: Subscription, reason: str, now: datetime) -> Subscription:
    """Return the state after the hub denied or ended the subscription (WebSub, 5.2)."""
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


def pushed(state: Subscription, news: Sequence[ArticleEvent], now: datetime) -> Subscription:
    """Return the state after a push. `news` are the events of the push that were new or owed."""
    digests = [EntryDigest.of(event) for event in news]
    if not digests:
        return state
    entries = {digest.entry for digest in digests}
    kept = [digest for digest in state.pushed if digest.entry not in entries]
    owed = tuple(owed for owed in state.owed if not any(map(owed.is_of_the_same_version, digests)))
    return replace(
        state,
        last_push=now,
        trusted_since=state.trusted_since or now,
        pushed=tuple([*digests, *kept][:PUSHED_MAX]),
        owed=owed,
        owed_since=state.owed_since if owed else None,
        started=None,
    )


def polled(
    state: Subscription, new: Sequence[ArticleEvent], seen: Collection[str], now: datetime, *, blamed: bool = True
) -> Subscription:
    """Return the state after a poll that found the events `new`; `seen` are the digests of all entries in the feed.

    An entry that the poll has seen is removed from `pushed`. A new entry that no push delivered is owed. An entry owed for longer than
    GRACE ends the trust. If an untrusted hub misses an entry, the subscription is requested again, at most once a day: the hub
    may have lost it. Without `blamed`, a missing push is not the hub's fault, and no entry is owed.
    """
    digests = [EntryDigest.of(event) for event in new]
    sent = {digest.entry for digest in digests}
    kept = [digest for digest in state.pushed if digest.digest not in seen and digest.entry not in sent]
    if seen and state.last_push and now - state.last_push >= PUSHED_KEPT:
        kept = []
    missed = [digest for digest in digests if blamed and not any(map(digest.is_of_the_same_version, state.pushed))]
    after = replace(state, pushed=tuple(kept))
    overdue = state.owed_since is not None and now - state.owed_since >= GRACE
    if state.is_trusted(now) and not overdue:
        owed = tuple(dict.fromkeys((*state.owed, *missed)))[:PUSHED_MAX]
        return replace(after, owed=owed, owed_since=(state.owed_since or now) if owed else None)
    is_old = state.holds(now) and state.verified_at is not None and now - state.verified_at >= RETRY_MAX
    if (overdue or missed) and is_old and not state.asked_at:
        after = replace(after, next_ask_at=now)
    return replace(after, trusted_since=None, owed=(), owed_since=None)


def backoff(first: timedelta, failures: int, longest: timedelta, key: str) -> timedelta:
    """Return the wait after a number of failures: twice as long each time, up to `longest`, then shortened."""
    return shorten(min(first * 2 ** min(failures, 12), longest), f"{key}#{failures}")


def shorten(wait: timedelta, key: str) -> timedelta:
    """Return the wait less a part of up to JITTER_MAX, the same part for the same key."""
    return wait * (1 - JITTER_MAX * int.from_bytes(hashlib.sha256(key.encode()).digest()[:4]) / 0xFFFF_FFFF)
