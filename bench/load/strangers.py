"""A flood of unsigned requests with made-up hosts: `python -m bench.load.strangers` (make strangers).

The local stack handles the requests of some minutes twice on its virtual clock: first only those of the newsroom's CMS, one
signed webhook a minute; then the same with a stranger's requests each second. The API of a deployed stack would let through
50 of them a second (ThrottleRate). The local API lets all of them through.
"""

import argparse
import io
import json
import random
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from statistics import median

from bench.archive import newsroom
from bench.newsroom import NOW, Story, request
from stoppress_cli.local.functions import OUTPUT
from stoppress_cli.local.gateway import Request
from stoppress_cli.local.stack import Stack

CLOCKS = ("PollFeeds", "RollWindow")
SECOND = timedelta(seconds=1)


@dataclass
class Minutes:
    """What happened in some minutes: runs and AWS calls of the clock's functions, answers to the CMS, and the strangers' part."""

    runs: Counter[str] = field(default_factory=Counter)
    errors: int = 0
    clock_calls: Counter[str] = field(default_factory=Counter)
    answers: list[tuple[int, str]] = field(default_factory=list)
    strangers: Counter[int] = field(default_factory=Counter)  # answers by status
    stranger_calls: Counter[str] = field(default_factory=Counter)
    logged_bytes: int = 0
    refused_ms: list[float] = field(default_factory=list)


def flooded(minutes: int, per_second: int, seed: int = 1) -> Minutes:
    """Plays the minutes with so many strangers' requests a second."""
    dice = random.Random(seed)
    played = Minutes()
    with newsroom() as stack:
        functions = stack.functions
        runs = {name: functions[name].invocations for name in CLOCKS}
        calls = stack.wire.meter.calls.copy()
        for second in range(1, 60 * minutes + 1):
            now = NOW + second * SECOND
            stack.advance(now)
            _knock(stack, played, [_stranger(dice) for _ in range(per_second)])
            if second % 60 == 30:
                story = Story(second, now)
                answer = stack.request(request(story.delivery("published", now), now, story.message_id(now)))
                played.answers.append((answer.status, answer.body.decode()))
                stack.rest()
        for (function, operation), count in (stack.wire.meter.calls - calls).items():
            if function in CLOCKS:
                played.clock_calls[f"{function} {operation}"] += count
        played.runs = Counter({name: functions[name].invocations - runs[name] for name in CLOCKS})
        played.errors = sum(function.errors for function in functions.values())
    return played


def _stranger(dice: random.Random) -> Request:
    host = f"{dice.getrandbits(64):x}.example.net"
    return Request("POST", f"/webhooks/{host}/cms", "", {"content-type": "application/json"}, b"{}")


def _knock(stack: Stack, played: Minutes, requests: list[Request]) -> None:
    """Sends a stranger's requests, and counts what they cost."""
    log, before = io.StringIO(), stack.wire.meter.calls.copy()
    with OUTPUT.aimed(log):
        for each in requests:
            began = time.perf_counter()
            played.strangers[stack.request(each).status] += 1
            played.refused_ms.append((time.perf_counter() - began) * 1_000)
    for (_, operation), count in (stack.wire.meter.calls - before).items():
        played.stranger_calls[operation] += count
    played.logged_bytes += len(log.getvalue().encode())


def differences(quiet: Minutes, flood: Minutes) -> Iterator[str]:
    """What the flood changed and must not change, and what it cost and must not cost."""
    for name in ("runs", "errors", "clock_calls", "answers"):
        if getattr(quiet, name) != getattr(flood, name):
            yield f"{name}: {getattr(quiet, name)} without the flood, {getattr(flood, name)} with it"
    requests = flood.strangers.total()
    if flood.strangers != Counter({404: requests}):
        yield f"strangers were answered {dict(flood.strangers)}"
    # Half a read unit for each made-up host, and nothing else.
    if flood.stranger_calls != Counter({"dynamodb.GetItem": requests}):
        yield f"strangers cost {dict(flood.stranger_calls)}"
    if flood.logged_bytes > 200 * requests:
        yield f"a stranger's request left {flood.logged_bytes / requests:.0f} bytes in the log"


def main() -> int:
    """Exit code 0: the flood changed nothing."""
    parser = argparse.ArgumentParser("python -m bench.load.strangers", description=__doc__)
    parser.add_argument("--minutes", type=int, default=5)
    parser.add_argument("--per-second", type=int, default=200)
    options = parser.parse_args()
    quiet, flood = flooded(options.minutes, 0), flooded(options.minutes, options.per_second)
    requests = flood.strangers.total()
    rows = {
        "strangers' requests": f"{requests:,} in {options.minutes} virtual minutes, answered {dict(flood.strangers)}",
        "their AWS calls": f"{flood.stranger_calls.total() / requests:.4f} a request: {dict(flood.stranger_calls)}",
        "their log": f"{flood.logged_bytes / requests:.0f} bytes a request",
        "their time": f"{median(flood.refused_ms):.2f} ms of this machine a request",
        "runs by the clock": f"{dict(quiet.runs)} without the flood, {dict(flood.runs)} with it",
        "signed webhooks": f"{json.dumps(Counter(status for status, _ in flood.answers))} (status: number)",
    }
    for name, row in rows.items():
        sys.stdout.write(f"{name:<20} {row}\n")
    wrong = list(differences(quiet, flood))
    for line in wrong:
        sys.stderr.write(f"{line}\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
