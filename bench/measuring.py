"""Counts of the functions' work between two instants: calls by kind, capacity units by call, bytes, and CPU of our code.

The doubles' time is excluded: moto and the meter, the permissions' guard, and the log that sums metrics. The rest is the
functions' code with Powertools, pydantic and botocore, which builds, signs and parses its requests as on Lambda. The cost of
sending over a network is not included.
"""

import gc
import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import ceil
from typing import Any
from unittest import mock

from moto.core.botocore_stubber import BotocoreStubber

from stoppress.aws.queues import BATCH_MESSAGES_MAX
from stoppress_cli.local.guard import Guard
from stoppress_cli.local.lambda_functions import Function, Output
from stoppress_cli.local.stack import Stack

# Lambda's pollers are billed: they receive and delete at most 10 messages a request, so a larger batch takes several requests.
SQS_REQUESTS_A_BATCH = 2


@dataclass
class Run:
    """One invocation: the function, the number of records in its event, its calls in order, and its CPU."""

    function: str
    records: int
    calls: list[str] = field(default_factory=list)
    cpu_ms: float = 0


@dataclass
class Measured:
    """The counts of a measurement."""

    calls: Counter[str] = field(default_factory=Counter)  # "service.Operation"
    read_units: float = 0
    write_units: float = 0
    invocations: Counter[str] = field(default_factory=Counter)
    runs: list["Run"] = field(default_factory=list)  # in order
    batches: int = 0  # of at most 10 messages, delivered by queues to functions
    bytes_put: int = 0
    bytes_got: int = 0
    cpu_ms: float = 0
    log_bytes: int = 0
    metrics: set[tuple[str, ...]] = field(default_factory=set)  # custom metrics reported: name and dimensions

    def __sub__(self, other: "Measured") -> "Measured":
        """Return the counts less those of `other`. Of the runs, only those of functions that `other` does not have remain."""
        functions = {run.function for run in other.runs}
        runs = [run for run in self.runs if run.function not in functions]
        counts = {name: value - getattr(other, name) for name, value in vars(self).items() if name != "runs"}
        return Measured(runs=runs, **counts)

    @property
    def puts(self) -> int:
        return self.calls["s3.PutObject"]

    @property
    def other_s3(self) -> int:
        return sum(count for name, count in self.calls.items() if name.startswith("s3.")) - self.puts

    @property
    def bytes(self) -> int:
        """Return the bytes that S3 received and sent."""
        return self.bytes_put + self.bytes_got

    @property
    def sqs_requests(self) -> int:
        """Return the requests that SQS bills, those of Lambda's pollers included."""
        sent = sum(count for name, count in self.calls.items() if name.startswith("sqs."))
        return sent + self.batches * SQS_REQUESTS_A_BATCH


@dataclass
class _Stopwatch:
    """The CPU seconds of this thread inside the wrapped functions; nested calls count once."""

    seconds: float = 0
    depth: int = 0

    def around(self, function: Callable[..., Any]) -> Callable[..., Any]:
        def timed(*args: Any, **kwargs: Any) -> Any:
            if self.depth:
                return function(*args, **kwargs)
            self.depth += 1
            began = time.thread_time()
            try:
                return function(*args, **kwargs)
            finally:
                self.seconds += time.thread_time() - began
                self.depth -= 1

        return timed


@contextmanager
def measuring(stack: Stack) -> Iterator[Measured]:
    """Measure what the stack's functions do while the block runs."""
    measured = Measured()
    meters = stack.wire.meter
    before, put, got = meters.operations(), meters.s3_bytes_put, meters.s3_bytes_got
    read, written = meters.read_units, meters.write_units
    doubles, invoke = _Stopwatch(), Function.invoke

    def invoke_measured(function: Function, event: Any) -> Any:
        measured.invocations[function.logical] += 1
        records = event.get("Records", []) if isinstance(event, dict) else []
        if records and records[0].get("eventSource") == "aws:sqs":
            measured.batches += ceil(len(records) / BATCH_MESSAGES_MAX)
        run = Run(function.logical, len(records))
        measured.runs.append(run)
        began, doubled = time.thread_time(), doubles.seconds
        try:
            return invoke(function, event)
        finally:
            run.cpu_ms = (time.thread_time() - began - (doubles.seconds - doubled)) * 1_000
            measured.cpu_ms += run.cpu_ms

    write = doubles.around(Output.write)

    def write_measured(output: Output, text: str) -> Any:
        measured.log_bytes += len(text.encode())
        if '"_aws"' in text:
            measured.metrics |= _metrics(json.loads(text))
        return write(output, text)

    answer = doubles.around(BotocoreStubber.__call__)

    def answer_measured(stubber: BotocoreStubber, event_name: str, request: Any, **kwargs: Any) -> Any:
        if stack.wire.thread.running is not None and measured.runs:
            measured.runs[-1].calls.append(event_name.partition(".")[2])
        return answer(stubber, event_name, request, **kwargs)

    with (
        mock.patch.object(Function, "invoke", invoke_measured),
        mock.patch.object(BotocoreStubber, "__call__", answer_measured),
        mock.patch.object(Guard, "check", doubles.around(Guard.check)),
        mock.patch.object(Output, "write", write_measured),
    ):
        gc.freeze()  # garbage collection of moto's tables must not count as a function's time
        try:
            yield measured
        finally:
            gc.unfreeze()
    measured.calls = meters.operations() - before
    measured.read_units, measured.write_units = meters.read_units - read, meters.write_units - written
    measured.bytes_put, measured.bytes_got = meters.s3_bytes_put - put, meters.s3_bytes_got - got


def _metrics(line: dict[str, Any]) -> set[tuple[str, ...]]:
    """Return the custom metrics that a line in CloudWatch's embedded metric format reports."""
    return {
        (metric["Name"], *(f"{name}={line[name]}" for name in dimensions))
        for group in line["_aws"]["CloudWatchMetrics"]
        for dimensions in group["Dimensions"]
        for metric in group["Metrics"]
    }
