"""Engines on the local stack: a story's page is checked, IndexNow is notified and Search Console queried, both on loopback."""

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress.notify import fetch_page, service_account
from stoppress.show import read_site
from stoppress.show.stack_status import Access, StackStatus, stack_status
from stoppress.show.story import Story, story_of
from stoppress_cli.commands.explain import as_lines as explained
from stoppress_cli.commands.status import as_lines as status_lines
from stoppress_cli.local.permissions import Ask, Permissions, Role
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.wire import Fault
from tests.deployment.test_grants import OF_ENGINES, Grant
from tests.support import operated
from tests.support.console import Console, console, json_key
from tests.support.planting import edited_resources, recorded_asks, roles_refused
from tests.support.printed import as_text

pytestmark = pytest.mark.moto

HOST = operated.HOST
KEY = "0f4b1c2d3e4f5a6b"
KEY_FILE = f"sitemap-indexnow-{KEY}.txt"
SEARCH_CONSOLE = {"property": f"https://{HOST}/", "secret": "google"}
SITE: dict[str, Any] = operated.SITE | {"engines": {"indexnow": {"key": KEY}, "search_console": SEARCH_CONSOLE}}
FLOOD = operated.url("flood")


@contextmanager
def engines() -> Iterator[Console]:
    """Run IndexNow, Google and the newsroom's site on loopback, without pages."""
    fetch_page._rules.clear()
    service_account.forget()
    with console() as running:
        running.pages = {}
        yield running
    fetch_page._rules.clear()
    service_account.forget()


@pytest.fixture
def web() -> Iterator[Console]:
    with engines() as running:
        yield running


@pytest.fixture
def stack(tmp_path: Path, web: Console) -> Iterator[Stack]:
    with configured(SITE, tmp_path) as running:
        yield running


@contextmanager
def configured(site: Mapping[str, Any], tmp_path: Path, **parameters: str) -> Iterator[Stack]:
    """Open a stack with this site and Google's key, whose functions have read the configuration."""
    with operated.operated([{"site": site}], tmp_path, parameters=parameters or None) as running:
        name = f"{running.variable('SECRETS_PATH')}/engines/{HOST}/google"
        running.client("secretsmanager").create_secret(Name=name, SecretString=json_key())
        wait(running, 2)
        yield running


def post(stack: Stack, story: str, kind: str = "article.published") -> None:
    """Send the webhook of a story, and have its files written."""
    at = f"{stack.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    operated.publish(stack, story, story, kind, published_at="2026-11-20T12:00:00Z", updated_at=at)
    stack.rest()


def wait(stack: Stack, minutes: int, step: int = 1) -> None:
    for _ in range(0, minutes, step):
        stack.advance(stack.clock.now() + timedelta(minutes=step))


def status(stack: Stack) -> StackStatus:
    now = stack.clock.now()
    return stack_status(read_site.read_stack(HOST, now, None), now, Access("news"))


def story(stack: Stack) -> Story:
    return story_of(FLOOD, None, stack.clock.now())


def test_an_engine_is_notified_of_a_story_and_after_ten_minutes_of_its_edit(stack: Stack, web: Console) -> None:
    web.pages = {"/flood": 200}
    post(stack, "flood")

    [(url, headers, body)] = web.of("indexnow")
    assert url == "https://api.indexnow.org/indexnow"
    assert headers["content-type"] == "application/json; charset=utf-8"
    location = f"https://{HOST}/{KEY_FILE}"
    assert json.loads(body) == {"host": HOST, "key": KEY, "keyLocation": location, "urlList": [FLOOD]}
    kept = stack.client("s3").get_object(Bucket=stack.variable("BUCKET_NAME"), Key=f"{HOST}/{KEY_FILE}")
    assert (kept["Body"].read(), kept["ContentType"]) == (KEY.encode(), "text/plain; charset=utf-8")
    assert "notified" in " ".join(stop.what for stop in story(stack).way)

    wait(stack, 1)
    post(stack, "flood")
    wait(stack, 9)
    assert web.notified == [FLOOD]
    wait(stack, 2)
    assert web.notified == [FLOOD] * 2
    wait(stack, 60, 5)
    assert web.notified == [FLOOD] * 2
    assert stack.metrics["PagesNotified"] == 2
    assert status(stack).problems == ()


def test_google_is_queried_twice_about_a_story_and_about_the_submitted_sitemaps(stack: Stack, web: Console) -> None:
    web.pages = {"/flood": 200}
    web.answers["inspection"] = ["unknown page", "indexed"]
    post(stack, "flood")
    wait(stack, 10, 5)
    assert web.inspected == []
    wait(stack, 10, 5)
    assert web.inspected == [FLOOD]

    wait(stack, 7 * 60, 5)
    assert web.inspected == [FLOOD] * 2
    assert len(web.of("PUT")) == 2  # index and news
    # The reports show no read of the story, so that the news sitemap's report is read six times an hour.
    assert 40 < len(web.of("GET")) <= 52
    assert (stack.metrics["EnginesFailed"], stack.metrics["WorkFailed"]) == (0, 0)
    assert stack.wire.guard.refused == []
    assert {"crawled by Google", "found in Google's index"} < {stop.what for stop in story(stack).way}
    assert re.search("Seen by Google: yes: .*Submitted and indexed", as_text(explained(story(stack))))
    lines = as_text(status_lines(status(stack), in_detail=True)).splitlines()
    assert len([line for line in lines if line.startswith("sitemap") and line.split()[-2:] == ["0", "2"]]) == 2


def test_without_indexnow_no_page_counts_as_notified_and_google_is_queried(tmp_path: Path, web: Console) -> None:
    web.pages = {"/flood": 200}
    with configured({**SITE, "engines": {"search_console": SEARCH_CONSOLE}}, tmp_path) as stack:
        post(stack, "flood")
        wait(stack, 20, 5)
        assert (web.notified, web.inspected) == ([], [FLOOD])
        assert stack.metrics["PagesNotified"] == 0
        assert "engines notified" not in [stop.what for stop in story(stack).way]


def test_an_engine_is_notified_of_a_ready_page_and_status_reports_a_missing_page(stack: Stack, web: Console) -> None:
    post(stack, "flood")
    wait(stack, 14)
    assert web.notified == []
    assert stack.metrics["PagesNotReady"] == 1
    [problem] = status(stack).problems
    assert "answers 404" in problem.what
    assert "/flood<" in operated.news(stack)
    assert "answers 404" in story(stack).not_notified

    web.pages = {"/flood": 200}
    wait(stack, 16)
    assert web.notified == [FLOOD]
    assert status(stack).problems == ()


# ── grants ──


@pytest.fixture(scope="module")
def asks(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Role, Ask]]:
    """Record the roles' requests while stories are published, edited and removed, and a page is missing."""
    with engines() as web, configured(SITE, tmp_path_factory.mktemp("asks")) as stack:
        web.pages = {"/flood": 200, "/derby": 200}
        with recorded_asks(stack) as recorded:
            post(stack, "flood")
            post(stack, "fire")
            stack.wire.faults.append(Fault("dynamodb", "GetItem", key="notified#"))
            wait(stack, 12)
            post(stack, "derby")
            post(stack, "flood", "article.unpublished")
            wait(stack, 30, 5)
            web.pages["/fire"] = 200
            wait(stack, 20, 5)
            stack.forget_clients()  # the next run is a cold start
            stack.sources.invoke(stack.functions["NotifyEngines"], {})
        assert not stack.wire.guard.refused
    return recorded


@pytest.mark.matrix
@pytest.mark.parametrize("grant", OF_ENGINES, ids=str)
def test_notify_engines_needs_each_of_its_grants(grant: Grant, asks: list[tuple[Role, Ask]]) -> None:
    assert roles_refused(asks, Permissions(edited_resources(grant.taken_from))) == {"NotifyEnginesRole"}


# ── cost ──


def test_a_site_without_engines_costs_a_read_of_its_configuration_and_no_fetch(tmp_path: Path, web: Console) -> None:
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


def test_a_stack_with_engines_no_sends_no_request_to_search_console_in_a_day(tmp_path: Path, web: Console) -> None:
    web.pages = {"/flood": 200}
    with configured(SITE, tmp_path, Engines="no") as stack:
        assert "NotifyEngines" not in stack.functions
        post(stack, "flood")
        assert "/flood<" in operated.news(stack)
        wait(stack, 24 * 60, 60)
        assert web.paths == []
