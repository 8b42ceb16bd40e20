"""What the parameters `Listing=yes` and `Engines=yes` cost: audits, imports and notifications, counted on the local stack."""

import json
import tempfile
from collections.abc import Mapping
from datetime import datetime, timedelta
from math import fsum
from pathlib import Path
from typing import Any
from unittest import mock

from bench import cost, model, wiring
from bench.archive import newsroom
from bench.measuring import Measured, measuring
from bench.newsroom import HOST, NOW, SITE, Story, spread
from bench.prices import MILLION, Usage, usage
from stoppress.aws import queues, sites
from stoppress.http import client
from stoppress.http.client import Response
from stoppress_cli.commands.import_ import Checkpoint, run
from stoppress_cli.inputs.archive import listing_of
from stoppress_cli.local.stack import Stack
from tests.support.apis import Blog
from tests.support.operated import connected

HOUR = timedelta(hours=1)
HOURS_A_MONTH = wiring.DAYS_A_MONTH * 24
# Stories that an audit compares: two days of 100 articles, and some more.
AUDITED = 300
# The counted import fills a shard with the articles of a month.
IMPORTED, IMPORT_END, IMPORT_LENGTH = 2_000, NOW - timedelta(days=21), timedelta(days=29)
NOTIFIED_SITE = {**SITE, "engines": {"indexnow": {"key": "0f4b1c2d3e4f5a6b"}}}
EDITS = 2
# Longer than the ten minutes that IndexNow requires between two requests for one page.
BETWEEN_EDITS = timedelta(minutes=15)
# Fetches and requests for each change: the page, its robots.txt and the engine.
REQUESTS = 3


def _idle_usage(parameter: str) -> Usage:
    """Return the usage that a parameter set to `yes` adds to an idle month: alarms, and long polls at its queue."""
    polls = wiring.polled_requests(parameter) - wiring.polled_requests()
    return Usage({"sqs_requests": polls, "alarm_metrics": wiring.alarm_metrics(parameter) - wiring.alarm_metrics()})


# ── Listing=yes ──


def measure_listing() -> dict[str, Any]:
    """Return what audits and imports use and cost, in the form of results.json."""
    audit = play_audit(AUDITED)
    return {
        "switched_on": _idle_usage("Listing").dollars["total"],
        "audit": {
            "stories": AUDITED,
            "calls": audit.calls.total(),
            "read_units": audit.read_units,
            "write_units": audit.write_units,
            "month": (usage(audit) * HOURS_A_MONTH).dollars["total"],
        },
        "import": measure_import(IMPORTED),
    }


def play_audit(stories: int) -> Measured:
    """Return the counts of one audit of a WordPress site that lists `stories` stories of the last two days, all recorded."""
    blog = Blog()
    listed = {"url": f"https://{HOST}/wp-json/wp/v2/posts"}
    source = {"adapter": "wordpress", "secret": "newsroom", "settings": {"signature": "standard"}, "list": listed}
    site = {**SITE, "sources": {"cms": source}}
    with mock.patch.object(client, "fetch", blog.fetch), newsroom(site=site, Listing="yes") as stack:
        for number, at in enumerate(spread(stories, NOW - 40 * HOUR, NOW - HOUR), 1):
            blog.publish(number, at)
        for _ in range(3):  # the first audit records them
            stack.advance(stack.clock.now() + HOUR, every_schedule=True)
        hour = stack.clock.now().replace(minute=0, second=0) + HOUR
        return _measure_hour(stack, hour)


def _measure_hour(stack: Stack, hour: datetime) -> Measured:
    """Return the counts of the first minute of an hour, less those of the minute before."""
    stack.advance(hour - timedelta(minutes=2), every_schedule=True)
    with measuring(stack) as idle:
        stack.advance(hour - timedelta(minutes=1), every_schedule=True)
    with measuring(stack) as busy:
        stack.advance(hour, every_schedule=True)
    return busy - idle


def play_import(articles: int) -> Measured:
    """Import the articles of a month, in the order of publication, into an empty newsroom.

    In this order, an article of a large archive costs the same. The functions run after each page of 100 articles: the next page comes
    two seconds later, and the table's stream collects a batch for one second.
    """
    with tempfile.TemporaryDirectory() as folder, newsroom(Listing="yes") as stack, connected(stack):
        path = Path(folder) / "archive.jsonl"
        instants = spread(articles, IMPORT_END - IMPORT_LENGTH, IMPORT_END)
        stories = [Story(number, at) for number, at in enumerate(instants, 1)]
        path.write_text("".join(json.dumps(story.data()) + "\n" for story in stories), encoding="utf-8")
        cost.warm(stack)
        site = sites.load(HOST)
        checkpoint = Checkpoint(Path(folder) / "at.json")
        with (
            measuring(stack) as counts,
            mock.patch.object(queues, "send_imports", wraps=queues.send_imports) as sends,
            mock.patch.object(Checkpoint, "write", side_effect=lambda *_: stack.rest()),
        ):
            run(listing_of(str(path), site, "cms"), site, checkpoint, rate=1e9)
            stack.rest()
    counts.calls["sqs.SendMessageBatch"] += sends.call_count
    return counts


def measure_import(articles: int) -> dict[str, Any]:
    """Return what an import uses, in the form of results.json.

    The rates are by the model of AWS: for the template's concurrency of record_article, and for a table whose stream has one shard.
    """
    resources = wiring.of_type("AWS::Lambda::EventSourceMapping", "Listing")
    concurrency = int(resources["RecordImports"]["ScalingConfig"]["MaximumConcurrency"])
    counts = play_import(articles)
    article = usage(counts) * (1 / articles)
    names = ("write_units", "read_units", "puts", "other_s3", "sqs_requests", "gb_seconds")
    return {
        "concurrency": concurrency,
        "recorded_a_second": round(_per_second(counts, "RecordArticle", articles) * concurrency),
        "rewritten_a_second": round(_per_second(counts, "RewriteSitemaps", articles)),
        "article": {name: round(article.of[name], 4) for name in names},
        "million": (article * MILLION).dollars,
    }


def _per_second(counts: Measured, function: str, articles: int) -> float:
    return articles * 1_000 / fsum(model.duration_ms(run) for run in counts.runs if run.function == function)


# ── Engines=yes ──


def measure_engines(stories: int) -> dict[str, Any]:
    """Return what notifications use and cost, in the form of results.json. `stories`: the stories of a month."""
    sweep = _play_sweep("yes") - _play_sweep("no")
    without = _play_story(SITE, "no")
    rows: dict[str, Any] = {"switched_on": (_idle_usage("Engines") + usage(sweep) * HOURS_A_MONTH).dollars["total"]}
    for name, site, waits in (
        ("without_engines", SITE, 0),
        ("with_engines", NOTIFIED_SITE, REQUESTS * (1 + EDITS)),
    ):
        story = _play_story(site, "yes") - without
        used = usage(story)
        used.of["gb_seconds"] += (
            waits * model.hop("feed").p50_ms / 1e3 * wiring.wiring().memory_mb["NotifyEngines"] / 1_024
        )
        rows[name] = {
            "calls": story.calls.total(),
            "invocations": story.invocations.total(),
            "read_units": story.read_units,
            "write_units": story.write_units,
            "puts": story.puts,
            "month": (used * stories).dollars["total"],
        }
    return rows


def _play_story(site: Mapping[str, object], switched_on: str) -> Measured:
    """Play a story that is published and edited twice."""
    with (
        mock.patch.object(client, "fetch", _answer_fetch),
        mock.patch.object(client, "post_body", lambda url, *_, **__: Response(202, {}, b"", url)),
        newsroom(site=site, Engines=switched_on) as stack,
    ):
        cost.warm(stack)
        now = stack.clock.now() + cost.APART
        stack.advance(now)
        story = cost.new_story(now)
        with measuring(stack) as counts:
            cost.publish(stack, story, now)
            for _ in range(EDITS):
                now += BETWEEN_EDITS
                stack.clock.move(now)
                cost.edit(stack, story, now)
    return counts


def _play_sweep(switched_on: str) -> Measured:
    """Play an hourly sweep without a notification to send."""
    with newsroom(site=NOTIFIED_SITE, Engines=switched_on) as stack:
        cost.warm(stack)
        return _measure_hour(stack, stack.clock.now().replace(minute=0, second=0) + 3 * HOUR)


def _answer_fetch(url: str, *_: object, **_limits: object) -> Response:
    if url.endswith("/robots.txt"):
        return Response(404, {}, b"", url)
    return Response(200, {"content-type": "text/html"}, b"<title>A story</title>", url)
