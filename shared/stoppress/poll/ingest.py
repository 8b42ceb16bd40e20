"""Send the new entries of a feed's answer as article events, then write the feed's state.

Before a document is parsed, its feed's state is written as if the poll had failed. So a document that takes too
much time or memory delays only its own feed. The events are sent before the final state is written: after a crash in between they
are sent again, and record_article recognises duplicates. In the other order they would be lost. If a feed has a hub,
poll_feeds subscribes to the feed there after the first good poll. While the hub's pushes deliver the new entries, the feed is
polled less often (`feeds.subscription`).
"""

from collections.abc import Container, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from http import HTTPStatus

from stoppress.aws import queues, table
from stoppress.aws.codec import from_item, to_item
from stoppress.feeds import feed_hints, subscription
from stoppress.feeds.events import shared_guids, to_events
from stoppress.feeds.feed_documents import ENTRIES_MAX, FeedError
from stoppress.feeds.feed_hints import Freshness
from stoppress.feeds.feed_schedule import (
    FeedState,
    Seen,
    after_failure,
    after_success,
    moved,
    must_be_written,
    turned_over,
)
from stoppress.feeds.subscription import Subscription
from stoppress.feeds.websub import hub_and_topic
from stoppress.http import client, errors
from stoppress.model.event import ArticleEvent, digest_of
from stoppress.poll import fetch_feeds, subscribe
from stoppress.poll.feed_items import DueFeed, PollOutcome, feed_entries_key, feed_item
from stoppress.poll.subscribe import Hubs

VALIDATOR_CHARACTERS_MAX = 1_000
# Guids that several pages share. A good feed has none; a bad one repeats the same few.
SHARED_MAX = 100
# The error of a feed while its document is parsed. It stays if the run times out or runs out of memory.
UNFINISHED = "poll_feeds ended while it read the document, which takes too long or too much memory"

_ASKING_TO_WAIT = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_OVERTAKEN = "another run polled it at the same time"


def ingest(feed: DueFeed, future: Future[fetch_feeds.Fetched], hubs: Hubs) -> PollOutcome:
    """Send the new entries of an answer, write the feed's state, and queue the request to its hub.

    Raises the errors of the queue and the table. After such an error the feed stays due.
    """
    poll = _Ingestion(feed)
    try:
        outcome, state = poll.read_answer(future.result())
    except (errors.FetchError, FeedError, MemoryError) as error:
        outcome, state = poll.fail(feed.state, str(error) or UNFINISHED)
    except Exception as error:
        if poll.rev != feed.rev:  # the queue or the table failed, not the document: the feed stays due
            with suppress(Exception):
                poll.write(feed.state)
        elif isinstance(error, table.Conflict):
            return feed.outcome("waiting", reason=_OVERTAKEN)
        raise
    version = feed.site.version
    is_gone, is_failed = state.is_gone(version), outcome.result == "failed"
    outcome = replace(
        outcome,
        needs_attention=state.needs_attention(feed.now, version),
        # A feed that is gone is not polled again. So this is the first answer with a 410.
        new_trouble=is_gone or state.has_just_failed_long(feed.now, version),
    )
    is_pushed = subscribe.may_be_pushed(feed.feed, state)
    try:
        if (
            poll.rev != feed.rev
            or outcome.result != "unchanged"
            or must_be_written(feed.state, state, feed.now, is_pushed=is_pushed)
        ):
            poll.write(state)
    except table.Conflict:
        return replace(outcome, reason=outcome.reason or _OVERTAKEN)
    if is_failed and not is_gone:
        # Renew the subscription of a failing feed too, because its hub may still work.
        poll.load_subscription(state)
    if poll.subscription or not is_failed:
        hubs.queue(feed, state, poll.subscription)
    return outcome


class _Ingestion:
    """The work on one answer of a feed. `rev` is the current revision of the feed's item, `subscription` that of the feed."""

    def __init__(self, feed: DueFeed) -> None:
        self.feed = feed
        self.rev = feed.rev
        self.subscription: Subscription | None = None

    def write(self, state: FeedState) -> None:
        """Write the feed's state. Raises Conflict."""
        table.put(feed_item(self.feed.site.host, self.feed.feed.url, state), self.rev)
        self.rev = (self.rev or 0) + 1

    def load_subscription(self, state: FeedState) -> None:
        """Load the subscription of a feed with this state, if the stack may have one."""
        feed = self.feed
        allowed = subscribe.may_be_pushed(feed.feed, state)
        self.subscription = subscribe.load(feed.site.host, feed.feed.url) if allowed else None

    def fail(
        self, state: FeedState, reason: str, answer: client.Response | None = None
    ) -> tuple[PollOutcome, FeedState]:
        """Return the outcome and the state of a failed poll. `answer` has a status other than 200 and 304."""
        feed = self.feed
        pause, gone_by = None, None
        if answer and answer.status in _ASKING_TO_WAIT:
            pause = client.retry_after(answer.headers, feed.now)
        # The configured URL, or the end of its permanent redirects. A temporary redirect's target does not count.
        if answer and answer.status == HTTPStatus.GONE and answer.url in {feed.url, answer.permanent_url}:
            gone_by = feed.site.version if feed.url == feed.feed.url else None
        after = after_failure(state, feed.now, feed.pace, reason, url=feed.feed.url, pause=pause, gone_by=gone_by)
        return feed.outcome("failed", reason=reason), after

    def read_answer(self, fetched: fetch_feeds.Fetched) -> tuple[PollOutcome, FeedState]:
        """Send the entries of an answer that are new; return the outcome and the feed's state. Raises FeedError."""
        feed, answer = self.feed, fetched.answer
        if answer.status == HTTPStatus.NOT_MODIFIED and feed.conditions:
            return self._handle_not_modified(answer)
        if answer.status != HTTPStatus.OK:
            return self.fail(feed.state, f"the server answered {answer.status}", answer)
        state = _without_validators(self._after_answer(answer))
        if not fetched.is_index:  # an index's validators do not cover its sitemaps
            state = _with_validators(state, answer)
        newest = feed_hints.merge_freshness(feed.state.newest, self._freshness(fetched))
        state = replace(state, body_digest=fetched.body_digest, config_version=feed.site.version, newest=newest)
        if fetched.body_digest == feed.state.body_digest and feed.has_this_configuration:
            self._note_poll(state)
            if not (self.subscription and self.subscription.pushed):  # a body may undo an edit that a push delivered
                return self._keep(state)
        self.write(after_failure(feed.state, feed.now, feed.pace, UNFINISHED, url=feed.feed.url))
        return self._read_body(fetched, state)

    def _keep(self, state: FeedState, reason: str | None = None) -> tuple[PollOutcome, FeedState]:
        feed = self.feed
        return feed.outcome("unchanged", reason=reason), after_success(state, feed.now, feed.pace, self.subscription)

    def _handle_not_modified(self, answer: client.Response) -> tuple[PollOutcome, FeedState]:
        """Handle a 304, which may have new validators (RFC 9110, 15.4.5)."""
        feed = self.feed
        self._note_poll(feed.state)
        state = self._after_answer(answer)
        if self.subscription and self.subscription.pushed:
            # The hub pushed entries that the feed's server does not show yet. Without validators, the next poll reads the whole
            # feed, and it does not wait for the hub.
            return feed.outcome("unchanged"), after_success(_without_validators(state), feed.now, feed.pace)
        return self._keep(_with_validators(state, answer))

    def _after_answer(self, answer: client.Response) -> FeedState:
        """Return the state after any good answer, with the feed's current URL and the wait that the headers ask for."""
        feed = self.feed
        hints = feed_hints.add_answer_hints(feed.state.hints, answer.headers, feed.now)
        state = replace(feed.state, hints=hints, stale_since=None)
        return moved(state, feed.url, answer.permanent_url, feed.feed.url, feed.now)

    def _freshness(self, fetched: fetch_feeds.Fetched, head: str = "") -> Freshness:
        if fetched.is_index:  # the age of an index is not the age of its sitemaps
            return Freshness()
        feed = self.feed
        return feed_hints.read_freshness(fetched.answer.headers, feed.now + feed.waited, head, feed.site.zone)

    def _read_body(self, fetched: fetch_feeds.Fetched, state: FeedState) -> tuple[PollOutcome, FeedState]:
        """Send the entries that are new since the last poll and the pushes; under a new configuration, all. Raises FeedError."""
        feed, answer = self.feed, fetched.answer
        document, reading = fetch_feeds.read(fetched, feed.site, feed.feed.take)
        head = feed_hints.without_entries(document.text)
        freshness = self._freshness(fetched, head)
        stale = feed_hints.find_staleness(freshness, feed.state.newest)
        if stale and feed.state.skips_stale(feed.now):
            # Nothing of a stale copy is kept, not even its validators.
            self._note_poll(feed.state)
            return self._keep(replace(feed.state, stale_since=feed.state.stale_since or feed.now), stale)
        hub, topic = hub_and_topic(head, answer.headers, answer.url)
        state = replace(
            state,
            newest=freshness if stale else feed_hints.merge_freshness(feed.state.newest, freshness),
            hub=hub,
            topic=(topic or feed.url) if hub else None,
        )
        key = feed_entries_key(feed.site.host, feed.feed.url)
        before = from_item(Seen, table.get_many([key]).get(key, {}))
        shared = tuple(dict.fromkeys(shared_guids(reading, feed.site) + before.shared))[:SHARED_MAX]
        # The time of the request, not of the run, so that the poll is later than each push before it.
        events, skipped = to_events(reading, feed.site, feed.now + feed.waited, shared, feed=feed.feed.url)
        entries = [(event, digest_of(event)) for event in events]
        digests, received = tuple(digest for _, digest in entries), set(before.digests)
        self.load_subscription(state)
        new = self._find_news(entries, received)
        # Under a new configuration an entry may mean something else; record_article recognises duplicates.
        sent = new if feed.has_this_configuration else events
        queues.send_articles(sent)
        last_new = _newest_story_at(new, feed, first=not before.digests) or feed.state.last_new
        self._note_events(new, digests)
        if reading.incomplete:
            # At 16 characters each, digests take 40 KB of the 400 KB of an item.
            self._remember(Seen(tuple(dict.fromkeys(digests + before.digests))[:ENTRIES_MAX], shared), before)
            # Drop the validators: a 304 would make the loss permanent.
            cut = replace(_without_validators(feed.state), last_new=last_new, newest=state.newest, stale_since=None)
            outcome, state = self.fail(cut, reading.incomplete)
            return replace(outcome, sent=len(sent), skipped=tuple(skipped)), state
        # An entry is not remembered if a push delivered a newer version. If the feed still has that entry when the push is
        # forgotten, the entry is sent. If a feed is empty for a moment, the digests stay. Otherwise all entries would be sent
        # again.
        hubs = self.subscription
        current = tuple(digest for event, digest in entries if not (hubs and hubs.has_overtaken(event)))
        self._remember(Seen(current if digests else before.digests, shared), before)
        document_hints = replace(feed_hints.read_hints(document.text), answer_s=state.hints.answer_s)
        state = replace(state, last_new=last_new, hints=document_hints)
        if feed.has_this_configuration:
            state = turned_over(state, len(digests), sum(digest not in received for digest in digests), feed.now)
        outcome = feed.outcome("changed", sent=len(sent), skipped=tuple(skipped))
        return outcome, after_success(state, feed.now, feed.pace, self.subscription)

    def _remember(self, seen: Seen, before: Seen) -> None:
        """Store the digests of a poll's entries: these are not sent again."""
        if seen != before:
            table.put_if(to_item(seen, feed_entries_key(self.feed.site.host, self.feed.feed.url)))

    def _find_news(self, entries: Sequence[tuple[ArticleEvent, str]], received: Container[str]) -> list[ArticleEvent]:
        """Return the events that are new since the last poll and the pushes; `received` are the digests of the last poll."""
        hubs = self.subscription
        if hubs is None:
            return [event for event, digest in entries if digest not in received]
        return [event for event, _ in entries if hubs.has_news(event, received)]

    def _note_poll(self, state: FeedState) -> None:
        """Load the subscription, and note in it a poll without new entries."""
        self.load_subscription(state)
        self._note_events((), ())

    def _note_events(self, new: Sequence[ArticleEvent], digests: Sequence[str]) -> None:
        """Write the result of a poll into the subscription, because the trust in the hub depends on it."""
        feed, before = self.feed, self.subscription

        def note(state: Subscription) -> Subscription:
            # Under a new configuration entries may mean something else, which is no fault of the hub.
            return subscription.polled(state, new, digests, feed.now, blamed=feed.has_this_configuration)

        if before and note(before) != before:
            self.subscription = subscribe.change(
                feed.site.host, feed.feed.url, lambda state: note(state) if state else None
            )


def _newest_story_at(new: Sequence[ArticleEvent], feed: DueFeed, *, first: bool) -> datetime | None:
    """Return when the last new story arrived: now, or in a feed's first poll the date of its newest story."""
    if not new:
        return None
    dated = [event.published_at for event in new if event.published_at and event.published_at <= feed.now]
    return max(dated, default=feed.now) if first else feed.now


def _with_validators(state: FeedState, answer: client.Response) -> FeedState:
    """Return the state with the answer's validators that can be sent back. Those of the state stay if the answer, a 304, has none."""
    values = (answer.headers.get(name, "") for name in ("etag", "last-modified"))
    etag, last_modified = (
        value if len(value) <= VALIDATOR_CHARACTERS_MAX and value.isprintable() else "" for value in values
    )
    return replace(state, etag=etag or state.etag, last_modified=last_modified or state.last_modified)


def _without_validators(state: FeedState) -> FeedState:
    """Return the state without validators: the next poll reads the whole feed."""
    return replace(state, etag=None, last_modified=None, body_digest=None)
