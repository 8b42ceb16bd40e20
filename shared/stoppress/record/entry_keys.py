"""The entries that an article has in files, and the article after they are deleted.

A listed article has one entry in its shard and at most one in a news sitemap. It keeps its place in the shard for life.
The place of a news entry is given back with the entry.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any

from stoppress.model.article import Article, EntryKey
from stoppress.primitives.urls import identity


def entries_of(article: Article, now: datetime, *, keeps: bool = False) -> list[EntryKey]:
    """The entries that an article has in files. With `keeps` the place of its news entry is not given back."""
    if not article.has_entries or not article.url or not article.shard:
        return []
    url = identity(article.url)
    entries = [EntryKey(article.shard.file, url)]
    if article.news and article.is_in_news(now):
        place = None if keeps else article.news
        entries.append(EntryKey(article.news.file, url, article.first_published, place))
    return entries


def entry_keys_of(article: Article) -> list[EntryKey]:
    """Keys of an article's entries, whether or not its news entry has expired."""
    in_news = article.first_published if article.news and article.first_published else None
    return entries_of(article, in_news) if in_news else entries_of(replace(article, news=None), article.received_at)


def displace(article: Article, reason: str, *, keeps_shard: bool) -> Article:
    """The article after another article has taken its URL."""
    shard = article.shard if keeps_shard else None
    return without_entries(article, state="displaced", reason=reason, shard=shard)


def without_entries(article: Article, **changes: Any) -> Article:
    """The article with no entry in any file. It keeps its place in a shard unless `changes` has another `shard`."""
    deleted: dict[str, Any] = {"news": None, "news_reason": "", "release_at": None, "title": "", "publication": None}
    return replace(article, **(deleted | changes))
