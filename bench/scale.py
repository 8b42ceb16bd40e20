"""An hour of ten thousand sites on doubles of AWS: `python -m bench.scale` (make scale).

Busy sites publish a story every five minutes, and their feeds answer 304. All other sites are idle and have no feeds. Calls and
units are counted. The remaining time of a run is its time-out less the time of its calls in the model of AWS.
"""

import argparse
import json
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime, timedelta
from types import SimpleNamespace
from typing import Any
from unittest import mock

from botocore.exceptions import ClientError

from bench import model, report
from bench.newsroom import NOW, WINDOW
from bench.prices import Usage
from bench.wiring import TEMPLATE
from stoppress.http import client
from stoppress.model.event import ArticleEvent, to_message
from stoppress_cli.local import meter
from stoppress_cli.local.lambda_functions import Context
from tests.simulation.stack import StackOnDoubles

MINUTE = timedelta(minutes=1)
# The minutes between two stories of a busy site, now and in the first HOURS of the window.
PACE, HOURS = 5, 4
# DynamoDB bills these additional bytes for each item (DynamoDB pricing, "Data storage").
ITEM_OVERHEAD_BYTES = 100
# Botocore's names of the services that have other names in the doubles.
_NAMES = {"events": "eventbridge", "secretsmanager": "secrets-manager"}
_IDLE, _BUSY = "idle", "busy"
_EMPTY_FEED = b'<?xml version="1.0"?><rss version="2.0"><channel><title>News</title></channel></rss>'


class MeteredStack(StackOnDoubles):
    """The doubles with a meter. `idle_calls`: calls whose request or answer contains an idle site."""

    idle_calls = 0
    spent_ms = 0.0  # of the current run, by the model

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self.units_read: defaultdict[str, float] = defaultdict(float)  # by function
        self.units_written: defaultdict[str, float] = defaultdict(float)

    def call(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        if (function := self.wire.thread.running) is None:
            return super().call(service, operation, params)
        name = operation.title().replace("_", "")
        full_name = f"{_NAMES.get(service, service)}.{name}"
        self.wire.meter.calls[function, full_name] += 1
        self.spent_ms += model.call(full_name).p50_ms
        answer: dict[str, Any] = {}

        def send() -> SimpleNamespace:
            try:
                answer.update(super(MeteredStack, self).call(service, operation, params))
            except ClientError as error:
                return SimpleNamespace(status_code=400, error=error)
            return SimpleNamespace(status_code=200)

        if service == "dynamodb":
            find, size = self.backend._dynamo._find, meter.item_bytes
            response, read, written = meter.capacity(
                name, params, send, lambda _, key: find(key), lambda _: sum(map(size, answer["Items"]))
            )
            self.units_read[function] += read
            self.units_written[function] += written
        else:
            response = send()
        if response.status_code != 200:
            raise response.error
        self.idle_calls += f"{_IDLE}-" in str((params, answer))
        return answer

    def _running(self, function: str | None) -> None:
        super()._running(function)
        self.spent_ms = 0.0


def play(sites: int = 10_000, busy: int = 100, feeds: int = 5_000) -> dict[str, Any]:
    """Play the hour and the outage; return what the template `scale` shows."""
    with _open_stack() as stack:
        newsrooms = [Newsroom(stack, number, feeds // busy) for number in range(busy)]
        idle_dollars = _add_idle_sites(stack, sites - busy)
        for minutes in (8, 5, 2):
            stack.advance(NOW - minutes * MINUTE, every_schedule=True)
        stack.advance(NOW)
        before = stack.idle_calls
        functions, (due, late) = _count_usage(stack, lambda: _play_hour(stack, newsrooms))
        idle = {"idle_calls": stack.idle_calls - before, "idle_dollars": idle_dollars}
        played = {"sites": sites, "busy": busy, "feeds": feeds, "functions": functions, "left": due, "late": late}
        return played | idle | {"recovery_minutes": _play_outage(stack, newsrooms)}


@contextmanager
def _open_stack() -> Iterator[MeteredStack]:
    def fetch(url: str, headers: Mapping[str, str], **_: Any) -> client.Response:
        if "If-None-Match" in headers:
            return client.Response(304, {}, b"", url)
        return client.Response(200, {"content-type": "application/rss+xml", "etag": '"1"'}, _EMPTY_FEED, url)

    def left_ms(context: Context) -> int:
        return max(0, round(context.timeout_s * 1_000 - stack.spent_ms))

    with (
        MeteredStack(TEMPLATE, {"Engines": "no", "Listing": "no"}, start=NOW - 10 * MINUTE) as stack,
        mock.patch.object(client, "fetch", fetch),
        mock.patch.object(Context, "get_remaining_time_in_millis", left_ms),
    ):
        yield stack
        assert not sum(function.errors for function in stack.functions.values()), "a function failed"


class Newsroom:
    """A busy site, with a story for each five minutes of the last 48 hours that end in the next hours."""

    def __init__(self, stack: MeteredStack, number: int, feeds: int) -> None:
        self.host = f"{_BUSY}-{number:05}.example.com"
        self._stack, self._minute = stack, number % PACE
        _put_site(stack, self.host, feeds=[f"https://{self.host}/feeds/{feed}.xml" for feed in range(feeds)])
        for minute in range(1, HOURS * 60 + 1):
            self.publish(NOW - WINDOW + minute * MINUTE)
        stack.rest()

    def publish(self, at: datetime) -> None:
        if self.publishes(at):
            _send_story(self._stack, self.host, at)

    def publishes(self, at: datetime) -> bool:
        return at.minute % PACE == self._minute

    def lists(self, at: datetime) -> bool:
        """Return True if the news sitemap lists the story of this instant."""
        file = self._stack.backend._s3.objects[f"{self.host}/sitemap-news.xml"]
        return _url(self.host, at).encode() in file.body


def _put_site(stack: MeteredStack, host: str, **settings: Any) -> None:
    stack.put_site(host, json.dumps({"host": host, "publication": "Example News", "sources": {"bus": {}}} | settings))
    stack.rest()


def _send_story(stack: MeteredStack, host: str, at: datetime) -> None:
    event = ArticleEvent(
        site=host,
        source="bus",
        id=f"{at:%d%H%M}",
        action="publish",
        timestamp=at,
        url=_url(host, at),
        title="The harbour and the council: what the ferry means for the market, and why it matters",
        published_at=at,
        verb="published",
    )
    stack.backend.send(stack.resources["ArticlesQueue"].arn, to_message(event))


def _url(host: str, at: datetime) -> str:
    return f"https://{host}/{at:%Y/%m/%d}/the-harbour-and-the-council-{at:%H%M}"


def _add_idle_sites(stack: MeteredStack, count: int) -> float:
    """Add one idle site with an old story, and copies of its items and files. Return the price of their storage in dollars a month."""
    first = f"{_IDLE}-00000.example.com"
    _put_site(stack, first)
    _send_story(stack, first, NOW - timedelta(days=30))
    stack.advance(NOW - 9 * MINUTE, every_schedule=True)
    table, objects = stack.backend._dynamo, stack.backend._s3.objects
    items = [text for item in table.all_items() if first in (text := json.dumps(item))]
    files = {key: stored for key, stored in objects.items() if key.startswith(first)}
    for number in range(1, count):
        host = f"{_IDLE}-{number:05}.example.com"
        for text in items:
            item = json.loads(text.replace(first, host))
            table._write(item, item)
        objects.update({key.replace(first, host): stored for key, stored in files.items()})
    stack.backend.read_stream("")  # discards the records
    table_bytes = sum(ITEM_OVERHEAD_BYTES + meter.item_bytes(json.loads(text)) for text in items)
    bucket_bytes = sum(len(stored.body) for stored in files.values())
    return (Usage({"table_bytes": table_bytes, "bucket_bytes": bucket_bytes}) * count).dollars["total"]


def _count_usage(stack: MeteredStack, work: Callable[[], tuple[int, int]]) -> tuple[dict[str, Any], tuple[int, int]]:
    """Do the work; return the usage of each function, and the result of the work."""
    before = _read_usage(stack)
    result = work()
    after = _read_usage(stack)
    used = {
        name: {unit: after[name][unit] - count for unit, count in counts.items()} for name, counts in before.items()
    }
    return {name: counts for name, counts in used.items() if counts["invocations"]}, result


def _read_usage(stack: MeteredStack) -> dict[str, dict[str, float]]:
    meters = stack.wire.meter
    return {
        name: {
            "invocations": function.invocations,
            "calls": sum(count for (caller, _), count in meters.calls.items() if caller == name),
            "read_units": stack.units_read[name],
            "write_units": stack.units_written[name],
        }
        for name, function in stack.functions.items()
    }


def _play_hour(stack: MeteredStack, newsrooms: list[Newsroom]) -> tuple[int, int]:
    """Play sixty minutes; return how many stories had to leave the news, and how many of them left early or late."""
    due = late = 0
    for minute in range(1, 61):
        now = NOW + minute * MINUTE
        leaving = [newsroom for newsroom in newsrooms if newsroom.publishes(now)]
        stack.advance(now - timedelta(seconds=1))
        early = sum(not newsroom.lists(now - WINDOW) for newsroom in leaving)
        for newsroom in leaving:
            newsroom.publish(now)
        stack.advance(now)
        due += len(leaving)
        late += early + sum(newsroom.lists(now - WINDOW) or not newsroom.lists(now) for newsroom in leaving)
    return due, late


def _play_outage(stack: MeteredStack, newsrooms: list[Newsroom]) -> int:
    """Let no schedule fire for three hours. Return the minutes until the news lists no story that should have left."""
    ended = NOW + timedelta(hours=HOURS)
    overdue = [NOW - WINDOW + minute * MINUTE for minute in range(61, HOURS * 60 + 1)]
    for minutes in range(60):
        stack.advance(ended + minutes * MINUTE)
        if not any(newsroom.lists(at) for newsroom in newsrooms for at in overdue if newsroom.publishes(at)):
            return minutes
    sys.exit("stories that should have left are listed an hour after the outage")


def main() -> int:
    """Play and print; with --write keep the result. Exit code 1: an idle site cost something, or a story left late."""
    parser = argparse.ArgumentParser(prog="python -m bench.scale", description=__doc__)
    parser.add_argument("--write", action="store_true", help="keep the result in results.json and in the documentation")
    options = parser.parse_args()
    results = report.load()
    results["more"]["scale"] = hour = play()
    if options.write:
        report.write(results)
    sys.stdout.write(f"{report.render('scale', results)}\n")
    return 1 if hour["idle_calls"] or hour["late"] else 0


if __name__ == "__main__":
    sys.exit(main())
