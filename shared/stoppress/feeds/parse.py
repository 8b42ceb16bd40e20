"""What a feed says: the entries and deletions of its document."""

import io
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any
from urllib.parse import urlsplit

import feedparser

from stoppress.feeds import documents, media
from stoppress.feeds.documents import SITEMAPS, Document, FeedError, read_document
from stoppress.feeds.entries import Deletion, Entry, Reading
from stoppress.feeds.links import HERE, NOWHERE, page_of, web_url
from stoppress.model.site import Site
from stoppress.primitives import dates
from stoppress.primitives.text import clean

# Where an entry has none of the dates that RSS and Atom know.
_OTHER_DATES = (
    *("news_publication_date", "publicationdate", "publishdate", "publish_date", "publisheddate", "datepublished"),
    *("g_publish_date", "dcterms_date", "dcterms_available"),
)

_HAS_BASE = re.compile(r"\bbase\s*=")

# RFC 6721. What stands inside entries, comments and CDATA is text about something else.
_TOMBSTONES = "purl.org/atompub/tombstones/1.0"
_DELETED_OR_INSIDE = re.compile(
    r"<(?:[\w.-]+:)?deleted-entry\s([^<>]*)>|<!--|<!\[CDATA\[|<(?:[\w.-]+:)?(?:entry|item)[\s>]"
)
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>"}
_ATTRIBUTE = re.compile(r"""\b(ref|when)\s*=\s*("[^"]*"|'[^']*')""")
# Each becomes an event, like an entry.
DELETIONS_MAX = 500


def read(document: Document, url: str, site: Site, take: Collection[str] = ()) -> Reading:
    """The entries of a feed in its order, or of a site's old sitemap, the newest first; one without any has none.

    `url` is where it came from, for relative links; `take` is what to take from a feed besides page and dates (`Feed.take`).
    Raises FeedError for what cannot be read, and for an index of sitemaps: its `children_of` are to be read.
    """
    if document.root == "sitemapindex":
        raise FeedError("an index of sitemaps stands where a sitemap or a feed should")
    if document.root in SITEMAPS:
        # Here, because a cold start that reads no sitemap should not pay for it.
        from stoppress.feeds import old_sitemaps

        return old_sitemaps.read(document, url, site)
    # What is never closed is no item to the document, and each is one to feedparser.
    entries = tuple(islice(_entries(document, url, site, take), documents.ENTRIES_MAX))
    if not entries and documents.has_items(document):
        raise FeedError("it has items, and none of them is one of RSS or Atom")
    return Reading(
        entries,
        tuple(_deletions(document.text, site)),
        incomplete=f"the feed is cut off after {len(entries)} complete entries" if document.cut_off else None,
        left_out=(f"{document.left_out} entries after the first {len(entries):,}",) if document.left_out else (),
    )


def children_of(body: bytes, headers: Mapping[str, str], url: str, site: Site) -> tuple[str, ...]:
    """The sitemaps that a body names if it is an index of such: the newest CHILDREN_MAX. Raises FeedError.

    Nothing for any other body, good or bad, and hardly any work.
    """
    if b"sitemapindex" not in body[: documents.PROLOG_CHARACTERS_MAX].replace(b"\0", b""):
        return ()
    document = read_document(body, headers)
    if document.root != "sitemapindex":
        return ()
    from stoppress.feeds import old_sitemaps

    return old_sitemaps.children_of(document, url, site)


def _entries(document: Document, url: str, site: Site, take: Collection[str]) -> Iterator[Entry]:
    """The entries of a feed's document. Raises FeedError."""
    base = (
        urlsplit(url)._replace(netloc=NOWHERE, path=HERE + (urlsplit(url).path or "/"), query="", fragment="").geturl()
    )
    headers = {"content-type": "application/xml; charset=utf-8"}
    # A tag that names a base may name a relative one. Without any, what is relative stays so, and is joined below:
    # feedparser joins URLs at every tag as soon as it has a base.
    if "base" in document.text and _HAS_BASE.search(document.text):
        headers["content-location"] = base
    try:
        # Bytes as a file: given as they are, feedparser would first take them for the name of one and open it.
        parsed = feedparser.parse(
            io.BytesIO(document.text.encode()),
            response_headers=headers,
            sanitize_html=False,
            resolve_relative_uris=False,
        )
    except Exception as error:  # feedparser promises no error, and has raised a dozen kinds on damaged input
        raise FeedError(f"feedparser gave up: {error!r:.200}") from error
    for found in parsed["entries"]:
        tongue = media.language(found, parsed["feed"])
        entry = _entry(found, url, base, site, tongue)
        yield _with_taken(entry, found, url, tongue, take) if take else entry


def _entry(entry: Any, url: str, base: str, site: Site, language: str | None) -> Entry:
    # dict.get, because feedparser's own answers "updated" with "published" and warns.
    published, created, issued, updated = (
        dates.instant(dict.get(entry, key), site.zone)
        for key in ("published", "created", "prism_publicationdate", "updated")
    )
    # PRISM dates the issue of a journal, which comes out after its articles.
    first = published or created or updated or issued
    if first is None:
        others = (dates.instant(dict.get(entry, key), site.zone) for key in _OTHER_DATES)
        first = next((instant for instant in others if instant), None)
    return Entry(
        guid=_guid(entry.get("id", ""), base),
        url=page_of(entry, url, language),
        # An episode of a podcast may have no other.
        title=clean(entry.get("title") or entry.get("itunes_title") or ""),
        published_at=first,
        # A change before publication is a date of something else (an event, the print edition).
        updated_at=updated if updated and first and updated >= first else None,
    )


def _with_taken(entry: Entry, found: Any, url: str, language: str | None, take: Collection[str]) -> Entry:
    """The entry with what its feed says besides, as far as the site wants it."""

    def absolute(link: Any) -> str | None:
        return web_url(link, url) if isinstance(link, str) else None

    return replace(
        entry,
        language=language if "language" in take else None,
        keywords=media.keywords(found) if "keywords" in take else (),
        images=media.images(found, absolute) if "images" in take else (),
        videos=media.videos(found, absolute) if "videos" in take else (),
        alternates=media.alternates(found, entry.url, absolute) if "alternates" in take else (),
    )


def _guid(identity: str, base: str) -> str | None:
    """The guid as the feed has it, which may be a number or a sentence: feedparser has resolved it like a link."""
    for prefix in (base[: base.rindex("/") + 1], base[: base.index(NOWHERE) + len(NOWHERE)]):
        identity = identity.removeprefix(prefix)
    return clean(identity, limit=10_000) or None


def _deletions(text: str, site: Site) -> Iterator[Deletion]:
    """The tombstones of a feed (RFC 6721), which say what is gone; nothing else does (R10.6)."""
    position, number = 0, 0
    while _TOMBSTONES in text and number < DELETIONS_MAX and (found := _DELETED_OR_INSIDE.search(text, position)):
        if found[1] is None:
            end = _ENDS.get(found[0]) or found[0][:-1].replace("<", "</", 1)
            position = text.find(end, found.end())
            if position < 0:
                return
            continue
        position = found.end()
        said = {name: value[1:-1] for name, value in _ATTRIBUTE.findall(found[1])}
        if guid := clean(said.get("ref", ""), limit=10_000):
            number += 1
            yield Deletion(guid, dates.instant(said.get("when"), site.zone))
