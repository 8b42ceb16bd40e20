"""Subscribe to the hubs that feeds name, and keep the subscription's item.

poll_feeds writes the item before it asks a hub, because hubs call back before they answer. receive_push writes it too. So
`change` decides on the present item, and decides again after a conflict. A subscription counts as failed until the hub
verifies it.
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
from stoppress.aws.codec import from_item
from stoppress.feeds import subscription
from stoppress.feeds.callbacks import callback_path, hub_secret
from stoppress.feeds.hubs import can_be_trusted
from stoppress.feeds.schedule import FeedState
from stoppress.feeds.subscription import LEASE_WANTED, Subscription
from stoppress.http import client, errors
from stoppress.model.site import Site
from stoppress.model.site_sources import HUBS_SECRET, Feed
from stoppress.poll.due import DueFeed, PollOutcome
from stoppress.poll.items import subscription_item, subscription_key
from stoppress.primitives.text import clean_html
from stoppress.primitives.urls import key_of

# Concurrent requests to hubs. With hundreds of feeds a run may end before all hubs are asked; later runs ask the others.
HUBS_AT_ONCE = 4
# Two writers seldom write one item at the same time, three hardly ever.
_ATTEMPTS_MAX = 5


class NotSubscribed(Exception):
    """The hub was not asked; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Ask:
    """A request to a hub: the site, the URL of its feed, the state with the request noted, and the form to post."""

    site: Site
    feed: str
    state: Subscription
    form: dict[str, str]


def may_be_pushed(feed: Feed, state: FeedState) -> bool:
    """Whether the feed names a hub, and `websub` in the configuration and the stack's parameter `Hubs` both allow a subscription."""
    return bool(state.hub) and feed.websub and bool(os.environ["WEBSUB_URL"])


def load(site: str, feed: str) -> Subscription | None:
    """A feed's subscription; None if there is none."""
    item = table.get_many([key := subscription_key(site, feed)]).get(key)
    return from_item(Subscription, item) if item else None


def change(site: str, feed: str, decide: Callable[[Subscription | None], Subscription | None]) -> Subscription | None:
    """Write what `decide` makes of the present state, and return it. None or an equal state is not written. Raises Conflict."""
    key = subscription_key(site, feed)
    for attempt in range(_ATTEMPTS_MAX):
        item = table.get_many([key]).get(key)
        before = from_item(Subscription, item) if item else None
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
    """Note in the subscription's item that the hub is about to be asked, and return the request.

    None if no request is due, for example because another run has just sent it. Raises NotSubscribed, and as `change`.
    """

    def to_ask(known: Subscription | None) -> Subscription | None:
        is_to_ask = known is None or known.is_to_ask(hub, topic, now)
        return subscription.requested(known, hub, topic, now) if is_to_ask else None

    state = change(site.host, feed, to_ask)
    if state is None:
        return None
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
    """Send the request. Returns the reason if the hub does not accept it. Calls no AWS service, so it may run in a thread."""
    try:
        answer = client.post(ask.state.hub, ask.form, {"User-Agent": client.user_agent(ask.site.home)})
    except errors.FetchError as error:
        return str(error)
    if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return None
    text = clean_html(answer.body[:2_000].decode(errors="replace"), limit=200)
    return f"the hub answered {answer.status}" + (f": {text}" if text else "")


def note_failure(ask: Ask, reason: str) -> None:
    """Note why a request failed. The time of the next one is in the item already."""
    _noted(ask.site, ask.feed, ask.state, reason)


def _noted(site: Site, feed: str, state: Subscription, reason: str) -> str:
    def failed(known: Subscription | None) -> Subscription | None:
        return subscription.failed(known, state.asked_at, reason) if known and state.asked_at else None

    change(site.host, feed, failed)
    return reason


class Hubs:
    """The requests to hubs in this run.

    A request that is under way at the deadline of the run stays noted as sent. The hub calls back, or a later run asks it
    again.
    """

    def __init__(self) -> None:
        self._wanted: deque[tuple[DueFeed, str, str]] = deque()
        self._executor: ThreadPoolExecutor | None = None
        self.waiting: dict[Future[str | None], tuple[DueFeed, Ask]] = {}

    @property
    def busy(self) -> bool:
        """Whether a hub is waiting to be asked, or has not answered yet."""
        return bool(self._wanted or self.waiting)

    def want(self, feed: DueFeed, state: FeedState, known: Subscription | None) -> None:
        """Queue a request to the feed's hub, if one is due."""
        if not (may_be_pushed(feed.feed, state) and state.hub and state.topic and can_be_trusted(state.hub)):
            return
        if known is None or known.is_to_ask(state.hub, state.topic, feed.now):
            self._wanted.append((feed, state.hub, state.topic))

    def ask(self) -> Iterator[PollOutcome]:
        """Send requests, up to HUBS_AT_ONCE. Yields the outcome of those that cannot be sent."""
        while self._wanted and len(self.waiting) < HUBS_AT_ONCE:
            feed, hub, topic = self._wanted.popleft()
            try:
                ask = prepared(feed.site, feed.feed.url, hub, topic, feed.now)
            except NotSubscribed as error:
                yield feed.outcome("not subscribed", reason=f"{hub}: {error}")
                continue
            except Exception as error:  # noqa: BLE001 - the next poll tries again; the others go on
                yield feed.outcome("not subscribed", reason=f"{hub}: {type(error).__name__}: {error!s:.300}")
                continue
            if ask:
                self._executor = self._executor or ThreadPoolExecutor(HUBS_AT_ONCE, thread_name_prefix="hub")
                self.waiting[self._executor.submit(send, ask)] = (feed, ask)

    def settle(self, done: Iterable[Future[Any]]) -> Iterator[PollOutcome]:
        """Yield the outcomes of the requests that are done."""
        for answered in [future for future in done if future in self.waiting]:
            feed, ask = self.waiting.pop(answered)
            try:
                reason = answered.result()
                if reason:
                    note_failure(ask, reason)
            except Exception as error:  # noqa: BLE001 - the hub is asked again later; the others go on
                reason = f"{type(error).__name__}: {error!s:.300}"
            if reason:
                yield feed.outcome("not subscribed", reason=f"{ask.state.hub}: {reason}")
            else:
                yield feed.outcome("subscribing", reason=ask.state.hub)

    def leave(self) -> None:
        """Stop waiting. Requests under way end by their own deadline."""
        if self._executor:
            self._executor.shutdown(wait=False, cancel_futures=True)
