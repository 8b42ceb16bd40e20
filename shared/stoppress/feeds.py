"""What a feed says: `parse_feed` makes entries of bytes, `to_events` article events of entries."""

import hashlib
import io
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any
from urllib.parse import urljoin, urlsplit

import feedparser

from stoppress import feed_dates
from stoppress.article import ID_BYTES_MAX, ArticleEvent
from stoppress.feed_documents import Document, FeedError, read_document
from stoppress.site import FEED_SOURCE, Site
from stoppress.text import clean
from stoppress.urls import canonical, on_site

__all__ = ["Entry", "FeedError", "parse_feed", "to_events"]

# The host of relative links and guids while feedparser resolves them; no such host can exist (RFC 6761).
_NOWHERE = "feed.invalid"
_PAGES = {"text/html", "application/xhtml+xml"}
_PROXY = re.compile(r"feeds\..+|feedproxy\..+|(?:.+\.)?(?:feedburner\.com|feedsportal\.com|pheedo\.com)")
# WordPress's short form redirects to the page, and a redirecting URL has no place in a sitemap (R2.16).
_SHORT_FORM = re.compile(r"(?:.*&)?p=\d+(?:&.*)?")


@dataclass(frozen=True, slots=True)
class Entry:
    """One entry: `guid` as the feed has it, `url` absolute but not yet canonical, `title` plain text, dates in UTC."""

    guid: str | None
    url: str | None
    title: str
    published_at: datetime | None
    updated_at: datetime | None


def parse_feed(body: bytes, headers: Mapping[str, str], url: str, site: Site) -> list[Entry]:
    """The entries of a feed in its order; a feed without any is an empty list.

    `headers` are the response's, names in small letters; `url` is where the body came from, for relative links.
    Raises FeedError for what is no feed, and for one that is cut off before its first entry is complete.
    """
    return entries_of(read_document(body, headers), url, site)


def entries_of(document: Document, url: str, site: Site) -> list[Entry]:
    """The entries of a document. Raises FeedError."""
    base = urlsplit(url)._replace(netloc=_NOWHERE, query="", fragment="").geturl()
    try:
        # Bytes as a file: given as they are, feedparser would first take them for the name of one and open it.
        parsed = feedparser.parse(
            io.BytesIO(document.text.encode()),
            response_headers={"content-type": "application/xml; charset=utf-8", "content-location": base},
            sanitize_html=False,
            resolve_relative_uris=False,
        )
    except Exception as error:  # feedparser promises no error, and has raised a dozen kinds on damaged input
        raise FeedError(f"feedparser gave up: {error!r:.200}") from error
    return [_entry(entry, url, base, site) for entry in parsed["entries"]]


def _entry(entry: Any, url: str, base: str, site: Site) -> Entry:
    # dict.get, because feedparser's own answers "updated" with "published" and warns.
    published, updated, created = (
        feed_dates.instant(dict.get(entry, key), site.zone) for key in ("published", "updated", "created")
    )
    first = published or created or updated
    return Entry(
        guid=_guid(entry.get("id", ""), base),
        url=_link(entry, url),
        title=clean(entry.get("title", "")),
        published_at=first,
        # A change before publication is a date of something else (an event, the print edition).
        updated_at=updated if updated and first and updated >= first else None,
    )


def _guid(identity: str, base: str) -> str | None:
    """The guid as the feed has it, which may be a number or a sentence: feedparser has resolved it like a link."""
    for prefix in (base[: base.rindex("/") + 1], base[: base.index(_NOWHERE) + len(_NOWHERE)]):
        identity = identity.removeprefix(prefix)
    return clean(identity, limit=10_000) or None


def _link(entry: Any, url: str) -> str | None:
    """The page of an entry: the original behind a proxy, else the alternate that is a web page, else the permalink."""
    alternates = [
        link.get("href")
        for link in entry.get("links", ())
        if link.get("rel") == "alternate" and link.get("type", "text/html") in _PAGES
    ]
    # What is left as the entry's link, without an alternate, is its guid: "77" would lead nowhere, however it is declared.
    permalink, guid = _absolute(entry.get("link")), _absolute(entry.get("id"))
    found = (_web(link, url) for link in (entry.get("feedburner_origlink"), *alternates, permalink))
    link = next((page for page in found if page), None)
    if link and guid and _is_proxy(link) and not _is_proxy(guid) and not _SHORT_FORM.fullmatch(urlsplit(guid).query):
        return guid
    return link


def _absolute(link: str | None) -> str | None:
    page = _web(link, "")
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


def to_events(entries: Sequence[Entry], site: Site, now: datetime) -> tuple[list[ArticleEvent], list[str]]:
    """What a feed's entries say, as events of the source `feed`, and why some entries say nothing.

    Identity is the guid, else the URL; a guid that several URLs share identifies none of them. Of two entries with one
    identity the newer is kept, of equals the first, since feeds have the newest on top.
    """
    skipped: list[str] = []
    found: list[tuple[Entry, str]] = []
    pages_of: dict[str, set[str]] = {}
    for entry in entries:
        try:
            url = _canonical(entry, site)
        except ValueError as error:
            skipped.append(f"entry {(entry.guid or entry.title)[:80]!r}: {error}")
            continue
        found.append((entry, url))
        pages_of.setdefault(entry.guid or url, set()).add(url)

    events: dict[str, ArticleEvent] = {}
    for entry, url in found:
        identity = entry.guid if entry.guid and len(pages_of[entry.guid]) == 1 else url
        event = _event(entry, _bounded(identity), url, site, now)
        known = events.get(event.id)
        if known is None or _version(event) > _version(known):
            events[event.id] = event
    return list(events.values()), skipped


def _canonical(entry: Entry, site: Site) -> str:
    if entry.url is None:
        raise ValueError("it has no http or https link")
    return on_site(canonical(entry.url), site.host)


def _event(entry: Entry, identity: str, url: str, site: Site, now: datetime) -> ArticleEvent:
    version = entry.updated_at or entry.published_at
    return ArticleEvent(
        site=site.host,
        source=FEED_SOURCE,
        id=identity,
        action="publish",
        timestamp=now,
        # A version in the future would make every correction of it look older.
        version=min(version, now) if version else None,
        url=url,
        title=entry.title,
        published_at=entry.published_at,
        updated_at=entry.updated_at,
    )


def _version(event: ArticleEvent) -> float:
    return event.version.timestamp() if isinstance(event.version, datetime) else 0.0


def _bounded(identity: str) -> str:
    encoded = identity.encode()
    return identity if len(encoded) <= ID_BYTES_MAX else f"sha256:{hashlib.sha256(encoded).hexdigest()}"
