"""Which pages changed between two versions of a sitemap file. Pure.

A repeated or lost event does no harm: what is told follows from the file and from the copy of what was compared before.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from hashlib import sha256
from html import unescape

from stoppress.model.limits import NEWS_WINDOW
from stoppress.primitives.instants import parse

_URL = re.compile(r"<url>(.*?)</url>", re.DOTALL)
_LOC = re.compile(r"<loc>([^<]*)</loc>")
_LASTMOD = re.compile(r"<lastmod>([^<]*)</lastmod>")
_PUBLISHED = re.compile(r"<news:publication_date>([^<]*)</news:publication_date>")


@dataclass(frozen=True, slots=True)
class Entry:
    """A page in a file. `version` differs if the page changed: its lastmod, or without one a digest of its lines."""

    version: str
    lastmod: datetime | None
    published: datetime | None


@dataclass(frozen=True, slots=True)
class Change:
    """A page that a file lists since its last version or with a new lastmod, or that has left the file (`gone`)."""

    url: str
    gone: bool = False
    published: datetime | None = None


def changes(before: bytes | None, after: bytes, filler: str, began: datetime, now: datetime) -> Iterator[Change]:
    """The pages that changed from one version of a file to the next. `filler` is the home page, which files without pages list.

    IndexNow asks for no back catalogue. So a new page counts only if its dates are not older than the news window. Without a version
    before, they must be later than `began`, when telling was switched on.
    """
    old, new = entries(before or b""), entries(after)
    for listed in (old, new):
        listed.pop(filler, None)
    earliest = now - NEWS_WINDOW if before is not None else max(began, now - NEWS_WINDOW)
    for url, entry in new.items():
        is_new = url not in old
        if not is_new and old[url].version == entry.version:
            continue
        newest = max((date for date in (entry.lastmod, entry.published) if date), default=None)
        if is_new and (newest < earliest if newest else before is None):
            continue
        yield Change(url, published=entry.published)
    for url, entry in old.items():
        if url not in new and not (entry.published and entry.published + NEWS_WINDOW <= now):
            yield Change(url, gone=True)


def entries(body: bytes) -> dict[str, Entry]:
    """The entries of a file that Stoppress wrote, by URL."""
    return {unescape(loc[1]): _entry(url[1]) for url in _URL.finditer(body.decode()) if (loc := _LOC.search(url[1]))}


def _entry(text: str) -> Entry:
    lastmod = _LASTMOD.search(text)
    published = _PUBLISHED.search(text)
    return Entry(
        lastmod[1] if lastmod else sha256(text.encode()).hexdigest()[:16],
        _instant(lastmod),
        _instant(published),
    )


def _instant(match: re.Match[str] | None) -> datetime | None:
    return parse(match[1]) if match else None
