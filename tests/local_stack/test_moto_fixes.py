"""What only the fixes of moto change; tests/simulation/test_doubles.py compares the rest with the doubles."""

import copy
from collections.abc import Iterator
from typing import Any

import boto3
import pytest
from moto import mock_aws

from stoppress_cli.local import moto_fixes
from stoppress_cli.local.template import REGION
from tests.local_stack.toy import TABLE

pytestmark = pytest.mark.moto

NAME = "articles"


def made() -> Any:
    client = boto3.client("dynamodb", region_name=REGION)
    properties = copy.deepcopy(TABLE["Properties"])
    properties["StreamSpecification"]["StreamEnabled"] = True
    client.create_table(TableName=NAME, **properties)
    return client


def item(sk: str, **more: Any) -> dict[str, Any]:
    return {"pk": {"S": "p"}, "sk": {"S": sk}, **more}


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
            rich = {"m": {"M": {"inner": {"L": [{"S": "x"}, {"NULL": True}]}}}, "t": {"BOOL": True}}
            client.put_item(TableName=NAME, Item=item(str(number), n={"N": str(number)}, **rich))
        client.put_item(TableName=NAME, Item={"pk": {"S": "other"}, "sk": {"S": "1"}})
        plain = list(answers(client))
        with moto_fixes.applied():
            fixed = list(answers(client))

    for query, before, after in zip(QUERIES, plain, fixed, strict=True):
        assert before == after, query
