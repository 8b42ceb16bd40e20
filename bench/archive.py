"""An archive of up to fifty million pages, of which only the items and files that a measurement touches exist.

The product itself creates them: its decisions and records the articles, its rewriter the files, their marks and the index.
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
# For an archive with several indexes: sitemap.xml lists the months after that of the old articles, and another index those before.
SHARDS_A_MONTH_MAX = 150
# The bytes of a full shard, for files that no measurement touches.
FULL_SHARD_BYTES = 600_000
# The first article's number is as long as in a newsroom that has published a million.
FIRST_NUMBER = 1_000_001
# The month of the old articles, and the start of the period before the window in which the open shard was filled.
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
    def full_shards(self) -> int:
        """Return the number of full shards, which no measurement touches."""
        return max(0, self.urls - self.in_open - self.in_old) // SHARD_SIZE


def shape(urls: int) -> Shape:
    """Return the archive of that many pages for which the cost of an event is measured."""
    if urls == 0:
        return Shape(0, 0, 0, 0)
    return Shape(urls) if urls > SHARD_SIZE else Shape(urls, in_open=urls, in_old=0)


@dataclass(frozen=True, slots=True)
class Archive:
    """A stack that contains an archive, with the articles of the window and the old articles, both in the order of publication."""

    stack: Stack
    window: list[Story]
    old: list[Story]


@contextmanager
def newsroom(start: datetime = NOW, site: Mapping[str, Any] = SITE, **switched_on: str) -> Iterator[Stack]:
    """Yield the stack of a newsroom that has not published anything, after its files are written.

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
def archive(target: Shape, start: datetime = NOW) -> Iterator[Archive]:
    """Yield the stack of a newsroom with that archive, at rest."""
    with newsroom(start) as stack:
        window, old = fill(stack, target, start)
        yield Archive(stack, window, old)


def stories(target: Shape, start: datetime = NOW) -> tuple[list[Story], list[Story]]:
    """Return the articles that exist in an archive, in the order of publication: the old articles, and those in the window."""
    before = target.in_open - target.in_window
    old = [*spread(target.in_old, OLD, OLD + timedelta(days=28)),
           *spread(before, OPENED, start - WINDOW - timedelta(hours=1))]  # fmt: skip
    # No article expires during a measurement, because that would warm what has to be measured cold.
    window = spread(target.in_window, start - WINDOW + timedelta(hours=1), start - timedelta(minutes=5))
    numbered = [Story(number, date) for number, date in enumerate([*old, *window], start=FIRST_NUMBER)]
    return numbered[: len(old)], numbered[len(old) :]


def fill(stack: Stack, target: Shape, start: datetime = NOW) -> tuple[list[Story], list[Story]]:
    """Write an archive's items and files into a stack; return the stories in the window, and the old stories."""
    site = read_site(json.dumps(SITE), 1)
    old, window = stories(target, start)
    shard_items = list(_full_shard_items(site, target.full_shards))
    indexes = _indexes([item["sk"] for item in shard_items if "digest" in item], start)
    put(stack, [*items_of([*old, *window], site, start), *shard_items])
    if indexes.cuts:
        put(stack, [indexes_item(site.host, indexes) | {"rev": 1}])
    old_file = f"sitemap-{OLD:%Y-%m}.xml"
    touched = {NEWS_FILE: target.in_window, old_file: target.in_old, "sitemap-2026-11.xml": target.in_open}
    for file in [*(name for name, entries in touched.items() if entries), indexes.index_of(old_file), INDEX_FILE]:
        local_queues.send(stack.resources["RewritesQueue"].arn, RewriteRequest(HOST, file).message())
        stack.rest()
    return window, old[: target.in_old] or old


def items_of(stories: Iterable[Story], site: Site, now: datetime) -> Iterator[dict[str, Any]]:
    """Yield the items that recording writes for articles published one by one, and the items of their series."""
    all_series: dict[str, Series] = {}

    def place(want: Want | None) -> Place | None:
        if want is None:
            return None
        series = all_series.get(want.series, Series(want.series))
        all_series[want.series], [reserved] = series.reserve([want], entries_max_of(want.series, site.shards.size))
        return reserved

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
            all_series[article.news.series] = all_series[article.news.series].give_back([article.news])
        yield story_item(event, article.url, decision.outcome, decision.reason, at)
    yield from (series_item(site.host, series) | {"rev": series.files[0].entries} for series in all_series.values())


def _indexes(files: list[str], now: datetime) -> Indexes:
    """Return the indexes of an archive at rest: all cuts are in force."""
    indexes = ONE_INDEX.split(INDEX_FILE, files, now - CUT_WAITS, is_named=True)
    for index in indexes.files:
        indexes = indexes.with_due(index, now)
    return indexes


def _full_shard_items(site: Site, shards: int) -> Iterator[dict[str, Any]]:
    """Yield series and marks of full shards, back from the month before the old articles, or before the open shard if there are many."""
    is_many = shards > INDEX_FILES_MAX
    first, per_month = (OPENED, SHARDS_A_MONTH_MAX) if is_many else (OLD, SHARDS_A_MONTH)
    year, month = first.year, first.month
    full = Used(SHARD_SIZE, FULL_SHARD_BYTES)
    for remaining in range(shards, 0, -per_month):
        year, month = (year, month - 1) if month > 1 else (year - 1, 12)
        if (year, month) == (OLD.year, OLD.month):
            month -= 1
        series = Series(f"{year}-{month:02}", (full,) * min(remaining, per_month))
        yield series_item(site.host, series) | {"rev": 1}
        for file in series_files(series):
            changed = datetime(year, month, 28, 17, 31, 5, 123456, tzinfo=UTC)
            digest = hashlib.sha256(file.encode()).hexdigest()[:32]
            yield mark_item(site.host, Mark(file, changed, SHARD_SIZE, FULL_SHARD_BYTES, digest))


def put(stack: Stack, items: Iterable[Mapping[str, Any]]) -> None:
    """Write items directly into the stack's table, without records in its stream."""
    written = [{name: to_attribute(value) for name, value in item.items()} for item in items]
    table = dynamodb_backends[ACCOUNT][REGION].get_table(stack.variable("TABLE_NAME"))
    for attributes in written:
        pk, sk = DynamoType(attributes["pk"]), DynamoType(attributes["sk"])
        table.items[pk][sk] = Item(pk, sk, attributes)
