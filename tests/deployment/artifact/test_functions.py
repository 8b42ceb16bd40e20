"""Each function as SAM builds it, under Lambda's own runtime client: the effect of its event is seen in the local stack.

Nothing is on its path but the built function, the built layer and what the runtime brings; its variables are the template's.
"""

import json
import re
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from stoppress.model.event import from_message
from stoppress.notify.service_account import ServiceAccount, assertion
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario.feeds_server import FeedServer
from stoppress_cli.scenario.file import FeedAnswer
from tests.deployment.artifact import builds, events_now, faults
from tests.deployment.artifact.runtime_api import Answer, aws_of, started
from tests.support import event_files
from tests.support.console import json_key

pytestmark = pytest.mark.artifact


@pytest.fixture(scope="module", autouse=True)
def built() -> Path:
    return builds.native()


@pytest.fixture
def stack() -> Iterator[Stack]:
    with event_files.first_site_stack(event_files.POLLED) as stack:
        yield stack


def invoke_built(
    stack: Stack, built: Path, log: Path, *names: str, feeds_port: int = 0, layer: Path | None = None
) -> list[Answer]:
    """Return a built function's answers to files' events, one after the other in one process."""
    function = stack.functions[event_files.function_of(names[0])]
    handler = f"{function._path.stem}.{function._attribute}"
    folders = [built / function.logical, layer or built / builds.LAYER, builds.RUNTIME]
    with (
        aws_of(stack) as variables,
        started(function, folders, log / "log", variables, handler=handler, feeds_port=feeds_port) as environment,
    ):
        return [environment.invoke(events_now.event(name)) for name in names]


def test_the_build_for_this_machine_has_no_fault(built: Path) -> None:
    assert faults.faults_of(built, builds.ROOT, builds.MACHINE) == []


def timeless(payload: object) -> str:
    """Return an answer without its numbers, because the page of a site contains the time."""
    return re.sub(r"\d+", "0", json.dumps(payload))


EVENTS = [
    event_files.WEBHOOK,
    event_files.RECORD,
    event_files.STREAM,
    event_files.REWRITES,
    event_files.ROLL,
    event_files.CHANGED,
    event_files.NIGHT,
    event_files.QUESTION,
    event_files.PUSH,
    event_files.EDITOR,
    event_files.HOURLY,
    event_files.ENGINES,
]


@pytest.mark.parametrize("name", EVENTS)
def test_a_built_function_behaves_like_its_source(name: str, built: Path, tmp_path: Path) -> None:
    """The expected effects are in tests/local_stack/test_events.py."""
    with event_files.prepared(name, events_now.event) as stack:
        source = stack.functions[event_files.function_of(name)].invoke(events_now.event(name))
        expected = event_files.outcome(stack)
    with event_files.prepared(name, events_now.event) as stack:
        [answer] = invoke_built(stack, built, tmp_path, name)

        assert source.error is None
        assert (answer.kind, timeless(answer.payload)) == ("response", timeless(source.payload))
        assert event_files.outcome(stack) == expected


def test_poll_feeds_sends_the_entries_of_a_feed(stack: Stack, built: Path, tmp_path: Path) -> None:
    item = "<item><guid>g1</guid><link>https://www.example.com/a</link><title>A</title></item>"
    rss = f'<rss version="2.0"><channel>{item}</channel></rss>'
    with FeedServer().running() as server:
        server.set(event_files.POLLED, FeedAnswer(headers={"content-type": "application/rss+xml"}, body=rss.encode()))
        [answer] = invoke_built(stack, built, tmp_path, event_files.POLL, feeds_port=server.port)
    assert answer == Answer("response", None)
    [message] = event_files.on_queue(stack, "ArticlesQueue")
    assert from_message(message).title == "A"


def test_notify_engines_signs_with_the_library_that_was_built_for_it(built: Path) -> None:
    folders = [built / "NotifyEngines", built / builds.LAYER, builds.RUNTIME]
    code = (
        f"import sys; sys.path[:0] = {[str(folder) for folder in folders]!r}\n"
        "from datetime import UTC, datetime\n"
        "from stoppress.notify.service_account import ServiceAccount, assertion\n"
        "account = ServiceAccount.model_validate_json(sys.stdin.read())\n"
        "import cryptography; print(cryptography.__file__); print(assertion(account, datetime(2026, 11, 20, tzinfo=UTC)))"
    )
    done = subprocess.run(  # noqa: S603 - our own code
        [builds.python(), "-I", "-S", "-B", "-c", code], input=json_key(), capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [
        str(built / "NotifyEngines/cryptography/__init__.py"),
        assertion(ServiceAccount.model_validate_json(json_key()), datetime(2026, 11, 20, tzinfo=UTC)),
    ]


def test_every_function_of_the_template_has_a_test(stack: Stack) -> None:
    assert {event_files.function_of(name) for name in (event_files.POLL, *EVENTS)} == set(stack.functions)


# ── errors are those of Lambda ──


def test_a_function_without_its_layer_does_not_start(stack: Stack, built: Path, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    [answer] = invoke_built(stack, built, tmp_path, event_files.WEBHOOK, layer=tmp_path / "empty")
    assert answer.kind == "init/error"
    assert answer.payload["errorType"] == "Runtime.ImportModuleError"
    assert "No module named 'aws_lambda_powertools'" in answer.payload["errorMessage"]


def test_an_exception_of_a_function_is_an_error_of_its_invocation(stack: Stack, built: Path, tmp_path: Path) -> None:
    name = stack.variable("TABLE_NAME")
    stack.client("dynamodb").delete_table(TableName=name)
    [answer] = invoke_built(stack, built, tmp_path, event_files.ROLL)
    assert answer.kind == "error"
    assert answer.payload["errorType"] == "ExceptionGroup"
