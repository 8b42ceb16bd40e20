"""The stack that `make load` floods: `stoppress up`'s server in a process of its own, with faults on its wire.

It is asked by lines of JSON on its input and answers each with one on its output: the weather, what waits, what is held in memory.
"""

import ctypes
import gc
import json
import random
import sys
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from types import FunctionType, ModuleType
from typing import Any

from botocore.exceptions import ClientError
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.table import Table
from moto.s3.models import s3_backends
from moto.sqs.models import sqs_backends
from pydantic import TypeAdapter

from stoppress_cli.local.server import Server
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION, find
from stoppress_cli.local.wire import LOCK, Fault, Wire
from stoppress_cli.scenario import player
from stoppress_cli.scenario.file import parse

# Of each call of a function how often what happens: nothing else of it, or (applied) all of it but the answer.
BAD = {
    "ReceiveWebhook": [
        ("sqs", "SendMessageBatch", "ServiceUnavailable", 0.02, False),
        ("sqs", "SendMessageBatch", "RequestThrottled", 0.02, False),
        ("sqs", "SendMessageBatch", "InternalFailure", 0.01, True),
    ],
    "RecordArticle": [
        ("dynamodb", "BatchGetItem", "ProvisionedThroughputExceededException", 0.01, False),
        ("dynamodb", "UpdateItem", "ThrottlingException", 0.01, False),
        ("dynamodb", "TransactWriteItems", "TransactionCanceledException", 0.04, False),
        ("dynamodb", "TransactWriteItems", "ThrottlingException", 0.01, False),
        ("dynamodb", "TransactWriteItems", "InternalServerError", 0.01, True),
    ],
    "RewriteSitemaps": [
        ("s3", "GetObject", "SlowDown", 0.01, False),
        ("s3", "PutObject", "SlowDown", 0.03, False),
        ("s3", "PutObject", "PreconditionFailed", 0.03, False),
        ("s3", "PutObject", "InternalError", 0.01, True),
        ("dynamodb", "BatchGetItem", "ThrottlingException", 0.01, False),
        ("dynamodb", "PutItem", "TransactionConflictException", 0.01, False),
        ("sqs", "SendMessageBatch", "ServiceUnavailable", 0.01, False),
    ],
}


@dataclass
class Weather(Fault):
    """A fault that befalls a function's calls by chance, as long as the weather is bad."""

    function: str = ""
    chance: float = 0.0
    wire: Wire | None = None
    dice: random.Random = field(default_factory=random.Random)
    met: int = 0

    def matches(self, service: str, operation: str, request: Any) -> bool:
        assert self.wire is not None
        named = (service, operation) == (self.service, self.operation) and self.wire.running == self.function
        happens = named and self.times > 0 and self.dice.random() < self.chance
        self.met += happens
        return happens

    def raised(self, operation: str) -> ClientError:
        error = super().raised(operation)
        if self.error == "TransactionCanceledException":
            error.response["CancellationReasons"] = [{"Code": "TransactionConflict"}]
        return error

    @property
    def kind(self) -> str:
        return f"{self.function} {self.operation} {self.error}{', though applied' if self.applied else ''}"


@dataclass
class LastPut(Fault):
    """Sees every call, and keeps when a file was last put."""

    at: float = 0.0

    def matches(self, service: str, operation: str, request: Any) -> bool:
        if (service, operation) == ("s3", "PutObject"):
            self.at = time.monotonic()
        return False


class Asked:
    """What the flood asks of its stack."""

    def __init__(self, stack: Stack, server: Server, seed: int, storm: float) -> None:
        self._stack, self._server = stack, server
        dice = random.Random(seed)
        self._bad = [
            Weather(service, operation, times=0, error=error, applied=applied, function=function,
                    chance=min(1.0, chance * storm), wire=stack.wire, dice=dice)
            for function, faults in BAD.items()
            for service, operation, error, chance, applied in faults
        ]  # fmt: skip
        self._last_put = LastPut("s3", "PutObject")
        stack.wire.faults += [self._last_put, *self._bad]

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        """One answer. No function runs meanwhile."""
        with self._server._drive, self._stack.sources.one_at_a_time:
            found: dict[str, Any] = getattr(self, asked.pop("do"))(**asked)
            return found

    def weather(self, bad: bool) -> dict[str, Any]:
        """Faults from now on, or none."""
        for fault in self._bad:
            fault.times = sys.maxsize if bad else 0
        return {}

    def later(self, seconds: float) -> dict[str, Any]:
        """The stack's clock goes ahead, and stands still from then on."""
        self._stack.advance(self._stack.clock.now() + player.MINUTE * (seconds / 60), every_schedule=True)
        return {}

    def state(self) -> dict[str, Any]:
        """What waits, what was met, and when a file was last put."""
        sources = self._stack.sources
        waiting = self._stack.waiting_messages()
        waiting |= {one.name: one.waiting for one in sources.stream_mappings if one.waiting}
        under_way = len(sources._events) + len(sources.invocations._waiting)
        return {
            "waiting": waiting | ({"invocations": under_way} if under_way else {}),
            "met": {fault.kind: fault.met for fault in self._bad},
            "applied": sum(fault.met for fault in self._bad if fault.applied),
            "last_put": self._last_put.at,
            "errors": {name: one.errors for name, one in self._stack.functions.items() if one.errors},
            "again": {one.name: one.reported for one in sources.mappings() if one.reported},
            "refused": list(self._stack.wire.guard.refused),
            "metrics": dict(self._stack.metrics),
        }

    def kept(self) -> dict[str, Any]:
        """What moto has to keep: items by kind, records of the stream."""
        table = self._table()
        items: Counter[str] = Counter()
        for key, partition in table.items.items():
            items[key.value.partition("#")[0]] += len(partition)
        return {"items": items, "stream records": len(table.stream_shard.items) if table.stream_shard else 0}

    def _table(self) -> Table:
        return dynamodb_backends[ACCOUNT][REGION].get_table(self._stack.only("AWS::DynamoDB::Table").ref)

    def held(self) -> dict[str, Any]:
        """Blocks of memory in use: those of what moto has to keep (items, messages, objects), all others, and of which kinds."""
        # Lines of a page's story go by their time to live, 30 days later; moto has none.
        with LOCK:
            items = self._table().items
            for key in [key for key in items if key.value.startswith("story#")]:
                del items[key]
        gc.collect()
        moto = blocks_of(
            [dynamodb_backends[ACCOUNT][REGION], sqs_backends[ACCOUNT][REGION], s3_backends[ACCOUNT]["aws"]]
        )
        kinds = Counter(type(one).__name__ for one in gc.get_objects())
        # What this look took goes back to the system, where its C library can do that (glibc).
        if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
            trim(0)
        return {"moto": moto, "others": sys.getallocatedblocks() - moto, "kinds": dict(kinds.most_common(12))}


def blocks_of(roots: list[Any]) -> int:
    """Blocks of memory of all that these lead to: one an object, and one more for entries or attributes."""
    seen: set[int] = set()
    left, blocks = [*roots], 0
    while left:
        one = left.pop()
        if id(one) in seen or isinstance(one, type | ModuleType | FunctionType):
            continue
        seen.add(id(one))
        blocks += 1 + (isinstance(one, dict | list | set) and bool(one)) + bool(type(one).__dictoffset__)
        left += gc.get_referents(one)
    return blocks


def main() -> None:
    """Serve until the input ends. The first line of the input: the seed, how much worse the weather is, the steps that make the site."""
    said = sys.stdout  # while a function runs, sys.stdout is its log
    begin = json.loads(sys.stdin.readline())
    lines = parse([json.dumps(step) for step in begin["steps"]], Path("load.jsonl"))
    with (
        Stack(find(None), start=lines[0].at) as stack,
        player.playing(stack, Path("load.jsonl"), Path("out"), lambda _line, _text: None) as one,
    ):
        one.play(lines)
        stack.come_due(every_schedule=True)  # all functions of each minute have run: what they load once is there
        # And what pydantic keeps, the last 16,384 short texts that it has read, is full.
        TypeAdapter(list[str]).validate_json(json.dumps([f"a text {number}" for number in range(100_000)]))
        server = Server(stack, "127.0.0.1", 0)
        asked = Asked(stack, server, begin["seed"], begin["storm"])
        serving = threading.Thread(target=server.serve)
        serving.start()
        said.write(json.dumps({"url": server.url}) + "\n")
        said.flush()
        for line in sys.stdin:
            said.write(json.dumps(asked.answer(json.loads(line))) + "\n")
            said.flush()
        server.stop()
        serving.join()


if __name__ == "__main__":
    main()
