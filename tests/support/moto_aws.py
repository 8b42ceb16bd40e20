"""Table, bucket, queues, bus, parameters and secrets in moto, opened to the doors of `stoppress`: for tests of its workers."""

import importlib
import io
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stdout
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import pytest
import time_machine
from botocore.exceptions import ClientError
from moto import mock_aws

from stoppress.aws import bucket, secrets, site_versions, sites, table
from stoppress.aws.bucket import StoredFile
from stoppress.aws.clients import client
from stoppress.aws.items import Item
from stoppress.model.event import ArticleEvent, to_message
from stoppress.model.site import BadConfiguration, Site
from stoppress_cli.local import bus, local_queues, moto_fixes
from stoppress_cli.local.lambda_functions import OUTPUT, Context
from stoppress_cli.local.template import ACCOUNT, REGION
from tests.support.article_events import HOST

TABLE, BUCKET, BUS = "stoppress-table", "stoppress-files", "stoppress-articles"
PUBLISHING = {
    "host": HOST,
    "publication": "Example News",
    "sources": {"cms": {"secret": "cms"}, "wire": {"secret": "cms"}, "bus": {}},
}
ENVIRONMENT = {
    "TABLE_NAME": TABLE,
    "BUCKET_NAME": BUCKET,
    "BUS_NAME": BUS,
    "ARTICLES_QUEUE_URL": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/articles",
    "REWRITES_QUEUE_URL": f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/rewrites",
    "SECRETS_PATH": "stoppress/test",
    "WEBSUB_URL": "https://api.example.net/websub",
    "METRICS_NAMESPACE": "Stoppress",
    "DASHBOARD": "no",
    "POWERTOOLS_SERVICE_NAME": "test",
    "FIRST_HOST": "",
    "FIRST_SITE": "",
}
QUEUE_ARN = f"arn:aws:sqs:{REGION}:{ACCOUNT}:"


@dataclass
class MotoAws:
    """What lies behind the doors, for a test to look at; and the clock."""

    clock: time_machine.Traveller
    announced: list[dict[str, Any]] = field(default_factory=list, repr=False)
    log: list[dict[str, Any]] = field(default_factory=list, repr=False)
    metrics: Counter[str] = field(default_factory=Counter)

    def read_stream(self) -> list[dict[str, Any]]:
        """Return the records of the table since the last call."""
        return local_queues.read_stream(f"arn:aws:dynamodb:::table/{TABLE}/stream/1")

    def site(self, host: str = HOST, **said: Any) -> Site:
        """Put a site's configuration and load it as a cold start does."""
        put_site(PUBLISHING | {"host": host} | said)
        sites.forget()
        return sites.load(host)

    def secret(self, name: str, value: str) -> None:
        manager = client("secretsmanager")
        try:
            manager.create_secret(Name=f"stoppress/test/{name}", SecretString=value)
        except manager.exceptions.ResourceExistsException:
            manager.put_secret_value(SecretId=f"stoppress/test/{name}", SecretString=value)

    def forget_secrets(self) -> None:
        """Forget the secrets that are kept for a minute."""
        secrets.forget()

    def taken(self, queue: str) -> list[str]:
        """The bodies of all messages on a queue, delayed ones too, which are gone from it then."""
        source = local_queues.queue(QUEUE_ARN + queue)
        messages = list(source._messages)
        local_queues.delete(source, messages)
        return [str(message.body) for message in messages]

    def items(self, prefix: str = "") -> list[Item]:
        """The items whose partition keys begin so, sorted by their keys."""
        pages = client("dynamodb").get_paginator("scan").paginate(TableName=TABLE)
        found = [table.read_item(item) for page in pages for item in page["Items"]]
        return sorted(
            (item for item in found if item["pk"].startswith(prefix)), key=lambda item: (item["pk"], item["sk"])
        )

    def item(self, pk: str, sk: str = "-") -> Item:
        """An item that must be there."""
        found = table.get(pk, sk)
        assert found is not None, f"no item {pk} {sk}; there are {[item['pk'] for item in self.items()]}"
        return found

    def file(self, name: str, host: str = HOST) -> StoredFile:
        """A file that must be there."""
        found = bucket.read(host, name)
        assert found is not None, f"no file {name}"
        return found

    def call(self, function: str, event: Mapping[str, Any], context: Any = None) -> Any:
        """Call a function's handler with an event of JSON, as Lambda does. Its log is kept, its metrics are added."""
        log = io.StringIO()
        with redirect_stdout(OUTPUT), OUTPUT.write_to(log) as metrics:
            # Late, so that loggers and metrics find their variables and their stream when they are made.
            module = importlib.import_module(f"functions.{function}.app")
            try:
                return module.lambda_handler(json.loads(json.dumps(event)), context or Context(function, 512, 30))
            finally:
                self.metrics += metrics
                # Encoded, because standard output takes no lone surrogate.
                lines = [json.loads(line) for line in log.getvalue().encode().split(b"\n") if line]
                self.log += [line for line in lines if line.get("message") != "counts"]


def put_site(document: Mapping[str, Any]) -> int:
    """Write the next version of a site; an unreadable document as if somebody had written the items by hand."""
    host, text = str(document["host"]), json.dumps(document)
    current = table.get(sites.site_pk(host), sites.CURRENT)  # past the cache of the function that runs
    expected, now = int(current["rev"]) if current else 0, datetime.now(UTC)
    try:
        return site_versions.put(text, expected, "a test", now)
    except BadConfiguration:
        return site_versions.put_unchecked(host, text, expected, "a test", now)


@contextmanager
def opened(at: datetime) -> Iterator[MotoAws]:
    """Everything empty, at an instant that stands still. Clients are kept from test to test: they cost more than all else."""
    with ExitStack() as opening:
        patch = opening.enter_context(pytest.MonkeyPatch.context())
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        doors = MotoAws(opening.enter_context(time_machine.travel(at, tick=False)))
        opening.enter_context(mock_aws())
        opening.enter_context(moto_fixes.applied())
        _make()
        sites.forget()
        doors.forget_secrets()

        def arrived(name: str, event: dict[str, Any]) -> None:
            if name == BUS:
                doors.announced.append(event)

        opening.enter_context(bus.observe_events(arrived))
        yield doors


def _make() -> None:
    client("dynamodb").create_table(
        TableName=TABLE,
        BillingMode="PAY_PER_REQUEST",
        AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in ("pk", "sk")],
        KeySchema=[{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        StreamSpecification={"StreamEnabled": True, "StreamViewType": "NEW_AND_OLD_IMAGES"},
    )
    client("s3").create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    for queue in ("articles", "rewrites"):
        client("sqs").create_queue(QueueName=queue)
    client("events").create_event_bus(Name=BUS)


@contextmanager
def failing(
    service: str, operation: str, *, code: str = "InternalServerError", times: int = 1, applied: bool = False
) -> Iterator[None]:
    """The next calls of an operation fail: they never leave, or (`applied`) take effect and their answer is lost."""
    left = [times]

    def fail(**_: Any) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise ClientError({"Error": {"Code": code, "Message": "a fault that the test ordered"}}, operation)

    events, name = client(service).meta.events, f"{'after' if applied else 'before'}-call.*.{operation}"
    events.register(name, fail)
    try:
        yield
    finally:
        events.unregister(name, fail)
    assert left[0] == 0, f"{operation} was not called as often as it was to fail"


@contextmanager
def counted(service: str, operation: str) -> Iterator[list[str]]:
    """The calls of an operation in the block, each by its name."""
    calls: list[str] = []

    def called(**_: Any) -> None:
        calls.append(operation)

    events, name = client(service).meta.events, f"before-call.*.{operation}"
    events.register(name, called)
    try:
        yield calls
    finally:
        events.unregister(name, called)


@contextmanager
def once_before(module: Any, name: str, act: Callable[[], object]) -> Iterator[None]:
    """Somebody else acts just before the next call of a door's function."""
    called: Callable[..., Any] = getattr(module, name)
    acts = [act]

    def first_act(*args: Any, **options: Any) -> Any:
        if acts:
            acts.pop()()
        return called(*args, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, name, first_act)
        yield
    assert not acts, f"{name} was not called"


def queue_batch(bodies: Iterable[str | ArticleEvent], *, sent_at: datetime, queue: str = "articles") -> dict[str, Any]:
    """Messages as SQS hands them to a function, called m0, m1, …"""
    return {"Records": [_record(number, body, sent_at, queue) for number, body in enumerate(bodies)]}


def _record(number: int, body: str | ArticleEvent, sent_at: datetime, queue: str) -> dict[str, Any]:
    millis = str(int(sent_at.timestamp() * 1000))
    return {
        "messageId": f"m{number}",
        "receiptHandle": f"handle-{number}",
        "body": body if isinstance(body, str) else to_message(body),
        "attributes": {
            "ApproximateReceiveCount": "1",
            "SentTimestamp": millis,
            "SenderId": "AIDAEXAMPLE",
            "ApproximateFirstReceiveTimestamp": millis,
        },
        "messageAttributes": {},
        "md5OfBody": "",
        "eventSource": "aws:sqs",
        "eventSourceARN": QUEUE_ARN + queue,
        "awsRegion": REGION,
    }


def failed_ones(answer: dict[str, Any]) -> list[str]:
    """The records that a function has reported."""
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
