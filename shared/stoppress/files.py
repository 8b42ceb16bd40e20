"""Sitemap files: their names, their entries, their exact bytes.

A file is a pure function of its entries, the site's configuration and, for the news sitemap, the clock.
One `<url>` a line, sorted, no generation time, no comment: equal entries give equal bytes.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Literal
from xml.sax.saxutils import escape

from stoppress.instants import iso
from stoppress.site import Site

# sitemaps.org: at most 50,000 URLs and 50 MiB uncompressed in a file (R1.10), 50,000 sitemaps in an index (R1.11).
URLS_MAX = 50_000
BYTES_MAX = 52_428_800
# Google: at most 1,000 news:news in a sitemap (R2.4), only articles of the last two days (R2.5).
NEWS_ENTRIES_MAX = 1_000
NEWS_WINDOW = timedelta(hours=48)

INDEX_FILE = "sitemap.xml"
NEWS_SERIES = "news"
NEWS_FILE = "sitemap-news.xml"

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
_SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
_NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
# More than declaration, root element and name spaces take, and a byte for each page whose scheme becomes https, so that
# counted lines never add up to a file over the limit.
FRAME_BYTES_MAX = 65_536

# The first number that could be read as a day or a month.
_DAY_LIKE = 10

_QUOTES = {'"': "&quot;", "'": "&apos;"}


class FileTooLarge(ValueError):
    """A file would break a limit of the protocol. Nothing is written; the last good file stands."""


@dataclass(frozen=True, slots=True)
class GeneralEntry:
    """One page in a shard."""

    loc: str
    lastmod: datetime | None = None


@dataclass(frozen=True, slots=True)
class NewsEntry:
    """One article in the news sitemap. Without publication or language of its own it has the site's."""

    loc: str
    title: str
    published: datetime
    lastmod: datetime | None = None
    publication: str | None = None
    language: str | None = None

    @property
    def expires_at(self) -> datetime:
        """When it leaves the window, whether or not anything happens then."""
        return self.published + NEWS_WINDOW


@dataclass(frozen=True, slots=True)
class Mark:
    """What the index knows of a file: the commit mark of its last rewrite."""

    file: str
    changed: datetime
    urls: int
    size_bytes: int
    digest: str


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file's bytes, how many pages it lists, and the newest instant that stands in it."""

    body: bytes
    urls: int
    newest: datetime | None


def file_name(series: str, number: int) -> str:
    """The n-th file of a series: sitemap-2026-11.xml, sitemap-2026-11-2.xml, …

    From the tenth on with three digits: sitemap-2026-11-10.xml is the first file of a day, where a site cuts by days.
    """
    if number == 1:
        return f"sitemap-{series}.xml"
    return f"sitemap-{series}-{number}.xml" if number < _DAY_LIKE else f"sitemap-{series}-{number:03}.xml"


def period_of(instant: datetime, by: Literal["day", "month", "year"]) -> str:
    """The series of shards that an instant (UTC) falls into: 2026-11-20, 2026-11 or 2026."""
    return instant.date().isoformat()[: {"day": 10, "month": 7, "year": 4}[by]]


def is_news(file: str) -> bool:
    """Whether a file is a news sitemap."""
    return file == NEWS_FILE or file.startswith("sitemap-news-")


def render_general(entries: Iterable[GeneralEntry], site: Site) -> Rendered:
    """A shard; an emptied one lists the home page (R2.8, the schema wants at least one URL). Raises FileTooLarge."""
    listed = sorted(entries, key=lambda entry: entry.loc)
    lines = [general_line(entry, site) for entry in listed or [GeneralEntry(site.home)]]
    body = _frame("urlset", {"xmlns": _SITEMAP}, lines)
    return _checked(Rendered(body, len(listed), _newest(entry.lastmod for entry in listed)), URLS_MAX)


def render_news(entries: Iterable[NewsEntry], site: Site, now: datetime) -> Rendered:
    """A news sitemap of the entries in the window at `now`, newest first; an empty window lists the home page.

    Raises FileTooLarge.
    """
    current = [entry for entry in entries if entry.expires_at > now]
    listed = sorted(sorted(current, key=lambda entry: entry.loc), key=lambda entry: entry.published, reverse=True)
    if not listed:
        return Rendered(render_general([], site).body, 0, None)
    body = _frame("urlset", {"xmlns": _SITEMAP, "xmlns:news": _NEWS}, [news_line(entry, site) for entry in listed])
    newest = _newest(instant for entry in listed for instant in (entry.lastmod, entry.published))
    return _checked(Rendered(body, len(listed), newest), NEWS_ENTRIES_MAX)


def render_index(marks: Iterable[Mark], site: Site) -> Rendered:
    """The index: every file that lists a page, and the news sitemap always. Raises FileTooLarge."""
    listed = sorted((mark for mark in marks if mark.urls or mark.file == NEWS_FILE), key=lambda mark: mark.file)
    lines = [
        f"<sitemap><loc>{_xml(f'{site.origin}/{mark.file}')}</loc><lastmod>{iso(mark.changed)}</lastmod></sitemap>"
        for mark in listed
    ]
    body = _frame("sitemapindex", {"xmlns": _SITEMAP}, lines)
    return _checked(Rendered(body, len(listed), _newest(mark.changed for mark in listed)), URLS_MAX)


def general_line(entry: GeneralEntry, site: Site) -> str:
    """The `<url>` of a page in a shard."""
    return f"<url><loc>{_xml(_under_scheme(entry.loc, site))}</loc>{_lastmod(entry.lastmod)}</url>"


def news_line(entry: NewsEntry, site: Site) -> str:
    """The `<url>` of an article in the news sitemap, its elements in the schema's order (R2.3)."""
    return (
        f"<url><loc>{_xml(_under_scheme(entry.loc, site))}</loc>{_lastmod(entry.lastmod)}<news:news>"
        f"<news:publication><news:name>{_xml(entry.publication or site.publication)}</news:name>"
        f"<news:language>{_xml(entry.language or site.language)}</news:language></news:publication>"
        f"<news:publication_date>{iso(entry.published)}</news:publication_date>"
        f"<news:title>{_xml(entry.title)}</news:title></news:news></url>"
    )


def line_bytes(line: str) -> int:
    """What a line takes in the file, its line end included, in UTF-8 bytes."""
    return len(line.encode()) + 1


def _under_scheme(loc: str, site: Site) -> str:
    """A page's URL as the site has it. Inside, pages are known under https, so that a site can change over."""
    return loc if site.scheme == "https" else loc.replace("https:", "http:", 1)


def _xml(text: str) -> str:
    return escape(text, _QUOTES)


def _lastmod(instant: datetime | None) -> str:
    return f"<lastmod>{iso(instant)}</lastmod>" if instant else ""


def _newest(instants: Iterable[datetime | None]) -> datetime | None:
    return max((instant for instant in instants if instant), default=None)


def _frame(root: str, namespaces: dict[str, str], lines: list[str]) -> bytes:
    attributes = "".join(f' {name}="{value}"' for name, value in namespaces.items())
    return "\n".join([f"{_DECLARATION}<{root}{attributes}>", *lines, f"</{root}>\n"]).encode()


def _checked(file: Rendered, entries_max: int) -> Rendered:
    if file.urls > entries_max:
        raise FileTooLarge(f"{file.urls} entries, at most {entries_max}: `places` gave out more than a file takes")
    if len(file.body) > BYTES_MAX:
        raise FileTooLarge(f"{len(file.body)} bytes, at most {BYTES_MAX}: `places` gave out more than a file takes")
    return file
