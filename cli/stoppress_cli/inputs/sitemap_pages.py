"""The pages of a sitemap, or of all sitemaps that an index or a robots.txt lists, as a listing.

A sitemap rarely has the date of publication, so its pages have the source `sitemap` and never get a news entry. A part that
cannot be read becomes a problem; the rest is listed.
"""

import json
import re
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from hashlib import blake2b
from itertools import islice
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from stoppress.audit.pages import Unavailable, fetch_with_retries
from stoppress.cms.listing import marked
from stoppress.feeds import feed_documents, parse
from stoppress.feeds.events import judged
from stoppress.feeds.feed_documents import SITEMAPS, Entry, FeedError, Reading
from stoppress.feeds.links import web_url
from stoppress.feeds.old_sitemaps import entry_of, new_tree, text_of
from stoppress.http import client
from stoppress.model.event import Listed, ListingError, Page, Problem, StaleCheckpoint
from stoppress.model.file_names import BYTES_MAX
from stoppress.model.news_window import window_start
from stoppress.model.site import SITEMAP_SOURCE, Site
from stoppress.primitives.xml import Broken
from stoppress_cli.check.input import Source, read_text
from stoppress_cli.check.robots_rules import is_robots

# Prefix of an import's delivery ids.
BY_IMPORT = "import"
# The pages that are read before they are sent. A killed import sends at most this many again.
PAGE_ITEMS = 100
# Longer than for a feed, because a sitemap may have 50 MiB.
FETCH_SECONDS_MAX = 120.0
# A robots.txt, an index and a sitemap are three levels. sitemaps.org forbids an index in an index, but some sites have one.
LEVELS_MAX = 5
SITEMAPS_MAX = 1_000_000
_PIECE_CHARACTERS = 65_536
# Faults after which the rest of a file is missing.
_LOSSES = {"zip", "gzip-damaged", "too-large"}
# Dates in a path: /2019/03/07/, /2019-03-07-title; and months: /2019/03/.
_DAY = re.compile(r"/(19[89]\d|20\d\d)([/-])(\d\d?)\2(\d\d?)(?=[/_.-]|$)")
_MONTH = re.compile(r"/(19[89]\d|20\d\d)([/-])(\d\d?)/")
_SITEMAP_LINE = re.compile(r"\s*sitemap\s*:\s*(\S+)", re.IGNORECASE)


# How far a file was read: the number of its pages or sitemaps so far, and a digest of their URLs.
_Level = tuple[int, str]
# A page or a problem, and how far the files from the first to its own are read.
_Reached = tuple[Listed | Problem, list[_Level]]


@dataclass(frozen=True, slots=True)
class _Link:
    """A page that a file lists, or without an entry a sitemap."""

    place: str
    url: str | None
    entry: Entry | None = None


class _Changed(Exception):
    """The beginning of a file has changed since the checkpoint was written."""


@dataclass
class Sitemaps:
    """The pages of the sitemap, index or robots.txt at `target`: a URL or the path of a file."""

    target: str
    site: Site
    _seen: set[bytes] = field(default_factory=set)

    def pages(self, cursor: str | None = None) -> Iterator[Page]:
        """Yield the pages from the cursor on, or all. Raises ListingError for a bad cursor, or if `target` itself cannot be read."""
        try:
            levels = [(int(done), str(digest)) for done, digest in json.loads(cursor)] if cursor else []
        except (ValueError, TypeError) as error:
            raise StaleCheckpoint(f"the checkpoint is damaged: delete it to start again ({error})") from None
        yield from collect_pages(self._walk(self.target, levels, 1))
        yield Page()

    def _walk(self, target: str, resumed: list[_Level], depth: int) -> Iterator[_Reached]:
        """Yield the pages of a file and of the sitemaps that it lists, without those that an earlier run read."""
        self._seen.add(_digest(target))
        try:
            try:
                yield from self._read(target, resumed, depth)
            except _Changed:
                yield from self._read(target, [], depth)
        except FeedError as error:
            if depth == 1:
                raise ListingError(f"{target}: {error}") from None
            yield Problem(target, str(error)), []

    def _read(self, target: str, resumed: list[_Level], depth: int) -> Iterator[_Reached]:
        """Yield the same as `_walk`. Raises _Changed if the earlier run read other URLs, and FeedError."""
        problems: list[Problem] = []
        read, *below = resumed or [(0, "")]
        level = read
        text, url, asked_at = self._open(target, problems)
        for before, link, level in self._unread(self._links(text, target, url, problems), read):
            if link.entry is not None:
                yield page_of(link.entry, link.place, self.site, asked_at), [level]
            elif reason := self._refuse(link.url, depth):
                yield Problem(link.place, reason), [level]
            else:
                for item, levels in self._walk(str(link.url), below, depth + 1):
                    yield item, [before, *levels]
            below = []
        yield from ((problem, [level]) for problem in problems)

    def _unread(self, links: Iterator[_Link], resumed: _Level) -> Iterator[tuple[_Level, _Link, _Level]]:
        """Yield the links that an earlier run did not read, each with the progress before and after it. Raises _Changed."""
        done, digest = resumed
        running = blake2b(digest_size=16)
        skipped: list[bytes] = []
        after: _Level = 0, running.hexdigest()
        for link in links:
            before = after
            running.update(f"{link.url}\n".encode(errors="replace"))
            after = before[0] + 1, running.hexdigest()
            if after[0] > done:
                self._seen.update(skipped)
                skipped.clear()
                yield before, link, after
                continue
            if link.entry is None and link.url:
                skipped.append(_digest(link.url))
            if after[0] == done and after[1] != digest:
                raise _Changed
        if after[0] < done:
            raise _Changed

    def _refuse(self, url: str | None, depth: int) -> str:
        """Return why a sitemap is not read; empty if it is."""
        if url is None:
            return "contains no http or https URL"
        if _digest(url) in self._seen:
            return f"{url} was read before"
        if depth == LEVELS_MAX:
            return f"{url} is an index in an index, {LEVELS_MAX} deep: import it by itself"
        is_over = len(self._seen) >= SITEMAPS_MAX
        return f"{SITEMAPS_MAX:,} sitemaps are the limit: import the others by themselves" if is_over else ""

    def _open(self, target: str, problems: list[Problem]) -> tuple[str, str, datetime]:
        """Return the text of a file, its URL, and the instant of the listing: a file's last change, or now. Raises FeedError."""

        def note(name: str, line: int | None, message: str) -> None:
            if name in _LOSSES:
                problems.append(Problem(target, message))

        url, asked_at = self.site.home, datetime.now(UTC)
        content: bytes | Path = Path(target)
        try:
            if is_url(target):
                headers = {"User-Agent": client.user_agent(self.site.home)}
                response = fetch_with_retries(target, headers, bytes_max=BYTES_MAX, seconds_max=FETCH_SECONDS_MAX)
                if response.status != 200:
                    raise FeedError(f"the server answers {response.status}: give a URL that answers 200")
                url, content = response.url, response.body
            else:
                asked_at = min(asked_at, datetime.fromtimestamp(Path(target).stat().st_mtime, UTC))
            with Source(target, url, content).open() as file:
                return "".join(read_text(file, note).pieces()), url, asked_at
        except Unavailable as error:
            raise FeedError(str(error)) from None
        except OSError as error:
            raise FeedError(f"cannot be read: {error.strerror or error}") from None

    def _links(self, text: str, target: str, url: str, problems: list[Problem]) -> Iterator[_Link]:
        """Yield the pages or sitemaps that a file lists. A fault that ends the reading becomes a problem. Raises FeedError."""
        if not text.lstrip().startswith("<"):
            yield from _in_lines(text, target)
            return
        if feed_documents.is_feed(text):  # sitemaps.org allows feeds as sitemaps
            reading = parse.read(feed_documents.read_document(text.encode(), {}), url, self.site)
            yield from (_Link(f"{target}, entry {n}", entry.url, entry) for n, entry in enumerate(reading.entries, 1))
            problems += [Problem(target, reason) for reason in (reading.incomplete, *reading.left_out) if reason]
            return
        tree, broken = new_tree(), ""
        text = feed_documents.with_references(text)
        pieces = (text[start : start + _PIECE_CHARACTERS] for start in range(0, len(text), _PIECE_CHARACTERS))
        try:
            for number, node in enumerate(tree.entries(pieces), 1):
                if tree.root is None or tree.root.name not in SITEMAPS:
                    break
                entry = entry_of(node, url, self.site) if tree.root.name != "sitemapindex" else None
                yield _Link(f"{target}, <{node.name}> {number}", web_url(text_of(node, "loc"), url), entry)
        except Broken as error:
            broken = f"cannot be read after line {error.line}: {error.message}"
            problems.append(Problem(f"{target}, line {error.line}", broken))
        if tree.root is None or tree.root.name not in SITEMAPS:
            raise FeedError(f"is no sitemap: {broken or f'its first element is <{tree.root and tree.root.name[:40]}>'}")


def collect_pages(items: Iterator[tuple[Listed | Problem, Any]], total: int | None = None) -> Iterator[Page]:
    """Join items to pages. The cursor of a page is the second part of its last pair, as JSON."""
    while batch := list(islice(items, PAGE_ITEMS)):
        listed = tuple(item for item, _ in batch if isinstance(item, Listed))
        problems = tuple(item for item, _ in batch if isinstance(item, Problem))
        yield Page(listed, problems, cursor=json.dumps(batch[-1][1]), total=total)


def page_of(entry: Entry, place: str, site: Site, asked_at: datetime) -> Listed | Problem:
    """Return a page that is known only from a sitemap, as an event. Its id is its URL. Its date only decides which shard lists it."""
    changed_at = entry.updated_at or entry.published_at
    dates = (entry.published_at, *_dates_in(entry.url or ""), changed_at)
    # A later date could put the page, or an article of the CMS that takes it over, into the news.
    latest = window_start(datetime.now(UTC))
    date = next((date for date in dates if date and date <= latest), None)
    plain = replace(entry, guid=None, source=SITEMAP_SOURCE, published_at=date, updated_at=changed_at)
    [verdict] = judged(Reading((plain,)), site, asked_at, feed="")
    if verdict.event is None:
        return Problem(place, verdict.reason)
    return Listed(place, marked(replace(verdict.event, news=False), asked_at, BY_IMPORT))


def is_url(target: str) -> bool:
    return target.lower().startswith(("http://", "https://"))


def _in_lines(text: str, target: str) -> Iterator[_Link]:
    """Yield the sitemaps of a robots.txt, or the pages of a sitemap that has a URL on each line. Raises FeedError."""
    lines = text.split("\n")
    robots = is_robots(text)
    if not robots and not any(is_url(line.lstrip()) for line in lines):
        raise FeedError("is neither a sitemap nor an index nor a robots.txt")
    for number, line in enumerate(lines, 1):
        place = f"{target}, line {number}"
        if robots:
            if field_ := _SITEMAP_LINE.match(line):
                yield _Link(place, web_url(field_[1], ""))
        elif line.strip():
            url = web_url(line, "")
            yield _Link(place, url, Entry(None, url, "", None, None))


def _digest(url: str) -> bytes:
    return blake2b(url.encode(errors="replace"), digest_size=16).digest()


def _dates_in(url: str) -> Iterator[datetime]:
    """Yield the dates in the path of a URL. A month alone is its first day.

    Each date is at noon UTC, so that it is the same day in almost every time zone.
    """
    path = urlsplit(url).path
    for match in filter(None, (_DAY.search(path), _MONTH.search(path))):
        with suppress(ValueError):  # 31 April
            yield datetime(int(match[1]), int(match[3]), int(match[4]) if match.re is _DAY else 1, 12, tzinfo=UTC)
