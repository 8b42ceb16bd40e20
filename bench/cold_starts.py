"""How long a cold start takes: `make cold`. A measurement, no test.

From the start of the process to the first answer under Lambda's own runtime client, each function with the event of its file,
beside a function that makes the same boto3 clients and does nothing else; with the layer as it is built, and with the layer that
SAM's own builder would make, without compiled modules. Calls go to the local stack, so that their time is this machine's too.
"""

import shutil
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from unittest import mock

import pytest

from stoppress_cli.local.server import Server
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario.feeds_server import FeedServer
from tests.deployment.artifact import builds, events_now
from tests.deployment.artifact.runtime_api import aws_of, started
from tests.support import event_files

ROUNDS = 11
EVENTS = (
    event_files.WEBHOOK, event_files.POLL, event_files.PUSH, event_files.RECORD, event_files.STREAM, event_files.ROLL,
    event_files.NIGHT,
)  # fmt: skip
BARE = """import boto3

CLIENTS = [boto3.client(service) for service in {services}]


def lambda_handler(event, context):
    return None
"""


@contextmanager
def services_called() -> Iterator[set[str]]:
    """The services that are called at the served endpoint while the block runs, by the name they are signed for."""
    called: set[str] = set()
    endpoint = Server._aws_endpoint

    def overheard(self: Server, environ: Any, start_response: Any) -> Any:
        called.add(environ["HTTP_AUTHORIZATION"].split("/")[3])
        return endpoint(self, environ, start_response)

    with mock.patch.object(Server, "_aws_endpoint", overheard):
        yield called


def milliseconds(stack: Stack, variables: dict[str, str], name: str, folders: list[Path], feeds_port: int) -> float:
    """From the start of a process to its first answer."""
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
def stack_for(name: str) -> Iterator[Stack]:
    """The stack in which a function finds what its event is about."""
    feed = event_files.FEED if name == event_files.PUSH else f"http://{event_files.HOST}/rss.xml"
    with event_files.first_site_stack(feed) as stack:
        if name == event_files.STREAM:
            event_files.apply(stack, events_now.event(name))
        if name == event_files.PUSH:
            event_files.put_subscription(stack)
        yield stack


def measured(name: str, compiled: Path, scratch: Path, feeds_port: int) -> tuple[list[str], list[float]]:
    """The services that a function calls, and the medians: bare clients, the layer not compiled, compiled."""
    own = builds.native() / event_files.function_of(name)
    uncompiled, bare = scratch / "python", scratch / own.name
    with stack_for(name) as stack, aws_of(stack) as variables:
        as_built = [own, compiled, builds.RUNTIME]
        milliseconds(stack, variables, name, as_built, feeds_port)  # what it finds is the same from here on
        with services_called() as called:  # and so are the clients that it makes
            milliseconds(stack, variables, name, as_built, feeds_port)
        services = sorted(called)
        bare.mkdir()
        (bare / "app.py").write_text(BARE.format(services=services))
        variants = ([bare, builds.RUNTIME], [own, uncompiled, builds.RUNTIME], as_built)
        rounds = [
            [milliseconds(stack, variables, name, folders, feeds_port) for folders in variants] for _ in range(ROUNDS)
        ]
    return services, [median(column) for column in zip(*rounds, strict=True)]


def table(rows: Iterable[tuple[str, list[str], list[float]]]) -> Iterator[str]:
    """Lines of the table, one a function."""
    yield f"{'function':18}{'bare clients':>14}{'not compiled':>14}{'compiled':>10}   of"
    for logical, services, (bare, uncompiled, compiled) in rows:
        times = f"{compiled / bare:.1f} times as long"
        yield f"{logical:18}{bare:11.0f} ms{uncompiled:11.0f} ms{compiled:7.0f} ms   {', '.join(services)}: {times}"


def main() -> None:
    """Print the table; some minutes."""
    try:
        compiled = builds.native() / builds.LAYER
    except pytest.skip.Exception as reason:
        sys.exit(str(reason))
    builds.python()
    with tempfile.TemporaryDirectory() as folder, FeedServer().running() as feeds:
        scratch = Path(folder)
        shutil.copytree(compiled, scratch / "python", ignore=shutil.ignore_patterns("__pycache__"))
        for line in table(
            (event_files.function_of(name), *measured(name, compiled, scratch, feeds.port)) for name in EVENTS
        ):
            print(line, flush=True)


if __name__ == "__main__":
    main()
