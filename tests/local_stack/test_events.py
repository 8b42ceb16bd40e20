"""The payloads in events/: each is passed to its function in the template's stack, at its instant, and has the documented effect.

They are in the order of the flow: 1 and 2 receive articles, 3 records them, 4 and 5 write files, 6 is the schedule, 7 a changed site,
8 the event that Stoppress sends, 9 the nightly comparison, 10 and 11 requests of a feed's hub, 15 a share of the feeds; put-events.json is
for `aws events put-events --entries file://…`. The webhook is signed with `whsec_c3RvcHByZXNz`, from which the hub's secret is derived.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from stoppress.aws.items import read_news_place
from stoppress.cms.contract import read_delivery
from stoppress.model.event import to_message
from stoppress.model.http_request import Request
from stoppress.primitives.instants import parse
from stoppress_cli.local import local_queues
from stoppress_cli.local.gateway import event as gateway_event
from stoppress_cli.local.lambda_functions import Result
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.scenario.feeds_server import FeedServer
from stoppress_cli.scenario.file import FeedAnswer
from tests.support import event_files

pytestmark = pytest.mark.moto


@pytest.fixture
def stack() -> Iterator[Stack]:
    with event_files.first_site_stack(event_files.FEED, datetime(2026, 11, 20, 7, tzinfo=UTC)) as running:
        yield running


def invoke(stack: Stack, name: str, at: datetime) -> Result:
    """Invoke the function of a payload at an instant."""
    stack.clock.move(at)
    result = stack.sources.invoke(stack.functions[event_files.function_of(name)], event_files.read(name))
    assert result.error is None, result.error
    return result


def instant_of(event: Any) -> datetime:
    """Return when an event was sent, received or recorded."""
    if "Records" not in event:
        return parse(event["time"]) if "time" in event else _of_millis(event["requestContext"]["timeEpoch"])
    record = event["Records"][0]
    if "dynamodb" in record:
        return datetime.fromtimestamp(record["dynamodb"]["ApproximateCreationDateTime"] + 1, UTC)
    return _of_millis(record["attributes"]["SentTimestamp"])


def _of_millis(millis: str | int) -> datetime:
    return datetime.fromtimestamp(int(millis) / 1000, UTC)


# ── the files themselves ──


def test_the_files_are_numbered_in_the_order_of_the_flow_and_end_in_a_functions_name() -> None:
    numbered = event_files.NUMBERED
    assert [name.partition("-")[0] for name in numbered] == [str(number) for number in range(1, len(numbered) + 1)]
    functions = {path.name for path in (event_files.ROOT / "functions").iterdir() if (path / "app.py").is_file()}
    assert {name.removesuffix(".json").rpartition("-")[2] for name in numbered} - functions == {"rewritten"}
    assert functions <= {name.removesuffix(".json").rpartition("-")[2] for name in numbered}


@pytest.mark.parametrize("path", sorted(event_files.EVENTS.iterdir()), ids=lambda path: path.name)
def test_each_file_is_formatted_json_of_a_fictional_newsroom(path: Path) -> None:
    text = path.read_text()
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    assert set(re.findall(r"https?://([^/\"\\]+)", text)) <= {event_files.HOST}
    assert set(re.findall(r"\b\d{12}\b", text)) <= {ACCOUNT}


# ── 1: a webhook ──


def test_a_webhook_puts_its_article_on_the_queue(stack: Stack) -> None:
    event = event_files.read(event_files.WEBHOOK)
    at = instant_of(event)
    answer = invoke(stack, event_files.WEBHOOK, at).payload

    assert (answer["statusCode"], json.loads(answer["body"])["status"]) == (200, "queued")
    delivery = event["headers"]["webhook-id"]
    expected, unknown = read_delivery(
        json.loads(event["body"]), event_files.first_site(stack), "cms", at, delivery=delivery
    )
    assert (
        event_files.on_queue(stack, "ArticlesQueue")
        == [to_message(expected)]
        == [event_files.read(event_files.RECORD)["Records"][0]["body"]]
    )
    assert unknown == []


@pytest.mark.parametrize("name", [event_files.WEBHOOK, event_files.QUESTION, event_files.PUSH, event_files.EDITOR])
def test_a_request_has_the_shape_of_the_local_gateway(stack: Stack, name: str) -> None:
    event = event_files.read(name)
    path, method = event["rawPath"], event["requestContext"]["http"]["method"]
    (route,) = [route for route in stack.sources.routes if route.key == event["routeKey"]]
    body = event.get("body", "").encode()
    request = Request(event["headers"], body, method, path, event["rawQueryString"])
    parameters = route.match(request)
    assert parameters is not None
    assert parameters == event["pathParameters"]
    actual = gateway_event(request, route, parameters, instant_of(event))

    assert actual.keys() == event.keys()
    assert actual["requestContext"].keys() == event["requestContext"].keys()
    assert actual["requestContext"]["http"].keys() == event["requestContext"]["http"].keys()
    for key in actual.keys() - {"requestContext"}:
        assert actual[key] == event[key]
    for key in ("http", "routeKey", "time", "timeEpoch"):
        assert actual["requestContext"][key] == event["requestContext"][key] or key == "http"


# ── put-events.json: the bus ──


def test_an_event_put_on_the_bus_is_the_second_message_of_the_queue(stack: Stack) -> None:
    stack.clock.move(parse(event_files.read("put-events.json")[0]["Time"]))
    stack.client("events").put_events(Entries=event_files.read("put-events.json"))
    stack.sources._route(*stack.sources._events.pop(), datetime.now(UTC))

    (message,) = event_files.on_queue(stack, "ArticlesQueue")
    kept = json.loads(event_files.read(event_files.RECORD)["Records"][1]["body"])
    assert json.loads(message) | {"id": ""} == kept | {"id": ""}


# ── 2: the minute of the feeds ──


@pytest.mark.parametrize(
    ("name", "logical"),
    [(event_files.POLL, "PollFeeds"), (event_files.ROLL, "RollWindow"), (event_files.HOURLY, "AuditSources")],
)
def test_a_schedule_has_the_shape_of_the_scheduler(stack: Stack, name: str, logical: str) -> None:
    arn = stack.functions[logical].arn
    (schedule,) = [schedule for schedule in stack.sources.schedules if schedule.target == arn]
    assert schedule.fire(parse(event_files.read(name)["time"])) | {"id": ""} == event_files.read(name) | {"id": ""}


# ── 3: the articles queue ──


@pytest.mark.parametrize("name", [event_files.RECORD, event_files.REWRITES, event_files.ENGINES])
def test_messages_have_the_shape_of_sqs(stack: Stack, name: str) -> None:
    queue = local_queues.queue(f"arn:aws:sqs:{REGION}:{ACCOUNT}:{stack.name}-ArticlesQueue")
    stack.client("sqs").send_message(QueueUrl=stack.variable("ARTICLES_QUEUE_URL"), MessageBody="x")
    (message,) = local_queues.receive(queue, 1)
    actual = local_queues.record(message, "arn")
    for record in event_files.read(name)["Records"]:
        assert record.keys() == actual.keys()
        assert record["attributes"].keys() == actual["attributes"].keys()
        assert record["md5OfBody"] == md5(record["body"].encode()).hexdigest()  # noqa: S324 - SQS's own


# ── 4: the stream ──


def test_the_event_of_a_rewritten_file_has_the_shape_of_the_payload(stack: Stack) -> None:
    event_files.apply(stack, event_files.read(event_files.STREAM))
    invoke(stack, event_files.STREAM, parse(event_files.read(event_files.ANNOUNCED)["time"]))
    put = {
        event["detail"]["file"]: (bus, event) for bus, event in stack.sources._events if event["source"] == "stoppress"
    }
    bus, event = put["sitemap-news.xml"]
    assert event | {"id": ""} == event_files.read(event_files.ANNOUNCED) | {"id": ""}
    assert bus == stack.only("AWS::Events::EventBus").ref == event_files.read("put-events.json")[0]["EventBusName"]


def test_the_streams_images_are_the_items_that_recording_writes(stack: Stack) -> None:
    sent = instant_of(event_files.read(event_files.RECORD))
    invoke(stack, event_files.RECORD, sent + timedelta(seconds=1))
    recorded = event_files.items(stack)["file"]
    inserted = [
        record["dynamodb"]["NewImage"]
        for record in event_files.read(event_files.STREAM)["Records"]
        if record["eventName"] == "INSERT"
    ]
    images = [event_files.plain(image) for image in inserted]
    assert sorted(images, key=str) == sorted(recorded, key=str)
    for image in images:
        if "title" in image:
            assert read_news_place(image).file == "sitemap-news.xml"


def test_the_streams_records_have_the_shape_of_lambda_and_pass_the_filter(stack: Stack) -> None:
    (mapping,) = stack.sources.stream_mappings
    event_files.apply(stack, event_files.read(event_files.STREAM))
    actual, *_ = local_queues.read_stream(mapping.arn)
    names = {record["eventName"] for record in event_files.read(event_files.STREAM)["Records"]}
    assert names == {"INSERT", "MODIFY", "REMOVE"}
    for record in event_files.read(event_files.STREAM)["Records"]:
        assert record.keys() == actual.keys()
        both = {"NewImage", "OldImage"}
        assert record["dynamodb"].keys() - both == actual["dynamodb"].keys() - both
        images = {"INSERT": {"NewImage"}, "REMOVE": {"OldImage"}, "MODIFY": both}
        assert record["dynamodb"].keys() & both == images[record["eventName"]]
        assert mapping.passes(record)
    numbers = [record["dynamodb"]["SequenceNumber"] for record in event_files.read(event_files.STREAM)["Records"]]
    assert len(set(numbers)) == len(numbers)


# ── 7: a changed site ──


def test_a_changed_site_passes_the_filter_of_the_template(stack: Stack) -> None:
    (mapping,) = stack.sources.stream_mappings
    [record] = event_files.read(event_files.CHANGED)["Records"]
    assert mapping.passes(record)
    [actual] = [
        change
        for change in local_queues.read_stream(mapping.arn)
        if change["dynamodb"]["Keys"]["pk"]["S"] == f"site#{event_files.HOST}" and mapping.passes(change)
    ]
    assert actual["dynamodb"]["NewImage"].keys() == record["dynamodb"]["NewImage"].keys()


# ── 9: the nightly comparison ──


def test_the_nightly_schedule_sends_an_event_for_each_site(stack: Stack) -> None:
    stack.clock.move(parse(event_files.read(event_files.NIGHT)["time"]))
    assert stack.sources.invoke(stack.functions["ReconcileSites"], {}).error is None
    [(bus, event)] = stack.sources._events
    assert event | {"id": ""} == event_files.read(event_files.NIGHT) | {"id": ""}
    [rule] = [rule for rule in stack.sources.rules if rule.bus == bus and rule.matches(event)]
    assert rule.targets == (stack.functions["ReconcileSites"].arn,)


# ── effects ──

# By file: the HTTP status of the response, and the change in the numbers of items, files and messages.
EFFECTS: dict[str, tuple[int | None, dict[str, int]]] = {
    event_files.WEBHOOK: (200, {"ArticlesQueue": 1}),
    event_files.POLL: (None, {"ArticlesQueue": 1, "feed": 3}),
    event_files.RECORD: (None, {"article": 2, "file": 4, "places": 2, "quarantine": 1, "story": 2, "url": 2}),
    event_files.STREAM: (None, {"due-expiries": 1, "file": 2, event_files.SHARD: 1, event_files.NEWS: 1}),
    event_files.REWRITES: (
        None,
        {"due-expiries": 1, "file": 2, event_files.SHARD: 1, event_files.NEWS: 1, f"{event_files.HOST}/sitemap.xml": 1},
    ),
    event_files.ROLL: (None, {"clock": 1, "due-sites": 1, "file": -1, "heartbeat": 1}),
    event_files.CHANGED: (None, {"RewritesQueue": 4}),
    event_files.NIGHT: (None, {"suspects": 2}),
    event_files.QUESTION: (200, {}),
    event_files.PUSH: (202, {"ArticlesQueue": 1}),
    event_files.EDITOR: (200, {}),
    event_files.HOURLY: (None, {"audit": 1}),
    event_files.ENGINES: (None, {}),
    event_files.SHARE: (None, {"ArticlesQueue": 1, "feed": 3}),
}


@pytest.mark.parametrize("name", EFFECTS)
def test_each_event_has_its_effect(name: str) -> None:
    at = instant_of(event_files.read(name))
    item = "<item><guid>g1</guid><link>https://www.example.com/a</link><title>A</title></item>"
    rss = f'<rss version="2.0"><channel>{item}</channel></rss>'
    with FeedServer().running() as server, event_files.prepared(name, now=at) as stack:
        server.set(event_files.POLLED, FeedAnswer(headers={"content-type": "application/rss+xml"}, body=rss.encode()))
        before = event_files.outcome(stack)
        answer = invoke(stack, name, at).payload or {}
        after = event_files.outcome(stack)

    changed = {kind: after[kind] - before[kind] for kind in before | after if after[kind] != before[kind]}
    assert (answer.get("statusCode"), changed) == EFFECTS[name]
    assert answer.get("batchItemFailures", []) == []


def test_each_file_except_the_event_of_a_rewritten_file_has_an_effect() -> None:
    assert EFFECTS.keys() == set(event_files.NUMBERED) - {event_files.ANNOUNCED}
    assert json.loads(event_files.read(event_files.ENGINES)["Records"][0]["body"]) == event_files.read(
        event_files.ANNOUNCED
    )
