"""The other forms in which a site's pages are published: gzip, plain text, an Atom feed, and robots.txt, which names them.

Pure functions, as those of `files`: equal content is equal bytes.
"""

import gzip
import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from urllib.parse import urljoin

from stoppress.model.file_names import INDEX_FILE, is_news, permanent_files
from stoppress.model.site import SITEMAP_LINE, Site
from stoppress.primitives.instants import iso
from stoppress.primitives.text import escaped
from stoppress.primitives.urls import canonical, on_site
from stoppress.sitemaps.render import (
    BYTES_MAX,
    URLS_MAX,
    FileTooLarge,
    NewsEntry,
    language_of,
    publication_of,
    under_scheme,
)

ROBOTS_FILE = "robots.txt"

# By the end of the file's name. Gzip is the file itself and never an encoding of it: no Content-Encoding (R9.1, R9.2).
CONTENT_TYPES: Mapping[str, str] = {
    ".xml": "application/xml; charset=utf-8",
    ".xml.gz": "application/gzip",
    ".txt": "text/plain; charset=utf-8",  # robots.txt as well (RFC 9309, 2.3)
    ".atom": "application/atom+xml; charset=utf-8",
}

# A file is packed anew with each article and fetched by a few crawlers a day, so time counts before size: of 50,000 URLs
# (6,865,099 bytes) level 6 makes 933,499 bytes in 91 ms, level 4 950,533 in 44 ms, level 1 1,051,778 in 24 ms.
_GZIP_LEVEL = 1
_GZIP_SYSTEM_AT = 9
_GZIP_SYSTEM_UNKNOWN = b"\xff"

# A day of a newsroom that publishes or edits a page every quarter of an hour, in about 40 KB; each reader fetches all of it.
FEED_ENTRIES_MAX = 100
# What an empty feed says of its last change: not the clock, before any article, and after 1990, where validators doubt dates.
_BEFORE_ANY_ENTRY = datetime(2005, 12, 1, tzinfo=UTC)

# RFC 9309, 2.5: crawlers have to read 500 KiB; what comes after may be cut.
ROBOTS_BYTES_MAX = 512_000

_CONTROL = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u2028\u2029\ud800-\udfff]")


def content_type(file: str) -> str:
    """The content type of a file, by its name."""
    return next(kind for suffix, kind in CONTENT_TYPES.items() if file.endswith(suffix))


def atom_name(series: str) -> str:
    """The feed of a series of news sitemaps: sitemap-news.atom, or sitemap-news-fr.atom of an edition."""
    return f"sitemap-{series}.atom"


def index_part_name(number: int) -> str:
    """The n-th index of a site that has more files than one index can name."""
    return f"sitemap-index-{number}.xml"


def compressed(body: bytes) -> bytes:
    """A file as gzip, for a name that ends in `.gz`: no time and no name in it.

    One zlib gives equal bytes under every Python; another zlib may pack otherwise, and unpacks to the same.
    """
    packed = gzip.compress(body, _GZIP_LEVEL, mtime=0)
    # Python 3.13 leaves the operating system unknown, 3.11 names it.
    return packed[:_GZIP_SYSTEM_AT] + _GZIP_SYSTEM_UNKNOWN + packed[_GZIP_SYSTEM_AT + 1 :]


def text_sitemap(locs: Iterable[str], site: Site) -> bytes:
    """A sitemap as plain text, a URL a line and nothing else (R1.14); without pages the home page, as in a shard (R2.8).

    Raises FileTooLarge.
    """
    listed = sorted({under_scheme(loc, site) for loc in locs}) or [site.home]
    body = "".join(f"{loc}\n" for loc in listed).encode()
    if len(listed) > URLS_MAX:
        raise FileTooLarge(f"{len(listed)} URLs, at most {URLS_MAX}: give a text sitemap the pages of one shard")
    if len(body) > BYTES_MAX:
        raise FileTooLarge(f"{len(body)} bytes, at most {BYTES_MAX}: give a text sitemap the pages of one shard")
    return body


# ── Atom ──


def atom_feed(
    entries: Iterable[NewsEntry],
    site: Site,
    *,
    file: str,
    hub: str | None = None,
    title: str | None = None,
    entries_max: int = FEED_ENTRIES_MAX,
) -> bytes:
    """An Atom 1.0 feed (RFC 4287) of the articles that changed last, under the publication's name unless a title is given.

    Ids are the URLs under https, whatever the site's scheme, so that they stay when it changes over. A hub is named for
    WebSub.
    """
    newest = sorted(sorted(entries, key=lambda entry: entry.loc), key=_updated, reverse=True)[:entries_max]
    updated = _updated(newest[0]) if newest else _BEFORE_ANY_ENTRY
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<feed xmlns="http://www.w3.org/2005/Atom" xml:lang="{escaped(site.language)}">',
        f"<id>{escaped(f'https://{site.host}/{file}')}</id>",
        f'<title type="text">{escaped(title or site.publication)}</title>',
        f"<updated>{iso(updated)}</updated>",
        _author(site.publication),
        f'<link rel="self" type="application/atom+xml" href="{escaped(f"{site.origin}/{file}")}"/>',
        f'<link rel="alternate" type="text/html" href="{escaped(site.home)}"/>',
        *([f'<link rel="hub" href="{escaped(hub)}"/>'] if hub else []),
    ]
    return "\n".join([*head, *(_atom_line(entry, site) for entry in newest), "</feed>\n"]).encode()


def _atom_line(entry: NewsEntry, site: Site) -> str:
    publication, language = publication_of(entry, site), language_of(entry, site)
    speaks = f' xml:lang="{escaped(language)}"' if language != site.language else ""
    author = _author(publication) if publication != site.publication else ""
    return (
        f'<entry{speaks}><id>{escaped(entry.loc)}</id><title type="text">{escaped(entry.title)}</title>'
        f'<link rel="alternate" type="text/html" href="{escaped(under_scheme(entry.loc, site))}"/>'
        f"<published>{iso(entry.published)}</published><updated>{iso(_updated(entry))}</updated>{author}</entry>"
    )


def _updated(entry: NewsEntry) -> datetime:
    """When readers last got something new: an article that was changed before it came out was new when it came out."""
    return max(entry.lastmod or entry.published, entry.published)


def _author(publication: str) -> str:
    return f"<author><name>{escaped(publication)}</name></author>"


# ── robots.txt ──


def robots_txt(site: Site, sitemaps: Iterable[str], rules: str) -> bytes:
    """robots.txt: a `Sitemap:` line for each sitemap, then the site's own rules as they are given.

    Sitemaps are files of the site or URLs; those that the rules name come after them, none twice. They stand first, where no
    group is open and no crawler has stopped reading. Raises ValueError for rules that cannot stand so, and FileTooLarge.
    """
    kept, named = [], list(sitemaps)
    for number, line in enumerate(_lines(rules), 1):
        if found := _CONTROL.search(line):
            raise ValueError(f"line {number} of the rules has U+{ord(found.group()):04X} in it: take it out")
        if own := SITEMAP_LINE.match(line):
            named.append(_only_url(own.group(1), number))
        else:
            kept.append(line)
    parts = ["\n".join(robots_lines(site, named)), "\n".join(kept).strip("\n")]
    body = ("\n\n".join(filter(None, parts)) + "\n").encode()
    if len(body) > ROBOTS_BYTES_MAX:
        raise FileTooLarge(f"robots.txt has {len(body)} bytes, and crawlers read {ROBOTS_BYTES_MAX}: shorten the rules")
    return body


def named_in_robots(site: Site) -> list[str]:
    """The sitemaps that a site's robots.txt names: the index, and each news sitemap by itself (R8.2)."""
    return [INDEX_FILE, *(name for name in permanent_files(site) if is_news(name))]


def robots_lines(site: Site, sitemaps: Iterable[str]) -> list[str]:
    """The `Sitemap:` lines for a robots.txt: absolute URLs, each once (R8.2). Raises ValueError for what is no URL."""
    urls: dict[str, str] = {}
    for sitemap in sitemaps:
        url = urljoin(site.home, sitemap)
        urls.setdefault(on_site(canonical(url), site.host), url)
    return [f"Sitemap: {url}" for url in urls.values()]


def _lines(rules: str) -> Iterator[str]:
    # A byte order mark is one only at the start of the file, and the rules do not stand there.
    yield from rules.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n").split("\n")


def _only_url(text: str, number: int) -> str:
    words = text.split()
    if len(words) != 1:
        raise ValueError(f"line {number} of the rules: after `Sitemap:` give one URL")
    return words[0]
