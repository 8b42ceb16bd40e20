"""The other forms of a sitemap: gzip, plain text, and the Atom feed of a news series. Equal content is equal bytes, apart from `with_time`."""

import gzip
import re
import zlib
from collections.abc import Iterable
from contextlib import suppress
from datetime import UTC, datetime
from html import unescape

from stoppress.model.entries import NewsEntry
from stoppress.model.file_names import ATOM
from stoppress.model.site import Site
from stoppress.primitives.instants import iso
from stoppress.primitives.text import escaped
from stoppress.sitemaps.tags import language_of, publication_of, under_scheme

# Each article repacks a file that a few crawlers fetch a day, so speed counts more than size. Measured for
# 50,000 URLs, 6,865,099 bytes. Level 6: 933,499 bytes in 91 ms. Level 4: 950,533 in 44 ms. Level 1: 1,051,778 in 24 ms.
_GZIP_LEVEL = 1
_GZIP_TIME_AT, _GZIP_TIME_END = 4, 8
_GZIP_SYSTEM_AT = 9
_GZIP_SYSTEM_UNKNOWN = b"\xff"
_LOC = re.compile("^<url><loc>([^<]*)</loc>", re.MULTILINE)
# The limit for a feed: a day of a newsroom that publishes or edits a page every 15 minutes, about 40 KB. Each reader
# fetches all of it.
FEED_ENTRIES_MAX = 100
# `updated` of an empty feed. The date is fixed, so that the bytes stay equal. It is after 1990, because validators doubt older
# dates.
_BEFORE_ANY_ENTRY = datetime(2005, 12, 1, tzinfo=UTC)


def compressed(body: bytes) -> bytes:
    """Return a file as gzip, without time and name in the header.

    All Python versions write equal bytes with the same zlib. Another zlib may pack differently; it unpacks to the same bytes.
    """
    packed = gzip.compress(body, _GZIP_LEVEL, mtime=0)
    # Python 3.13 writes "unknown" as the operating system, 3.11 writes its name.
    return packed[:_GZIP_SYSTEM_AT] + _GZIP_SYSTEM_UNKNOWN + packed[_GZIP_SYSTEM_AT + 1 :]


def same_gzip(first: bytes, second: bytes) -> bool:
    """Return True if two gzip files differ at most in the time of their headers, which readers ignore (RFC 1952, 2.3.1)."""
    return (first[:_GZIP_TIME_AT], first[_GZIP_TIME_END:]) == (second[:_GZIP_TIME_AT], second[_GZIP_TIME_END:])


def with_time(gzip_file: bytes, at: datetime) -> bytes:
    """Return the same gzip file with an instant's last 32 bits of microseconds as the time in its header."""
    time = round(at.timestamp() * 1_000_000) % 2**32
    return gzip_file[:_GZIP_TIME_AT] + time.to_bytes(4, "little") + gzip_file[_GZIP_TIME_END:]


def unpacked(name: str, body: bytes) -> bytes:
    """Return a form's content, unpacked. Any other body, such as another writer's, is returned as it is."""
    with suppress(OSError, EOFError, zlib.error):
        return gzip.decompress(body) if name.endswith(".gz") else body
    return body


def text_sitemap(shard: bytes) -> bytes:
    """Return a shard as a plain-text sitemap: one URL a line (R1.14)."""
    return "".join(f"{unescape(loc)}\n" for loc in _LOC.findall(shard.decode())).encode()


def atom_feed(entries: Iterable[NewsEntry], site: Site, *, file: str, hub: str | None = None) -> bytes:
    """Return an Atom 1.0 feed (RFC 4287) of the articles that changed last.

    Ids are https URLs whatever the site's scheme, so that they stay when the scheme changes. `hub` is a WebSub hub.
    """
    newest = sorted(sorted(entries, key=lambda entry: entry.loc), key=_updated_at, reverse=True)[:FEED_ENTRIES_MAX]
    updated = _updated_at(newest[0]) if newest else _BEFORE_ANY_ENTRY
    head = [
        '<?xml version="1.0" encoding="UTF-8"?>',
        f'<feed xmlns="{ATOM}" xml:lang="{escaped(site.language)}">',
        f"<id>{escaped(f'https://{site.host}/{file}')}</id>",
        f'<title type="text">{escaped(site.publication)}</title>',
        f"<updated>{iso(updated)}</updated>",
        _author(site.publication),
        f'<link rel="self" type="application/atom+xml" href="{escaped(f"{site.origin}/{file}")}"/>',
        f'<link rel="alternate" type="text/html" href="{escaped(site.home)}"/>',
        *([f'<link rel="hub" href="{escaped(hub)}"/>'] if hub else []),
    ]
    return "\n".join([*head, *(_atom_line(entry, site) for entry in newest), "</feed>\n"]).encode()


def _atom_line(entry: NewsEntry, site: Site) -> str:
    publication, language = publication_of(entry, site), language_of(entry, site)
    xml_lang = f' xml:lang="{escaped(language)}"' if language != site.language else ""
    author = _author(publication) if publication != site.publication else ""
    return (
        f'<entry{xml_lang}><id>{escaped(entry.loc)}</id><title type="text">{escaped(entry.title)}</title>'
        f'<link rel="alternate" type="text/html" href="{escaped(under_scheme(entry.loc, site))}"/>'
        f"<published>{iso(entry.published)}</published><updated>{iso(_updated_at(entry))}</updated>{author}</entry>"
    )


def _updated_at(entry: NewsEntry) -> datetime:
    """Return when the article last changed for readers: an edit before its publication counts as its publication."""
    return max(entry.lastmod or entry.published, entry.published)


def _author(publication: str) -> str:
    return f"<author><name>{escaped(publication)}</name></author>"
