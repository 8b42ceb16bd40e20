"""Policy statements are evaluated as in IAM, and a function can only do what its role allows."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from stoppress_cli.local.permissions import Ask, Permissions
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import TemplateError
from tests.local_stack.toy import TABLE, Toy

pytestmark = pytest.mark.moto

QUEUE = "arn:aws:sqs:eu-west-1:123456789012:articles"
TABLE_ARN = "arn:aws:dynamodb:eu-west-1:123456789012:table/articles"
ROLE = "arn:aws:iam::123456789012:role/role"


def allow(action: Any = "sqs:SendMessage", resource: Any = QUEUE, **more: Any) -> dict[str, Any]:
    return {"Effect": "Allow", "Action": action, "Resource": resource, **more}


def permissions(*own: dict[str, Any], of_queue: tuple[dict[str, Any], ...] = ()) -> Permissions:
    trust = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": "lambda.amazonaws.com"}}
    role = {
        "AssumeRolePolicyDocument": {"Statement": [trust]},
        "Policies": [{"PolicyDocument": {"Statement": list(own)}}],
    }
    policy = {"Queues": ["https://sqs/articles"], "PolicyDocument": {"Statement": list(of_queue)}}
    return Permissions(
        [
            Resource("Role", "AWS::IAM::Role", "role", ROLE, role),
            Resource("Queue", "AWS::SQS::Queue", "https://sqs/articles", QUEUE, {}),
            Resource("Policy", "AWS::SQS::QueuePolicy", "policy", "", policy),
        ]
    )


def may(ask: Ask, *own: dict[str, Any], of_queue: tuple[dict[str, Any], ...] = ()) -> bool:
    evaluator = permissions(*own, of_queue=of_queue)
    role = evaluator.role(ROLE)
    assert role is not None
    return evaluator.may(role, ask)


SEND = Ask("sqs:SendMessage", QUEUE)


@pytest.mark.parametrize(
    ("statement", "expected"),
    [
        (allow(), True),
        (allow("sqs:*"), True),
        (allow("SQS:sendmessage"), True),  # actions ignore case
        (allow(["sqs:ReceiveMessage", "sqs:SendMessage"], ["arn:x", QUEUE]), True),
        (allow(resource="arn:aws:sqs:*:123456789012:articl?s"), True),
        (allow(resource="*"), True),
        (allow("sqs:ReceiveMessage"), False),
        (allow(resource=f"{QUEUE}-dead"), False),
        (allow(resource=QUEUE.upper()), False),  # resources do not
        (allow(resource="arn:aws:sqs:eu-west-1:123456789012:[a]rticles"), False),  # brackets are not wildcards
        (
            allow(Condition={"StringEquals": {"aws:SourceAccount": "123456789012"}}),
            False,
        ),  # the call lacks the key
    ],
)
def test_a_statement_allows_its_actions_and_no_more(statement: dict[str, Any], expected: bool) -> None:
    assert may(SEND, statement) is expected


def test_a_role_can_be_assumed_only_by_the_services_of_its_trust_policy() -> None:
    tag = {"Effect": "Allow", "Action": "sts:TagSession", "Principal": {"Service": "lambda.amazonaws.com"}}
    assume = {"Effect": "Allow", "Action": "sts:AssumeRole", "Principal": {"Service": ["a", "b"]}}
    deny = {"Effect": "Deny", "Action": "sts:*", "Principal": {"Service": "b"}}
    document = {"Statement": [tag, assume, deny]}
    evaluator = Permissions([Resource("Role", "AWS::IAM::Role", "role", ROLE, {"AssumeRolePolicyDocument": document})])

    role = evaluator.role(ROLE)

    assert role is not None
    assert [role.is_trusted_to(service) for service in ("a", "b", "lambda.amazonaws.com")] == [True, False, False]


def test_a_request_is_denied_by_default_and_a_denial_overrides_all_allows() -> None:
    deny = {**allow("*", "*"), "Effect": "Deny"}

    assert not may(SEND)
    assert not may(SEND, allow(), deny)
    assert not may(SEND, allow(), of_queue=({**deny, "Principal": "*"},))


@pytest.mark.parametrize(
    ("keys", "expected"),
    [(("file#a",), True), (("file#a", "due#b"), True), (("file#a", "article#b"), False), ((), True)],
)
def test_a_table_is_accessible_if_the_statement_lists_all_partitions(keys: tuple[str, ...], expected: bool) -> None:
    leading_keys = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["file#*", "due#*"]}}

    ask = Ask("dynamodb:GetItem", TABLE_ARN, {"dynamodb:leadingkeys": keys})

    assert may(ask, allow("dynamodb:GetItem", TABLE_ARN, Condition=leading_keys)) is expected


def test_a_queue_accepts_the_rule_in_its_policy_and_no_other() -> None:
    condition = {"ArnEquals": {"aws:SourceArn": "arn:rule/articles"}}
    statement = {**allow(Condition=condition), "Principal": {"Service": "events.amazonaws.com"}}
    evaluator = permissions(of_queue=(statement,))

    assert evaluator.service_may("events.amazonaws.com", "arn:rule/articles", SEND)
    assert not evaluator.service_may("events.amazonaws.com", "arn:rule/other", SEND)
    assert not evaluator.service_may("scheduler.amazonaws.com", "arn:rule/articles", SEND)


@pytest.mark.parametrize(
    "statement",
    [
        {"Effect": "Allow", "NotAction": "sqs:*", "Resource": "*"},
        allow(Condition={"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}),
        allow(resource="arn:aws:s3:::bucket/${aws:username}/*"),
    ],
    ids=["NotAction", "IpAddress", "variable"],
)
def test_a_statement_that_the_local_stack_cannot_evaluate_is_an_error(statement: dict[str, Any]) -> None:
    with pytest.raises(TemplateError, match="the local stack"):
        may(SEND, statement)


# ── a function and its role ──

CALLS = """
import boto3, botocore.exceptions, os

def lambda_handler(event, context):
    try:
        getattr(boto3.client(event["service"]), event["call"])(**event["params"])
    except botocore.exceptions.ClientError as error:
        return {"code": error.response["Error"]["Code"], "message": error.response["Error"]["Message"]}
    return "done"
"""
NAME = "stoppress-Table"
ITEM = {"pk": {"S": "file#1"}, "sk": {"S": "-"}}
OTHER = {"pk": {"S": "article#1"}, "sk": {"S": "-"}}
BUCKET = "stoppress-bucket-123456789012"
TO_FILES = {"ForAllValues:StringLike": {"dynamodb:LeadingKeys": ["file#*"]}}
TABLE_OF_TOY = "arn:aws:dynamodb:eu-west-1:123456789012:table/stoppress-Table"
WRITES_FILES = allow(["dynamodb:PutItem", "dynamodb:GetItem", "dynamodb:Query"], TABLE_OF_TOY, Condition=TO_FILES)


@contextmanager
def calling(toy: Toy, policies: list[Any], app: str = CALLS) -> Iterator[tuple[Stack, Callable[..., Any]]]:
    """Run a stack. Yield the stack, and a callable that returns the result of the function's call to AWS."""
    policies = [*policies, {"Statement": [allow("logs:*", "*")]}]
    toy.write({}, {"Table": TABLE, "Bucket": {"Type": "AWS::S3::Bucket"}}, Policies=policies)
    (toy.folder / "functions" / "toy" / "app.py").write_text(app)
    with toy.running() as stack:

        def call(service: str, name: str, **params: Any) -> Any:
            event = {"service": service, "call": name, "params": params}
            return stack.sources.invoke(stack.functions["Function"], event).payload

        yield stack, call


def test_a_function_reaches_the_partitions_of_its_role_only(toy: Toy) -> None:
    values = {":p": {"S": "article#1"}}
    calls: list[tuple[str, dict[str, Any], bool]] = [
        ("put_item", {"TableName": NAME, "Item": ITEM}, True),
        ("put_item", {"TableName": NAME, "Item": OTHER}, False),
        ("get_item", {"TableName": NAME, "Key": OTHER}, False),
        ("delete_item", {"TableName": NAME, "Key": ITEM}, False),
        ("scan", {"TableName": NAME}, False),
        ("transact_write_items", {"TransactItems": [{"Put": {"TableName": NAME, "Item": ITEM}}]}, True),
        ("transact_write_items", {"TransactItems": [{"Delete": {"TableName": NAME, "Key": ITEM}}]}, False),
        ("batch_get_item", {"RequestItems": {NAME: {"Keys": [ITEM]}}}, False),
        ("query", {"TableName": NAME, "KeyConditionExpression": "#p = :p AND sk < :s",
                   "ExpressionAttributeNames": {"#p": "pk"},
                   "ExpressionAttributeValues": values | {":s": {"S": "file#1"}}}, False),
    ]  # fmt: skip
    with calling(toy, [{"Statement": [WRITES_FILES]}]) as (_, call):
        for name, params, is_allowed in calls:
            answer = call("dynamodb", name, **params)
            assert (answer == "done") is is_allowed, (name, params, answer)
            if not is_allowed:
                assert answer["code"] == "AccessDeniedException"
                assert "FunctionRole is not authorized to perform: dynamodb:" in answer["message"]


@pytest.mark.parametrize("lists", [False, True])
def test_without_listing_rights_an_absent_object_is_not_reported_as_absent(toy: Toy, lists: bool) -> None:
    reads = [allow("s3:GetObject", f"arn:aws:s3:::{BUCKET}/*")]
    reads += [allow("s3:ListBucket", f"arn:aws:s3:::{BUCKET}")] if lists else []
    with calling(toy, [{"Statement": reads}]) as (stack, call):
        stack.client("s3").put_object(Bucket=BUCKET, Key="there", Body=b"")

        assert call("s3", "get_object", Bucket=BUCKET, Key="there") == "done"
        absent = call("s3", "get_object", Bucket=BUCKET, Key="absent")
        assert absent["code"] == ("NoSuchKey" if lists else "AccessDenied")
