"""Requests of WebSub hubs, for feeds with a subscription: a hub confirms the subscription, or pushes new entries.

The token in the path is checked before any AWS call, and a push must be signed as well. Pushes are parsed by the same code
as polled feeds. A push contains only a part of the feed, so an entry that it lacks is not removed.
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
# reads its entries.
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
class _Match:
    """The feed and the subscription of a request, and the secrets with which the hub may have signed."""

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
        challenge = "" if mode == "denied" else _read_challenge(query)
        return _confirm_subscription(_find_subscription(request), mode, query, challenge, now)
    except Refused as refusal:
        # The hub verifies an unsubscription, and the subscription has ended.
        if refusal.status == HTTPStatus.GONE and mode == "unsubscribe":
            return Answer(HTTPStatus.OK, challenge, "HubsConfirmed", {"mode": mode})
        status = HTTPStatus.NOT_FOUND if refusal.status == HTTPStatus.GONE else refusal.status
        return Answer(status, str(refusal), "HubsRefused", {"mode": mode[:40], **refusal.cause_to_log})


def _confirm_subscription(match: _Match, mode: str, query: Mapping[str, str], challenge: str, now: datetime) -> Answer:
    """Return the answer to a hub whose request is for one of our subscriptions. Raises Refused."""
    if query.get("hub.topic", "") != match.state.topic:
        raise Refused(HTTPStatus.NOT_FOUND, "no subscription to this topic was requested")
    if mode == "denied":
        reason = clean(query.get("hub.reason", ""), limit=300)
        _change_subscription(match, lambda state: subscription.denied(state, reason, now))
        return Answer(HTTPStatus.OK, "", "HubsDenied", match.about(reason=reason))
    lease = query.get("hub.lease_seconds", "").strip()
    lease_s = int(lease[:9]) if lease.isascii() and lease.isdigit() else None
    if mode != "subscribe" or not _change_subscription(match, lambda state: subscription.verified(state, lease_s, now)):
        raise Refused(HTTPStatus.NOT_FOUND, "no such subscription was requested")
    return Answer(HTTPStatus.OK, challenge, "HubsConfirmed", match.about(mode=mode, lease_s=lease_s))


def take(request: Request, now: datetime) -> Answer:
    """Queue the new entries of a push (WebSub, 7). A push with a wrong signature gets the usual answer and is ignored."""
    if len(request.body) > BODY_BYTES_MAX:
        return Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {BODY_BYTES_MAX:,} bytes", "PushesRefused")
    try:
        match = _find_subscription(request)
    except Refused as refusal:
        kind: Kind = "PushesFailed" if refusal.status == OUR_FAULT else "PushesRefused"
        return Answer(refusal.status, str(refusal), kind, refusal.cause_to_log)
    if not is_signed(request.headers, request.body, match.secrets):
        signature = request.headers.get("x-hub-signature", "")[:20] or "none"
        return Answer(HTTPStatus.ACCEPTED, "", "PushesIgnored", match.about(signature=signature))
    digest = hashlib.sha256(request.body).hexdigest()[:32]
    if digest == match.state.started:
        # An earlier attempt to read this push may have timed out or run out of memory. Polls are protected against that.
        _make_due(match, now)
        return Answer(HTTPStatus.ACCEPTED, "", "PushesUnread", match.about(reason="reading it failed before"))
    try:
        _change_subscription(match, lambda state: replace(state, started=digest))
        return _read_push(match, request, now)
    except Exception:
        with suppress(Exception):  # the queue or the table failed: the hub sends the push again
            _change_subscription(match, lambda state: replace(state, started=None))
        raise


def _read_push(match: _Match, request: Request, now: datetime) -> Answer:
    """Queue the new entries of a push with a valid signature. Raises the errors of the queue and the table."""
    try:
        document = read_document(request.body, request.headers)
        parsed = parse.read(document, match.state.topic, match.site, match.feed.take)
    except FeedError as error:
        # 202, although the push is unreadable: after an error the hub would send the same bytes again. The next poll reads the feed.
        _make_due(match, now)
        return Answer(HTTPStatus.ACCEPTED, "", "PushesUnread", match.about(reason=str(error)))
    key = feed_items.feed_entries_key(match.site.host, match.feed.url)
    seen = from_item(Seen, table.get_many([key]).get(key, {}))
    events, skipped = to_events(parsed, match.site, now, seen.shared, feed=match.feed.url)
    polled = set(seen.digests)
    received = [(event, match.state.has_news(event, polled)) for event in events]
    new = [event for event, is_news in received if is_news]
    queues.send_articles(new)
    pushed = [event for event, is_news in received if is_news or match.state.is_owed(event)]
    _change_subscription(match, lambda state: subscription.pushed(state, pushed, now))
    about = match.about(sent=len(new), skipped=skipped[:5])
    if parsed.incomplete:
        _make_due(match, now)
        return Answer(HTTPStatus.ACCEPTED, "", "PushesUnread", about | {"reason": parsed.incomplete})
    return Answer(HTTPStatus.ACCEPTED, "", "PushesTaken", about)


def _find_subscription(request: Request) -> _Match:
    """Return the feed that a request is for. Raises Refused: 404 for a forged token, 410 for an ended subscription."""
    host, feed_id, token = (request.path_parameters.get(name, "") for name in ("site", "feed", "token"))
    masters: list[str] = []
    if is_token(token):  # checked first, so that any other request costs no AWS call
        try:
            masters = secrets.load(HUBS_SECRET)
        except secrets.NoSecret as error:
            reason = "the callback cannot be verified at the moment: send it again"
            raise Refused(OUR_FAULT, reason, cause=str(error)) from None
    subscription_id = subscription_of(token, masters, host, feed_id)
    if subscription_id is None:
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
    items = table.get_many(keys)
    item, polled = (items.get(key) for key in keys)
    state = from_item(Subscription, item) if item else None
    if state is None or state.id != subscription_id or (polled and from_item(FeedState, polled).hub != state.hub):
        raise gone
    return _Match(site, feed, state, tuple(hub_secret(master, host, feed_id, subscription_id) for master in masters))


def _feed_of(site: Site, key: str) -> Feed | None:
    return next((feed for feed in site.feeds if key_of(feed.url) == key), None)


def _change_subscription(match: _Match, decide: Callable[[Subscription], Subscription | None]) -> Subscription | None:
    """Write the subscription that `decide` returns. Return None if it was replaced meanwhile, or if `decide` returns None."""

    def decide_if_current(state: Subscription | None) -> Subscription | None:
        return decide(state) if state and state.id == match.state.id else None

    return subscribe.change(match.site.host, match.feed.url, decide_if_current)


def _make_due(match: _Match, now: datetime) -> None:
    """Let the next run of poll_feeds poll the feed. A poll in progress cannot write its state after this, and is repeated.

    Does nothing while polls of the feed fail, because its server may have asked for fewer requests.
    """

    def make_due(item: Item | None) -> Item | None:
        if item is None or item.get("failures"):
            return None
        return feed_items.feed_item(
            match.site.host, match.feed.url, replace(from_item(FeedState, item), next_poll_at=now)
        )

    with suppress(table.Conflict):
        table.update(feed_items.feed_key(match.site.host, match.feed.url), make_due)


def _read_challenge(query: Mapping[str, str]) -> str:
    challenge = query.get("hub.challenge", "")
    if not 0 < len(challenge) <= CHALLENGE_CHARACTERS_MAX or not challenge.isprintable():
        what = f"a text of one to {CHALLENGE_CHARACTERS_MAX:,} characters that can be printed"
        raise Refused(HTTPStatus.BAD_REQUEST, f"hub.challenge: give {what}")
    return challenge
