"""Ingesting: what is new or changed in a feed's answer is sent as article events, and the feed's state written.

Events are sent before the state is written: a crash in between sends them again, and recording knows duplicates; the other way
round they would be lost. A feed that names a hub is subscribed to there, once it has been polled well, and is polled more
seldom while the hub's pushes bring what is new (`feeds.subscription`).
"""

import re
from concurrent.futures import Future
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from urllib.parse import urlsplit

from stoppress.aws import queues, table
from stoppress.feeds import freshness, hints, subscription
from stoppress.feeds.documents import ENTRIES_MAX, Document, FeedError
from stoppress.feeds.entries import Reading
from stoppress.feeds.events import shared_guids, to_events
from stoppress.feeds.freshness import Freshness
from stoppress.feeds.hubs import hub_of, topic_of
from stoppress.feeds.schedule import FeedState, Seen, after_failure, after_success, moved, turned_over
from stoppress.feeds.subscription import Subscription
from stoppress.http import client, errors
from stoppress.model.event import ArticleEvent, digest_of
from stoppress.poll import fetch, subscribe
from stoppress.poll.due import DueFeed, PollOutcome
from stoppress.poll.items import feed_entries_item, feed_entries_key, feed_item, read_feed_entries
from stoppress.poll.subscribe import Hubs

VALIDATOR_CHARACTERS_MAX = 1_000
# Of guids that several pages share; in a good feed there is none, and in a bad one they come again and again.
SHARED_MAX = 100

_ASKING_TO_WAIT = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")


def ingest(one: DueFeed, fetched: Future[fetch.Fetched], hubs: Hubs) -> PollOutcome:
    """Send what is new in an answer, then write the feed's state, and have its hub asked if it is to be.

    Raises what the queue and the table raise; the feed is still leased then.
    """
    told: Subscription | None = None
    try:
        got = fetched.result()
        if got.answer.status == HTTPStatus.NOT_MODIFIED and one.conditions:
            outcome, state, told = _not_modified(one, got.answer)
        elif got.answer.status == HTTPStatus.OK:
            outcome, state, told = _read(one, got)
        else:
            outcome, state = _refused(one, got.answer)
    except (errors.FetchError, FeedError) as error:
        outcome, state = _failed(one, one.state, str(error))
    outcome = replace(outcome, needs_somebody=state.needs_somebody(one.now, one.site.version))
    try:
        table.put(feed_item(one.site.host, one.feed.url, state), one.rev)
    except table.Conflict:
        return replace(outcome, reason=outcome.reason or "another run polled it at the same time")
    went_well = outcome.result in {"changed", "unchanged"}
    if not went_well and not state.is_gone(one.site.version):
        # A feed that fails for days would lose its hub as well, which may be the only way in by then.
        told = told or _subscription(one, state)
    if went_well or told:
        hubs.want(one, state, told)
    return outcome


def _failed(
    one: DueFeed, state: FeedState, reason: str, *, retry_after: str | None = None, gone: bool = False
) -> tuple[PollOutcome, FeedState]:
    gone_by = one.site.version if gone else None
    after = after_failure(state, one.now, one.pace, reason, url=one.feed.url, retry_after=retry_after, gone_by=gone_by)
    return one.outcome("failed", reason=reason), after


def _refused(one: DueFeed, answer: client.Response) -> tuple[PollOutcome, FeedState]:
    """An answer that is neither a feed nor the word that it is as it was."""
    asked_to_wait = answer.headers.get("retry-after") if answer.status in _ASKING_TO_WAIT else None
    reason = f"the server answered {answer.status}"
    return _failed(one, one.state, reason, retry_after=asked_to_wait, gone=_is_gone(one, answer))


def _is_gone(one: DueFeed, answer: client.Response) -> bool:
    """Whether the configured URL itself, or what it redirects to for good, is gone: not where it leads for the moment."""
    return (
        answer.status == HTTPStatus.GONE
        and one.asked == one.feed.url
        and answer.url in {one.asked, answer.permanent_url}
    )


def _not_modified(one: DueFeed, answer: client.Response) -> tuple[PollOutcome, FeedState, Subscription | None]:
    """A 304, which may bring new validators (R10.1)."""
    told = _polled(one, one.state)
    state = _answered(one, answer)
    if told and told.pushed:
        # As it was before these pushes, or not yet as they have it: the next poll, soon, reads it whole.
        state, told = _without_validators(state), None
    elif _place(answer.url) != _place(one.state.answered_by or answer.url):
        # Another server's word, on validators that are not its own, is not taken: the next poll is without them.
        state = _without_validators(state)
    else:
        state = _validated(state, answer, keep=True)
    return one.outcome("unchanged"), after_success(state, one.now, one.pace, told), told


def _answered(one: DueFeed, answer: client.Response) -> FeedState:
    """The state with what any good answer tells: where the feed is, and how long it is to be left alone."""
    asked = hints.with_answer(one.state.hints, answer.headers, one.now)
    return moved(
        replace(one.state, hints=asked, stale_since=None), one.asked, answer.permanent_url, one.feed.url, one.now
    )


# ── a body ──


@dataclass(frozen=True, slots=True)
class _Entries:
    """The entries of a body as events, with their digests; why some were left out; the guids that several pages share."""

    events: list[ArticleEvent]
    digests: tuple[str, ...]
    skipped: tuple[str, ...]
    shared: tuple[str, ...]

    def new(self, heard: set[str], told: Subscription | None) -> list[ArticleEvent]:
        """Those that no poll has had before, and no push."""
        each = zip(self.events, self.digests, strict=True)
        return [event for event, digest in each if (told.has_news(event, heard) if told else digest not in heard)]

    def not_overtaken(self, told: Subscription | None) -> tuple[str, ...]:
        """The digests but for those of entries of which a push has said something newer."""
        each = zip(self.events, self.digests, strict=True)
        return tuple(digest for event, digest in each if told is None or not told.has_overtaken(event))


def _read(one: DueFeed, got: fetch.Fetched) -> tuple[PollOutcome, FeedState, Subscription | None]:
    """Send the entries of a body that neither the last good one nor pushes have had. Raises FeedError."""
    read = _of_body(one, got)
    if got.body_digest == one.state.body_digest and one.has_this_configuration:
        told = _polled(one, read)
        if told is None or not told.pushed:  # else it may say what it said before the pushes, which is news
            return one.outcome("unchanged"), after_success(read, one.now, one.pace, told), told

    document, reading = fetch.read(got, one.site, one.feed.take)
    answered = _freshness(one, got, hints.without_entries(document.text))
    stale = freshness.staleness(answered, one.state.newest)
    if stale and one.state.skips_stale(one.now):
        return _skipped(one, stale)
    read = replace(read, newest=answered if stale else freshness.newest_of(one.state.newest, answered))
    known = _known(one)
    entries = _entries(one, reading, known)
    read = _with_hub(one, read, document, got.answer)
    told = _subscription(one, read)
    heard = set(known.digests)
    new = entries.new(heard, told)
    # By another configuration the same entry may mean something else; recording knows what it has heard.
    sent = new if one.has_this_configuration else entries.events
    queues.send_articles(sent)
    last_new = _newest(new, one, first=not known.digests) or one.state.last_new
    told = _noted(one, told, new, entries.digests)
    if reading.incomplete:
        _remember(one, Seen(_joined(entries.digests, known.digests), entries.shared), known)
        # Without the validators: a 304 would make the loss last.
        cut = replace(_without_validators(one.state), last_new=last_new, newest=read.newest, stale_since=None)
        outcome, state = _failed(one, cut, reading.incomplete)
        return replace(outcome, sent=len(sent), skipped=entries.skipped), state, None
    # What a push has overtaken is not remembered: it is sent when the push is forgotten, if the feed still says it. A feed that
    # is empty for a moment is no reason to send everything again when it is back.
    remembered = entries.not_overtaken(told)
    _remember(one, Seen(remembered if entries.digests else known.digests, entries.shared), known)
    asked = replace(hints.of_document(document.text), answer_s=read.hints.answer_s)
    read = replace(read, last_new=last_new, hints=asked)
    if one.has_this_configuration:
        read = turned_over(read, len(entries.digests), sum(digest not in heard for digest in entries.digests), one.now)
    outcome = one.outcome("changed", sent=len(sent), skipped=entries.skipped)
    return outcome, after_success(read, one.now, one.pace, told), told


def _freshness(one: DueFeed, got: fetch.Fetched, head: str = "") -> Freshness:
    if got.is_index:  # its own age says nothing of its sitemaps
        return Freshness()
    return freshness.of_answer(got.answer.headers, one.now + one.waited, head, one.site.zone)


def _skipped(one: DueFeed, reason: str) -> tuple[PollOutcome, FeedState, Subscription | None]:
    """After a stale copy: nothing of it is kept, not even its validators."""
    told = _polled(one, one.state)
    state = replace(one.state, stale_since=one.state.stale_since or one.now)
    return one.outcome("unchanged", reason=reason), after_success(state, one.now, one.pace, told), told


def _of_body(one: DueFeed, got: fetch.Fetched) -> FeedState:
    """The state after an answer with a body, whatever that says."""
    state = _validated(_answered(one, got.answer), got.answer)
    if got.is_index:  # its validators know nothing of its sitemaps
        state = replace(state, etag=None, last_modified=None)
    newest = freshness.newest_of(one.state.newest, _freshness(one, got))
    return replace(state, body_digest=got.body_digest, config_version=one.site.version, newest=newest)


def _entries(one: DueFeed, reading: Reading, known: Seen) -> _Entries:
    shared = tuple(dict.fromkeys(shared_guids(reading, one.site) + known.shared))[:SHARED_MAX]
    # A push that came before the feed was asked is older than what the feed says.
    events, skipped = to_events(reading, one.site, one.now + one.waited, shared, feed=one.feed.url)
    return _Entries(events, tuple(digest_of(event) for event in events), tuple(skipped), shared)


def _with_hub(one: DueFeed, state: FeedState, document: Document, answer: client.Response) -> FeedState:
    """The state with the hub that a feed names, and the topic that it is to be asked for."""
    head = hints.without_entries(document.text)
    hub = hub_of(head, answer.headers, answer.url)
    topic = (topic_of(head, answer.headers, answer.url) or one.asked) if hub else None
    return replace(state, hub=hub, topic=topic)


def _polled(one: DueFeed, state: FeedState) -> Subscription | None:
    """The feed's subscription after a poll that brought nothing."""
    return _noted(one, _subscription(one, state), [], ())


def _subscription(one: DueFeed, state: FeedState) -> Subscription | None:
    return subscribe.load(one.site.host, one.feed.url) if one.feed.websub and state.hub else None


def _noted(
    one: DueFeed, told: Subscription | None, new: list[ArticleEvent], seen: tuple[str, ...]
) -> Subscription | None:
    """The subscription, what the poll has found noted in it: this is what the hub's trust stands on."""

    def noted(known: Subscription) -> Subscription:
        # By another configuration entries mean something else, which is not the hub's fault.
        return subscription.polled(known, new, seen, one.now, blamed=one.has_this_configuration)

    if told is None or noted(told) == told:
        return told
    return subscribe.change(one.site.host, one.feed.url, lambda known: noted(known) if known else None)


def _newest(new: list[ArticleEvent], one: DueFeed, *, first: bool) -> datetime | None:
    """When the last new story came: now, or where all of them are new to us, when the newest was published."""
    if not new:
        return None
    dated = [event.published_at for event in new if event.published_at and event.published_at <= one.now]
    return max(dated, default=one.now) if first else one.now


def _known(one: DueFeed) -> Seen:
    """The entries that were sent already."""
    key = feed_entries_key(one.site.host, one.feed.url)
    return read_feed_entries(table.get_many([key]).get(key))


def _remember(one: DueFeed, seen: Seen, known: Seen) -> None:
    if seen != known:
        table.put_if(feed_entries_item(one.site.host, one.feed.url, seen))


def _joined(digests: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    # As digests of 16 characters 40 KB at most of the 400 that an item can have.
    return tuple(dict.fromkeys(digests + known))[:ENTRIES_MAX]


def _validated(state: FeedState, answer: client.Response, *, keep: bool = False) -> FeedState:
    """With the answer's validators in place of the old ones; `keep` the old where the answer (a 304) has none."""
    etag, last_modified = (_validator(answer.headers.get(name)) for name in ("etag", "last-modified"))
    if keep:
        etag, last_modified = etag or state.etag, last_modified or state.last_modified
    return replace(state, etag=etag, last_modified=last_modified, answered_by=answer.url)


def _without_validators(state: FeedState) -> FeedState:
    """The next poll reads it whole, whatever the server thinks has changed."""
    return replace(state, etag=None, last_modified=None, answered_by=None, body_digest=None)


def _validator(value: str | None) -> str | None:
    """A header's value that can be sent back."""
    return value if value and len(value) <= VALIDATOR_CHARACTERS_MAX and not _CONTROL.search(value) else None


def _place(url: str) -> tuple[str, str]:
    """A URL's host and path: what stands behind them changes with each answer of some servers."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.path
