"""An archive of up to fifty million pages, of which only that is there which a measurement touches.

What is there was made by the product itself: articles by its decisions and its records, files, their marks and the index by
its own rewriter.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item

from bench.newsroom import HOST, NOW, SECRET, SITE, WINDOW, Story, spread
from bench.wiring import TEMPLATE
from stoppress.aws.codec import to_attribute
from stoppress.aws.items import (
    article_item,
    claim_item,
    general_item,
    indexes_item,
    mark_item,
    news_item,
    series_files,
    series_item,
    story_item,
)
from stoppress.aws.queues import RewriteRequest
from stoppress.cms.contract import read_delivery
from stoppress.model.article import Known
from stoppress.model.entries import Mark
from stoppress.model.file_names import INDEX_FILE, NEWS_FILE, Place, Series, Used, Want, entries_max_of
from stoppress.model.index_ranges import CUT_WAITS, INDEX_FILES_MAX, ONE_INDEX, Indexes
from stoppress.model.news_window import is_current
from stoppress.model.site import Site, read_site
from stoppress.record.decide import decide
from stoppress_cli.local import local_queues
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION

SHARD_SIZE = 2_000
SHARDS_A_MONTH = 2
# Of an archive with more indexes. So many that sitemap.xml lists the months after the old articles', and another index those before.
SHARDS_A_MONTH_MAX = 150
# A byte count of a full shard, for the files that nobody touches.
FULL_SHARD_BYTES = 600_000
# Of an article: as long as those of a newsroom that has published a million.
FIRST_NUMBER = 1_000_001
# The month of the articles that are old, and the days before the window in which the open shard was filled.
OLD = datetime(2026, 5, 1, tzinfo=UTC)
OPENED = datetime(2026, 11, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Shape:
    """An archive: its pages, those in the news window, in the open shard, and in the shard of the old articles.

    Where `in_old` is 0 the old articles are in the open shard. All other pages are in full shards, two a month, or SHARDS_A_MONTH_MAX.
    """

    urls: int
    in_window: int = 300
    in_open: int = SHARD_SIZE // 2
    in_old: int = SHARD_SIZE // 2

    @property
    def others(self) -> int:
        """Return full shards that no measurement touches."""
        return max(0, self.urls - self.in_open - self.in_old) // SHARD_SIZE


def shape(urls: int) -> Shape:
    """Return the archive of that many pages that the cost of an event is measured at."""
    if urls == 0:
        return Shape(0, 0, 0, 0)
    return Shape(urls) if urls > SHARD_SIZE else Shape(urls, in_open=urls, in_old=0)


@dataclass(frozen=True, slots=True)
class Archive:
    """A stack with an archive in it: the articles of the window and the old ones, each in the order of publication."""

    stack: Stack
    window: list[Story]
    old: list[Story]


@contextmanager
def newsroom(start: datetime = NOW, site: Mapping[str, Any] = SITE, **switched_on: str) -> Iterator[Stack]:
    """Yield the stack of a newsroom that has not published anything: its files are written.

    `switched_on` are parameters of the template, such as Listing="yes".
    """
    with Stack(
        TEMPLATE,
        {"Engines": "no", "Listing": "no"} | switched_on,
        start=start - timedelta(minutes=10),
    ) as stack:
        stack.client("secretsmanager").create_secret(
            Name=f"{stack.variable('SECRETS_PATH')}/webhooks/{HOST}/newsroom", SecretString=SECRET
        )
        stack.put_site(HOST, json.dumps(site))
        for minutes in (8, 5, 2):
            stack.advance(start - timedelta(minutes=minutes), every_schedule=True)
        stack.advance(start)
        yield stack


@contextmanager
def archive(wanted: Shape, start: datetime = NOW) -> Iterator[Archive]:
    """Yield the stack of a newsroom with that archive, at rest."""
    with newsroom(start) as stack:
        window, old = fill(stack, wanted, start)
        yield Archive(stack, window, old)


def stories(wanted: Shape, start: datetime = NOW) -> tuple[list[Story], list[Story]]:
    """Return all articles of an archive that are really there, in the order of publication: old ones, and those in the window."""
    before = wanted.in_open - wanted.in_window
    old = [*spread(wanted.in_old, OLD, OLD + timedelta(days=28)),
           *spread(before, OPENED, start - WINDOW - timedelta(hours=1))]  # fmt: skip
    # Nothing expires while it is measured: that would have warmed what is to be met cold.
    window = spread(wanted.in_window, start - WINDOW + timedelta(hours=1), start - timedelta(minutes=5))
    numbered = [Story(number, date) for number, date in enumerate([*old, *window], start=FIRST_NUMBER)]
    return numbered[: len(old)], numbered[len(old) :]


def fill(stack: Stack, wanted: Shape, start: datetime = NOW) -> tuple[list[Story], list[Story]]:
    """Put an archive into a stack and let its files be written; the stories in the window, and the old ones."""
    site = read_site(json.dumps(SITE), 1)
    old, window = stories(wanted, start)
    others = list(_others(site, wanted.others))
    indexes = _indexes([item["sk"] for item in others if "digest" in item], start)
    put(stack, [*items_of([*old, *window], site, start), *others])
    if indexes.cuts:
        put(stack, [indexes_item(site.host, indexes) | {"rev": 1}])
    old_file = f"sitemap-{OLD:%Y-%m}.xml"
    touched = {NEWS_FILE: wanted.in_window, old_file: wanted.in_old, "sitemap-2026-11.xml": wanted.in_open}
    for file in [*(name for name, entries in touched.items() if entries), indexes.index_of(old_file), INDEX_FILE]:
        local_queues.send(stack.resources["RewritesQueue"].arn, RewriteRequest(HOST, file).message())
        stack.rest()
    return window, old[: wanted.in_old] or old


def items_of(stories: Iterable[Story], site: Site, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield what recording leaves of articles that were published one by one, and of the series that have their places."""
    known: dict[str, Series] = {}

    def place(want: Want | None) -> Place | None:
        if want is None:
            return None
        series = known.get(want.series, Series(want.series))
        known[want.series], [found] = series.reserve([want], entries_max_of(want.series, site.shards.size))
        return found

    for story in stories:
        at = story.published
        event, _ = read_delivery(story.delivery("published", at), site, "cms", at, delivery=story.message_id(at))
        decision = decide(event, Known(), site, at)
        decision = decision.with_places(place(decision.want_shard), place(decision.want_news))
        article = decision.article
        assert article
        assert article.shard
        assert article.news
        assert article.url
        assert decision.general
        assert decision.news
        yield article_item(article) | {"rev": 1}
        yield from (claim_item(claim) | {"rev": 1} for claim in decision.claims)
        yield general_item(site.host, article.shard.file, decision.general)
        if is_current(decision.news.published, now):
            yield news_item(site.host, article.news, decision.news)
        else:
            known[article.news.series] = known[article.news.series].give_back([article.news])
        yield story_item(event, article.url, decision.outcome, decision.reason, at)
    yield from (series_item(site.host, series) | {"rev": series.files[0].entries} for series in known.values())


def _indexes(files: list[str], now: datetime) -> Indexes:
    """Return the indexes of an archive at rest: all cuts are in force."""
    indexes = ONE_INDEX.split(INDEX_FILE, files, now - CUT_WAITS, is_named=True)
    for index in indexes.files:
        indexes = indexes.with_due(index, now)
    return indexes


def _others(site: Site, shards: int) -> Iterator[dict[str, Any]]:
    """Yield series and marks of full shards, back from the month before the old articles'; if there are many, from that before the open shard."""
    is_many = shards > INDEX_FILES_MAX
    first, a_month = (OPENED, SHARDS_A_MONTH_MAX) if is_many else (OLD, SHARDS_A_MONTH)
    year, month = first.year, first.month
    full = Used(SHARD_SIZE, FULL_SHARD_BYTES)
    for left in range(shards, 0, -a_month):
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
        if (year, month) == (OLD.year, OLD.month):
            month -= 1
        series = Series(f"{year}-{month:02}", (full,) * min(left, a_month))
        yield series_item(site.host, series) | {"rev": 1}
        for file in series_files(series):
            changed = datetime(year, month, 28, 17, 31, 5, 123456, tzinfo=UTC)
            digest = hashlib.sha256(file.encode()).hexdigest()[:32]
            yield mark_item(site.host, Mark(file, changed, SHARD_SIZE, FULL_SHARD_BYTES, digest))


def put(stack: Stack, items: Iterable[Mapping[str, Any]]) -> None:
    """Lay items into the stack's table as if they had long been there: the stream has no record of them."""
    written = [{name: to_attribute(value) for name, value in item.items()} for item in items]
    table = dynamodb_backends[ACCOUNT][REGION].get_table(stack.variable("TABLE_NAME"))
    for attributes in written:
        pk, sk = DynamoType(attributes["pk"]), DynamoType(attributes["sk"])
        table.items[pk][sk] = Item(pk, sk, attributes)
