"""Names, headers and limits of files, the series that they form, and the places in them.

A series is the files that list one kind of page: the shards of a period (`2026-11`), or the news sitemaps (`news`). It counts the
room that is reserved in each file, in entries and in bytes. A place in a shard is for life, so a full shard stays closed. A news
place is freed after 48 hours.
"""

import re
import unicodedata
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import NamedTuple

from stoppress.model.site import PAGES_MAX, Site

INDEX_FILE = "sitemap.xml"
NEWS_SERIES = "news"
NEWS_FILE = "sitemap-news.xml"
PAGES_SERIES = "pages"
PAGES_FILE = "sitemap-pages.xml"
ROBOTS_FILE = "robots.txt"
# Matches the name of every file that rewrite_sitemaps writes, except robots.txt. The key file of IndexNow (`notify.indexnow`) is left out.
WRITTEN = re.compile(r"sitemap(?!-indexnow-)(-[a-z0-9-]+)?\.(xml|xml\.gz|txt|atom)")

# From this number on, two digits could be read as a day or a month.
_DAY_LIKE = 10

# A section's part of a file name, so that the name stays readable.
CATEGORY_CHARACTERS_MAX = 40

# The XML namespaces of sitemaps, their extensions and Atom.
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
IMAGE = "http://www.google.com/schemas/sitemap-image/1.1"
VIDEO = "http://www.google.com/schemas/sitemap-video/1.1"
XHTML = "http://www.w3.org/1999/xhtml"
ATOM = "http://www.w3.org/2005/Atom"

# By the end of a file's name. Gzip is the file itself, not an encoding of it: no Content-Encoding (R9.1, R9.2).
CONTENT_TYPES: Mapping[str, str] = {
    ".xml": "application/xml; charset=utf-8",
    ".xml.gz": "application/gzip",
    ".txt": "text/plain; charset=utf-8",  # robots.txt too (RFC 9309, 2.3)
    ".atom": "application/atom+xml; charset=utf-8",
}
# Crawlers see new articles after a minute (R9.3), an edited page of a shard after five.
CACHE_FRESH = "public, max-age=60"
CACHE_SHARD = "public, max-age=300"


def file_name(series: str, number: int) -> str:
    """Return the n-th file of a series: sitemap-2026-11.xml, sitemap-2026-11-2.xml, …

    Numbers from 10 on have three digits: sitemap-2026-11-10.xml is the first file of a day.
    """
    if number == 1:
        return f"sitemap-{series}.xml"
    return f"sitemap-{series}-{number}.xml" if number < _DAY_LIKE else f"sitemap-{series}-{number:03}.xml"


def is_news(file: str) -> bool:
    return file == NEWS_FILE or file.startswith("sitemap-news-")


def is_shard(file: str) -> bool:
    """Return True if a file is a shard, in any form: its name begins with a year or with `pages`."""
    return re.match(r"sitemap-(?:[0-9]{4}|pages)\b", file) is not None


def series_of(file: str) -> str:
    """Return the series of a news sitemap: `news`, or an edition's, such as `news-fr`."""
    return re.sub(r"-[0-9]+$", "", file.removeprefix("sitemap-").removesuffix(".xml"))


def is_news_series(series: str) -> bool:
    """Return True if a series has news sitemaps: the site's or an edition's."""
    return series == NEWS_SERIES or series.startswith(f"{NEWS_SERIES}-")


def news_series(site: Site, url: str) -> str:
    """Return the news series for an article at this URL."""
    edition = site.edition_of(url)
    return f"{NEWS_SERIES}-{edition.news}" if edition and edition.news else NEWS_SERIES


def permanent_files(site: Site) -> list[str]:
    """Return the files that exist even if they list nothing, because search engines know their names. The index is not among them."""
    editions = [file_name(f"{NEWS_SERIES}-{edition.news}", 1) for edition in site.editions if edition.news]
    return [NEWS_FILE, *editions, *([PAGES_FILE] if site.pages else [])]


def atom_name(series: str) -> str:
    """Return the feed of a series of news sitemaps: sitemap-news.atom, or an edition's sitemap-news-fr.atom."""
    return f"sitemap-{series}.atom"


def text_name(file: str) -> str:
    return f"{file.removesuffix('.xml')}.txt"


def index_name(number: int) -> str:
    """Return the n-th index of a site, from the second on (`model.index_ranges`)."""
    return f"sitemap-index-{number}.xml"


def is_index(file: str) -> bool:
    return re.fullmatch(r"sitemap(-index-[0-9]+)?\.xml", file) is not None


def is_indexed(file: str) -> bool:
    """Return True if an index lists a file of this name. Only then does the file have a commit mark."""
    return not is_index(file) and file != ROBOTS_FILE


def shard_series(site: Site, instant: datetime, section: str | None) -> str:
    """Return the shard series of a page first published at an instant: its period, plus its section if the site configures that."""
    period = instant.date().isoformat()[: {"day": 10, "month": 7, "year": 4}[site.shards.by]]
    plain = unicodedata.normalize("NFKD", section or "").encode("ascii", "ignore").decode().lower()
    category = re.sub(r"[^a-z0-9]+", "-", plain).strip("-")[:CATEGORY_CHARACTERS_MAX]
    # The section must not look like a file's number: `formula-2` would be the second file of `formula`.
    category = re.sub(r"-(?=[0-9-]*$)", "", category)
    return f"{period}-{category}" if site.shards.per_section and category[:1].isalpha() else period


def content_type(file: str) -> str:
    return next(kind for suffix, kind in CONTENT_TYPES.items() if file.endswith(suffix))


def headers(file: str) -> tuple[str, str]:
    return content_type(file), CACHE_SHARD if is_shard(file) else CACHE_FRESH


# sitemaps.org: at most 50,000 URLs and 50 MiB uncompressed in a sitemap (R1.10), 50,000 sitemaps in an index (R1.11).
URLS_MAX = 50_000
INDEX_ENTRIES_MAX = 50_000
BYTES_MAX = 52_428_800
# Google: at most 1,000 news:news in a sitemap (R2.4).
NEWS_ENTRIES_MAX = 1_000
# Upper bound for declaration, root element, namespaces, and one byte for each page if the site changes to https.
FRAME_BYTES_MAX = 65_536


@dataclass(frozen=True, slots=True)
class Place:
    """Room for one entry of `size_bytes` in file `number` of a series, counted from 1."""

    series: str
    number: int
    size_bytes: int

    @property
    def file(self) -> str:
        return file_name(self.series, self.number)


class Want(NamedTuple):
    """Room to reserve in a series; `held` is the place that the entry has held."""

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
        """Reserve one place for each want. Return the new series, and the places in the same order.

        An entry with a `held` place keeps its file if that has room for the larger entry. Otherwise a news entry goes into
        the first file with room, and a page into the last file, or into a new one if the last is full.
        """
        files, places = list(self.files), []
        for want in wants:
            held = want.held if want.held and want.held.number <= len(files) else None
            if held:
                grown = files[held.number - 1].with_room_for(want.size_bytes - held.size_bytes, entries=0)
                if grown.fits(grown.entries):
                    files[held.number - 1] = grown
                    places.append(replace(held, size_bytes=want.size_bytes))
                    continue
            reusable = range(len(files)) if is_news_series(self.name) else range(len(files))[-1:]
            with_room = (index for index in reusable if files[index].with_room_for(want.size_bytes).fits(entries_max))
            index = next(with_room, len(files))
            if index == len(files):
                files.append(Used())
            files[index] = files[index].with_room_for(want.size_bytes)
            places.append(Place(self.name, index + 1, want.size_bytes))
        return replace(self, files=tuple(files)), places

    def give_back(self, places: Iterable[Place]) -> "Series":
        """Return the series after these places are freed."""
        files = list(self.files)
        for place in places:
            if place.number <= len(files):
                used = files[place.number - 1]
                files[place.number - 1] = Used(max(0, used.entries - 1), max(0, used.size_bytes - place.size_bytes))
        return replace(self, files=tuple(files))


def entries_max_of(series: str, shard_size: int) -> int:
    """Return the maximum number of entries in one file of a series. Files for pages also list the pages of the site's configuration."""
    if series == PAGES_SERIES:
        return min(shard_size, URLS_MAX - PAGES_MAX)
    return NEWS_ENTRIES_MAX if is_news_series(series) else shard_size
