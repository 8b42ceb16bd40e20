"""The duration of a cold start: `make cold`. A measurement, not a test.

Each function handles the event of its file under Lambda's own runtime client, from the start of the process to the first response.
For comparison, a function that only creates the same boto3 clients is measured too. The layer is measured as built, and as SAM's
builder would build it, without compiled modules. Calls go to the local stack, so their time is that of this machine.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import pytest

from bench import report
from stoppress_cli.local.server import Server
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario.feeds_server import FeedServer
from tests.deployment.artifact import builds, events_now
from tests.deployment.artifact.runtime_api import aws_of, started
from tests.support import event_files

ROUNDS = 5
EVENTS = (
    event_files.WEBHOOK, event_files.POLL, event_files.PUSH, event_files.RECORD, event_files.STREAM, event_files.ROLL,
    event_files.NIGHT,
)  # fmt: skip
BARE = """import boto3

CLIENTS = [boto3.client(service) for service in {services}]


def lambda_handler(event, context):
    return None
"""


def measure(quick: bool) -> dict[str, Any]:
    """Return each function's cold start and its ratio to the bare clients, and the layer's size, in the form of results.json."""
    if quick:
        return {"cold_start": {}}
    try:
        compiled = builds.native() / builds.LAYER
        builds.python()
    except pytest.skip.Exception as reason:
        return {"cold_start": {}, "skipped": {"cold starts": str(reason)}}
    except AssertionError as error:
        return {"cold_start": {}, "skipped": {"cold starts": str(error).strip().splitlines()[-1]}}
    rows: dict[str, dict[str, float]] = {}
    more: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory() as folder, FeedServer().running() as feeds:
        scratch = Path(folder)
        shutil.copytree(compiled, scratch / "python", ignore=shutil.ignore_patterns("__pycache__"))
        for event in EVENTS:
            bare, uncompiled, ours = _measure_function(event, compiled, scratch, feeds.port)
            logical = event_files.function_of(event)
            name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in logical).lstrip("_")
            rows[name] = {"ms": round(ours, 1), "ratio": round(ours / bare, 2)}
            more[name] = {"bare_ms": round(bare, 1), "not_compiled_ms": round(uncompiled, 1)}
    size_bytes = sum(path.stat().st_size for path in compiled.rglob("*") if path.is_file())
    return {"cold_start": rows, "more": {"cold_start": more | {"layer": {"mib": round(size_bytes / 2**20, 1)}}}}


@contextmanager
def _services_called() -> Iterator[set[str]]:
    """Collect the services that are called at the served endpoint while the block runs, by the name they are signed for."""
    called: set[str] = set()
    endpoint = Server._aws_endpoint

    def note_service(self: Server, environ: Any, start_response: Any) -> Any:
        called.add(environ["HTTP_AUTHORIZATION"].split("/")[3])
        return endpoint(self, environ, start_response)

    with mock.patch.object(Server, "_aws_endpoint", note_service):
        yield called


def _milliseconds(stack: Stack, variables: dict[str, str], name: str, folders: list[Path], feeds_port: int) -> float:
    """Return the milliseconds from the start of a process to its first response."""
    event, function = events_now.event(name), stack.functions[event_files.function_of(name)]
    before = time.perf_counter()
    with (
        tempfile.NamedTemporaryFile() as log,
        started(
            function, folders, Path(log.name), variables, handler="app.lambda_handler", feeds_port=feeds_port
        ) as environment,
    ):
        answer = environment.invoke(event)
        took = time.perf_counter() - before
    if answer.kind != "response":
        sys.exit(f"{function.logical} ended in {answer.kind}: {answer.payload}")
    return took * 1000


@contextmanager
def _stack_for(name: str) -> Iterator[Stack]:
    """Yield a stack with the items that a function's event refers to."""
    feed = event_files.FEED if name == event_files.PUSH else f"http://{event_files.HOST}/rss.xml"
    with event_files.first_site_stack(feed) as stack:
        if name == event_files.STREAM:
            event_files.apply(stack, events_now.event(name))
        if name == event_files.PUSH:
            event_files.put_subscription(stack)
        yield stack


def _measure_function(name: str, compiled: Path, scratch: Path, feeds_port: int) -> list[float]:
    """Return the median milliseconds of a function: bare clients, the layer not compiled, compiled."""
    own = builds.native() / event_files.function_of(name)
    uncompiled, bare = scratch / "python", scratch / own.name
    with _stack_for(name) as stack, aws_of(stack) as variables:
        as_built = [own, compiled, builds.RUNTIME]
        _milliseconds(stack, variables, name, as_built, feeds_port)  # later runs find the same items
        with _services_called() as called:  # and create the same clients
            _milliseconds(stack, variables, name, as_built, feeds_port)
        bare.mkdir()
        (bare / "app.py").write_text(BARE.format(services=sorted(called)))
        variants = ([bare, builds.RUNTIME], [own, uncompiled, builds.RUNTIME], as_built)
        rounds = [
            [_milliseconds(stack, variables, name, folders, feeds_port) for folders in variants] for _ in range(ROUNDS)
        ]
    return [median(column) for column in zip(*rounds, strict=True)]


def main() -> None:
    """Measure and print, which takes some minutes."""
    measured = measure(quick=False)
    if "skipped" in measured:
        sys.exit(measured["skipped"]["cold starts"])
    report.show("cold_starts", measured)


if __name__ == "__main__":
    main()
