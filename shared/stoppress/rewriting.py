"""Rewriting: files brought up to date with their partitions. Nothing else ever writes a sitemap.

Rewriters may run at once. Each reads the object first, then the partition, then puts the file only if the object is still
the one that was read: who read the partition earlier loses, and starts again.
"""

import hashlib
from collections import defaultdict
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from stoppress import bucket, queues, sites, table
from stoppress.bucket import Overtaken, StoredFile
from stoppress.files import INDEX_FILE, NEWS_FILE, Mark, Rendered, is_news, render_general, render_index, render_news
from stoppress.instants import exact
from stoppress.queues import Rewrite
from stoppress.records import due_item, due_sk, file_pk, mark_item, read_general, read_mark, read_news
from stoppress.site import Site

# Each attempt lost is a newer file that somebody else put; after these the rewrites queue takes over.
ATTEMPTS_MAX = 8
# An emptied file leaves the index at once; who still holds an old index finds it for another day.
EMPTIED_KEPT = timedelta(days=1)
# A file that failed is not tried again before whatever was wrong had a moment to pass.
RETRY_DELAY_SECONDS = 5

REWRITTEN = "sitemap rewritten"


@dataclass(frozen=True, slots=True)
class Result:
    """What became of a file: `written`, `unchanged`, `retired` (an emptied file whose day is over), or `failed`."""

    work: Rewrite
    outcome: str
    urls: int = 0
    size_bytes: int = 0
    error: Exception | None = None


def rewrite_all(works: Iterable[Rewrite], now: datetime) -> list[Result]:
    """Bring files up to date, each once, the indexes last. A file that fails stops no other."""
    wanted: dict[tuple[str, str], list[Rewrite]] = defaultdict(list)
    for work in works:
        wanted[work.site, work.file].append(work)
    results = []
    for site, file in sorted(wanted, key=lambda one: (one[1] == INDEX_FILE, one)):
        same = wanted[site, file]
        releases = sorted({work.release for work in same if work.release})
        work = Rewrite(site, file, max(one.config_version for one in same), releases[-1] if releases else None)
        try:
            results.append(rewrite(work, now))
            for release in releases[:-1]:
                _done_due(work.site, work.file, release)
        except Exception as error:  # noqa: BLE001 - whatever it is, its neighbours go on and the file is tried again
            results.append(Result(work, "failed", error=error))
    return results


def hand_over(result: Result) -> Exception | None:
    """Give a file that failed to the rewrites queue; the error, if not even that succeeds."""
    try:
        queues.send_rewrites([result.work], delay_seconds=RETRY_DELAY_SECONDS)
    except Exception as error:  # noqa: BLE001 - then the stream must bring its records again
        return error
    return None


def rewrite(work: Rewrite, now: datetime) -> Result:
    """Bring one file up to date. Raises UnknownSite, FileTooLarge, Overtaken, and what the doors raise.

    The file, then its announcement, then its commit mark in the index's partition: whatever a crash leaves out, the next
    rewrite finds missing by the mark.
    """
    site = sites.load_usable(work.site, at_least=work.config_version)
    for _ in range(ATTEMPTS_MAX):
        mark = _mark(site, work.file)
        stored = bucket.read(site.host, work.file)
        if stored and stored.config_version > site.version:
            site = sites.load_usable(work.site, at_least=stored.config_version)
        rendered = _render(site, work.file, now)
        try:
            outcome = _commit(site, work.file, mark, stored, rendered, max(now, work.release or now))
        except Overtaken:
            continue
        if work.release:
            _done_due(site.host, work.file, work.release)
        return Result(work, outcome, rendered.urls, len(rendered.body))
    raise Overtaken(f"{work.site}/{work.file} was written by others, {ATTEMPTS_MAX} attempts long")


def _render(site: Site, file: str, now: datetime) -> Rendered:
    items = table.query(file_pk(site.host, file))
    if file == INDEX_FILE:
        return render_index(map(read_mark, items), site)
    if is_news(file):
        return render_news(map(read_news, items), site, now)
    return render_general(map(read_general, items), site)


def _commit(
    site: Site, file: str, mark: Mark | None, stored: StoredFile | None, rendered: Rendered, now: datetime
) -> str:
    stays = bool(rendered.urls) or file in (NEWS_FILE, INDEX_FILE)
    if not stays and (stored is None or _is_over(stored, rendered, now)):
        return _retire(site, file, mark, stored)
    changed, written = stored.changed if stored else now, False
    if stored is None or stored.body != rendered.body:
        changed, written = _changed(stored, rendered, now), True
        bucket.write(site.host, file, rendered.body, replaces=stored, changed=changed, config_version=site.version)
    digest = hashlib.sha256(rendered.body).hexdigest()[:32]
    if written or (file != INDEX_FILE and (mark is None or mark.digest != digest)):
        detail = {"site": site.host, "file": file, "urls": rendered.urls, "changed": exact(changed)}
        queues.announce(REWRITTEN, detail)
        if not stays:
            _have_retired(site, file, changed)
        if file != INDEX_FILE:  # the index never records itself
            _put_mark(site, Mark(file, changed, rendered.urls, len(rendered.body), digest))
    return "written" if written else "unchanged"


def _changed(stored: StoredFile | None, rendered: Rendered, now: datetime) -> datetime:
    """When the bytes change: later than the change before, whatever the clocks say, and than all that stands in them."""
    after_last = stored.changed + timedelta(microseconds=1) if stored else now
    return max(now, after_last, rendered.newest or now)


# ── commit marks ──


def _mark(site: Site, file: str) -> Mark | None:
    item = table.get(file_pk(site.host, INDEX_FILE), file) if file != INDEX_FILE else None
    return read_mark(item) if item else None


def _put_mark(site: Site, mark: Mark) -> None:
    item = mark_item(site.host, mark)
    with suppress(table.Conflict):  # the mark says this already, or something newer
        table.put_if(
            item,
            "attribute_not_exists(pk) OR (digest <> :digest AND changed < :changed)",
            {":digest": item["digest"], ":changed": item["changed"]},
        )


# ── emptied files ──


def _is_over(stored: StoredFile, rendered: Rendered, now: datetime) -> bool:
    return stored.body == rendered.body and stored.changed + EMPTIED_KEPT <= now


def _have_retired(site: Site, file: str, changed: datetime) -> None:
    release = changed + EMPTIED_KEPT
    message = Rewrite(site.host, file, release=release).message()
    table.put_if(due_item(site.host, release, _due_name(file), message, queue="rewrites"))


def _done_due(site: str, file: str, release: datetime) -> None:
    table.delete(f"due#{site}", due_sk(release, _due_name(file)))


def _due_name(file: str) -> str:
    return f"file#{file}"


def _retire(site: Site, file: str, mark: Mark | None, stored: StoredFile | None) -> str:
    if stored:
        bucket.delete(site.host, file, stored)
    if mark:
        with suppress(table.Conflict):  # the file has been filled again meanwhile, and its mark is newer
            table.delete(file_pk(site.host, INDEX_FILE), file, "digest = :digest", {":digest": mark.digest})
    return "retired"
