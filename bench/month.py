"""The price of a month for three newsrooms, by service: `python -m bench.month`. It takes some minutes.

The local stack plays short stretches: idle minutes, minutes of polling, an event of each kind, a night's reconciliation. The use of
each is counted, and multiplied by how often it happens in 30 days. `python -m bench.month --write` keeps the result.

The archive has the articles of one month. In the large newsroom each article and each edit comes by webhook, and a feed repeats
it. Alarms and secrets are counted in template.yaml, custom metrics in the functions' log. A metric is billed for each hour in which
it is reported.
"""

import argparse
import json
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import timedelta
from math import ceil
from typing import Any
from unittest import mock

from moto.dynamodb.models import dynamodb_backends

from bench import cost, options, report, wiring
from bench.archive import Shape, archive, newsroom, shape
from bench.bursts import feed_answer
from bench.measuring import Measured, measuring
from bench.newsroom import HOST, SITE
from bench.prices import MILLION, Usage, usage
from bench.wiring import DAYS_A_MONTH, MINUTES_A_MONTH
from stoppress.aws import secrets, table
from stoppress.feeds.feed_schedule import FeedState
from stoppress.http import client
from stoppress.poll.feed_items import feed_item
from stoppress_cli.local import meter
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.scenario import listed_pages
from stoppress_cli.scenario.feeds_server import FeedServer

# Days for which the bucket's lifecycle in template.yaml keeps replaced versions of files.
VERSIONS_DAYS = 14
SITES, FEEDS_A_SITE = 20, 10
# The numbers of feeds whose price is documented.
POLLED = (1, 10_000)


@dataclass(frozen=True, slots=True)
class Newsroom:
    """A case: its sites, its feeds, its articles a day, and the edits of each."""

    title: str
    sites: int = 1
    feeds: int = 0
    articles_a_day: int = 0
    edits: int = 2

    @property
    def articles(self) -> int:
        """Return the articles of a month."""
        return self.articles_a_day * DAYS_A_MONTH

    @property
    def requests(self) -> int:
        """Return the webhooks of a month."""
        return self.articles * (1 + self.edits)


CASES = {
    "idle": Newsroom("idle: one site, no events"),
    "small": Newsroom("100 articles a day on one site, each edited twice", articles_a_day=100),
    "large": Newsroom(
        "5,000 articles a day on 20 sites, each edited twice, and 200 feeds polled each minute",
        SITES,
        SITES * FEEDS_A_SITE,
        5_000,
    ),
}


@dataclass(frozen=True, slots=True)
class Stretches:
    """The usage of an idle minute of a site, and the usage that each other stretch adds."""

    minute: Usage
    feeds_minute: Usage  # all sites and feeds of the large newsroom
    events: Mapping[str, Usage]
    repeated: Usage  # an event that a feed repeats after the webhook
    night: Usage  # a site without pages
    night_page: Usage  # each page on top
    stored_page: Usage


def play_stretches() -> Stretches:
    """Play the stretches on the local stack."""
    with newsroom() as stack:
        cost.warm(stack)
        minute = usage(_play_minutes(stack, 60)) * (1 / 60)
    with archive(shape(1_000)) as full:
        costs = cost.measure_events(full, events=("new", "edit_fresh", "expiry"))
        events = {event: usage(counts.counted) for event, counts in costs.items()}
        stored_page = _measure_storage(full.stack) * (1 / 1_000)
    feeds_minute, repeated = _play_feeds()
    pages = 200
    small, large = _play_night(pages), _play_night(2 * pages)
    page = (large - small) * (1 / pages)
    return Stretches(minute, feeds_minute, events, repeated, small - page * pages, page, stored_page)


def _play_minutes(stack: Stack, count: int) -> Measured:
    with measuring(stack) as counts:
        for _ in range(count):
            stack.advance(stack.clock.now() + timedelta(seconds=60), every_schedule=True)
    return counts


def _play_night(pages: int) -> Usage:
    """Play both runs of reconcile_sites in a night, for a site with `pages` pages."""
    with archive(Shape(pages, in_window=0, in_open=pages, in_old=0)) as full:
        cost.warm(full.stack)
        night = full.stack.clock.now().replace(hour=3, minute=17) + timedelta(days=1)
        full.stack.advance(night - timedelta(minutes=2))
        idle = usage(_play_minutes(full.stack, 1))
        with measuring(full.stack) as counts:
            full.stack.advance(night)
            full.stack.advance(night + timedelta(minutes=30))
        counted = usage(counts) - idle * 2
        return Usage(counted.of, dict.fromkeys(counts.metrics, 1 / 24))  # both runs are in one hour of the day


def _play_feeds() -> tuple[Usage, Usage]:
    """Return the usage of a minute in which no feed of the large newsroom changes, and what an event adds that a feed repeats."""
    urls = []
    with FeedServer().running() as server, newsroom() as stack:
        for number in range(SITES):
            host = f"site{number:02}.example.com" if number else HOST
            feeds = [f"https://{host}/feeds/{feed}.xml" for feed in range(FEEDS_A_SITE)]
            urls += feeds
            stack.put_site(host, json.dumps({**SITE, "host": host, "feeds": feeds}))
        for url in urls:
            server.set(url, feed_answer([], "1"))
        for _ in range(4):  # until the files are written and all feeds answer 304
            stack.advance(stack.clock.now() + 2 * cost.APART, every_schedule=True)
        unchanged = usage(_play_minutes(stack, 2), len(urls)) * (1 / 2)
        story = cost.new_story(stack.clock.now())
        cost.publish(stack, story, stack.clock.now())
        server.set(urls[0], feed_answer([story], "2"))
        changed = usage(_play_minutes(stack, 1), len(urls))
    return unchanged, changed - unchanged


def measure_polling(feeds: int, idle: Usage) -> dict[str, Any]:
    """Return what feeds add to an idle minute and month, in the form of results.json. Each feed is on its own host, and never changes.

    The states are written in one minute of each quarter of an hour, here in the last.
    """
    urls = [f"https://feeds{number}.example.net/feed.xml" for number in range(feeds)]
    with newsroom() as stack, mock.patch.object(client, "fetch", lambda url, _: client.Response(304, {}, b"", url)):
        now = stack.clock.now()
        state = FeedState(etag='"1"', config_version=1, last_success=now - timedelta(minutes=11), known_since=now)
        for first in range(0, feeds, 500):
            host, own = f"site{first}.example.com", urls[first : first + 500]
            with stack.as_operator():
                states = [feed_item(host, url, state) | {"rev": 1} for url in own]
                table.put_many(states)
            site = {**SITE, "host": host, "feeds": [{"url": url, "own": True} for url in own]}
            stack.put_site(host, json.dumps(site))
        _play_minutes(stack, 2)
        plain, written = _play_minutes(stack, 1), _play_minutes(stack, 1)
    runs = plain.invocations["PollFeeds"]
    a_run = ceil(feeds / runs)
    added = usage(plain, a_run) * (14 / 15) + usage(written, a_run) * (1 / 15) - idle - Usage({"schedules": runs - 1})
    calls = sum(len(run.calls) for run in plain.runs if run.function == "PollFeeds")
    units = {name: round(added.of[name], 2) for name in ("read_units", "write_units")}
    month = (added * MINUTES_A_MONTH).dollars["total"]
    return {"feeds": feeds, "runs": runs, "calls": calls, **units, "month": month}


def _measure_storage(stack: Stack) -> Usage:
    """Return the bytes of the stack's pages in the table and in the bucket."""
    items = dynamodb_backends[ACCOUNT][REGION].get_table(stack.variable("TABLE_NAME")).items
    attributes = [item.to_json()["Attributes"] for partition in items.values() for item in partition.values()]
    in_bucket = sum(len(file.body) for file in listed_pages.read(stack))
    return Usage({"table_bytes": sum(map(meter.item_bytes, attributes)), "bucket_bytes": in_bucket})


def add_up(case: Newsroom, stretches: Stretches) -> Usage:
    """Return the usage of a newsroom in a month."""
    events = stretches.events
    total = (stretches.feeds_minute if case.feeds else stretches.minute) * MINUTES_A_MONTH
    total += (stretches.night * case.sites + stretches.night_page * case.articles) * DAYS_A_MONTH
    total += (events["new"] + events["edit_fresh"] * case.edits + events["expiry"]) * case.articles
    total += stretches.repeated * (case.requests if case.feeds else 0)
    total += stretches.stored_page * case.articles
    reads = case.sites * MINUTES_A_MONTH * 60 / secrets.SIGNED_AGE_MAX.total_seconds()
    total.of["secret_reads"] = min(case.requests, reads)
    total.of["sqs_requests"] += wiring.polled_requests()
    total.of["secrets"] = len(wiring.of_type("AWS::SecretsManager::Secret")) + case.sites - 1
    total.of["alarm_metrics"] = wiring.alarm_metrics()
    total.of["dashboards"] = len(wiring.of_type("AWS::CloudWatch::Dashboard"))
    total.of["custom_metrics"] = sum(total.metrics.values())
    total.of["bucket_bytes"] += total.of["bytes_put"] * VERSIONS_DAYS / DAYS_A_MONTH
    return total


def measure() -> dict[str, Any]:
    """Return what the three months use and cost, in the form of results.json."""
    stretches = play_stretches()
    cases = {}
    for name, case in CASES.items():
        total = add_up(case, stretches)
        cases[name] = {
            "title": case.title,
            "dollars": total.dollars,
            "used": {quantity: round(count, 2) for quantity, count in sorted(total.of.items())},
            "metrics": {" ".join(metric): round(share, 3) for metric, share in sorted(total.metrics.items())},
        }
    million = stretches.night_page * (MILLION * DAYS_A_MONTH) + stretches.stored_page * MILLION
    return {
        "cases": cases,
        "archive_million_dollars": million.dollars["total"],
        "feeds": [measure_polling(count, stretches.minute) for count in POLLED],
        "listing": options.measure_listing(),
        "notifying": options.measure_engines(CASES["small"].articles),
    }


def main() -> int:
    """Play, count and print; with --write keep the result."""
    parser = argparse.ArgumentParser(prog="python -m bench.month", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the result in results.json and in the documentation")
    results = report.load()
    is_written = parser.parse_args().write
    results["more"]["month"] = measure()
    if is_written:
        report.write(results)
    sys.stdout.write(f"{report.render('month', results)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
