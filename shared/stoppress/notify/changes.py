"""Which pages changed between two versions of a sitemap file. Pure.

A repeated or lost event does no harm: the changes follow from the file and from the copy of what was compared before.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from html import unescape

from stoppress.model.news_window import is_current, window_start
from stoppress.primitives.instants import parse

# The version of a page that left its files.
GONE = "gone"

_URL = re.compile(r"<url>(.*?)</url>", re.DOTALL)
_LOC = re.compile(r"<loc>([^<]*)</loc>")
_LASTMOD = re.compile(r"<lastmod>([^<]*)</lastmod>")
_PUBLISHED = re.compile(r"<news:publication_date>([^<]*)</news:publication_date>")


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in a file. `version` is its lastmod, or without one a digest of its tags. `newest` is the latest of its dates."""

    version: str
    newest: datetime | None
    published: datetime | None


@dataclass(frozen=True, slots=True)
class Change:
    """A page that a file lists newly or with a new lastmod. With the version GONE, the page has left the file."""

    url: str
    version: str
    published: datetime | None = None


def changes(before: bytes | None, after: bytes, filler: str, began: datetime, now: datetime) -> Iterator[Change]:
    """The pages that changed from one version of a file to the next. `filler` is the home page, which files without pages list.

    IndexNow wants no back catalogue. So a date of the page must lie in the news window, and a page without dates counts only if
    there is a version before. Without one, the date must also be later than `began`, when notifications were switched on.
    """
    old, new = entries(before or b""), entries(after)
    for listed in (old, new):
        listed.pop(filler, None)
    start = window_start(now)
    earliest = start if before is not None else max(began, start)
    for url, entry in new.items():
        if url in old and old[url].version == entry.version:
            continue
        if before is not None if entry.newest is None else entry.newest >= earliest:
            yield Change(url, entry.version, entry.published)
    for url, entry in old.items():
        has_expired = entry.published is not None and not is_current(entry.published, now)
        if url not in new and not has_expired:
            yield Change(url, GONE)


def entries(body: bytes) -> dict[str, Entry]:
    """The entries of a file that Stoppress wrote, by URL."""
    return {unescape(loc[1]): _entry(url[1]) for url in _URL.finditer(body.decode()) if (loc := _LOC.search(url[1]))}


def _entry(tags: str) -> Entry:
    lastmod, published = _LASTMOD.search(tags), _PUBLISHED.search(tags)
    dates = [parse(date[1]) for date in (lastmod, published) if date]
    version = lastmod[1] if lastmod else sha256(tags.encode()).hexdigest()[:16]
    return Entry(version, max(dates, default=None), parse(published[1]) if published else None)
