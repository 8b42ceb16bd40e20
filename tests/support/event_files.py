"""The payloads in events/, and the stack that receives them: in this process (test_events.py) or as built (artifact/)."""

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from stoppress.aws import due, secrets, sites
from stoppress.aws.items import mark_item, news_item, series_item
from stoppress.feeds.subscription import Subscription
from stoppress.model.entries import Mark, NewsEntry
from stoppress.model.file_names import Place, Series, Used
from stoppress.model.site import Site, read_site
from stoppress.poll.feed_items import subscription_item
from stoppress_cli.local import local_queues
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.scenario import listed_pages

ROOT = Path(__file__).parents[2]
EVENTS = ROOT / "events"
HOST, SECRET = "www.example.com", "whsec_c3RvcHByZXNz"
SHARD, NEWS = f"{HOST}/sitemap-2026-11.xml", f"{HOST}/sitemap-news.xml"
WINDOW = timedelta(hours=48)

NUMBERED = sorted((path.name for path in EVENTS.glob("[0-9]*.json")), key=lambda name: int(name.partition("-")[0]))
(
    WEBHOOK, POLL, RECORD, STREAM, REWRITES, ROLL, CHANGED, ANNOUNCED, NIGHT, QUESTION, PUSH, EDITOR, HOURLY, ENGINES, SHARE,
) = NUMBERED  # fmt: skip
# The feed of the hub's files, and the subscription that was requested before them.
FEED = f"https://{HOST}/rss.xml"
# The feed of the other files. It is polled where a test serves it.
POLLED = f"http://{HOST}/rss.xml"
ASKED = Subscription(f"https://{HOST}/hub", FEED, asked_at=datetime(2026, 11, 20, 8, tzinfo=UTC), asks=1)


def read(name: str) -> Any:
    return json.loads((EVENTS / name).read_text())


def function_of(name: str) -> str:
    """Return the logical name of a file's function, which is the end of the file's name."""
    function = name.removesuffix(".json").rpartition("-")[2]
    return "".join(word.capitalize() for word in function.split("_"))


@contextmanager
def first_site_stack(feed: str, start: datetime | None = None) -> Iterator[Stack]:
    """Yield the template's stack with its first site; nothing runs by itself."""
    with Stack(ROOT / "template.yaml", {"Feed": feed}, first_site=True, start=start) as stack:
        for name in (f"webhooks/{HOST}/cms", "websub", "page"):
            stack.client("secretsmanager").put_secret_value(
                SecretId=f"{stack.variable('SECRETS_PATH')}/{name}", SecretString=SECRET
            )
        stack.put_site(HOST, stack.functions["RollWindow"].variables["FIRST_SITE"])  # as its first run does
        yield stack


@contextmanager
def prepared(name: str, event: Callable[[str], Any] = read, now: datetime | None = None) -> Iterator[Stack]:
    """Yield a stack with work for a file's event at `now` (None: the machine's clock). `event` reads a file."""
    sites.forget()  # a function of this process keeps a configuration for a minute
    secrets.forget()
    with first_site_stack(FEED if name in (QUESTION, PUSH) else POLLED, now) as stack:
        if name in (QUESTION, PUSH):
            put_subscription(stack)
        if name in (STREAM, REWRITES, CHANGED):
            apply(stack, event(STREAM))
        instant = now or datetime.now(UTC)
        if name == CHANGED:
            put(stack, mark_item(HOST, Mark("sitemap-2026-11.xml", instant, 3, 500, "digest")))
        if name == ROLL:
            put_news(stack, {"expired": instant - WINDOW, "fresh": instant - WINDOW + timedelta(hours=1)})
        yield stack


def outcome(stack: Stack) -> Counter[str]:
    """Return the number of items of each kind, the files, and the number of messages on each queue."""
    queues = ("ArticlesQueue", "RewritesQueue", "EnginesQueue")
    kinds = {kind: len(stored) for kind, stored in items(stack).items()}
    return Counter(kinds | dict.fromkeys(objects(stack), 1) | {name: len(on_queue(stack, name)) for name in queues})


def first_site(stack: Stack) -> Site:
    return read_site(stack.functions["RollWindow"].variables["FIRST_SITE"], 1)


# ── reading the stack ──


def on_queue(stack: Stack, logical: str) -> list[str]:
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{stack.name}-{logical}"
    return [str(message.body) for message in local_queues.queue(arn)._messages]


def items(stack: Stack) -> dict[str, list[dict[str, Any]]]:
    """Return the table's items by the first word of their keys."""
    items_by_kind: dict[str, list[dict[str, Any]]] = {}
    for item in stack.client("dynamodb").scan(TableName=stack.variable("TABLE_NAME"))["Items"]:
        items_by_kind.setdefault(plain(item)["pk"].partition("#")[0], []).append(plain(item))
    return items_by_kind


def objects(stack: Stack) -> dict[str, bytes]:
    return {file.key: file.body for file in listed_pages.read(stack)}


def plain(item: dict[str, Any]) -> dict[str, Any]:
    return {name: TypeDeserializer().deserialize(value) for name, value in item.items()}


# ── changing the stack ──


def put(stack: Stack, *items: dict[str, Any]) -> None:
    for item in items:
        stack.client("dynamodb").put_item(
            TableName=stack.variable("TABLE_NAME"),
            Item={name: TypeSerializer().serialize(value) for name, value in item.items()},
        )


def apply(stack: Stack, event: Any) -> list[str]:
    """Apply the stream records of `event` to the table, and return their partition keys."""
    client, table = stack.client("dynamodb"), stack.variable("TABLE_NAME")
    for change in (record["dynamodb"] for record in event["Records"]):
        if "NewImage" in change:
            client.put_item(TableName=table, Item=change["NewImage"])
        else:
            client.delete_item(TableName=table, Key=change["Keys"])
    return [record["dynamodb"]["Keys"]["pk"]["S"] for record in event["Records"]]


def put_subscription(stack: Stack) -> None:
    """Store the subscription that was requested from the feed's hub."""
    put(stack, subscription_item(HOST, FEED, ASKED) | {"rev": 1})


def put_news(stack: Stack, published: dict[str, datetime]) -> None:
    """Store news entries, given as publication dates by the last part of the URL."""
    place, size_bytes = Place("news", 1, 300), 300 * len(published)
    entries = [NewsEntry(f"https://{HOST}/{path}", path, instant) for path, instant in published.items()]
    put(stack, *(news_item(HOST, place, entry) for entry in entries))
    put(stack, series_item(HOST, Series("news", (Used(len(entries), size_bytes),))) | {"rev": 1})
    put(stack, due.expiry(HOST, "sitemap-news.xml", min(published.values()) + WINDOW).item)
