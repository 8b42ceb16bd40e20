"""A stack after a scenario, and the operator's connection to it, in this process: for tests of the operator's commands."""

import json
import threading
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress.model.http_request import Request
from stoppress_cli import connect
from stoppress_cli.local.server import Server
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.scenario import player, signing
from tests.support import playing
from tests.support.event_files import items, objects, on_queue
from tests.support.playing import TEMPLATE, Step

HOST = "www.example.com"
CMS = f"/webhooks/{HOST}/cms"
SITE: dict[str, Any] = {
    "host": HOST,
    "publication": "Example News",
    "sources": {"cms": {"secret": "newsroom"}, "bus": {}},
}
MADE: list[Step] = [
    {"at": "2026-11-20T12:00:00Z", "secret": {"name": "newsroom", "value": "whsec_c3RvcHByZXNz"}},
    {"site": SITE},
]


def url(path: str) -> str:
    return f"https://{HOST}/{path}"


def event(minute: int, article: str, path: str, kind: str = "article.published", **data: Any) -> Step:
    """Return the step of a webhook some minutes after twelve."""
    at = f"2026-11-20T12:{minute:02}:00Z"
    values = {
        "id": article,
        "url": url(path),
        "title": "Flood closes the harbour",
        "published_at": "2026-11-20T12:00:00Z",
    }
    return {"at": at, "post": CMS, "body": {"type": kind, "timestamp": at, "data": values | data}, "sign": True}


def on_the_bus(kind: str = "article.published", site: str = HOST, source: str = "bus", **data: Any) -> Step:
    """Return the step of an event on the bus, at the instant of the step before."""
    return {"event": {"source": source, "detail-type": kind, "detail": {"site": site} | data}}


@contextmanager
def connected(stack: Stack) -> Iterator[None]:
    """Connect this process to the stack, as commands connect to a deployed one."""
    variables = {name: stack.resources[logical].ref for name, (_, logical) in connect.RESOURCES.items()}
    also = {"SECRETS_PATH": stack.variable("SECRETS_PATH"), "FILE_VERSIONS_DAYS": "14"}
    with connect._connected(variables | also):
        yield


@contextmanager
def operated(
    steps: Sequence[Step], tmp_path: Path, *, versioned: bool = False, parameters: Mapping[str, str] | None = None
) -> Iterator[Stack]:
    """Yield the stack on which the steps were played, with its clock stopped. `versioned` turns on bucket versioning."""
    lines = playing.written([*MADE, *steps])
    with Stack(TEMPLATE, parameters, start=lines[0].at) as stack:
        if versioned:
            bucket = stack.only("AWS::S3::Bucket").ref
            stack.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        with player.playing(stack, tmp_path / "made.jsonl", tmp_path, lambda _line, _text: None) as opened:
            assert opened.play(lines) == []
        with connected(stack):
            yield stack


def post(stack: Stack, body: Mapping[str, Any], delivery: str = "m1", **headers: str) -> None:
    """Have the webhook of the source `cms` receive a signed body now."""
    request = Request({"content-type": "application/json", **headers}, json.dumps(body).encode(), path=CMS)
    signed = signing.signed(request, "standard", "whsec_c3RvcHByZXNz", delivery, stack.clock.now())
    answer = stack.request(signed)
    assert answer.status == 200, answer


def publish(stack: Stack, article: str, path: str, kind: str = "article.published", **data: Any) -> None:
    """Have the webhook receive an event of an article now."""
    at = f"{stack.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    values = {"id": article, "url": url(path), "title": "Flood closes the harbour", "published_at": at}
    post(stack, {"type": kind, "timestamp": at, "data": values | data}, f"msg_{article}_{at}")


def news(stack: Stack) -> str:
    return objects(stack)[f"{HOST}/sitemap-news.xml"].decode()


@contextmanager
def served(stack: Stack) -> Iterator[str]:
    """Serve the stack and yield its endpoint without a slash."""
    with serving(stack) as server:
        yield server.url.rstrip("/")


@contextmanager
def serving(stack: Stack) -> Iterator[Server]:
    """Serve the stack as `stoppress up` does, with its clock stopped."""
    server = Server(stack, "127.0.0.1", 0)
    thread = threading.Thread(target=server._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
    thread.start()
    try:
        yield server
    finally:
        server.stop()
        thread.join()
        server.close()


def pretend_deployed(patch: pytest.MonkeyPatch) -> None:
    """Have --stack connect to the stack of this process."""
    patch.setattr(connect, "deployed", lambda _stack: nullcontext())
    patch.setenv("WEBHOOKS_URL", "https://api.example.net")


def copy_table(stack: Stack, name: str) -> None:
    """Write the stack's table as it is now under another name: what point-in-time recovery creates."""
    client, own = stack.client("dynamodb"), stack.variable("TABLE_NAME")
    keys = [{"AttributeName": key, "KeyType": kind} for key, kind in (("pk", "HASH"), ("sk", "RANGE"))]
    types = [{"AttributeName": key, "AttributeType": "S"} for key in ("pk", "sk")]
    client.create_table(TableName=name, KeySchema=keys, AttributeDefinitions=types, BillingMode="PAY_PER_REQUEST")
    for item in client.scan(TableName=own)["Items"]:
        client.put_item(TableName=name, Item=item)


def later(stack: Stack, minutes: float) -> None:
    """Move the clock by some minutes, and do the work that is due in them."""
    stack.advance(stack.clock.now() + timedelta(minutes=minutes), every_schedule=True)


def arn(stack: Stack, logical: str) -> str:
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{stack.name}-{logical}"


def everything(stack: Stack) -> tuple[Any, Any, Any]:
    """Return the contents of table, bucket and queues, for comparison."""
    names = ("ArticlesQueue", "ArticlesDeadLetters", "RewritesQueue", "Failures")
    return items(stack), objects(stack), {name: sorted(on_queue(stack, name)) for name in names}
