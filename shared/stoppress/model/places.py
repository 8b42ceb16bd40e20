"""Places: room for entries in the files of a series, counted in entries and in bytes, and the limits of a file.

A series is the shards of one period (`2026-11`) or the news sitemaps (`news`). It counts the room reserved in each file.
A place in a shard is for life, so a full shard stays closed. A news place is given back after 48 hours.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from stoppress.model.file_names import PAGES_SERIES, file_name, is_news_series
from stoppress.model.site import PAGES_MAX

# sitemaps.org: at most 50,000 URLs and 50 MiB uncompressed in a sitemap (R1.10), 50,000 sitemaps in an index (R1.11).
URLS_MAX = 50_000
INDEX_ENTRIES_MAX = 50_000
BYTES_MAX = 52_428_800
# Google: at most 1,000 news:news in a sitemap (R2.4).
NEWS_ENTRIES_MAX = 1_000
# Upper bound for declaration, root element, namespaces, and one byte for each page if the site changes to https.
FRAME_BYTES_MAX = 65_536


class FileTooLarge(ValueError):
    """A file would exceed a limit. Nothing is written; the last good file remains."""


@dataclass(frozen=True, slots=True)
class Place:
    """Room for one entry of `size_bytes` in file `number` of a series, counted from 1."""

    series: str
    number: int
    size_bytes: int

    @property
    def file(self) -> str:
        return file_name(self.series, self.number)


@dataclass(frozen=True, slots=True)
class Want:
    """Room to reserve in a series; `held` is the place that the entry has outgrown."""

    series: str
    size_bytes: int
    held: Place | None = None


@dataclass(frozen=True, slots=True)
class Used:
    """The room reserved in one file."""

    entries: int = 0
    size_bytes: int = 0

    def with_room_for(self, size_bytes: int, entries: int = 1) -> "Used":
        """Return the file with one more entry. With `entries=0` an entry grows by `size_bytes` instead."""
        return Used(self.entries + entries, self.size_bytes + size_bytes)

    def fits(self, entries_max: int) -> bool:
        """Return True if the file stays within its limits."""
        return self.entries <= entries_max and self.size_bytes <= BYTES_MAX - FRAME_BYTES_MAX


@dataclass(frozen=True, slots=True)
class Series:
    """All files of a series by number, and the revision of the item in the table."""

    name: str
    files: tuple[Used, ...] = ()
    rev: int | None = None

    def reserve(self, wants: Iterable[Want], entries_max: int) -> tuple["Series", list[Place]]:
        """Return the series after reserving, and a place for each want, in order.

        An entry with a `held` place keeps its file if that has room for the larger entry. Otherwise a news entry goes into
        the first file with room, and a page into the last file, or into a new one if the last is full.
        """
        series, places = self, []
        for want in wants:
            series, place = series._reserve(want, entries_max)
            places.append(place)
        return series, places

    def give_back(self, places: Iterable[Place]) -> "Series":
        """Return the series after places are given back."""
        files = list(self.files)
        for place in places:
            if place.number <= len(files):
                used = files[place.number - 1]
                files[place.number - 1] = Used(max(0, used.entries - 1), max(0, used.size_bytes - place.size_bytes))
        return replace(self, files=tuple(files))

    def _reserve(self, want: Want, entries_max: int) -> tuple["Series", Place]:
        if want.held:
            grown = self._grown(want.held, want.size_bytes)
            if grown:
                return grown, replace(want.held, size_bytes=want.size_bytes)
        reusable = range(len(self.files)) if is_news_series(self.name) else range(len(self.files))[-1:]
        for index in (*reusable, len(self.files)):
            used = self.files[index] if index < len(self.files) else Used()
            more = used.with_room_for(want.size_bytes)
            if more.fits(entries_max) or index == len(self.files):
                files = (*self.files[:index], more, *self.files[index + 1 :])
                return replace(self, files=files), Place(self.name, index + 1, want.size_bytes)
        raise AssertionError("a new file always has room")

    def _grown(self, held: Place, size_bytes: int) -> "Series | None":
        if held.number > len(self.files):
            return None
        used = self.files[held.number - 1]
        more = used.with_room_for(size_bytes - held.size_bytes, entries=0)
        if not more.fits(used.entries):
            return None
        return replace(self, files=(*self.files[: held.number - 1], more, *self.files[held.number :]))


def entries_max_of(series: str, shard_size: int) -> int:
    """How many entries one file of a series may hold. Files for pages also list the pages of the site's configuration."""
    if series == PAGES_SERIES:
        return min(shard_size, URLS_MAX - PAGES_MAX)
    return NEWS_ENTRIES_MAX if is_news_series(series) else shard_size
