"""A small flood of unsigned requests with made-up hosts, on the virtual clock of the local stack."""

import io
import random
from collections import Counter
from datetime import timedelta
from typing import Any

import pytest

from bench.archive import newsroom
from bench.newsroom import NOW, Story, request
from stoppress_cli.local.functions import OUTPUT
from stoppress_cli.local.gateway import Request

pytestmark = [pytest.mark.moto, pytest.mark.matrix]

CLOCKS = ("PollFeeds", "RollWindow")


def play_minute(strangers_a_second: int) -> tuple[dict[str, Any], Counter[int], Counter[str], int]:
    """Play a minute with one signed webhook. Return what the stack did, and the strangers' answers, calls and bytes of log."""
    dice, log = random.Random(1), io.StringIO()
    answers: Counter[int] = Counter()
    stranger_calls: Counter[str] = Counter()
    with newsroom() as stack:
        calls = stack.wire.meter.calls.copy()
        runs = {name: stack.functions[name].invocations for name in CLOCKS}
        for second in range(1, 61):
            now = NOW + timedelta(seconds=second)
            stack.advance(now)
            before = stack.wire.meter.calls.copy()
            with OUTPUT.aimed(log):
                for _ in range(strangers_a_second):
                    path = f"/webhooks/{dice.getrandbits(64):x}.example.net/cms"
                    answers[
                        stack.request(Request("POST", path, "", {"content-type": "application/json"}, b"{}")).status
                    ] += 1
            for (_, operation), count in (stack.wire.meter.calls - before).items():
                stranger_calls[operation] += count
            if second == 30:
                story = Story(second, now)
                signed = stack.request(request(story.delivery("published", now), now, story.message_id(now)))
                stack.rest()
        clock_calls = {call: count for call, count in (stack.wire.meter.calls - calls).items() if call[0] in CLOCKS}
        done = {
            "runs": {name: stack.functions[name].invocations - count for name, count in runs.items()},
            "calls": clock_calls,
            "errors": sum(function.errors for function in stack.functions.values()),
            "signed": signed.status,
        }
    return done, answers, stranger_calls, len(log.getvalue().encode())


def test_a_flood_of_made_up_hosts_changes_neither_the_clock_nor_a_signed_webhook() -> None:
    idle, *_ = play_minute(0)
    flooded, answers, calls, log_bytes = play_minute(20)

    assert flooded == idle
    assert (idle["runs"], idle["errors"], idle["signed"]) == ({"PollFeeds": 1, "RollWindow": 1}, 0, 200)
    assert answers == {404: 20 * 60}
    # Half a read unit for each made-up host, and nothing else.
    assert calls == {"dynamodb.GetItem": 20 * 60}
    assert log_bytes <= 200 * 20 * 60
