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
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import timedelta
from functools import cache
from math import ceil
from typing import Any
from unittest import mock

from moto.dynamodb.models import dynamodb_backends

from bench import bursts, cost, listing, model, notifying, prices, report
from bench.archive import TEMPLATE, Shape, archive, newsroom, shape
from bench.measuring import Measured, measuring
from bench.newsroom import HOST, SITE
from stoppress.aws import secrets, table
from stoppress.feeds.schedule import FeedState
from stoppress.http import client
from stoppress.poll.feeds import FETCHES_AT_ONCE
from stoppress.poll.items import feed_item
from stoppress_cli.local import meter, template
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.scenario import sitemaps
from stoppress_cli.scenario.feeds_server import FeedServer

DAYS = report.DAYS_A_MONTH
MINUTES = DAYS * 24 * 60
# Long polls end after 20 seconds without a message.
LONG_POLLS_A_MINUTE = 3
# Lambda keeps five long polls open at each queue. Without a maximum concurrency and with low traffic, there are two (Lambda
# developer guide, "Configuring scaling behavior for SQS event source mappings").
POLLERS, POLLERS_UNLIMITED = 5, 2
# The bucket's lifecycle in template.yaml keeps replaced versions of files for so many days.
VERSIONS_DAYS = 7
GB = 1_000_000_000
SITES, FEEDS_A_SITE = 20, 10
# Prices are documented for so many feeds.
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
        """Articles of a month."""
        return self.articles_a_day * DAYS

    @property
    def requests(self) -> int:
        """Webhooks of a month."""
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


@dataclass
class Usage:
    """Billed quantities by name, and the part of the hours in which each custom metric is reported."""

    of: dict[str, float] = field(default_factory=dict)
    metrics: Mapping[tuple[str, ...], float] = field(default_factory=dict)

    def __add__(self, other: "Usage") -> "Usage":
        names, metrics = self.of.keys() | other.of.keys(), self.metrics.keys() | other.metrics.keys()
        return Usage(
            {name: self.of.get(name, 0) + other.of.get(name, 0) for name in names},
            {metric: max(self.metrics.get(metric, 0), other.metrics.get(metric, 0)) for metric in metrics},
        )

    def __mul__(self, times: float) -> "Usage":
        return Usage({name: count * times for name, count in self.of.items()}, self.metrics if times else {})

    def __sub__(self, other: "Usage") -> "Usage":
        """The quantities less another's. The metrics stay."""
        return Usage((self + other * -1).of, self.metrics)


# ── what the stretches use ──


def usage(counts: Measured, feeds: int = 0) -> Usage:
    """The billed quantities of a measurement. `feeds`: how many feeds each run of poll_feeds fetched."""
    calls, invocations = counts.calls, counts.invocations
    waits_s = ceil(feeds / FETCHES_AT_ONCE) * model.hop("feed").p50_ms / 1_000 * invocations["PollFeeds"]
    requests = invocations["ReceiveWebhook"]
    fetches = feeds * invocations["PollFeeds"]
    return Usage(
        {
            "invocations": sum(invocations.values()),
            "gb_seconds": model.gb_seconds(counts.runs) + waits_s * model.wiring().memory_mb["PollFeeds"] / 1_024,
            "schedules": sum(invocations[name] for name in scheduled()),
            "sqs_requests": counts.sqs_requests,
            "api_requests": requests,
            "events": calls["eventbridge.PutEvents"],
            "write_units": counts.write_units,
            "read_units": counts.read_units,
            "puts": counts.puts,
            "other_s3": counts.other_s3,
            "bytes_put": counts.bytes_put,
            "log_bytes": counts.log_bytes
            + sum(invocations.values()) * model.hops()["log"]["invocation_bytes"]
            + requests * model.hops()["log"]["request_bytes"],
            "bytes_out": fetches * model.hops()["feed"]["request_bytes"],
        },
        dict.fromkeys(counts.metrics, 1.0),
    )


@dataclass(frozen=True, slots=True)
class Stretches:
    """What each stretch uses: an idle minute of a site, and what each other stretch adds."""

    minute: Usage
    feeds_minute: Usage  # all sites and feeds of the large newsroom
    events: Mapping[str, Usage]
    repeated: Usage  # an event that a feed repeats after the webhook
    night: Usage  # a site without pages
    night_page: Usage  # each page on top
    bytes_a_page: Mapping[str, float]


def played() -> Stretches:
    """Play the stretches on the local stack."""
    with newsroom() as stack:
        cost.warm(stack)
        minute = usage(_minutes(stack, 60)) * (1 / 60)
    with archive(shape(1_000)) as full:
        events = {
            event: usage(counts.counted)
            for event, counts in cost.at(full, events=("new", "edit_fresh", "expiry")).items()
        }
        bytes_a_page = _stored(full.stack, 1_000)
    feeds_minute, repeated = _feeds()
    pages = 200
    small, large = _night(pages), _night(2 * pages)
    page = (large - small) * (1 / pages)
    return Stretches(minute, feeds_minute, events, repeated, small - page * pages, page, bytes_a_page)


def _minutes(stack: Stack, count: int) -> Measured:
    with measuring(stack) as counts:
        for _ in range(count):
            stack.advance(stack.clock.now() + timedelta(seconds=60), every_schedule=True)
    return counts


def _night(pages: int) -> Usage:
    """Both runs of reconcile_sites in a night, for a site with `pages` pages."""
    with archive(Shape(pages, in_window=0, in_open=pages, in_old=0)) as full:
        cost.warm(full.stack)
        night = full.stack.clock.now().replace(hour=3, minute=17) + timedelta(days=1)
        full.stack.advance(night - timedelta(minutes=2))
        idle = usage(_minutes(full.stack, 1))
        with measuring(full.stack) as counts:
            full.stack.advance(night)
            full.stack.advance(night + timedelta(minutes=30))
        counted = usage(counts) - idle * 2
        return Usage(counted.of, dict.fromkeys(counts.metrics, 1 / 24))  # both runs are in one hour of the day


def _feeds() -> tuple[Usage, Usage]:
    """A minute in which no feed of the large newsroom changes, and what an event adds that a feed repeats after its webhook."""
    urls = [f"https://{HOST}/feeds/{number}.xml" for number in range(FEEDS_A_SITE)]
    with FeedServer().running() as server, newsroom(site={**SITE, "feeds": urls}) as stack:
        for number in range(1, SITES):
            host = f"site{number:02}.example.com"
            feeds = [f"https://{host}/feeds/{feed}.xml" for feed in range(FEEDS_A_SITE)]
            urls += feeds
            stack.put_site(host, json.dumps({**SITE, "host": host, "feeds": feeds}))
        for url in urls:
            server.set(url, bursts._answer([], "1"))
        for _ in range(4):  # until the files are written and all feeds answer 304
            stack.advance(stack.clock.now() + 2 * cost.APART, every_schedule=True)
        unchanged = usage(_minutes(stack, 2), len(urls)) * (1 / 2)
        story = cost.new_story(stack.clock.now())
        cost.publish(stack, story, stack.clock.now())
        server.set(urls[0], bursts._answer([story], "2"))
        changed = usage(_minutes(stack, 1), len(urls))
    return unchanged, changed - unchanged


def polled(feeds: int, idle: Usage) -> dict[str, Any]:
    """What feeds add to an idle minute and month, in the form of results.json. Each is on its own host, and never changes.

    A quarter of an hour has one minute in which the states are written, as at its end here.
    """
    urls = [f"https://feeds{number}.example.net/feed.xml" for number in range(feeds)]
    with newsroom() as stack, mock.patch.object(client, "fetch", lambda url, _: client.Response(304, {}, b"", url)):
        now = stack.clock.now()
        state = FeedState(etag='"1"', config_version=1, last_success=now - timedelta(minutes=11), known_since=now)
        for first in range(0, feeds, 500):
            host, own = f"site{first}.example.com", urls[first : first + 500]
            with stack.as_operator():
                states = [feed_item(host, url, replace(state, answered_by=url)) | {"rev": 1} for url in own]
                table.put_many(states)
            site = {**SITE, "host": host, "feeds": [{"url": url, "own": True} for url in own]}
            stack.put_site(host, json.dumps(site))
        _minutes(stack, 2)
        plain, written = _minutes(stack, 1), _minutes(stack, 1)
    runs = plain.invocations["PollFeeds"]
    a_run = ceil(feeds / runs)
    used = usage(plain, a_run) * (14 / 15) + usage(written, a_run) * (1 / 15) - idle - Usage({"schedules": runs - 1})
    calls = sum(len(run.calls) for run in plain.runs if run.function == "PollFeeds")
    units = {name: round(used.of[name], 2) for name in ("read_units", "write_units")}
    return {"feeds": feeds, "runs": runs, "calls": calls, **units, "month": dollars(used * MINUTES)["total"]}


def _stored(stack: Stack, pages: int) -> Mapping[str, float]:
    """The bytes that a page takes in the table and in the bucket."""
    table = dynamodb_backends[ACCOUNT][REGION].get_table(stack.variable("TABLE_NAME"))
    in_table = sum(
        meter.item_bytes(item.to_json()["Attributes"]) for items in table.items.values() for item in items.values()
    )
    in_bucket = sum(len(file.body) for file in sitemaps.read(stack))
    return {"table": in_table / pages, "bucket": in_bucket / pages}


# ── what the template has ──


@cache
def in_template(switched_on: str = "") -> Mapping[str, Mapping[str, Any]]:
    """The resources that are made without parameters, or with this one set to `yes`, by logical name."""
    loaded = template.load(TEMPLATE, {switched_on: "yes"} if switched_on else {})
    resolver = template.Resolver(loaded, {}, template.STACK_NAME)
    return {
        logical: resource
        for logical, resource in loaded.resources.items()
        if "Condition" not in resource or resolver.holds(resource["Condition"])
    }


def of_type(kind: str, switched_on: str = "") -> list[Mapping[str, Any]]:
    """The properties of the resources of a type."""
    return [resource["Properties"] for resource in in_template(switched_on).values() if resource["Type"] == kind]


def alarm_metrics(switched_on: str = "") -> int:
    """How many metrics the alarms watch. CloudWatch bills each metric, also in an expression."""
    alarms = of_type("AWS::CloudWatch::Alarm", switched_on)
    metrics = [alarm.get("Metrics", [{"MetricStat": {}}]) for alarm in alarms]
    return sum("MetricStat" in metric for queries in metrics for metric in queries)


def polled_requests(switched_on: str = "") -> int:
    """Long polls of a month at the queues that have a function."""
    event_sources = of_type("AWS::Lambda::EventSourceMapping", switched_on)
    mappings = [mapping for mapping in event_sources if "StartingPosition" not in mapping]
    pollers = sum(POLLERS if "ScalingConfig" in mapping else POLLERS_UNLIMITED for mapping in mappings)
    return pollers * LONG_POLLS_A_MINUTE * MINUTES


@cache
def scheduled() -> frozenset[str]:
    """The functions that a schedule invokes."""
    targets = [schedule["Target"]["Arn"]["Fn::GetAtt"][0] for schedule in of_type("AWS::Scheduler::Schedule")]
    return frozenset(targets)


# ── months ──


def used(case: Newsroom, stretches: Stretches) -> Usage:
    """What a newsroom uses in a month."""
    minute = stretches.feeds_minute if case.feeds else stretches.minute
    events = stretches.events
    total = minute * MINUTES
    total += (stretches.night * case.sites + stretches.night_page * case.articles) * DAYS
    total += (
        events["new"] * case.articles
        + events["edit_fresh"] * (case.articles * case.edits)
        + events["expiry"] * case.articles
    )
    if case.feeds:
        total += stretches.repeated * case.requests
    reads = case.sites * MINUTES * 60 / secrets.SIGNED_AGE_MAX.total_seconds()
    total.of["secret_reads"] = min(case.requests, reads)
    total.of["sqs_requests"] += polled_requests()
    total.of["secrets"] = len(of_type("AWS::SecretsManager::Secret")) + case.sites - 1
    total.of["alarm_metrics"] = alarm_metrics()
    total.of["dashboards"] = len(of_type("AWS::CloudWatch::Dashboard"))
    total.of["custom_metrics"] = sum(total.metrics.values())
    total += kept(stretches, case.articles)
    total.of["bucket_bytes"] += total.of["bytes_put"] * VERSIONS_DAYS / DAYS
    return total


def kept(stretches: Stretches, pages: int) -> Usage:
    """The storage of `pages` pages."""
    return Usage({f"{place}_bytes": size * pages for place, size in stretches.bytes_a_page.items()})


def archive_million(stretches: Stretches) -> Usage:
    """What a million more pages in the archive use in a month: storage, and the nightly comparison."""
    return stretches.night_page * (prices.MILLION * DAYS) + kept(stretches, prices.MILLION)


# ── what parameters add ──

# How many stories an audit compares: two days of 100 articles, and some more.
AUDITED = 300
# How many articles the counted import has: a full shard.
IMPORTED = 2_000


def added(parameter: str) -> Usage:
    """What a parameter set to `yes` adds to a month in which nothing happens: alarms, and long polls at its queue."""
    return Usage(
        {
            "sqs_requests": polled_requests(parameter) - polled_requests(),
            "alarm_metrics": alarm_metrics(parameter) - alarm_metrics(),
        }
    )


def listed() -> dict[str, Any]:
    """What audits and imports use and cost, in the form of results.json."""
    hour = listing.audit(AUDITED)
    return {
        "switched_on": dollars(added("Listing"))["total"],
        "audit": {
            "stories": AUDITED,
            "calls": sum(hour.calls.values()),
            "read_units": hour.read_units,
            "write_units": hour.write_units,
            "month": dollars(usage(hour) * (24 * DAYS))["total"],
        },
        "import": {
            "concurrency": listing.concurrency(),
            **import_row(listing.imported(IMPORTED)),
        },
    }


def import_row(done: listing.Import) -> dict[str, Any]:
    """The rates of an import, what an article uses, and what a million articles cost."""
    article = usage(done.used) * (1 / done.articles)
    names = ("write_units", "read_units", "puts", "other_s3", "sqs_requests", "gb_seconds")
    return {
        "recorded_a_second": round(done.recorded_a_second),
        "rewritten_a_second": round(done.rewritten_a_second),
        "article": {name: round(article.of[name], 4) for name in names},
        "million": dollars(article * prices.MILLION),
    }


def notified() -> dict[str, Any]:
    """What the notifications of engines use and cost, as results.json has it."""
    idle = added("Engines") + usage(notifying.sweep()) * (24 * DAYS)
    return {
        "switched_on": dollars(idle)["total"],
        "without_engines": notified_row(notifying.story(SITE), waits=0),
        "with_engines": notified_row(
            notifying.story(notifying.NOTIFIED_SITE), waits=notifying.REQUESTS * (1 + notifying.EDITS)
        ),
    }


def notified_row(story: Measured, waits: int) -> dict[str, Any]:
    """Of a story and its edits: what it uses, and what a month of the small newsroom costs. `waits`: requests to the web."""
    used = usage(story)
    memory_gb = model.wiring().memory_mb["NotifyEngines"] / 1_024
    used.of["gb_seconds"] += waits * model.hop("feed").p50_ms / 1_000 * memory_gb
    return {
        "calls": sum(story.calls.values()),
        "invocations": sum(story.invocations.values()),
        "read_units": story.read_units,
        "write_units": story.write_units,
        "puts": story.puts,
        "month": dollars(used * CASES["small"].articles)["total"],
    }


# ── dollars ──


def dollars(total: Usage) -> dict[str, float]:
    """The price of a month, by service and in all."""
    of, price = defaultdict(float, total.of), prices.prices()
    by = {
        "Lambda": of["invocations"] * price["lambda"]["million_requests"] / prices.MILLION
        + of["gb_seconds"] * price["lambda"]["gb_second"],
        "DynamoDB": of["write_units"] * price["dynamodb"]["million_write_units"] / prices.MILLION
        + of["read_units"] * price["dynamodb"]["million_read_units"] / prices.MILLION
        + of["table_bytes"] / GB * (price["dynamodb"]["gb_month"] + price["dynamodb"]["backup_gb_month"]),
        "S3": of["puts"] * price["s3"]["thousand_puts"] / 1_000
        + of["other_s3"] * price["s3"]["thousand_other"] / 1_000
        + of["bucket_bytes"] / GB * price["s3"]["gb_month"],
        "SQS": of["sqs_requests"] * price["sqs"]["million_requests"] / prices.MILLION,
        "API Gateway": of["api_requests"] * price["api"]["million_requests"] / prices.MILLION,
        "EventBridge": of["events"] * price["events"]["million_events"] / prices.MILLION
        + of["schedules"] * price["events"]["million_schedules"] / prices.MILLION,
        "Secrets Manager": of["secrets"] * price["secrets"]["secret_month"]
        + of["secret_reads"] * price["secrets"]["ten_thousand_calls"] / 10_000,
        "alarms": of["alarm_metrics"] * price["cloudwatch"]["alarm_metric"]
        + of["dashboards"] * price["cloudwatch"]["dashboard"],
        "custom metrics": of["custom_metrics"] * price["cloudwatch"]["custom_metric"],
        "logs": of["log_bytes"] / GB * (price["cloudwatch"]["log_gb"] + price["cloudwatch"]["log_gb_month"]),
        "transfer": of["bytes_out"] / GB * price["transfer"]["gb_out"],
    }  # fmt: skip
    return {name: round(price, 2) for name, price in (by | {"total": sum(by.values())}).items()}


def measured() -> dict[str, Any]:
    """What the three months use and cost, in the form of results.json."""
    stretches = played()
    totals = {name: used(case, stretches) for name, case in CASES.items()}
    cases = {
        name: {
            "title": CASES[name].title,
            "dollars": dollars(total),
            "used": {what: round(count, 2) for what, count in sorted(total.of.items())},
            "metrics": {" ".join(metric): round(share, 3) for metric, share in sorted(total.metrics.items())},
        }
        for name, total in totals.items()
    }
    million = dollars(archive_million(stretches))["total"]
    feeds = [polled(count, stretches.minute) for count in POLLED]
    return {
        "cases": cases,
        "archive_million_dollars": million,
        "feeds": feeds,
        "listing": listed(),
        "notifying": notified(),
    }


def main() -> int:
    """Play, count and print; with --write keep the result."""
    parser = argparse.ArgumentParser(prog="python -m bench.month", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the result in results.json and in the documentation")
    options = parser.parse_args()
    results = json.loads(report.RESULTS.read_text(encoding="utf-8"))
    results["more"]["month"] = measured()
    if options.write:
        report.write(results)
    sys.stdout.write(f"{report.month_section(results)}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
