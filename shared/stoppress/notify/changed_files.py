"""Compare rewritten files with their last compared versions, and mark the pages that changed.

Each changed page is marked in the table and gets its own message. A repeated or lost message of a file does no harm, because the
changes follow from the file and the copy of its last compared version.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from hashlib import sha256
from html import unescape
from typing import Any

from stoppress.aws import bucket, queues, table
from stoppress.aws.bucket import Overtaken
from stoppress.aws.inventory import read_claims
from stoppress.model.file_names import CONTENT_TYPES, is_indexed
from stoppress.model.news_window import is_current, window_start
from stoppress.model.site import Site
from stoppress.notify import google, page_state
from stoppress.notify.page_state import PageState
from stoppress.primitives.instants import exact, parse

# Folder of the last compared versions of the files. No CDN serves this folder, because its name is no host.
COPIES = "notified"
# A sweep notices a site's new setting within an hour, so pages of the previous hour count too.
BEGAN_BEFORE = timedelta(hours=1)
# The most pages of a file that one run marks. The file's message is sent again for the others.
MARKED_MAX = 1_000

_URL = re.compile(r"<url>(.*?)</url>", re.DOTALL)
_LOC = re.compile(r"<loc>([^<]*)</loc>")
_LASTMOD = re.compile(r"<lastmod>([^<]*)</lastmod>")
_PUBLISHED = re.compile(r"<news:publication_date>([^<]*)</news:publication_date>")


def file_message(host: str, file: str) -> str:
    """Return a request to compare a file, in the form of a bus event."""
    return json.dumps({"detail": {"site": host, "file": file}})


def compare(host: str, file: str, now: datetime) -> None:
    """Mark the pages that changed in a file since it was compared last, and send a message for each."""
    site = page_state.notified_site(host)
    if site is None or not is_indexed(file):
        return
    copies = f"{COPIES}/{host}"
    copy = bucket.read(copies, file)  # before the file, so that the file is not the older of the two
    stored = bucket.read(host, file)
    body = stored.body if stored else b""
    if copy.body == body if copy else stored is None:
        return
    began = note_began(host, now)
    before = copy.body if copy and copy.changed >= began else None
    put_at = stored.put_at if stored else None
    changed = list(find_changes(before, body, site.home, began, now))
    # Only the entries of news sitemaps have the date of publication.
    changed = [replace(page, listed_at=put_at, news_file=file) if page.published else page for page in changed]
    # A page that left a file may still be published: then an article claims its URL.
    claims = read_claims(host, [change.url for change in changed if change.version == page_state.GONE])
    gone_or_listed = [change for change in changed if change.url not in claims or not claims[change.url].live]
    if not _mark_all(site, file, gone_or_listed, now):
        queues.send_engines([(file_message(host, file), 0)])
        return
    try:
        headers = CONTENT_TYPES[".xml"], "no-store"
        bucket.write(copies, file, body, *headers, replaces=copy, changed=now, config=site.digest)
    except Overtaken:  # another run compared the file too, perhaps an older version of it
        queues.send_engines([(file_message(host, file), page_state.SLOW_CHECK_SECONDS)])


def find_changes(before: bytes | None, after: bytes, home: str, began: datetime, now: datetime) -> Iterator[PageState]:
    """Yield new states of the pages that changed from one version of a file to the next.

    The version of a page that a file lists newly or with a new lastmod is its lastmod, or without one a digest of its tags. A page that
    has left the file has the version GONE. `home` is the home page, which files without pages list.

    IndexNow is not for the archive, so a date of the page must lie in the news window. A page without dates counts only if the file has
    a previous version. Without one, the date must also be later than `began`, when notifications were switched on.
    """
    old, new = _entries(before or b"", home, now), _entries(after, home, now)
    start = window_start(now)
    earliest = start if before is not None else max(began, start)
    for url, (entry, newest) in new.items():
        if url in old and old[url][0].version == entry.version:
            continue
        if before is not None if newest is None else newest >= earliest:
            yield entry
    for url, (entry, _) in old.items():
        has_expired = entry.published is not None and not is_current(entry.published, now)
        if url not in new and not has_expired:
            yield PageState(url, page_state.GONE, now)


def _entries(body: bytes, home: str, now: datetime) -> dict[str, tuple[PageState, datetime | None]]:
    """Return the pages in a file that Stoppress wrote, by URL, each with the latest of its dates."""
    entries = {}
    for url in _URL.finditer(body.decode()):
        if (loc := _LOC.search(url[1])) and (page := unescape(loc[1])) != home:
            lastmod, published = _LASTMOD.search(url[1]), _PUBLISHED.search(url[1])
            version = lastmod[1] if lastmod else sha256(url[1].encode()).hexdigest()[:16]
            state = PageState(page, version, now, parse(published[1]) if published else None)
            entries[page] = state, max((parse(date[1]) for date in (lastmod, published) if date), default=None)
    return entries


def _mark_all(site: Site, file: str, changed: Sequence[PageState], now: datetime) -> bool:
    """Mark the changed pages, and send messages for them. Return True if all are marked."""
    host = site.host
    stored = table.get_many(page_state.page_key(host, change.url) for change in changed) if changed else {}
    states = {state.url: state for state in map(page_state.read_page, stored.values())}
    google.watch_reads(site, file, [(change, states.get(change.url)) for change in changed], now)
    new: list[PageState] = []
    urls: list[str] = []
    for change in changed:
        state = states.get(change.url)
        if state is None or state.version != change.version:
            new.append(change)
            continue
        if not (state.is_notified or state.checked_at) and len(urls) < MARKED_MAX:
            urls.append(change.url)  # marked by an earlier run, which may have been killed before it sent the message
        if change.listed_at and not state.listed_at:
            of_news = {"published": change.published, "listed_at": change.listed_at, "news_file": file}
            page_state.update_page(host, change.url, partial(replace, **of_news))
    for change in new[:MARKED_MAX]:
        mark(host, states.get(change.url), change)
        urls.append(change.url)
    queues.send_engines((page_state.message(host, page=url), 0) for url in urls)
    return len(new) <= MARKED_MAX


def mark(host: str, old: PageState | None, new: PageState) -> None:
    """Write the new version of a page over its state. Keep what engines were notified of and what they reported."""

    def apply_version(old: PageState) -> PageState:
        published, no_checks = new.published or old.published, page_state.NO_FAILED_CHECKS
        since = new if new.gone or not old.listed_at else old
        of_news: dict[str, Any] = {"listed_at": since.listed_at, "news_file": since.news_file}
        return replace(
            old, version=new.version, changed=new.changed, published=published, checked_at=None, **of_news, **no_checks
        )

    if not page_state.write_page(host, old, apply_version(old) if old else new):
        page_state.update_page(host, new.url, apply_version, first=new)  # a conflicting transaction may leave no item


def note_began(host: str, now: datetime, *, sweeps: bool = False) -> datetime:
    """Return when notifications began at a site, and store this instant or the time of a sweep.

    They begin again if no sweep ran for NEWS_WINDOW, because they were switched off in that time.
    """
    pk = page_state.notified_pk(host)
    stored = table.get(pk, page_state.BEGAN)
    is_recent = stored is not None and is_current(parse(stored["swept"]), now)
    began = parse(stored["at"]) if stored and is_recent else now - BEGAN_BEFORE
    if sweeps or not is_recent:
        table.put_if({"pk": pk, "sk": page_state.BEGAN, "at": exact(began), "swept": exact(now)})
    return began
