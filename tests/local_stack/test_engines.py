"""Engines on the local stack: a webhook publishes a story, its page is checked, and a server on loopback is notified of it."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress.http import client
from stoppress.notify import fetch
from stoppress.show import read_site
from stoppress.show.site import Access, Problem, stack_status
from stoppress.show.story import story_of
from stoppress_cli.local.permissions import Ask, Role
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.wire import Fault
from tests.deployment.test_grants import OF_ENGINES, Grant
from tests.support import operated
from tests.support.engines import Engine, engine
from tests.support.planting import recorded_asks, roles_refused

pytestmark = pytest.mark.moto

HOST = operated.HOST
KEY = "0f4b1c2d3e4f5a6b"
KEY_FILE = f"sitemap-indexnow-{KEY}.txt"
SITE: dict[str, Any] = operated.SITE | {"engines": {"indexnow": {"key": KEY}}}
MINUTE = timedelta(minutes=1)


@pytest.fixture
def web() -> Iterator[Engine]:
    with engine() as running:
        fetch._rules.clear()
        yield running
        fetch._rules.clear()


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[Stack]:
    with configured(SITE, tmp_path) as running:
        yield running


@contextmanager
def configured(site: Mapping[str, Any], tmp_path: Path) -> Iterator[Stack]:
    """A stack with this site. The functions know the configuration."""
    with operated.operated([{"site": site}], tmp_path) as running:
        wait(running, 2)
        yield running


def post(stack: Stack, story: str, kind: str = "article.published") -> None:
    """Have the webhook of a story come, and its files written."""
    at = f"{stack.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    operated.publish(stack, story, story, kind, published_at="2026-11-20T12:00:00Z", updated_at=at)
    stack.rest()


def wait(stack: Stack, minutes: int) -> None:
    for _ in range(minutes):
        stack.advance(stack.clock.now() + MINUTE)


def problems(stack: Stack) -> list[Problem]:
    now = stack.clock.now()
    return list(stack_status(read_site.read_stack(HOST, now, None), now, Access("news")).problems)


def test_an_engine_is_notified_of_a_story_at_once_and_of_its_edit_after_ten_minutes(stack: Stack, web: Engine) -> None:
    web.pages["/flood"] = 200
    post(stack, "flood")

    [(path, headers, body)] = web.requests
    assert (path, headers["host"]) == ("/indexnow", "api.indexnow.org")
    assert headers["content-type"] == "application/json; charset=utf-8"
    location, urls = f"https://{HOST}/{KEY_FILE}", [f"https://{HOST}/flood"]
    assert json.loads(body) == {"host": HOST, "key": KEY, "keyLocation": location, "urlList": urls}
    kept = stack.client("s3").get_object(Bucket=stack.variable("BUCKET_NAME"), Key=f"{HOST}/{KEY_FILE}")
    assert (kept["Body"].read(), kept["ContentType"]) == (KEY.encode(), "text/plain; charset=utf-8")
    way = [stop.what for stop in story_of(operated.url("flood"), None, stack.clock.now()).way]
    assert "notified" in " ".join(way)

    wait(stack, 1)
    post(stack, "flood")
    wait(stack, 9)
    assert len(web.requests) == 1
    wait(stack, 2)
    assert len(web.requests) == 2
    wait(stack, 60)
    assert len(web.requests) == 2
    assert stack.metrics["PagesNotified"] == 2
    assert problems(stack) == []


def test_an_engine_is_notified_of_a_page_when_it_is_ready_and_status_says_since_when_it_is_not(
    stack: Stack, web: Engine
) -> None:
    post(stack, "flood")
    wait(stack, 14)
    assert web.requests == []
    assert stack.metrics["PagesNotReady"] == 1
    [problem] = problems(stack)
    assert "answers 404" in problem.what
    assert "/flood<" in operated.news(stack)
    assert "answers 404" in story_of(operated.url("flood"), None, stack.clock.now()).not_notified

    web.pages["/flood"] = 200
    wait(stack, 16)
    assert web.urls == [operated.url("flood")]
    assert problems(stack) == []


def test_an_engine_is_notified_of_a_removed_page_once_it_is_missing(stack: Stack, web: Engine) -> None:
    web.pages["/flood"] = 200
    post(stack, "flood")
    wait(stack, 1)
    post(stack, "flood", "article.unpublished")
    wait(stack, 20)
    assert len(web.requests) == 1  # the page is still there

    web.pages["/flood"] = 410
    wait(stack, 16)
    assert len(web.requests) == 2
    assert problems(stack) == []


@pytest.mark.parametrize(
    ("answer", "minutes", "is_alarmed"),
    [
        ("bad request", 15, True),
        ("verification", 10, False),
        ("too many", 1, False),
        ("broken", 11, False),
        ("slow", 11, False),
        ("cut", 11, False),
    ],
)
def test_an_engine_that_takes_nothing_is_notified_again_later(
    stack: Stack, web: Engine, monkeypatch: pytest.MonkeyPatch, answer: str, minutes: int, *, is_alarmed: bool
) -> None:
    monkeypatch.setattr(client, "POST_SECONDS_MAX", 0.5)
    web.pages["/flood"], web.answers = 200, [answer]
    post(stack, "flood")
    wait(stack, minutes - 1)
    assert len(web.requests) == 1
    assert stack.metrics["EnginesFailed"] == is_alarmed
    assert any("IndexNow" in problem.what for problem in problems(stack))

    wait(stack, 2)
    assert len(web.requests) == 2
    assert stack.metrics["PagesNotified"] == 1
    assert problems(stack) == []


def test_an_engine_is_notified_although_each_announcement_got_lost(stack: Stack, web: Engine) -> None:
    stack.sources.rules = [rule for rule in stack.sources.rules if "EnginesQueue" not in str(rule.targets)]
    web.pages["/flood"] = 200
    post(stack, "flood")
    wait(stack, 10)
    assert web.requests == []
    wait(stack, 60)
    assert web.urls == [operated.url("flood")]


# ── grants ──


@pytest.fixture(scope="module")
def asks(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Role, Ask]]:
    """What the roles are asked for while stories are published, edited and removed, and a page is missing."""
    with engine() as web, configured(SITE, tmp_path_factory.mktemp("asks")) as stack:
        web.pages["/flood"] = web.pages["/derby"] = 200
        with recorded_asks(stack) as recorded:
            post(stack, "flood")
            post(stack, "fire")
            stack.wire.faults.append(Fault("dynamodb", "GetItem", key="notified#"))
            wait(stack, 12)
            post(stack, "derby")
            post(stack, "flood", "article.unpublished")
            wait(stack, 30)
            web.pages["/fire"] = 200
            wait(stack, 20)
            stack.forget_clients()  # the next run begins like a cold start
            stack.sources.invoke(stack.functions["NotifyEngines"], {})
        assert not stack.wire.guard.refused
        fetch._rules.clear()
    return recorded


@pytest.mark.matrix
@pytest.mark.parametrize("grant", OF_ENGINES, ids=str)
def test_a_grant_of_notify_engines_that_is_taken_away_is_missed(
    grant: Grant, asks: list[tuple[Role, Ask]], tmp_path: Path
) -> None:
    assert roles_refused(asks, tmp_path, grant.taken_from) == {"NotifyEnginesRole"}


# ── what it costs ──


def test_a_site_without_engines_costs_a_read_of_its_configuration_and_no_page_is_fetched(
    tmp_path: Path, web: Engine
) -> None:
    with configured(operated.SITE, tmp_path) as stack:
        before = stack.client("s3").list_objects_v2(Bucket=stack.variable("BUCKET_NAME"))["Contents"]
        stack.wire.meter.calls.clear()
        post(stack, "flood")
        of_a_story = {call: times for call, times in stack.wire.meter.calls.items() if call[0] == "NotifyEngines"}
        # The functions of a local stack share the cache of documents. On AWS, each environment reads a document once.
        assert of_a_story == {("NotifyEngines", "dynamodb.GetItem"): 1}

        stack.wire.meter.calls.clear()
        wait(stack, 60)
        of_an_hour = {call: times for call, times in stack.wire.meter.calls.items() if call[0] == "NotifyEngines"}
        assert of_an_hour == {("NotifyEngines", "dynamodb.Query"): 1}  # the sweep lists the sites
        after = stack.client("s3").list_objects_v2(Bucket=stack.variable("BUCKET_NAME"))["Contents"]
        assert len(after) - len(before) == 1  # the shard
        assert web.paths == []
