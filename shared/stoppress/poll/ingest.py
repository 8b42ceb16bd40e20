"""Send the new entries of a feed's answer as article events, then write the feed's state.

Before a document is parsed, its feed's state is written as if the poll had failed. So a document that ends the run by its
time or memory delays only its own feed. The events are sent before the final state is written: after a crash in between they
are sent again, and record_article recognises duplicates. In the other order they would be lost. If a feed has a hub,
poll_feeds subscribes to the feed there after the first good poll. While the hub's pushes bring the new entries, the feed is
polled less often (`feeds.subscription`).
"""

import re
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from urllib.parse import urlsplit

from stoppress.aws import queues, table
from stoppress.aws.codec import from_item
from stoppress.feeds import freshness, hints, subscription
from stoppress.feeds.documents import ENTRIES_MAX, Document, FeedError
from stoppress.feeds.entries import Reading
from stoppress.feeds.events import shared_guids, to_events
from stoppress.feeds.freshness import Freshness
from stoppress.feeds.hubs import hub_of, topic_of
from stoppress.feeds.schedule import FeedState, Seen, after_failure, after_success, moved, must_be_written, turned_over
from stoppress.feeds.subscription import Subscription
from stoppress.http import client, errors
from stoppress.model.event import ArticleEvent, digest_of
from stoppress.poll import fetch, subscribe
from stoppress.poll.due import DueFeed, PollOutcome
from stoppress.poll.items import feed_entries_item, feed_entries_key, feed_item
from stoppress.poll.subscribe import Hubs

VALIDATOR_CHARACTERS_MAX = 1_000
# Guids that several pages share. A good feed has none; a bad one repeats the same few.
SHARED_MAX = 100
# The error of a feed while its document is parsed. It stays if Lambda ends the run by its time or memory.
UNFINISHED = "poll_feeds ended while it read the document, which takes too long or too much memory"

_ASKING_TO_WAIT = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_OVERTAKEN = "another run polled it at the same time"
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def ingest(feed: DueFeed, future: Future[fetch.Fetched], hubs: Hubs) -> PollOutcome:
    """Send the new entries of an answer, write the feed's state, and queue the request to its hub.

    Raises the errors of the queue and the table. After such an error the feed stays due.
    """
    subscribed: Subscription | None = None
    rev = feed.rev
    try:
        fetched = future.result()
        if fetched.answer.status == HTTPStatus.NOT_MODIFIED and feed.conditions:
            outcome, state, subscribed = _not_modified(feed, fetched.answer)
        elif fetched.answer.status == HTTPStatus.OK:
            polled = _same_body(feed, fetched)
            if polled is None:
                state = after_failure(feed.state, feed.now, feed.pace, UNFINISHED, url=feed.feed.url)
                rev = _write(feed, state, rev)
                polled = _read(feed, fetched)
            outcome, state, subscribed = polled
        else:
            outcome, state = _refused(feed, fetched.answer)
    except (errors.FetchError, FeedError, MemoryError) as error:
        outcome, state = _failed(feed, feed.state, str(error) or UNFINISHED)
    except Exception as error:
        if rev != feed.rev:  # the queue or the table failed, not the document: the feed stays due
            with suppress(Exception):
                _write(feed, feed.state, rev)
        elif isinstance(error, table.Conflict):
            return feed.outcome("waiting", reason=_OVERTAKEN)
        raise
    version = feed.site.version
    outcome = replace(
        outcome,
        needs_somebody=state.needs_somebody(feed.now, version),
        # A feed that is gone is not polled again. So this is the first answer with a 410.
        new_trouble=state.is_gone(version) or state.has_just_failed_long(feed.now, version),
    )
    try:
        is_pushed = subscribe.may_be_pushed(feed.feed, state)
        if (
            rev != feed.rev
            or outcome.result != "unchanged"
            or must_be_written(feed.state, state, feed.now, is_pushed=is_pushed)
        ):
            _write(feed, state, rev)
    except table.Conflict:
        return replace(outcome, reason=outcome.reason or _OVERTAKEN)
    went_well = outcome.result in {"changed", "unchanged"}
    if not went_well and not state.is_gone(feed.site.version):
        # Renew the subscription of a failing feed too: the hub may be the only way that still works.
        subscribed = subscribed or _subscription(feed, state)
    if went_well or subscribed:
        hubs.want(feed, state, subscribed)
    return outcome


def _write(feed: DueFeed, state: FeedState, rev: int | None) -> int:
    """Write a feed's state, and return the new revision of its item. Raises Conflict."""
    table.put(feed_item(feed.site.host, feed.feed.url, state), rev)
    return (rev or 0) + 1


def _failed(
    feed: DueFeed, state: FeedState, reason: str, *, retry_after: str | None = None, gone: bool = False
) -> tuple[PollOutcome, FeedState]:
    gone_by = feed.site.version if gone else None
    after = after_failure(
        state, feed.now, feed.pace, reason, url=feed.feed.url, retry_after=retry_after, gone_by=gone_by
    )
    return feed.outcome("failed", reason=reason), after


def _refused(feed: DueFeed, answer: client.Response) -> tuple[PollOutcome, FeedState]:
    """An answer that is neither 200 nor a valid 304."""
    retry_after = answer.headers.get("retry-after") if answer.status in _ASKING_TO_WAIT else None
    reason = f"the server answered {answer.status}"
    return _failed(feed, feed.state, reason, retry_after=retry_after, gone=_is_gone(feed, answer))


def _is_gone(feed: DueFeed, answer: client.Response) -> bool:
    """Whether the configured URL, or the end of its permanent redirects, is gone. A temporary redirect's target does not count."""
    return (
        answer.status == HTTPStatus.GONE
        and feed.url == feed.feed.url
        and answer.url in {feed.url, answer.permanent_url}
    )


def _not_modified(feed: DueFeed, answer: client.Response) -> tuple[PollOutcome, FeedState, Subscription | None]:
    """Handle a 304, which may have new validators (RFC 9110, 15.4.5)."""
    subscribed = _polled(feed, feed.state)
    state = _answered(feed, answer)
    if subscribed and subscribed.pushed:
        # The hub pushed entries that the feed's server does not show yet. Without validators, the next poll reads the whole feed.
        state, subscribed = _without_validators(state), None
    elif _place(answer.url) != _place(feed.state.answered_by or answer.url):
        # The validators came from another server than this 304. The next poll sends none.
        state = _without_validators(state)
    else:
        state = _validated(state, answer, keep=True)
    return feed.outcome("unchanged"), after_success(state, feed.now, feed.pace, subscribed), subscribed


def _answered(feed: DueFeed, answer: client.Response) -> FeedState:
    """The state after any good answer: where the feed is now, and how long its headers ask us to wait."""
    with_hints = replace(
        feed.state, hints=hints.with_answer(feed.state.hints, answer.headers, feed.now), stale_since=None
    )
    return moved(with_hints, feed.url, answer.permanent_url, feed.feed.url, feed.now)


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a body as events, their digests, the reasons for skipped entries, and the guids that several pages share."""

    events: list[ArticleEvent]
    digests: tuple[str, ...]
    skipped: tuple[str, ...]
    shared: tuple[str, ...]

    def new(self, received: set[str], subscribed: Subscription | None) -> list[ArticleEvent]:
        """The events that neither the last poll (its digests are `received`) nor a push brought."""
        each = zip(self.events, self.digests, strict=True)
        return [
            event
            for event, digest in each
            if (subscribed.has_news(event, received) if subscribed else digest not in received)
        ]

    def not_overtaken(self, subscribed: Subscription | None) -> tuple[str, ...]:
        """The digests, without the entries for which a push brought a newer version."""
        each = zip(self.events, self.digests, strict=True)
        return tuple(digest for event, digest in each if subscribed is None or not subscribed.has_overtaken(event))


def _same_body(feed: DueFeed, fetched: fetch.Fetched) -> tuple[PollOutcome, FeedState, Subscription | None] | None:
    """Handle a body that the last poll read already. None for any other body."""
    if fetched.body_digest != feed.state.body_digest or not feed.has_this_configuration:
        return None
    state = _of_body(feed, fetched)
    subscribed = _polled(feed, state)
    if subscribed and subscribed.pushed:  # this body may undo an edit that a push brought
        return None
    return feed.outcome("unchanged"), after_success(state, feed.now, feed.pace, subscribed), subscribed


def _read(feed: DueFeed, fetched: fetch.Fetched) -> tuple[PollOutcome, FeedState, Subscription | None]:
    """Send the entries that neither the last poll nor a push brought; under a new configuration, all. Raises FeedError."""
    state = _of_body(feed, fetched)
    document, reading = fetch.read(fetched, feed.site, feed.feed.take)
    answered = _freshness(feed, fetched, hints.without_entries(document.text))
    stale = freshness.staleness(answered, feed.state.newest)
    if stale and feed.state.skips_stale(feed.now):
        return _skipped(feed, stale)
    state = replace(state, newest=answered if stale else freshness.newest_of(feed.state.newest, answered))
    known = _known(feed)
    entries = _entries(feed, reading, known)
    state = _with_hub(feed, state, document, fetched.answer)
    subscribed = _subscription(feed, state)
    received = set(known.digests)
    new = entries.new(received, subscribed)
    # Under a new configuration an entry may mean something else; record_article recognises duplicates.
    sent = new if feed.has_this_configuration else entries.events
    queues.send_articles(sent)
    last_new = _newest(new, feed, first=not known.digests) or feed.state.last_new
    subscribed = _noted(feed, subscribed, new, entries.digests)
    if reading.incomplete:
        _remember(feed, Seen(_joined(entries.digests, known.digests), entries.shared), known)
        # Drop the validators: a 304 would make the loss permanent.
        cut = replace(_without_validators(feed.state), last_new=last_new, newest=state.newest, stale_since=None)
        outcome, state = _failed(feed, cut, reading.incomplete)
        return replace(outcome, sent=len(sent), skipped=entries.skipped), state, None
    # An entry is not remembered if a push brought a newer version. If the feed still has that entry when the push is forgotten,
    # the entry is sent. If a feed is empty for a moment, the digests stay. Otherwise all entries would be sent again.
    remembered = entries.not_overtaken(subscribed)
    _remember(feed, Seen(remembered if entries.digests else known.digests, entries.shared), known)
    document_hints = replace(hints.of_document(document.text), answer_s=state.hints.answer_s)
    state = replace(state, last_new=last_new, hints=document_hints)
    if feed.has_this_configuration:
        state = turned_over(
            state, len(entries.digests), sum(digest not in received for digest in entries.digests), feed.now
        )
    outcome = feed.outcome("changed", sent=len(sent), skipped=entries.skipped)
    return outcome, after_success(state, feed.now, feed.pace, subscribed), subscribed


def _freshness(feed: DueFeed, fetched: fetch.Fetched, head: str = "") -> Freshness:
    if fetched.is_index:  # the age of an index is not the age of its sitemaps
        return Freshness()
    return freshness.of_answer(fetched.answer.headers, feed.now + feed.waited, head, feed.site.zone)


def _skipped(feed: DueFeed, reason: str) -> tuple[PollOutcome, FeedState, Subscription | None]:
    """Keep nothing of a stale copy, not even its validators."""
    subscribed = _polled(feed, feed.state)
    state = replace(feed.state, stale_since=feed.state.stale_since or feed.now)
    return feed.outcome("unchanged", reason=reason), after_success(state, feed.now, feed.pace, subscribed), subscribed


def _of_body(feed: DueFeed, fetched: fetch.Fetched) -> FeedState:
    """The state after an answer with a body, before the body is read."""
    state = _validated(_answered(feed, fetched.answer), fetched.answer)
    if fetched.is_index:  # an index's validators do not cover its sitemaps
        state = replace(state, etag=None, last_modified=None)
    newest = freshness.newest_of(feed.state.newest, _freshness(feed, fetched))
    return replace(state, body_digest=fetched.body_digest, config_version=feed.site.version, newest=newest)


def _entries(feed: DueFeed, reading: Reading, known: Seen) -> _Entries:
    shared = tuple(dict.fromkeys(shared_guids(reading, feed.site) + known.shared))[:SHARED_MAX]
    # The time of the request, not of the run, so that the poll is later than each push before it.
    events, skipped = to_events(reading, feed.site, feed.now + feed.waited, shared, feed=feed.feed.url)
    return _Entries(events, tuple(digest_of(event) for event in events), tuple(skipped), shared)


def _with_hub(feed: DueFeed, state: FeedState, document: Document, answer: client.Response) -> FeedState:
    """The state with the hub that a feed names, and the topic to subscribe to."""
    head = hints.without_entries(document.text)
    hub = hub_of(head, answer.headers, answer.url)
    topic = (topic_of(head, answer.headers, answer.url) or feed.url) if hub else None
    return replace(state, hub=hub, topic=topic)


def _polled(feed: DueFeed, state: FeedState) -> Subscription | None:
    """The feed's subscription after a poll that found nothing new."""
    return _noted(feed, _subscription(feed, state), [], ())


def _subscription(feed: DueFeed, state: FeedState) -> Subscription | None:
    return subscribe.load(feed.site.host, feed.feed.url) if subscribe.may_be_pushed(feed.feed, state) else None


def _noted(
    feed: DueFeed, subscribed: Subscription | None, new: list[ArticleEvent], seen: tuple[str, ...]
) -> Subscription | None:
    """Write the result of a poll to the subscription: the trust in the hub depends on it."""

    def noted(known: Subscription) -> Subscription:
        # Under a new configuration entries may mean something else, which is no fault of the hub.
        return subscription.polled(known, new, seen, feed.now, blamed=feed.has_this_configuration)

    if subscribed is None or noted(subscribed) == subscribed:
        return subscribed
    return subscribe.change(feed.site.host, feed.feed.url, lambda known: noted(known) if known else None)


def _newest(new: list[ArticleEvent], feed: DueFeed, *, first: bool) -> datetime | None:
    """When the last new story came: now. In a feed's first poll: when its newest story was published."""
    if not new:
        return None
    dated = [event.published_at for event in new if event.published_at and event.published_at <= feed.now]
    return max(dated, default=feed.now) if first else feed.now


def _known(feed: DueFeed) -> Seen:
    """What the last poll stored: entries with these digests are not sent again."""
    key = feed_entries_key(feed.site.host, feed.feed.url)
    return from_item(Seen, table.get_many([key]).get(key, {}))


def _remember(feed: DueFeed, seen: Seen, known: Seen) -> None:
    if seen != known:
        table.put_if(feed_entries_item(feed.site.host, feed.feed.url, seen))


def _joined(digests: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    # At 16 characters each, digests take 40 KB of the 400 KB of an item.
    return tuple(dict.fromkeys(digests + known))[:ENTRIES_MAX]


def _validated(state: FeedState, answer: client.Response, *, keep: bool = False) -> FeedState:
    """The state with the answer's validators. `keep`: the old ones stay if the answer, a 304, has none."""
    etag, last_modified = (_validator(answer.headers.get(name)) for name in ("etag", "last-modified"))
    if keep:
        etag, last_modified = etag or state.etag, last_modified or state.last_modified
    return replace(state, etag=etag, last_modified=last_modified, answered_by=answer.url)


def _without_validators(state: FeedState) -> FeedState:
    """The state without validators: the next poll reads the whole feed."""
    return replace(state, etag=None, last_modified=None, answered_by=None, body_digest=None)


def _validator(value: str | None) -> str | None:
    """A header's value, if it can be sent back."""
    return value if value and len(value) <= VALIDATOR_CHARACTERS_MAX and not _CONTROL.search(value) else None


def _place(url: str) -> tuple[str, str]:
    """A URL's host and path; some servers change the query with each answer."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.path
