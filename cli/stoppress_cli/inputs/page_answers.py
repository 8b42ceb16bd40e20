"""The pages that a host's sitemaps list: all of the news sitemaps and a sample of the others, with the server's answers."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from typing import TypeVar
from urllib.parse import urljoin, urlsplit

from stoppress.feeds import feed_documents, old_sitemaps
from stoppress.feeds.feed_documents import Entry, FeedError
from stoppress.http import client
from stoppress.http.errors import FetchError
from stoppress.model.file_names import BYTES_MAX, INDEX_ENTRIES_MAX, INDEX_FILE, is_news
from stoppress.notify.fetch_page import check_pages
from stoppress.notify.page_readiness import PageVerdict, title_of
from stoppress.primitives.instants import Deadline
from stoppress.primitives.urls import host_of
from stoppress_cli.inputs.served import BROWSER, READERS, Answer, Served, is_page

# The sample: the newest, the oldest and a middle sitemap beside the news sitemaps, and this many pages of each.
SHARDS_MAX = 3
SHARD_PAGES_MAX = 10
# Pages that each reader requests, to compare the answers.
COMPARED_PAGES_MAX = 5
PAGES_SECONDS_MAX = 1_200.0
# No further pages are requested after this many pages in a row without an answer.
FAILURES_MAX = 10
# Pages differ in advertisements and identifiers, so only a much smaller one counts as another page.
_SMALL_PART = 0.5
# From this number of pages on, one title on most of them is a sign that the server answers all with one page.
_SAME_TITLES_MIN = 3
_T = TypeVar("_T")


@dataclass(frozen=True)
class PageState:
    """The server's answer for a listed page. `indexable` is yes, no or `not checked`; `kind` is that of PageVerdict."""

    url: str
    sitemap: str
    status: int | None
    indexable: str
    reason: str
    kind: str


@dataclass
class ListedPages:
    """The listed pages of a host. `titles` has the titles of the requested pages."""

    served: Served
    titles: dict[str, str] = field(default_factory=dict)
    _sitemaps: dict[str, str] = field(default_factory=dict)
    _statuses: dict[str, int | None] = field(default_factory=dict)
    _failures: int = 0

    @cached_property
    def dates(self) -> dict[str, datetime | None]:
        """Return the pages, those of the news sitemaps first, with their dates of publication."""
        pages: dict[str, datetime | None] = {}
        for answer, most in self._sitemap_answers():
            for entry in _spread(self._entries_of(answer), most):
                if entry.url and host_of(entry.url) == self.served.host:
                    pages.setdefault(entry.url, entry.published_at)
                    self._sitemaps.setdefault(entry.url, urlsplit(answer.url).path.lstrip("/"))
        return pages

    @cached_property
    def states(self) -> list[PageState]:
        """Return the states of all pages, in their order."""
        end = time.monotonic() + PAGES_SECONDS_MAX
        deadline = Deadline(lambda: (end - time.monotonic()) * 1_000)
        verdicts = check_pages(self.dates, deadline, self._request)
        return [self._state(url, verdicts[url]) for url in self.dates]

    def differences(self) -> Iterator[str]:
        """Describe differences between the readers' answers for files, home page and some pages. Raises FetchError without any answer."""
        files = [self.served.url(name) for name in ("robots.txt", *self.served.named)]
        pages = list(self.dates)
        sample = _spread(pages, COMPARED_PAGES_MAX)
        errors = []
        for url in (*files, self.served.url(""), *sample):
            answers = {reader: self.served.answer(url, reader) for reader in READERS}
            errors += [answer for answer in answers.values() if isinstance(answer, FetchError)]
            if text := self._difference(url, answers, is_file=url in files):
                yield text
        if len(errors) == len(READERS) * (len(files) + len(sample) + 1):
            raise errors[0]

    def chains(self) -> Iterator[str]:
        """Follow the redirects of some pages. Describe each chain."""
        for url in [state.url for state in self.states if state.kind == "redirect"][:COMPARED_PAGES_MAX]:
            hops = [url]
            with suppress(FetchError, ValueError):
                while len(hops) <= client.REDIRECTS_MAX and (to := self.served.get(hops[-1]).headers.get("location")):
                    hops.append(urljoin(hops[-1], to))
            if len(hops) > 2:
                yield f"{url} redirects {len(hops) - 1} times, at last to {hops[-1][:200]}"

    def same_titles(self) -> Iterator[str]:
        """Describe titles that show that the server answers for many pages, or for missing ones, with one page."""
        probe = self.served.get(self.served.url(f"stoppress-doctor-{time.time_ns()}"), keep=False)
        missing = title_of(probe) if probe.status == 200 else ""
        if probe.status < 400:
            yield f"a page that does not exist answers {probe.status}, not 404 (soft 404)"
        for title, number in Counter(self.titles.values()).items():
            if title and title == missing:
                yield f"{number:,} of {len(self.titles):,} pages have the title {title[:100]!r} of a page that does not exist"
            elif title and number >= _SAME_TITLES_MIN and number > len(self.titles) / 2:
                yield f"{number:,} of {len(self.titles):,} pages have the title {title[:100]!r}: a question for consent, or a challenge"

    def _sitemap_answers(self) -> Iterator[tuple[client.Response, int]]:
        """Yield the answers for sitemaps, each with the number of its pages to check; 0 for all."""
        files, children = self.served.files, self._children()
        news = [self.served.url(name) for name in self.served.named if is_news(name) and name in files]
        news = list(dict.fromkeys([*news, *(url for url in children if is_news(url.rpartition("/")[2]))]))
        others = [url for url in children if url not in news]
        for url in (*news, *_spread(others, SHARDS_MAX)):
            with suppress(FetchError):
                answer = self.served.get(url)
                if answer.status == 200:
                    yield answer, 0 if url in news else SHARD_PAGES_MAX

    def _children(self) -> list[str]:
        if INDEX_FILE not in self.served.files:
            return []
        index = self.served.files[INDEX_FILE]
        with suppress(FeedError):
            document = feed_documents.read_document(index.body, index.headers)
            urls = old_sitemaps.children_of(document, index.url, self.served.site, INDEX_ENTRIES_MAX)
            return [url for url in urls if host_of(url) == self.served.host]
        return []

    def _entries_of(self, answer: client.Response) -> list[Entry]:
        with suppress(FeedError, FetchError):
            body = client.read_body([answer.body], bytes_max=BYTES_MAX)  # the file itself may be gzip
            document = feed_documents.read_document(body, answer.headers)
            return list(old_sitemaps.read(document, answer.url, self.served.site).entries)
        return []

    def _request(self, url: str, _headers: Mapping[str, str], *, seconds_max: float, **_: object) -> client.Response:
        """Request a page for `check_pages`. Raises FetchError."""
        if url not in self.dates:
            return self.served.get(url)  # robots.txt
        if self._failures >= FAILURES_MAX or seconds_max <= 0:
            raise FetchError("it was not requested")
        self._statuses[url] = None
        answer = self.served.request(url, self.served.reader, seconds_max)
        if isinstance(answer, FetchError):
            self._failures += 1
            raise answer
        self._failures = self._failures + 1 if answer.status == 429 else 0
        self._statuses[url] = answer.status
        if answer.status == 200:
            self.titles[url] = title_of(answer)
        return answer

    def _state(self, url: str, verdict: PageVerdict) -> PageState:
        status = self._statuses.get(url)
        if url not in self._statuses or status == 429:
            indexable = "not checked"
        else:
            indexable = "yes" if verdict.ready or verdict.kind in ("date", "title") else "no"
        return PageState(url, self._sitemaps[url], status, indexable, verdict.reason, verdict.kind)

    def _difference(self, url: str, answers: dict[str, Answer], *, is_file: bool) -> str:
        """Describe how the answers of the crawlers differ from the browser's; empty if they do not."""
        browser = answers.pop(BROWSER)
        differing = {r: answer for r, answer in answers.items() if not _is_same(answer, browser, is_file=is_file)}
        if is_file:  # it may have changed between two requests
            again = {reader: self.served.request(url, reader) for reader in differing}
            differing = {r: answer for r, answer in again.items() if not _is_same(answer, browser, is_file=True)}
        crawlers = ", ".join(f"{reader} gets {_describe(answer)}" for reader, answer in differing.items())
        return f"{url}: {crawlers}, and {BROWSER} gets {_describe(browser)}" if crawlers else ""


def _is_same(first: Answer, second: Answer, *, is_file: bool) -> bool:
    if isinstance(first, FetchError) or isinstance(second, FetchError):
        return isinstance(first, FetchError) and isinstance(second, FetchError)
    if (first.status, first.headers.get("location")) != (second.status, second.headers.get("location")):
        return False
    if first.status != 200:
        return True
    if is_file:
        return first.body == second.body
    small, large = sorted((len(first.body), len(second.body)))
    return small >= large * _SMALL_PART and title_of(first) == title_of(second)


def _describe(answer: Answer) -> str:
    if isinstance(answer, FetchError):
        return f"no answer ({answer})"
    where = f" to {location[:200]}" if (location := answer.headers.get("location")) else ""
    title = f" and the title {title_of(answer)[:100]!r}" if is_page(answer) else ""
    return f"{answer.status}{where} with {len(answer.body):,} bytes{title}"


def _spread(items: list[_T], most: int) -> list[_T]:
    """Return `most` items, the first, the last and evenly some between; all of them if `most` is 0."""
    if not most or len(items) <= most:
        return items
    return [items[number * (len(items) - 1) // (most - 1)] for number in range(most)]
