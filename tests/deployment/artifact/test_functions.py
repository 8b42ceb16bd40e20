"""Each function as SAM builds it, under Lambda's own runtime client: the effect of its event is seen in the local stack.

Nothing is on its path but the built function, the built layer and what the runtime brings; its variables are the template's.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from stoppress.aws import secrets, sites
from stoppress.aws.items import mark_item
from stoppress.model.entries import Mark
from stoppress.model.event import from_message
from stoppress.notify import service_account
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario.feed_answer import FeedAnswer
from stoppress_cli.scenario.feeds_server import FeedServer
from tests.deployment.artifact import builds, events_now, faults
from tests.deployment.artifact.runtime_api import Answer, aws_of, started
from tests.support.console import private_key
from tests.support.event_files import (
    CHANGED,
    EDITOR,
    ENGINES,
    FEED as PUSHED_FEED,
    HOST,
    HOURLY,
    NIGHT,
    POLL,
    PUSH,
    QUESTION,
    RECORD,
    REWRITES,
    ROLL,
    STREAM,
    WEBHOOK,
    WINDOW,
    apply,
    first_site_stack,
    function_of,
    items,
    objects,
    on_queue,
    put,
    put_news,
    put_subscription,
)

pytestmark = pytest.mark.artifact

FEED = f"http://{HOST}/rss.xml"


@pytest.fixture(scope="module", autouse=True)
def built() -> Path:
    return builds.native()


@pytest.fixture
def stack() -> Iterator[Stack]:
    with first_site_stack(FEED) as made:
        yield made


def answered(
    stack: Stack,
    built: Path,
    log: Path,
    *names: str,
    feeds_port: int = 0,
    layer: Path | None = None,
    handler: str | None = None,
) -> list[Answer]:
    """What a built function answers to files' events, one after the other in one process."""
    function = stack.functions[function_of(names[0])]
    handler = handler or f"{function._path.stem}.{function._attribute}"
    folders = [built / function.logical, layer or built / builds.LAYER, builds.RUNTIME]
    with (
        aws_of(stack) as variables,
        started(function, folders, log / "log", variables, handler=handler, feeds_port=feeds_port) as environment,
    ):
        return [environment.invoke(events_now.event(name)) for name in names]


def test_the_build_for_this_machine_has_no_fault(built: Path) -> None:
    assert faults.faults_of(built, builds.ROOT, builds.MACHINE) == []


@contextmanager
def prepared(name: str) -> Iterator[Stack]:
    """A stack on which the event of a file has something to do."""
    sites.forget()  # a function of this process keeps a configuration for a minute
    secrets.forget()
    with first_site_stack(PUSHED_FEED if name in (QUESTION, PUSH) else FEED) as made:
        if name in (QUESTION, PUSH):
            put_subscription(made)
        if name in (STREAM, REWRITES, CHANGED):
            apply(made, events_now.event(STREAM))
        if name == CHANGED:
            put(made, mark_item(HOST, Mark("sitemap-2026-11.xml", datetime.now(UTC), 3, 500, "digest")))
        if name == ROLL:
            now = datetime.now(UTC)
            put_news(made, {"expired": now - WINDOW, "fresh": now - WINDOW + timedelta(hours=1)})
        yield made


def outcome(stack: Stack) -> tuple[dict[str, int], list[str], dict[str, int]]:
    """How many items of each kind there are, which files, and how many messages on each queue."""
    queues = ("ArticlesQueue", "RewritesQueue", "EnginesQueue")
    kinds = {kind: len(found) for kind, found in items(stack).items()}
    return kinds, sorted(objects(stack)), {name: len(on_queue(stack, name)) for name in queues}


def timeless(payload: object) -> str:
    """An answer without its numbers: the page of a site says when it was read."""
    return re.sub(r"\d+", "0", json.dumps(payload))


EVENTS = [WEBHOOK, RECORD, STREAM, REWRITES, ROLL, CHANGED, NIGHT, QUESTION, PUSH, EDITOR, HOURLY, ENGINES]


@pytest.mark.parametrize("name", EVENTS)
def test_a_built_function_answers_and_does_what_its_source_does(name: str, built: Path, tmp_path: Path) -> None:
    """tests/local_stack/test_events.py says what that is."""
    with prepared(name) as stack:
        source = stack.functions[function_of(name)].invoke(events_now.event(name))
        expected = outcome(stack)
    with prepared(name) as stack:
        [answer] = answered(stack, built, tmp_path, name)

        assert source.error is None
        assert (answer.kind, timeless(answer.payload)) == ("response", timeless(source.payload))
        assert outcome(stack) == expected


def test_poll_feeds_sends_the_entries_of_a_feed(stack: Stack, built: Path, tmp_path: Path) -> None:
    item = "<item><guid>g1</guid><link>https://www.example.com/a</link><title>A</title></item>"
    rss = f'<rss version="2.0"><channel>{item}</channel></rss>'
    with FeedServer().running() as server:
        server.set(FEED, FeedAnswer(headers={"content-type": "application/rss+xml"}, body=rss.encode()))
        [answer] = answered(stack, built, tmp_path, POLL, feeds_port=server.port)
    assert answer == Answer("response", None)
    [message] = on_queue(stack, "ArticlesQueue")
    assert from_message(message).title == "A"


def test_notify_engines_signs_with_the_library_that_was_built_for_it(built: Path) -> None:
    folders = [built / "NotifyEngines", built / builds.LAYER, builds.RUNTIME]
    code = (
        f"import sys; sys.path[:0] = {[str(folder) for folder in folders]!r}\n"
        "from stoppress.notify.service_account import sign\n"
        "import cryptography; print(cryptography.__file__); print(sign(sys.stdin.read(), b'text').hex())"
    )
    done = subprocess.run(  # noqa: S603 - our own code
        [builds.python(), "-I", "-S", "-B", "-c", code],
        input=private_key(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        str(built / "NotifyEngines/cryptography/__init__.py"),
        service_account.sign(private_key(), b"text").hex(),
    ]


def test_every_function_of_the_template_is_run_here(stack: Stack) -> None:
    assert {function_of(name) for name in (POLL, *EVENTS)} == set(stack.functions)


# ── what goes wrong on Lambda goes wrong here ──


def test_a_function_without_its_layer_does_not_start(stack: Stack, built: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    [answer] = answered(stack, built, tmp_path, WEBHOOK, layer=tmp_path / "empty")
    assert answer.kind == "init/error"
    assert answer.payload["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'aws_lambda_powertools'" in answer.payload["errorMessage"]


def test_a_function_with_another_handler_does_not_start(stack: Stack, built: Path, tmp_path: Path) -> None:
    [answer] = answered(stack, built, tmp_path, WEBHOOK, handler="app.handler")
    assert answer.kind == "init/error"
    assert answer.payload["errorType"] == "Runtime.HandlerNotFound"


def test_what_a_function_raises_is_an_error_of_its_invocation(stack: Stack, built: Path, tmp_path: Path) -> None:
    name = stack.variable("TABLE_NAME")
    stack.client("dynamodb").delete_table(TableName=name)
    [answer] = answered(stack, built, tmp_path, ROLL)
    assert answer.kind == "error"
    assert answer.payload["errorType"] == "ExceptionGroup"
