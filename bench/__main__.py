"""`make bench` and `make bench-quick`: measure, print, and (in full) write results.json, the tables of docs/explanation/costs.md."""

import argparse
import os
import platform
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from bench import bursts, cold_starts, cost, model, month, rendering, report, speed
from bench.measuring import Run
from bench.report import Results
from bench.wiring import wiring

LIBRARIES = ("boto3", "botocore", "moto", "aws-lambda-powertools", "pydantic", "feedparser")
# Each part returns keys of results.json. Its `more`, `skipped` and `versions` are merged with those of the other parts.
PARTS: dict[str, Callable[[bool], Results]] = {
    "cost": cost.measure,
    "bursts": bursts.measure,
    "month": lambda quick: {} if quick else {"more": {"month": month.measure()}},
    "rendering": rendering.measure,
    "webhooks": speed.measure_webhooks,
    "cold starts": cold_starts.measure,
}


def measure(quick: bool) -> Results:
    """Measure everything; return the document of results.json."""
    results: Results = {
        "machine": {
            "processor": _processor(),
            "cores": os.cpu_count(),
            "memory_gib": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2**30),
            "system": f"{platform.system()} {platform.machine()}",
        },
        "versions": {"python": platform.python_version()} | {name: version(name) for name in LIBRARIES},
        "date": f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}",
        "skipped": {},
        "more": {},
    }
    for name, measure_part in PARTS.items():
        began = time.perf_counter()
        for key, value in measure_part(quick).items():
            results[key] = results[key] | value if key in ("more", "skipped", "versions") else value
        sys.stderr.write(f"{name}: {time.perf_counter() - began:.0f} s\n")
    for name, reason in results["skipped"].items():
        results["skipped"][name] = reason.replace(f"{report.ROOT}/", "").replace(f"{Path.home()}/", "~/")
    _model_latency(results)
    return results


def _model_latency(results: Results) -> None:
    """Add the latencies that the model of AWS computes from the runs of a new article."""
    cold_ms = {model.logical(name): row["ms"] for name, row in results["cold_start"].items()}
    runs = [Run(**run) for run in results["more"]["runs"]]

    def percentiles(**options: Any) -> dict[str, float]:
        p50_s, p99_s = model.event_to_file(runs, cold_ms, **options)
        return {"p50_s": round(p50_s, 2), "p99_s": round(p99_s, 2)}

    results["latency_model"] = percentiles()
    results["more"]["latency_model"] = {
        "every_function_cold": percentiles(cold_share=1.0),
        "to_the_index": percentiles(index=True),
        "puts_of_an_article": {
            name: {str(shards): round(model.puts_of_an_article(runs, shards, window_ms), 2) for shards in (1, 4, 16)}
            for name, window_ms in (("window", wiring().stream_window_ms), ("no_window", 0.0))
        },
    }


def _processor() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text(encoding="utf-8").splitlines() if cpuinfo.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.machine()


def main() -> int:
    """Measure and print; without --quick, also write the results."""
    parser = argparse.ArgumentParser(prog="python -m bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="less than a minute: few archives, no peers, nothing is written"
    )
    parser.add_argument(
        "--write", action="store_true", help="measure nothing: write the documentation from results.json"
    )
    options = parser.parse_args()
    results = report.load() if options.write else measure(options.quick)
    if not options.quick:
        results["more"] = report.load()["more"] | results["more"]  # keeps those of `make month` and `make scale`
        report.write(results)
    report.show("measured", results)
    return 0


if __name__ == "__main__":
    sys.exit(main())
