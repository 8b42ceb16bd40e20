"""Read from the table what the decisions about a batch of events need, mostly in three reads for the whole batch.

What to read next for an event depends on what was read before. So each event is a generator of keys, and each round reads the
keys of all events together.
"""

from collections.abc import Generator, Iterable
from dataclasses import dataclass, field, replace
from typing import TypeAlias

from stoppress.aws import items, table
from stoppress.model.article import Article, Claim, Entries, Known
from stoppress.model.event import ArticleEvent, from_message, rank_of
from stoppress.primitives.urls import identity
from stoppress.record.claims import aimed_at, copies_of, urls_of
from stoppress.record.entry_keys import entry_keys_of
from stoppress.record.late import is_late

Key: TypeAlias = tuple[str, str]


@dataclass(frozen=True, slots=True)
class Question:
    """An event to recall. `overtaken`: the event was recalled before, and then another writer was faster."""

    event: ArticleEvent
    host: str
    overtaken: bool


@dataclass(slots=True)
class _Seen:
    """Items by key, None for a key without an item. No key is read twice."""

    by_key: dict[Key, items.Item | None] = field(default_factory=dict)

    def read(self, wanted: set[Key]) -> None:
        if new := wanted - self.by_key.keys():
            self.by_key.update(dict.fromkeys(new) | table.get_many(sorted(new)))

    def article(self, host: str, name: str) -> Article | None:
        item = self.by_key[items.article_key(host, name)]
        return items.read_article(item) if item else None

    def of(self, key: Key | None) -> items.Item | None:
        return self.by_key[key] if key else None

    def events(self, keys: dict[str, Key]) -> dict[str, ArticleEvent]:
        """The stored events by the article's name, without those that are not stored."""
        return {name: from_message(item["message"]) for name, key in keys.items() if (item := self.of(key))}


def recall(questions: Iterable[Question]) -> list[Known | Exception]:
    """What the table holds for each event, or the error if an item of the event cannot be read. Raises what `table` raises.

    Most events need at most three reads. Conflicts about a URL and removals by URL need one or two more.
    """
    seen = _Seen()
    known: dict[int, Known | Exception] = {}
    unanswered = {number: _catch_errors(_reads(question, seen)) for number, question in enumerate(questions)}
    while unanswered:
        wanted: set[Key] = set()
        for number, reads in list(unanswered.items()):
            try:
                wanted |= next(reads)
            except StopIteration as end:
                known[number] = end.value
                del unanswered[number]
        seen.read(wanted)
    return [known[number] for number in sorted(known)]


def _catch_errors(reads: Generator[set[Key], None, Known]) -> Generator[set[Key], None, Known | Exception]:
    try:
        return (yield from reads)
    except Exception as error:  # noqa: BLE001 - one article's broken item must not stop the other events
        return error


def _reads(question: Question, seen: _Seen) -> Generator[set[Key], None, Known]:
    """What the table holds for one event. Yields the keys to read next and continues when `seen` has their items."""
    event, host = question.event, question.host
    first = {items.article_key(host, event.name)} if event.id else set()
    yield first | _claim_keys(host, urls_of(event, None))
    own = yield from _read_article(event, host, seen)
    event = replace(event, id=own.id) if own else event
    urls = urls_of(event, own)
    yield _claim_keys(host, urls)
    claims = _claims(host, urls, seen)
    owners = {claim.owner for claim in claims.values() if claim.live} - {event.name}
    waits = _waiting_keys(host, claims, event.name)
    late = [own] if own and is_late(event, own) else []
    due = {
        article.name: (items.due_pk(host), items.due_sk(article.release_at, article.name))
        for article in late
        if article.release_at
    }
    yield {items.article_key(host, name) for name in owners} | {*waits.values(), *due.values()} | _entry_keys(late)
    others = {name: owner for name in sorted(owners) if (owner := seen.article(host, name))}
    listed = late + [owner for owner in others.values() if _may_change(event, owner)]
    yield _entry_keys(listed)
    if question.overtaken:
        others = yield from _without_freed_places(others | ({own.name: own} if own else {}), seen)
        own = others.pop(own.name) if own else None
    entries = {article.name: _read_entries(article, seen) for article in listed}
    return Known(own, claims, others, entries, seen.events(waits), seen.events(due).get(event.name))


def _may_change(event: ArticleEvent, owner: Article) -> bool:
    """Whether a decision needs the entries of the URL's owner.

    A publication may make an owner of equal rank wait for the URL, or date an owner of higher rank that has no date.
    """
    rank = rank_of(event.source)
    is_dated = owner.rank > rank and owner.first_published is None
    return event.action == "publish" and (owner.rank == rank or is_dated)


def _waiting_keys(host: str, claims: dict[str, Claim], name: str) -> dict[str, Key]:
    """Keys of the events that wait for a URL of the article, by the waiting article's name."""
    own = [claim for claim in claims.values() if claim.live and claim.owner == name]
    return {waiting: items.waiting_key(host, claim.url, waiting) for claim in own for waiting in claim.waiting}


def _without_freed_places(articles: dict[str, Article], seen: _Seen) -> Generator[set[Key], None, dict[str, Article]]:
    """The articles by name, without each news place that roll_window freed when it removed the news entry."""
    keys = {
        name: items.entry_key(article.site, entry)
        for name, article in articles.items()
        for entry in entry_keys_of(article)
        if entry.published
    }
    yield set(keys.values())
    freed = {name: replace(articles[name], news=None) for name, key in keys.items() if not seen.of(key)}
    return articles | freed


def _read_article(event: ArticleEvent, host: str, seen: _Seen) -> Generator[set[Key], None, Article | None]:
    """The event's article. For a removal by URL alone: the source's copy at the URL, live or waiting."""
    if event.id:
        return seen.article(host, event.name)
    copies = copies_of(event.source, _claims(host, urls_of(event, None), seen).get(identity(event.url or "")))
    yield {items.article_key(host, name) for name in copies}
    return aimed_at(event, [seen.article(host, name) for name in copies])


def _claim_keys(host: str, urls: list[str]) -> set[Key]:
    return {items.claim_key(host, url) for url in urls}


def _claims(host: str, urls: list[str], seen: _Seen) -> dict[str, Claim]:
    """Return the claims on URLs by the URL's identity."""
    stored = {url: seen.of(items.claim_key(host, url)) for url in urls}
    return {identity(url): items.read_claim(item, url) for url, item in stored.items() if item}


def _entry_keys(articles: Iterable[Article]) -> set[Key]:
    return {items.entry_key(article.site, entry) for article in articles for entry in entry_keys_of(article)}


def _read_entries(article: Article, seen: _Seen) -> Entries:
    general = news = None
    for entry in entry_keys_of(article):
        item = seen.of(items.entry_key(article.site, entry))
        if item and entry.published:
            news = items.read_news(item)
        elif item:
            general = items.read_general(item)
    return Entries(general, news)
