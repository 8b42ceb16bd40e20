"""Search Console on the local stack: from a webhook to what Google made of the story, with Google on loopback."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress.notify import fetch, service_account
from stoppress.show import read_site
from stoppress.show.site import Access, stack_status
from stoppress.show.story import story_of
from stoppress_cli.commands.explain import as_lines as explained
from stoppress_cli.commands.status import as_lines as status_lines
from stoppress_cli.local.permissions import Ask, Permissions
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from tests.deployment.test_grants import SECRETS_OF_ENGINES
from tests.support import operated
from tests.support.console import Console, console, json_key
from tests.support.planting import recorded_asks, roles_refused

pytestmark = pytest.mark.moto

HOST = operated.HOST
SITE: dict[str, Any] = operated.SITE | {
    "engines": {"search_console": {"property": f"https://{HOST}/", "secret": "google"}}
}
MINUTE = timedelta(minutes=1)


@pytest.fixture
def google() -> Iterator[Console]:
    fetch._rules.clear()
    service_account.forget()
    with console() as running:
        yield running
    fetch._rules.clear()
    service_account.forget()


@pytest.fixture
def stack(tmp_path: Path, google: Console) -> Iterator[Stack]:
    with operated.operated([{"site": SITE}], tmp_path) as running:
        yield running


def put_key(stack: Stack) -> None:
    name = f"{stack.variable('SECRETS_PATH')}/engines/{HOST}/google"
    stack.client("secretsmanager").create_secret(Name=name, SecretString=json_key())


def publish(stack: Stack, story: str) -> None:
    operated.publish(stack, story, story)
    stack.rest()


def wait(stack: Stack, minutes: int) -> None:
    for _ in range(0, minutes, 5):
        stack.advance(stack.clock.now() + 5 * MINUTE)


def test_a_story_is_notified_and_inspected_twice_and_the_sitemaps_are_submitted_and_read(
    stack: Stack, google: Console
) -> None:
    put_key(stack)
    google.answers["inspection"] = ["unknown page", "indexed"]
    publish(stack, "flood")
    wait(stack, 10)
    assert google.inspected == []
    wait(stack, 10)
    assert google.inspected == [operated.url("flood")]

    wait(stack, 7 * 60)
    assert google.inspected == [operated.url("flood")] * 2
    assert len(google.of("PUT")) == len(google.of("GET")) == 2  # index and news
    assert (stack.metrics["PagesNotified"], stack.metrics["EnginesFailed"], stack.metrics["WorkFailed"]) == (1, 0, 0)
    assert stack.wire.guard.refused == []

    now = stack.clock.now()
    story = story_of(operated.url("flood"), None, now)
    assert {"crawled by Google", "found in Google's index"} < {stop.what for stop in story.way}
    assert any("Google says: Submitted and indexed" in line for line in explained(story))
    answer = stack_status(read_site.read_stack(HOST, now, None), now, Access("news"))
    assert answer.problems == ()
    assert len([line for line in status_lines(answer, in_detail=True) if "URLs, 0 errors, 2 warnings" in line]) == 2


def test_a_missing_key_is_in_status_and_everything_else_goes_on(stack: Stack, google: Console) -> None:
    publish(stack, "flood")
    wait(stack, 20)
    assert google.requests == []
    assert (stack.metrics["PagesNotified"], stack.metrics["EnginesFailed"]) == (1, 2)  # for sitemaps, and for the story
    now = stack.clock.now()
    [problem] = stack_status(read_site.read_stack(HOST, now, None), now, Access("news")).problems
    assert "Search Console returns no report: the secret" in problem.what

    put_key(stack)
    wait(stack, 25)
    assert google.inspected == [operated.url("flood")]
    now = stack.clock.now()
    assert stack_status(read_site.read_stack(HOST, now, None), now, Access("news")).problems == ()


def test_the_key_is_read_by_the_grant_for_keys_of_engines_which_covers_no_other_secret(
    stack: Stack, google: Console, tmp_path: Path
) -> None:
    put_key(stack)
    with recorded_asks(stack) as asks:
        publish(stack, "flood")
        wait(stack, 20)
    assert google.inspected == [operated.url("flood")]
    assert stack.wire.guard.refused == []
    assert roles_refused(asks, tmp_path, SECRETS_OF_ENGINES.taken_from) == {"NotifyEnginesRole"}

    permissions = Permissions(stack.resources.values())
    role = permissions.role_of("NotifyEngines")
    assert role
    names = [f"engines/{HOST}/google-AbCdEf", "engines/shared/google-AbCdEf", f"webhooks/{HOST}/newsroom-AbCdEf"]
    path = f"arn:aws:secretsmanager:{REGION}:{ACCOUNT}:secret:{stack.variable('SECRETS_PATH')}"
    read = [permissions.may(role, Ask("secretsmanager:GetSecretValue", f"{path}/{name}")) for name in names]
    assert read == [True, True, False]
