"""A flood of signed webhooks with faults on: `python -m bench.load` (make load), some minutes long.

Some senders post over HTTP, on loopback, to `stoppress up`'s server in a process of its own, while calls of AWS fail by chance:
what a CMS says of a fixed set of articles (published, edited, moved, hidden, taken down), late, twice, overtaken, and each delivery
again until it has been acknowledged. Then faults end, all comes to rest, and the files that are served must say what the senders
remember. Nothing of the product is imported here but by `stack.py`: what stands on the other side of HTTP is all there is to be seen.
"""

import argparse
import json
import statistics
import sys
from collections.abc import Iterator
from pathlib import Path

from bench.load.flood import Counts
from bench.load.run import MEBIBYTE, Result, grown, load


def main() -> int:
    """Exit code 0: nothing was lost, and nothing that is ours has grown."""
    parser = argparse.ArgumentParser("python -m bench.load", description=__doc__)
    parser.add_argument("--articles", type=int, default=500)
    parser.add_argument("--webhooks", type=int, default=8_000)
    parser.add_argument("--senders", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--storm", type=float, default=1.0, help="how many times as often calls of AWS fail")
    parser.add_argument(
        "--hurry", action="store_true", help="do not wait for what is to be tried again: move the clock"
    )
    parser.add_argument("--json", type=Path, help="write the numbers here")
    options = vars(parser.parse_args())
    out = options.pop("json")
    result = load(**options)
    result.wrong += grown(result)
    for name, row in report(result):
        sys.stdout.write(f"{name:<24} {row}\n")
    if out:
        said = vars(result) | {
            "flood": vars(result.flood) | {"answered_s": None},
            "answers_ms": answers_ms(result.flood),
            "held_per_webhook": result.held_per_webhook,
        }
        out.write_text(json.dumps(said, indent=2) + "\n", encoding="utf-8")
    for line in result.wrong:
        sys.stderr.write(f"{line}\n")
    return 1 if result.wrong else 0


def answers_ms(counts: Counts) -> dict[str, float]:
    """How long the door took to answer."""
    found = statistics.quantiles(counts.answered_s, n=100, method="inclusive")
    return {"p50": found[49] * 1000, "p99": found[98] * 1000, "max": max(counts.answered_s) * 1000}


def report(result: Result) -> Iterator[tuple[str, str]]:
    """The rows of what a run took."""
    flood, state = result.flood, result.state
    yield (
        "flood",
        f"{flood.said:,} webhooks about {result.articles:,} articles by {result.senders} senders, seed {result.seed}",
    )
    yield (
        "sent",
        f"{flood.sent:,}: {flood.retries:,} again after a failure, {flood.twice:,} twice for nothing",
    )
    yield "not acknowledged", ", ".join(f"{name}: {number:,}" for name, number in sorted(flood.failed.items()))
    yield (
        "acknowledged",
        f"{flood.acknowledged:,} in {flood.seconds:.0f} s, {flood.acknowledged / flood.seconds:.0f} a second",
    )
    times = answers_ms(flood)
    yield "the door's answer", ", ".join(f"{name} {value:,.0f} ms" for name, value in times.items())
    yield "last ack. to last file", f"{result.to_last_file_s:.1f} s"
    yield "listed at the end", f"{result.listed:,} articles, {len(result.wrong)} wrong"
    yield "faults", f"{sum(state['met'].values()):,}, of which {state['applied']:,} were applied all the same"
    for name, number in state["met"].items():
        yield f"  {number:,}", name
    yield "came again", ", ".join(f"{name} {number:,}" for name, number in state["again"].items())
    sizes = ["no /proc here" if size is None else f"{size / MEBIBYTE:.0f}" for size in result.resident]
    yield (
        "resident, MiB",
        f"{' → '.join(sizes)}, quarter by quarter"
        + (f"; {result.peak / MEBIBYTE:.0f} at the most" if result.peak else ""),
    )
    for name, kept in (("kept after a quarter", result.kept[0]), ("kept at the end", result.kept[-1])):
        items = ", ".join(f"{number:,} {kind}" for kind, number in sorted(kept["items"].items()))
        yield name, f"items: {items}; {kept['stream records']:,} stream records"
    for name, whose in (("blocks of moto's", "moto"), ("other blocks of memory", "others")):
        yield name, f"{' → '.join(f'{one[whose]:,}' for one in result.held)}, quarter by quarter"
    yield (
        "a webhook leaves",
        f"{result.held_per_webhook:+.3f} blocks of memory; at most {result.held_max:,.0f} more are allowed",
    )


if __name__ == "__main__":
    sys.exit(main())
