"""A model of AWS: the duration of the hops that one machine cannot measure, by the assumptions of hops.toml, on a simulated clock.

A function's calls, in their order, and its CPU come from a measured run.
"""

import math
import random
import tomllib
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import quantiles
from typing import Any

from bench.measuring import Run
from bench.wiring import wiring

SEED = 20_261_121
RUNS = 20_000
# The distance of the 99th percentile from the median in the standard normal distribution.
_Z99 = 2.3263

# The cold start of a function in milliseconds where none was measured: the slowest of docs/explanation/costs.md, rounded up.
COLD_UNMEASURED_MS = 450.0


@cache
def hops() -> dict[str, Any]:
    """Return the assumptions."""
    return tomllib.loads(Path(__file__).with_name("hops.toml").read_text(encoding="utf-8"))


@dataclass(frozen=True)
class Hop:
    """The duration of a hop: its median and 99th percentile in milliseconds."""

    p50_ms: float
    p99_ms: float

    def draw(self, rng: random.Random) -> float:
        """Return a random duration in milliseconds."""
        return self.p50_ms * math.exp(rng.gauss(0, math.log(self.p99_ms / self.p50_ms) / _Z99))


def hop(name: str) -> Hop:
    """Return a hop between functions, by its name in hops.toml."""
    return Hop(hops()[name]["p50_ms"], hops()[name]["p99_ms"])


@cache
def call(name: str) -> Hop:
    """Return the hop of a function's call, `service.Operation`."""
    calls = hops()["calls"]
    times = calls.get(name) or calls[f"{name.partition('.')[0]}.default"]
    return Hop(times["p50_ms"], times["p99_ms"])


def logical(folder: str) -> str:
    """Return a function's logical ID in the template by the name of its folder: RecordArticle for record_article."""
    return "".join(word.capitalize() for word in folder.split("_"))


def cpu_ms(run: Run) -> float:
    """Return the CPU of a run, scaled to the function's share of a processor."""
    processor = hops()["processor"]
    share = min(1.0, wiring().memory_mb[run.function] / float(processor["full_vcpu_mb"]))
    return run.cpu_ms / share / float(processor["vcpu_to_this_machine"])


def duration_ms(run: Run, rng: random.Random | None = None, until: str | None = None) -> float:
    """Return the duration of a run, or until the end of its last call of the kind `until`; without `rng`, from the medians."""
    calls = run.calls
    if until in calls:
        calls = calls[: len(calls) - calls[::-1].index(until)]
    return cpu_ms(run) + math.fsum(call(name).draw(rng) if rng else call(name).p50_ms for name in calls)


def event_to_file(
    runs: list[Run], cold_ms: dict[str, float], cold_share: float | None = None, *, index: bool = False
) -> tuple[float, float]:
    """Return p50 and p99, in seconds, from the CMS's request to the last PUT of the article's files, or of the index after them.

    `runs` are those of one event: the webhook, the recording, the rewriting, and the rewriting of the index.
    """
    rng = random.Random(SEED)
    share = hops()["cold"]["share"] if cold_share is None else cold_share
    [webhook] = [run for run in runs if run.function == "ReceiveWebhook"]
    [record] = [run for run in runs if run.function == "RecordArticle"]
    rewrite, *rewrites_after = [run for run in runs if run.function == "RewriteSitemaps"]

    def cold(run: Run) -> float:
        if rng.random() >= share:
            return 0.0
        return hop("cold").draw(rng) + cold_ms.get(run.function, COLD_UNMEASURED_MS)

    def stream() -> float:
        return hop("stream").draw(rng) + wiring().stream_window_ms

    times = []
    for _ in range(RUNS):
        took = hop("api").draw(rng) + cold(webhook) + duration_ms(webhook, rng, "sqs.SendMessageBatch")
        took += hop("queue").draw(rng) + wiring().queue_window_ms + cold(record)
        took += duration_ms(record, rng, "dynamodb.TransactWriteItems") + stream() + cold(rewrite)
        took += duration_ms(rewrite, rng, None if index else "s3.PutObject")
        for after in rewrites_after if index else ():
            took += stream() + duration_ms(after, rng, "s3.PutObject")
        times.append(took / 1_000)
    percentiles = quantiles(times, n=100)
    return percentiles[49], percentiles[98]


def puts_of_an_article(runs: list[Run], shards: int, window_ms: float) -> float:
    """Return the PUTs of one new article on average: its two files, and the index once or twice, with that many shards of the stream.

    The index is written twice if the marks of both files reach it in separate batches. The entries of the two files are in one
    batch if they are in one shard of the stream; one run then writes the files one after the other.
    """
    rng = random.Random(SEED)
    rewrite = next(run for run in runs if run.function == "RewriteSitemaps")
    one_file_ms = duration_ms(rewrite) / 2
    separate = 0
    for _ in range(RUNS):
        apart_ms = one_file_ms
        if rng.random() >= 1 / shards:
            apart_ms = abs(hop("stream").draw(rng) - hop("stream").draw(rng))
        poll_ms = rng.uniform(0, 1_000 / hops()["stream"]["polls_a_second"])
        separate += apart_ms > poll_ms + window_ms
    return 3 + separate / RUNS


def gb_seconds(runs: list[Run]) -> float:
    """Return the GB-seconds that Lambda bills for runs: their modelled duration times their memory."""
    return math.fsum(duration_ms(run) / 1_000 * wiring().memory_mb[run.function] / 1_024 for run in runs)
