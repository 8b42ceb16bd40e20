from datetime import timedelta
from typing import Any

import pytest

from stoppress_cli.local import local_queues
from stoppress_cli.local.stack import Stack
from tests.local_stack.toy import NOON, QUEUES, Toy, arn

pytestmark = pytest.mark.moto

SECOND = timedelta(seconds=1)


def source(**properties: Any) -> dict[str, Any]:
    return {"Q": {"Type": "SQS", "Properties": {"Queue": {"Fn::GetAtt": "Queue.Arn"}, **properties}}}


def send(stack: Stack, *bodies: str) -> None:
    for body in bodies:
        stack.client("sqs").send_message(QueueUrl=stack.resources["Queue"].ref, MessageBody=body)


def bodies(toy: Toy) -> list[list[str]]:
    return [[record["body"] for record in event["Records"]] for event in toy.events]


def waiting(stack: Stack, logical: str) -> list[str]:
    return [message.body for message in local_queues.queue(arn(stack, logical))._messages]


def test_messages_are_delivered_in_batches_of_the_mapping_and_deleted(toy: Toy) -> None:
    toy.write(source(BatchSize=2), QUEUES)
    with toy.running() as stack:
        send(stack, "a", "b", "c")
        stack.rest()

        assert bodies(toy) == [["a", "b"], ["c"]]
        assert waiting(stack, "Queue") == []
        assert not local_queues.queue(arn(stack, "Queue")).deleted_messages  # moto keeps no copies


def test_a_failed_batch_is_delivered_again_and_then_goes_to_the_dead_letters(toy: Toy) -> None:
    toy.write(source(), QUEUES)
    toy.plan("raise", "raise")
    with toy.running() as stack:
        send(stack, "a")
        stack.rest()
        stack.advance(NOON + 59 * SECOND)
        assert bodies(toy) == [["a"]]

        stack.advance(NOON + 60 * SECOND)
        assert bodies(toy) == [["a"], ["a"]]
        assert toy.events[1]["Records"][0]["attributes"]["ApproximateReceiveCount"] == "2"

        stack.advance(NOON + 120 * SECOND)
        assert bodies(toy) == [["a"], ["a"]]
        assert (waiting(stack, "Queue"), waiting(stack, "Dead")) == ([], ["a"])


REPORTS = {"FunctionResponseTypes": ["ReportBatchItemFailures"]}


@pytest.mark.parametrize(
    ("properties", "reported", "redelivered"),
    [
        (REPORTS, 1, ["b"]),
        (REPORTS, None, ["a", "b", "c"]),  # an identifier that is not in the batch
        ({}, 1, []),  # the mapping ignores reports
    ],
    ids=["a message of the batch", "an unknown message", "reports ignored"],
)
def test_the_reported_messages_of_a_batch_are_delivered_again(
    properties: dict[str, Any], reported: int | None, redelivered: list[str], toy: Toy
) -> None:
    toy.write(source(**properties), QUEUES)
    with toy.running() as stack:
        send(stack, "a", "b", "c")
        identifier = "unknown" if reported is None else local_queues.queue(arn(stack, "Queue"))._messages[reported].id
        toy.plan({"batchItemFailures": [{"itemIdentifier": identifier}]})
        stack.rest()
        assert waiting(stack, "Queue") == redelivered

        stack.advance(NOON + 60 * SECOND)
        assert bodies(toy) == [["a", "b", "c"], *([redelivered] if redelivered else [])]
        assert waiting(stack, "Queue") == []
