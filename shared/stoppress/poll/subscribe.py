"""Subscribing to the hubs that feeds name, and the item in which a subscription is remembered.

The poller writes it before it asks a hub, since hubs ask back before they answer; the hub's requests write it too. So each change
is decided on what is there, and decided again where somebody was faster.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from datetime import datetime
from http import HTTPStatus
from typing import Any

from stoppress.aws import secrets, table
from stoppress.feeds import subscription
from stoppress.feeds.callbacks import callback_path, hub_secret
from stoppress.feeds.hubs import can_be_trusted
from stoppress.feeds.schedule import FeedState
from stoppress.feeds.subscription import LEASE_WANTED, Subscription
from stoppress.http import client, errors
from stoppress.model.site import HUBS_SECRET, Site
from stoppress.poll.due import DueFeed, PollOutcome
from stoppress.poll.items import read_subscription, subscription_item, subscription_key
from stoppress.primitives.text import clean
from stoppress.primitives.urls import key_of

# A stack of hundreds of feeds subscribes to a few at a time; the others are asked in a later minute, if there is none left in this.
HUBS_AT_ONCE = 4
# Two writers meet at an item once in a while, a third one hardly ever.
_ATTEMPTS_MAX = 5


class NotSubscribed(Exception):
    """The hub was not asked, or does not want to; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request that is to be sent: the feed of the site, the state that says so, and what the hub is told."""

    site: Site
    feed: str
    state: Subscription
    form: dict[str, str]


def load(site: str, feed: str) -> Subscription | None:
    """What is remembered of a feed's subscription."""
    item = table.get_many([key := subscription_key(site, feed)]).get(key)
    return read_subscription(item) if item else None


def change(site: str, feed: str, decide: Callable[[Subscription | None], Subscription | None]) -> Subscription | None:
    """What `decide` makes of the state that is there, written; where it is None or the same, nothing is. Raises Conflict."""
    key = subscription_key(site, feed)
    for attempt in range(_ATTEMPTS_MAX):
        item = table.get_many([key]).get(key)
        before = read_subscription(item) if item else None
        after = decide(before)
        if after is None or after == before:
            return after
        try:
            table.put(subscription_item(site, feed, after), int(item["rev"]) if item else None)
        except table.Conflict:
            if attempt == _ATTEMPTS_MAX - 1:
                raise
            continue
        return after
    raise AssertionError


def prepared(site: Site, feed: str, hub: str, topic: str, now: datetime) -> Ask | None:
    """Note that a feed's hub is about to be asked; None where it is not to be, or another run is at it. Raises NotSubscribed."""
    asked: list[Subscription] = []

    def to_ask(known: Subscription | None) -> Subscription | None:
        asked.clear()
        if known is None or known.is_to_ask(hub, topic, now):
            asked.append(subscription.asked(known, hub, topic, now))
        return asked[0] if asked else None

    change(site.host, feed, to_ask)
    if not asked:
        return None
    [state] = asked
    try:
        [master, *_] = secrets.load(HUBS_SECRET)
    except secrets.NoSecret as error:
        raise NotSubscribed(_noted(site, feed, state, str(error))) from None
    names = (master, site.host, key_of(feed), state.id)
    form = {
        "hub.mode": "subscribe",
        "hub.topic": topic,
        "hub.callback": f"{os.environ['WEBSUB_URL']}/{callback_path(*names)}",
        "hub.secret": hub_secret(*names),
        "hub.lease_seconds": str(int(LEASE_WANTED.total_seconds())),
    }
    return Ask(site, feed, state, form)


def send(ask: Ask) -> str | None:
    """Send the request; the reason where the hub does not take it. It touches no AWS, and may run beside others."""
    try:
        answer = client.post(ask.state.hub, ask.form, {"User-Agent": client.user_agent(ask.site.home)})
    except errors.FetchError as error:
        return str(error)
    if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    said = clean(answer.body[:2_000].decode(errors="replace"), limit=200)
    return f"the hub answered {answer.status}" + (f": {said}" if said else "")


def note_failure(ask: Ask, reason: str) -> None:
    """Note why a request came to nothing; the next one waits for the time that is noted already."""
    _noted(ask.site, ask.feed, ask.state, reason)


def _noted(site: Site, feed: str, state: Subscription, reason: str) -> str:
    def failed(known: Subscription | None) -> Subscription | None:
        return subscription.failed(known, state.asked_at, reason) if known and state.asked_at else None

    change(site.host, feed, failed)
    return reason


class Hubs:
    """The hubs that are to be asked in this run, and those that are being asked.

    What is not over by the run's deadline is noted as asked: the hub's own request tells how it ended, or it is asked again.
    """

    def __init__(self) -> None:
        self._wanted: deque[tuple[DueFeed, str, str]] = deque()
        self._executor: ThreadPoolExecutor | None = None
        self.waiting: dict[Future[str | None], tuple[DueFeed, Ask]] = {}

    @property
    def busy(self) -> bool:
        """Whether one is to be asked, or has not answered yet."""
        return bool(self._wanted or self.waiting)

    def want(self, one: DueFeed, state: FeedState, told: Subscription | None) -> None:
        """Have the feed's hub asked, if it is to be."""
        if not (one.feed.websub and state.hub and state.topic and can_be_trusted(state.hub)):
            return
        if told is None or told.is_to_ask(state.hub, state.topic, one.now):
            self._wanted.append((one, state.hub, state.topic))

    def ask(self) -> Iterator[PollOutcome]:
        """Send as many requests as may be under way at once."""
        while self._wanted and len(self.waiting) < HUBS_AT_ONCE:
            one, hub, topic = self._wanted.popleft()
            try:
                ask = prepared(one.site, one.feed.url, hub, topic, one.now)
            except NotSubscribed as error:
                yield one.outcome("not subscribed", reason=f"{hub}: {error}")
                continue
            except Exception as error:  # noqa: BLE001 - the next poll tries again; the others go on
                yield one.outcome("not subscribed", reason=f"{hub}: {type(error).__name__}: {error!s:.300}")
                continue
            if ask:
                self._executor = self._executor or ThreadPoolExecutor(HUBS_AT_ONCE, thread_name_prefix="hub")
                self.waiting[self._executor.submit(send, ask)] = (one, ask)

    def settle(self, done: Iterable[Future[Any]]) -> Iterator[PollOutcome]:
        """What the hubs have answered."""
        for answered in [one for one in done if one in self.waiting]:
            one, ask = self.waiting.pop(answered)
            try:
                reason = answered.result()
                if reason:
                    note_failure(ask, reason)
            except Exception as error:  # noqa: BLE001 - it is asked again all the same; the others go on
                reason = f"{type(error).__name__}: {error!s:.300}"
            reason = f"{ask.state.hub}: {reason}" if reason else ask.state.hub
            yield one.outcome("subscribing" if reason == ask.state.hub else "not subscribed", reason=reason)

    def leave(self) -> None:
        """Leave alone what is under way; a request ends by its own deadline."""
        if self._executor:
            self._executor.shutdown(wait=False, cancel_futures=True)
