"""Check the pages that changed in the files, and notify search engines of those that are ready.

`notify.changed_files` has marked the pages and sent a message for each. Nothing here delays or fails a publication.
"""

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any

from stoppress.aws import bucket, items, queues, table
from stoppress.aws.bucket import Overtaken
from stoppress.aws.inventory import read_claims, read_marks
from stoppress.http import client
from stoppress.http.errors import FetchError
from stoppress.model.file_names import CACHE_FRESH, CONTENT_TYPES, is_news
from stoppress.model.news_window import NEWS_WINDOW
from stoppress.model.site import Site
from stoppress.notify import google, indexnow, page_state
from stoppress.notify.changed_files import compare, file_message, mark, note_began
from stoppress.notify.fetch_page import check_pages
from stoppress.notify.indexnow import Meaning
from stoppress.notify.page_state import PageState
from stoppress.notify.sitemap_reports import describe_unread
from stoppress.primitives.instants import NEVER, Deadline

# The hourly sweep compares the files that changed in this time, in case their events were lost. Older changes are left out.
SWEPT_FILES = NEWS_WINDOW
# The sweep looks up the articles of the pages that changed in this time. One sweep may be lost.
SWEPT_CLAIMS = timedelta(hours=2)
# The sweep skips a page that changed or was checked within this time: its own messages are on their way.
SWEPT_PAGES = timedelta(seconds=2 * page_state.SLOW_CHECK_SECONDS)
# The kinds of work, in their order. Requests to Search Console come last, because no notification waits for Google's answers.
_FILE, _PAGES, _SEARCH_CONSOLE = range(3)
# Seconds until the next check of a page that another run has claimed: ten minutes, and one more.
CLAIMED_SECONDS = int(page_state.PAUSE.total_seconds())


@dataclass
class Notified:
    """The outcome of a run. `notified` has site and URL; `not_ready` a reason too. `engines_failing` has the site, and why an engine fails.

    `failed` has errors by message id, `postponed` the ids of messages for which there was no time.
    """

    notified: list[tuple[str, str]] = field(default_factory=list)
    not_ready: list[tuple[str, str, str]] = field(default_factory=list)
    engines_failing: list[tuple[str, str]] = field(default_factory=list)
    failed: dict[str, Exception] = field(default_factory=dict)
    postponed: set[str] = field(default_factory=set)


def notify_engines(messages: Mapping[str, str], now: datetime, deadline: Deadline = NEVER) -> Notified:
    """Handle messages by id. Messages in `failed`, and in `postponed` for lack of time, must be delivered again."""
    done = Notified()
    tasks: defaultdict[tuple[int, str, str], dict[str, Any]] = defaultdict(dict)
    for id_, body in messages.items():
        try:
            document = json.loads(body)
            tasks[_task_of(document)][id_] = document
        except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
            done.failed[id_] = ValueError(f"the message has no file or page: {error!r}")
    for (kind, host, file), documents in sorted(tasks.items(), key=lambda task: task[0][0]):
        if deadline.is_over():
            done.postponed |= documents.keys()
            continue
        try:
            if kind == _FILE:
                compare(host, file, now)
            elif kind == _PAGES:
                urls = dict.fromkeys(document["page"] for document in documents.values())
                notify_pages(host, list(urls), now, deadline, done)
            elif reason := google.handle(host, documents.values(), now, deadline):
                done.engines_failing.append((host, reason))
        except Exception as error:  # noqa: BLE001 - the other files and sites are handled all the same
            done.failed |= dict.fromkeys(documents, error)
    return done


def _task_of(document: Any) -> tuple[int, str, str]:
    """Return the kind of work that a message asks for, the site, and the file. Raises ValueError, TypeError, KeyError, AttributeError."""
    if isinstance(document.get("page"), str):
        return _PAGES, document["site"], ""
    if "inspect" in document or "sitemaps" in document:
        return _SEARCH_CONSOLE, document["site"], ""
    return _FILE, document["detail"]["site"], document["detail"]["file"]


# ── pages ──


def notify_pages(host: str, urls: Sequence[str], now: datetime, deadline: Deadline, done: Notified) -> None:
    """Check pages of a site, and notify the engines of those that are ready. The others get a message for later."""
    site = page_state.notified_site(host)
    if site is None:
        return
    engine_key = page_state.notified_pk(host), page_state.INDEXNOW
    claim_keys = {url: items.claim_key(host, url) for url in urls}
    stored = table.get_many([engine_key, *(page_state.page_key(host, url) for url in urls), *claim_keys.values()])
    engine = stored.pop(engine_key, {})
    live = {url: items.read_claim(stored.pop(key), url).live for url, key in claim_keys.items() if key in stored}
    states = list(_reconcile(host, map(page_state.read_page, stored.values()), live, now))
    waits = [(state, page_state.seconds_until_check(state, now)) for state in states]
    waiting = [(state, seconds) for state, seconds in waits if seconds]
    due, delayed = [state for state, seconds in waits if seconds == 0], list[tuple[PageState, int]]()
    if seconds := page_state.paused_seconds(engine, now):
        delayed = [(state, seconds) for state in due]
    elif due:
        delayed = list(_check(site, engine, due, now, deadline, done))
    # Later only the sweep tries.
    waiting += [(state, seconds) for state, seconds in delayed if now < state.changed + page_state.CHECKED_FOR]
    queues.send_engines((page_state.message(host, page=state.url), seconds) for state, seconds in waiting)


def _check(
    site: Site, engine: Mapping[str, str], due: Sequence[PageState], now: datetime, deadline: Deadline, done: Notified
) -> Iterator[tuple[PageState, int]]:
    """Check pages, and notify the engines of those that are ready. Yield the others, with the seconds until their next check."""
    verdicts = check_pages({state.url: state.published for state in due}, deadline)
    claimed: list[PageState] = []
    for state in due:
        verdict = verdicts[state.url]
        if not page_state.is_ready(state, verdict):
            failed = page_state.after_failed_check(state, verdict, now)
            page_state.write_page(site.host, state, failed)
            if failed.is_failing and not state.is_failing:
                done.not_ready.append((site.host, state.url, failed.reason))
            yield state, page_state.delay(failed)
            continue
        # Until the engine has answered, it is unknown what it accepted. The ten minutes count from the request, not from `now`.
        claim = replace(state, notified="", tried_at=datetime.now(UTC), checked_at=now, **page_state.NO_FAILED_CHECKS)
        if written := page_state.write_page(site.host, state, claim):
            claimed.append(written)
        else:  # another run notifies engines of the page, and may be killed
            yield state, CLAIMED_SECONDS
    if claimed:
        yield from _notify(site, engine, claimed, now, done)


def _reconcile(host: str, states: Iterable[PageState], live: Mapping[str, bool], now: datetime) -> Iterator[PageState]:
    """Yield the states of pages whose articles and files agree. `live`: by URL, whether an article is published there.

    A listed page that its article has left is marked as GONE. A GONE page that an article has again waits until its file is compared.
    """
    for state in states:
        if state.gone and live.get(state.url):
            continue
        if not state.gone and not live.get(state.url, True):
            mark(host, state, PageState(state.url, page_state.GONE, now))
            queues.send_engines([(page_state.message(host, page=state.url), 0)])
            continue
        yield state


def _notify(
    site: Site, engine: Mapping[str, str], claimed: Sequence[PageState], now: datetime, done: Notified
) -> Iterator[tuple[PageState, int]]:
    """Notify the engines of claimed pages. Yield them with the seconds until the next attempt, if the engines did not accept them."""
    answer = _post_to_indexnow(site, [state.url for state in claimed], now)
    if answer.result == "accepted":
        at = now if site.engines and site.engines.indexnow else None  # Search Console is not notified
        for state in claimed:
            done.notified += [(site.host, state.url)] if at else []
            notified = {"notified": state.version, "notified_at": at}
            page_state.update_page(site.host, state.url, partial(replace, **notified))
        queues.send_engines(google.first_inspections(site, claimed))
    else:
        for state in claimed:
            if answer.is_certain:
                # Ends the claim of this run, but not that of another run that claimed the page since.
                page_state.write_page(site.host, state, replace(state, tried_at=None))
            yield state, answer.after_seconds
    if reason := page_state.note_answer(site.host, page_state.INDEXNOW, engine, answer, now):
        done.engines_failing.append((site.host, reason))


def _post_to_indexnow(site: Site, urls: list[str], now: datetime) -> Meaning:
    if site.engines is None or site.engines.indexnow is None:
        return Meaning("accepted")
    settings = site.engines.indexnow
    file, headers = indexnow.key_file(settings.key), (CONTENT_TYPES[".txt"], CACHE_FRESH)
    while bucket.read(site.host, file) is None:
        with suppress(Overtaken):  # another run puts it, and may be killed
            key = settings.key.encode()
            bucket.write(site.host, file, key, *headers, replaces=None, changed=now, config=site.digest)
    body = indexnow.request_body(site.host, settings.key, f"{site.origin}/{file}", urls)
    try:
        answer = client.post_body(settings.url, body, indexnow.CONTENT_TYPE)
    except FetchError as error:
        return indexnow.meaning_of_failure(error)
    return indexnow.meaning(answer.status, answer.headers, answer.body, datetime.now(UTC))


# ── sweep ──


def sweep(all_sites: Iterable[Site], now: datetime) -> Notified:
    """Send messages for pages and files that engines missed, in case an event or a message was lost. `failed` has the errors by host."""
    done = Notified()
    for site in all_sites:
        if site.engines:
            try:
                done.engines_failing += [(site.host, reason) for reason in _sweep(site, now)]
            except Exception as error:  # noqa: BLE001 - the other sites are swept all the same
                done.failed[site.host] = error
    return done


def _sweep(site: Site, now: datetime) -> list[str]:
    """Sweep a site. Return a sentence for each sitemap that Google has stopped reading."""
    indexes, marks = read_marks(site.host, consistent=False)
    files = [mark.file for mark in marks if mark.changed > now - SWEPT_FILES]
    stored = list(table.query(page_state.notified_pk(site.host), consistent=False))
    note_began(site.host, now, sweeps=True)
    states = page_state.pages_in(stored)
    engine = next((item for item in stored if item["sk"] == page_state.INDEXNOW), {})
    urls = [] if page_state.paused_seconds(engine, now) else [state.url for state in states if _is_pending(state, now)]
    recent = [state.url for state in states if not state.gone and state.changed > now - SWEPT_CLAIMS]
    # A run that is killed after it marked a page leaves no copy of the file. If the page then leaves the file before the next
    # comparison, only its claim shows that it left.
    claims = read_claims(site.host, recent, consistent=False)
    urls += [url for url in recent if url in claims and not claims[url].live]
    messages = [file_message(site.host, file) for file in files]
    messages += [page_state.message(site.host, page=url) for url in urls]
    sitemaps = [*indexes.files, *(mark.file for mark in marks if is_news(mark.file))] if marks else []
    messages += google.due_requests(site, sitemaps, stored, now)
    queues.send_engines((message, 0) for message in messages)
    return [*describe_unread(stored, now)]


def _is_pending(state: PageState, now: datetime) -> bool:
    last = max(at for at in (state.changed, state.checked_at, state.tried_at) if at)
    return not state.is_notified and state.changed + page_state.TRIED_FOR > now >= last + SWEPT_PAGES
