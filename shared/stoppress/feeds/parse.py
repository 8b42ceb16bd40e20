"""Read the entries and deletions of a feed's document."""

import re
from collections.abc import Callable, Collection, Iterator, Mapping
from typing import Any
from urllib.parse import urlsplit

from stoppress.feeds import feed_documents, feed_media
from stoppress.feeds.counted_parser import parse_feed
from stoppress.feeds.feed_documents import SITEMAPS, Deletion, Document, Entry, FeedError, Reading, read_document
from stoppress.feeds.links import HERE, NOWHERE, page_of, web_url
from stoppress.model.site import Site
from stoppress.primitives import dates
from stoppress.primitives.text import clean_html

_HAS_BASE = re.compile(r"\bbase\s*=")

# The namespace of tombstones (RFC 6721).
_TOMBSTONES = "purl.org/atompub/tombstones/1.0"
# The limit for tombstones, because each becomes an event.
DELETIONS_MAX = 500


def read(document: Document, url: str, site: Site, take: Collection[str] = ()) -> Reading:
    """Return the entries of a feed in its order, or those of a sitemap, the newest first.

    `url` is the document's own, for relative links. `take` lists what to read besides page, title and dates (`Feed.take`).
    Raises FeedError for an unreadable document, and for a sitemap index: `children_of` returns its sitemaps.
    """
    if document.root == "sitemapindex":
        raise FeedError("an index of sitemaps stands where a sitemap or a feed should")
    if document.root in SITEMAPS:
        # Imported here, because most cold starts read no sitemap.
        from stoppress.feeds import old_sitemaps

        return old_sitemaps.read(document, url, site)
    parts = urlsplit(url)
    base = f"{parts.scheme}://{NOWHERE}{HERE}{parts.path or '/'}"
    # feedparser needs the URL as a base if a tag has an `xml:base`, which may be relative. Other feeds get no base: feedparser
    # would join URLs at each tag, a quarter of the parsing time. `web_url` makes their relative links absolute.
    has_base = "base" in document.text and _HAS_BASE.search(document.text)
    items, head, tombstones = parse_feed(document.text, base if has_base else "")
    # read_document limits items that have an end. feedparser also reads items without one, so the limit is applied again.
    entries = tuple(_entry(item, head, url, base, site, take) for item in items[: feed_documents.ENTRIES_MAX])
    return Reading(
        entries,
        tuple(_deletions(tombstones, site)) if _TOMBSTONES in document.text else (),
        incomplete=f"the feed is cut off after {len(entries)} complete entries" if document.cut_off else None,
        left_out=(f"{document.left_out} entries after the first {len(entries):,}",) if document.left_out else (),
    )


def children_of(body: bytes, headers: Mapping[str, str], url: str, site: Site) -> tuple[str, ...]:
    """Return the newest CHILDREN_MAX sitemaps of a sitemap index; nothing for any other body. Raises FeedError.

    Of other bodies only the start is searched.
    """
    if b"sitemapindex" not in body[: feed_documents.PROLOG_CHARACTERS_MAX].replace(b"\0", b""):
        return ()
    document = read_document(body, headers)
    if document.root != "sitemapindex":
        return ()
    from stoppress.feeds import old_sitemaps

    return old_sitemaps.children_of(document, url, site)


def _entry(entry: Any, head: dict[str, Any], url: str, base: str, site: Site, take: Collection[str]) -> Entry:
    def absolute(link: Any) -> str | None:
        return web_url(link, url) if isinstance(link, str) else None

    language = feed_media.language(entry, head)
    page = page_of(entry, url, language)
    readers: dict[str, Callable[[], Any]] = {
        "language": lambda: language,
        "keywords": lambda: feed_media.keywords(entry),
        "images": lambda: feed_media.images(entry, absolute),
        "videos": lambda: feed_media.videos(entry, absolute),
        "alternates": lambda: feed_media.alternates(entry, page, absolute),
    }
    # dict.get, because feedparser's own `get` returns "published" for "updated" and warns.
    published, created, updated, issued, offered = (
        dates.instant(dict.get(entry, key), site.zone)
        for key in ("published", "created", "updated", "prism_publicationdate", "g_publish_date")
    )
    # PRISM's date is that of a journal's issue, which appears after its articles. Google Base (in ROME's tests) has the lowest priority.
    first = published or created or updated or issued or offered
    return Entry(
        guid=_guid(entry.get("id", ""), base),
        url=page,
        # An episode of a podcast may have only `itunes:title`.
        title=clean_html(entry.get("title") or entry.get("itunes_title") or ""),
        published_at=first,
        # A date before publication is not a modification date. It may be that of the print edition, or of an event in
        # the story.
        updated_at=updated if updated and first and updated >= first else None,
        **{name: readers[name]() for name in take},
    )


def _guid(identity: str, base: str) -> str | None:
    """Return the guid as the feed spells it, perhaps a number or a sentence, without the base URL that feedparser adds."""
    for prefix in (base[: base.rindex("/") + 1], base[: base.index(NOWHERE) + len(NOWHERE)]):
        identity = identity.removeprefix(prefix)
    return clean_html(identity, limit=10_000) or None


def _deletions(tombstones: list[dict[str, str]], site: Site) -> Iterator[Deletion]:
    """Yield the tombstones of a feed. An entry that is merely missing counts as still published."""
    for tombstone in tombstones[:DELETIONS_MAX]:
        if guid := clean_html(tombstone.get("ref", ""), limit=10_000):
            yield Deletion(guid, dates.instant(tombstone.get("when"), site.zone))
