"""The pages of a newsroom, IndexNow and Search Console in memory. They use the virtual clock and check each request."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import unquote

from stoppress.http.client import Response
from stoppress.http.errors import TooSlow
from stoppress.notify.search_console import INSPECTION_URL, SITEMAPS_URL

PAUSE = timedelta(minutes=10)
INDEXNOW = "https://api.indexnow.org/indexnow"
# indexnow.org/documentation: the answers. Those to 403 are what Bing sends, in its words.
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "ok": (200, {}, b""),
    "accepted": (202, {}, b""),
    "bad request": (400, {}, b'{"code":"InvalidRequestParameters","message":"..."}'),
    "key not found": (403, {}, b'{"code":"KeyNotFound","message":"..."}'),
    "verification": (403, {}, b'{"code":"SiteVerificationNotCompleted","message":"..."}'),
    "unprocessable": (422, {}, b'{"code":"UrlListHasInvalidUrl","message":"..."}'),
    "too many": (429, {"Retry-After": "30"}, b""),
    "broken": (500, {}, b"<html>"),
    "overloaded": (503, {"Retry-After": "120"}, b""),
}


@dataclass
class Page:
    """A page. It can be indexed from `ready_at` on, and answers 404 from `missing_at` on. Before it is ready, it answers `early`."""

    ready_at: datetime
    missing_at: datetime | None = None
    early: str = "404"

    def is_missing(self, now: datetime) -> bool:
        return (self.missing_at is not None and self.missing_at <= now) or (self.ready_at > now and self.early == "404")


@dataclass
class Web:
    """Answers requests. `notified` are the URLs that IndexNow accepted, each with the instant; `known` existed then.

    `google_reads` are the instants at which Google reads each news sitemap; `reported` are the instants in reports, by file.
    `questions` are the instants of requests to Search Console, by subject. `requests` are the URLs of all requests.

    `objects` are the bucket's, by key. `wrong` are IndexNow's complaints. `answers` are the names of all answers. `inspected` are the
    pages that Search Console has inspected.
    """

    chance: random.Random
    objects: Callable[[], Mapping[str, bytes]]
    pages: dict[str, Page] = field(default_factory=dict)
    answers: list[str] = field(default_factory=lambda: ["ok"])
    notified: list[tuple[str, datetime]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)
    inspected: set[str] = field(default_factory=set)
    google_reads: list[datetime] = field(default_factory=list)
    reported: dict[str, list[datetime]] = field(default_factory=dict)
    questions: list[tuple[str, datetime]] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)

    def fetch(self, url: str, _headers: Mapping[str, str] | None = None, **_limits: object) -> Response:
        """Return a page, 404, or Search Console's report on a sitemap."""
        self.requests.append(url)
        if url.startswith(SITEMAPS_URL):
            return self._report(unquote(url.rpartition("/")[2]))
        page, now = self.pages.get(url), datetime.now(UTC)
        if page is None or page.is_missing(now):
            return Response(404, {}, b"", url)
        if page.ready_at > now:
            if page.early == "slow":
                raise TooSlow("the server did not answer in time")
            early = {"noindex": '<meta name="robots" content="noindex"><title>A</title>', "untitled": "<p>"}
            return Response(200, {"content-type": "text/html"}, early[page.early].encode(), url)
        return Response(200, {"content-type": "text/html"}, b"<title>A story</title>", url)

    def _report(self, sitemap: str) -> Response:
        """Return Search Console's report on a sitemap, with the last read."""
        now = datetime.now(UTC)
        self.questions.append((sitemap, now))
        past = [at for at in self.google_reads if at <= now]
        last = f'"lastDownloaded": "{past[-1].isoformat()}", ' if past else ""
        answer = self._answer(sitemap, lambda: None, f'{{{last}"errors": "0"}}'.encode())
        if answer.status < 300 and past:
            self.reported.setdefault(sitemap, []).append(past[-1])
        return answer

    def post_body(self, url: str, body: bytes, *_: object, **_options: object) -> Response:
        """Answer a POST or PUT. After an error or a time-out, the request may have taken effect."""
        self.requests.append(url)
        if url == INDEXNOW:
            return self._answer(url, lambda: self._take_pages(json.loads(body)))
        if url == INSPECTION_URL:
            document = json.loads(body)
            self.questions.append((f"inspection {document['siteUrl']}", datetime.now(UTC)))
            page = document["inspectionUrl"]
            verdict = b'{"inspectionResult": {"indexStatusResult": {"verdict": "PASS"}}}'
            return self._answer(url, lambda: self.inspected.add(page), verdict)
        self.questions.append(("submission", datetime.now(UTC)))
        return self._answer(url, lambda: None)

    def _answer(self, url: str, take: Callable[[], None], content: bytes = b"") -> Response:
        answer = self.chance.choice(self.answers)
        if answer in ("ok", "accepted") or (answer in ("broken", "slow") and self.chance.random() < 0.5):
            take()
        if answer == "slow":
            raise TooSlow("the server did not answer in time")
        status, headers, error = ANSWERS[answer]
        lower = {name.lower(): value for name, value in headers.items()}
        return Response(status, lower, content if status < 300 else error, url)

    def _take_pages(self, document: dict[str, Any]) -> None:
        key_file = document["keyLocation"].removeprefix("https://")
        if not key_file.startswith(f"{document['host']}/") or self.objects().get(key_file) != document["key"].encode():
            self.wrong.append(f"the key is not in {key_file}")
        for url in document["urlList"]:
            self._take(url)

    def _take(self, url: str) -> None:
        now = datetime.now(UTC)
        page = self.pages[url]
        is_missing = page.is_missing(now)
        if url in self.listed and (is_missing or page.ready_at > now):
            self.wrong.append(f"{now:%H:%M:%S} {url} is listed, and not ready")
        files = (body for key, body in self.objects().items() if not key.endswith("/sitemap.xml"))
        if not is_missing and not any(f"<loc>{url}</loc>".encode() in body for body in files):  # copies too
            self.wrong.append(f"{now:%H:%M:%S} {url} is removed, and still there")
        if any(other == url and now - at < PAUSE for other, at in self.notified):
            self.wrong.append(f"{now:%H:%M:%S} {url} was in a request of the last ten minutes")
        self.notified.append((url, now))
        (self.known.discard if is_missing else self.known.add)(url)
