"""Recalling: what the table holds of the articles that events are about, in three reads for a whole batch.

For recording. What has to be read next of one article depends on what was read before; the events of a batch ask together.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from stoppress.aws import table
from stoppress.aws.items import (
    Item,
    article_key,
    claim_key,
    due_sk,
    entry_key,
    old_claim_key,
    read_article,
    read_claim,
    read_general,
    read_news,
    waiting_key,
)
from stoppress.model.article import Article, Claim, Entries, Known
from stoppress.model.event import ArticleEvent, article_name, from_message, rank_of
from stoppress.primitives.urls import identity
from stoppress.record.claims import is_aimed_at, urls_of
from stoppress.record.entry_keys import entry_keys_of
from stoppress.record.late import is_late

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

    At most three reads for most events; conflicts about a URL and removals by URL take one or two more.
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
    first = {article_key(host, event.name)} if event.id else set()
    yield first | _claim_keys(host, urls_of(event, None))
    own = yield from _aimed(event, host, seen)
    event = replace(event, id=own.id) if own else event
    urls = urls_of(event, own)
    yield _claim_keys(host, urls)
    claims = _claims(host, urls, seen)
    owners = {claim.owner for claim in claims.values() if claim.live and claim.owner != event.name}
    waits = {
        name: waiting_key(host, claim.url, name)
        for claim in claims.values()
        if claim.live and claim.owner == event.name
        for name in claim.waiting
    }
    late = [own] if own and is_late(event, own) else []
    due_keys = [(f"due#{host}", due_sk(one.release_at, one.name)) for one in late if one.release_at]
    yield {article_key(host, name) for name in owners} | set(waits.values()) | set(due_keys) | _entries_of(late)
    others = {name: owner for name in owners if (owner := seen.article(host, name))}
    # Read the entries of owners that this event may displace, to restore them later, and of stronger owners without a date,
    # which this event may date.
    rank = rank_of(event.source) if event.action == "publish" else None
    told = [
        one
        for one in others.values()
        if one.rank == rank or (rank is not None and one.rank > rank and one.first_published is None)
    ]
    yield _entries_of(told)
    if question.overtaken:
        news_keys = {one.name: key for one in (own, *others.values()) if one and (key := _news_key(one))}
        yield set(news_keys.values())
        # Expired meanwhile, and their places given back.
        gone = {name for name, key in news_keys.items() if not seen.of(key)}
        own = replace(own, news=None) if own and own.name in gone else own
        others = {name: replace(one, news=None) if name in gone else one for name, one in others.items()}
    return Known(
        own,
        claims,
        others,
        {one.name: _read_entries(one, seen) for one in [*late, *told]},
        {name: from_message(item["message"]) for name, key in waits.items() if (item := seen.of(key))},
        next((from_message(item["message"]) for key in due_keys if (item := seen.of(key))), None),
    )


def _aimed(event: ArticleEvent, host: str, seen: _Seen) -> Generator[set[Key], None, Article | None]:
    """The event's article; of a removal by URL alone the one that the URL's claim names, if the removal means it."""
    if event.id:
        return seen.article(host, event.name)
    claim = _claims(host, urls_of(event, None), seen).get(identity(event.url or ""))
    if claim is None or claim.owner == article_name(claim.source, ""):
        return None
    yield {article_key(host, claim.owner)}
    owner = seen.article(host, claim.owner)
    return owner if is_aimed_at(event, claim, owner) else None


def _claim_keys(host: str, urls: list[str]) -> set[Key]:
    keys = {claim_key(host, url) for url in urls}
    return keys | {key for url in urls if (key := old_claim_key(host, url))}


def _claims(host: str, urls: list[str], seen: _Seen) -> dict[str, Claim]:
    """The claims on URLs, by their identity; those that an earlier version of the stack has left under another key as well."""
    claims = {}
    for url in urls:
        if item := seen.of(claim_key(host, url)):
            claims[identity(url)] = read_claim(item, url)
        elif item := seen.of(old_claim_key(host, url)):
            claims[identity(url)] = read_claim(item, url, is_old_form=True)
    return claims


def _entries_of(articles: Iterable[Article]) -> set[Key]:
    return {entry_key(article.site, entry) for article in articles for entry in entry_keys_of(article)}


def _news_key(article: Article) -> Key | None:
    keys = [entry_key(article.site, entry) for entry in entry_keys_of(article) if entry.published]
    return keys[0] if keys else None


def _read_entries(article: Article, seen: _Seen) -> Entries:
    general = news = None
    for entry in entry_keys_of(article):
        item = seen.of(entry_key(article.site, entry))
        if item and entry.published:
            news = read_news(item)
        elif item:
            general = read_general(item)
    return Entries(general, news)
