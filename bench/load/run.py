"""A flood from its first delivery until the stack is idle after the faults, and the check of the files."""

import random
import re
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any
from xml.etree import ElementTree as ET

from bench.load.flood import Counts, Flood, Newsroom, Page
from bench.load.stack import FloodedStack, open_stack
from bench.newsroom import HOST, WINDOW, text

# Failed records and writes of files are retried after ten seconds, and then each time after twice as long.
REST_MAX_S = 900.0
_SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
_NEWS = "{http://www.google.com/schemas/sitemap-news/0.9}"


@dataclass
class Result:
    """The result of a run."""

    flood: Counts = field(default_factory=Counts)
    state: dict[str, Any] = field(default_factory=dict)
    listed: int = 0
    wrong: list[str] = field(default_factory=list)


def load(articles: int, webhooks: int, senders: int, seed: int, *, factor: float = 1.0, hurry: bool = False) -> Result:
    """Run a flood, and check the files.

    `factor`: how many times as often calls fail. `hurry`: advance the stack's clock instead of waiting.
    """
    result = Result()
    newsroom = Newsroom(articles, random.Random(seed), datetime.now(UTC))
    with open_stack(seed, factor) as stack:
        flood = Flood(stack.url, newsroom, senders, random.Random(seed))
        stack.set_faults(on=True)
        flood.send(articles, Counts())
        flood.send(webhooks, result.flood)
        stack.set_faults(on=False)
        result.state = _wait_for_rest(stack, hurry)
        result.listed = len(newsroom.pages)
        result.wrong += differences(stack.get, newsroom.pages, datetime.now(UTC))
    lost = [
        delivery.id for number, delivery in newsroom.newest.items() if newsroom.acknowledged.get(number) != delivery
    ]
    result.wrong += [f"never acknowledged: {name}" for name in lost]
    result.wrong += [f"left in {name}: {number}" for name, number in result.state["waiting"].items()]
    result.wrong += [f"not allowed: {call}" for call in result.state["refused"]]
    if quarantined := result.state["quarantined"]:
        result.wrong.append(f"in quarantine: {quarantined}")
    return result


def _wait_for_rest(stack: FloodedStack, hurry: bool) -> dict[str, Any]:
    """Return the stack's state when no work is waiting, or after REST_MAX_S."""
    until = time.monotonic() + REST_MAX_S
    while (state := stack.state())["waiting"] and time.monotonic() < until:
        # Dead letters stay in their queues.
        if all(name.endswith("DeadLetters") or name == "Failures" for name in state["waiting"]):
            break
        if hurry:
            stack.advance()
        else:
            time.sleep(1)
    return state


# ── the check ──


def differences(get: Callable[[str], tuple[int, bytes]], pages: list[Page], now: datetime) -> list[str]:
    """Return the differences between the served files and the acknowledged pages."""
    wrong: list[str] = []
    _, home = get("/")
    files = set(re.findall(rf'"/{HOST}/([^"]+)"', home.decode()))
    index = ET.fromstring(get("/sitemap.xml")[1])
    locs = [str(loc.text) for loc in index.iterfind(f"{_SITEMAP}sitemap/{_SITEMAP}loc")]
    indexed = [loc.removeprefix(f"https://{HOST}/") for loc in locs]
    wrong += [f"sitemap.xml lists {name} twice" for name, times in Counter(indexed).items() if times > 1]
    wrong += [f"sitemap.xml lists {name}, which does not exist" for name in sorted(set(indexed) - files)]
    listed: dict[str, list[tuple[str, str, str]]] = {}  # by series: URL, title (of news), lastmod
    for name in sorted(files - {"sitemap.xml"}):
        status, body = get(f"/{name}")
        if status != 200:
            wrong.append(f"{name} has the status {status}")
            continue
        rows = [row for row in _rows(body) if row[0] != f"https://{HOST}/"]
        series = re.sub(r"(?<=news)-\d+|(?<=-\d\d-\d\d)-\d+", "", name.removesuffix(".xml"))
        if name in indexed:
            listed[series] = listed.get(series, []) + rows
        elif rows:
            wrong.append(f"{name} has pages, and is not in sitemap.xml")
    expected: dict[str, list[tuple[str, str, str]]] = {"sitemap-news": []}
    for page in pages:
        expected.setdefault(f"sitemap-{page.first:%Y-%m}", []).append((page.url, "", text(page.changed)))
        if page.first + WINDOW > now:
            expected["sitemap-news"].append((page.url, page.title, text(page.changed)))
    for series in sorted(expected.keys() | listed.keys()):
        right, actual = Counter(expected.get(series, [])), Counter(listed.get(series, []))
        wrong += [f"{series}: lost, or in an older state: {row}" for row in sorted((right - actual).elements())]
        wrong += [f"{series}: should not be there: {row}" for row in sorted((actual - right).elements())]
    return wrong


def _rows(body: bytes) -> Iterator[tuple[str, str, str]]:
    for url in ET.fromstring(body).iter(f"{_SITEMAP}url"):
        title = url.findtext(f"{_NEWS}news/{_NEWS}title", "")
        lastmod = url.findtext(f"{_SITEMAP}lastmod")
        changed = text(datetime.fromisoformat(lastmod).astimezone(UTC)) if lastmod else ""
        yield url.findtext(f"{_SITEMAP}loc", ""), title, changed
