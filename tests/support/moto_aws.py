"""Table, bucket, queues, bus and secrets in moto, to which `stoppress` is connected: for tests of the functions."""

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
    """The resources in moto, with the clock, and with the logs, metrics and bus events of the functions."""

    clock: time_machine.Traveller
    announced: list[dict[str, Any]] = field(default_factory=list, repr=False)
    log: list[dict[str, Any]] = field(default_factory=list, repr=False)
    metrics: Counter[str] = field(default_factory=Counter)

    def read_stream(self) -> list[dict[str, Any]]:
        """Return the records of the table since the last call."""
        return local_queues.read_stream(f"arn:aws:dynamodb:::table/{TABLE}/stream/1")

    def site(self, host: str = HOST, **settings: Any) -> Site:
        """Put a site's configuration and load it as a cold start does."""
        put_site(PUBLISHING | {"host": host} | settings)
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
        """Delete all messages on a queue, delayed ones too, and return their bodies."""
        source = local_queues.queue(QUEUE_ARN + queue)
        messages = list(source._messages)
        local_queues.delete(source, messages)
        return [str(message.body) for message in messages]

    def items(self, prefix: str = "") -> list[Item]:
        """Return the items whose partition keys begin with `prefix`, sorted by their keys."""
        pages = client("dynamodb").get_paginator("scan").paginate(TableName=TABLE)
        stored = [table.read_item(item) for page in pages for item in page["Items"]]
        return sorted(
            (item for item in stored if item["pk"].startswith(prefix)), key=lambda item: (item["pk"], item["sk"])
        )

    def item(self, pk: str, sk: str = "-") -> Item:
        """Return an item that must exist."""
        item = table.get(pk, sk)
        assert item is not None, f"no item {pk} {sk}; there are {[stored['pk'] for stored in self.items()]}"
        return item

    def file(self, name: str, host: str = HOST) -> StoredFile:
        """Return a file that must exist."""
        stored = bucket.read(host, name)
        assert stored is not None, f"no file {name}"
        return stored

    def call(self, function: str, event: Mapping[str, Any], context: Any = None) -> Any:
        """Call a function's handler with an event of JSON, as Lambda does; keep its log and add its metrics."""
        log = io.StringIO()
        with redirect_stdout(OUTPUT), OUTPUT.write_to(log) as metrics:
            # Imported here, so that loggers and metrics are created with the test's variables and stream.
            module = importlib.import_module(f"functions.{function}.app")
            try:
                return module.lambda_handler(json.loads(json.dumps(event)), context or Context(function, 512, 30))
            finally:
                self.metrics += metrics
                # Encoded, because standard output takes no lone surrogate.
                lines = [json.loads(line) for line in log.getvalue().encode().split(b"\n") if line]
                self.log += [line for line in lines if line.get("message") != "counts"]


def put_site(document: Mapping[str, Any]) -> int:
    """Write the next version of a site; an unreadable document as if an operator had edited the items by hand."""
    host, text = str(document["host"]), json.dumps(document)
    current = table.get(sites.site_pk(host), sites.CURRENT)  # past the cache of the function that runs
    expected, now = int(current["rev"]) if current else 0, datetime.now(UTC)
    try:
        return site_versions.put(text, expected, "a test", now)
    except BadConfiguration:
        return site_versions.put_unchecked(host, text, expected, "a test", now)


@contextmanager
def opened(at: datetime) -> Iterator[MotoAws]:
    """Yield empty resources and a stopped clock. Clients are kept from test to test, because they are slow to create."""
    with ExitStack() as opening:
        patch = opening.enter_context(pytest.MonkeyPatch.context())
        for name, value in ENVIRONMENT.items():
            patch.setenv(name, value)
        aws = MotoAws(opening.enter_context(time_machine.travel(at, tick=False)))
        opening.enter_context(mock_aws())
        opening.enter_context(moto_fixes.applied())
        _make()
        sites.forget()
        aws.forget_secrets()

        def arrived(name: str, event: dict[str, Any]) -> None:
            if name == BUS:
                aws.announced.append(event)

        opening.enter_context(bus.observe_events(arrived))
        yield aws


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
    """Fail the next calls of an operation before they are sent or, if `applied`, after they have taken effect."""
    remaining = [times]

    def fail(**_: Any) -> None:
        if remaining[0] > 0:
            remaining[0] -= 1
            raise ClientError({"Error": {"Code": code, "Message": "a fault that the test ordered"}}, operation)

    events, name = client(service).meta.events, f"{'after' if applied else 'before'}-call.*.{operation}"
    events.register(name, fail)
    try:
        yield
    finally:
        events.unregister(name, fail)
    assert remaining[0] == 0, f"{operation} was not called as often as it was to fail"


@contextmanager
def counted(service: str, operation: str) -> Iterator[list[str]]:
    """Yield the list of calls of an operation in the block, each by its name."""
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
    """Run `act`, as another worker, just before the next call of a module's function."""
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
    """Return the event in which SQS passes messages to a function; their IDs are m0, m1, …"""
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


def failed_ids(answer: dict[str, Any]) -> list[str]:
    """Return the IDs of the records that a function has reported as failed."""
    return [failure["itemIdentifier"] for failure in answer["batchItemFailures"]]
