"""Telling: search engines hear of the pages that changed in the files, each after the page itself was checked.

A file's event starts a comparison with the copy that was compared before. Each changed page is marked in the table, and has a message
of its own. Nothing here delays or fails a publication.
"""

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from stoppress.aws import bucket, items, queues, sites, table
from stoppress.aws.bucket import Overtaken
from stoppress.http import client
from stoppress.http.errors import FetchError, Refused
from stoppress.model.file_headers import CACHE_SHARD, CONTENT_TYPES
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE, atom_name, is_news, series_of
from stoppress.model.site import Site
from stoppress.primitives.deadline import NEVER, Deadline
from stoppress.primitives.instants import exact, parse
from stoppress.tell import indexnow
from stoppress.tell.changes import Change, changes
from stoppress.tell.fetch import check_pages
from stoppress.tell.indexnow import PAUSE_SECONDS, Meaning
from stoppress.tell.page import Expected, PageVerdict
from stoppress.tell.state import (
    BEGAN,
    CHECKED_FOR,
    ENGINE,
    SLOW_CHECK_SECONDS,
    TRIED_FOR,
    PageState,
    delay,
    failing_key,
    is_failing,
    is_ready,
    next_step,
    page_item,
    page_key,
    pages_in,
    read_page,
    told_pk,
)

# The bus event that rewrite_sitemaps sends for each written file.
REWRITTEN = "sitemap rewritten"
# Copies of the files as they were compared last. No CDN serves this folder: its origin path is the host.
COPIES = "told"
# The hourly sweep compares the files that changed in this time, in case their events were lost.
SWEPT_FILES = timedelta(hours=2)
# The sweep leaves a page to its own messages for so long.
SWEPT_PAGES = timedelta(seconds=2 * SLOW_CHECK_SECONDS)
ATTEMPTS_MAX = 10


@dataclass
class Told:
    """What a run did. `failed` has errors by message id. `wrong` has, by host, why an engine refuses what only we can mend."""

    told: list[tuple[str, str]] = field(default_factory=list)
    not_ready: list[tuple[str, str, str]] = field(default_factory=list)
    later: list[tuple[str, str]] = field(default_factory=list)
    wrong: dict[str, str] = field(default_factory=dict)
    failed: dict[str, Exception] = field(default_factory=dict)


def file_message(host: str, file: str) -> str:
    """A message that asks to compare a file, as the bus sends one."""
    return json.dumps({"detail-type": REWRITTEN, "detail": {"site": host, "file": file}})


def page_message(host: str, url: str) -> str:
    """A message that asks to check a page and to tell of it."""
    return json.dumps({"site": host, "page": url})


def tell_engines(messages: Mapping[str, str], now: datetime, deadline: Deadline = NEVER) -> Told:
    """Handle messages by id. What fails, or is not reached before the deadline, is in `failed` and must come again."""
    done = Told()
    pages: defaultdict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    files: defaultdict[tuple[str, str], list[str]] = defaultdict(list)
    for id_, body in messages.items():
        try:
            document = json.loads(body)
            if "page" in document:
                pages[document["site"]][document["page"]].append(id_)
            else:
                files[document["detail"]["site"], document["detail"]["file"]].append(id_)
        except (ValueError, TypeError, KeyError) as error:
            done.failed[id_] = ValueError(f"names neither a file nor a page: {error!r}")
    for (host, file), ids in files.items():
        _guarded(done, ids, deadline, lambda host=host, file=file: compare(host, file, now))  # type: ignore[misc]
    for host, by_url in pages.items():
        ids = [id_ for same in by_url.values() for id_ in same]
        _guarded(done, ids, deadline, lambda host=host, urls=list(by_url): tell_pages(host, urls, now, deadline, done))  # type: ignore[misc]
    return done


def _guarded(done: Told, ids: Sequence[str], deadline: Deadline, work: Callable[[], None]) -> None:
    if deadline.is_over():
        done.failed |= dict.fromkeys(ids, TimeoutError("the run's time was over"))
        return
    try:
        work()
    except Exception as error:  # noqa: BLE001 - the other sites go on
        done.failed |= dict.fromkeys(ids, error)


# ── files ──


def compare(host: str, file: str, now: datetime) -> None:
    """Mark the pages that changed in a file, and send a message for each. Raises the errors of AWS, and FetchError for a hub."""
    site = _told_site(host)
    if site is None or file in (INDEX_FILE, ROBOTS_FILE):
        return
    stored, copy = bucket.read(host, file), bucket.read(f"{COPIES}/{host}", file)
    body = stored.body if stored else b""
    if copy and copy.body == body:
        return
    changed_at = stored.changed if stored else now
    found = list(changes(copy.body if copy else None, body, site.home, _began(host, now), now))
    for change in found:
        _mark(host, change, changed_at)
    queues.send_engines((page_message(host, change.url), 0) for change in found)
    if site.outputs.hub and site.outputs.atom and is_news(file):
        _publish(site, file)
    try:
        bucket.write(
            f"{COPIES}/{host}",
            file,
            body,
            CONTENT_TYPES[".xml"],
            "no-store",
            replaces=copy,
            changed=changed_at,
            config_version=site.version,
        )
    except Overtaken:  # another run compared the file; what it did not see is compared after the next event
        queues.send_engines([(file_message(host, file), SLOW_CHECK_SECONDS)])


def _publish(site: Site, file: str) -> None:
    """Tell the feed's hub that the feed changed (WebSub, 7). Raises FetchError."""
    assert site.outputs.hub
    topic = f"{site.origin}/{atom_name(series_of(file))}"
    answer = client.post(site.outputs.hub, {"hub.mode": "publish", "hub.url": topic, "hub.topic": topic})
    if answer.status >= 400:
        raise Refused(f"the hub {site.outputs.hub} answers {answer.status} to the publication of {topic}")


def _began(host: str, now: datetime) -> datetime:
    """When telling began at a site. The first call notes it."""
    key = (told_pk(host), BEGAN)
    if known := table.get(*key):
        return parse(known["at"])
    try:
        table.put({"pk": key[0], "sk": key[1], "at": exact(now)}, None)
    except table.Conflict:
        return _began(host, now)
    return now


def _mark(host: str, change: Change, at: datetime) -> None:
    def marked(old: PageState | None) -> PageState | None:
        if old and old.changed >= at and (old.changed > at or old.gone == change.gone or change.gone):
            return None
        known = replace(old, checks=0, failing_since=None, reason="") if old else PageState(change.url, at)
        return replace(known, changed=at, gone=change.gone, published=change.published or known.published)

    before = table.get(*page_key(host, change.url))
    _update(host, change.url, marked)
    if before and is_failing(read_page(before)):  # it is checked anew
        table.delete(*failing_key(host, change.url))


# ── pages ──


def tell_pages(host: str, urls: Sequence[str], now: datetime, deadline: Deadline, done: Told) -> None:
    """Check pages of a site, and tell the engines of those that are ready. The others get a message for later."""
    site = _told_site(host)
    if site is None:
        return
    read = table.get_many(page_key(host, url) for url in urls)
    states = [read_page(item) for item in read.values()]
    steps = {state.url: next_step(state, now) for state in states}
    again = [(state.url, steps[state.url].seconds) for state in states if steps[state.url].action == "wait"]
    due = [state for state in states if steps[state.url].action == "check"]
    verdicts = check_pages([Expected(state.url, state.published) for state in due], deadline) if due else {}
    ready: list[PageState] = []
    for state in due:
        verdict = verdicts[state.url]
        if is_ready(state, verdict) or (state.gone and verdict.ready and _is_listed(host, state.url)):
            claimed = _write(
                host, replace(state, tried_at=now, checked_at=now, checks=0, failing_since=None, reason="")
            )
            if claimed:
                ready.append(claimed)
                if is_failing(state):
                    table.delete(*failing_key(host, state.url))
            else:  # another run tells of the page, and may be killed
                again.append((state.url, PAUSE_SECONDS))
        else:
            again += _not_ready(host, state, verdict, now, done)
    if ready:
        again += _tell(site, ready, now, done)
    queues.send_engines((page_message(host, url), seconds) for url, seconds in again)


def _not_ready(
    host: str, state: PageState, verdict: PageVerdict, now: datetime, done: Told
) -> Iterator[tuple[str, int]]:
    reason = "is in no sitemap, and still answers 200" if verdict.ready else verdict.reason
    failed = replace(
        state, checked_at=now, checks=state.checks + 1, failing_since=state.failing_since or now, reason=reason[:500]
    )
    if _write(host, failed) and is_failing(failed):
        table.put_if(page_item(host, failed) | {"sk": failing_key(host, state.url)[1]})
    done.not_ready.append((host, state.url, reason))
    if now < state.changed + CHECKED_FOR:
        yield state.url, delay(failed)


def _tell(site: Site, ready: Sequence[PageState], now: datetime, done: Told) -> Iterator[tuple[str, int]]:
    """Tell the engines of claimed pages. Yields those that must come again, with the seconds until then."""
    answer = _indexnow(site, [state.url for state in ready], now)
    for state in ready:
        if answer.result == "told":
            done.told.append((site.host, state.url))
            _update(site.host, state.url, lambda old: replace(old, told_at=now) if old else None)
            continue
        done.later.append((site.host, state.url))
        if answer.is_certain:
            _update(site.host, state.url, lambda old: replace(old, tried_at=None) if old else None)
        if now < state.changed + TRIED_FOR:
            yield state.url, answer.after_seconds
    if answer.result == "wrong":
        done.wrong[site.host] = f"IndexNow {answer.reason}"
    _note(site.host, "" if answer.result == "told" else answer.reason, now)


def _indexnow(site: Site, urls: list[str], now: datetime) -> Meaning:
    if site.engines is None or site.engines.indexnow is None:
        return Meaning("told")
    settings = site.engines.indexnow
    file = indexnow.key_file(settings.key)
    if bucket.read(site.host, file) is None:
        bucket.write(
            site.host,
            file,
            settings.key.encode(),
            CONTENT_TYPES[".txt"],
            CACHE_SHARD,
            replaces=None,
            changed=now,
            config_version=site.version,
        )
    body = indexnow.request_body(site.host, settings.key, f"{site.origin}/{file}", urls)
    try:
        answer = client.post_body(settings.url, body, indexnow.CONTENT_TYPE)
    except Refused as error:
        return Meaning("wrong", str(error))
    except FetchError as error:
        return Meaning("later", str(error))
    return indexnow.meaning(answer.status, answer.headers, answer.body, now)


def _note(host: str, reason: str, now: datetime) -> None:
    """Keep why an engine took nothing, or that it took pages, for `stoppress status`."""
    pk, sk = told_pk(host), f"{ENGINE}IndexNow"
    known = table.get(pk, sk) or {}
    if reason or known.get("reason"):
        since = known.get("since") if known.get("reason") and reason else exact(now)
        table.put_if({"pk": pk, "sk": sk, "at": exact(now), "since": since, "reason": reason[:500]})


def _is_listed(host: str, url: str) -> bool:
    """Whether another file lists the page: then it only left one of them."""
    item = table.get(*items.claim_key(host, url))
    return item is not None and items.read_claim(item, url).live


# ── sweep ──


def sweep(known: Iterable[Site], now: datetime) -> None:
    """Send messages for what was not told, in case an event or a message was lost."""
    for site in known:
        if site.engines is None:
            continue
        marks = [
            items.read_mark(item) for item in table.query(items.file_pk(site.host, INDEX_FILE)) if "digest" in item
        ]
        files = [mark.file for mark in marks if mark.changed > now - SWEPT_FILES and mark.file != INDEX_FILE]
        pages = [state.url for state in pages_in(table.query(told_pk(site.host))) if _is_left(state, now)]
        messages = [file_message(site.host, file) for file in files] + [page_message(site.host, url) for url in pages]
        queues.send_engines((message, 0) for message in messages)


def _is_left(state: PageState, now: datetime) -> bool:
    last = max(at for at in (state.changed, state.checked_at, state.tried_at) if at)
    return not state.is_told and state.changed + TRIED_FOR > now >= last + SWEPT_PAGES


# ── the table ──


def _told_site(host: str) -> Site | None:
    """The site, if pages of it are told."""
    try:
        site = sites.load_kept(host)
    except sites.UnknownSite:
        return None
    return site if site.engines else None


def _write(host: str, state: PageState) -> PageState | None:
    """Write a state over the one that was read. None: another run was faster."""
    try:
        table.put(page_item(host, state), state.rev)
    except table.Conflict:
        return None
    return replace(state, rev=(state.rev or 0) + 1)


def _update(host: str, url: str, change: Callable[[PageState | None], PageState | None]) -> None:
    """Change a page's state, however many others write it. None: the state stays. Raises Conflict after ATTEMPTS_MAX."""
    for attempt in range(ATTEMPTS_MAX):
        item = table.get(*page_key(host, url))
        new = change(read_page(item) if item else None)
        if new is None or _write(host, new):
            return
        table.back_off(attempt + 1)
    raise table.Conflict(f"{url}: other runs were faster in all {ATTEMPTS_MAX} attempts")
