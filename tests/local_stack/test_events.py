"""The payloads in events/: each is fed to its function in the stack of the template, at its instant, and does what it says.

They are in the order of the flow: 1 and 2 bring articles in, 3 records them, 4 and 5 write files, 6 is the clock, 7 a changed
site, 8 is what Stoppress announces, 9 is the night, 10 and 11 come from the hub of a feed, 15 is a share of the feeds; put-events.json is for
`aws events put-events --entries file://…`. The webhook is signed with the secret `whsec_c3RvcHByZXNz`, and the hub's secret derived from it.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path
from typing import Any

import pytest

from stoppress.aws.items import mark_item, read_news_place
from stoppress.aws.queues import RewriteRequest, read_rewrite
from stoppress.cms.contract import read_delivery
from stoppress.model.entries import Mark
from stoppress.model.event import from_message, to_message
from stoppress.model.http_request import Request as Signed
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import key_of
from stoppress.signatures.verify import verify
from stoppress_cli.local import queues
from stoppress_cli.local.functions import Result
from stoppress_cli.local.gateway import Request, event as gateway_event
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.scenario.feed_answer import FeedAnswer
from stoppress_cli.scenario.feeds_server import FeedServer
from tests.support.event_files import (  # fmt: skip
    ANNOUNCED,
    ASKED,
    CHANGED,
    EDITOR,
    ENGINES,
    EVENTS,
    FEED,
    HOST,
    HOURLY,
    NEWS,
    NIGHT,
    NUMBERED,
    POLL,
    PUSH,
    QUESTION,
    RECORD,
    REWRITES,
    ROLL,
    ROOT,
    SECRET,
    SHARD,
    SHARE,
    STREAM,
    WEBHOOK,
    WINDOW,
    apply,
    first_site,
    first_site_stack,
    function_of,
    items,
    objects,
    on_queue,
    plain,
    put,
    put_news,
    put_subscription,
    read,
)

pytestmark = pytest.mark.moto

MINUTE = timedelta(minutes=1)


@pytest.fixture
def stack() -> Iterator[Stack]:
    with first_site_stack(FEED, datetime(2026, 11, 20, 7, tzinfo=UTC)) as made:
        yield made


def fed(stack: Stack, name: str, at: datetime) -> Result:
    """What a file's function makes of it at an instant."""
    stack.clock.move(at)
    result = stack.sources.invoke(stack.functions[function_of(name)], read(name))
    assert result.error is None, result.error
    return result


def instant_of(event: Any) -> datetime:
    """Return when a request was received, or a message sent."""
    millis = (
        event["Records"][0]["attributes"]["SentTimestamp"]
        if "Records" in event
        else event["requestContext"]["timeEpoch"]
    )
    return datetime.fromtimestamp(int(millis) / 1000, UTC)


# ── the files themselves ──


def test_the_files_are_numbered_in_the_order_of_the_flow_and_end_in_a_functions_name() -> None:
    numbered = NUMBERED
    assert [name.partition("-")[0] for name in numbered] == [str(number) for number in range(1, len(numbered) + 1)]
    functions = {path.name for path in (ROOT / "functions").iterdir() if (path / "app.py").is_file()}
    assert {name.removesuffix(".json").rpartition("-")[2] for name in numbered} - functions == {"rewritten"}
    assert functions <= {name.removesuffix(".json").rpartition("-")[2] for name in numbered}


@pytest.mark.parametrize("path", sorted(EVENTS.iterdir()), ids=lambda path: path.name)
def test_each_file_is_pretty_json_of_a_made_up_newsroom(path: Path) -> None:
    text = path.read_text()
    assert text == json.dumps(json.loads(text), indent=2, ensure_ascii=False) + "\n"
    assert set(re.findall(r"https?://([^/\"\\]+)", text)) <= {HOST}
    assert set(re.findall(r"\b\d{12}\b", text)) <= {ACCOUNT}


# ── 1: a webhook ──


def test_a_webhook_puts_its_article_on_the_queue(stack: Stack) -> None:
    event = read(WEBHOOK)
    at = instant_of(event)
    answer = fed(stack, WEBHOOK, at).payload

    assert (answer["statusCode"], json.loads(answer["body"])["status"]) == (200, "queued")
    delivery = event["headers"]["webhook-id"]
    expected, unknown = read_delivery(json.loads(event["body"]), first_site(stack), "cms", at, delivery=delivery)
    assert on_queue(stack, "ArticlesQueue") == [to_message(expected)] == [read(RECORD)["Records"][0]["body"]]
    assert unknown == []


def test_the_webhook_is_signed_at_its_instant_with_the_documented_secret() -> None:
    event = read(WEBHOOK)
    at = instant_of(event)
    assert int(event["headers"]["webhook-timestamp"]) == at.timestamp()
    verify("standard", Signed(event["headers"], event["body"].encode()), [SECRET], at)
    assert int(event["headers"]["content-length"]) == len(event["body"].encode())
    assert event["requestContext"]["time"] == at.strftime("%d/%b/%Y:%H:%M:%S +0000")


@pytest.mark.parametrize("name", [WEBHOOK, QUESTION, PUSH, EDITOR])
def test_a_request_has_the_shape_that_the_local_gateway_gives(stack: Stack, name: str) -> None:
    event = read(name)
    path, method = event["rawPath"], event["requestContext"]["http"]["method"]
    (route,) = [route for route in stack.sources.routes if route.key == event["routeKey"]]
    body = event.get("body", "").encode()
    request = Request(method, path, event["rawQueryString"], headers=event["headers"], body=body)
    parameters = route.match(request)
    assert parameters is not None
    assert parameters == event["pathParameters"]
    made = gateway_event(request, route, parameters, instant_of(event))

    assert made.keys() == event.keys()
    assert made["requestContext"].keys() == event["requestContext"].keys()
    assert made["requestContext"]["http"].keys() == event["requestContext"]["http"].keys()
    for key in made.keys() - {"requestContext"}:
        assert made[key] == event[key]
    for key in ("http", "routeKey", "time", "timeEpoch"):
        assert made["requestContext"][key] == event["requestContext"][key] or key == "http"


# ── put-events.json: the bus ──


def test_an_event_put_on_the_bus_is_the_second_message_of_the_queue(stack: Stack) -> None:
    stack.clock.move(parse(read("put-events.json")[0]["Time"]))
    stack.client("events").put_events(Entries=read("put-events.json"))
    stack.sources._route(*stack.sources._events.pop(), datetime.now(UTC))

    (message,) = on_queue(stack, "ArticlesQueue")
    kept = json.loads(read(RECORD)["Records"][1]["body"])
    assert json.loads(message) | {"id": ""} == kept | {"id": ""}


# ── 2: the minute of the feeds ──


@pytest.mark.parametrize(("name", "lease"), [(POLL, "run-0"), (SHARE, "run-1")])
def test_feeds_are_polled_by_the_schedule_or_as_a_share(stack: Stack, name: str, lease: str) -> None:
    item = "<item><guid>g1</guid><link>https://www.example.com/a</link><title>A</title></item>"
    rss = f'<rss version="2.0"><channel>{item}</channel></rss>'
    feed = FeedAnswer(headers={"content-type": "application/rss+xml"}, body=rss.encode())
    with FeedServer().running() as server:
        server.set(FEED, feed)
        fed(stack, name, parse(read(name)["time"]))
    (message,) = on_queue(stack, "ArticlesQueue")
    event = from_message(message)
    assert (event.source, event.url, event.title) == ("feed", "https://www.example.com/a", "A")
    assert {item["sk"] for item in items(stack)["feed"]} == {"-", "entries", lease}


@pytest.mark.parametrize(
    ("name", "logical"),
    [(POLL, "PollFeeds"), (ROLL, "RollWindow"), (HOURLY, "AuditSources")],
)
def test_a_schedule_has_the_shape_that_the_scheduler_gives(stack: Stack, name: str, logical: str) -> None:
    arn = stack.functions[logical].arn
    (schedule,) = [one for one in stack.sources.schedules if one.target == arn]
    assert schedule.fire(parse(read(name)["time"])) | {"id": ""} == read(name) | {"id": ""}


# ── 3: the articles queue ──


def test_a_batch_of_the_queue_is_recorded_and_its_bad_message_quarantined(stack: Stack) -> None:
    sent = instant_of(read(RECORD))
    assert fed(stack, RECORD, sent + timedelta(seconds=1)).payload == {"batchItemFailures": []}

    recorded = items(stack)
    assert {item["url"] for item in recorded["article"]} == {
        "https://www.example.com/2026/11/20/flood", "https://www.example.com/2026/11/20/ferries",
    }  # fmt: skip
    assert sorted(item["pk"] for item in recorded["file"]) == [f"file#{SHARD}"] * 2 + [f"file#{NEWS}"] * 2
    (kept,) = recorded["quarantine"]
    assert kept["event"] == read(RECORD)["Records"][2]["body"]
    assert kept["reason"].startswith("the message is no article event")
    assert (stack.metrics["EventsListed"], stack.metrics["EventsQuarantined"]) == (2, 1)


@pytest.mark.parametrize("name", [RECORD, REWRITES, ENGINES])
def test_messages_have_the_shape_that_sqs_gives(stack: Stack, name: str) -> None:
    queue = queues.queue(f"arn:aws:sqs:{REGION}:{ACCOUNT}:{stack.name}-ArticlesQueue")
    stack.client("sqs").send_message(QueueUrl=stack.variable("ARTICLES_QUEUE_URL"), MessageBody="x")
    (message,) = queues.receive(queue, 1)
    made = queues.record(message, "arn")
    for record in read(name)["Records"]:
        assert record.keys() == made.keys()
        assert record["attributes"].keys() == made["attributes"].keys()
        assert record["md5OfBody"] == md5(record["body"].encode()).hexdigest()  # noqa: S324 - SQS's own


# ── 4: the stream ──


def test_changed_partitions_become_files(stack: Stack) -> None:
    partitions = apply(stack, read(STREAM))
    created = datetime.fromtimestamp(read(STREAM)["Records"][0]["dynamodb"]["ApproximateCreationDateTime"], UTC)
    assert fed(stack, STREAM, created + timedelta(seconds=1)).payload == {"batchItemFailures": []}

    assert set(partitions) == {f"file#{SHARD}", f"file#{NEWS}"}
    written = objects(stack)
    assert set(written) == {SHARD, NEWS}
    listed = [
        f"<loc>https://www.example.com/2026/11/{path}</loc>".encode() for path in ("19/storm", "20/ferries", "20/flood")
    ]
    for body in written.values():
        assert body.count(b"<url>") == 3
        assert all(loc in body for loc in listed)
    assert b"Storm warning lifted" in written[NEWS]


def test_what_is_announced_has_the_shape_of_the_last_file(stack: Stack) -> None:
    apply(stack, read(STREAM))
    fed(stack, STREAM, parse(read(ANNOUNCED)["time"]))
    put = {
        event["detail"]["file"]: (bus, event) for bus, event in stack.sources._events if event["source"] == "stoppress"
    }
    bus, event = put["sitemap-news.xml"]
    assert event | {"id": ""} == read(ANNOUNCED) | {"id": ""}
    assert bus == stack.only("AWS::Events::EventBus").ref == read("put-events.json")[0]["EventBusName"]


def test_what_stoppress_announces_comes_back_to_notify_engines_only_which_writes_nothing(stack: Stack) -> None:
    targets = [rule.targets for rule in stack.sources.rules if rule.pattern.matches(read(ANNOUNCED))]
    assert targets == [(stack.resources["EnginesQueue"].arn,)]
    assert json.loads(read(ENGINES)["Records"][0]["body"]) == read(ANNOUNCED)
    apply(stack, read(STREAM))
    before = items(stack), objects(stack)
    assert fed(stack, ENGINES, parse(read(ANNOUNCED)["time"])).payload == {"batchItemFailures": []}
    assert (items(stack), objects(stack)) == before


def test_the_streams_images_are_the_items_that_recording_writes(stack: Stack) -> None:
    sent = instant_of(read(RECORD))
    fed(stack, RECORD, sent + timedelta(seconds=1))
    recorded = items(stack)["file"]
    inserted = [record["dynamodb"]["NewImage"] for record in read(STREAM)["Records"] if record["eventName"] == "INSERT"]
    images = [plain(image) for image in inserted]
    assert sorted(images, key=str) == sorted(recorded, key=str)
    for image in images:
        if "title" in image:
            assert read_news_place(image).file == "sitemap-news.xml"


def test_the_streams_records_have_the_shape_that_lambda_gives_and_pass_the_filter(stack: Stack) -> None:
    (mapping,) = stack.sources.stream_mappings
    apply(stack, read(STREAM))
    made, *_ = mapping._reader.read()
    names = {record["eventName"] for record in read(STREAM)["Records"]}
    assert names == {"INSERT", "MODIFY", "REMOVE"}
    for record in read(STREAM)["Records"]:
        assert record.keys() == made.keys()
        both = {"NewImage", "OldImage"}
        assert record["dynamodb"].keys() - both == made["dynamodb"].keys() - both
        images = {"INSERT": {"NewImage"}, "REMOVE": {"OldImage"}, "MODIFY": both}
        assert record["dynamodb"].keys() & both == images[record["eventName"]]
        assert mapping.passes(record)
    numbers = [record["dynamodb"]["SequenceNumber"] for record in read(STREAM)["Records"]]
    assert len(set(numbers)) == len(numbers)


# ── 5: the rewrites queue ──


def test_files_named_in_the_queue_are_written_the_index_last(stack: Stack) -> None:
    apply(stack, read(STREAM))
    sent = instant_of(read(REWRITES))
    assert fed(stack, REWRITES, sent).payload == {"batchItemFailures": []}

    written = objects(stack)
    assert set(written) == {SHARD, NEWS, f"{HOST}/sitemap.xml"}
    assert written[f"{HOST}/sitemap.xml"].count(b"<sitemap>") == 2


def test_the_named_files_are_messages_as_stoppress_writes_them() -> None:
    for record in read(REWRITES)["Records"]:
        work = read_rewrite(record["body"])
        assert json.loads(work.message()) == json.loads(record["body"])
        assert work == RewriteRequest(HOST, work.file, checks_all=work.checks_all)


# ── 6: the minute of the window ──


def test_a_schedule_takes_out_what_is_48_hours_old_at_that_second(stack: Stack) -> None:
    at = parse(read(ROLL)["time"])
    put_news(stack, {"expired": at - WINDOW, "fresh": at - WINDOW + timedelta(seconds=1)})
    fed(stack, ROLL, at)

    assert [item["loc"] for item in items(stack)["file"]] == [f"https://{HOST}/fresh"]


# ── 7: a changed site ──


def test_a_changed_site_has_all_its_files_requested_and_its_due_record_deleted(stack: Stack) -> None:
    [record] = read(CHANGED)["Records"]
    due = record["dynamodb"]["NewImage"]["due"]["S"]
    put(stack, mark_item(HOST, Mark("sitemap-2026-11.xml", parse(due), 3, 500, "digest")))
    [waiting] = [item["sk"] for item in items(stack)["due-sites"] if "configuration" in item["sk"]]
    put(stack, {"pk": "due-sites", "sk": f"{due}#configuration#{HOST}"})
    fed(stack, CHANGED, parse(due) - MINUTE)
    sent = [read_rewrite(body) for body in on_queue(stack, "RewritesQueue")]
    assert [(work.site, work.file, work.checks_all) for work in sent] == [
        (HOST, file, True) for file in ("sitemap.xml", "sitemap-news.xml", "sitemap-2026-11.xml", "robots.txt")
    ]
    # The record of the fixture's own change is left.
    assert [item["sk"] for item in items(stack)["due-sites"] if "configuration" in item["sk"]] == [waiting]


def test_a_changed_site_passes_the_filter_of_the_template(stack: Stack) -> None:
    (mapping,) = stack.sources.stream_mappings
    [record] = read(CHANGED)["Records"]
    assert mapping.passes(record)
    [made] = [
        each
        for each in mapping._reader.read()
        if each["dynamodb"]["Keys"]["pk"]["S"] == f"site#{HOST}" and mapping.passes(each)
    ]
    assert made["dynamodb"]["NewImage"].keys() == record["dynamodb"]["NewImage"].keys()


# ── 9: the night ──


def test_the_clock_has_a_part_announced_for_each_site(stack: Stack) -> None:
    stack.clock.move(parse(read(NIGHT)["time"]))
    assert stack.sources.invoke(stack.functions["ReconcileSites"], {}).error is None
    [(bus, event)] = stack.sources._events
    assert event | {"id": ""} == read(NIGHT) | {"id": ""}
    [rule] = [rule for rule in stack.sources.rules if rule.bus == bus and rule.pattern.matches(event)]
    assert rule.targets == (stack.functions["ReconcileSites"].arn,)


def test_a_file_that_is_missing_at_two_looks_of_the_night_is_named_to_the_rewrites_queue(stack: Stack) -> None:
    at = parse(read(NIGHT)["time"])
    fed(stack, NIGHT, at)
    assert on_queue(stack, "RewritesQueue") == []
    fed(stack, NIGHT, at + timedelta(minutes=30))
    named = [read_rewrite(body) for body in on_queue(stack, "RewritesQueue")]

    assert [(work.file, work.checks_all) for work in named] == [("sitemap-news.xml", True), ("sitemap.xml", True)]
    assert (stack.metrics["ObjectsMissing"], stack.metrics["DriftFound"]) == (2, 2)


# ── 10, 11: the hub of a feed ──


def test_a_hub_that_was_asked_hears_its_challenge_and_the_feed_is_subscribed(stack: Stack) -> None:
    put_subscription(stack)
    at = instant_of(read(QUESTION))
    answer = fed(stack, QUESTION, at).payload

    assert (answer["statusCode"], answer["body"]) == (200, read(QUESTION)["queryStringParameters"]["hub.challenge"])
    assert answer["headers"]["content-type"].startswith("text/plain")
    (item,) = items(stack)["feed"]
    assert parse(item["lease_until"]) - at == timedelta(days=10)
    assert (item["hub"], item["topic"], item["sk"]) == (ASKED.hub, ASKED.topic, "hub")


def test_a_push_puts_its_article_on_the_queue(stack: Stack) -> None:
    put_subscription(stack)
    at = instant_of(read(PUSH))

    assert fed(stack, PUSH, at).payload["statusCode"] == 202
    (message,) = on_queue(stack, "ArticlesQueue")
    sent = from_message(message)
    assert (sent.source, sent.id, sent.title) == ("feed", f"{key_of(FEED)[:8]}:2041", "Market hall reopens")


# ── 12: an editor ──


def test_an_editor_is_answered_with_the_page(stack: Stack) -> None:
    answer = fed(stack, EDITOR, instant_of(read(EDITOR))).payload

    assert answer["statusCode"] == 200
    assert read(EDITOR)["queryStringParameters"]["q"] in answer["body"]
