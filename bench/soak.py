"""Two hundred feeds over a day: `python -m bench.soak` (make soak), some minutes long.

Every minute of a virtual day the feeds that are due are polled over HTTP, from a server on loopback: feeds with and without
validators, compressed ones, others' feeds with wishes, and feeds that are down, busy, cut off, pages, moved or elsewhere for a
while. Stories come as in a newsroom, most by day. At the end each story must have come out of the poller, and none twice that
was not edited; what that took is printed. Table and queue are kept in memory: moto would take ten times as long as all the rest.
"""

import argparse
import random
import resource
import statistics
import sys
import time
from collections import Counter, deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from boto3.dynamodb.types import TypeSerializer

from stoppress.aws import queues, table
from stoppress.aws.items import Item
from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from stoppress.poll import feeds as polling
from stoppress_cli.local import meter
from stoppress_cli.scenario.feeds_server import FeedAnswer, FeedServer

START = datetime(2026, 11, 20, 0, 0, 10, tzinfo=UTC)
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
SITES = 20
# Stories an hour of a feed, by the hour of the day: a newsroom sleeps, though not quite.
PER_HOUR = [0.1] * 5 + [0.3, 0.8, 1.2] + [1.4] * 4 + [1.0] * 4 + [1.3] * 3 + [0.6, 0.5, 0.4, 0.3, 0.2]
EDITED = 0.1  # of the stories, once, within an hour
WINDOW = 20  # stories that a feed shows
# After the last story all feeds get the time to be asked once more: as long as the longest wait.
REST = 2 * HOUR

_serialize = TypeSerializer().serialize

# What is wrong with a feed, from when to when, and what it answers then.
TROUBLES: dict[str, tuple[int, int, dict[str, Any]]] = {
    "down": (10, 12, {"status": 500}),
    "missing": (15, 17, {"status": 404}),
    "busy": (9, 10, {"status": 429, "headers": {"retry-after": "1800"}}),
    "a page": (13, 14, {"body": b"<!DOCTYPE html><html><body>We are back soon.</body></html>"}),
}
# How a feed answers all day.
MANNERS = ("etag", "etag", "etag", "last-modified", "none", "changing etag", "gzip")
PLACES = ("", "", "", "moved", "elsewhere", "cut off")


@dataclass
class Story:
    """A story of a feed; `known_at` is when the poller first sent it."""

    number: int
    published_at: datetime
    title: str
    edited: bool = False
    known_at: datetime | None = None
    times: int = 0

    def item(self, host: str) -> str:
        return (
            f'<item><guid isPermaLink="false">{self.number}</guid><link>https://{host}/story-{self.number}</link>'
            f"<title>{self.title}</title><pubDate>{self.published_at:%a, %d %b %Y %H:%M:%S} GMT</pubDate>"
            f"<description>{'What happened, and what is known of it so far. ' * 12}</description></item>"
        )


@dataclass
class Origin:
    """A feed as its server has it."""

    number: int
    host: str
    manner: str
    place: str
    trouble: str
    settings: dict[str, Any]
    stories: list[Story] = field(default_factory=list)
    shown: deque[Story] = field(default_factory=lambda: deque(maxlen=WINDOW))
    version: int = 0

    @property
    def url(self) -> str:
        return str(self.settings["url"])

    def happens(self, now: datetime, chance: random.Random) -> None:
        """What a minute brings: perhaps a story, perhaps the correction of one."""
        if chance.random() < PER_HOUR[now.hour] / 60:
            number = self.number * 10_000 + len(self.stories)
            story = Story(number, now.replace(second=0), f"Story {number} of the day")
            self.stories.append(story)
            self.shown.appendleft(story)
            self.version += 1
        if self.shown and chance.random() < EDITED * PER_HOUR[now.hour] / 60:
            story = self.shown[0]
            if not story.edited:
                story.edited, story.title = True, f"{story.title}, corrected"
                self.version += 1

    def answers(self, now: datetime, end: datetime) -> Iterator[tuple[str, FeedAnswer]]:
        """What its URLs answer at an instant; at the end all trouble is over."""
        begins, ends, what = TROUBLES.get(self.trouble, (24, 24, {}))
        if now < end and begins <= now.hour < ends:
            yield self.url, FeedAnswer(**{"body": self._body(), **what})
            return
        answer = FeedAnswer(200, self._headers(), self._body(), changing_etag=self.manner == "changing etag")
        if self.manner == "gzip":
            answer = FeedAnswer(200, self._headers(), self._body(), gzip=True)
        if self.place == "cut off" and now.hour == 14 and now < end:
            answer = FeedAnswer(200, self._headers(), self._body()[:-900])
        if self.place in {"moved", "elsewhere"} and now.hour >= 8:
            new_url = f"{self.url}?new"
            yield new_url, answer
            answer = FeedAnswer(301 if self.place == "moved" else 302, {"location": new_url})
        yield self.url, answer

    def _headers(self) -> dict[str, str]:
        headers = {"content-type": "application/rss+xml"}
        if self.manner in {"etag", "gzip"}:
            headers["etag"] = f'"{self.number}-{self.version}"'
        if self.manner == "last-modified":
            headers["last-modified"] = f"{START + self.version * timedelta(seconds=1):%a, %d %b %Y %H:%M:%S} GMT"
        return headers

    def _body(self) -> bytes:
        wish = "<ttl>30</ttl>" if self.number % 2 else ""
        items = "".join(story.item(self.host) for story in self.shown)
        return f'<rss version="2.0"><channel><title>News</title>{wish}{items}</channel></rss>'.encode()


def origins(number: int, chance: random.Random) -> list[Origin]:
    """The feeds: a tenth asked up to each minute, half each five minutes or more seldom, the rest other people's."""
    found = []
    for one in range(number):
        host = f"www.paper-{one % min(SITES, number)}.example"
        settings: dict[str, Any] = {"url": f"https://{host}/feed-{one}.xml"}
        match one % 10:
            case 0:
                settings |= {"interval_max_minutes": 15}
            case 1 | 2 | 3 | 4 | 5:
                settings |= {"interval_minutes": 5, "interval_max_minutes": 30}
            case _:
                settings |= {"url": f"https://feeds.wire-{one}.example/news.xml"}
        trouble = chance.choice([*TROUBLES, "", "", "", "", "", ""])
        found.append(Origin(one, host, chance.choice(MANNERS), chance.choice(PLACES), trouble, settings))
    return found


class Memory:
    """The table, as the poller uses it: conditional writes, and what each call would cost."""

    def __init__(self) -> None:
        self.items: dict[tuple[str, str], Item] = {}
        self.read_units = self.write_units = 0.0

    def get_many(self, keys: Iterable[tuple[str, str]]) -> dict[tuple[str, str], Item]:
        found = {key: self.items[key] for key in keys if key in self.items}
        self.read_units += sum(meter.read_units(_bytes(item), consistent=True) for item in found.values())
        return found

    def put(self, item: Item, expected_rev: int | None) -> None:
        before = self.items.get((item["pk"], item["sk"]))
        self.write_units += meter.write_units(max(_bytes(item), _bytes(before) if before else 0))
        if (before and before["rev"]) != expected_rev:
            raise table.Conflict(item["pk"])
        self.items[item["pk"], item["sk"]] = item | {"rev": (expected_rev or 0) + 1}

    def put_if(self, item: Item) -> None:
        self.write_units += meter.write_units(_bytes(item))
        self.items[item["pk"], item["sk"]] = item


def _bytes(item: Item) -> int:
    return meter.item_bytes({name: _serialize(value) for name, value in item.items()})


@dataclass
class Result:
    """What a soak was."""

    feeds: list[Origin]
    hours: float
    seconds: float = 0.0
    requests: int = 0
    body_bytes: int = 0
    polls: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)  # of failed polls
    memory: Memory = field(default_factory=Memory)
    longest_run_s: float = 0.0
    wrong: list[str] = field(default_factory=list)

    @property
    def stories(self) -> list[Story]:
        return [story for feed in self.feeds for story in feed.stories]


def soak(feeds: int, hours: float, seed: int, start: datetime = START) -> Result:
    """Run it, and find what is wrong."""
    chance = random.Random(seed)
    result = Result(origins(feeds, chance), hours)
    sites = _sites(result.feeds)
    began = time.perf_counter()
    known: dict[tuple[str, str], Story] = {}
    now, end = start, start + timedelta(hours=hours)

    def take(events: list[ArticleEvent]) -> None:
        for event in events:
            story = known[event.site, event.id]
            story.times += 1
            story.known_at = story.known_at or now

    memory = result.memory
    with (
        mock.patch.multiple(table, get_many=memory.get_many, put=memory.put, put_if=memory.put_if),
        mock.patch.object(queues, "send_articles", take),
        FeedServer().running() as server,
    ):
        while now < end + REST:
            for feed in result.feeds:
                if now < end:
                    feed.happens(now, chance)
                known |= {(feed.host, str(story.number)): story for story in feed.stories[-1:]}
                for url, answer in feed.answers(now, end):
                    server.set(url, answer)
            run_began = time.perf_counter()
            for outcome in polling.poll_site_feeds(sites, now):
                result.polls[outcome.result] += 1
                result.reasons[outcome.reason or ""] += outcome.result == "failed"
            result.longest_run_s = max(result.longest_run_s, time.perf_counter() - run_began)
            now += MINUTE
        result.requests, result.body_bytes = server.requests, server.sent_bytes
    result.seconds = time.perf_counter() - began
    for feed in result.feeds:
        result.wrong += [f"{feed.url}: story {story.number} is lost" for story in feed.stories if not story.known_at]
        result.wrong += [
            f"{feed.url}: story {story.number} was sent {story.times} times"
            for story in feed.stories
            if story.times > 1 + story.edited
        ]
    return result


def _sites(feeds: list[Origin]) -> list[Site]:
    of_host = {
        host: [one.settings for one in feeds if one.host == host] for host in sorted({one.host for one in feeds})
    }
    return [
        Site.model_validate({"host": host, "publication": "Paper", "feeds": settings})
        for host, settings in of_host.items()
    ]


def report(result: Result) -> Iterator[tuple[str, str]]:
    """The rows of what a soak took."""
    feeds, stories = len(result.feeds), result.stories
    minutes = int((result.hours + REST / HOUR) * 60)
    yield (
        "feeds",
        f"{feeds}, over {result.hours:g} virtual hours and {REST / HOUR:g} to come to rest, in {result.seconds:.0f} s",
    )
    each_minute = feeds * minutes
    yield "requests", f"{result.requests:,}; each feed each minute would be {each_minute:,}"
    yield "polls", ", ".join(f"{name} {count:,}" for name, count in sorted(result.polls.items()))
    yield "failed", "; ".join(f"{count:,} {reason}" for reason, count in sorted((+result.reasons).items()))
    yield "bytes", f"{result.body_bytes:,} of bodies"
    for name, chosen in (("feeds without trouble", ""), ("feeds in trouble", "x")):
        waits = [
            (story.known_at - story.published_at) / MINUTE
            for feed in result.feeds
            if bool(feed.trouble or feed.place == "cut off") == bool(chosen) and "interval_max_minutes" in feed.settings
            for story in feed.stories
            if story.known_at
        ]
        if waits:
            worst = max(waits)
            yield (
                f"own {name}",
                f"a story waited {statistics.median(waits):.1f} minutes (median), {worst:.0f} at the most",
            )
    lost = sum(1 for story in stories if not story.known_at)
    edits = sum(story.edited for story in stories)
    yield (
        "stories",
        f"{len(stories):,} and {edits:,} corrections; {lost} lost; {sum(s.times for s in stories):,} events sent",
    )
    units = result.memory.write_units, result.memory.read_units
    yield "capacity", f"{units[0]:,.0f} write units, {units[1]:,.0f} read units"
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
    yield "longest run", f"{result.longest_run_s:.1f} s; the process had {memory} MB at the most"


def main() -> int:
    """Exit code 0: no story was lost, none was sent twice for nothing."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--feeds", type=int, default=200)
    parser.add_argument("--hours", type=float, default=24)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    result = soak(options.feeds, options.hours, options.seed)
    for name, row in report(result):
        sys.stdout.write(f"{name:<28} {row}\n")
    for line in result.wrong:
        sys.stderr.write(f"{line}\n")
    return 1 if result.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
