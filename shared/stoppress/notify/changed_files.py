"""Compare rewritten files with their last compared versions, and mark the pages that changed.

Each changed page is marked in the table, and gets a message of its own. A message of a file may be repeated.
"""

import json
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from stoppress.aws import bucket, items, queues, table
from stoppress.aws.bucket import Overtaken
from stoppress.model.file_headers import CONTENT_TYPES
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE
from stoppress.model.news_window import is_current
from stoppress.notify.changes import GONE, Change, changes
from stoppress.notify.state import (
    BEGAN,
    SLOW_CHECK_SECONDS,
    PageState,
    failing_key,
    notified_pk,
    page_key,
    read_page,
)
from stoppress.notify.store import notified_site, update_page, write_page
from stoppress.primitives.instants import exact, parse

# Copies of the files as they were compared last. No CDN serves this folder, because its name is no host.
COPIES = "notified"
# A sweep notices a site's new setting within an hour. So pages of the hour before count too.
BEGAN_BEFORE = timedelta(hours=1)
# The most pages of a file that one run marks. The file's message comes again for the others.
MARKED_MAX = 1_000


def file_message(host: str, file: str) -> str:
    """A message that asks to compare a file. It has the part of the bus event that is read."""
    return json.dumps({"detail": {"site": host, "file": file}})


def page_message(host: str, url: str) -> str:
    """A message that asks to check a page and to notify engines of it."""
    return json.dumps({"site": host, "page": url})


def compare(host: str, file: str, now: datetime) -> None:
    """Mark the pages that changed in a file since it was compared last, and send a message for each."""
    site = notified_site(host)
    if site is None or file in (INDEX_FILE, ROBOTS_FILE):
        return
    copy = bucket.read(_copies(host), file)  # before the file, so that the file is not the older of the two
    stored = bucket.read(host, file)
    body = stored.body if stored else b""
    if copy.body == body if copy else stored is None:
        return
    began = _began(host, now)
    before = copy.body if copy and copy.changed >= began else None
    changed = list(changes(before, body, site.home, began, now))
    if not _mark_all(host, _without_moved(host, changed), now):
        queues.send_engines([(file_message(host, file), 0)])
        return
    try:
        bucket.write(
            _copies(host),
            file,
            body,
            CONTENT_TYPES[".xml"],
            "no-store",
            replaces=copy,
            changed=now,
            config=site.digest,
        )
    except Overtaken:  # another run compared the file too, perhaps an older version of it
        queues.send_engines([(file_message(host, file), SLOW_CHECK_SECONDS)])


def _copies(host: str) -> str:
    return f"{COPIES}/{host}"


def _without_moved(host: str, changed: Sequence[Change]) -> list[Change]:
    """The changes, except for pages that left a file and are still published: an article claims their URLs."""
    keys = {change.url: items.claim_key(host, change.url) for change in changed if change.version == GONE}
    claims = table.get_many(keys.values()) if keys else {}
    live = {url for url, key in keys.items() if key in claims and items.read_claim(claims[key], url).live}
    return [change for change in changed if change.url not in live]


def _mark_all(host: str, changed: Sequence[Change], now: datetime) -> bool:
    """Mark the changed pages, and send messages for them. Returns whether all are marked."""
    if not changed:
        return True
    stored = table.get_many(page_key(host, change.url) for change in changed)
    states = {state.url: state for state in map(read_page, stored.values())}
    new = [change for change in changed if not _is_marked(states.get(change.url), change)]
    # Marked by an earlier run, which perhaps did not get to send the messages.
    unchecked = [
        change.url
        for change in changed
        if (state := states.get(change.url))
        and _is_marked(state, change)
        and not (state.is_notified or state.checked_at)
    ]
    for change in new[:MARKED_MAX]:
        mark(host, states.get(change.url), change, now)
    for change in changed:
        state = states.get(change.url)
        if state and _is_marked(state, change) and change.published and not state.published:
            _date(host, change)
    urls = [*unchecked[:MARKED_MAX], *(change.url for change in new[:MARKED_MAX])]
    queues.send_engines((page_message(host, url), 0) for url in urls)
    return len(new) <= MARKED_MAX


def _is_marked(state: PageState | None, change: Change) -> bool:
    return state is not None and state.version == change.version


def mark(host: str, old: PageState | None, change: Change, now: datetime) -> None:
    if old:
        forget_failing(host, old)
    if not write_page(host, _marked(old, change, now)):
        update_page(host, change.url, lambda newer: _marked(newer, change, now))


def _date(host: str, change: Change) -> None:
    """Note the publication date of a page that another file listed first. Only news sitemaps have the date."""
    update_page(host, change.url, lambda old: replace(old, published=change.published) if old else None)


def forget_failing(host: str, state: PageState) -> None:
    """Delete the copy of a failing page's state before the state changes. After a crash in between, the next run deletes it."""
    if state.is_failing:
        table.delete(*failing_key(host, state.url))


def _marked(old: PageState | None, change: Change, now: datetime) -> PageState:
    if old is None:
        return PageState(change.url, change.version, now, change.published)
    return replace(
        old,
        version=change.version,
        changed=now,
        published=change.published or old.published,
        checked_at=None,
        checks=0,
        failing_since=None,
        reason="",
    )


def _began(host: str, now: datetime) -> datetime:
    """When notifications began at a site. They begin again if no sweep came for NEWS_WINDOW, because they were switched off then."""
    known = table.get(notified_pk(host), BEGAN)
    if known and is_current(parse(known["swept"] if "swept" in known else known["at"]), now):
        return parse(known["at"])
    began = now - BEGAN_BEFORE
    table.put_if(_began_item(host, began, now))
    return began


def note_sweep(host: str, now: datetime) -> None:
    table.put_if(_began_item(host, _began(host, now), now))


def _began_item(host: str, began: datetime, swept: datetime) -> dict[str, str]:
    return {"pk": notified_pk(host), "sk": BEGAN, "at": exact(began), "swept": exact(swept)}
