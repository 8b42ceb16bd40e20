"""The meter of the local stack; the expected numbers follow from the rules of the DynamoDB developer guide."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stoppress_cli.local import meter
from tests.local_stack.toy import TABLE, Toy

pytestmark = pytest.mark.moto


@pytest.mark.parametrize(
    ("value", "size"),
    [
        ({"S": "abc"}, 3),
        ({"S": "é"}, 2),
        ({"N": "0"}, 1),
        ({"N": "42"}, 2),
        ({"N": "-42"}, 3),
        ({"N": "123.45"}, 4),
        ({"N": "1200"}, 2),
        ({"BOOL": True}, 1),
        ({"NULL": True}, 1),
        ({"L": []}, 3),
        ({"L": [{"S": "a"}, {"S": "b"}]}, 7),
        ({"M": {"k": {"S": "v"}}}, 6),
    ],
)
def test_the_size_of_a_value(value: dict[str, Any], size: int) -> None:
    assert meter.value_bytes(value) == size


KILOBYTE = 1_024
KEY = {"pk": {"S": "p"}, "sk": {"S": "-"}}


def sized(total_bytes: int, sk: str = "-") -> dict[str, Any]:
    """Return an item of this size: the keys take 2 + 1 + 2 + len(sk) bytes, the name of the text 1."""
    return {"pk": {"S": "p"}, "sk": {"S": sk}, "t": {"S": "x" * (total_bytes - 6 - len(sk))}}


Call = Callable[[Any, str], Any]


def put(item: dict[str, Any]) -> Call:
    return lambda client, table: client.put_item(TableName=table, Item=item)


def delete(client: Any, table: str) -> None:
    client.delete_item(TableName=table, Key=KEY)


def refused(client: Any, table: str) -> None:
    with pytest.raises(ClientError):
        client.put_item(TableName=table, Item=KEY, ConditionExpression="attribute_not_exists(pk)")


def update(client: Any, table: str) -> None:
    values = {":t": {"S": "x"}}
    client.update_item(TableName=table, Key=KEY, UpdateExpression="SET t = :t", ExpressionAttributeValues=values)


def get(**options: Any) -> Call:
    return lambda client, table: client.get_item(TableName=table, Key=KEY, **options)


def batch_get(client: Any, table: str) -> None:
    keys = [KEY, {"pk": {"S": "p"}, "sk": {"S": "missing"}}]
    client.batch_get_item(RequestItems={table: {"Keys": keys, "ConsistentRead": True}})


def query(**options: Any) -> Call:
    def run(client: Any, table: str) -> None:
        values = {":p": {"S": "p"}}
        client.query(TableName=table, KeyConditionExpression="pk = :p", ExpressionAttributeValues=values, **options)

    return run


def transact(client: Any, table: str) -> None:
    check = {"TableName": table, "Key": KEY, "ConditionExpression": "attribute_exists(pk)"}
    new = {"TableName": table, "Item": sized(KILOBYTE + 1, "new")}
    client.transact_write_items(TransactItems=[{"ConditionCheck": check}, {"Put": new}])


def batch_write(client: Any, table: str) -> None:
    requests = [{"PutRequest": {"Item": sized(KILOBYTE + 1, "new")}}, {"DeleteRequest": {"Key": KEY}}]
    client.batch_write_item(RequestItems={table: requests})


@pytest.mark.parametrize(
    ("before", "call", "read", "written"),
    [
        ([], put(sized(KILOBYTE)), 0, 1),
        ([], put(sized(KILOBYTE + 1)), 0, 2),
        ([sized(3 * KILOBYTE)], put(KEY), 0, 3),  # the larger of old and new
        ([sized(3 * KILOBYTE)], delete, 0, 3),
        ([], delete, 0, 1),
        ([sized(3 * KILOBYTE)], update, 0, 3),
        ([sized(3 * KILOBYTE)], refused, 0, 3),  # a failed condition costs the existing item's size
        ([], get(), 0.5, 0),
        ([], get(ConsistentRead=True), 1, 0),
        ([sized(5_000)], get(), 1, 0),
        ([sized(5_000)], get(ConsistentRead=True), 2, 0),
        ([sized(5_000)], batch_get, 2 + 1, 0),
        ([sized(3_000, "a"), sized(3_000, "b")], query(), 1, 0),  # 6,000 bytes together: two halves
        ([sized(3_000, "a"), sized(3_000, "b")], query(ConsistentRead=True), 2, 0),
        ([sized(3_000, "a"), sized(3_000, "b")], query(ConsistentRead=True, ProjectionExpression="sk"), 2, 0),
        ([sized(2 * KILOBYTE)], transact, 0, 2 * 2 + 2 * 2),
        ([sized(3 * KILOBYTE)], batch_write, 0, 2 + 3),
    ],
)  # fmt: skip
def test_the_units_of_a_call(toy: Toy, before: list[Any], call: Call, read: float, written: float) -> None:
    toy.write({}, {"Table": TABLE})
    with toy.running() as stack:
        client, table = stack.client("dynamodb"), stack.resources["Table"].ref
        for item in before:
            client.put_item(TableName=table, Item=item)
        stack.wire.thread.running = "Function"

        call(client, table)

        counts = stack.wire.meter
    assert (counts.read_units, counts.write_units) == (read, written)
    assert sum(counts.calls.values()) == 1


def test_only_calls_of_functions_count(toy: Toy) -> None:
    toy.write({}, {"Table": TABLE})
    with toy.running() as stack:
        get()(stack.client("dynamodb"), stack.resources["Table"].ref)

        assert (stack.wire.meter.calls, stack.wire.meter.read_units) == ({}, 0)


def test_s3_counts_bytes_both_ways(toy: Toy) -> None:
    toy.write({}, {"Bucket": {"Type": "AWS::S3::Bucket"}})
    with toy.running() as stack:
        client, bucket = stack.client("s3"), stack.resources["Bucket"].ref
        stack.wire.thread.running = "Function"
        client.put_object(Bucket=bucket, Key="a", Body=b"12345")
        client.get_object(Bucket=bucket, Key="a")["Body"].read()

        counts = stack.wire.meter
    assert (counts.s3_bytes_put, counts.s3_bytes_got) == (5, 5)
    assert counts.operations() == {"s3.PutObject": 1, "s3.GetObject": 1}
