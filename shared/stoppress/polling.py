"""Polling: the feeds that are due are fetched at once, and what is new or changed in them is sent as article events.

Only the fetching is concurrent. A feed is leased by a conditional write before it is fetched, so that two runs never ask
it at the same time. Events are sent before the feed's state is written: a crash in between sends them again, and recording
knows duplicates; the other way round they would be lost.

A feed that names a hub is subscribed to there, once it has been polled well, and is polled more seldom while the hub's pushes
bring what is new (`feeds.subscription`). Hubs are asked beside the fetches, and nobody waits for them.
"""

import re
import time
from collections import deque
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http import HTTPStatus
from typing import Any, Literal, TypeAlias
from urllib.parse import urlsplit

from stoppress import queues, subscribing, table, web
from stoppress.article import ArticleEvent, digest_of
from stoppress.feeds import fetching, hints, subscription
from stoppress.feeds.documents import ENTRIES_MAX, FeedError
from stoppress.feeds.events import to_events
from stoppress.feeds.hubs import can_be_trusted, hub_of, topic_of
from stoppress.feeds.items import feed_entries_item, feed_entries_key, feed_item, feed_key, read_feed, read_feed_entries
from stoppress.feeds.schedule import FeedState, Pace, after_failure, after_success, leased, moved, pace_of
from stoppress.feeds.subscription import Subscription
from stoppress.site import Feed, Site
from stoppress.subscribing import NotSubscribed

# Slow servers cost a thread's wait, not work. Sixteen of the largest bodies, one of them being read, took 508 MB here: less than
# the function has (template.yaml).
FETCHES_AT_ONCE = 16
VALIDATOR_CHARACTERS_MAX = 1_000
# A stack of hundreds of feeds subscribes to a few at a time; the others are asked in a later minute, if there is none left in this.
HUBS_AT_ONCE = 4

_ASKING_TO_WAIT = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")

Result: TypeAlias = Literal["changed", "unchanged", "failed", "not reached", "waiting", "subscribing", "not subscribed"]


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one feed that was due: how many events were sent, which entries were left out and why.

    A feed that failed may have sent events: those of the complete entries, where it was cut off. One that was not
    reached in this run is among the first of the next. `needs_somebody` where a feed is gone or has failed for an hour; then
    one that was not due is among the outcomes as well, as `waiting`. A feed whose hub was asked has a second outcome:
    `subscribing` where it took the request, else `not subscribed`.
    """

    site: str
    url: str
    result: Result
    sent: int = 0
    skipped: tuple[str, ...] = ()
    reason: str | None = None
    needs_somebody: bool = False


@dataclass(frozen=True, slots=True)
class _Due:
    site: Site
    feed: Feed
    state: FeedState
    rev: int | None
    now: datetime
    waited: timedelta = timedelta()  # from `now`, when the run began, until it was asked

    def outcome(self, result: Result, **said: Any) -> Outcome:
        return Outcome(self.site.host, self.feed.url, result, **said)

    @property
    def has_this_configuration(self) -> bool:
        """Whether the last body was read by the site's configuration of today; else it is to be read again."""
        return self.state.config_version == self.site.version

    @property
    def pace(self) -> Pace:
        return pace_of(self.feed, self.site)

    @property
    def asked(self) -> str:
        """Where the feed is to be found today."""
        return self.state.url_to_ask(self.feed.url, self.now)


def poll_site_feeds(sites: Iterable[Site], now: datetime, deadline: float = float("inf")) -> Iterator[Outcome]:
    """Poll the feeds that are due, until `deadline` (of `time.monotonic`), and say what became of each.

    Raises nothing on behalf of a feed. Feeds that are not reached stay due.
    """
    configured = {feed_key(site.host, feed.url): (site, feed) for site in sites for feed in site.feeds}
    items = table.get_many(configured)
    due: list[_Due] = []
    for key, (site, feed) in configured.items():
        item = items.get(key)
        try:
            one = _Due(site, feed, read_feed(item) if item else FeedState(), int(item["rev"]) if item else None, now)
        except Exception as error:  # noqa: BLE001 - one feed's state must not keep the others from being polled
            reason = f"its state cannot be read: {error!r:.300}"
            yield Outcome(site.host, feed.url, "failed", reason=reason, needs_somebody=True)
            continue
        if one.state.is_due(now, site.version):
            due.append(one)
        elif one.state.needs_somebody(now, site.version):
            yield one.outcome("waiting", needs_somebody=True)
    # Those that waited longest first, so that no feed is passed over twice; last those that may only cost time again.
    earliest = datetime.min.replace(tzinfo=now.tzinfo)
    due.sort(key=lambda one: (one.state.failures > 0, one.state.next_poll_at or earliest))
    yield from _poll(deque(due), deadline)


def _poll(due: deque[_Due], deadline: float) -> Iterator[Outcome]:
    executor = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="fetch")
    waiting: dict[Future[fetching.Fetched], _Due] = {}
    hubs = _Hubs()
    began = time.monotonic()
    try:
        while (due or waiting or hubs.busy) and time.monotonic() < deadline:
            # No more are fetched than can be held in memory until they are read.
            while due and len(waiting) < FETCHES_AT_ONCE:
                one = due.popleft()
                try:
                    one = _leased(one)
                except table.Conflict:
                    yield one.outcome("waiting", reason="another run is at it")
                    continue
                except Exception as error:  # noqa: BLE001 - the feed stays due; the others go on
                    yield one.outcome("failed", reason=f"{type(error).__name__}: {error!s:.300}")
                    continue
                one = replace(one, waited=timedelta(seconds=time.monotonic() - began))
                waiting[executor.submit(fetching.fetch, one.asked, _headers(one), one.site)] = one
            yield from hubs.ask()
            under_way: list[Future[Any]] = [*waiting, *hubs.waiting]
            done, _ = wait(under_way, min(max(0.0, deadline - time.monotonic()), 86_400), FIRST_COMPLETED)
            yield from hubs.settle(done)
            for fetched in sorted((one for one in done if one in waiting), key=_size_bytes):
                yield _settled(waiting.pop(fetched), fetched, hubs)
                if time.monotonic() >= deadline:
                    break
    finally:
        # Fetches that are under way end by their own deadline; nobody waits for them.
        executor.shutdown(wait=False, cancel_futures=True)
        hubs.leave()
    for one in [*waiting.values(), *due]:
        yield one.outcome("not reached", reason="the run's time was over")


class _Hubs:
    """The hubs that are to be asked in this run, and those that are being asked.

    What is not over by the run's deadline is noted as asked: the hub's own request tells how it ended, or it is asked again.
    """

    def __init__(self) -> None:
        self._wanted: deque[tuple[_Due, str, str]] = deque()
        self._executor: ThreadPoolExecutor | None = None
        self.waiting: dict[Future[str | None], tuple[_Due, subscribing.Ask]] = {}

    @property
    def busy(self) -> bool:
        return bool(self._wanted or self.waiting)

    def want(self, one: _Due, state: FeedState, told: Subscription | None) -> None:
        """Have the feed's hub asked, if it is to be."""
        if not (one.feed.websub and state.hub and state.topic and can_be_trusted(state.hub)):
            return
        if told is None or told.is_to_ask(state.hub, state.topic, one.now):
            self._wanted.append((one, state.hub, state.topic))

    def ask(self) -> Iterator[Outcome]:
        """Send as many requests as may be under way at once."""
        while self._wanted and len(self.waiting) < HUBS_AT_ONCE:
            one, hub, topic = self._wanted.popleft()
            try:
                ask = subscribing.prepared(one.site, one.feed.url, hub, topic, one.now)
            except NotSubscribed as error:
                yield one.outcome("not subscribed", reason=f"{hub}: {error}")
                continue
            except Exception as error:  # noqa: BLE001 - the next poll tries again; the others go on
                yield one.outcome("not subscribed", reason=f"{hub}: {type(error).__name__}: {error!s:.300}")
                continue
            if ask:
                self._executor = self._executor or ThreadPoolExecutor(HUBS_AT_ONCE, thread_name_prefix="hub")
                self.waiting[self._executor.submit(subscribing.send, ask)] = (one, ask)

    def settle(self, done: Iterable[Future[Any]]) -> Iterator[Outcome]:
        """What the hubs have answered."""
        for answered in [one for one in done if one in self.waiting]:
            one, ask = self.waiting.pop(answered)
            try:
                reason = answered.result()
                if reason:
                    subscribing.note_failure(ask, reason)
            except Exception as error:  # noqa: BLE001 - it is asked again all the same; the others go on
                reason = f"{type(error).__name__}: {error!s:.300}"
            reason = f"{ask.state.hub}: {reason}" if reason else ask.state.hub
            yield one.outcome("subscribing" if reason == ask.state.hub else "not subscribed", reason=reason)

    def leave(self) -> None:
        """Leave alone what is under way; a request ends by its own deadline."""
        if self._executor:
            self._executor.shutdown(wait=False, cancel_futures=True)


def _size_bytes(fetched: Future[fetching.Fetched]) -> int:
    """The small ones are read first: a large body keeps nobody waiting who comes with it."""
    return 0 if fetched.exception() else fetched.result().size_bytes


def _leased(one: _Due) -> _Due:
    """The feed, taken for this run. Raises Conflict where another run has it."""
    table.put(feed_item(one.site.host, one.feed.url, leased(one.state, one.now)), one.rev)
    return replace(one, rev=(one.rev or 0) + 1)


def _headers(one: _Due) -> dict[str, str]:
    return {"User-Agent": web.user_agent(one.site.home), **_conditions(one)}


def _conditions(one: _Due) -> dict[str, str]:
    """The validators of the last good answer, verbatim (R10.1)."""
    if not one.has_this_configuration:
        return {}
    known = {"If-None-Match": one.state.etag, "If-Modified-Since": one.state.last_modified}
    return {name: value for name, value in known.items() if value}


def _settled(one: _Due, fetched: Future[fetching.Fetched], hubs: _Hubs) -> Outcome:
    try:
        return _settle(one, fetched, hubs)
    except Exception as error:  # noqa: BLE001 - the feed stays due; the others go on
        with suppress(Exception):  # else the lease ends by itself
            table.put(feed_item(one.site.host, one.feed.url, replace(one.state, leased_until=None)), one.rev)
        return one.outcome("failed", reason=f"{type(error).__name__}: {error!s:.300}")


def _settle(one: _Due, fetched: Future[fetching.Fetched], hubs: _Hubs) -> Outcome:
    """Send what is new in an answer, then write the feed's state."""
    told: Subscription | None = None
    try:
        got = fetched.result()
        answer = got.answer
        if answer.status == HTTPStatus.NOT_MODIFIED and _conditions(one):
            told = _polled(one, one.state)
            outcome, read = one.outcome("unchanged"), _not_modified(one, answer)
            if told and told.pushed:
                # As it was before these pushes, or not yet as they have it: the next poll, soon, reads it whole.
                read, told = replace(read, etag=None, last_modified=None, answered_by=None, body_digest=None), None
            state = after_success(read, one.now, one.pace, told)
        elif answer.status == HTTPStatus.OK:
            outcome, state, told = _read(one, got)
        else:
            reason = f"the server answered {answer.status}"
            asked_to_wait = answer.headers.get("retry-after") if answer.status in _ASKING_TO_WAIT else None
            outcome = one.outcome("failed", reason=reason)
            state = _failed(one, one.state, reason, retry_after=asked_to_wait, gone=_is_gone(one, answer))
    except (web.FetchError, FeedError) as error:
        outcome = one.outcome("failed", reason=str(error))
        state = _failed(one, one.state, str(error))
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
    one: _Due, state: FeedState, reason: str, *, retry_after: str | None = None, gone: bool = False
) -> FeedState:
    gone_by = one.site.version if gone else None
    return after_failure(state, one.now, one.pace, reason, url=one.feed.url, retry_after=retry_after, gone_by=gone_by)


def _is_gone(one: _Due, answer: web.Response) -> bool:
    """Whether the configured URL itself, or what it redirects to for good, is gone: not where it leads for the moment."""
    return (
        answer.status == HTTPStatus.GONE
        and one.asked == one.feed.url
        and answer.url in {one.asked, answer.permanent_url}
    )


def _not_modified(one: _Due, answer: web.Response) -> FeedState:
    """The state after a 304, which may bring new validators (R10.1)."""
    state = _answered(one, answer)
    if _place(answer.url) == _place(one.state.answered_by or answer.url):
        return _validated(state, answer, keep=True)
    # Another server's word, on validators that are not its own, is not taken: the next poll is without them.
    return replace(state, etag=None, last_modified=None, answered_by=None, body_digest=None)


def _answered(one: _Due, answer: web.Response) -> FeedState:
    """The state with what any good answer tells: where the feed is, and how long it is to be left alone."""
    asked = hints.with_answer(one.state.hints, answer.headers, one.now)
    return moved(replace(one.state, hints=asked), one.asked, answer.permanent_url, one.feed.url, one.now)


def _read(one: _Due, got: fetching.Fetched) -> tuple[Outcome, FeedState, Subscription | None]:
    """Send the entries of a body that neither the last good one nor pushes have had. Raises FeedError."""
    answer, body_digest = got.answer, got.body_digest
    read = replace(_validated(_answered(one, answer), answer), body_digest=body_digest, config_version=one.site.version)
    if got.is_index:  # its validators know nothing of its sitemaps
        read = replace(read, etag=None, last_modified=None)
    if body_digest == one.state.body_digest and one.has_this_configuration:
        told = _polled(one, read)
        if told is None or not told.pushed:  # else it may say what it said before the pushes, which is news
            return one.outcome("unchanged"), after_success(read, one.now, one.pace, told), told

    document, reading = fetching.read(got, one.site, one.feed.take)
    # A push that came before the feed was asked is older than what the feed says.
    events, skipped = to_events(reading, one.site, one.now + one.waited)
    head = hints.without_entries(document.text)
    hub = hub_of(head, answer.headers, answer.url)
    read = replace(read, hub=hub, topic=topic_of(head, answer.headers, answer.url) or one.asked if hub else None)
    known = _known(one)
    told = _subscription(one, read)
    digests = tuple(digest_of(event) for event in events)
    heard = set(known)
    new = [
        event
        for event, digest in zip(events, digests, strict=True)
        if (told.has_news(event, heard) if told else digest not in heard)
    ]
    # By another configuration the same entry may mean something else; recording knows what it has heard.
    sent = new if one.has_this_configuration else events
    queues.send_articles(sent)
    said = {"sent": len(sent), "skipped": tuple(skipped)}
    last_new = _newest(new, one, first=not known) or one.state.last_new
    told = _noted(one, told, new, digests)
    if reading.incomplete:
        reason = reading.incomplete
        _remember(one, _joined(digests, known), known)
        # Without the validators: a 304 would make the loss last.
        cut = replace(one.state, etag=None, last_modified=None, answered_by=None, body_digest=None, last_new=last_new)
        return one.outcome("failed", reason=reason, **said), _failed(one, cut, reason), None
    # A feed that is empty for a moment is no reason to send everything again when it is back.
    _remember(one, digests or known, known)
    asked = replace(hints.of_document(document.text), answer_s=read.hints.answer_s)
    read = replace(read, last_new=last_new, hints=asked)
    return one.outcome("changed", **said), after_success(read, one.now, one.pace, told), told


def _polled(one: _Due, state: FeedState) -> Subscription | None:
    """The feed's subscription after a poll that brought nothing."""
    return _noted(one, _subscription(one, state), [], ())


def _subscription(one: _Due, state: FeedState) -> Subscription | None:
    return subscribing.load(one.site.host, one.feed.url) if one.feed.websub and state.hub else None


def _noted(one: _Due, told: Subscription | None, new: list[ArticleEvent], seen: tuple[str, ...]) -> Subscription | None:
    """The subscription, what the poll has found noted in it: this is what the hub's trust stands on."""

    def noted(known: Subscription) -> Subscription:
        # By another configuration entries mean something else, which is not the hub's fault.
        return subscription.polled(known, new, seen, one.now, blamed=one.has_this_configuration)

    if told is None or noted(told) == told:
        return told
    return subscribing.change(one.site.host, one.feed.url, lambda known: noted(known) if known else None)


def _newest(new: list[ArticleEvent], one: _Due, *, first: bool) -> datetime | None:
    """When the last new story came: now, or where all of them are new to us, when the newest was published."""
    if not new:
        return None
    dated = [event.published_at for event in new if event.published_at and event.published_at <= one.now]
    return max(dated, default=one.now) if first else one.now


def _known(one: _Due) -> tuple[str, ...]:
    """Digests of the entries that were sent already."""
    key = feed_entries_key(one.site.host, one.feed.url)
    return read_feed_entries(table.get_many([key]).get(key))


def _remember(one: _Due, digests: tuple[str, ...], known: tuple[str, ...]) -> None:
    if digests != known:
        table.put_if(feed_entries_item(one.site.host, one.feed.url, digests))


def _joined(digests: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    # As digests of 16 characters 40 KB at most of the 400 that an item can have.
    return tuple(dict.fromkeys(digests + known))[:ENTRIES_MAX]


def _validated(state: FeedState, answer: web.Response, *, keep: bool = False) -> FeedState:
    """With the answer's validators in place of the old ones; `keep` the old where the answer (a 304) has none."""
    etag, last_modified = (_validator(answer.headers.get(name)) for name in ("etag", "last-modified"))
    if keep:
        etag, last_modified = etag or state.etag, last_modified or state.last_modified
    return replace(state, etag=etag, last_modified=last_modified, answered_by=answer.url)


def _validator(value: str | None) -> str | None:
    """A header's value that can be sent back."""
    return value if value and len(value) <= VALIDATOR_CHARACTERS_MAX and not _CONTROL.search(value) else None


def _place(url: str) -> tuple[str, str]:
    """A URL's host and path: what stands behind them changes with each answer of some servers."""
    parts = urlsplit(url)
    return parts.hostname or "", parts.path
