"""A flood from its first delivery to the rest after the storm, and what is wrong then."""

import random
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from bench.load.flood import Counts, Flood
from bench.load.judge import differences
from bench.load.newsroom import Newsroom
from bench.load.served import Served, served

QUARTERS = 4
MEBIBYTE = 1_048_576

# What could not be recorded comes again after ten seconds, and each time after twice as long, as does a file that could not be written.
REST_MAX_S = 900.0
# Blocks of memory, apart from moto's, that webhooks may leave behind when they have been dealt with: some once for all (what is
# loaded when it is first needed), and of each less than one. Who keeps anything of each keeps one of each.
HELD_BLOCKS_MAX, HELD_BLOCKS_EACH_MAX = 3_000, 0.25
# What its process may grow by meanwhile, as the system sees it. That goes up and down by some 30 MiB with what was under way at
# once; who keeps a file, or whatever else is large, of each time it was written, keeps hundreds.
GROWN_BYTES_MAX = 48 * 1_048_576


@dataclass
class Result:
    """What a run was."""

    articles: int
    senders: int
    seed: int
    flood: Counts = field(default_factory=Counts)
    resident: list[int | None] = field(default_factory=list)  # bytes, when all are published and after each quarter
    peak: int | None = None
    kept: list[dict[str, Any]] = field(default_factory=list)  # by moto, before the flood and after it
    held: list[dict[str, Any]] = field(default_factory=list)  # blocks in use, after each quarter
    state: dict[str, Any] = field(default_factory=dict)
    to_last_file_s: float = 0.0
    listed: int = 0
    wrong: list[str] = field(default_factory=list)

    @property
    def held_per_webhook(self) -> float:
        """Blocks of memory, apart from moto's, that there are more after the last quarter than after the first, by the webhook."""
        return float(self.held_more / self._sent_meanwhile)

    @property
    def held_more(self) -> int:
        return int(self.held[-1]["others"] - self.held[0]["others"])

    @property
    def held_max(self) -> float:
        return HELD_BLOCKS_MAX + HELD_BLOCKS_EACH_MAX * self._sent_meanwhile

    @property
    def _sent_meanwhile(self) -> float:
        return self.flood.sent * (QUARTERS - 1) / QUARTERS

    @property
    def grew_bytes(self) -> int | None:
        """What the process had more after the last quarter than after the first; None where there is no /proc."""
        first, last = self.resident[0], self.resident[-1]
        return last - first if first is not None and last is not None else None


def load(articles: int, webhooks: int, senders: int, seed: int, *, storm: float = 1.0, hurry: bool = False) -> Result:
    """Run it, and find what is wrong. `storm`: how many times as often calls fail. `hurry`: the stack's clock goes ahead to what waits, instead of waiting for it."""
    result = Result(articles, senders, seed)
    newsroom = Newsroom(articles, random.Random(seed), datetime.now(UTC))
    with served(seed, storm) as stack:
        flood = Flood(stack.url, newsroom, senders, random.Random(seed))
        stack.ask(do="weather", bad=True)
        flood.pour(articles, Counts())
        for _ in range(QUARTERS):
            flood.pour(webhooks // QUARTERS, result.flood)
            result.held.append(stack.ask(do="held"))
            result.kept.append(stack.ask(do="kept"))
            result.resident.append(stack.resident_bytes())
        result.peak = stack.resident_bytes("VmHWM")
        stack.ask(do="weather", bad=False)
        result.state = _rested(stack, hurry)
        result.to_last_file_s = max(0.0, result.state["last_put"] - result.flood.last_acknowledged)
        result.listed = len(newsroom.pages())
        result.wrong += differences(stack, newsroom.pages(), datetime.now(UTC))
        quarantined = stack.ask(do="kept")["items"].get("quarantine", 0)
    unsaid = [said.id for number, said in newsroom.said.items() if newsroom.acknowledged.get(number) != said]
    result.wrong += [f"never acknowledged: {name}" for name in unsaid]
    result.wrong += [f"left in {name}: {number}" for name, number in result.state["waiting"].items()]
    result.wrong += [f"not allowed: {call}" for call in result.state["refused"]]
    result.wrong += [f"in quarantine: {quarantined}"] if quarantined else []
    return result


def _rested(stack: Served, hurry: bool) -> dict[str, Any]:
    """The stack's state when nothing waits in it any more, or when it has waited too long."""
    until = time.monotonic() + REST_MAX_S
    while (state := stack.ask(do="state"))["waiting"] and time.monotonic() < until:
        # What is dead stays where it is.
        if all(name.endswith("DeadLetters") or name == "Failures" for name in state["waiting"]):
            break
        if hurry:
            stack.ask(do="later", seconds=60)
        else:
            time.sleep(1)
    return state


def grown(result: Result) -> Iterator[str]:
    """What holds more memory than it may. Of a flood of some thousands: in a small one most of it is what is loaded once."""
    if result.held_more > result.held_max:
        before, after = (one["kinds"] for one in (result.held[0], result.held[-1]))
        more = {kind: number - before.get(kind, 0) for kind, number in after.items() if number > before.get(kind, 0)}
        yield f"each webhook leaves {result.held_per_webhook:.2f} blocks of memory behind; of some kinds there are more: {more}"
    if (grew := result.grew_bytes) is not None and grew > GROWN_BYTES_MAX:
        yield f"the process grew by {grew / MEBIBYTE:.0f} MiB after the first quarter"
