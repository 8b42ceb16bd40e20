"""The doubles behave like moto: the same calls return the same responses and errors."""

import random
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import boto3
import pytest
import time_machine
from botocore.config import Config
from botocore.exceptions import ClientError
from moto import mock_aws

from stoppress_cli.local import local_queues, moto_fixes
from stoppress_cli.local.template import ACCOUNT, REGION
from tests.simulation.doubles.dynamodb import Dynamo
from tests.simulation.doubles.errors import NotSupported
from tests.simulation.doubles.expressions import condition
from tests.simulation.doubles.s3 import S3
from tests.simulation.doubles.sqs import Queue, Sqs
from tests.simulation.script import START

pytestmark = pytest.mark.moto

TABLE, BUCKET = "table", "bucket"
STREAM = f"arn:aws:dynamodb:{REGION}:{ACCOUNT}:table/{TABLE}/stream/1"
CALLS = 150
Call = tuple[str, dict[str, Any]]


def client(service: str, **options: Any) -> Any:
    return boto3.client(service, region_name=REGION, config=Config(retries={"total_max_attempts": 1}), **options)  # type: ignore[call-overload]


@pytest.fixture
def moto() -> Iterator[Callable[[str], Any]]:
    with time_machine.travel(START, tick=False), mock_aws(), moto_fixes.applied():
        yield client


def response_of(target: Any, operation: str, params: dict[str, Any]) -> Any:
    """Return a client's response without HTTP details, with bodies read, or an error as its code and reasons."""
    try:
        answer = dict(getattr(target, operation)(**params))
    except ClientError as error:
        reasons = [reason.get("Code") for reason in error.response.get("CancellationReasons", [])]
        return error.response["Error"]["Code"], reasons
    if "Body" in answer:
        answer["Body"] = answer["Body"].read()
    if "Contents" in answer:
        answer["Contents"] = [
            {name: row[name] for name in ("Key", "ETag", "LastModified")} for row in answer["Contents"]
        ]
    return {name: value for name, value in answer.items() if name in FIELDS}


# The fields of responses that the product reads.
FIELDS = {
    "Item", "Items", "Attributes", "Responses", "UnprocessedKeys", "UnprocessedItems", "LastEvaluatedKey",
    "Body", "ETag", "Metadata", "Contents", "LastModified", "FailedEntryCount", "SecretString",
}  # fmt: skip


# ── DynamoDB ──


def dynamo_calls(rng: random.Random) -> Iterator[Call]:  # noqa: C901 - a case for each call
    """Yield random calls like the product's, on few keys, so that conditions hold and fail."""

    def key() -> dict[str, Any]:
        return {
            "pk": {"S": f"file#{rng.randrange(2)}"},
            "sk": {"S": rng.choice(("-", "a", "b", "2026-1", "2026-2"))},
        }

    def item() -> dict[str, Any]:
        optional = {"digest": {"S": rng.choice("xyz")}, "changed": {"S": rng.choice("123")}}
        return {**key(), "rev": {"N": str(rng.randrange(3))}, **rng.choice(({}, optional))}

    def conditional() -> dict[str, Any]:
        conditions: list[dict[str, Any]] = [
            {},
            {"ConditionExpression": "attribute_not_exists(pk)"},
            {"ConditionExpression": "rev = :read", "ExpressionAttributeValues": {":read": {"N": "1"}}},
            {
                "ConditionExpression": "attribute_not_exists(pk) OR changed < :changed OR (changed = :changed AND digest <> :digest)",
                "ExpressionAttributeValues": {":digest": {"S": "y"}, ":changed": {"S": "2"}},
            },
            {"ConditionExpression": "digest = :digest", "ExpressionAttributeValues": {":digest": {"S": "x"}}},
        ]
        return rng.choice(conditions)

    def distinct(count: int) -> list[dict[str, Any]]:
        return list({str(key_): key_ for key_ in (key() for _ in range(count))}.values())

    for _ in range(CALLS):
        match rng.randrange(8):
            case 0:
                yield "get_item", {"TableName": TABLE, "Key": key(), "ConsistentRead": True}
            case 1:
                yield "batch_get_item", {"RequestItems": {TABLE: {"Keys": distinct(4), "ConsistentRead": True}}}
            case 2:
                yield "put_item", {"TableName": TABLE, "Item": item(), **conditional()}
            case 3:
                yield "delete_item", {"TableName": TABLE, "Key": key(), "ReturnValues": "ALL_OLD", **conditional()}
            case 4:
                values = {":pk": {"S": f"file#{rng.randrange(2)}"}}
                more = rng.choice(
                    (
                        ("", {}),
                        (" AND sk BETWEEN :start AND :below", {":start": {"S": " "}, ":below": {"S": "a~"}}),
                        (" AND begins_with(sk, :prefix)", {":prefix": {"S": "2026"}}),
                    )
                )
                yield "query", {
                    "TableName": TABLE, "ConsistentRead": True, "KeyConditionExpression": f"pk = :pk{more[0]}",
                    "ExpressionAttributeValues": values | more[1],
                }  # fmt: skip
            case 5:
                yield (
                    "batch_write_item",
                    {"RequestItems": {TABLE: [{"PutRequest": {"Item": item() | key_}} for key_ in distinct(3)]}},
                )
            case _:
                parts: list[dict[str, Any]] = []
                for key_ in distinct(rng.randint(1, 4)):
                    if rng.random() < 0.2:
                        condition = {"ConditionExpression": "attribute_exists(pk)"}
                        parts.append({"ConditionCheck": {"TableName": TABLE, "Key": key_, **condition}})
                    elif rng.random() < 0.6:
                        parts.append({"Put": {"TableName": TABLE, "Item": item() | key_, **conditional()}})
                    else:
                        condition = rng.choice(({}, {"ConditionExpression": "attribute_exists(pk)"}))
                        parts.append({"Delete": {"TableName": TABLE, "Key": key_, **condition}})
                yield "transact_write_items", {"TransactItems": parts}


def create_table(reference: Any) -> None:
    reference.create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )


def tidy(answer: Any) -> Any:
    """Sort the items of a batch, whose order is undefined."""
    if isinstance(answer, dict) and "Responses" in answer:
        return {
            **answer,
            "Responses": {
                name: sorted(items, key=lambda item: (item["pk"]["S"], item["sk"]["S"]))
                for name, items in answer["Responses"].items()
            },
        }
    return answer


def change_of(record: dict[str, Any]) -> Any:
    change = record["dynamodb"]
    return record["eventName"], change["Keys"], change.get("NewImage"), change.get("OldImage")


@pytest.mark.parametrize("seed", range(4))
def test_the_table_answers_like_moto(seed: int, moto: Callable[[str], Any]) -> None:
    reference, double = moto("dynamodb"), Dynamo(TABLE, STREAM)
    create_table(reference)
    for operation, params in dynamo_calls(random.Random(seed)):
        assert tidy(response_of(double, operation, params)) == tidy(response_of(reference, operation, params)), (
            operation,
            params,
        )

    assert list(map(change_of, double.changes)) == list(map(change_of, local_queues.read_stream(STREAM)))


@pytest.mark.parametrize("order", [{}, {"ScanIndexForward": False}], ids=str)
def test_a_query_has_the_pages_of_moto(order: dict[str, Any], moto: Callable[[str], Any]) -> None:
    reference, double = moto("dynamodb"), Dynamo(TABLE, STREAM)
    create_table(reference)
    for number in range(5):
        item = {"pk": {"S": "file#1"}, "sk": {"S": str(number)}, "text": {"S": "x" * 300_000}}
        for client_ in (reference, double):
            client_.put_item(TableName=TABLE, Item=item)
    params: dict[str, Any] = {
        "TableName": TABLE,
        "KeyConditionExpression": "pk = :pk",
        "ExpressionAttributeValues": {":pk": {"S": "file#1"}},
        **order,
    }

    first = response_of(double, "query", params)
    assert first == response_of(reference, "query", params)
    assert len(first["Items"]) == 3
    rest = params | {"ExclusiveStartKey": first["LastEvaluatedKey"]}
    assert response_of(double, "query", rest) == response_of(reference, "query", rest)


@pytest.mark.parametrize(
    ("operation", "params"),
    [
        ("put_item", {"TableName": "another", "Item": {"pk": {"S": "a"}, "sk": {"S": "-"}}}),
        ("put_item", {"TableName": TABLE, "Item": {"pk": {"S": ""}, "sk": {"S": "-"}}}),
        ("put_item", {"TableName": TABLE, "Item": {"pk": {"S": "a"}, "sk": {"S": "-"}, "text": {"S": "x" * 410_000}}}),
        ("batch_get_item", {"RequestItems": {TABLE: {"Keys": [{"pk": {"S": "a"}, "sk": {"S": "-"}}] * 2}}}),
        (
            "transact_write_items",
            {"TransactItems": [{"Delete": {"TableName": TABLE, "Key": {"pk": {"S": "a"}, "sk": {"S": "-"}}}}] * 2},
        ),
    ],
)
def test_an_invalid_request_fails_as_in_moto(
    operation: str, params: dict[str, Any], moto: Callable[[str], Any]
) -> None:
    reference = moto("dynamodb")
    create_table(reference)

    answer = response_of(Dynamo(TABLE, STREAM), operation, params)
    assert answer == response_of(reference, operation, params)
    assert isinstance(answer, tuple)


def test_an_expression_that_the_double_does_not_support_stops_the_run() -> None:
    for expression in ("size(pk) > :one", "pk = :pk pk", "pk IN (:a)", "[x"):
        with pytest.raises(NotSupported, match="the double"):
            condition(expression)


# ── S3 ──


@pytest.mark.parametrize("seed", range(4))
def test_the_bucket_answers_like_moto(seed: int, moto: Callable[[str], Any]) -> None:
    rng, reference, double = random.Random(seed), moto("s3"), S3(BUCKET)
    reference.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    etags = ['"no"']
    for _ in range(60):
        at: dict[str, Any] = {"Bucket": BUCKET, "Key": f"www.example.com/{rng.randrange(2)}"}
        condition: dict[str, Any] = rng.choice(({}, {"IfNoneMatch": "*"}, {"IfMatch": rng.choice(etags)}))
        match rng.randrange(4):
            case 0:
                operation = "get_object"
            case 3:
                operation, at = "list_objects_v2", {"Bucket": BUCKET, "Prefix": "www.example.com/"}
            case 1:
                operation = "put_object"
                at |= condition | {"Body": rng.choice((b"a", b"b")), "Metadata": {"changed": "now"}}
            case _:
                operation = "delete_object"
                at |= condition if "IfMatch" in condition else {}
        answer = response_of(double, operation, at)
        assert answer == response_of(reference, operation, at), (operation, at)
        etags += [answer["ETag"]] if isinstance(answer, dict) and "ETag" in answer else []


# ── SQS ──


@pytest.mark.parametrize("seed", range(4))
def test_the_queues_answer_like_moto(seed: int, moto: Callable[[str], Any]) -> None:
    """Send, receive, hide, delay, delete and move messages to the dead-letter queue, as Lambda's poller does."""
    rng, reference = random.Random(seed), moto("sqs")
    reference.create_queue(QueueName="dead")
    arns = {name: f"arn:aws:sqs:{REGION}:{ACCOUNT}:{name}" for name in ("dead", "live")}
    policy = f'{{"deadLetterTargetArn": "{arns["dead"]}", "maxReceiveCount": "2"}}'
    url = reference.create_queue(QueueName="live", Attributes={"VisibilityTimeout": "30", "RedrivePolicy": policy})[
        "QueueUrl"
    ]
    dead = Queue(arns["dead"], 30)
    double = Sqs({url: Queue(arns["live"], 30, 2, dead), "dead": dead})
    now = START
    with time_machine.travel(now, tick=False) as clock:
        for number in range(60):
            match rng.randrange(4):
                case 0:
                    entry = {"Id": "0", "MessageBody": str(number), "DelaySeconds": rng.choice((0, 0, 5))}
                    for client_ in (reference, double):
                        client_.send_message_batch(QueueUrl=url, Entries=[entry])
                case 1:
                    now += timedelta(seconds=rng.choice((1, 5, 29, 30)))
                    clock.move_to(now, tick=False)
                case _:
                    _receive_alike(rng, reference, double, url, arns["live"])
            for name, arn in arns.items():
                assert double.visible(double.queue(arn)) == local_queues.visible(local_queues.queue(arn)), name
            assert _messages_in(double, url) == _messages_in(reference, url)


def _messages_in(sqs: Any, url: str) -> int:
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    counts = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=names)["Attributes"]
    return sum(int(counts[name]) for name in names)


def _receive_alike(rng: random.Random, reference: Any, double: Sqs, url: str, arn: str) -> None:
    count, kept, changed = rng.randint(1, 3), rng.random() < 0.6, rng.random() < 0.3
    ours, theirs = double.receive(double.queue(arn), count), local_queues.receive(local_queues.queue(arn), count)
    records = [double.record(sent, arn) for sent in ours], [local_queues.record(sent, arn) for sent in theirs]
    assert [_comparable(record) for record in records[0]] == [_comparable(record) for record in records[1]]
    if not kept:
        double.delete(double.queue(arn), ours)
        local_queues.delete(local_queues.queue(arn), theirs)
    elif changed:
        for client_, batch in ((double, records[0]), (reference, records[1])):
            for record in batch:
                client_.change_message_visibility(
                    QueueUrl=url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=7
                )


def _comparable(record: dict[str, Any]) -> Any:
    attributes = {name: value for name, value in record["attributes"].items() if name != "SenderId"}
    return record["body"], attributes, sorted(record)
