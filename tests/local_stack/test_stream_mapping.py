from datetime import timedelta
from typing import Any

import pytest
from moto.dynamodb.models import dynamodb_backends

from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from tests.local_stack.toy import NOON, TABLE, Toy

pytestmark = pytest.mark.moto

MINUTE = timedelta(minutes=1)
RESOURCES: dict[str, Any] = {"Table": TABLE}


def source(**properties: Any) -> dict[str, Any]:
    stream = {"Stream": {"Fn::GetAtt": "Table.StreamArn"}, "StartingPosition": "TRIM_HORIZON", **properties}
    return {"S": {"Type": "DynamoDB", "Properties": stream}}


def put(stack: Stack, *keys: str, value: str = "1") -> None:
    for key in keys:
        item = {"pk": {"S": key}, "sk": {"S": "-"}, "value": {"S": value}}
        stack.client("dynamodb").put_item(TableName=stack.resources["Table"].ref, Item=item)


def keys(toy: Toy) -> list[list[str]]:
    return [[record["dynamodb"]["Keys"]["pk"]["S"] for record in event["Records"]] for event in toy.events]


def test_records_are_delivered_in_order_in_batches_with_both_images(toy: Toy) -> None:
    toy.write(source(BatchSize=2), RESOURCES)
    with toy.running() as stack:
        put(stack, "a", "b", "c")
        put(stack, "a", value="2")
        stack.rest()

    assert keys(toy) == [["a", "b"], ["c", "a"]]
    changed = toy.events[1]["Records"][1]
    assert changed["eventName"] == "MODIFY"
    assert changed["eventSourceARN"].endswith("/stream/local")
    assert (changed["dynamodb"]["OldImage"]["value"], changed["dynamodb"]["NewImage"]["value"]) == (
        {"S": "1"},
        {"S": "2"},
    )


def test_read_records_are_dropped_and_sequence_numbers_continue(toy: Toy) -> None:
    toy.write(source(BatchSize=1), RESOURCES)
    with toy.running() as stack:
        for key in "abc":
            put(stack, key)
            stack.rest()
        shard = dynamodb_backends[ACCOUNT][REGION].get_table(stack.resources["Table"].ref).stream_shard

        assert shard is not None
        assert shard.items == []
    numbers = [int(event["Records"][0]["dynamodb"]["SequenceNumber"]) for event in toy.events]
    assert numbers == [numbers[0], numbers[0] + 1, numbers[0] + 2]


def test_a_failed_batch_is_retried_while_later_records_wait(toy: Toy) -> None:
    toy.write(source(), RESOURCES)
    toy.plan("raise", "raise", "raise")
    with toy.running() as stack:
        put(stack, "a")
        stack.rest()
        put(stack, "b")
        stack.rest()
        assert keys(toy) == [["a"], ["a"]]

        stack.advance(NOON + MINUTE)
        assert keys(toy) == [["a"], ["a"], ["a"], ["a"], ["b"]]


def test_a_partial_failure_is_retried_from_the_reported_record(toy: Toy) -> None:
    toy.write(source(FunctionResponseTypes=["ReportBatchItemFailures"]), RESOURCES)
    with toy.running() as stack:
        put(stack, "a", "b", "c")
        shard = dynamodb_backends[ACCOUNT][REGION].get_table(stack.resources["Table"].ref).stream_shard
        assert shard is not None
        number = shard.items[1].record["dynamodb"]["SequenceNumber"]
        toy.plan({"batchItemFailures": [{"itemIdentifier": str(number)}]})
        stack.rest()

    assert keys(toy) == [["a", "b", "c"], ["b", "c"]]
