import copy
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from botocore.exceptions import ClientError
from moto import mock_aws
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.table import Table

from stoppress_cli.local import moto_fixes
from stoppress_cli.local.template import ACCOUNT, REGION
from tests.local_stack.toy import TABLE

pytestmark = pytest.mark.moto

NAME = "articles"


@pytest.fixture
def client() -> Iterator[Any]:
    with mock_aws(), moto_fixes.applied():
        yield made()


def made() -> Any:
    client = boto3.client("dynamodb", region_name=REGION)
    properties = copy.deepcopy(TABLE["Properties"])
    properties["StreamSpecification"]["StreamEnabled"] = True
    client.create_table(TableName=NAME, **properties)
    return client


def table() -> Table:
    return dynamodb_backends[ACCOUNT][REGION].get_table(NAME)


def item(sk: str, **more: Any) -> dict[str, Any]:
    return {"pk": {"S": "p"}, "sk": {"S": sk}, **more}


def contents(client: Any) -> list[dict[str, Any]]:
    items: list[dict[str, Any]] = client.query(
        TableName=NAME, KeyConditionExpression="pk = :p", ExpressionAttributeValues={":p": {"S": "p"}}
    )["Items"]
    return items


def put(sk: str, **more: Any) -> dict[str, Any]:
    return {"Put": {"TableName": NAME, "Item": item(sk, **more)}}


def impossible(sk: str) -> dict[str, Any]:
    return {"Put": {"TableName": NAME, "Item": item(sk), "ConditionExpression": "attribute_exists(pk)"}}


def test_a_cancelled_transaction_leaves_items_stream_and_table_as_they_were(client: Any) -> None:
    client.put_item(TableName=NAME, Item=item("old", tags={"L": [{"S": "x"}]}))
    client.put_item(TableName=NAME, Item=item("gone"))
    before, items = table(), copy.deepcopy(contents(client))
    update = {
        "TableName": NAME,
        "Key": item("old"),
        "UpdateExpression": "SET tags = list_append(tags, :y), n = :n",
        "ExpressionAttributeValues": {":y": {"L": [{"S": "y"}]}, ":n": {"N": "1"}},
    }
    parts = [{"Update": update}, {"Delete": {"TableName": NAME, "Key": item("gone")}}, put("new"), impossible("bad")]

    with pytest.raises(ClientError) as cancelled:
        client.transact_write_items(TransactItems=parts)

    reasons = [reason["Code"] for reason in cancelled.value.response["CancellationReasons"]]
    assert reasons == ["None", "None", "None", "ConditionalCheckFailed"]
    assert contents(client) == items
    assert table() is before
    client.put_item(TableName=NAME, Item=item("c"))
    records = [record.record for record in before.stream_shard.items]  # type: ignore[union-attr]
    assert [record["dynamodb"]["Keys"]["sk"]["S"] for record in records] == ["old", "gone", "c"]


QUERIES: list[dict[str, Any]] = [
    {"KeyConditionExpression": "pk = :p"},
    {"KeyConditionExpression": "pk = :p", "ScanIndexForward": False},
    {"KeyConditionExpression": "pk = :p", "Limit": 3},
    {"KeyConditionExpression": "pk = :p", "Limit": 3, "ExclusiveStartKey": item("3")},
    {"KeyConditionExpression": "pk = :p", "ScanIndexForward": False, "Limit": 3, "ExclusiveStartKey": item("3")},
    {"KeyConditionExpression": "pk = :p AND sk < :a"},
    {"KeyConditionExpression": "pk = :p AND sk BETWEEN :a AND :b"},
    {"KeyConditionExpression": "pk = :p AND begins_with(sk, :a)"},
    {"KeyConditionExpression": "pk = :p", "FilterExpression": "n > :n"},
    {"KeyConditionExpression": "pk = :p", "ProjectionExpression": "sk, m.inner"},
    {"KeyConditionExpression": "pk = :p", "Select": "COUNT"},
    {"KeyConditionExpression": "pk = :none"},
]
VALUES: dict[str, Any] = {
    ":p": {"S": "p"}, ":none": {"S": "none"}, ":a": {"S": "4"}, ":b": {"S": "6"}, ":n": {"N": "4"},
}  # fmt: skip


def test_queries_answer_as_they_did_without_the_fixes() -> None:
    def answers(client: Any) -> Iterator[dict[str, Any]]:
        for query in QUERIES:
            names = " ".join(str(value) for value in query.values())
            values = {name: value for name, value in VALUES.items() if name in names}
            yield client.query(TableName=NAME, ExpressionAttributeValues=values, **query) | {"ResponseMetadata": {}}

    with mock_aws():
        client = made()
        for number in range(8):
            rich = {"m": {"M": {"inner": {"L": [{"S": "x"}, {"NULL": True}]}}}, "b": {"B": b"\x00\xff"}}
            sets = {"ss": {"SS": ["a", "b"]}, "bs": {"BS": [b"\x00"]}, "t": {"BOOL": True}}
            client.put_item(TableName=NAME, Item=item(str(number), n={"N": str(number)}, **rich, **sets))
        client.put_item(TableName=NAME, Item={"pk": {"S": "other"}, "sk": {"S": "1"}})
        plain = list(answers(client))
        with moto_fixes.applied():
            fixed = list(answers(client))

    for query, before, after in zip(QUERIES, plain, fixed, strict=True):
        assert before == after, query


def test_a_page_of_a_query_ends_at_one_mebibyte(client: Any) -> None:
    for number in range(30):
        client.put_item(TableName=NAME, Item=item(f"{number:02}", text={"S": "x" * 50_000}))

    page = client.query(TableName=NAME, KeyConditionExpression="pk = :p", ExpressionAttributeValues={":p": {"S": "p"}})
    rest = client.query(
        TableName=NAME, KeyConditionExpression="pk = :p", ExpressionAttributeValues={":p": {"S": "p"}},
        ExclusiveStartKey=page["LastEvaluatedKey"],
    )  # fmt: skip

    assert (page["Count"], rest["Count"]) == (20, 10)
    assert "LastEvaluatedKey" not in rest
