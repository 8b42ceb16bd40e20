"""Partitions filled by hand, the files rewritten from them, and their announcements: for tests of the rewriter."""

from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import table
from stoppress.aws.items import file_pk, general_item, news_item, read_mark
from stoppress.aws.queues import RewriteRequest
from stoppress.model.entries import GeneralEntry, Mark, NewsEntry
from stoppress.model.file_names import Place
from stoppress.primitives.urls import key_of
from stoppress.rewrite.sitemaps import rewrite
from tests.support.article_events import HOST, MORNING, page
from tests.support.moto_aws import MotoAws

MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
NOON = MORNING + 4 * HOUR
SHARD, NEWS, INDEX = "sitemap-2026-11.xml", "sitemap-news.xml", "sitemap.xml"


def put_page(path: str = "a", lastmod: datetime | None = None, file: str = SHARD) -> None:
    table.put_if(general_item(HOST, file, GeneralEntry(page(path), lastmod)))


def take_page(path: str = "a", file: str = SHARD) -> None:
    item = general_item(HOST, file, GeneralEntry(page(path)))
    table.delete(item["pk"], item["sk"])


def put_news(path: str = "a", published: datetime = MORNING, title: str = "A", number: int = 1) -> None:
    """Put an article into the partition of the n-th news sitemap."""
    table.put_if(news_item(HOST, Place("news", number, 400), NewsEntry(page(path), title, published)))


def key(path: str) -> tuple[str, str]:
    """Return the sort key and URL of a page's entry, as the stream reports them."""
    return key_of(page(path)), page(path)


def shard(now: datetime = NOON, **options: Any) -> str:
    """Rewrite the shard, and return the outcome."""
    return rewrite(RewriteRequest(HOST, SHARD, **options), now).outcome


def mark(file: str = SHARD) -> Mark | None:
    item = table.get(file_pk(HOST, INDEX), file)
    return read_mark(item) if item else None


def announced(aws: MotoAws) -> list[tuple[str, int]]:
    """Return the files that were announced on the bus, with their numbers of URLs."""
    return [(event["detail"]["file"], event["detail"]["urls"]) for event in aws.announced]


def stream(aws: MotoAws) -> dict[str, Any]:
    """Return the stream records since the last call, filtered as in the template."""
    records = [record for record in aws.read_stream() if record["dynamodb"]["Keys"]["pk"]["S"].startswith("file#")]
    return {"Records": records}
