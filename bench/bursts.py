"""Bursts of articles: the cost of each article, and the time until the last article's files are written.

Articles of a burst reach the articles queue within a second. The API throttles webhooks at 50 a second, after a burst of 1,000, but
not the bus and imports. On AWS, recording and rewriting run concurrently, so a burst is played in steps, each as long as one rewrite.
The model computes the articles of a step and the duration of the burst from the measurement of a full batch.
"""

import json
from collections.abc import Iterable
from datetime import timedelta
from email.utils import format_datetime
from itertools import count
from statistics import median
from typing import Any

from bench import model
from bench.archive import archive, shape
from bench.cost import warm
from bench.measuring import Measured, Run, measuring
from bench.newsroom import SITE, Story
from bench.wiring import wiring
from stoppress.cms.contract import read_delivery
from stoppress.model.event import to_message
from stoppress.model.site import read_site
from stoppress_cli.local import local_queues
from stoppress_cli.scenario.file import FeedAnswer

ARTICLES, QUICK_ARTICLES = (1, 10, 100, 1_000, 10_000), (1, 100)
ARCHIVE = 50_000
# An article's entries: one in its shard, one in the news.
RECORDS_AN_ARTICLE = 2
# Articles in the first step, before a batch has been measured.
_FIRST_STEP = 100
# SQS treats a site as noisy from about this many of its messages in flight (SQS developer guide, "How Amazon SQS fair queues work").
NOISY_IN_FLIGHT = 30


def measure(quick: bool) -> dict[str, Any]:
    """Return what bursts cost, in the form of results.json."""
    rows: dict[str, Any] = {}
    more: dict[str, Any] = {}
    counts = Measured()
    for articles in QUICK_ARTICLES if quick else ARTICLES:
        counts = play_burst(articles)
        rows[str(articles)] = {
            "puts_per_article": round(counts.puts / articles, 4),
            "write_units_per_article": round(counts.write_units / articles, 2),
            "seconds": round(_burst_s(counts.runs, articles), 1),
        }
        more[str(articles)] = {
            "read_units_per_article": round(counts.read_units / articles, 2),
            "cpu_ms_per_article": round(counts.cpu_ms / articles, 2),
        }
    return {"burst": rows, "more": {"burst": more} | ({} if quick else {"neighbour": _neighbour_delays(counts)})}


def play_burst(articles: int) -> Measured:
    """Publish `articles` articles within a second, on an archive of 50,000 pages with 300 in the window."""
    with archive(shape(ARCHIVE)) as full:
        stack = full.stack
        warm(stack)
        now = stack.clock.now() + timedelta(seconds=61)
        stack.advance(now)
        site = read_site(json.dumps(SITE), 1)
        with measuring(stack) as counts:
            step, sent = min(articles, _FIRST_STEP), 0
            while sent < articles:
                for number in range(sent, min(articles, sent + step)):
                    timestamp = {"timestamp": (now + timedelta(microseconds=number)).isoformat()}
                    delivery = Story(6_000_000 + number, now).delivery("published", now) | timestamp
                    event = read_delivery(delivery, site, "cms", now)[0]
                    local_queues.send(stack.resources["ArticlesQueue"].arn, to_message(event))
                stack.rest()
                sent += step
                step = max(1, round(_record_rate(counts.runs) * _batch_interval_s(counts.runs)))
    return counts


def neighbour_waits(batch_s: float, *, groups: bool) -> list[float]:
    """Return how many seconds each story of another site, one a second, waits in the queue while the burst of one site is recorded.

    With message groups, SQS delivers the other site's stories first as soon as NOISY_IN_FLIGHT messages of the burst are in flight.
    """
    wires = wiring()
    in_flight = dict.fromkeys(range(wires.queue_concurrency), 0)
    waits: list[float] = []
    remaining = ARTICLES[-1]
    for batch in count():
        now, worker = batch // wires.queue_concurrency * batch_s, batch % wires.queue_concurrency
        arrived = range(len(waits) + 1, int(now) + 1)
        if not (remaining or arrived):
            break
        in_flight[worker] = 0
        is_noisy = groups and sum(in_flight.values()) >= NOISY_IN_FLIGHT
        stories = arrived[: max(0, wires.queue_batch - (0 if is_noisy else remaining))]
        waits += [now - sent for sent in stories]
        in_flight[worker] = min(remaining, wires.queue_batch - len(stories))
        remaining -= in_flight[worker]
    return waits


def _neighbour_delays(burst: Measured) -> dict[str, dict[str, float]]:
    """Return the delay of another site's stories during a burst, without and with message groups."""
    batch_s = _full_batch(burst.runs)[0]
    waits = {name: neighbour_waits(batch_s, groups=groups) for name, groups in (("without", False), ("with", True))}
    return {name: {"p50_s": round(median(times), 1), "max_s": round(max(times), 1)} for name, times in waits.items()}


def _full_batch(runs: list[Run]) -> tuple[float, int]:
    """Return the seconds that a full batch of recordings takes on average, and its records."""
    batches = [run for run in runs if run.function == "RecordArticle"]
    full = [run for run in batches if run.records == max(run.records for run in batches)]
    return sum(model.duration_ms(run) for run in full) / len(full) / 1_000, full[0].records


def _record_rate(runs: list[Run]) -> float:
    """Return the articles that all concurrent batches record a second, limited by the writes that one partition accepts."""
    seconds, records = _full_batch(runs)
    by_functions = wiring().queue_concurrency * records / seconds
    by_partition = model.hops()["partition"]["write_units_a_second"] / 2
    return float(min(by_functions, by_partition))


def _batch_interval_s(runs: list[Run]) -> float:
    """Return the seconds between two batches of the stream: its window and a poll, less if it fills sooner, or the rewrite if longer."""
    wires = wiring()
    poll_s = 1 / float(model.hops()["stream"]["polls_a_second"])
    longest = max(model.duration_ms(run) for run in runs if run.function == "RewriteSitemaps") / 1_000
    fill_s = wires.stream_batch / RECORDS_AN_ARTICLE / _record_rate(runs)
    return max(longest, min(wires.stream_window_ms / 1_000 + poll_s, fill_s))


def _burst_s(runs: list[Run], articles: int) -> float:
    """Return the seconds from the first article's arrival to the last one's file, at the medians."""
    wires = wiring()
    # The rewrite before that of the index.
    last = [run for run in runs if run.function == "RewriteSitemaps"][-2:][0]
    delays_ms = model.hop("queue").p50_ms + wires.queue_window_ms + model.hop("stream").p50_ms + wires.stream_window_ms
    return 1 + delays_ms / 1_000 + articles / _record_rate(runs) + model.duration_ms(last, until="s3.PutObject") / 1_000


def feed_answer(stories: Iterable[Story], version: str) -> FeedAnswer:
    """Return an RSS feed of stories."""
    items = "".join(
        f'<item><title>{story.data()["title"]}</title><link>{story.url()}</link><guid isPermaLink="false">{story.id}</guid>'
        f"<pubDate>{format_datetime(story.published, usegmt=True)}</pubDate><category>{story.data()['section']}</category>"
        f"<description>What it means, why it matters, and what comes next.</description></item>"
        for story in stories
    )
    body = f'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>Example News</title>{items}</channel></rss>'
    return FeedAnswer(headers={"content-type": "application/rss+xml", "etag": f'"{version}"'}, body=body.encode())
