"""One attempt to rewrite a file: read its mark and object, then render its bytes. This module writes nothing.

A file is rendered from all its entries, or changed entries are folded into the object. The entries of an index are the commit
marks of the files that it lists.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import chain
from typing import TypeVar

from stoppress.aws import bucket, sites, table
from stoppress.aws.bucket import StoredFile
from stoppress.aws.inventory import read_indexes
from stoppress.aws.items import (
    INDEXES_SK,
    Item,
    file_pk,
    read_general,
    read_indexes as read_indexes_item,
    read_mark,
    read_news,
)
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import Mark
from stoppress.model.file_names import INDEX_ENTRIES_MAX, INDEX_FILE, PAGES_FILE, ROBOTS_FILE, is_index, is_news
from stoppress.model.index_ranges import ONE_INDEX, Indexes
from stoppress.model.site import Site
from stoppress.sitemaps.fold import fold_general, fold_index, fold_news, listed_files
from stoppress.sitemaps.render import Rendered, render_general, render_index, render_news, render_pages
from stoppress.sitemaps.robots import robots_txt
from stoppress.sitemaps.tags import RENDERER

# DynamoDB: a strongly consistent read unit reads 4 KB.
READ_UNIT_BYTES = 4_096
# The number of entries that one call reads.
FOLD_ENTRIES_MAX = table.BATCH_KEYS_MAX
# A file is rendered from all its entries at least this often, so that a missed change is corrected by then.
WHOLE_EVERY = timedelta(hours=6)
# The item of the indexes precedes the marks, so the first page of a query shows whether there is one. Most sites have fewer files.
_PAGE_MARKS = 500
# The changed entry of an index that must be rendered from all entries, because the item of the indexes has changed.
INDEXES_ENTRY = (INDEXES_SK, INDEXES_SK)
_Entry = TypeVar("_Entry")


@dataclass(frozen=True, slots=True)
class Attempt:
    """The site, the request, the file's commit mark and object when they were read, and the time."""

    site: Site
    request: RewriteRequest
    mark: Mark | None
    stored: StoredFile | None
    now: datetime

    @property
    def file(self) -> str:
        return self.request.file

    @property
    def has_own_object(self) -> bool:
        """Return True if there is an object, and Stoppress wrote it."""
        return self.stored is not None and self.stored.ours


def begin(site: Site, request: RewriteRequest, now: datetime) -> Attempt:
    """Read a file's mark, then its object. If another configuration wrote the object, the configuration in force is read.

    In this order an unchanged file costs a read unit and not a write unit. And if an emptied file is filled again meanwhile, its
    mark is not deleted.
    """
    # robots.txt never has a mark; an index may have one for its gzip form, present or past.
    reads_mark = site.outputs.gzip or request.checks_all if is_index(request.file) else request.file != ROBOTS_FILE
    mark = mark_of(site, request.file) if reads_mark else None
    stored = bucket.read(site.host, request.file)
    if stored and stored.ours and stored.config != config_of(site):
        site = sites.reload(request.site) or site
    return Attempt(site, request, mark, stored, now)


def mark_of(site: Site, file: str) -> Mark | None:
    """Return a file's commit mark as the table has it."""
    item = table.get(file_pk(site.host, INDEX_FILE), file)
    return read_mark(item) if item else None


def config_of(site: Site) -> str:
    """Return a digest of all that a line depends on besides its entry: the line format and the site's configuration."""
    return f"{RENDERER}.{site.digest}"


def fold(attempt: Attempt) -> Rendered | None:
    """Replace the changed entries in the stored file. Return None if the file must be rendered from all its entries.

    The entries are read after the object, as in `render`: a rewriter that read older entries loses the conditional PUT.
    """
    site, file, stored, entries = attempt.site, attempt.file, attempt.stored, attempt.request.entries
    if entries is None or stored is None or INDEXES_ENTRY in entries or not _can_fold(site, file, stored, attempt.now):
        return None
    # Each key costs a read unit, even for a small item; reading the partition costs one for each 4 KB.
    if len(entries) > min(FOLD_ENTRIES_MAX, len(stored.body) // READ_UNIT_BYTES):
        return None
    if is_index(file):
        return _fold_marks(stored.body, [name for name, _ in sorted(entries) if not is_index(name)], site, file)
    pk = file_pk(site.host, file)
    items = table.get_many((pk, sk) for sk, _ in sorted(entries))

    def read_changed(read: Callable[[Item], _Entry]) -> dict[tuple[str, str], _Entry | None]:
        return {(sk, loc): read(item) if (item := items.get((pk, sk))) else None for sk, loc in sorted(entries)}

    if is_news(file):
        news = {(sk.partition("#")[0], loc): entry for (sk, loc), entry in read_changed(read_news).items()}
        rendered = fold_news(stored.body, news, site, attempt.now)
        return rendered and replace(rendered, news=tuple(filter(None, news.values())))
    pages = {loc: entry for (_, loc), entry in read_changed(read_general).items()}
    return fold_general(stored.body, pages, site)


def _can_fold(site: Site, file: str, stored: StoredFile, now: datetime) -> bool:
    """Return True if this configuration wrote the object, line by line, and rendered it from all its entries recently.

    A feed needs all entries.
    """
    is_same_config = stored.config == config_of(site)
    is_recent = stored.whole is not None and now < stored.whole + WHOLE_EVERY
    return is_same_config and is_recent and file != PAGES_FILE and not (is_news(file) and site.outputs.atom)


def _fold_marks(body: bytes, changed: Sequence[str], site: Site, file: str) -> Rendered | None:
    """Fold the marks of changed files into an index.

    The site's indexes are read only if a file enters or leaves this index. A file that it lists before and after belongs to it, or
    moves: when this index drops the file, the new index is written again. The mark of another index's file is not read here.
    """
    listed = set(listed_files(body))
    indexes = None if listed.issuperset(changed) else read_indexes(site.host)
    own = [name for name in changed if indexes is None or name in listed or indexes.index_of(name) == file]
    pk = file_pk(site.host, INDEX_FILE)
    items = table.get_many((pk, name) for name in own)
    marks = {name: read_mark(item) if (item := items.get((pk, name))) else None for name in own}
    if any(name in listed and not (mark and mark.urls) for name, mark in marks.items()):
        indexes = read_indexes(site.host)  # a cut may have come into force before the mark was read
    rendered = fold_index(body, marks, site)
    return rendered and replace(rendered, indexes=indexes, next_indexes=indexes)


def render(site: Site, file: str, now: datetime) -> Rendered:
    """Render a file from all entries of its partition. Raises the table's errors."""
    if file == ROBOTS_FILE:
        body = robots_txt(site, read_indexes(site.host)) if site.robots is not None else b""
        return Rendered(body, len(body), None)
    if is_index(file):
        return render_marks(site, file, *_read_marks(site.host, file), now)
    items = table.query(file_pk(site.host, file))
    if is_news(file):
        news = [read_news(item) for item in items]
        return replace(render_news(news, site, now), news=tuple(news))
    return (render_pages if file == PAGES_FILE else render_general)(map(read_general, items), site)


def _read_marks(host: str, file: str) -> tuple[Indexes, Iterator[Mark]]:
    """Return the indexes of a site, and the marks of the files that one of them may list."""
    pk = file_pk(host, INDEX_FILE)
    items = iter(table.query(pk, page_size=_PAGE_MARKS))
    first = next(items, None)
    if first is None or first["sk"] != INDEXES_SK:
        return ONE_INDEX, map(read_mark, chain(filter(None, [first]), items))
    indexes = read_indexes_item(first)
    start, below = indexes.range_of(file)
    return indexes, map(read_mark, table.query(pk, start=start, below=below))


def render_marks(site: Site, file: str, indexes: Indexes, marks: Iterable[Mark], now: datetime) -> Rendered:
    """Return an index, and the indexes of the site after it: its cut is in force if its day is over, and a long one is split."""
    current = indexes.with_due(file, now)
    own = [mark for mark in marks if not is_index(mark.file) and current.index_of(mark.file) == file]
    rendered = render_index(own, site)
    if rendered.urls > INDEX_ENTRIES_MAX:  # cannot be written before other indexes list a part of it
        current = indexes
    names = (mark.file for mark in own if mark.urls)
    after = current.split(file, names, now, is_named=site.robots is not None)
    return replace(rendered, indexes=indexes, next_indexes=after)
