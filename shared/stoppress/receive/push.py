"""Requests of WebSub hubs, for feeds with a subscription: a hub confirms the subscription, or pushes new entries.

The token in the path is checked before anything is read, and a push needs a signature as well. The code that reads
polled feeds reads pushes too. A push is a part of the feed, so an entry that is missing there is not removed.
"""

import hashlib
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal, TypeAlias

from stoppress.aws import queues, secrets, sites, table
from stoppress.aws.codec import from_item
from stoppress.aws.items import Item
from stoppress.feeds import parse, subscription
from stoppress.feeds.events import to_events
from stoppress.feeds.feed_documents import FeedError, read_document
from stoppress.feeds.feed_schedule import FeedState, Seen
from stoppress.feeds.subscription import Subscription
from stoppress.feeds.websub import hub_secret, is_signed, is_token, subscription_of
from stoppress.model.http_request import Request
from stoppress.model.site import Site
from stoppress.model.site_parts import HUBS_SECRET, Feed
from stoppress.poll import feed_items, subscribe
from stoppress.primitives.text import clean
from stoppress.primitives.urls import key_of
from stoppress.receive.refused import OUR_FAULT, Refused, load_site

# Lambda takes events of 6 MB, and API Gateway encodes bodies as base64. A larger push is refused, and the next poll
# reads the feed.
BODY_BYTES_MAX = 4_500_000
# The answer repeats the challenge. Hubs send a few random letters and digits.
CHALLENGE_CHARACTERS_MAX = 1_000

# The metric that counts an answer.
Kind: TypeAlias = Literal[
    "HubsConfirmed", "HubsDenied", "HubsRefused", "PushesTaken", "PushesIgnored", "PushesUnread", "PushesRefused",
    "PushesFailed",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the hub, the metric that counts it, and further values for the log."""

    status: int
    body: str
    kind: Kind
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Known:
    """A feed with a subscription. `secrets` are those that its hub may have signed with."""

    site: Site
    feed: Feed
    state: Subscription
    secrets: tuple[str, ...]

    def about(self, **values: Any) -> dict[str, Any]:
        return {"site": self.site.host, "feed": self.feed.url, "hub": self.state.hub, **values}


def confirm(request: Request, now: datetime) -> Answer:
    """Answer a hub that verifies our request to subscribe, or that denies it (WebSub, 5.3 and 5.2)."""
    query = request.query_parameters()
    mode = query.get("hub.mode", "")
    try:
        challenge = "" if mode == "denied" else _challenge(query)
        return _confirm_subscription(_find_subscription(request), mode, query, challenge, now)
    except Refused as refusal:
        # The hub asks us to confirm the end of a subscription that has ended.
        if refusal.status == HTTPStatus.GONE and mode == "unsubscribe":
            return Answer(HTTPStatus.OK, challenge, "HubsConfirmed", {"mode": mode})
        status = HTTPStatus.NOT_FOUND if refusal.status == HTTPStatus.GONE else refusal.status
        return Answer(status, str(refusal), "HubsRefused", {"mode": mode[:40], **refusal.cause_to_log})


def _confirm_subscription(known: _Known, mode: str, query: Mapping[str, str], challenge: str, now: datetime) -> Answer:
    """Return the answer to a hub whose request is for one of our subscriptions. Raises Refused."""
    if query.get("hub.topic", "") != known.state.topic:
        raise Refused(HTTPStatus.NOT_FOUND, "no subscription to this topic was requested")
    if mode == "denied":
        reason = clean(query.get("hub.reason", ""), limit=300)
        _change_subscription(known, lambda state: subscription.denied(state, reason, now))
        return Answer(HTTPStatus.OK, "", "HubsDenied", known.about(reason=reason))
    lease = query.get("hub.lease_seconds", "").strip()
    lease_s = int(lease[:9]) if lease.isascii() and lease.isdigit() else None
    if mode != "subscribe" or not _change_subscription(known, lambda state: subscription.verified(state, lease_s, now)):
        raise Refused(HTTPStatus.NOT_FOUND, "no such subscription was requested")
    return Answer(HTTPStatus.OK, challenge, "HubsConfirmed", known.about(mode=mode, lease_s=lease_s))


def take(request: Request, now: datetime) -> Answer:
    """Queue the new entries of a push (WebSub, 7). A push with a wrong signature gets the usual answer and is ignored."""
    if len(request.body) > BODY_BYTES_MAX:
        return Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {BODY_BYTES_MAX:,} bytes", "PushesRefused")
    try:
        known = _find_subscription(request)
    except Refused as refusal:
        kind: Kind = "PushesFailed" if refusal.status == OUR_FAULT else "PushesRefused"
        return Answer(refusal.status, str(refusal), kind, refusal.cause_to_log)
    if not is_signed(request.headers, request.body, known.secrets):
        signature = request.headers.get("x-hub-signature", "")[:20] or "none"
        return Answer(HTTPStatus.ACCEPTED, "", "PushesIgnored", known.about(signature=signature))
    digest = hashlib.sha256(request.body).hexdigest()[:32]
    if digest == known.state.started:
        # The push may have ended the function by its time or memory. A poll of the feed is guarded against that.
        _make_due(known, now)
        return Answer(HTTPStatus.ACCEPTED, "", "PushesUnread", known.about(reason="it brought nothing before"))
    try:
        _change_subscription(known, lambda state: replace(state, started=digest))
        return _read(known, request, now)
    except Exception:
        with suppress(Exception):  # the queue or the table failed: the hub sends the push again
            _change_subscription(known, lambda state: replace(state, started=None))
        raise


def _read(known: _Known, request: Request, now: datetime) -> Answer:
    """Queue the new entries of a push with a valid signature. Raises the errors of the queue and the table."""
    try:
        document = read_document(request.body, request.headers)
        parsed = parse.read(document, known.state.topic, known.site, known.feed.take)
    except FeedError as error:
        # 202, although the push is unreadable: after an error the hub would send the same bytes again. A poll reads the feed.
        _make_due(known, now)
        return Answer(HTTPStatus.ACCEPTED, "", "PushesUnread", known.about(reason=str(error)))
    key = feed_items.feed_entries_key(known.site.host, known.feed.url)
    seen = from_item(Seen, table.get_many([key]).get(key, {}))
    events, skipped = to_events(parsed, known.site, now, seen.shared, feed=known.feed.url)
    polled = set(seen.digests)
    received = [(event, known.state.has_news(event, polled)) for event in events]
    new = [event for event, is_news in received if is_news]
    queues.send_articles(new)
    pushed = [event for event, is_news in received if is_news or known.state.is_owed(event)]
    _change_subscription(known, lambda state: subscription.pushed(state, pushed, now))
    about = known.about(sent=len(new), skipped=skipped[:5])
    if parsed.incomplete:
        _make_due(known, now)
        return Answer(HTTPStatus.ACCEPTED, "", "PushesUnread", about | {"reason": parsed.incomplete})
    return Answer(HTTPStatus.ACCEPTED, "", "PushesTaken", about)


def _find_subscription(request: Request) -> _Known:
    """Return the feed that a request is for. Raises Refused: 404 for a token that is not ours, 410 for an ended subscription."""
    host, feed_id, token = (request.path_parameters.get(name, "") for name in ("site", "feed", "token"))
    masters: list[str] = []
    if is_token(token):  # checked first, so that another request costs no AWS call
        try:
            masters = secrets.load(HUBS_SECRET)
        except secrets.NoSecret as error:
            reason = "the callback cannot be verified at the moment: send it again"
            raise Refused(OUR_FAULT, reason, cause=str(error)) from None
    subscribed = subscription_of(token, masters, host, feed_id)
    if subscribed is None:
        raise Refused(HTTPStatus.NOT_FOUND, "there is no such callback")
    gone = Refused(HTTPStatus.GONE, "the subscription has ended")
    try:
        site = load_site(host, lambda site: _feed_of(site, feed_id))
    except sites.UnknownSite:
        raise gone from None
    feed = _feed_of(site, feed_id)
    if feed is None or not feed.websub:
        raise gone
    keys = feed_items.subscription_key(site.host, feed.url), feed_items.feed_key(site.host, feed.url)
    kept = table.get_many(keys)
    item, polled = (kept.get(key) for key in keys)
    state = from_item(Subscription, item) if item else None
    if state is None or state.id != subscribed or (polled and from_item(FeedState, polled).hub != state.hub):
        raise gone
    return _Known(site, feed, state, tuple(hub_secret(master, host, feed_id, subscribed) for master in masters))


def _feed_of(site: Site, key: str) -> Feed | None:
    return next((feed for feed in site.feeds if key_of(feed.url) == key), None)


def _change_subscription(known: _Known, decide: Callable[[Subscription], Subscription | None]) -> Subscription | None:
    """Write what `decide` makes of the subscription. Return None if another subscription replaced it, or `decide` returns None."""

    def if_the_same(state: Subscription | None) -> Subscription | None:
        return decide(state) if state and state.id == known.state.id else None

    return subscribe.change(known.site.host, known.feed.url, if_the_same)


def _make_due(known: _Known, now: datetime) -> None:
    """Make the next run of poll_feeds poll the feed. A poll under way cannot write its state after this, and is repeated.

    Does nothing while polls of the feed fail, because its server may have asked for fewer requests.
    """

    def make_due(item: Item | None) -> Item | None:
        if item is None or item.get("failures"):
            return None
        return feed_items.feed_item(
            known.site.host, known.feed.url, replace(from_item(FeedState, item), next_poll_at=now)
        )

    with suppress(table.Conflict):
        table.update(feed_items.feed_key(known.site.host, known.feed.url), make_due)


def _challenge(query: Mapping[str, str]) -> str:
    challenge = query.get("hub.challenge", "")
    if not 0 < len(challenge) <= CHALLENGE_CHARACTERS_MAX or not challenge.isprintable():
        what = f"a text of one to {CHALLENGE_CHARACTERS_MAX:,} characters that can be printed"
        raise Refused(HTTPStatus.BAD_REQUEST, f"hub.challenge: give {what}")
    return challenge
