"""Which index lists a file: ranges of file names, as in the leaves of a B-tree.

A *cut* moves the files of a range to an index with a permanent name. It is in force a day after robots.txt lists that index, because
search engines keep a robots.txt for a day. All other files are in sitemap.xml. An index is never merged or deleted: search engines
know its name. An index without files lists the home page.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta

from stoppress.model.file_names import INDEX_FILE, index_name

# An index that lists more shards is split. A line has about 110 bytes.
INDEX_FILES_MAX = 900
# How many shards move to each new index. An edit of an old page reads sitemap.xml and writes the index of its file, so both are short.
INDEX_FILES_MOVED = 400
# With more shards it is split immediately, before it exceeds the protocol's limit. A site with its own robots.txt has one index until then.
INDEX_FILES_URGENT = 25_000
CUT_WAITS = timedelta(days=1)
# Bounds of the names of files. Shards begin with a year, so they sort before the news and the pages, which stay in sitemap.xml.
_FIRST, _SHARDS_END, _END = "sitemap", "sitemap-:", "t"


@dataclass(frozen=True, slots=True)
class Cut:
    """The range of files from `start` to before `below` that the `number`-th index lists once the cut is in force.

    `since` is None from then on. With a number instead of a name, 70 cuts have less than 4 KB, so reading them costs one unit.
    """

    start: str
    below: str
    number: int
    since: datetime | None

    @property
    def index(self) -> str:
        return index_name(self.number)

    @property
    def is_in_force(self) -> bool:
        return self.since is None

    def is_due(self, now: datetime) -> bool:
        """Return True if the day of waiting is over."""
        return self.since is not None and self.since + CUT_WAITS <= now


@dataclass(frozen=True, slots=True)
class Indexes:
    """The cuts of a site in the order of `below`, and the revision of the item in the table. A cut of another cut's range precedes it."""

    cuts: tuple[Cut, ...] = ()
    rev: int | None = None

    @property
    def files(self) -> list[str]:
        """Return all indexes, sitemap.xml last."""
        return [*(cut.index for cut in self.cuts), INDEX_FILE]

    def index_of(self, file: str) -> str:
        matches = (cut.index for cut in self.cuts if cut.is_in_force and cut.start <= file < cut.below)
        return next(matches, INDEX_FILE)

    def from_file(self, file: str) -> list[str]:
        """Return every index that may list a file while cuts come into force: a new cut precedes the cut that it splits."""
        return [*(cut.index for cut in self.cuts if cut.start <= file < cut.below), INDEX_FILE]

    def range_of(self, index: str) -> tuple[str, str]:
        """Return the range of file names that an index may list: the first name, and the name before which the range ends."""
        start, below = next(((cut.start, cut.below) for cut in self.cuts if cut.index == index), (_FIRST, _END))
        for cut in self.cuts:
            if cut.is_in_force and cut.index != index and cut.start <= start < cut.below < below:
                start = cut.below
        return start, below

    def with_due(self, index: str, now: datetime) -> "Indexes":
        """Return the indexes with the cut of this index in force, if its day is over."""
        cuts = (replace(cut, since=None) if cut.index == index and cut.is_due(now) else cut for cut in self.cuts)
        return replace(self, cuts=tuple(cuts))

    def split(self, index: str, files: Iterable[str], now: datetime, *, is_named: bool) -> "Indexes":
        """Return the indexes with new cuts of the oldest `files`, if this index lists too many.

        `is_named`: robots.txt will list new indexes. While cuts of the index wait, it is split only if urgent; then no cut waits.
        """
        shards = sorted(file for file in files if file < _SHARDS_END)
        is_urgent = len(shards) > INDEX_FILES_URGENT
        start, below = self.range_of(index)
        waiting = [
            cut for cut in self.cuts if not cut.is_in_force and cut.index != index and start <= cut.start < below
        ]
        if not is_urgent and (waiting or not is_named or len(shards) <= INDEX_FILES_MAX):
            return self
        since = now - CUT_WAITS if is_urgent else now
        cuts = [replace(cut, since=min(cut.since or since, since)) if cut in waiting else cut for cut in self.cuts]
        start = max([start, *(cut.below for cut in waiting)])
        rest = [file for file in shards if file >= start]
        size = min(INDEX_FILES_MOVED, INDEX_FILES_MAX)
        while len(rest) > INDEX_FILES_MAX:
            cuts.append(Cut(start, rest[size], len(cuts) + 2, since))
            start, rest = rest[size], rest[size:]
        return replace(self, cuts=tuple(sorted(cuts, key=lambda cut: cut.below)))


ONE_INDEX = Indexes()
