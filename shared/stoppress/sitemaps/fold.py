"""Read the lines of a file that Stoppress wrote, to fold changes into it or to recognize it.

Folding renders only the changed lines. The bytes equal those of a file rendered from all its entries. A file can be folded if the
same configuration wrote it and each line depends on its own entry alone (`Rendered.by_line`). Otherwise the functions return None.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from html import unescape
from operator import itemgetter
from urllib.parse import urlsplit

from stoppress.model.entries import GeneralEntry, Mark, NewsEntry
from stoppress.model.file_names import ATOM, INDEX_ENTRIES_MAX, NEWS_ENTRIES_MAX, URLS_MAX, WRITTEN, permanent_files
from stoppress.model.index_ranges import INDEX_FILES_URGENT
from stoppress.model.news_window import lists_in_news, window_start
from stoppress.model.site import Site
from stoppress.primitives.instants import iso
from stoppress.primitives.urls import host_of, identity
from stoppress.sitemaps import render
from stoppress.sitemaps.render import Rendered
from stoppress.sitemaps.tags import general_line, index_line, news_line

_LASTMOD = re.compile(r"<lastmod>([^<]*)")
_INSTANT = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ")
_LOC = re.compile(r"<(?:url|sitemap)><loc>([^<]*)</loc>")
_PUBLISHED = re.compile(r"<news:publication_date>([^<]*)")


def fold_general(body: bytes, changed: Mapping[str, GeneralEntry | None], site: Site) -> Rendered | None:
    """Return a shard with the entries at these URLs replaced; None removes the entry."""
    lines = {_page_of(line, site): line for line in _lines(body)}
    # The URLs that differ from their `identity`, by that identity.
    spellings = {page: loc for loc in lines if (page := identity(loc)) != loc}
    fresh = []
    for loc, entry in changed.items():
        page = identity(loc)
        lines.pop(spellings.get(page, page), None)
        if entry and render.lists_in_general(entry, site):
            lines[entry.loc] = general_line(entry, site)
            fresh.append(lines[entry.loc])
    newest = render.newest_of(entry.lastmod for entry in changed.values() if entry and entry.loc in lines)
    return _render_lines(render.general_file, [lines[loc] for loc in sorted(lines)], fresh, newest, URLS_MAX)


def fold_news(
    body: bytes, changed: Mapping[tuple[str, str], NewsEntry | None], site: Site, now: datetime
) -> Rendered | None:
    """Return a news sitemap at `now` with the entries at these (publication date, URL) replaced; None removes the entry.

    Expired entries are dropped.
    """
    oldest = iso(window_start(now))
    lines = {key: line for line in _lines(body) if (key := (_published_of(line), _page_of(line, site)))[0] > oldest}
    fresh = []
    for (published, loc), entry in changed.items():
        if entry and lists_in_news(entry, site, now):
            # A new publication date means a new key, so its old line is dropped whatever its date.
            lines = _drop_page(lines, loc)
            lines[published, entry.loc] = news_line(entry, site)
            fresh.append(lines[published, entry.loc])
        else:
            lines = _drop_page(lines, loc, published)
    newest_first = sorted(sorted(lines, key=itemgetter(1)), key=itemgetter(0), reverse=True)
    listed = (entry for (published, _), entry in changed.items() if entry and (published, entry.loc) in lines)
    instants = (instant for entry in listed for instant in (entry.lastmod, entry.published))
    listed_lines = [lines[key] for key in newest_first]
    return _render_lines(render.news_file, listed_lines, fresh, render.newest_of(instants), NEWS_ENTRIES_MAX)


def _drop_page(lines: dict[tuple[str, str], str], loc: str, published: str = "") -> dict[tuple[str, str], str]:
    """Return the lines of a news sitemap without those of a page: all of them, or only the one with the date `published`."""
    page = identity(loc)
    return {key: line for key, line in lines.items() if (published or key[0]) != key[0] or identity(key[1]) != page}


def fold_index(body: bytes, changed: Mapping[str, Mark | None], site: Site) -> Rendered | None:
    """Return the index with the lines of these files replaced by their commit marks; None removes the file."""
    lines = dict(zip(listed_files(body), _lines(body), strict=True))
    if len(lines) > INDEX_FILES_URGENT:  # it has to be split, which needs all entries
        return None
    permanent = permanent_files(site)
    fresh = []
    for file, mark in changed.items():
        lines.pop(file, None)
        if mark and render.in_index(mark, permanent):
            lines[file] = index_line(mark, site)
            fresh.append(lines[file])
    newest = render.newest_of(mark.changed for mark in changed.values() if mark)
    return _render_lines(render.index_file, [lines[file] for file in sorted(lines)], fresh, newest, INDEX_ENTRIES_MAX)


def listed_files(body: bytes) -> list[str]:
    """Return the files that an index lists, without `.gz`. An index that lists the home page has none."""
    lines = _lines(body)
    return [_loc(line).rpartition("/")[2].removesuffix(".gz") for line in lines if line.startswith("<sitemap>")]


def _render_lines(
    file: Callable[[Sequence[str]], bytes],
    lines: Sequence[str],
    fresh: Sequence[str],
    newest: datetime | None,
    entries_max: int,
) -> Rendered | None:
    """Return the file of these lines, or None if it is empty or too large.

    The table may already lack entries that a later batch of the stream removes. So the file rendered from all entries may fit.
    """
    rendered = Rendered(file(lines), len(lines), newest, by_line=True, fresh=file(fresh) if fresh else b"")
    return rendered if lines and render.is_within_limits(rendered, entries_max) else None


def _lines(body: bytes) -> list[str]:
    """Return the lines between the root element's start (line 2) and its end."""
    return body.decode().split("\n")[2:-2]


def _page_of(line: str, site: Site) -> str:
    """Return the page of a line, under https like all pages in the table."""
    loc = _loc(line)
    return loc if site.scheme == "https" else loc.replace("http:", "https:", 1)


def _published_of(line: str) -> str:
    date = _PUBLISHED.search(line)
    return date[1] if date else ""


def is_own_file(url: str, body: bytes, site: Site) -> bool:
    """Return True if a body has the name and the bytes of a file that Stoppress wrote for the site.

    The name alone is no proof: before a migration the CMS serves its own `/sitemap.xml`. So the body must equal, byte for byte,
    what Stoppress would write with the same lines. Lines must have Stoppress's order, and instants its form.
    """
    name = urlsplit(url).path.rpartition("/")[2]
    if not WRITTEN.fullmatch(name):
        return False
    try:
        text, lines = body.decode(), _lines(body)
    except UnicodeDecodeError:
        return False
    if name.endswith(".atom"):
        id_line = rf"<id>https://{re.escape(site.host)}/{re.escape(name)}</id>"
        return re.match(rf'[^\n]*\n<feed xmlns="{ATOM}" xml:lang="[^"]*">\n{id_line}\n', text) is not None
    if not lines or host_of(_loc(lines[0])) != site.host or not _has_our_instants(lines, site):
        return False
    if lines[0].startswith("<sitemap>"):
        names = (urlsplit(_loc(line)).path.removeprefix("/") for line in lines)
        return render.index_file(lines) == body and all(map(WRITTEN.fullmatch, names))
    if _PUBLISHED.search(lines[0]):
        dates = [_published_of(line) for line in lines]
        return render.news_file(lines) == body and dates == sorted(dates, reverse=True)
    pages = [_loc(line) for line in lines]
    return render.general_file(lines) == body and pages == sorted(pages)


def _loc(line: str) -> str:
    loc = _LOC.match(line)
    return unescape(loc[1]) if loc else ""


def _has_our_instants(lines: Sequence[str], site: Site) -> bool:
    """Return True if all instants have Stoppress's form. Lines without instants must list the home page or configured pages."""
    instants = [instant for line in lines for pattern in (_LASTMOD, _PUBLISHED) for instant in pattern.findall(line)]
    if not instants:  # the scheme is ignored, because it may have changed since the file was written
        pages = {url.partition("://")[2] for url in (site.home, *site.pages_by_url)}
        return all(_loc(line).partition("://")[2] in pages for line in lines)
    return all(map(_INSTANT.fullmatch, instants))
