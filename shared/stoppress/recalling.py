"""Recalling: what the table holds of the articles that events are about, in three reads for a whole batch.

For recording. What has to be read next of one article depends on what was read before; the events of a batch ask together.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from stoppress import table
from stoppress.article import ArticleEvent
from stoppress.deciding import is_late, urls_of
from stoppress.records import (
    Item,
    article_key,
    claim_key,
    entry_key,
    read_article,
    read_claim,
    read_general,
    read_news,
)
from stoppress.state import Article, EntryKey, Known

Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """What is known of an event's article? `overtaken`: it was asked before, and then somebody else wrote first."""

    event: ArticleEvent
    host: str
    overtaken: bool


@dataclass(slots=True)
class _Seen:
    """What the table was found to hold, or not to. No key is read twice."""

    items: dict[Key, Item | None] = field(default_factory=dict)

    def read(self, wanted: set[Key]) -> None:
        if new := wanted - self.items.keys():
            self.items.update(dict.fromkeys(new) | table.get_many(sorted(new)))

    def article(self, host: str, name: str) -> Article | None:
        item = self.items[article_key(host, name)]
        return read_article(item) if item else None

    def of(self, key: Key | None) -> Item | None:
        return self.items[key] if key else None


def recall(questions: Iterable[Question]) -> list[Known | Exception]:
    """What the table holds for each event; in place of what could not be understood: why. Raises what the table's door raises.

    At most three reads, and a fourth where somebody else was faster.
    """
    seen = _Seen()
    known: dict[int, Known | Exception] = {}
    asking = {number: _guarded(_asked(one, seen)) for number, one in enumerate(questions)}
    while asking:
        wanted: set[Key] = set()
        for number, asked in list(asking.items()):
            try:
                wanted |= next(asked)
            except StopIteration as end:
                known[number] = end.value
                del asking[number]
        seen.read(wanted)
    return [known[number] for number in sorted(known)]


def _guarded(asked: Generator[set[Key], None, Known]) -> Generator[set[Key], None, Known | Exception]:
    try:
        return (yield from asked)
    except Exception as error:  # noqa: BLE001 - an item of one that is broken keeps no neighbour out
        return error


def _asked(question: Question, seen: _Seen) -> Generator[set[Key], None, Known]:
    """Yields the keys that are to be read; when it goes on they have been seen."""
    event, host = question.event, question.host
    yield {article_key(host, event.name), *(claim_key(host, url) for url in urls_of(event, None))}
    own = seen.article(host, event.name)
    urls = urls_of(event, own)
    yield {claim_key(host, url) for url in urls}
    claims = {url: read_claim(item, url) for url in urls if (item := seen.of(claim_key(host, url)))}
    owners = {claim.owner for claim in claims.values() if claim.live and claim.owner != event.name}
    general_key, news_key = _entry_keys(own) if own and is_late(event, own) else (None, None)
    yield {article_key(host, name) for name in owners} | {key for key in (general_key, news_key) if key}
    general, news = seen.of(general_key), seen.of(news_key)
    others = {name: owner for name in owners if (owner := seen.article(host, name))}
    if question.overtaken:
        news_keys = {one.name: key for one in (own, *others.values()) if one and (key := _entry_keys(one)[1])}
        yield set(news_keys.values())
        # Expired meanwhile, and their places given back.
        gone = {name for name, key in news_keys.items() if not seen.of(key)}
        own = replace(own, news=None) if own and own.name in gone else own
        others = {name: replace(one, news=None) if name in gone else one for name, one in others.items()}
    return Known(
        own,
        claims,
        others,
        read_general(general) if general else None,
        read_news(news) if news else None,
    )


def _entry_keys(article: Article) -> tuple[Key | None, Key | None]:
    """Keys of an article's entries in its shard and in the news, as far as it has any."""
    if not article.url:
        return None, None
    shard, news = article.shard if article.has_entries else None, article.news
    return (
        entry_key(article.site, EntryKey(shard.file, article.url)) if shard else None,
        entry_key(article.site, EntryKey(news.file, article.url, article.first_published)) if news else None,
    )
