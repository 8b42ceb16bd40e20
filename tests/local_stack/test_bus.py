import json
from datetime import timedelta
from typing import Any

import pytest

from stoppress_cli.local import event_sources, local_queues
from stoppress_cli.local.bus import read_pattern
from stoppress_cli.local.event_sources import EndlessLoopError
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import TemplateError
from tests.local_stack.toy import NOON, QUEUES, Toy, arn

pytestmark = pytest.mark.moto

SECOND = timedelta(seconds=1)
BUS: dict[str, Any] = {"Bus": {"Type": "AWS::Events::EventBus", "Properties": {"Name": "articles"}}}
EVERY_MINUTE: dict[str, Any] = {
    "Minute": {"Type": "ScheduleV2", "Properties": {"ScheduleExpression": "rate(1 minute)"}}
}


def rule(pattern: dict[str, Any], **properties: Any) -> dict[str, Any]:
    return {"Rule": {"Type": "EventBridgeRule", "Properties": {"Pattern": pattern, **properties}}}


def put_event(stack: Stack, kind: str, bus: str = "articles") -> None:
    entry = {"Source": "cms", "DetailType": kind, "Detail": '{"id": "1"}', "EventBusName": bus}
    stack.client("events").put_events(Entries=[entry])


def test_a_rule_routes_matching_events_of_its_bus_to_a_function(toy: Toy) -> None:
    toy.write(rule({"detail-type": [{"prefix": "article."}]}, EventBusName="articles"), BUS)
    with toy.running() as stack:
        put_event(stack, "article.published")
        put_event(stack, "sitemap rewritten")
        put_event(stack, "article.published", bus="default")
        assert toy.events == []

        stack.rest()

    assert [(event["detail-type"], event["detail"]) for event in toy.events] == [("article.published", {"id": "1"})]
    assert toy.events[0]["time"] == "2026-11-20T12:00:00Z"


def test_a_schedule_fires_at_the_first_move_and_then_once_for_all_missed_minutes(toy: Toy) -> None:
    toy.write(EVERY_MINUTE)
    with toy.running() as stack:
        stack.rest()
        fired = [len(toy.events)]
        for seconds in (1, 59, 60, 61, 600):
            stack.advance(NOON + seconds * SECOND)
            fired.append(len(toy.events))

    assert fired == [0, 1, 1, 2, 2, 3]
    assert toy.events[-1]["time"] == "2026-11-20T12:10:00Z"
    assert toy.events[-1]["source"] == "aws.scheduler"


def test_a_daily_schedule_waits_for_its_time_and_fires_once_however_often_missed(toy: Toy) -> None:
    nightly = {"Night": {"Type": "ScheduleV2", "Properties": {"ScheduleExpression": "cron(5,30 12 * * ? *)"}}}
    toy.write(nightly)
    with toy.running() as stack:
        fired = []
        for minutes in (0, 4, 5, 29, 31, 24 * 60 + 4, 24 * 60 + 6, 3 * 24 * 60):
            stack.advance(NOON + timedelta(minutes=minutes), every_schedule=True)
            fired.append(len(toy.events))

    assert fired == [0, 0, 1, 1, 2, 2, 3, 4]


def test_a_schedule_expression_without_a_rate_is_rejected(toy: Toy) -> None:
    toy.write({"Minute": {"Type": "ScheduleV2", "Properties": {"ScheduleExpression": "cron(0 * * * ? *)"}}})

    with pytest.raises(TemplateError, match="cron"), toy.running():
        pass


def test_a_failed_asynchronous_invocation_is_repeated_after_one_and_two_minutes(toy: Toy) -> None:
    toy.write(rule({"source": ["cms"]}))
    toy.plan("raise", "raise", "raise")
    with toy.running() as stack:
        put_event(stack, "article.published", bus="default")
        stack.rest()
        tried = [len(toy.events)]
        for seconds in (59, 60, 179, 180, 3600):
            stack.advance(NOON + seconds * SECOND)
            tried.append(len(toy.events))

    assert tried == [1, 1, 2, 2, 3, 3]


def test_an_asynchronous_invocation_without_retries_goes_to_its_failure_destination(toy: Toy) -> None:
    destination = {"OnFailure": {"Type": "SQS", "Destination": {"Fn::GetAtt": "Queue.Arn"}}}
    config = {"MaximumRetryAttempts": 0, "DestinationConfig": destination}
    toy.write(rule({"source": ["cms"]}), QUEUES, EventInvokeConfig=config)
    toy.plan("raise")
    with toy.running() as stack:
        put_event(stack, "article.published", bus="default")
        stack.rest()
        report = json.loads(local_queues.queue(arn(stack, "Queue"))._messages[0].body)

    assert report["requestContext"]["condition"] == "RetriesExhausted"
    assert report["requestPayload"]["detail-type"] == "article.published"
    assert report["responsePayload"]["errorMessage"] == "as planned"


def test_a_function_that_endlessly_creates_events_is_stopped(toy: Toy, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(event_sources, "ROUNDS_MAX", 20)
    toy.write(rule({"source": ["cms"]}))
    app = toy.folder / "functions" / "toy" / "app.py"
    app.write_text(
        "import boto3\n"
        "def lambda_handler(event, context):\n"
        "    entry = {'Source': 'cms', 'DetailType': 'x', 'Detail': '{}'}\n"
        "    boto3.client('events').put_events(Entries=[entry])\n"
    )
    with toy.running() as stack:
        put_event(stack, "article.published", bus="default")

        with pytest.raises(EndlessLoopError, match="Function"):
            stack.rest()


# ── patterns ──


@pytest.mark.parametrize(
    ("pattern", "word"),
    [
        ({"source": [{"sounds-like": "cms"}]}, "sounds-like"),
        ({"source": "cms"}, "array"),
        ("{", "JSON"),
        ({"a": []}, "arrays"),
    ],
)
def test_a_pattern_that_cannot_be_evaluated_is_rejected(pattern: Any, word: str) -> None:
    with pytest.raises(TemplateError, match=word):
        read_pattern(pattern, "Rule")
