"""A flood of signed webhooks with faults on: `python -m bench.load` (make load), some minutes long.

Senders post to the server of `stoppress up` while AWS calls fail at random: articles are published, edited, moved, hidden and removed.
Then the faults end, the stack finishes its work, and the served files must contain what the senders had acknowledged.
"""

import argparse
import statistics
import sys
from collections.abc import Iterator

from bench.load.run import Result, load


def main() -> int:
    """Run a flood and print its report. Exit code 0: no article was lost."""
    parser = argparse.ArgumentParser("python -m bench.load", description=__doc__)
    parser.add_argument("--articles", type=int, default=500)
    parser.add_argument("--webhooks", type=int, default=8_000)
    parser.add_argument("--senders", type=int, default=16)
    parser.add_argument("--seed", type=int, default=1)
    result = load(**vars(parser.parse_args()))
    for name, row in report(result):
        sys.stdout.write(f"{name:<24} {row}\n")
    for line in result.wrong:
        sys.stderr.write(f"{line}\n")
    return 1 if result.wrong else 0


def report(result: Result) -> Iterator[tuple[str, str]]:
    """Yield the rows of a run."""
    flood, state = result.flood, result.state
    yield (
        "sent",
        f"{flood.sent:,} for {flood.new:,} webhooks: {flood.retries:,} again after a failure, {flood.twice:,} twice",
    )
    yield "not acknowledged", ", ".join(f"{name}: {number:,}" for name, number in sorted(flood.failed.items()))
    rate = flood.acknowledged / flood.seconds
    yield "acknowledged", f"{flood.acknowledged:,} in {flood.seconds:.0f} s, {rate:.0f} a second"
    percentiles_s = statistics.quantiles(flood.answered_s, n=100, method="inclusive")
    times = {"p50": percentiles_s[49], "p99": percentiles_s[98], "max": max(flood.answered_s)}
    yield "the API's answer", ", ".join(f"{name} {seconds * 1_000:,.0f} ms" for name, seconds in times.items())
    yield "listed at the end", f"{result.listed:,} articles, {len(result.wrong)} wrong"
    yield "faults", f"{sum(state['met'].values()):,}, of which {state['applied']:,} were applied all the same"
    for name, number in state["met"].items():
        yield f"  {number:,}", name
    yield "came again", ", ".join(f"{name} {number:,}" for name, number in state["again"].items())


if __name__ == "__main__":
    sys.exit(main())
