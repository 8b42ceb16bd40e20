"""Polling: the feeds that are due are fetched at once, and what is new or changed in them is sent as article events.

Only the fetching is concurrent. Events are sent before the feed's state is written: a crash in between sends them
again, and recording knows duplicates; the other way round they would be lost.
"""

import hashlib
import re
import time
from collections.abc import Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor, as_completed
from dataclasses import dataclass, replace
from datetime import datetime
from http import HTTPStatus
from typing import Any, Literal

from stoppress import queues, table, web
from stoppress.article import ArticleEvent, digest_of
from stoppress.feed_documents import ENTRIES_MAX, read_document
from stoppress.feed_schedule import FeedState, after_failure, after_success
from stoppress.feeds import FeedError, entries_of, to_events
from stoppress.instants import exact, parse
from stoppress.site import Feed, Site
from stoppress.urls import key_of

# Slow servers cost a thread's wait, not work; more threads than this would be 0.3 GB of the largest bodies.
FETCHES_AT_ONCE = 32
VALIDATOR_CHARACTERS_MAX = 1_000

_ASKING_TO_WAIT = {HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE}
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_INSTANTS = ("next_poll_at", "last_success")


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one feed that was due: how many events were sent, which entries were left out and why.

    A feed that failed may have sent events: those of the complete entries, where it was cut off. One that was not
    reached in this run is the first of the next.
    """

    site: str
    url: str
    result: Literal["changed", "unchanged", "failed", "not reached"]
    sent: int = 0
    skipped: tuple[str, ...] = ()
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class _Due:
    site: Site
    feed: Feed
    state: FeedState
    rev: int | None

    def outcome(self, result: Literal["changed", "unchanged", "failed", "not reached"], **said: Any) -> Outcome:
        return Outcome(self.site.host, self.feed.url, result, **said)

    @property
    def has_this_configuration(self) -> bool:
        """Whether the last body was read by the site's configuration of today; else it is to be read again."""
        return self.state.config_version == self.site.version


def poll_site_feeds(sites: Iterable[Site], now: datetime, deadline: float = float("inf")) -> Iterator[Outcome]:
    """Poll the feeds that are due, until `deadline` (of `time.monotonic`), and say what became of each.

    Raises nothing on behalf of a feed. Feeds that are not reached stay due.
    """
    due: list[_Due] = []
    for site in sites:
        for feed in site.feeds:
            try:
                item = table.get(_key(site, feed))
                state = _state(item) if item else FeedState()
            except Exception as error:  # noqa: BLE001 - one feed's state must not keep the others from being polled
                yield Outcome(site.host, feed.url, "failed", reason=f"its state cannot be read: {error!r:.300}")
                continue
            if state.is_due(now):
                due.append(_Due(site, feed, state, item["rev"] if item else None))
    # Those that waited longest first, so that no feed is passed over twice.
    due.sort(key=lambda one: one.state.next_poll_at or datetime.min.replace(tzinfo=now.tzinfo))
    yield from _poll(due, now, deadline)


def _poll(due: list[_Due], now: datetime, deadline: float) -> Iterator[Outcome]:
    executor = ThreadPoolExecutor(FETCHES_AT_ONCE, thread_name_prefix="fetch")
    waiting: dict[Future[web.Response], _Due] = {}
    try:
        waiting |= {executor.submit(web.fetch, one.feed.url, _conditions(one)): one for one in due}
        for fetched in as_completed(list(waiting), timeout=min(max(0.0, deadline - time.monotonic()), 86_400)):
            one = waiting.pop(fetched)
            try:
                yield _settle(one, fetched, now)
            except Exception as error:  # noqa: BLE001 - the feed stays due; the others go on
                yield one.outcome("failed", reason=f"{type(error).__name__}: {error!s:.300}")
            if time.monotonic() >= deadline:
                break
    except TimeoutError:
        pass
    finally:
        # Fetches that are under way end by their own deadline; nobody waits for them.
        executor.shutdown(wait=False, cancel_futures=True)
    for one in waiting.values():
        yield one.outcome("not reached", reason="the run's time was over")


def _conditions(one: _Due) -> dict[str, str]:
    """The validators of the last good answer, verbatim (R10.1)."""
    if not one.has_this_configuration:
        return {}
    known = {"If-None-Match": one.state.etag, "If-Modified-Since": one.state.last_modified}
    return {name: value for name, value in known.items() if value}


def _settle(one: _Due, fetched: Future[web.Response], now: datetime) -> Outcome:
    """Send what is new in an answer, then write the feed's state."""
    state, interval = one.state, one.feed.interval_minutes
    try:
        answer = fetched.result()
        if answer.status == HTTPStatus.NOT_MODIFIED and _conditions(one):
            outcome = one.outcome("unchanged")
            state = after_success(_validated(state, answer.headers, keep=True), now, interval)
        elif answer.status == HTTPStatus.OK:
            outcome, state = _read(one, answer, now)
        else:
            reason = f"the server answered {answer.status}"
            outcome = one.outcome("failed", reason=reason)
            retry_after = answer.headers.get("retry-after") if answer.status in _ASKING_TO_WAIT else None
            state = after_failure(
                state, now, interval, reason, retry_after=retry_after, gone=answer.status == HTTPStatus.GONE
            )
    except (web.FetchError, FeedError) as error:
        outcome = one.outcome("failed", reason=str(error))
        state = after_failure(state, now, interval, str(error))
    try:
        table.put(_item(one, state), one.rev)
    except table.Conflict:
        return replace(outcome, reason=outcome.reason or "another run polled it at the same time")
    return outcome


def _read(one: _Due, answer: web.Response, now: datetime) -> tuple[Outcome, FeedState]:
    """Send the entries of a body that the last good one did not have. Raises FeedError."""
    interval = one.feed.interval_minutes
    body_digest = hashlib.sha256(answer.body).hexdigest()[:32]
    read = replace(
        _validated(one.state, answer.headers),
        body_digest=body_digest,
        config_version=one.site.version,
        moved_to=answer.permanent_url,
    )
    if body_digest == one.state.body_digest and one.has_this_configuration:
        return one.outcome("unchanged"), after_success(read, now, interval)

    document = read_document(answer.body, answer.headers)
    events, skipped = to_events(entries_of(document, answer.url, one.site), one.site, now)
    if document.left_out:
        skipped.append(f"{document.left_out} entries after the first {ENTRIES_MAX:,}")
    digests = tuple(digest_of(event) for event in events)
    # By another configuration the same entry may mean something else; recording knows what it has heard.
    new = _new(events, digests, one.state) if one.has_this_configuration else events
    queues.send_articles(new)

    said = {"sent": len(new), "skipped": tuple(skipped)}
    if document.cut_off:
        reason = f"the feed is cut off after {len(events)} complete entries"
        # Without the validators: a 304 would make the loss last.
        cut = replace(_validated(one.state, {}), body_digest=None, entries=_joined(digests, one.state.entries))
        return one.outcome("failed", reason=reason, **said), after_failure(cut, now, interval, reason)
    # A feed that is empty for a moment is no reason to send everything again when it is back.
    read = replace(read, entries=digests or one.state.entries)
    return one.outcome("changed", **said), after_success(read, now, interval)


def _new(events: list[ArticleEvent], digests: tuple[str, ...], state: FeedState) -> list[ArticleEvent]:
    known = set(state.entries)
    return [event for event, digest in zip(events, digests, strict=True) if digest not in known]


def _joined(digests: tuple[str, ...], known: tuple[str, ...]) -> tuple[str, ...]:
    # As digests of 16 characters 40 KB at most of the 400 that an item can have.
    return tuple(dict.fromkeys(digests + known))[:ENTRIES_MAX]


def _validated(state: FeedState, headers: Mapping[str, str], *, keep: bool = False) -> FeedState:
    """With the answer's validators in place of the old ones; `keep` the old where the answer (a 304) has none."""
    etag, last_modified = (_validator(headers.get(name)) for name in ("etag", "last-modified"))
    if keep:
        etag, last_modified = etag or state.etag, last_modified or state.last_modified
    return replace(state, etag=etag, last_modified=last_modified)


def _validator(value: str | None) -> str | None:
    """A header's value that can be sent back."""
    return value if value and len(value) <= VALIDATOR_CHARACTERS_MAX and not _CONTROL.search(value) else None


def _key(site: Site, feed: Feed) -> str:
    return f"feed#{site.host}#{key_of(feed.url)}"


def _item(one: _Due, state: FeedState) -> dict[str, Any]:
    said = {name: getattr(state, name) for name in FeedState.__slots__}
    said |= {name: exact(said[name]) for name in _INSTANTS if said[name]}
    said["entries"] = list(state.entries)
    return {
        "pk": _key(one.site, one.feed),
        "sk": "-",
        "url": one.feed.url,
        **{name: value for name, value in said.items() if value is not None},
    }


def _state(item: Mapping[str, Any]) -> FeedState:
    said = {name: item[name] for name in FeedState.__slots__ if name in item}
    said |= {name: parse(said[name]) for name in _INSTANTS if name in said}
    said |= {name: int(said[name]) for name in ("config_version", "failures") if name in said}
    return FeedState(**{**said, "entries": tuple(said.get("entries", ()))})
