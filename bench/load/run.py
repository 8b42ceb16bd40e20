"""A flood from its first delivery until the stack rests after the faults, and what is wrong then.

The stack is a process of its own (`bench.load.stack`): asked by lines, seen in /proc, read over HTTP.
"""

import json
import os
import random
import re
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import urllib3

from bench.load.flood import ANSWER_MAX_S, Counts, Flood, Newsroom, Page
from bench.newsroom import HOST, SECRET, WINDOW, text

ROOT = Path(__file__).parents[2]
STEPS: list[dict[str, Any]] = [
    {"at": "2026-11-20T12:00:00Z", "secret": {"name": "newsroom", "value": SECRET}},
    {"site": {"host": HOST, "publication": "Example News", "sources": {"cms": {"secret": "newsroom"}}}},
]
QUARTERS = 4
MEBIBYTE = 1_048_576
# What could not be recorded comes again after ten seconds, and each time after twice as long, as does a file that could not be written.
REST_MAX_S = 900.0
# Blocks of memory, apart from moto's, that webhooks may leave behind when they have been dealt with: some once for all (what is
# loaded when it is first needed), and of each less than one. Who keeps anything of each keeps one of each.
HELD_BLOCKS_MAX, HELD_BLOCKS_EACH_MAX = 3_000, 0.25
# What its process may grow by meanwhile, as the system sees it. That goes up and down by some 30 MiB with what was under way at
# once; who keeps a file, or whatever else is large, of each time it was written, keeps hundreds.
GROWN_BYTES_MAX = 48 * MEBIBYTE
_SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
_NEWS = "{http://www.google.com/schemas/sitemap-news/0.9}"


class Served:
    """The stack's process."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.url = ""

    def ask(self, **question: Any) -> dict[str, Any]:
        """Return the answer to a question, one of `bench.load.stack.Answers`."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(question) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def resident_bytes(self) -> int | None:
        """Return the bytes of it that are in memory; None where there is no /proc."""
        status = Path(f"/proc/{self._process.pid}/status")
        size = re.search(r"^VmRSS:\s*(\d+) kB", status.read_text(), re.MULTILINE) if status.exists() else None
        return int(size[1]) * 1024 if size else None

    def get(self, path: str) -> tuple[int, bytes]:
        """Return the status and the body of a served page."""
        answer = urllib3.request("GET", self.url.rstrip("/") + path, headers={"host": HOST}, timeout=ANSWER_MAX_S)
        return answer.status, answer.data


@contextmanager
def open_stack(seed: int, storm: float) -> Iterator[Served]:
    """Serve the stack while the block runs."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "shared", "cli"))
    with subprocess.Popen(
        [sys.executable, "-m", "bench.load.stack"], cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        stack = Served(process)
        try:
            stack.url = str(stack.ask(seed=seed, storm=storm, steps=STEPS)["url"])
            yield stack
        finally:
            assert process.stdin is not None
            process.stdin.close()


@dataclass
class Result:
    """What a run was."""

    flood: Counts = field(default_factory=Counts)
    resident: list[int | None] = field(default_factory=list)  # bytes, after each quarter
    held: list[int] = field(default_factory=list)  # blocks of memory apart from moto's, after each quarter
    state: dict[str, Any] = field(default_factory=dict)
    to_last_file_s: float = 0.0
    listed: int = 0
    wrong: list[str] = field(default_factory=list)


def load(articles: int, webhooks: int, senders: int, seed: int, *, storm: float = 1.0, hurry: bool = False) -> Result:
    """Run a flood, and find what is wrong.

    `storm`: how many times as often calls fail. `hurry`: the stack's clock goes ahead to what waits, instead of waiting for it.
    """
    result = Result()
    newsroom = Newsroom(articles, random.Random(seed), datetime.now(UTC))
    with open_stack(seed, storm) as stack:
        flood = Flood(stack.url, newsroom, senders, random.Random(seed))
        stack.ask(do="set_faults", on=True)
        flood.pour(articles, Counts())
        for _ in range(QUARTERS):
            flood.pour(webhooks // QUARTERS, result.flood)
            result.held.append(stack.ask(do="held")["blocks"])
            result.resident.append(stack.resident_bytes())
        stack.ask(do="set_faults", on=False)
        result.state = _wait_for_rest(stack, hurry)
        result.to_last_file_s = max(0.0, result.state["last_put"] - result.flood.last_acknowledged)
        result.listed = len(newsroom.pages)
        result.wrong += differences(stack, newsroom.pages, datetime.now(UTC))
    lost = [
        delivery.id for number, delivery in newsroom.newest.items() if newsroom.acknowledged.get(number) != delivery
    ]
    result.wrong += [f"never acknowledged: {name}" for name in lost]
    result.wrong += [f"left in {name}: {number}" for name, number in result.state["waiting"].items()]
    result.wrong += [f"not allowed: {call}" for call in result.state["refused"]]
    if quarantined := result.state["quarantined"]:
        result.wrong.append(f"in quarantine: {quarantined}")
    return result


def _wait_for_rest(stack: Served, hurry: bool) -> dict[str, Any]:
    """Return the stack's state when nothing waits in it any more, or when it has waited too long."""
    until = time.monotonic() + REST_MAX_S
    while (state := stack.ask(do="state"))["waiting"] and time.monotonic() < until:
        # What is dead stays where it is.
        if all(name.endswith("DeadLetters") or name == "Failures" for name in state["waiting"]):
            break
        if hurry:
            stack.ask(do="advance", seconds=60)
        else:
            time.sleep(1)
    return state


def growth(result: Result) -> Iterator[str]:
    """Yield what uses more memory than it may. Of a flood of some thousands: in a small one most of it is what is loaded once."""
    sent = result.flood.sent * (QUARTERS - 1) / QUARTERS
    blocks = result.held[-1] - result.held[0]
    if blocks > HELD_BLOCKS_MAX + HELD_BLOCKS_EACH_MAX * sent:
        yield f"each webhook leaves {blocks / sent:.2f} blocks of memory behind"
    first, last = result.resident[0], result.resident[-1]
    if first is not None and last is not None and last - first > GROWN_BYTES_MAX:
        yield f"the process grew by {(last - first) / MEBIBYTE:.0f} MiB after the first quarter"


# ── the judge ──


def differences(stack: Served, pages: list[Page], now: datetime) -> list[str]:
    """Return the differences between the files that are served and what the senders remember."""
    wrong: list[str] = []
    _, home = stack.get("/")
    files = set(re.findall(rf'"/{HOST}/([^"]+)"', home.decode()))
    index = ET.fromstring(stack.get("/sitemap.xml")[1])
    locs = [str(loc.text) for loc in index.iterfind(f"{_SITEMAP}sitemap/{_SITEMAP}loc")]
    indexed = [loc.removeprefix(f"https://{HOST}/") for loc in locs]
    wrong += [f"sitemap.xml names {name} twice" for name, times in Counter(indexed).items() if times > 1]
    wrong += [f"sitemap.xml names {name}, which is not there" for name in sorted(set(indexed) - files)]
    listed: dict[str, list[tuple[str, str, str]]] = {}  # by series: URL, title (of news), lastmod
    for name in sorted(files - {"sitemap.xml"}):
        status, body = stack.get(f"/{name}")
        if status != 200:
            wrong.append(f"{name} is answered {status}")
            continue
        rows = [row for row in _rows(body) if row[0] != f"https://{HOST}/"]
        series = re.sub(r"(?<=news)-\d+|(?<=-\d\d-\d\d)-\d+", "", name.removesuffix(".xml"))
        if name in indexed:
            listed[series] = listed.get(series, []) + rows
        elif rows:
            wrong.append(f"{name} has pages, and is not in sitemap.xml")
    wanted: dict[str, list[tuple[str, str, str]]] = {"sitemap-news": []}
    for page in pages:
        wanted.setdefault(f"sitemap-{page.first:%Y-%m}", []).append((page.url, "", text(page.changed)))
        if page.first + WINDOW > now:
            wanted["sitemap-news"].append((page.url, page.title, text(page.changed)))
    for series in sorted(wanted.keys() | listed.keys()):
        want, have = Counter(wanted.get(series, [])), Counter(listed.get(series, []))
        wrong += [f"{series}: lost, or in an older state: {row}" for row in sorted((want - have).elements())]
        wrong += [f"{series}: should not be there: {row}" for row in sorted((have - want).elements())]
    return wrong


def _rows(body: bytes) -> Iterator[tuple[str, str, str]]:
    for url in ET.fromstring(body).iter(f"{_SITEMAP}url"):
        title = url.findtext(f"{_NEWS}news/{_NEWS}title", "")
        lastmod = url.findtext(f"{_SITEMAP}lastmod")
        changed = text(datetime.fromisoformat(lastmod).astimezone(UTC)) if lastmod else ""
        yield url.findtext(f"{_SITEMAP}loc", ""), title, changed
