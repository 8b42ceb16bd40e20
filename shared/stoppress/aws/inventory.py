"""The contents of a site: its files, the places in them, the entries of its news sitemaps, and their claims and articles."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import items, table
from stoppress.aws.items import (
    INDEXES_SK,
    Item,
    file_pk,
    places_pk,
    read_mark,
    read_news,
    read_series,
    series_files,
    series_item,
)
from stoppress.aws.table import UPDATE_ATTEMPTS_MAX, Conflict, Put, Throttled
from stoppress.model.entries import Mark, NewsEntry
from stoppress.model.file_names import (
    INDEX_FILE,
    NEWS_SERIES,
    ROBOTS_FILE,
    Place,
    Want,
    entries_max_of,
    is_index,
    is_news_series,
    permanent_files,
)
from stoppress.model.index_ranges import Indexes
from stoppress.model.site import Site

if TYPE_CHECKING:
    from stoppress.model.article import Article, Claim


def all_files(site: Site, *, robots: bool = False) -> list[str]:
    """Return every file that the site has or may have, indexes last; with `robots`, robots.txt even if it is not configured."""
    # A shard whose first rewrite failed has no mark yet; only its series counts it.
    series = (item for item in table.query(places_pk(site.host)) if "files" in item)
    reserved = (file for item in series for file in series_files(read_series(item["sk"], item)))
    indexes, marks = read_marks(site.host)
    marked = (mark.file for mark in marks if not is_index(mark.file))
    robots_files = [ROBOTS_FILE] if robots or site.robots is not None else []
    return list(dict.fromkeys([*permanent_files(site), *marked, *reserved, *robots_files, *indexes.files]))


def read_indexes(host: str) -> Indexes:
    return items.read_indexes(table.get(file_pk(host, INDEX_FILE), INDEXES_SK))


def read_marks(host: str, *, consistent: bool = True) -> tuple[Indexes, list[Mark]]:
    """Return the indexes of a site, and the commit marks of all its files; of an index only if it has other forms."""
    stored = list(table.query(file_pk(host, INDEX_FILE), consistent=consistent))
    indexes = next((item for item in stored if item["sk"] == INDEXES_SK), None)
    return items.read_indexes(indexes), [read_mark(item) for item in stored if "digest" in item]


def news_entries(host: str) -> list[NewsEntry]:
    """Return the entries of all news sitemaps of a site: one query for their names, and one for each."""
    series = table.query(places_pk(host), prefix=NEWS_SERIES, consistent=False)
    files = [file for item in series for file in series_files(read_series(item["sk"], item))]
    return [read_news(item) for file in files for item in table.query(file_pk(host, file), consistent=False)]


def read_claims(host: str, urls: Iterable[str], *, consistent: bool = True) -> "dict[str, Claim]":
    """Return the claims on pages of a site, by URL. 100 pages take one call."""
    keys = {url: items.claim_key(host, url) for url in urls}
    stored = table.get_many(keys.values(), consistent=consistent)
    return {url: items.read_claim(stored[key], url) for url, key in keys.items() if key in stored}


def read_articles(host: str, names: Iterable[str], *, consistent: bool = True) -> "dict[str, Article]":
    """Return the articles of a site that exist, by name. 100 articles take one call."""
    keys = {name: items.article_key(host, name) for name in names}
    stored = table.get_many(keys.values(), consistent=consistent)
    return {name: items.read_article(stored[key]) for name, key in keys.items() if key in stored}


def reserve(host: str, name: str, wants: Sequence[Want], shard_size: int) -> list[Place]:
    """Reserve one place in the series per request; return them in the same order. Raises Conflict."""
    places: list[Place] = []

    def reserve_places(item: Item | None) -> Item:
        series, places[:] = read_series(name, item).reserve(wants, entries_max_of(name, shard_size))
        return series_item(host, series)

    table.update((places_pk(host), name), reserve_places, always_writes=True)
    return places


def give_back(places: Iterable[tuple[str, Place]]) -> None:
    """Free places in the news sitemaps, each with its host. Places in shards are permanent, so they are left out.

    On failure the count stays too high, never too low, and reconcile_sites recounts. So errors are ignored here.
    """
    by_series: dict[tuple[str, str], list[Place]] = defaultdict(list)
    for host, place in places:
        if is_news_series(place.series):
            by_series[host, place.series].append(place)
    for (host, name), freed in by_series.items():
        with suppress(ClientError, BotoCoreError, Throttled):
            for _ in range(UPDATE_ATTEMPTS_MAX):
                series = read_series(name, table.get(places_pk(host), name)).give_back(freed)
                # A transaction has a token that makes botocore's retries idempotent. A put whose answer is lost is sent again and
                # conflicts with itself; the places would then be freed twice.
                with suppress(Conflict):
                    table.transact([Put(series_item(host, series), series.rev)])
                    break
