"""The files that a host serves to search engines: robots.txt and sitemaps, each requested once by each crawler and by a browser.

`known` has the data of a stack about the same site, for comparison.
"""

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cached_property
from threading import Lock
from typing import Any, Literal

from stoppress.aws import bucket, sites
from stoppress.aws.inventory import read_indexes
from stoppress.http import client
from stoppress.http.errors import FetchError
from stoppress.model.file_names import BYTES_MAX, INDEX_FILE
from stoppress.model.site import Site
from stoppress.sitemaps.robots import named_in_robots
from stoppress_cli.check import checker
from stoppress_cli.check.findings import Finding, Findings
from stoppress_cli.inputs.folder import Unreadable
from stoppress_cli.inputs.website import Fetcher

Server = tuple[str, int]
Answer = client.Response | FetchError

# The user agents that the crawlers document. Googlebot-News is a token of robots.txt only: Googlebot requests for it.
BROWSER = "a browser"
READERS = {
    "Googlebot": "Mozilla/5.0 (compatible; Googlebot/2.1; +http://www.google.com/bot.html)",
    "Bingbot": "Mozilla/5.0 (compatible; bingbot/2.0; +http://www.bing.com/bingbot.htm)",
    BROWSER: "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/142.0.0.0 Safari/537.36",
}
# Between the starts of two requests.
PAUSE_SECONDS = 0.25
# How many findings of one kind in one file are shown.
EACH_MAX = 3
_HTML = re.compile(rb"<!doctype html|<html[\s>]", re.IGNORECASE)


@dataclass(frozen=True)
class Known:
    """A stack's data about a site: the configuration, the files that robots.txt should list, and the URL of a webhook.

    `files`: those of them that are in the bucket.
    """

    site: Site
    named: list[str]
    files: Mapping[str, bucket.StoredFile]
    webhook: str | None = None


def is_page(answer: client.Response) -> bool:
    """Return True if the body is HTML, whatever its type."""
    return _HTML.search(answer.body[:1_000]) is not None


def load_known(host: str) -> Known:
    """Return the connected stack's data about a site. Raises UnknownSite and BadConfiguration."""
    site = sites.load(host)
    named = named_in_robots(site, read_indexes(host))
    files = {name: file for name in named if (file := bucket.read(host, name))}
    source = next((name for name, source in site.sources.items() if source.secret), None)
    webhooks = os.environ.get("WEBHOOKS_URL")
    return Known(site, named, files, f"{webhooks}/webhooks/{host}/{source}" if webhooks and source else None)


@dataclass
class Served:
    """The files of a host, as it serves them. `server` is an address and port to connect to, instead of the host's own.

    `notes` are about files that were not checked, and findings that are not shown. `seconds` are the times to complete answers,
    by `clock`.
    """

    host: str
    now: datetime
    known: Known | None = None
    server: Server | None = None
    clock: Callable[[], float] = time.monotonic
    notes: list[tuple[Literal["not checked", "hint"], str]] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    _answers: dict[tuple[str, str], Answer] = field(default_factory=dict)
    _pacing: Lock = field(default_factory=Lock)
    _next_at: float = 0.0

    @cached_property
    def site(self) -> Site:
        return self.known.site if self.known else Site(host=self.host, publication=self.host)

    def url(self, file: str) -> str:
        return f"{self.site.origin}/{file}"

    def get(self, url: str, reader: str | None = None, *, keep: bool = True) -> client.Response:
        """Return a reader's answer for a URL, which is requested once, and kept if `keep`. Raises FetchError."""
        answer = self.answer(url, reader or self.reader, keep=keep)
        if isinstance(answer, FetchError):
            raise answer
        return answer

    def answer(self, url: str, reader: str, *, keep: bool = True) -> Answer:
        """Return a reader's answer for a URL as `get` does, or why there is none."""
        answer = self._answers.get((reader, url)) or self.request(url, reader)
        if keep:
            self._answers[reader, url] = answer
        return answer

    def request(self, url: str, reader: str, seconds_max: float = client.FETCH_SECONDS_MAX) -> Answer:
        """Request a URL as a reader of READERS, without following redirects. A Content-Encoding is decoded once."""
        self._wait()
        headers, begin = {"User-Agent": READERS[reader], "Accept-Encoding": "gzip"}, self.clock()
        limits: dict[str, Any] = {"bytes_max": BYTES_MAX, "seconds_max": seconds_max, "server": self.server}
        try:
            answer = client.fetch(url, headers, redirects=False, unpack=False, **limits)
            if answer.headers.get("content-encoding"):
                body = client.read_body([answer.body], answer.headers["content-encoding"].strip().lower(), BYTES_MAX)
                answer = replace(answer, body=body)
        except FetchError as error:
            return error
        finally:
            self.seconds.append(self.clock() - begin)
        return answer

    def _wait(self) -> None:
        """Wait until PAUSE_SECONDS after the request before."""
        with self._pacing:
            now = time.monotonic()
            start, self._next_at = self._next_at, max(now, self._next_at) + PAUSE_SECONDS
        time.sleep(max(0.0, start - now))

    @cached_property
    def reader(self) -> str:
        """Return the reader for whom the files are checked: the first that receives the index, and not a page."""
        for reader in READERS:
            answer = self.answer(self.url(INDEX_FILE), reader)
            if not isinstance(answer, FetchError) and answer.status == 200 and not is_page(answer):
                return reader
        return next(iter(READERS))

    @cached_property
    def robots_txt(self) -> client.Response:
        return self.get(self.url("robots.txt"))

    @cached_property
    def named(self) -> list[str]:
        """Return the files that robots.txt should list."""
        return self.known.named if self.known else named_in_robots(self.site)

    @cached_property
    def files(self) -> dict[str, client.Response]:
        """Return the answers with status 200 for the files that robots.txt should list, by file name."""
        answers = {name: self.answer(self.url(name), self.reader) for name in self.named}
        return {
            name: answer
            for name, answer in answers.items()
            if not isinstance(answer, FetchError) and answer.status == 200
        }

    @cached_property
    def findings(self) -> dict[str, list[Finding]]:
        """Return the findings of `stoppress check` in robots.txt and all sitemaps, by the doctor's check."""
        findings, sources = Findings(EACH_MAX), []
        fetcher = Fetcher(findings, self._get_for_check)
        for name in ("robots.txt", *self.named):
            try:
                sources.append(fetcher.first(self.url(name)))
            except Unreadable as error:
                if name != "robots.txt":
                    findings.add(name, "not-served", None, str(error))
        checked = checker.check(sources, findings, self.now, is_all=False, follow=fetcher.follow)
        self.notes += [("not checked", text) for text in (*fetcher.notes, *checked.unchecked_texts)]
        if more := sum(findings.omitted.values()):
            self.notes.append(("hint", f"{more:,} more findings: stoppress check {self.url('robots.txt')} shows them"))
        by_check: dict[str, list[Finding]] = {}
        for finding in findings:
            by_check.setdefault(finding.rule.doctor, []).append(finding)
        return by_check

    def _get_for_check(self, url: str) -> client.Response:
        """Request a file. Its Content-Encoding was requested, so it breaks no rule."""
        answer = self.get(url, keep=False)
        return replace(answer, headers={k: v for k, v in answer.headers.items() if k != "content-encoding"})
