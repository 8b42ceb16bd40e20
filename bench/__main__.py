"""`make bench` and `make bench-quick`: measure, print, and (in full) write results.json, the tables of docs/explanation/costs.md and the picture."""

import argparse
import json
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from bench import (
    bursts,
    cold,
    cost,
    machine,
    model,
    month,
    peers as fetched,
    prices,
    rendering,
    report,
    startup,
    webhooks,
)
from bench.measuring import Run
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
        self.peers = Peers()

    def run(self, only: Sequence[str] = (), known: dict[str, Any] | None = None) -> dict[str, Any]:
        """Measure everything, or only some of the parts beside what is `known`; the document of results.json."""
        if known:
            self.more, self.skipped = known["more"], known["skipped"]
            self.found = known | self.found | {"versions": known["versions"] | self.found["versions"]}
        parts: dict[str, Callable[[], None]] = {
            "cost": self._cost,
            "bursts": self._bursts,
            "month": self._month,
            "rendering": self._rendering,
            "webhooks": self._webhooks,
            "startup": self._startup,
            "cold": self._cold_starts,
        }
        if unknown := set(only) - parts.keys():
            raise SystemExit(f"there is no part {', '.join(sorted(unknown))}: there are {', '.join(parts)}")
        if not self.quick and (not only or "rendering" in only):
            self.peers = self._timed("fetching the peers", fetched.fetch)
            self.skipped |= self.peers.skipped
        for name, part in parts.items():
            if name in only or not only:
                self._timed(name, part)
        self._latency()
        skipped = {name: _placeless(said) for name, said in self.skipped.items()}
        return self.found | {"skipped": skipped, "more": self.more}

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
        self.more["runs"] = [asdict(run) for run in largest["new"].counted.runs]
        self.more["cost"] = {
            event: {
                "sqs_requests": found.counted.sqs_requests,
                "invocations": sum(found.counted.invocations.values()),
                "dollars_a_million": prices.million_events(found.counted),
            }
            for event, found in largest.items()
        }
        self.more["units_by_call"] = [
            {"function": function, "call": call, "of": of, "read": read, "written": written}
            for function, call, of, read, written in largest["new"].counted.units
        ]
        if not self.quick:
            self.more["worst"] = {event: found.row() for event, found in cost.at_worst(1).items()}

    def _bursts(self) -> None:
        found = [bursts.burst(articles) for articles in (QUICK_BURSTS if self.quick else bursts.ARTICLES)]
        self.found["burst"] = {str(one.articles): one.row() for one in found}
        self.more["burst"] = {str(one.articles): one.more() for one in found}
        if self.quick:
            return
        self.more["neighbour"] = bursts.neighbour(found[-1])
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

    def _month(self) -> None:
        if not self.quick:
            self.more["month"] = month.measured()

    def _rendering(self) -> None:
        ours, others = rendering.measure(self.peers, *((QUICK_REPEATS, QUICK_CASES) if self.quick else ()))
        kept = ("cpu_ms", "peak_mib", "bytes")
        self.found["render"] = {case: {name: row[name] for name in kept} for case, row in ours.items()}
        self.found["peers"] = {
            peer: {case: {name: row[name] for name in kept} for case, row in cases.items()}
            for peer, cases in others.items()
        }
        self.found["versions"] |= {peer: next(iter(cases.values()))["version"] for peer, cases in others.items()}

    def _webhooks(self) -> None:
        rates = webhooks.per_second()
        self.found["webhook"] = {"per_second": rates["per_second"]}
        self.more["webhook"] = {"handler_per_second": rates["handler_per_second"]}

    def _startup(self) -> None:
        self.more["startup_ms"] = startup.milliseconds()

    def _cold_starts(self) -> None:
        self.found["cold_start"] = {}
        if self.quick:
            return
        try:
            self.found["cold_start"], self.more["cold_start"] = cold.measure()
        except cold.CannotBuild as reason:
            self.skipped["cold starts"] = str(reason)

    def _latency(self) -> None:
        cold_ms = {model.logical(name): found["ms"] for name, found in self.found["cold_start"].items()}
        runs = [Run(**run) for run in self.more["runs"]]
        p50_s, p99_s = model.event_to_file(runs, cold_ms)
        self.found["latency_model"] = {"p50_s": round(p50_s, 2), "p99_s": round(p99_s, 2)}
        all_cold = model.event_to_file(runs, cold_ms, 1.0)
        to_index = model.event_to_file(runs, cold_ms, index=True)
        self.more["latency_model"] = {
            "every_function_cold": {"p50_s": round(all_cold[0], 2), "p99_s": round(all_cold[1], 2)},
            "to_the_index": {"p50_s": round(to_index[0], 2), "p99_s": round(to_index[1], 2)},
            "puts_of_an_article": {
                name: {
                    str(shards): round(model.puts_of_an_article(runs, shards, window_ms), 2) for shards in (1, 4, 16)
                }
                for name, window_ms in (("window", model.wiring().stream_window_ms), ("no_window", 0.0))
            },
        }


def _placeless(said: str) -> str:
    """A reason without the places of this machine."""
    return said.replace(f"{report.ROOT}/", "").replace(f"{Path.home()}/", "~/")


def main() -> int:
    """Measure and tell; in full, write what is kept."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="less than a minute: few archives, nothing of others, nothing is written"
    )
    parser.add_argument(
        "--only",
        default="",
        help="parts to be measured again, with commas: cost,bursts,month,rendering,webhooks,startup,cold",
    )
    parser.add_argument("--show", action="store_true", help="measure nothing: print what results.json has")
    parser.add_argument(
        "--write",
        action="store_true",
        help="measure nothing: write docs/explanation/costs.md and its picture from results.json",
    )
    options = parser.parse_args()
    known = (
        json.loads(report.RESULTS.read_text(encoding="utf-8"))
        if options.only or options.show or options.write
        else None
    )
    results = known
    if not (options.show or options.write):
        results = Bench(quick=options.quick).run([part for part in options.only.split(",") if part], known)
    assert results
    if not options.quick and not options.show:
        report.write(results)
    report.show(results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
