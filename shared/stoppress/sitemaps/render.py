"""Whole sitemap files, byte for byte, and the check of their bytes before they are put.

A file depends only on its entries, the site's configuration and, for news sitemaps, the clock. It has one entry a line, sorted,
without generation time or comment, so that equal entries give equal bytes.
"""

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from io import BytesIO
from itertools import islice
from operator import attrgetter
from pyexpat import ErrorString, ExpatError, ParserCreate

from stoppress.model.entries import GeneralEntry, Mark, NewsEntry, excluding_rule
from stoppress.model.file_names import (
    BYTES_MAX,
    IMAGE,
    NEWS,
    NEWS_ENTRIES_MAX,
    ROBOTS_FILE,
    SITEMAP,
    URLS_MAX,
    VIDEO,
    XHTML,
    permanent_files,
)
from stoppress.model.index_ranges import Indexes
from stoppress.model.news_window import select_news
from stoppress.model.site import Site
from stoppress.primitives.urls import identity
from stoppress.sitemaps.tags import alternates_of, general_lines, index_line, news_line

_DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
# Declared by a file that uses one of their tags (R1.2).
_EXTENSIONS = {"xhtml": XHTML, "image": IMAGE, "video": VIDEO}
# Lines are encoded fifty at a time into one buffer: 50,000 rich pages take 82 MiB, not 144.
_BATCH_LINES = 50


@dataclass(frozen=True, slots=True)
class Rendered:
    """A file's bytes, the number of pages it lists, and the newest instant in it.

    `by_line`: each line depends on its own entry alone, so that later changes can be folded in. `fresh`: after folding, a file with
    only the changed lines. `news`: the entries of a news sitemap that were read, all of them unless changes were folded in. `indexes`,
    `next_indexes`: of an index, the indexes of the site before and after it, unless folding did not need them.
    """

    body: bytes
    urls: int
    newest: datetime | None
    by_line: bool = False
    fresh: bytes | None = None
    news: tuple[NewsEntry, ...] = field(default=(), compare=False)
    indexes: Indexes | None = field(default=None, compare=False)
    next_indexes: Indexes | None = field(default=None, compare=False)


def render_general(entries: Iterable[GeneralEntry], site: Site) -> Rendered:
    """Return a shard of the pages that the site's rules allow. Without pages it lists the home page (R2.8).

    Pages of the site's configuration are left out: they have their own file.
    """
    if site.rules or site.pages:  # most sites have neither
        entries = [entry for entry in entries if lists_in_general(entry, site)]
    return _general(entries, site)


def lists_in_general(entry: GeneralEntry, site: Site) -> bool:
    """Return True if a shard lists a page: no rule excludes it, and the site's configuration does not list it."""
    return identity(entry.loc) not in site.pages_by_url and not excluding_rule(
        site.rules, "general", entry.loc, entry.traits
    )


def render_pages(entries: Iterable[GeneralEntry], site: Site) -> Rendered:
    """Return the pages that are not articles: those of the configuration and those of events."""
    from_events = {identity(entry.loc): entry for entry in entries}
    configured = {
        url: replace(
            from_events.get(url, GeneralEntry(url)), changefreq=page.changefreq or None, priority=page.priority
        )
        for url, page in site.pages_by_url.items()
    }
    others = [entry for entry in from_events.values() if lists_in_general(entry, site)]
    return _general([*configured.values(), *others], site)


def _general(entries: Iterable[GeneralEntry], site: Site) -> Rendered:
    entries = list(entries)
    # Computed from the entries: the root element precedes the lines, and the lines are never in memory together.
    used = {
        "xhtml": any(entry.alternates and alternates_of(entry, site) for entry in entries),
        "image": any(map(attrgetter("images"), entries)),
        "video": any(map(attrgetter("videos"), entries)),
    }
    listed = sorted(entries, key=attrgetter("loc"))
    lines = general_lines(listed or [GeneralEntry(site.home)], site)
    body = _shard(lines, [prefix for prefix, is_used in used.items() if is_used])
    newest = newest_of(map(attrgetter("lastmod"), entries))
    return Rendered(body, len(entries), newest, by_line=bool(entries))


def general_file(lines: Sequence[str]) -> bytes:
    return _shard(lines, _used_in(lines))


def _used_in(lines: Sequence[str]) -> list[str]:
    # Text is escaped, so `<image:` is always a tag.
    return [prefix for prefix in _EXTENSIONS if any(f"<{prefix}:" in line for line in lines)]


def _shard(lines: Iterable[str], used: Collection[str], **more: str) -> bytes:
    extensions = {f"xmlns:{prefix}": namespace for prefix, namespace in _EXTENSIONS.items() if prefix in used}
    return _wrap_lines("urlset", {"xmlns": SITEMAP} | more | extensions, lines)


def render_news(entries: Iterable[NewsEntry], site: Site, now: datetime) -> Rendered:
    """Return a news sitemap of the entries in the window at `now`, newest first. An empty window lists the home page."""
    listed = select_news(entries, site, now)
    if not listed:
        return Rendered(_general([], site).body, 0, None)
    body = news_file([news_line(entry, site) for entry in listed])
    newest = newest_of([listed[0].published, *(entry.lastmod for entry in listed)])
    return Rendered(body, len(listed), newest, by_line=True)


def news_file(lines: Sequence[str]) -> bytes:
    return _shard(lines, _used_in(lines), **{"xmlns:news": NEWS})


def render_index(marks: Iterable[Mark], site: Site) -> Rendered:
    """Return the index of all permanent files and all other files that list a page. Without any it lists the home page (R2.8)."""
    permanent = permanent_files(site)
    listed = sorted((mark for mark in marks if in_index(mark, permanent)), key=attrgetter("file"))
    if not listed:
        return Rendered(_general([], site).body, 0, None)
    body = index_file([index_line(mark, site) for mark in listed])
    return Rendered(body, len(listed), newest_of(mark.changed for mark in listed), by_line=True)


def in_index(mark: Mark, permanent: Sequence[str]) -> bool:
    """Return True if the index lists a file: it lists a page, or it is permanent."""
    return bool(mark.urls) or mark.file in permanent


def index_file(lines: Sequence[str]) -> bytes:
    return _wrap_lines("sitemapindex", {"xmlns": SITEMAP}, lines)


def newest_of(instants: Iterable[datetime | None]) -> datetime | None:
    return max(filter(None, instants), default=None)


def _wrap_lines(root: str, namespaces: dict[str, str], lines: Iterable[str]) -> bytes:
    attributes = "".join(f' {name}="{value}"' for name, value in namespaces.items())
    file, lines = BytesIO(), iter(lines)
    file.write(f"{_DECLARATION}<{root}{attributes}>\n".encode())
    while batch := list(islice(lines, _BATCH_LINES)):
        file.write("\n".join([*batch, ""]).encode())
    file.write(f"</{root}>\n".encode())
    return file.getvalue()


def is_within_limits(file: Rendered, entries_max: int) -> bool:
    """Return True if a file is within the protocol's limits for entries and bytes (R1.10, R1.11, R2.4)."""
    return file.urls <= entries_max and len(file.body) <= BYTES_MAX


SHOWN_CHARACTERS_MAX = 100
WHITE_SPACE = " \t\r\n"  # of XML
# The parser returns an element's name with its namespace.
_LOC, _ARTICLE, _ENTRIES = f"{SITEMAP} loc", f"{NEWS} news", (f"{SITEMAP} url", f"{SITEMAP} sitemap")
# Elements without text. Every other element needs one.
_CONTAINERS = {
    *(f"{SITEMAP} urlset", f"{SITEMAP} sitemapindex", *_ENTRIES, _ARTICLE, f"{NEWS} publication"),
    *(f"{IMAGE} image", f"{VIDEO} video", f"{XHTML} link"),
}


class BrokenFile(ValueError):
    """A file would break a rule of the protocol. Nothing is written; the last good file remains."""

    def __init__(self, file: str, reason: str) -> None:
        super().__init__(f"{file} would break the protocol, and is not written: {reason}")


def assert_valid(file: str, rendered: Rendered, origin: str) -> None:
    """Check the bytes of a file before they are put. A folded file is checked by its new lines alone, a robots.txt not at all.

    Raises BrokenFile if it is not well-formed XML with declared namespaces, an element is empty, or a URL is not below `origin`.
    Raises it too if the number of entries is not the rendered one, or entries or bytes exceed the protocol's limits.
    """
    body = rendered.body if rendered.fresh is None else rendered.fresh
    if file == ROBOTS_FILE or not body:  # folding may have removed lines and written none
        return
    counts = _count_elements(file, body, f"{origin}/")
    entries, articles, locs = sum(counts[name] for name in _ENTRIES), counts[_ARTICLE], counts[_LOC]
    # A file without pages lists the home page.
    expected = entries if rendered.fresh else rendered.urls or 1
    if not 0 < entries == locs == expected <= URLS_MAX or articles > NEWS_ENTRIES_MAX or len(rendered.body) > BYTES_MAX:
        numbers = f"{entries:,} entries, {articles:,} with news, {locs:,} URLs and {len(rendered.body):,} bytes"
        raise BrokenFile(file, f"R1.10 {numbers}, where {expected:,} entries were rendered")


def _count_elements(file: str, body: bytes, home: str) -> Mapping[str, int]:
    """Return how often each element occurs in a file. Raises BrokenFile at the first that breaks a rule."""
    counts, texts = defaultdict[str, int](int), list[str]()
    parser = ParserCreate("utf-8", " ")

    def check_element(name: str) -> None:
        counts[name] += 1
        text = "".join(texts).strip(WHITE_SPACE)
        texts.clear()
        if name == _LOC:
            fault = "" if text.startswith(home) else f"R1.7 {text[:SHOWN_CHARACTERS_MAX]!r} is not below {home}"
        elif name in _CONTAINERS:
            fault = text and f"R1.11 {text[:SHOWN_CHARACTERS_MAX]!r} is outside the elements with a text"
        else:
            fault = "" if text else f"R1.11 {name.rpartition(' ')[2]} is empty"
        if fault:
            raise BrokenFile(file, f"line {parser.CurrentLineNumber}: {fault}")

    parser.buffer_text = True
    parser.CharacterDataHandler = texts.append
    parser.EndElementHandler = check_element
    try:
        parser.Parse(body, True)
    except ExpatError as error:
        raise BrokenFile(file, f"line {error.lineno}: R1.2 {ErrorString(error.code)}") from None
    return counts
