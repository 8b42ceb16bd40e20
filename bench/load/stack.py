"""The stack that `make load` floods: the server of `stoppress up`, with faults in its AWS calls."""

import json
import random
import sys
import threading
import tomllib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import urllib3
from botocore.exceptions import ClientError
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.table import Table

from bench.load.flood import ANSWER_MAX_S
from bench.newsroom import HOST, SECRET
from stoppress_cli.local.server import Server
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION, find
from stoppress_cli.local.wire import Fault, Wire
from stoppress_cli.scenario import player
from stoppress_cli.scenario.file import parse

STEPS: list[dict[str, Any]] = [
    {"at": "2026-11-20T12:00:00Z", "secret": {"name": "newsroom", "value": SECRET}},
    {"site": {"host": HOST, "publication": "Example News", "sources": {"cms": {"secret": "newsroom"}}}},
]
# The faults of each function's calls, with their probability.
FAULTS: dict[str, list[dict[str, Any]]] = tomllib.loads(
    Path(__file__).with_name("faults.toml").read_text(encoding="utf-8")
)


@dataclass
class ChanceFault(Fault):
    """A fault that a function's calls meet at random, while faults are on."""

    function: str = ""
    chance: float = 0.0
    wire: Wire | None = None
    rng: random.Random = field(default_factory=random.Random)
    met: int = 0

    def matches(self, service: str, operation: str, request: Any) -> bool:
        assert self.wire is not None
        is_match = (service, operation) == (self.service, self.operation) and self.wire.thread.running == self.function
        fails = is_match and self.times > 0 and self.rng.random() < self.chance
        self.met += fails
        return fails

    def to_error(self, operation: str) -> ClientError:
        error = super().to_error(operation)
        if self.error == "TransactionCanceledException":
            error.response["CancellationReasons"] = [{"Code": "TransactionConflict"}]
        return error

    @property
    def kind(self) -> str:
        return f"{self.function} {self.operation} {self.error}{', though applied' if self.applied else ''}"


class FloodedStack:
    """The served stack, as a flood uses it. No function runs while its state is read or its clock advances."""

    def __init__(self, stack: Stack, server: Server, seed: int, factor: float) -> None:
        self.url = server.url
        self._stack, self._server = stack, server
        rng = random.Random(seed)
        self._faults = [
            ChanceFault(**fault | {"chance": min(1.0, fault["chance"] * factor)},
                        times=0, function=function, wire=stack.wire, rng=rng)
            for function, faults in FAULTS.items()
            for fault in faults
        ]  # fmt: skip
        stack.wire.faults += self._faults

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of a served page."""
        answer = urllib3.request("GET", self.url.rstrip("/") + path, headers={"host": HOST}, timeout=ANSWER_MAX_S)
        return answer.status, answer.data

    @contextmanager
    def _pausing(self) -> Iterator[None]:
        with self._server._drive, self._stack.sources.one_at_a_time:
            yield

    def set_faults(self, *, on: bool) -> None:
        """Turn the faults on or off."""
        for fault in self._faults:
            fault.times = sys.maxsize if on else 0

    def advance(self) -> None:
        """Advance the stack's clock by a minute, and stop it there."""
        with self._pausing():
            self._stack.advance(self._stack.clock.now() + player.MINUTE, every_schedule=True)

    def state(self) -> dict[str, Any]:
        """Return the waiting work, the faults that were met, and the batches that were retried."""
        with self._pausing():
            sources = self._stack.sources
            waiting = self._stack.waiting_messages()
            for mapping in sources.stream_mappings:
                if records := sum(len(batch.records) for batch in mapping._pending):
                    waiting[mapping.name] = records
            under_way = len(sources._events) + len(sources.invocations._waiting)
            quarantine = [part for key, part in self._table().items.items() if key.value.startswith("quarantine")]
            return {
                "waiting": waiting | ({"invocations": under_way} if under_way else {}),
                "met": {fault.kind: fault.met for fault in self._faults},
                "applied": sum(fault.met for fault in self._faults if fault.applied),
                "again": {
                    mapping.name: mapping.reported
                    for mapping in (*sources.queue_mappings, *sources.stream_mappings)
                    if mapping.reported
                },
                "refused": list(self._stack.wire.guard.refused),
                "quarantined": sum(map(len, quarantine)),
            }

    def _table(self) -> Table:
        return dynamodb_backends[ACCOUNT][REGION].get_table(self._stack.only("AWS::DynamoDB::Table").ref)


@contextmanager
def open_stack(seed: int, factor: float) -> Iterator[FloodedStack]:
    """Serve the stack as `stoppress up` does while the block runs. `factor`: how many times as often calls fail."""
    lines = parse([json.dumps(step) for step in STEPS], Path("load.jsonl"))
    with (
        Stack(find(None), start=lines[0].at) as stack,
        player.playing(stack, Path("load.jsonl"), Path("out"), lambda _line, _text: None) as scenario,
    ):
        scenario.play(lines)
        server = Server(stack, "127.0.0.1", 0)
        serving = threading.Thread(target=server.serve)
        serving.start()
        try:
            yield FloodedStack(stack, server, seed, factor)
        finally:
            server.stop()
            serving.join()
