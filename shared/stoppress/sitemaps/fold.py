"""Folding: a file with the lines that changed made anew, to the very bytes that all its entries would give.

Only a file that was written by the same configuration and whose lines depend on their own entries alone can be folded into
(`Rendered.by_line`). Where that does not suffice the answer is None, and the file has to be made from all its entries.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from html import unescape

from stoppress.model.file_names import permanent_files
from stoppress.model.site import Site
from stoppress.primitives.instants import iso
from stoppress.primitives.urls import identity
from stoppress.sitemaps.render import (
    INDEX_ENTRIES_MAX,
    NEWS_ENTRIES_MAX,
    NEWS_WINDOW,
    URLS_MAX,
    GeneralEntry,
    Mark,
    NewsEntry,
    Rendered,
    general_file,
    general_line,
    in_index,
    in_window,
    index_file,
    index_line,
    is_within_limits,
    lists_in_general,
    newest_of,
    news_file,
    news_line,
)

_PUBLISHED = "<news:publication_date>"


def fold_general(body: bytes, changed: Mapping[str, GeneralEntry | None], site: Site) -> Rendered | None:
    """A shard after its entries at these URLs have become what is given (None: are gone)."""
    lines = {_page_of(line, site): line for line in _lines(body)}
    spellings = _spellings(lines)
    fresh = []
    for loc, entry in changed.items():
        page = identity(loc)
        lines.pop(spellings.get(page, page), None)
        if entry and lists_in_general(entry, site):
            if entry.alternates:  # the lines of the others depend on it
                return None
            lines[entry.loc] = general_line(entry, site)
            fresh.append(lines[entry.loc])
    if not lines:
        return None
    listed = sorted(lines)
    locs = tuple(listed) if site.outputs.text else ()
    newest = newest_of(entry.lastmod for entry in changed.values() if entry and entry.loc in lines)
    body = general_file([lines[loc] for loc in listed])
    return _fitting(Rendered(body, len(listed), newest, locs, by_line=True, fresh=_of(general_file, fresh)), URLS_MAX)


def fold_news(
    body: bytes, changed: Mapping[tuple[str, str], NewsEntry | None], site: Site, now: datetime
) -> Rendered | None:
    """A news sitemap at `now` after the entries of these (publication date, URL) have become what is given.

    What has left the window is dropped.
    """
    oldest = iso(now - NEWS_WINDOW)
    lines = {key: line for line in _lines(body) if (key := (_published_of(line), _page_of(line, site)))[0] > oldest}
    fresh = []
    for (published, loc), entry in changed.items():
        page = identity(loc)
        for key in [key for key in lines if key[0] == published and identity(key[1]) == page]:
            del lines[key]
        if entry and in_window([entry], site, now):
            # Dated anew it has another key: the line of the date before goes with it, whoever is told of it first.
            for key in [key for key in lines if identity(key[1]) == page]:
                del lines[key]
            lines[published, entry.loc] = news_line(entry, site)
            fresh.append(lines[published, entry.loc])
    if not lines:
        return None
    newest_first = sorted(sorted(lines, key=lambda key: key[1]), key=lambda key: key[0], reverse=True)
    listed = (entry for (published, _), entry in changed.items() if entry and (published, entry.loc) in lines)
    instants = (instant for entry in listed for instant in (entry.lastmod, entry.published))
    body = news_file([lines[key] for key in newest_first])
    rendered = Rendered(body, len(lines), newest_of(instants), by_line=True, fresh=_of(news_file, fresh))
    return _fitting(rendered, NEWS_ENTRIES_MAX)


def fold_index(body: bytes, changed: Mapping[str, Mark | None], site: Site) -> Rendered | None:
    """The index after the marks of these files have become what is given."""
    lines = {_file_of(line, site): line for line in _lines(body)}
    if len(lines) == INDEX_ENTRIES_MAX:  # there may be more, in a second index
        return None
    permanent = permanent_files(site)
    fresh = []
    for file, mark in changed.items():
        lines.pop(file, None)
        if mark and in_index(mark, permanent):
            lines[file] = index_line(mark, site)
            fresh.append(lines[file])
    if not 0 < len(lines) <= INDEX_ENTRIES_MAX:
        return None
    newest = newest_of(mark.changed for mark in changed.values() if mark)
    body = index_file([lines[file] for file in sorted(lines)])
    return _fitting(Rendered(body, len(lines), newest, by_line=True, fresh=_of(index_file, fresh)), INDEX_ENTRIES_MAX)


def _spellings(locs: Iterable[str]) -> dict[str, str]:
    """The pages that are not spelled as their identity is, by their identity."""
    return {page: loc for loc in locs if (page := identity(loc)) != loc}


def _fitting(file: Rendered, entries_max: int) -> Rendered | None:
    """The file, unless it is too large: what makes room in it may be told of in another batch."""
    return file if is_within_limits(file, entries_max) else None


def _lines(body: bytes) -> list[str]:
    """One entry a line, between declaration and root element before and its end after them."""
    return body.decode().split("\n")[2:-2]


def _of(file: Callable[[Sequence[str]], bytes], lines: Sequence[str]) -> bytes:
    return file(lines) if lines else b""


def _page_of(line: str, site: Site) -> str:
    """The page of a line, as it is known inside: under https."""
    loc = _loc(line)
    return loc if site.scheme == "https" else loc.replace("http:", "https:", 1)


def _file_of(line: str, site: Site) -> str:
    return _loc(line).removeprefix(f"{site.origin}/").removesuffix(".gz")


def _published_of(line: str) -> str:
    start = line.index(_PUBLISHED) + len(_PUBLISHED)
    return line[start : line.index("<", start)]


def _loc(line: str) -> str:
    start = line.index("<loc>") + len("<loc>")
    return unescape(line[start : line.index("<", start)])
