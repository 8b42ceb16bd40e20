"""A WebSub hub is told of a feed of the site that changed, and again when no cache serves the old feed any more."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any
from urllib.parse import parse_qsl

import pytest

from stoppress.http import client as web
from stoppress.tell import hub
from stoppress.tell.files import HUB
from tests.support import receivers
from tests.support.engines import Engine, engine
from tests.support.ledger import HOST
from tests.support.receivers import Receivers

HUB_URL = "https://hub.example.net/"
FEED = f"https://{HOST}/sitemap-news.atom"
OUTPUTS = {"atom": True, "hub": HUB_URL}


def test_a_request_has_the_exact_bytes() -> None:
    """PubSubHubbub 0.3, 7.1: two parameters in a form, the second one perhaps repeated."""
    assert hub.request_body([FEED]) == (b"hub.mode=publish&hub.url=https%3A%2F%2Fwww.example.com%2Fsitemap-news.atom")
    assert hub.request_body(["https://a.example/1", "https://a.example/2"]) == (
        b"hub.mode=publish&hub.url=https%3A%2F%2Fa.example%2F1&hub.url=https%3A%2F%2Fa.example%2F2"
    )


@pytest.fixture
def room() -> Iterator[Receivers]:
    with receivers.opened() as opened:
        yield opened


@contextmanager
def at_a_hub(room: Receivers, outputs: dict[str, Any] = OUTPUTS, **other: Any) -> Iterator[Engine]:
    room.behind.site(engines={}, outputs=outputs, **other)
    with engine() as hub_server:
        hub_server.answers = ["no content"] * 100
        yield hub_server


def feeds(server: Engine) -> list[list[str]]:
    """The feeds of each request."""
    forms = [parse_qsl(body.decode()) for _, _, body in server.requests]
    assert all(form[0] == ("hub.mode", "publish") for form in forms)
    return [[url for name, url in form if name == "hub.url"] for form in forms]


@pytest.mark.moto
def test_a_hub_hears_of_a_changed_feed_and_again_after_two_minutes(room: Receivers) -> None:
    with at_a_hub(room) as server:
        room.write()
        room.wait(seconds=10)
        assert feeds(server) == [[FEED]]
        path, headers, _ = server.requests[0]
        assert (path, headers["content-type"]) == ("/", "application/x-www-form-urlencoded")
        room.wait(seconds=119)
        assert len(server.requests) == 1
        room.wait(seconds=1)
        assert feeds(server) == [[FEED]] * 2
        room.hear()
        room.wait(hours=1)
        assert len(server.requests) == 2
        assert room.messages == []


@pytest.mark.moto
def test_a_hub_hears_of_a_busy_newsroom_once_a_minute(room: Receivers) -> None:
    with at_a_hub(room) as server:
        asked: list[datetime] = []
        for _ in range(60):
            before = len(server.requests)
            room.write()
            room.wait(seconds=10)
            asked += [room.now] * (len(server.requests) - before)
        assert len(asked) == 10
        room.wait(minutes=3)
        assert all(later - earlier >= timedelta(minutes=1) for earlier, later in pairwise(asked))
        count = len(server.requests)
        assert count > len(asked)
        room.wait(hours=1)
        assert len(server.requests) == count
        assert room.messages == []


@pytest.mark.moto
def test_a_hub_hears_only_of_the_feeds_that_changed(room: Receivers) -> None:
    editions = [{"prefix": "/fr", "news": "fr"}]
    with at_a_hub(room, editions=editions) as server:
        room.write()
        room.write("sitemap-news-fr.xml")
        room.wait(minutes=5)
        room.write("sitemap-news-fr.xml")
        room.wait(minutes=5)
        french = f"https://{HOST}/sitemap-news-fr.atom"
        assert feeds(server) == [[french, FEED]] * 2 + [[french]] * 2


@pytest.mark.moto
@pytest.mark.parametrize("outputs", [{"atom": True}, {"atom": False, "hub": HUB_URL}])
def test_without_a_feed_or_a_hub_nothing_is_sent(room: Receivers, outputs: dict[str, Any]) -> None:
    with at_a_hub(room, outputs) as server:
        room.write()
        room.wait(minutes=5)
        assert server.requests == []
        assert room.receivers_waiting == []


@pytest.mark.moto
def test_a_shard_is_no_feed(room: Receivers) -> None:
    with at_a_hub(room):
        room.write("sitemap-2026-11.xml")
        assert room.receivers_waiting == []


@pytest.mark.moto
def test_a_feed_that_is_not_written_yet_is_not_told_of(room: Receivers) -> None:
    with at_a_hub(room) as server:
        room.write("sitemap-news.xml", "sitemap-news.xml.gz")
        room.wait(minutes=5)
        assert server.requests == []
        room.write()
        room.wait(minutes=5)
        assert feeds(server) == [[FEED]] * 2


@pytest.mark.moto
def test_a_hub_without_tls_is_told_too_because_nothing_is_secret(room: Receivers) -> None:
    with at_a_hub(room, {"atom": True, "hub": "http://hub.example.net/"}) as server:
        room.write()
        room.wait(seconds=10)
        assert feeds(server) == [[FEED]]


@pytest.mark.moto
@pytest.mark.parametrize(
    ("answer", "asked_again_after", "is_our_fault"),
    [
        ("ok", 120, False),
        ("accepted", 120, False),
        ("no content", 120, False),
        ("bad request", 900, True),
        ("not found", 900, True),
        ("gone", 900, True),
        ("moved", 900, True),
        ("too many", 60, False),
        ("broken", 60, False),
        ("overloaded", 120, False),
        ("slow", 60, False),
        ("cut", 60, False),
    ],
)
def test_each_answer_of_a_hub_has_its_meaning(
    room: Receivers, monkeypatch: pytest.MonkeyPatch, answer: str, asked_again_after: int, *, is_our_fault: bool
) -> None:
    if answer == "slow":
        monkeypatch.setattr(web, "POST_SECONDS_MAX", 1.0)
    with at_a_hub(room) as server:
        server.answers.insert(0, answer)
        room.write()
        room.wait(seconds=10)
        assert len(server.requests) == 1
        assert bool(room.runs[-1].engines_failing) == is_our_fault
        assert bool(room.refusal(HUB).get("reason")) == (answer not in ("ok", "accepted", "no content"))
        room.wait(seconds=asked_again_after - 1)
        assert len(server.requests) == 1
        room.wait(seconds=1)
        assert len(server.requests) == 2
        assert "reason" not in room.refusal(HUB)
