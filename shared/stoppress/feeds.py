"""What a feed says: `read` makes entries of bytes, `to_events` article events of entries."""

import hashlib
import io
import re
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import islice
from typing import Any
from urllib.parse import urljoin, urlsplit

import feedparser

from stoppress import feed_dates, feed_documents, feed_media
from stoppress.alternates import read_alternates
from stoppress.article import ID_BYTES_MAX, ArticleEvent
from stoppress.contract import DROPPED_SHOWN, KEYWORDS_MAX, MEDIA_BYTES_MAX
from stoppress.feed_documents import SITEMAPS, Document, FeedError, read_document
from stoppress.languages import language_code
from stoppress.media import read_images, read_videos
from stoppress.media_tags import fit
from stoppress.site import FEED_SOURCE, SITEMAP_SOURCE, Site
from stoppress.text import clean
from stoppress.urls import canonical, on_site

__all__ = [
    "Deletion",
    "Entry",
    "FeedError",
    "Judged",
    "Reading",
    "children_of",
    "joined",
    "judged",
    "read",
    "to_events",
]

# The host of relative links and guids while feedparser resolves them; no such host can exist (RFC 6761).
_NOWHERE = "feed.invalid"
_HAS_BASE = re.compile(r"\bbase\s*=")
_PROXY = re.compile(r"feeds\..+|feedproxy\..+|(?:.+\.)?(?:feedburner\.com|feedsportal\.com|pheedo\.com)")
# WordPress's short form redirects to the page, and a redirecting URL has no place in a sitemap (R2.16).
_SHORT_FORM = re.compile(r"(?:.*&)?p=\d+(?:&.*)?")

# RFC 6721. What stands inside entries, comments and CDATA is text about something else.
_TOMBSTONES = "purl.org/atompub/tombstones/1.0"
_DELETED_OR_INSIDE = re.compile(
    r"<(?:[\w.-]+:)?deleted-entry\s([^<>]*)>|<!--|<!\[CDATA\[|<(?:[\w.-]+:)?(?:entry|item)[\s>]"
)
_ENDS = {"<!--": "-->", "<![CDATA[": "]]>"}
_ATTRIBUTE = re.compile(r"""\b(ref|when)\s*=\s*("[^"]*"|'[^']*')""")
# Each becomes an event, like an entry.
DELETIONS_MAX = 500

# Of an index of sitemaps each child is a request: the newest, which are those that change.
CHILDREN_MAX = 10


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: `guid` as the feed has it, `url` absolute but not yet canonical, `title` plain text, dates in UTC.

    What comes besides is as a CMS would send it, and not yet judged. `source` is whose word it is: that of the feeds, or, of
    a page without title or date of publication, that of a sitemap.
    """

    guid: str | None
    url: str | None
    title: str
    published_at: datetime | None
    updated_at: datetime | None
    language: str | None = None
    keywords: tuple[str, ...] = ()
    images: tuple[dict[str, Any], ...] = ()
    videos: tuple[dict[str, Any], ...] = ()
    alternates: tuple[dict[str, Any], ...] = ()
    source: str = FEED_SOURCE


@dataclass(frozen=True, slots=True)
class Deletion:
    """An entry that its feed says is deleted: the guid that it had, and since when."""

    guid: str
    at: datetime | None


@dataclass(frozen=True, slots=True)
class Reading:
    """What a feed holds. `incomplete` says why it may be less than there is, `left_out` what was left out for its number."""

    entries: tuple[Entry, ...] = ()
    deleted: tuple[Deletion, ...] = ()
    incomplete: str | None = None
    left_out: tuple[str, ...] = ()


def read(document: Document, url: str, site: Site, take: Collection[str] = ()) -> Reading:
    """The entries of a feed in its order, or of a site's old sitemap, the newest first; one without any has none.

    `url` is where it came from, for relative links; `take` is what to take from a feed besides page and dates (`Feed.take`).
    Raises FeedError for what cannot be read, and for an index of sitemaps: its `children_of` are to be read.
    """
    if document.root == "sitemapindex":
        raise FeedError("an index of sitemaps stands where a sitemap or a feed should")
    if document.root in SITEMAPS:
        return _sitemap(document, url, site)
    # What is never closed is no item to the document, and each is one to feedparser.
    entries = tuple(islice(_entries(document, url, site, take), feed_documents.ENTRIES_MAX))
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
    if b"sitemapindex" not in body[: feed_documents.PROLOG_CHARACTERS_MAX].replace(b"\0", b""):
        return ()
    document = read_document(body, headers)
    if document.root != "sitemapindex":
        return ()
    from stoppress import feed_sitemaps as old

    named = (_web(old.text_of(node, "loc"), url) for node in old.listed(document, site, CHILDREN_MAX).nodes)
    return tuple(dict.fromkeys(child for child in named if child and child != url))


def joined(readings: Sequence[Reading], failures: Sequence[str]) -> Reading:
    """What the sitemaps of one index say together; `failures` are the reasons why others of them could not be read."""
    incomplete = [reading.incomplete for reading in readings if reading.incomplete]
    entries = [entry for reading in readings for entry in reading.entries]
    most = feed_documents.ENTRIES_MAX
    left_out = tuple(reason for reading in readings for reason in reading.left_out)
    if len(entries) > most:
        left_out += (f"{len(entries) - most} pages after the first {most:,}",)
    return Reading(
        tuple(entries[:most]),
        incomplete="; ".join([*failures, *incomplete]) or None,
        left_out=left_out,
    )


def _sitemap(document: Document, url: str, site: Site) -> Reading:
    # Here, because a cold start that reads no sitemap should not pay for it.
    from stoppress import feed_sitemaps as old

    most = feed_documents.ENTRIES_MAX
    found = old.listed(document, site, most)
    entries = []
    for node in found.nodes:
        title = clean(old.text_of(node, "news", "title"))
        published, updated = (
            old.instant_of(node, site, *path) for path in (("news", "publication_date"), ("lastmod",))
        )
        entries.append(
            Entry(
                guid=None,
                url=_web(old.text_of(node, "loc"), url),
                title=title,
                published_at=published,
                updated_at=updated if not published or (updated and updated >= published) else None,
                language=old.text_of(node, "news", "publication", "language"),
                keywords=old.keywords(node),
                images=old.images(node),
                videos=old.videos(node),
                alternates=old.alternates(node),
                source=FEED_SOURCE if title and published else SITEMAP_SOURCE,
            )
        )
    return Reading(
        tuple(entries),
        incomplete=f"the sitemap is damaged or cut off after {len(entries)} complete pages" if found.cut_off else None,
        left_out=(f"{found.left_out} pages beside the newest {most:,}",) if found.left_out else (),
    )


def _entries(document: Document, url: str, site: Site, take: Collection[str]) -> Iterator[Entry]:
    """The entries of a feed's document. Raises FeedError."""
    base = urlsplit(url)._replace(netloc=_NOWHERE, query="", fragment="").geturl()
    headers = {"content-type": "application/xml; charset=utf-8"}
    # A tag that names a base may name a relative one. Without any, what is relative stays so, and is joined below:
    # feedparser joins URLs at every tag as soon as it has a base.
    if _HAS_BASE.search(document.text):
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
        tongue = feed_media.language(found, parsed["feed"])
        entry = _entry(found, url, base, site, tongue)
        yield _with_taken(entry, found, url, tongue, take) if take else entry


def _entry(entry: Any, url: str, base: str, site: Site, language: str | None) -> Entry:
    # dict.get, because feedparser's own answers "updated" with "published" and warns.
    published, created, issued, updated = (
        feed_dates.instant(dict.get(entry, key), site.zone)
        for key in ("published", "created", "prism_publicationdate", "updated")
    )
    # PRISM dates the issue of a journal, which comes out after its articles.
    first = published or created or updated or issued
    return Entry(
        guid=_guid(entry.get("id", ""), base),
        url=_link(entry, url, language),
        title=clean(entry.get("title") or ""),
        published_at=first,
        # A change before publication is a date of something else (an event, the print edition).
        updated_at=updated if updated and first and updated >= first else None,
    )


def _with_taken(entry: Entry, found: Any, url: str, language: str | None, take: Collection[str]) -> Entry:
    """The entry with what its feed says besides, as far as the site wants it."""

    def absolute(link: Any) -> str | None:
        return _web(link, url) if isinstance(link, str) else None

    return replace(
        entry,
        language=language if "language" in take else None,
        keywords=feed_media.keywords(found) if "keywords" in take else (),
        images=feed_media.images(found, absolute) if "images" in take else (),
        videos=feed_media.videos(found, absolute) if "videos" in take else (),
        alternates=feed_media.alternates(found, entry.url, absolute) if "alternates" in take else (),
    )


def _guid(identity: str, base: str) -> str | None:
    """The guid as the feed has it, which may be a number or a sentence: feedparser has resolved it like a link."""
    for prefix in (base[: base.rindex("/") + 1], base[: base.index(_NOWHERE) + len(_NOWHERE)]):
        identity = identity.removeprefix(prefix)
    return clean(identity, limit=10_000) or None


def _link(entry: Any, url: str, language: str | None) -> str | None:
    """The page of an entry: the original behind a proxy, else the alternate that is a web page, else the permalink."""
    pages = sorted(feed_media.pages_of(entry), key=lambda link: _is_translation(link.get("hreflang"), language))
    # What is left as the entry's link, without an alternate, is its guid: "77" would lead nowhere, however it is declared.
    links = (entry.get("feedburner_origlink"), *(page.get("href") for page in pages))
    link = next((page for found in links if (page := _web(found, url))), None) or _absolute(entry.get("link"), url)
    if not link or not _is_proxy(link):
        return link
    guid = _absolute(entry.get("id"), url)
    return guid if guid and not _is_proxy(guid) and not _SHORT_FORM.fullmatch(urlsplit(guid).query) else link


def _is_translation(hreflang: str | None, language: str | None) -> bool:
    """Whether an alternate is of another language than the entry's own."""
    return bool(hreflang and language) and str(hreflang)[:2].lower() != str(language)[:2].lower()


def _absolute(link: str | None, url: str) -> str | None:
    """The link if it names its own host, maybe under the scheme of the feed; None for others."""
    page = _web(f"{urlsplit(url).scheme}:{link}" if link and link.startswith("//") else link, "")
    return page if page and urlsplit(page).hostname else None


def _web(link: str | None, url: str) -> str | None:
    """The link as an absolute http(s) URL, None for what is none; one that was relative leads to the feed's own host."""
    if not link or not link.strip():
        return None
    try:
        page = urljoin(url, link.strip())
        parts = urlsplit(page)
    except ValueError:
        return None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        return None
    return parts._replace(netloc=urlsplit(url).netloc).geturl() if parts.netloc == _NOWHERE else page


def _is_proxy(url: str) -> bool:
    return _PROXY.fullmatch(urlsplit(url).hostname or "") is not None


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
            yield Deletion(guid, feed_dates.instant(said.get("when"), site.zone))


@dataclass(frozen=True, slots=True)
class Judged:
    """What becomes of an entry: an event, or nothing for a reason. `url` is canonical, None where there is no good one."""

    entry: Entry
    id: str | None
    url: str | None
    event: ArticleEvent | None
    reason: str = ""


def judged(reading: Reading, site: Site, now: datetime) -> list[Judged]:
    """What becomes of each entry of a feed, in its order.

    Identity is the guid, else the URL; a guid that several URLs share identifies none of them. Of two entries with one
    identity the newer is kept, of equals the first, since feeds have the newest on top. A tombstone that is newer than
    its entry, or whose entry has no date, is believed (RFC 6721, 3).
    """
    verdicts = [_placed(entry, site) for entry in reading.entries]
    pages_of: dict[str, set[str]] = {}
    for verdict in verdicts:
        if verdict.entry.guid and verdict.url:
            pages_of.setdefault(verdict.entry.guid, set()).add(verdict.url)
    deleted_at = {_bounded(deletion.guid): deletion.at for deletion in reading.deleted}
    newest: dict[str, int] = {}
    for number, (entry, url) in enumerate((verdict.entry, verdict.url) for verdict in verdicts):
        if url is None:
            continue
        identity = _bounded(entry.guid if entry.guid and len(pages_of[entry.guid]) == 1 else url)
        event = _event(entry, identity, url, site, now)
        gone_at = deleted_at.get(identity) if entry.source == FEED_SOURCE else None
        if gone_at and _version(event) <= min(gone_at, now).timestamp():
            verdicts[number] = Judged(entry, identity, url, None, "its feed says that it is deleted")
            continue
        verdicts[number] = Judged(entry, identity, url, event)
        before = newest.setdefault(event.name, number)
        if before == number:
            continue
        newest[event.name], older = (number, before) if _is_newer(event, verdicts[before].event) else (before, number)
        verdicts[older] = replace(verdicts[older], event=None, reason="another entry of the same id counts")
    return verdicts


def _placed(entry: Entry, site: Site) -> Judged:
    """The entry with its page, or with the reason why it has none."""
    identity = _bounded(entry.guid) if entry.guid else None
    if entry.url is None:
        return Judged(entry, identity, None, None, "it has no http or https link")
    try:
        return Judged(entry, identity, on_site(canonical(entry.url), site.host), None)
    except ValueError as error:
        return Judged(entry, identity, None, None, str(error))


def _is_newer(event: ArticleEvent, other: ArticleEvent | None) -> bool:
    return other is None or _version(event) > _version(other)


def to_events(reading: Reading, site: Site, now: datetime) -> tuple[list[ArticleEvent], list[str]]:
    """What a feed says, as article events (entries, then tombstones), and why some entries say nothing."""
    verdicts = judged(reading, site, now)
    events = [verdict.event for verdict in verdicts if verdict.event]
    there = {event.id for event in events}
    gone = {
        identity: ArticleEvent(
            site=site.host,
            source=FEED_SOURCE,
            id=identity,
            action="remove",
            timestamp=now,
            version=min(deletion.at, now) if deletion.at else None,
        )
        for deletion in reading.deleted
        if (identity := _bounded(deletion.guid)) not in there
    }
    skipped = [
        f"entry {(verdict.entry.guid or verdict.entry.title)[:80]!r}: {verdict.reason}"
        for verdict in verdicts
        if verdict.url is None
    ]
    return [*events, *gone.values()], skipped + list(reading.left_out)


def _event(entry: Entry, identity: str, url: str, site: Site, now: datetime) -> ArticleEvent:
    version = entry.updated_at or entry.published_at
    images, bad_images = read_images(list(entry.images), url)
    videos, bad_videos = read_videos(list(entry.videos), url, url)
    alternates, bad_alternates = read_alternates(list(entry.alternates), url)
    images, videos, alternates, too_much = fit(images, videos, alternates, MEDIA_BYTES_MAX)
    dropped = (clean(reason) for reason in (*bad_images, *bad_videos, *bad_alternates, *too_much))
    return ArticleEvent(
        site=site.host,
        source=entry.source,
        id=identity,
        action="publish",
        timestamp=now,
        # A version in the future would make every correction of it look older.
        version=min(version, now) if version else None,
        url=url,
        title=entry.title,
        published_at=entry.published_at,
        updated_at=entry.updated_at,
        language=language_code(entry.language) if entry.language else None,
        keywords=entry.keywords[:KEYWORDS_MAX],
        images=images,
        videos=videos,
        alternates=alternates,
        dropped=tuple(dropped)[:DROPPED_SHOWN],
    )


def _version(event: ArticleEvent) -> float:
    return event.version.timestamp() if isinstance(event.version, datetime) else 0.0


def _bounded(identity: str) -> str:
    encoded = identity.encode()
    return identity if len(encoded) <= ID_BYTES_MAX else f"sha256:{hashlib.sha256(encoded).hexdigest()}"
