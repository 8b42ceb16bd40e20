"""Subscribe to the hubs that feeds link, and keep the subscription's item.

poll_feeds writes the item before it sends a request, because hubs call back before they answer. receive_push writes it too.
So `change` decides by the current item, and decides again after a conflict. A subscription counts as failed until the hub
verifies it.
"""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Executor, Future
from http import HTTPStatus
from typing import Any

from stoppress.aws import secrets, table
from stoppress.aws.codec import from_item
from stoppress.aws.items import Item
from stoppress.feeds import subscription
from stoppress.feeds.feed_schedule import FeedState
from stoppress.feeds.subscription import LEASE_WANTED, Subscription
from stoppress.feeds.websub import callback_path, can_be_trusted, hub_secret
from stoppress.http import client, errors
from stoppress.model.site_parts import HUBS_SECRET, Feed
from stoppress.poll.feed_items import DueFeed, PollOutcome, subscription_item, subscription_key
from stoppress.primitives.text import clean_html
from stoppress.primitives.urls import key_of

# Concurrent requests to hubs. With hundreds of feeds a run may end before all are sent; later runs send the others.
HUBS_AT_ONCE = 4


def may_be_pushed(feed: Feed, state: FeedState) -> bool:
    """Return True if the feed links to a hub, and both `websub` in the configuration and the stack's parameter `Hubs` allow it."""
    return bool(state.hub) and feed.websub and bool(os.environ["WEBSUB_URL"])


def load(site: str, feed: str) -> Subscription | None:
    """Return a feed's subscription; None if there is none."""
    item = table.get(*subscription_key(site, feed))
    return from_item(Subscription, item) if item else None


def change(site: str, feed: str, decide: Callable[[Subscription | None], Subscription | None]) -> Subscription | None:
    """Write the state that `decide` returns for the current one, and return it. None or an equal state is not written. Raises Conflict."""
    after: Subscription | None = None

    def decide_item(item: Item | None) -> Item | None:
        nonlocal after
        before = from_item(Subscription, item) if item else None
        after = decide(before)
        return None if after is None or after == before else subscription_item(site, feed, after)

    table.update(subscription_key(site, feed), decide_item)
    return after


def prepare_request(feed: DueFeed, hub: str, topic: str) -> tuple[Subscription, dict[str, str]] | None:
    """Note in the subscription's item that a request is about to be sent. Return the state, and the form to post.

    Return None if no request is due, for example because another run has just sent it. Raises NoSecret, and as `change`.
    """

    def note_request(before: Subscription | None) -> Subscription | None:
        is_due = before is None or before.is_to_ask(hub, topic, feed.now)
        return subscription.requested(before, hub, topic, feed.now) if is_due else None

    state = change(feed.site.host, feed.feed.url, note_request)
    if state is None:
        return None
    try:
        [master, *_] = secrets.load(HUBS_SECRET)
    except secrets.NoSecret as error:
        _note_failure(feed, state, str(error))
        raise
    names = (master, feed.site.host, key_of(feed.feed.url), state.id)
    return state, {
        "hub.mode": "subscribe",
        "hub.topic": topic,
        "hub.callback": f"{os.environ['WEBSUB_URL']}/{callback_path(*names)}",
        "hub.secret": hub_secret(*names),
        "hub.lease_seconds": str(int(LEASE_WANTED.total_seconds())),
    }


def _send(hub: str, form: dict[str, str], home: str) -> str:
    """Send a request. Return the reason if the hub does not accept it. Calls no AWS service, so it may run in a thread."""
    try:
        answer = client.post(hub, form, {"User-Agent": client.user_agent(home)})
    except errors.FetchError as error:
        return str(error)
    if HTTPStatus.OK <= answer.status < HTTPStatus.MULTIPLE_CHOICES:
        return ""
    text = clean_html(answer.body[:2_000].decode(errors="replace"), limit=200)
    return f"the hub answered {answer.status}" + (f": {text}" if text else "")


def _note_failure(feed: DueFeed, requested: Subscription, reason: str) -> None:
    """Note why a request failed, unless the hub verified it. The item already has the time of the next request."""

    def note(before: Subscription | None) -> Subscription | None:
        return subscription.failed(before, requested.asked_at, reason) if before and requested.asked_at else None

    change(feed.site.host, feed.feed.url, note)


class Hubs:
    """The requests to hubs in this run.

    A request in progress at the deadline of the run stays noted as sent. The hub calls back, or a later run sends another
    request.
    """

    def __init__(self, executor: Executor) -> None:
        self._executor = executor
        self.queued: deque[tuple[DueFeed, str, str]] = deque()
        self.waiting: dict[Future[str], tuple[DueFeed, Subscription]] = {}

    def queue(self, feed: DueFeed, state: FeedState, subscribed: Subscription | None) -> None:
        """Queue a request to the feed's hub, if one is due."""
        if not (may_be_pushed(feed.feed, state) and state.hub and state.topic and can_be_trusted(state.hub)):
            return
        if subscribed is None or subscribed.is_to_ask(state.hub, state.topic, feed.now):
            self.queued.append((feed, state.hub, state.topic))

    def send(self) -> Iterator[PollOutcome]:
        """Send queued requests, up to HUBS_AT_ONCE. Yields the outcomes of those that cannot be sent."""
        while self.queued and len(self.waiting) < HUBS_AT_ONCE:
            feed, hub, topic = self.queued.popleft()
            try:
                request = prepare_request(feed, hub, topic)
            except Exception as error:  # noqa: BLE001 - sent again after the next poll; must not stop the others
                yield feed.outcome("not subscribed", reason=f"{hub}: {_reason_of(error)}")
                continue
            if request:
                state, form = request
                self.waiting[self._executor.submit(_send, hub, form, feed.site.home)] = feed, state

    def settle(self, done: Iterable[Future[Any]]) -> Iterator[PollOutcome]:
        """Yield the outcomes of the requests that are done."""
        for answered in [future for future in done if future in self.waiting]:
            feed, state = self.waiting.pop(answered)
            try:
                if reason := answered.result():
                    _note_failure(feed, state, reason)
            except Exception as error:  # noqa: BLE001 - sent again later; must not stop the others
                reason = _reason_of(error)
            if reason:
                yield feed.outcome("not subscribed", reason=f"{state.hub}: {reason}")
            else:
                yield feed.outcome("subscribing", reason=state.hub)


def _reason_of(error: Exception) -> str:
    return str(error) if isinstance(error, secrets.NoSecret) else f"{type(error).__name__}: {error!s:.300}"
