"""Many articles at once: what each costs then, and how long it takes until the last stands in its files.

Articles of a burst come to the articles queue within a second (webhooks are throttled by the API at 50 a second, after a burst of 1,000; the bus and
imports are not). On AWS recording and rewriting run side by side, so the stack here is driven in steps of what is recorded while
one rewrite goes on; how many that are, and how long it all takes, the model says by what a full batch was measured to do.
"""

import json
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from datetime import datetime, timedelta
from email.utils import format_datetime
from itertools import count
from statistics import median
from typing import Any

from bench import model
from bench.archive import Archive, archive, newsroom, shape
from bench.cost import warm
from bench.measuring import Measured, Run, measuring
from bench.newsroom import HOST, SITE, Story
from stoppress.cms.contract import read_delivery
from stoppress.model.event import ArticleEvent, to_message
from stoppress.model.site import read_site
from stoppress_cli.local import queues
from stoppress_cli.scenario.feeds_server import FeedAnswer, FeedServer

ARTICLES = (1, 10, 100, 1_000, 10_000)
ARCHIVE = 50_000
# An article's entries: one in its shard, one in the news.
RECORDS_AN_ARTICLE = 2
STORM_EDITS = 200
FEEDS = 200
# Batches that a step is reckoned by before one was measured.
_FIRST_STEP = 100
# A site is noticed as noisy from about so many of its messages in flight (SQS developer guide, "How Amazon SQS fair queues work").
NOISY_IN_FLIGHT = 30


@dataclass(frozen=True)
class Burst:
    """What a burst of so many articles did."""

    articles: int
    counted: Measured
    seconds: float

    def row(self) -> dict[str, float]:
        """As results.json has it."""
        return {
            "puts_per_article": round(self.counted.puts / self.articles, 4),
            "write_units_per_article": round(self.counted.write_units / self.articles, 2),
            "seconds": round(self.seconds, 1),
        }

    def more(self) -> dict[str, float]:
        """What else there is to say of it."""
        return {
            "read_units_per_article": round(self.counted.read_units / self.articles, 2),
            "puts": self.counted.puts,
            "bytes_per_article": round(self.counted.bytes / self.articles),
            "cpu_ms_per_article": round(self.counted.cpu_ms / self.articles, 2),
        }


def burst(articles: int) -> Burst:
    """So many new articles within a second, at an archive of 50,000 pages with 300 in the window."""
    with archive(shape(ARCHIVE)) as one:
        warm(one.stack)
        return _played(one, articles, lambda number, now: Story(6_000_000 + number, now), "published")


def storm() -> Burst:
    """One story corrected again and again within a second: it is the corrections that are counted."""
    with archive(shape(ARCHIVE)) as one:
        warm(one.stack)
        story = one.window[-1]
        return _played(one, STORM_EDITS, lambda _number, _now: story, "updated")


def _played(one: Archive, articles: int, story: Callable[[int, datetime], Story], kind: str) -> Burst:
    stack, now = one.stack, one.stack.clock.now() + timedelta(seconds=61)
    stack.advance(now)
    site = read_site(json.dumps(SITE), 1)
    arn = stack.resources["ArticlesQueue"].arn

    def event(number: int) -> ArticleEvent:
        at = now + timedelta(microseconds=number)
        said: dict[str, Any] = (
            {} if kind == "published" else {"title": f"Correction {number}", "updated_at": at.isoformat()}
        )
        delivery = story(number, now).delivery(kind, now, **said) | {"timestamp": at.isoformat()}
        return read_delivery(delivery, site, "cms", now)[0]

    with measuring(stack) as found:
        step, done = min(articles, _FIRST_STEP), 0
        while done < articles:
            for number in range(done, min(articles, done + step)):
                queues.send(arn, to_message(event(number)))
            stack.rest()
            done += step
            step = max(1, round(_rate(found.runs) * _beat_s(found.runs)))
    return Burst(articles, found, _seconds(found.runs, articles))


def neighbour_waits(batch_s: float, *, groups: bool, articles: int = ARTICLES[-1]) -> list[float]:
    """Seconds in the queue of a story that another site sends each second, from a burst of one site until it is recorded.

    With message groups, SQS delivers the other site's stories first as soon as NOISY_IN_FLIGHT messages of the burst are in flight.
    """
    wiring = model.wiring()
    in_flight = dict.fromkeys(range(wiring.queue_concurrency), 0)
    waits: list[float] = []
    left = articles
    for turn in count():
        now, worker = turn // wiring.queue_concurrency * batch_s, turn % wiring.queue_concurrency
        arrived = range(len(waits) + 1, int(now) + 1)
        if not (left or arrived):
            break
        in_flight[worker] = 0
        is_noticed = groups and sum(in_flight.values()) >= NOISY_IN_FLIGHT
        stories = arrived[: max(0, wiring.queue_batch - (0 if is_noticed else left))]
        waits += [now - sent for sent in stories]
        in_flight[worker] = min(left, wiring.queue_batch - len(stories))
        left -= in_flight[worker]
    return waits


def neighbour(big: Burst) -> dict[str, dict[str, float]]:
    """What a burst of one site does to the story of another site, without and with message groups."""
    batch_s = _batch(big.counted.runs)[0]
    waits = {name: neighbour_waits(batch_s, groups=groups) for name, groups in (("without", False), ("with", True))}
    return {name: {"p50_s": round(median(each), 1), "max_s": round(max(each), 1)} for name, each in waits.items()}


def _batch(runs: list[Run]) -> tuple[float, int]:
    """Seconds that a full batch of recordings takes on average, and its records."""
    batches = [run for run in runs if run.function == "RecordArticle"]
    full = [run for run in batches if run.records == max(run.records for run in batches)]
    return sum(model.duration_ms(run) for run in full) / len(full) / 1_000, full[0].records


def _rate(runs: list[Run]) -> float:
    """Articles recorded a second, all concurrent batches together, as far as one partition takes their writes."""
    seconds, records = _batch(runs)
    by_functions = model.wiring().queue_concurrency * records / seconds
    by_partition = model.hops()["partition"]["write_units_a_second"] / 2
    return float(min(by_functions, by_partition))


def _beat_s(runs: list[Run]) -> float:
    """Seconds from one batch of the stream to the next: its window and a poll, or what it gathers in time, or the rewriting."""
    wiring = model.wiring()
    poll_s = 1 / float(model.hops()["stream"]["polls_a_second"])
    longest = max(model.duration_ms(run) for run in runs if run.function == "RewriteSitemaps") / 1_000
    gathered = wiring.stream_batch / RECORDS_AN_ARTICLE / _rate(runs)
    return max(longest, min(wiring.stream_window_ms / 1_000 + poll_s, gathered))


def _seconds(runs: list[Run], articles: int) -> float:
    """From the first article's arrival to the last one's file, at the medians."""
    wiring = model.wiring()
    # The one before the index's.
    last = [run for run in runs if run.function == "RewriteSitemaps"][-2:][0]
    ways = model.hop("queue").p50_ms + wiring.queue_window_ms + model.hop("stream").p50_ms + wiring.stream_window_ms
    return 1 + ways / 1_000 + articles / _rate(runs) + model.duration_ms(last, until="s3.PutObject") / 1_000


# ── feeds ──


def feeds_at_once(count: int = FEEDS) -> Measured:
    """A site whose feeds all have a new entry in the same minute."""
    return _minute_of_feeds(count, entries=1)


def feed_of_a_hundred() -> Measured:
    """One feed with a hundred entries, of which one is new."""
    return _minute_of_feeds(1, entries=99)


def _minute_of_feeds(count: int, entries: int) -> Measured:
    """What happens in the minute in which each of the feeds has one entry more than before."""
    urls = [f"https://{HOST}/feeds/{number}.xml" for number in range(count)]
    with FeedServer().running() as server, newsroom(site=SITE | {"feeds": urls}) as stack:
        start = stack.clock.now()
        old = {
            url: [
                Story(6_000_000 + number * 1_000 + entry, start - timedelta(days=3, minutes=entry))
                for entry in range(entries)
            ]
            for number, url in enumerate(urls)
        }
        for url in urls:
            server.set(url, _answer(old[url], "1"))
        stack.advance(start + timedelta(minutes=2), every_schedule=True)
        now = start + timedelta(minutes=4)
        for number, url in enumerate(urls):
            server.set(url, _answer([Story(7_000_000 + number, now - timedelta(minutes=1)), *old[url]], "2"))
        with measuring(stack) as found:
            stack.advance(now, every_schedule=True)
    return found


def _answer(stories: Iterable[Story], version: str) -> FeedAnswer:
    items = "".join(
        f'<item><title>{story.data()["title"]}</title><link>{story.url()}</link><guid isPermaLink="false">{story.id}</guid>'
        f"<pubDate>{format_datetime(story.published, usegmt=True)}</pubDate><category>{story.data()['section']}</category>"
        f"<description>What it means, why it matters, and what comes next.</description></item>"
        for story in stories
    )
    body = f'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>Example News</title>{items}</channel></rss>'
    return FeedAnswer(200, {"content-type": "application/rss+xml", "etag": f'"{version}"'}, body.encode())
