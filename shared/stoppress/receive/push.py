"""What a hub asks and brings (WebSub): one more door to the articles queue, for the feeds that have subscribed.

A request is known by the token of its path, before anything is looked up for it, a push by its signature as well. What is pushed
is read by the same code as what is polled; it is a part of the feed, so that absence means nothing.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal, TypeAlias
from urllib.parse import parse_qsl

from stoppress.aws import queues, secrets, sites, table
from stoppress.feeds import parse, subscription
from stoppress.feeds.callbacks import hub_secret, is_signed, subscription_of
from stoppress.feeds.documents import FeedError, read_document
from stoppress.feeds.events import to_events
from stoppress.feeds.subscription import Subscription
from stoppress.model.site import HUBS_SECRET, BadConfiguration, Feed, Site
from stoppress.poll import subscribe
from stoppress.poll.items import (
    feed_entries_key,
    feed_item,
    feed_key,
    read_feed,
    read_feed_entries,
    read_subscription,
    subscription_key,
)
from stoppress.primitives.text import clean
from stoppress.primitives.urls import key_of

# What Lambda takes of a body that API Gateway hands on in base64 (6 MB); the poll takes what is larger.
BODY_BYTES_MAX = 4_500_000
# What is echoed is short, and nothing but text: hubs send random letters and digits.
CHALLENGE_CHARACTERS_MAX = 1_000
QUERY_FIELDS_MAX = 50

# By what they are counted and logged.
Kind: TypeAlias = Literal[
    "HubsConfirmed", "HubsDenied", "HubsRefused", "PushesTaken", "PushesIgnored", "PushesUnread", "PushesRefused",
    "PushesFailed",
]  # fmt: skip


@dataclass(frozen=True, slots=True)
class Request:
    """A hub's request: the parts of its path, the query as it came, headers with names in small letters, the raw bytes."""

    site: str
    feed: str
    token: str
    query: str = ""
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the hub hears, how that is counted, and what the log is told besides."""

    status: int
    body: str
    kind: Kind
    about: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Known:
    """A feed that is subscribed today; `secrets` are what its hub may have signed with."""

    site: Site
    feed: Feed
    state: Subscription
    secrets: tuple[str, ...]

    def about(self, **said: Any) -> dict[str, Any]:
        return {"site": self.site.host, "feed": self.feed.url, "hub": self.state.hub, **said}


class _Refused(Exception):
    def __init__(self, status: HTTPStatus, reason: str, cause: str = "") -> None:
        super().__init__(reason)
        self.status = status
        # For the log alone: whoever asks may be anybody.
        self.about = {"cause": cause} if cause else {}


def confirm(request: Request, now: datetime) -> Answer:
    """A hub's question whether we have asked for what it was asked, or its denial (WebSub, 5.3 and 5.2)."""
    try:
        asked = dict(parse_qsl(request.query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        return Answer(HTTPStatus.BAD_REQUEST, "the query has too many fields", "HubsRefused")
    try:
        return _confirmed(request, asked, now)
    except _Refused as refusal:
        status = HTTPStatus.NOT_FOUND if refusal.status == HTTPStatus.GONE else refusal.status
        return Answer(status, str(refusal), "HubsRefused", {"mode": asked.get("hub.mode", "")[:40], **refusal.about})


def _confirmed(request: Request, asked: Mapping[str, str], now: datetime) -> Answer:
    """Raises _Refused."""
    mode = asked.get("hub.mode", "")
    challenge = "" if mode == "denied" else _challenge(asked)
    try:
        known = _known(request)
    except _Refused as refusal:
        if refusal.status == HTTPStatus.GONE and mode == "unsubscribe":  # it is what we want, whoever has asked
            return Answer(HTTPStatus.OK, challenge, "HubsConfirmed", {"mode": mode})
        raise
    if asked.get("hub.topic", "") != known.state.topic:
        raise _Refused(HTTPStatus.NOT_FOUND, "this topic was not asked for")
    if mode == "denied":
        reason = clean(asked.get("hub.reason", ""), limit=300)
        _changed(known, lambda state: subscription.denied(state, reason, now))
        return Answer(HTTPStatus.OK, "", "HubsDenied", known.about(reason=reason))
    lease_s = _seconds(asked.get("hub.lease_seconds"))
    if mode != "subscribe" or not _changed(known, lambda state: subscription.verified(state, lease_s, now)):
        raise _Refused(HTTPStatus.NOT_FOUND, "this was not asked for")
    return Answer(HTTPStatus.OK, challenge, "HubsConfirmed", known.about(mode=mode, lease_s=lease_s))


def take(request: Request, now: datetime) -> Answer:
    """A push: the part of a feed that is new (WebSub, 7). What nobody has signed is answered like any other, and ignored."""
    if len(request.body) > BODY_BYTES_MAX:
        return Answer(HTTPStatus.REQUEST_ENTITY_TOO_LARGE, f"at most {BODY_BYTES_MAX:,} bytes", "PushesRefused")
    try:
        known = _known(request)
    except _Refused as refusal:
        kind: Kind = "PushesFailed" if refusal.status == HTTPStatus.SERVICE_UNAVAILABLE else "PushesRefused"
        return Answer(refusal.status, str(refusal), kind, refusal.about)
    if not is_signed(request.headers, request.body, known.secrets):
        said = request.headers.get("x-hub-signature", "")[:20]
        return Answer(HTTPStatus.ACCEPTED, "", "PushesIgnored", known.about(signature=said or "none"))
    try:
        document = read_document(request.body, request.headers)
        found = parse.read(document, known.state.topic, known.site, known.feed.take)
    except FeedError as error:
        _make_due(known, now)
        return Answer(HTTPStatus.ACCEPTED, "", "PushesUnread", known.about(reason=str(error)))
    seen = read_feed_entries(table.get_many([key := feed_entries_key(known.site.host, known.feed.url)]).get(key))
    events, skipped = to_events(found, known.site, now, seen.shared, feed=known.feed.url)
    polled = set(seen.digests)
    heard = [(event, known.state.has_news(event, polled)) for event in events]
    new = [event for event, is_news in heard if is_news]
    queues.send_articles(new)
    brought = [event for event, is_news in heard if is_news or subscription.is_owed(known.state, event)]
    _changed(known, lambda state: subscription.told(state, brought, now))
    about = known.about(sent=len(new), skipped=skipped[:5])
    if found.incomplete:
        _make_due(known, now)
        return Answer(HTTPStatus.ACCEPTED, "", "PushesUnread", about | {"reason": found.incomplete})
    return Answer(HTTPStatus.ACCEPTED, "", "PushesTaken", about)


def _known(request: Request) -> _Known:
    """The feed that a request is for. Raises _Refused: 404 who has no token of ours, 410 where nobody wants it any more."""
    try:
        masters = secrets.load(HUBS_SECRET)
    except secrets.NoSecret as error:
        reason = "no callback can be known at the moment: send it again"
        raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, reason, str(error)) from None
    subscribed = subscription_of(request.token, masters, request.site, request.feed)
    if subscribed is None:
        raise _Refused(HTTPStatus.NOT_FOUND, "there is no such callback")
    gone = _Refused(HTTPStatus.GONE, "nobody wants this any more")
    try:
        site = sites.load(request.site)
        feed = _feed_of(site, request.feed)
        if feed is None:
            site = sites.load(request.site, age_max=sites.MISSED_AGE_MAX)
            feed = _feed_of(site, request.feed)
    except sites.UnknownSite:
        raise gone from None
    except BadConfiguration as error:
        reason = "this site cannot be served at the moment: send it again"
        raise _Refused(HTTPStatus.SERVICE_UNAVAILABLE, reason, str(error)) from None
    if feed is None or not feed.websub:
        raise gone
    keys = subscription_key(site.host, feed.url), feed_key(site.host, feed.url)
    items = table.get_many(keys)
    item, polled = (items.get(key) for key in keys)
    state = read_subscription(item) if item else None
    if state is None or state.id != subscribed or (polled and read_feed(polled).hub != state.hub):
        raise gone
    used = tuple(hub_secret(master, request.site, request.feed, subscribed) for master in masters)
    return _Known(site, feed, state, used)


def _feed_of(site: Site, key: str) -> Feed | None:
    return next((feed for feed in site.feeds if key_of(feed.url) == key), None)


def _changed(known: _Known, decide: Callable[[Subscription], Subscription | None]) -> Subscription | None:
    """The subscription as `decide` makes it, written; None where another has taken its place, or `decide` says so."""

    def if_the_same(state: Subscription | None) -> Subscription | None:
        return decide(state) if state and state.id == known.state.id else None

    return subscribe.change(known.site.host, known.feed.url, if_the_same)


def _make_due(known: _Known, now: datetime) -> None:
    """Have the feed polled in the next minute. A poll that is under way cannot write its state then, and comes again.

    Not where polls fail: the feed's server may have asked to be left alone (R10.3).
    """
    key = feed_key(known.site.host, known.feed.url)
    for _ in range(3):
        item = table.get_many([key]).get(key)
        state = read_feed(item) if item else None
        if item is None or state is None or state.failures:
            return
        under_way = state.leased_until is not None and state.leased_until > now
        if state.next_poll_at is None or (state.next_poll_at <= now and not under_way):
            return
        try:
            table.put(feed_item(known.site.host, known.feed.url, replace(state, next_poll_at=now)), int(item["rev"]))
        except table.Conflict:
            continue
        return


def _challenge(asked: Mapping[str, str]) -> str:
    challenge = asked.get("hub.challenge", "")
    if not 0 < len(challenge) <= CHALLENGE_CHARACTERS_MAX or not challenge.isprintable():
        raise _Refused(
            HTTPStatus.BAD_REQUEST,
            f"hub.challenge: give a text of one to {CHALLENGE_CHARACTERS_MAX:,} characters that can be printed",
        )
    return challenge


def _seconds(said: str | None) -> int | None:
    text = (said or "").strip()
    return int(text[:9]) if text.isascii() and text.isdigit() else None
