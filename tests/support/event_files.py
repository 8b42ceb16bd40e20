"""The payloads in events/, and the stack that they are fed to: in this process (test_events.py), as built (artifact/)."""

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
# The feed that the hub's files are of, and what was asked of the hub before they came.
FEED = f"https://{HOST}/rss.xml"
# The feed of the other files. It is polled where a test serves it.
POLLED = f"http://{HOST}/rss.xml"
ASKED = Subscription(f"https://{HOST}/hub", FEED, asked_at=datetime(2026, 11, 20, 8, tzinfo=UTC), asks=1)


def read(name: str) -> Any:
    return json.loads((EVENTS / name).read_text())


def function_of(name: str) -> str:
    """The logical name of the function that a file is for: the end of the file's name says it."""
    function = name.removesuffix(".json").rpartition("-")[2]
    return "".join(word.capitalize() for word in function.split("_"))


@contextmanager
def first_site_stack(feed: str, start: datetime | None = None) -> Iterator[Stack]:
    """The template's stack with its first site; nothing runs by itself."""
    with Stack(ROOT / "template.yaml", {"Feed": feed}, first_site=True, start=start) as made:
        for name in (f"webhooks/{HOST}/cms", "websub", "page"):
            made.client("secretsmanager").put_secret_value(
                SecretId=f"{made.variable('SECRETS_PATH')}/{name}", SecretString=SECRET
            )
        made.put_site(HOST, made.functions["RollWindow"].variables["FIRST_SITE"])  # as its first run does
        yield made


@contextmanager
def prepared(name: str, event: Callable[[str], Any] = read, now: datetime | None = None) -> Iterator[Stack]:
    """A stack on which the event of a file has something to do at an instant. `event` reads a file; `now` None: the machine's."""
    sites.forget()  # a function of this process keeps a configuration for a minute
    secrets.forget()
    with first_site_stack(FEED if name in (QUESTION, PUSH) else POLLED, now) as made:
        if name in (QUESTION, PUSH):
            put_subscription(made)
        if name in (STREAM, REWRITES, CHANGED):
            apply(made, event(STREAM))
        instant = now or datetime.now(UTC)
        if name == CHANGED:
            put(made, mark_item(HOST, Mark("sitemap-2026-11.xml", instant, 3, 500, "digest")))
        if name == ROLL:
            put_news(made, {"expired": instant - WINDOW, "fresh": instant - WINDOW + timedelta(hours=1)})
        yield made


def outcome(stack: Stack) -> Counter[str]:
    """How many items of each kind there are, which files, and how many messages on each queue."""
    queues = ("ArticlesQueue", "RewritesQueue", "EnginesQueue")
    kinds = {kind: len(found) for kind, found in items(stack).items()}
    return Counter(kinds | dict.fromkeys(objects(stack), 1) | {name: len(on_queue(stack, name)) for name in queues})


def first_site(stack: Stack) -> Site:
    return read_site(stack.functions["RollWindow"].variables["FIRST_SITE"], 1)


# ── what is in it ──


def on_queue(stack: Stack, logical: str) -> list[str]:
    arn = f"arn:aws:sqs:{REGION}:{ACCOUNT}:{stack.name}-{logical}"
    return [str(message.body) for message in local_queues.queue(arn)._messages]


def items(stack: Stack) -> dict[str, list[dict[str, Any]]]:
    """The table's items by the first word of their keys."""
    found: dict[str, list[dict[str, Any]]] = {}
    for item in stack.client("dynamodb").scan(TableName=stack.variable("TABLE_NAME"))["Items"]:
        found.setdefault(plain(item)["pk"].partition("#")[0], []).append(plain(item))
    return found


def objects(stack: Stack) -> dict[str, bytes]:
    return {file.key: file.body for file in listed_pages.read(stack)}


def plain(item: dict[str, Any]) -> dict[str, Any]:
    return {name: TypeDeserializer().deserialize(value) for name, value in item.items()}


# ── putting something into it ──


def put(stack: Stack, *items: dict[str, Any]) -> None:
    for item in items:
        stack.client("dynamodb").put_item(
            TableName=stack.variable("TABLE_NAME"),
            Item={name: TypeSerializer().serialize(value) for name, value in item.items()},
        )


def apply(stack: Stack, event: Any) -> list[str]:
    """Put the table into the state that the stream records of `event` tell of; the partitions they name."""
    client, table = stack.client("dynamodb"), stack.variable("TABLE_NAME")
    for change in (record["dynamodb"] for record in event["Records"]):
        if "NewImage" in change:
            client.put_item(TableName=table, Item=change["NewImage"])
        else:
            client.delete_item(TableName=table, Key=change["Keys"])
    return [record["dynamodb"]["Keys"]["pk"]["S"] for record in event["Records"]]


def put_subscription(stack: Stack) -> None:
    """The hub of the feed was asked for a subscription."""
    put(stack, subscription_item(HOST, FEED, ASKED) | {"rev": 1})


def put_news(stack: Stack, published: dict[str, datetime]) -> None:
    """News entries by the last part of their URL, with the instant of their publication."""
    place, size_bytes = Place("news", 1, 300), 300 * len(published)
    entries = [NewsEntry(f"https://{HOST}/{path}", path, instant) for path, instant in published.items()]
    put(stack, *(news_item(HOST, place, entry) for entry in entries))
    put(stack, series_item(HOST, Series("news", (Used(len(entries), size_bytes),))) | {"rev": 1})
    put(stack, due.expiry(HOST, "sitemap-news.xml", min(published.values()) + WINDOW).item)
