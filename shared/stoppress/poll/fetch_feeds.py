"""Fetch a feed: one answer. If it is a sitemap index, also fetch the sitemaps that it lists."""

import hashlib
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from http import HTTPStatus

from stoppress.feeds import feed_documents, parse
from stoppress.feeds.feed_documents import Document, FeedError, Reading, read_document
from stoppress.http import client
from stoppress.http.errors import FetchError, TooLarge
from stoppress.model.site import Site

# The time for all sitemaps of an index together. Any sitemap not fetched by then counts as failed until the next poll.
CHILDREN_SECONDS_MAX = 15.0
# `bucket.write` sets this header on Stoppress's files. The documented CDN and web server configurations pass it on.
_OWN_HEADER = "x-amz-meta-config"


@dataclass(frozen=True)
class Fetched:
    """The answer at a feed's URL. For a sitemap index, also the good answers of its sitemaps, and why others failed."""

    answer: client.Response
    children: tuple[client.Response, ...] = ()
    failures: tuple[str, ...] = ()

    @property
    def is_index(self) -> bool:
        """Return True if the feed is a sitemap index. Its validators do not cover the answers of its sitemaps."""
        return bool(self.children or self.failures)

    @property
    def body_digest(self) -> str:
        """Return a digest of all bodies."""
        digest = hashlib.sha256(self.answer.body)
        for child in self.children:
            digest.update(hashlib.sha256(child.body).digest())
        return digest.hexdigest()[:32]

    @property
    def size_bytes(self) -> int:
        """Return the size of all bodies."""
        return sum(len(answer.body) for answer in (self.answer, *self.children))


def fetch(url: str, headers: Mapping[str, str], site: Site) -> Fetched:
    """GET a feed, and the sitemaps of an index. Raises FetchError, and FeedError for an unreadable index or our own file."""
    deadline = time.monotonic() + CHILDREN_SECONDS_MAX
    answer = client.fetch(url, headers)
    if _is_own(answer, site):
        raise FeedError("Stoppress writes this file itself: take it out of the site's feeds")
    fetched = Fetched(answer)
    if answer.status != HTTPStatus.OK:
        return fetched
    child_headers = {name: value for name, value in headers.items() if name == "User-Agent"}
    for child_url in parse.children_of(answer.body, answer.headers, answer.url, site):
        try:
            child = _fetch_child(child_url, child_headers, deadline, fetched, site)
            fetched = replace(fetched, children=(*fetched.children, child))
        except FetchError as error:
            fetched = replace(fetched, failures=(*fetched.failures, f"{child_url}: {error}"))
    return fetched


def _is_own(answer: client.Response, site: Site) -> bool:
    """Return True if Stoppress wrote this file. If a site polled its own sitemaps as feeds, no story could ever be removed."""
    if _OWN_HEADER in answer.headers:
        return True
    if answer.status != HTTPStatus.OK or "sitemap" not in answer.url:
        return False
    # Imported here, because most feeds are no sitemaps and the import would slow every cold start.
    from stoppress.sitemaps.fold import is_own_file

    return is_own_file(answer.url, answer.body, site)


def _fetch_child(
    url: str, headers: Mapping[str, str], deadline: float, fetched: Fetched, site: Site
) -> client.Response:
    """GET a sitemap of an index. Raises FetchError for anything but a good answer within the limits of the index."""
    if time.monotonic() >= deadline:
        raise FetchError("there was no time left for it")
    answer = client.fetch(url, headers)
    if answer.status != HTTPStatus.OK:
        raise FetchError(f"the server answered {answer.status}")
    if _is_own(answer, site):
        raise FetchError("Stoppress writes this file itself")
    children_bytes = fetched.size_bytes - len(fetched.answer.body)
    if children_bytes + len(answer.body) > client.BODY_BYTES_MAX:
        raise TooLarge(f"with it, the sitemaps of the index are larger than {client.BODY_BYTES_MAX:,} bytes")
    return answer


def read(fetched: Fetched, site: Site, take: Sequence[str]) -> tuple[Document, Reading]:
    """Return the document of a good answer, and its entries. Raises FeedError if nothing is readable.

    `take` lists what else to read from an entry, as in the site's `feeds`: images, videos, …
    """
    document = read_document(fetched.answer.body, fetched.answer.headers)
    if not fetched.is_index:
        return document, parse.read(document, fetched.answer.url, site, take)
    readings, failures = [], list(fetched.failures)
    for child in fetched.children:
        try:
            readings.append(parse.read(read_document(child.body, child.headers), child.url, site, take))
        except FeedError as error:
            failures.append(f"{child.url}: {error}")
    if not readings:
        raise FeedError("; ".join(failures))
    failures += [reading.incomplete for reading in readings if reading.incomplete]
    entries = tuple(entry for reading in readings for entry in reading.entries)
    left_out = tuple(reason for reading in readings for reason in reading.left_out)
    if (over := len(entries) - (most := feed_documents.ENTRIES_MAX)) > 0:
        left_out += (f"{over} pages after the first {most:,}",)
    return document, Reading(entries[:most], incomplete="; ".join(failures) or None, left_out=left_out)
