"""A flood of signed webhooks with faults on: `python -m tests.load` (make load), some minutes long.

Some senders post over HTTP, on loopback, to `stoppress up`'s server in a process of its own, while calls of AWS fail by chance:
what a CMS says of a fixed set of articles (published, edited, moved, hidden, taken down), late, twice, overtaken, and each delivery
again until it has been acknowledged. Then faults end, all comes to rest, and the files that are served must say what the senders
remember. Nothing of the product is imported here: what stands on the other side of HTTP is all there is to be seen.
"""

import argparse
import base64
import hashlib
import heapq
import hmac
import http.client
import itertools
import json
import os
import random
import re
import statistics
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

ROOT = Path(__file__).parents[1]
HOST = "www.example.com"
KEY = b"a secret of a newsroom, of 32 by"
STEPS: list[dict[str, Any]] = [
    {"at": "2026-11-20T12:00:00Z", "secret": {"name": "newsroom", "value": f"whsec_{base64.b64encode(KEY).decode()}"}},
    {"site": {"host": HOST, "publication": "Example News", "sources": {"cms": {"secret": "newsroom"}}}},
]
WINDOW = timedelta(hours=48)
QUARTERS = 4
MEBIBYTE = 1_048_576

HELD_UP = 0.08  # of the deliveries: on their way for so long that others overtake them
HELD_UP_MAX_S = 1.5
TWICE = 0.05  # of those that were acknowledged: they come once more all the same
UNHEARD = 0.02  # of the deliveries: the sender is gone before the answer has come
RETRY_S, RETRY_MAX_S = 0.05, 2.0  # doubled with each attempt
ANSWER_MAX_S = 60.0
# A flood that is not acknowledged so long after its last new delivery has failed.
ACKNOWLEDGED_WITHIN_S = 120.0
# What could not be recorded comes again after ten seconds, and each time after twice as long, as does a file that could not be written.
REST_MAX_S = 900.0
# Blocks of memory, apart from moto's, that webhooks may leave behind when they have been dealt with: some once for all (what is
# loaded when it is first needed), and of each less than one. Who keeps anything of each keeps one of each.
HELD_BLOCKS_MAX, HELD_BLOCKS_EACH_MAX = 3_000, 0.25
# What its process may grow by meanwhile, as the system sees it. That goes up and down by some 30 MiB with what was under way at
# once; who keeps a file, or whatever else is large, of each time it was written, keeps hundreds.
GROWN_BYTES_MAX = 48 * 1_048_576

_SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
_NEWS = "{http://www.google.com/schemas/sitemap-news/0.9}"


# ── what the newsroom says ────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass(frozen=True)
class Page:
    """What the files are to say of an article."""

    url: str
    title: str
    first: datetime
    changed: datetime


@dataclass(frozen=True)
class Said:
    """One delivery: its webhook-id, and what holds of the article from this version on (None: it is in no file)."""

    id: str
    article: int
    version: int
    body: bytes
    page: Page | None


class Newsroom:
    """Thinks of deliveries, and remembers of each article the newest one that was acknowledged."""

    def __init__(self, articles: int, dice: random.Random, now: datetime) -> None:
        self._dice, self._now = dice, now.replace(microsecond=0)
        self._versions = [0] * articles
        self._live = [False] * articles
        self._fresh = itertools.cycle(range(articles))  # all are published before the first is edited
        self.acknowledged: dict[int, Said] = {}
        self.said: dict[int, Said] = {}

    def speak(self) -> Said:
        """The next delivery."""
        number = next(self._fresh)
        if self._versions[number]:
            number = self._dice.randrange(len(self._versions))
        version = self._versions[number] = self._versions[number] + 1
        removal = version > 1 and self._live[number] and self._dice.random() < 0.15
        first = self._published(number)
        changed = max(first, self._now + timedelta(seconds=version - 3_600))
        # Two addresses in turn: whatever was told of a third one would stay in the table for ever, and should.
        url = f"https://{HOST}/story-{number}" + ("-moved" if version // 2 % 2 else "")
        title = f"Story {number} & what is known of it, {version}. edition"
        data: dict[str, Any] = {"id": str(number), "version": version}
        hidden = not removal and self._dice.random() < 0.05
        if not removal:
            data |= {"url": url, "title": title, "published_at": text(first), "updated_at": text(changed)}
            data |= {"section": "local", "keywords": ["harbour", "flood", "story"], "noindex": hidden}
        self._live[number] = not removal
        kind = self._dice.choice(["unpublished", "deleted"] if removal else ["published", "updated"])
        body = {"type": f"article.{kind}", "timestamp": text(datetime.now(UTC)), "data": data}
        page = None if removal or hidden else Page(url, title, first, changed)
        said = Said(f"msg_{number}_{version}", number, version, json.dumps(body).encode(), page)
        self.said[number] = said
        return said

    def _published(self, number: int) -> datetime:
        """Two of three are news and stay it for the next hours, the others are of one of the last ten months."""
        age = timedelta(hours=number % 40) if number % 3 else timedelta(days=5 + number * 7 % 300)
        return self._now - age - timedelta(hours=1)

    def acknowledge(self, said: Said) -> None:
        known = self.acknowledged.get(said.article)
        if known is None or known.version < said.version:
            self.acknowledged[said.article] = said

    def pages(self) -> list[Page]:
        """What the files must list."""
        return [said.page for said in self.acknowledged.values() if said.page]


def text(instant: datetime) -> str:
    return f"{instant:%Y-%m-%dT%H:%M:%SZ}"


def signed(said: Said) -> dict[str, str]:
    """The headers of a delivery, as Standard Webhooks 1.0 has them; each attempt is signed anew, its id stays."""
    sent = str(int(time.time()))
    digest = hmac.new(KEY, f"{said.id}.{sent}.".encode() + said.body, hashlib.sha256).digest()
    return {
        "content-type": "application/json",
        "webhook-id": said.id,
        "webhook-timestamp": sent,
        "webhook-signature": f"v1,{base64.b64encode(digest).decode()}",
    }


# ── sending it ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@dataclass
class Counts:
    """What a flood was, as its senders saw it."""

    said: int = 0
    sent: int = 0
    acknowledged: int = 0
    retries: int = 0
    twice: int = 0
    seconds: float = 0.0
    failed: Counter[str] = field(default_factory=Counter)
    answered_s: list[float] = field(default_factory=list)
    last_acknowledged: float = 0.0  # on the machine's monotonic clock


class Flood:
    """Senders that share what is to be sent; `pour` returns when all of it was acknowledged."""

    def __init__(self, url: str, newsroom: Newsroom, senders: int, dice: random.Random) -> None:
        self._at = (str(urlsplit(url).hostname), int(urlsplit(url).port or 80))
        self._newsroom, self._senders, self._dice = newsroom, senders, dice
        self._lock = threading.Lock()
        self._waiting: list[tuple[float, int, Said, int]] = []  # when, order, what, attempts so far
        self._order = itertools.count()
        self._under_way = self._left = 0
        self._give_up = 0.0

    def pour(self, webhooks: int, counts: Counts) -> None:
        """Sends so many new webhooks. What was not acknowledged in time is left; the judge finds it."""
        began = time.monotonic()
        self._left, self._give_up = webhooks, float("inf")
        threads = [threading.Thread(target=self._send_all, args=(counts,)) for _ in range(self._senders)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        counts.seconds += time.monotonic() - began

    def _send_all(self, counts: Counts) -> None:
        while (taken := self._next(counts)) is not None:
            if taken:
                self._send(*taken, counts)
            else:
                time.sleep(0.005)

    def _next(self, counts: Counts) -> tuple[Said, int] | tuple[()] | None:
        """What to send now and how often that was tried; nothing for a moment; None when all is done."""
        with self._lock:
            now = time.monotonic()
            if self._waiting and self._waiting[0][0] <= now:
                _, _, said, attempts = heapq.heappop(self._waiting)
            elif self._left:
                self._left -= 1
                self._give_up = now + ACKNOWLEDGED_WITHIN_S
                said, attempts = self._newsroom.speak(), 0
                counts.said += 1
                if self._dice.random() < HELD_UP:
                    self._later(now + self._dice.uniform(0, HELD_UP_MAX_S), said, 0)
                    return ()
            else:
                return () if (self._waiting or self._under_way) and now < self._give_up else None
            self._under_way += 1
            return said, attempts

    def _later(self, when: float, said: Said, attempts: int) -> None:
        heapq.heappush(self._waiting, (when, next(self._order), said, attempts))

    def _send(self, said: Said, attempts: int, counts: Counts) -> None:
        with self._lock:
            unheard = self._dice.random() < UNHEARD
        began = time.monotonic()
        answer = self._post(said, unheard)
        now = time.monotonic()
        with self._lock:
            counts.sent += 1
            counts.retries += attempts > 0
            self._under_way -= 1
            if answer != "answer not waited for":
                counts.answered_s.append(now - began)
            if answer.startswith("2"):
                counts.acknowledged += 1
                counts.last_acknowledged = now
                self._newsroom.acknowledge(said)
                if self._dice.random() < TWICE:
                    counts.twice += 1
                    self._later(now + self._dice.uniform(0, HELD_UP_MAX_S), said, 0)
                return
            counts.failed[answer] += 1
            wait_s = min(RETRY_MAX_S, RETRY_S * 2**attempts) * self._dice.uniform(0.5, 1.5)
            self._later(now + wait_s, said, attempts + 1)

    def _post(self, said: Said, unheard: bool) -> str:
        connection = http.client.HTTPConnection(*self._at, timeout=ANSWER_MAX_S)
        try:
            connection.request("POST", f"/webhooks/{HOST}/cms", said.body, signed(said))
            if unheard:
                return "answer not waited for"
            answer = connection.getresponse()
            body = answer.read()
            # A refusal would be sent again for ever: what it says is worth knowing.
            return str(answer.status) if answer.status not in range(400, 500) else f"{answer.status} {body.decode()}"
        except (OSError, http.client.HTTPException) as error:
            return type(error).__name__
        finally:
            connection.close()


# ── the stack, from outside ───────────────────────────────────────────────────────────────────────────────────────────────


class Served:
    """The stack's process: asked by lines, seen in /proc, read over HTTP."""

    def __init__(self, process: "subprocess.Popen[str]") -> None:
        self._process = process
        self.url = ""

    def ask(self, **asked: Any) -> dict[str, Any]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(asked) + "\n")
        self._process.stdin.flush()
        answer: dict[str, Any] = json.loads(self._process.stdout.readline())
        return answer

    def resident_bytes(self, what: str = "VmRSS") -> int | None:
        """What of it is in memory now (VmRSS) or was at the most (VmHWM); None where there is no /proc."""
        status = Path(f"/proc/{self._process.pid}/status")
        found = re.search(rf"^{what}:\s*(\d+) kB", status.read_text(), re.MULTILINE) if status.exists() else None
        return int(found[1]) * 1024 if found else None

    def get(self, path: str) -> tuple[int, bytes]:
        where = urlsplit(self.url)
        connection = http.client.HTTPConnection(str(where.hostname), where.port, timeout=ANSWER_MAX_S)
        try:
            connection.request("GET", path, headers={"host": HOST})
            answer = connection.getresponse()
            return answer.status, answer.read()
        finally:
            connection.close()


@contextmanager
def served(seed: int, storm: float) -> Iterator[Served]:
    """The stack, for as long as the block runs."""
    paths = os.pathsep.join(str(ROOT / folder) for folder in (".", "shared", "cli"))
    with subprocess.Popen(
        [sys.executable, "-m", "tests.load_stack"], cwd=ROOT, env=os.environ | {"PYTHONPATH": paths}, text=True,
        stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        stack = Served(process)
        try:
            stack.url = str(stack.ask(seed=seed, storm=storm, steps=STEPS)["url"])
            yield stack
        finally:
            assert process.stdin is not None
            process.stdin.close()


# ── what the files must say ───────────────────────────────────────────────────────────────────────────────────────────────


def differences(stack: Served, pages: list[Page], now: datetime) -> list[str]:
    """What the files that are served say otherwise than the senders remember."""
    wrong: list[str] = []
    _, home = stack.get("/")
    there = set(re.findall(rf'"/{HOST}/([^"]+)"', home.decode()))
    indexed = [loc.removeprefix(f"https://{HOST}/") for loc in _texts(stack.get("/sitemap.xml")[1], "sitemap/", "loc")]
    wrong += [f"sitemap.xml names {name} twice" for name, times in Counter(indexed).items() if times > 1]
    wrong += [f"sitemap.xml names {name}, which is not there" for name in sorted(set(indexed) - there)]
    found: dict[str, list[tuple[str, str, str]]] = {}  # by series: URL, title (of news), lastmod
    for name in sorted(there - {"sitemap.xml"}):
        status, body = stack.get(f"/{name}")
        if status != 200:
            wrong.append(f"{name} is answered {status}")
            continue
        rows = list(_rows(body))
        series = re.sub(r"(?<=news)-\d+|(?<=-\d\d-\d\d)-\d+", "", name.removesuffix(".xml"))
        if name in indexed:
            found[series] = found.get(series, []) + [row for row in rows if row[0] != f"https://{HOST}/"]
        elif any(row[0] != f"https://{HOST}/" for row in rows):
            wrong.append(f"{name} has pages, and is not in sitemap.xml")
    wanted: dict[str, list[tuple[str, str, str]]] = {"sitemap-news": []}
    for page in pages:
        wanted.setdefault(f"sitemap-{page.first:%Y-%m}", []).append((page.url, "", text(page.changed)))
        if page.first + WINDOW > now:
            wanted["sitemap-news"].append((page.url, page.title, text(page.changed)))
    for series in sorted(wanted.keys() | found.keys()):
        want, have = Counter(wanted.get(series, [])), Counter(found.get(series, []))
        wrong += [f"{series}: lost, or in an older state: {row}" for row in sorted((want - have).elements())]
        wrong += [f"{series}: should not be there: {row}" for row in sorted((have - want).elements())]
    return wrong


def _texts(body: bytes, within: str, tag: str) -> list[str]:
    return [str(one.text) for one in ET.fromstring(body).iterfind(f"{_SITEMAP}{within}{_SITEMAP}{tag}")]


def _rows(body: bytes) -> Iterator[tuple[str, str, str]]:
    for url in ET.fromstring(body).iter(f"{_SITEMAP}url"):
        title = url.findtext(f"{_NEWS}news/{_NEWS}title", "")
        lastmod = url.findtext(f"{_SITEMAP}lastmod")
        changed = text(datetime.fromisoformat(lastmod).astimezone(UTC)) if lastmod else ""
        yield url.findtext(f"{_SITEMAP}loc", ""), title, changed


# ── a run ─────────────────────────────────────────────────────────────────────────────────────────────────────────────────


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


def main() -> int:
    """Exit code 0: nothing was lost, and nothing that is ours has grown."""
    parser = argparse.ArgumentParser(description=__doc__)
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
