"""The pages of a newsroom and an engine of IndexNow, in memory, by the virtual clock. The engine checks what it is told."""

import json
import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from stoppress.http.client import Response
from stoppress.http.errors import TooSlow
from tests.support.engines import ANSWERS

PAUSE = timedelta(minutes=10)


@dataclass
class Page:
    """A page. It can be indexed from `ready_at` on, and answers 404 from `missing_at` on. Before it is ready, it answers `early`."""

    ready_at: datetime
    missing_at: datetime | None = None
    early: str = "404"

    def is_missing(self, now: datetime) -> bool:
        """Whether the page answers 404."""
        return (self.missing_at is not None and self.missing_at <= now) or (self.ready_at > now and self.early == "404")


@dataclass
class Web:
    """Answers requests for pages and for the engine. `told` are the URLs that the engine took, each with the instant. `known` are those of them
    that were pages when it was told last.

    `objects` are the bucket's, by key. `wrong` are the engine's complaints. `answers` are the names of the engine's answers.
    """

    chance: random.Random
    objects: Callable[[], Mapping[str, bytes]]
    pages: dict[str, Page] = field(default_factory=dict)
    answers: list[str] = field(default_factory=lambda: ["ok"])
    told: list[tuple[str, datetime]] = field(default_factory=list)
    known: set[str] = field(default_factory=set)
    wrong: list[str] = field(default_factory=list)
    listed: set[str] = field(default_factory=set)

    def fetch(self, url: str, _headers: Mapping[str, str] | None = None, **_limits: object) -> Response:
        """A page, or 404."""
        page, now = self.pages.get(url), datetime.now(UTC)
        if page is None or page.is_missing(now):
            return Response(404, {}, b"", url)
        if page.ready_at > now:
            if page.early == "slow":
                raise TooSlow("the server did not answer in time")
            early = {"noindex": '<meta name="robots" content="noindex"><title>A</title>', "untitled": "<p>"}
            return Response(200, {"content-type": "text/html"}, early[page.early].encode(), url)
        return Response(200, {"content-type": "text/html"}, b"<title>A story</title>", url)

    def post_body(self, _url: str, body: bytes, _content_type: str) -> Response:
        """The engine's answer. After an error or a time-out it may have taken the URLs all the same."""
        document = json.loads(body)
        key_file = document["keyLocation"].removeprefix("https://")
        if not key_file.startswith(f"{document['host']}/") or self.objects().get(key_file) != document["key"].encode():
            self.wrong.append(f"the key is not in {key_file}")
        answer = self.chance.choice(self.answers)
        if answer in ("ok", "accepted") or (answer in ("broken", "slow") and self.chance.random() < 0.5):
            for url in document["urlList"]:
                self._take(url)
        if answer == "slow":
            raise TooSlow("the engine did not answer in time")
        status, headers, content = ANSWERS[answer]
        return Response(status, {name.lower(): value for name, value in headers.items()}, content, _url)

    def _take(self, url: str) -> None:
        now = datetime.now(UTC)
        page = self.pages[url]
        is_missing = page.is_missing(now)
        if url in self.listed and (is_missing or page.ready_at > now):
            self.wrong.append(f"{now:%H:%M:%S} {url} is listed, and not ready")
        files = (body for key, body in self.objects().items() if not key.endswith("/sitemap.xml"))
        if not is_missing and not any(f"<loc>{url}</loc>".encode() in body for body in files):  # copies too
            self.wrong.append(f"{now:%H:%M:%S} {url} is removed, and still there")
        if any(other == url and now - at < PAUSE for other, at in self.told):
            self.wrong.append(f"{now:%H:%M:%S} {url} was told of in the last ten minutes")
        self.told.append((url, now))
        (self.known.discard if is_missing else self.known.add)(url)
