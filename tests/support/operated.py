"""A stack that was played, and the operator's doors to it, in this process: for tests of the operator's commands."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.scenario import player
from stoppress_cli.stack import find
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
    """A page of the site."""
    return f"https://{HOST}/{path}"


def event(minute: int, article: str, path: str, kind: str = "article.published", **said: Any) -> Step:
    """A webhook some minutes after twelve."""
    at = f"2026-11-20T12:{minute:02}:00Z"
    data = {
        "id": article,
        "url": url(path),
        "title": "Flood closes the harbour",
        "published_at": "2026-11-20T12:00:00Z",
    }
    return {"at": at, "post": CMS, "body": {"type": kind, "timestamp": at, "data": data | said}, "sign": True}


def on_the_bus(kind: str = "article.published", site: str = HOST, source: str = "bus", **said: Any) -> Step:
    """An event of the bus, at the instant of the step before it."""
    return {"event": {"source": source, "detail-type": kind, "detail": {"site": site} | said}}


@contextmanager
def doors(stack: Stack) -> Iterator[None]:
    """The doors lead to the stack, as to a deployed one by its name."""
    queues = {one.logical: one.ref for one in stack.resources.values() if one.type == "AWS::SQS::Queue"}
    named = {name: stack.variable(name) for name in (*find._OUTPUTS, "SECRETS_PATH")}
    with find._connected(named | {name: queues[logical] for name, (_, logical) in find._QUEUES.items()}):
        yield


@contextmanager
def operated(
    steps: Sequence[Step], tmp_path: Path, *, versioned: bool = False, parameters: Mapping[str, str] | None = None
) -> Iterator[Stack]:
    """The stack on which the steps were played; its clock stands still. `versioned`: its bucket keeps old versions, as S3's."""
    lines = playing.written([*MADE, *steps])
    with Stack(TEMPLATE, parameters, start=lines[0].at) as stack:
        if versioned:
            bucket = stack.only("AWS::S3::Bucket").ref
            stack.client("s3").put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        with player.playing(stack, tmp_path / "made.jsonl", tmp_path, lambda _line, _text: None) as one:
            assert one.play(lines).failures == []
        with doors(stack):
            yield stack


def later(stack: Stack, minutes: float) -> None:
    """So many minutes go by; what is due in them is done."""
    stack.advance(stack.clock.now() + timedelta(minutes=minutes), every_schedule=True)


def arn(stack: Stack, logical: str) -> str:
    """The ARN of a queue."""
    return f"arn:aws:sqs:{REGION}:{ACCOUNT}:{stack.name}-{logical}"


def everything(stack: Stack) -> tuple[Any, Any, Any]:
    """Table, bucket and queues, to be compared."""
    names = ("ArticlesQueue", "ArticlesDeadLetters", "RewritesQueue", "RewritesDeadLetters", "Failures")
    return items(stack), objects(stack), {name: sorted(on_queue(stack, name)) for name in names}
