"""The indexes of a site: what one lists, when it is split, and which one a changed file belongs to.

A new cut is written with its index, which lists the home page until its day is over. Then the index lists its range, then the cut
comes into force, and then the index before drops the range. So a file is in two indexes for seconds, and never in none.
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import chain
from typing import Any

from stoppress.aws import table
from stoppress.aws.inventory import read_indexes
from stoppress.aws.items import INDEXES_SK, file_pk, read_indexes as read_indexes_item, read_mark
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import Mark
from stoppress.model.file_names import INDEX_ENTRIES_MAX, INDEX_FILE, ROBOTS_FILE, is_index
from stoppress.model.index_ranges import ONE_INDEX, Indexes
from stoppress.model.site import Site
from stoppress.sitemaps.fold import fold_index, listed_files
from stoppress.sitemaps.render import Rendered, render_index

# The item of the indexes precedes the marks, so the first page of a query shows whether there is one. Most sites have fewer files.
_PAGE_MARKS = 500
# The changed entry of an index that has to be made whole, because the item of the indexes has changed.
INDEXES_ENTRY = (INDEXES_SK, INDEXES_SK)


def read_range(host: str, file: str) -> tuple[Indexes, Iterator[Mark]]:
    """Return the indexes of a site, and the marks of the files that one of them may list."""
    pk = file_pk(host, INDEX_FILE)
    items = iter(table.query(pk, page_size=_PAGE_MARKS))
    first = next(items, None)
    if first is None or first["sk"] != INDEXES_SK:
        return ONE_INDEX, map(read_mark, chain(filter(None, [first]), items))
    indexes = read_indexes_item(first)
    start, below = indexes.range_of(file)
    return indexes, map(read_mark, table.query(pk, start=start, below=below))


def render_one(site: Site, file: str, indexes: Indexes, marks: Iterable[Mark], now: datetime) -> Rendered:
    """Return an index, and the indexes of the site after it: its cut is in force if its day is over, and a long one is split."""
    current = indexes.with_due(file, now)
    own = [mark for mark in marks if not is_index(mark.file) and current.index_of(mark.file) == file]
    rendered = render_index(own, site)
    if rendered.urls > INDEX_ENTRIES_MAX:  # cannot be written before other indexes list a part of it
        current = indexes
    names = (mark.file for mark in own if mark.urls)
    after = current.split(file, names, now, is_named=site.robots is not None)
    return replace(rendered, indexes=indexes, next_indexes=after)


def fold_changed(body: bytes, site: Site, file: str, names: Sequence[str]) -> Rendered | None:
    """Fold the marks of changed files into an index. None: it must be made whole, because the site's indexes changed.

    They are read only if a file enters or leaves this index. A file that it lists before and after is its own, or moves: when this
    index drops it, the new one is written again.
    """
    if INDEXES_SK in names:
        return None
    pk = file_pk(site.host, INDEX_FILE)
    items = table.get_many((pk, name) for name in names)
    marks = {name: read_mark(item) if (item := items.get((pk, name))) else None for name in names}
    changed = {name: mark for name, mark in marks.items() if not is_index(name)}
    listed = set(listed_files(body))
    unclear = {name for name, mark in changed.items() if name not in listed or not (mark and mark.urls)}
    indexes = read_indexes(site.host) if unclear else None
    own = {
        name: mark
        for name, mark in changed.items()
        if indexes is None or name not in unclear or indexes.index_of(name) == file
    }
    rendered = fold_index(body, own, site)
    return rendered and replace(rendered, indexes=indexes, next_indexes=indexes)


def find_other_indexes(request: RewriteRequest, indexes: Indexes | None) -> list[RewriteRequest]:
    """Return a request for each other index that lists some of the changed files. None: the index of the request lists them all."""
    if indexes is None or request.entries is None:
        return []
    by_index: dict[str, set[tuple[str, str]]] = defaultdict(set)
    for entry in request.entries - {INDEXES_ENTRY}:
        by_index[indexes.index_of(entry[0])].add(entry)
    by_index.pop(request.file, None)
    return [replace(request, file=index, entries=frozenset(entries)) for index, entries in by_index.items()]


def requests_of_cuts(host: str, change: Mapping[str, Any]) -> list[RewriteRequest]:
    """Return the requests that follow from a stream record of the indexes: robots.txt, and each index that a changed cut affects."""
    before, after = (read_indexes_item(table.read_item(change.get(image, {}))) for image in ("OldImage", "NewImage"))
    starts = [cut.start for cut in after.cuts if cut not in before.cuts]
    files = {ROBOTS_FILE, *(index for start in starts for index in after.from_file(start))}
    return [RewriteRequest(host, file, entries=frozenset([INDEXES_ENTRY])) for file in sorted(files)]
