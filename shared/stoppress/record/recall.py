"""Read from the table what the decisions about a batch of events need, mostly in three reads for the whole batch.

What to read next for an event depends on what was read before. So all events are looked up in the items read so far, keys that are
missing are read together, and the events are looked up again, until no key is missing.
"""

from collections.abc import Iterable
from dataclasses import replace
from typing import TypeAlias

from stoppress.aws import items, table
from stoppress.model.article import Article, Claim, Entries, Known
from stoppress.model.event import ArticleEvent, from_message, order_of, rank_of
from stoppress.primitives.urls import identity
from stoppress.record.claims import aimed_at, copies_of, entry_keys_of, urls_of

Key: TypeAlias = tuple[str, str]


def recall(events: Iterable[tuple[ArticleEvent, bool]]) -> list[Known | Exception]:
    """Return what the table holds for each event, or the error if an item of the event cannot be read. Raises what `table` raises.

    An event is overtaken (True) if it was recalled before, and then another writer was faster.
    Most events need at most three reads. Conflicts about a URL and removals by URL need one or two more. No key is read twice.
    """
    events, stored = list(events), _Items()
    while True:
        known = [_recall_event(event, overtaken, stored) for event, overtaken in events]
        if not stored.read_missing():
            return known


class _Items:
    """The items that were read, None for a key without an item, and the keys that were looked up and are not read yet."""

    def __init__(self) -> None:
        self.by_key: dict[Key, items.Item | None] = {}
        self.missing: set[Key] = set()

    def read_missing(self) -> bool:
        """Read the missing keys. Return False if there is none."""
        keys, self.missing = sorted(self.missing), set()
        if keys:
            self.by_key |= dict.fromkeys(keys) | table.get_many(keys)
        return bool(keys)

    def get(self, key: Key) -> items.Item | None:
        if key not in self.by_key:
            self.missing.add(key)
        return self.by_key.get(key)

    def article(self, host: str, name: str) -> Article | None:
        item = self.get(items.article_key(host, name))
        return items.read_article(item) if item else None

    def claims(self, host: str, urls: Iterable[str]) -> dict[str, Claim]:
        """Return the claims on URLs by the URL's identity."""
        stored = {url: self.get(items.claim_key(host, url)) for url in urls}
        return {identity(url): items.read_claim(item, url) for url, item in stored.items() if item}

    def event(self, key: Key) -> ArticleEvent | None:
        item = self.get(key)
        return from_message(item["message"]) if item else None

    def entries(self, article: Article) -> Entries:
        stored = {
            bool(entry.published): self.get(items.entry_key(article.site, entry)) for entry in entry_keys_of(article)
        }
        general, news = stored.get(False), stored.get(True)
        return Entries(items.read_general(general) if general else None, items.read_news(news) if news else None)

    def without_freed_place(self, article: Article) -> Article:
        """Return the article without a news place that roll_window freed when it removed the news entry."""
        news = [items.entry_key(article.site, entry) for entry in entry_keys_of(article) if entry.published]
        return article if all(map(self.get, news)) else replace(article, news=None)


def _recall_event(event: ArticleEvent, overtaken: bool, stored: _Items) -> Known | Exception:
    try:
        return _known(event, overtaken, stored)
    except Exception as error:  # noqa: BLE001 - one article's broken item must not stop the other events
        return error


def _known(event: ArticleEvent, overtaken: bool, stored: _Items) -> Known:
    """Return what the table holds for one event, as far as it was read."""
    host, own = event.site, _own_article(event, stored)
    event = replace(event, id=own.id) if own else event
    claims = stored.claims(host, urls_of(event, own))
    owner_names = {claim.owner for claim in claims.values() if claim.live} - {event.name}
    owners = {name: owner for name in sorted(owner_names) if (owner := stored.article(host, name))}
    late = own if own and order_of(event).is_before(own.order) else None
    listed = [*([late] if late else []), *(owner for owner in owners.values() if _may_change(event, owner))]
    entries = {article.name: stored.entries(article) for article in listed}
    due = (
        stored.event((items.due_pk(host), items.due_sk(late.release_at, late.name)))
        if late and late.release_at
        else None
    )
    waiting = {
        name: waiting_event
        for claim in claims.values()
        if claim.live and claim.owner == event.name
        for name in claim.waiting
        if (waiting_event := stored.event(items.waiting_key(host, claim.url, name)))
    }
    if overtaken:
        owners = {name: stored.without_freed_place(owner) for name, owner in owners.items()}
        own = own and stored.without_freed_place(own)
    return Known(own, claims, owners, entries, waiting, due)


def _own_article(event: ArticleEvent, stored: _Items) -> Article | None:
    """Return the event's article. For a removal by URL alone: the source's copy at the URL, live or waiting."""
    if event.id:
        return stored.article(event.site, event.name)
    claims = stored.claims(event.site, urls_of(event, None))
    copies = [
        stored.article(event.site, name) for name in copies_of(event.source, claims.get(identity(event.url or "")))
    ]
    return aimed_at(event, copies)


def _may_change(event: ArticleEvent, owner: Article) -> bool:
    """Return True if a decision needs the entries of the URL's owner.

    A publication may make an owner of equal rank wait for the URL, or date an owner of higher rank that has no date.
    """
    rank = rank_of(event.source)
    is_dated = owner.rank > rank and owner.first_published is None
    return event.action == "publish" and (owner.rank == rank or is_dated)
