"""`make bench` and `make bench-quick`: measure, print, and (in full) write results.json, the README's table and the picture."""

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from bench import (
    bursts,
    cold,
    cost,
    dynamodb_local,
    machine,
    model,
    peers as fetched,
    prices,
    rendering,
    report,
    webhooks,
)
from bench.archive import archive, shape
from bench.peers import Peers

T = TypeVar("T")

# How often an event's CPU is measured at each archive: medians count.
ROUNDS = 3
QUICK_ARCHIVES = (0, 1_000, 1_000_000)
QUICK_BURSTS = (1, 100)
QUICK_REPEATS = {"50k": 1, "1k_": 5}
QUICK_CASES = frozenset({"50k_plain", "50k_gzip", "1k_news", "zlib6_alone"})


class Bench:
    """One run: what was found so far, and what could not be measured here."""

    def __init__(self, *, quick: bool) -> None:
        self.quick = quick
        self.found: dict[str, Any] = machine.described()
        self.more: dict[str, Any] = {}
        self.skipped: dict[str, str] = {}
        self.runs: list[Any] = []  # of one new article at the largest archive

    def run(self) -> dict[str, Any]:
        """Measure everything; the document of results.json."""
        peers = Peers() if self.quick else self._timed("fetching the peers", fetched.fetch)
        self.skipped |= peers.skipped
        self._timed("cost of one event", self._cost)
        self._timed("bursts", self._bursts)
        self._timed("rendering", lambda: self._rendering(peers))
        self.found["webhook"] = self._timed("webhooks", self._webhooks)
        self.found["cold_start"] = {} if self.quick else self._timed("cold starts", self._cold_starts)
        if not self.quick and peers.dynamodb_local:
            self._timed("DynamoDB Local", lambda: self._dynamodb_local(peers))
        self._latency()
        return self.found | {
            "skipped": {name: _placeless(said) for name, said in self.skipped.items()},
            "more": self.more,
        }

    def _timed(self, what: str, work: Callable[[], T]) -> T:
        began = time.perf_counter()
        done = work()
        report.progress(f"{what}: {time.perf_counter() - began:.0f} s")
        return done

    def _cost(self) -> None:
        archives, rounds = (QUICK_ARCHIVES, 1) if self.quick else (cost.ARCHIVES, ROUNDS)
        by_archive = {urls: cost.at_archive(urls, rounds) for urls in archives}
        self.found["cost"] = {
            event: {str(urls): costs[event].row() for urls, costs in by_archive.items()} for event in cost.EVENTS
        }
        largest = by_archive[archives[-1]]
        self.runs = largest["new"].counted.runs
        self.more["cost"] = {
            event: {
                "sqs_requests": found.counted.sqs_requests,
                "invocations": sum(found.counted.invocations.values()),
                "dollars_a_million": prices.million_events(found.counted),
                "units_by_call": [
                    {"function": function, "call": call, "of": of, "read": read, "written": written}
                    for function, call, of, read, written in found.counted.units
                ],
            }
            for event, found in largest.items()
        }
        with archive(shape(1_000)) as one:
            cost.warm(one.stack)
            idle = cost.idle_minute(one.stack)
        self.more["idle_minute"] = {
            "read_units": idle.read_units,
            "write_units": idle.write_units,
            "cpu_ms": round(idle.cpu_ms, 1),
        }
        if not self.quick:
            self.more["worst"] = {event: found.row() for event, found in cost.at_worst(1).items()}

    def _bursts(self) -> None:
        found = [bursts.burst(articles) for articles in (QUICK_BURSTS if self.quick else bursts.ARTICLES)]
        self.found["burst"] = {str(one.articles): one.row() for one in found}
        self.more["burst"] = {str(one.articles): one.more() for one in found}
        if self.quick:
            return
        storm, feeds, feed = bursts.storm(), bursts.feeds_at_once(), bursts.feed_of_a_hundred()
        self.more["correction_storm"] = {"edits": storm.articles} | storm.row() | storm.more()
        self.more["feeds_at_once"] = {
            "feeds": bursts.FEEDS,
            "puts": feeds.puts,
            "write_units": feeds.write_units,
            "read_units": feeds.read_units,
            "poll_cpu_ms": round(feeds.cpu_of["PollFeeds"], 1),
        }
        self.more["feed_of_a_hundred"] = {"poll_cpu_ms": round(feed.cpu_of["PollFeeds"], 1)}

    def _rendering(self, peers: Peers) -> None:
        ours, others, tried = rendering.measure(peers, *((QUICK_REPEATS, QUICK_CASES) if self.quick else ()))
        kept = ("cpu_ms", "peak_mib", "bytes")
        self.found["render"] = {case: {name: row[name] for name in kept} for case, row in ours.items()}
        self.found["peers"] = {
            peer: {case: {name: row[name] for name in kept} for case, row in cases.items()}
            for peer, cases in others.items()
        }
        self.more["tried"] = tried
        self.found["versions"] |= {peer: next(iter(cases.values()))["version"] for peer, cases in others.items()}

    def _webhooks(self) -> dict[str, float]:
        rates = webhooks.per_second()
        self.more["webhook"] = {"handler_per_second": rates["handler_per_second"]}
        return {"per_second": rates["per_second"]}

    def _cold_starts(self) -> dict[str, Any]:
        try:
            found, self.more["cold_start"] = cold.measure()
        except cold.CannotBuild as reason:
            self.skipped["cold starts"] = str(reason)
            return {}
        return found

    def _dynamodb_local(self, peers: Peers) -> None:
        assert peers.dynamodb_local
        try:
            self.more["dynamodb_local"] = dynamodb_local.compare(peers.dynamodb_local)
        except RuntimeError as error:
            self.skipped["DynamoDB Local"] = str(error)

    def _latency(self) -> None:
        cold_ms = {model.logical(name): found["ms"] for name, found in self.found["cold_start"].items()}
        p50_s, p99_s = model.event_to_file(self.runs, cold_ms)
        self.found["latency_model"] = {"p50_s": round(p50_s, 2), "p99_s": round(p99_s, 2)}
        all_cold = model.event_to_file(self.runs, cold_ms, 1.0)
        to_index = model.event_to_file(self.runs, cold_ms, index=True)
        self.more["latency_model"] = {
            "every_function_cold": {"p50_s": round(all_cold[0], 2), "p99_s": round(all_cold[1], 2)},
            "to_the_index": {"p50_s": round(to_index[0], 2), "p99_s": round(to_index[1], 2)},
        }
        self.more["latency_local"] = [
            {
                "function": run.function,
                "calls": len(run.calls),
                "ms": round(run.wall_ms, 1),
                "own_cpu_ms": round(run.cpu_ms, 1),
            }
            for run in self.runs
        ]


def _placeless(said: str) -> str:
    """A reason without the places of this machine."""
    return said.replace(f"{report.ROOT}/", "").replace(f"{Path.home()}/", "~/")


def main() -> int:
    """Measure and tell; in full, write what is kept."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="less than a minute: few archives, nothing of others, nothing is written"
    )
    parser.add_argument("--show", action="store_true", help="measure nothing: print the table of results.json")
    parser.add_argument(
        "--write", action="store_true", help="measure nothing: write README and picture anew from results.json"
    )
    options = parser.parse_args()
    if options.show or options.write:
        results = json.loads(report.RESULTS.read_text(encoding="utf-8"))
    else:
        results = Bench(quick=options.quick).run()
    if not options.quick and not options.show:
        report.write(results)
    report.show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
