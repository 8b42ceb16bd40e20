"""The payloads in events/: each is fed to its function in the stack of the template, at its instant, and does what it says.

They are in the order of the flow: 1 and 2 bring articles in, 3 records them, 4 and 5 write files, 6 and 7 are the clock and the
configuration, 8 is what Stoppress announces, 9 is the night, 10 and 11 come from the hub of a feed; put-events.json is for
`aws events put-events --entries file://…`. The webhook is signed with the secret `whsec_c3RvcHByZXNz`, and the hub's secret derived from it.
"""

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from hashlib import md5
from pathlib import Path

import pytest

from stoppress.aws.items import mark_item, read_news_place
from stoppress.aws.queues import RewriteRequest, read_rewrite
from stoppress.cms.contract import read_delivery
from stoppress.model.entries import Mark
from stoppress.model.event import from_message, to_message
from stoppress.model.http_request import Request as Signed
from stoppress.primitives.instants import parse
from stoppress.signatures.verify import verify
from stoppress_cli.local import patterns, queues
from stoppress_cli.local.functions import Result
from stoppress_cli.local.gateway import Request, event as gateway_event
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.scenario.feeds_server import FeedAnswer, FeedServer
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
    SITES,
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


def applied(stack: Stack) -> list[str]:
    """Put the table into the state that the stream's file tells of; the partitions it names."""
    return apply(stack, read(STREAM))


def _millis(milliseconds: str | int) -> datetime:
    return datetime.fromtimestamp(int(milliseconds) / 1000, UTC)


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
    at = _millis(event["requestContext"]["timeEpoch"])
    answer = fed(stack, WEBHOOK, at).payload

    assert (answer["statusCode"], json.loads(answer["body"])["status"]) == (200, "queued")
    delivery = event["headers"]["webhook-id"]
    expected, unknown = read_delivery(json.loads(event["body"]), first_site(stack), "cms", at, delivery=delivery)
    assert on_queue(stack, "ArticlesQueue") == [to_message(expected)]
    assert unknown == []


def test_the_webhook_is_signed_at_its_instant_with_the_documented_secret() -> None:
    event = read(WEBHOOK)
    at = _millis(event["requestContext"]["timeEpoch"])
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
    made = gateway_event(request, route, parameters, _millis(event["requestContext"]["timeEpoch"]))

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


def test_a_schedule_polls_the_feeds_that_are_due(stack: Stack) -> None:
    item = "<item><guid>g1</guid><link>https://www.example.com/a</link><title>A</title></item>"
    feed = FeedAnswer(
        200, {"content-type": "application/rss+xml"}, f'<rss version="2.0"><channel>{item}</channel></rss>'.encode()
    )
    with FeedServer().running() as server:
        server.set(FEED, feed)
        fed(stack, POLL, parse(read(POLL)["time"]))
    (message,) = on_queue(stack, "ArticlesQueue")
    event = from_message(message)
    assert (event.source, event.url, event.title) == ("feed", "https://www.example.com/a", "A")
    assert {item["sk"] for item in items(stack)["feed"]} == {"-", "entries", "run"}


@pytest.mark.parametrize(
    ("name", "logical"),
    [(POLL, "PollFeeds"), (ROLL, "RollWindow"), (NIGHT, "ReconcileSites"), (HOURLY, "AuditSources")],
)
def test_a_schedule_has_the_shape_that_the_scheduler_gives(stack: Stack, name: str, logical: str) -> None:
    arn = stack.functions[logical].arn
    (schedule,) = [one for one in stack.sources.schedules if one.target == arn]
    assert schedule.fire(parse(read(name)["time"])) | {"id": ""} == read(name) | {"id": ""}


# ── 3: the articles queue ──


def test_a_batch_of_the_queue_is_recorded_and_its_bad_message_quarantined(stack: Stack) -> None:
    sent = _millis(read(RECORD)["Records"][0]["attributes"]["SentTimestamp"])
    assert fed(stack, RECORD, sent + timedelta(seconds=1)).payload == {"batchItemFailures": []}

    found = items(stack)
    assert {item["url"] for item in found["article"]} == {
        "https://www.example.com/2026/11/20/flood", "https://www.example.com/2026/11/20/ferries",
    }  # fmt: skip
    assert sorted(item["pk"] for item in found["file"]) == [f"file#{SHARD}"] * 2 + [f"file#{NEWS}"] * 2
    (kept,) = found["quarantine"]
    assert kept["event"] == read(RECORD)["Records"][2]["body"]
    assert kept["reason"].startswith("the message is no article event")
    assert (stack.metrics["EventsListed"], stack.metrics["EventsQuarantined"]) == (2, 1)


def test_the_first_message_of_the_queue_is_what_the_webhook_sends(stack: Stack) -> None:
    fed(stack, WEBHOOK, _millis(read(WEBHOOK)["requestContext"]["timeEpoch"]))
    assert on_queue(stack, "ArticlesQueue") == [read(RECORD)["Records"][0]["body"]]


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
    partitions = applied(stack)
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
    applied(stack)
    fed(stack, STREAM, parse(read(ANNOUNCED)["time"]))
    put = {
        event["detail"]["file"]: (bus, event) for bus, event in stack.sources._events if event["source"] == "stoppress"
    }
    bus, event = put["sitemap-news.xml"]
    assert event | {"id": ""} == read(ANNOUNCED) | {"id": ""}
    assert bus == stack.only("AWS::Events::EventBus").ref == read("put-events.json")[0]["EventBusName"]


def test_what_stoppress_announces_comes_back_to_tell_engines_only(stack: Stack) -> None:
    targets = [rule.targets for rule in stack.sources.rules if rule.pattern.matches(read(ANNOUNCED))]
    assert targets == [((stack.resources["EnginesQueue"].arn, None),)]
    assert json.loads(read(ENGINES)["Records"][0]["body"]) == read(ANNOUNCED)


def test_a_site_without_engines_costs_a_read_of_its_configuration_and_nothing_more(stack: Stack) -> None:
    applied(stack)
    before = items(stack), objects(stack)
    stack.wire.meter.calls.clear()
    assert fed(stack, ENGINES, parse(read(ANNOUNCED)["time"])).payload == {"batchItemFailures": []}
    assert stack.wire.meter.calls == {("TellEngines", "ssm.GetParameter"): 1}
    assert (items(stack), objects(stack)) == before


def test_the_streams_images_are_the_items_that_recording_writes(stack: Stack) -> None:
    sent = _millis(read(RECORD)["Records"][0]["attributes"]["SentTimestamp"])
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
    applied(stack)
    made, *_ = mapping._reader.read()
    names = {record["eventName"] for record in read(STREAM)["Records"]}
    assert names == {"INSERT", "MODIFY", "REMOVE"}
    for record in read(STREAM)["Records"]:
        assert record.keys() == made.keys()
        assert record["dynamodb"].keys() - {"NewImage", "OldImage"} == made["dynamodb"].keys() - {
            "NewImage",
            "OldImage",
        }
        images = {"INSERT": {"NewImage"}, "REMOVE": {"OldImage"}, "MODIFY": {"NewImage", "OldImage"}}
        assert record["dynamodb"].keys() & {"NewImage", "OldImage"} == images[record["eventName"]]
        assert patterns.passes(record, mapping._filters)
    numbers = [record["dynamodb"]["SequenceNumber"] for record in read(STREAM)["Records"]]
    assert len(set(numbers)) == len(numbers)


# ── 5: the rewrites queue ──


def test_files_named_in_the_queue_are_written_the_index_last(stack: Stack) -> None:
    applied(stack)
    sent = _millis(read(REWRITES)["Records"][0]["attributes"]["SentTimestamp"])
    assert fed(stack, REWRITES, sent).payload == {"batchItemFailures": []}

    written = objects(stack)
    assert set(written) == {SHARD, NEWS, f"{HOST}/sitemap.xml"}
    assert written[f"{HOST}/sitemap.xml"].count(b"<sitemap>") == 2


def test_the_named_files_are_messages_as_stoppress_writes_them() -> None:
    for record in read(REWRITES)["Records"]:
        work = read_rewrite(record["body"])
        assert work.message() == record["body"]
        assert work == RewriteRequest(HOST, work.file, work.config_version)


# ── 6: the minute of the window ──


def test_a_schedule_takes_out_what_is_48_hours_old_at_that_second(stack: Stack) -> None:
    at = parse(read(ROLL)["time"])
    put_news(stack, {"expired": at - WINDOW, "fresh": at - WINDOW + timedelta(seconds=1)})
    fed(stack, ROLL, at)

    assert [item["loc"] for item in items(stack)["file"]] == [f"https://{HOST}/fresh"]


# ── 7: a changed site ──


def test_a_changed_parameter_has_its_sites_files_written_again(stack: Stack) -> None:
    applied(stack)
    put(stack, mark_item(HOST, Mark("sitemap-2026-11.xml", parse(read(CHANGED)["time"]), 3, 500, "digest")))
    fed(stack, CHANGED, parse(read(CHANGED)["time"]))
    sent = [read_rewrite(body) for body in on_queue(stack, "RewritesQueue")]
    assert [(work.site, work.file, work.config_version) for work in sent] == [
        (HOST, "sitemap-news.xml", 1), (HOST, "sitemap-2026-11.xml", 1), (HOST, "robots.txt", 1), (HOST, "sitemap.xml", 1),
    ]  # fmt: skip


def test_a_changed_parameter_passes_the_rule_of_the_template(stack: Stack) -> None:
    arn = stack.functions["RollWindow"].arn
    (rule,) = [rule for rule in stack.sources.rules if any(target == arn for target, _ in rule.targets)]
    event = read(CHANGED)
    assert rule.pattern.matches(event)
    assert event["detail"]["name"] == SITES + HOST
    elsewhere = event["detail"] | {"name": "/stoppress/another-stack/sites/www.example.com"}
    assert not rule.pattern.matches(event | {"detail": elsewhere})
    assert not rule.pattern.matches(event | {"detail": event["detail"] | {"operation": "Delete"}})


# ── 9: the night ──


def test_a_file_that_is_missing_at_two_looks_of_the_night_is_named_to_the_rewrites_queue(stack: Stack) -> None:
    at = parse(read(NIGHT)["time"])
    fed(stack, NIGHT, at)
    assert on_queue(stack, "RewritesQueue") == []
    fed(stack, NIGHT, at + timedelta(minutes=30))
    named = [read_rewrite(body) for body in on_queue(stack, "RewritesQueue")]

    assert [(work.file, work.repair_forms) for work in named] == [("sitemap-news.xml", True), ("sitemap.xml", True)]
    assert (stack.metrics["ObjectsMissing"], stack.metrics["DriftFound"]) == (2, 2)


# ── all of them, one after the other ──


def test_the_stack_at_work_makes_of_the_webhook_what_the_files_tell(stack: Stack) -> None:
    event = read(WEBHOOK)
    at = _millis(event["requestContext"]["timeEpoch"])
    news = []
    with FeedServer().running():
        stack.advance(at)
        answer = stack.request(Request("POST", event["rawPath"], headers=event["headers"], body=event["body"].encode()))
        assert answer.status == 200
        stack.client("events").put_events(Entries=read("put-events.json"))
        stack.rest()
        news.append(objects(stack)[NEWS].count(b"<news:news>"))
        for later in (timedelta(), MINUTE):
            stack.advance(parse(read(ROLL)["time"]) + later)
            news.append(objects(stack)[NEWS].count(b"<news:news>"))
    assert news == [2, 1, 0]
    assert objects(stack)[SHARD].count(b"<url>") == 2
    assert {name: function.errors for name, function in stack.functions.items() if function.errors} == {}


# ── 10, 11: the hub of a feed ──


def test_a_hub_that_was_asked_hears_its_challenge_and_the_feed_is_subscribed(stack: Stack) -> None:
    put_subscription(stack)
    at = _millis(read(QUESTION)["requestContext"]["timeEpoch"])
    answer = fed(stack, QUESTION, at).payload

    assert (answer["statusCode"], answer["body"]) == (200, read(QUESTION)["queryStringParameters"]["hub.challenge"])
    assert answer["headers"]["content-type"].startswith("text/plain")
    (item,) = items(stack)["feed"]
    assert parse(item["lease_until"]) - at == timedelta(days=10)
    assert (item["hub"], item["topic"], item["sk"]) == (ASKED.hub, ASKED.topic, "hub")


def test_a_push_puts_its_article_on_the_queue(stack: Stack) -> None:
    put_subscription(stack)
    at = _millis(read(PUSH)["requestContext"]["timeEpoch"])

    assert fed(stack, PUSH, at).payload["statusCode"] == 202
    (message,) = on_queue(stack, "ArticlesQueue")
    sent = from_message(message)
    assert (sent.source, sent.id, sent.title) == ("feed", "2041", "Market hall reopens")


def test_a_push_of_nobodys_subscription_is_gone(stack: Stack) -> None:
    assert fed(stack, PUSH, datetime(2026, 11, 20, 8, 1, tzinfo=UTC)).payload["statusCode"] == 410
    assert on_queue(stack, "ArticlesQueue") == []


# ── 12: an editor ──


def test_an_editor_is_answered_with_the_page(stack: Stack) -> None:
    answer = fed(stack, EDITOR, _millis(read(EDITOR)["requestContext"]["timeEpoch"])).payload

    assert answer["statusCode"] == 200
    assert read(EDITOR)["queryStringParameters"]["q"] in answer["body"]
