"""Pages are fetched within limits, and each has a verdict for any answer."""

import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import pytest

from stoppress.http import client
from stoppress.http.client import Response
from stoppress.http.errors import TooSlow, Unreachable
from stoppress.notify import fetch_page
from stoppress.notify.fetch_page import check_pages
from stoppress.primitives.instants import NEVER, Deadline

HOST = "https://www.example.com"


@dataclass
class Web:
    """Answers requests, and stores them with the concurrent requests of each host."""

    answers: dict[str, Response | Exception] = field(default_factory=dict)
    requests: list[tuple[str, dict[str, str]]] = field(default_factory=list)
    limits: dict[str, dict[str, object]] = field(default_factory=dict)
    seconds: float = 0.0
    busiest: Counter[str] = field(default_factory=Counter)
    _busy: Counter[str] = field(default_factory=Counter)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def answer(self, url: str, body: str = "<title>A page</title>", status: int = 200, **headers: str) -> None:
        self.answers[url] = Response(status, headers, body.encode(), url)

    def fetch(self, url: str, headers: Mapping[str, str], *, seconds_max: float, **limits: object) -> Response:
        if seconds_max <= 0:
            raise TooSlow("the request took too long")
        host = url.split("/")[2]
        with self._lock:
            self.requests.append((url, dict(headers)))
            self.limits[url] = limits
            self._busy[host] += 1
            self.busiest[host] = max(self.busiest[host], self._busy[host])
        time.sleep(self.seconds)
        with self._lock:
            self._busy[host] -= 1
        answer = self.answers.get(url, Response(404, {}, b"", url))
        if isinstance(answer, Exception):
            raise answer
        return answer

    @property
    def urls(self) -> list[str]:
        return [url for url, _ in self.requests]


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[Web]:
    web = Web()
    monkeypatch.setattr(client, "fetch", web.fetch)
    fetch_page._rules.clear()
    yield web
    fetch_page._rules.clear()


def test_each_page_has_a_verdict(web: Web) -> None:
    web.answer(f"{HOST}/a")
    web.answers[f"{HOST}/b"] = Unreachable("www.example.com: Connection refused")
    web.answer(f"{HOST}/c", status=301, location="/a")

    verdicts = check_pages(dict.fromkeys(f"{HOST}/{name}" for name in "abcd"), NEVER)

    assert {url: (verdict.ready, verdict.reason) for url, verdict in verdicts.items()} == {
        f"{HOST}/a": (True, ""),
        f"{HOST}/b": (False, "cannot be fetched: www.example.com: Connection refused"),
        f"{HOST}/c": (False, f"redirects to {HOST}/a"),
        f"{HOST}/d": (False, "answers 404"),
    }
    assert verdicts[f"{HOST}/b"].kind == "unreachable"
    # A redirect of robots.txt is followed, and that of a page is not.
    assert (web.limits[f"{HOST}/robots.txt"], web.limits[f"{HOST}/a"]) == ({}, {"redirects": False})


def test_a_host_gets_two_requests_at_a_time(web: Web) -> None:
    web.seconds = 0.02
    pages = dict.fromkeys(f"https://{host}.example.com/{number}" for host in ("a", "b") for number in range(8))
    check_pages(pages, NEVER)

    assert dict(web.busiest) == {"a.example.com": 2, "b.example.com": 2}


@pytest.mark.parametrize("others", ["", "User-agent: *\nDisallow: /\n\n"], ids=["group for all", "our own group"])
def test_a_page_disallowed_by_robots_txt_is_not_fetched_and_is_ready(web: Web, others: str) -> None:
    group = "User-agent: Stoppress" if others else "User-agent: *"
    web.answer(f"{HOST}/robots.txt", f"{others}{group}\nDisallow: /members/\n")
    web.answer(f"{HOST}/a")
    verdicts = check_pages({f"{HOST}/members/a": None, f"{HOST}/a": None}, NEVER)

    verdict = verdicts[f"{HOST}/members/a"]
    assert (verdict.ready, verdict.kind) == (True, "robots")
    assert verdict.reason == "was not checked, because robots.txt forbids it"
    assert verdicts[f"{HOST}/a"].kind == ""
    assert f"{HOST}/members/a" not in web.urls


@pytest.mark.parametrize("status", [429, 500, 503])
def test_nothing_is_fetched_while_robots_txt_fails(web: Web, status: int) -> None:
    web.answer(f"{HOST}/robots.txt", status=status)
    verdict = check_pages({f"{HOST}/a": None}, NEVER)[f"{HOST}/a"]

    assert (verdict.ready, verdict.kind) == (False, "unreachable")
    assert verdict.reason == f"was not checked, because robots.txt cannot be read: the server answers {status}"
    assert web.urls == [f"{HOST}/robots.txt"]


def test_robots_txt_is_fetched_again_after_ten_minutes(web: Web, monkeypatch: pytest.MonkeyPatch) -> None:
    now = time.monotonic()
    monkeypatch.setattr("time.monotonic", lambda: now)
    for _ in range(2):
        check_pages({f"{HOST}/a": None}, NEVER)
    assert web.urls.count(f"{HOST}/robots.txt") == 1

    now += fetch_page.ROBOTS_SECONDS
    check_pages({f"{HOST}/a": None}, NEVER)
    assert web.urls.count(f"{HOST}/robots.txt") == 2


def test_after_the_deadline_nothing_is_fetched(web: Web) -> None:
    verdict = check_pages({f"{HOST}/a": None}, Deadline(lambda: 0.0))[f"{HOST}/a"]

    assert (verdict.ready, verdict.kind) == (False, "unreachable")
    assert web.urls == []
