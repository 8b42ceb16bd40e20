"""Read the items that the decisions about a batch of events need, mostly in three reads of the table, and write the decisions.

The keys of an event depend on the items read before. So each round looks up all events in the items read so far, and reads the
missing keys together, until no key is missing. All changes of an event are written in one transaction.
"""

from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from functools import partial
from typing import TypeAlias

from stoppress.aws import due, items, sites, table
from stoppress.aws.table import Delete, Put
from stoppress.model.article import Article, Claim, Decision, Known
from stoppress.model.entries import Alternate, GeneralEntry, NewsEntry
from stoppress.model.event import PREVIOUS_URLS_MAX, ArticleEvent, from_message, order_of, rank_of, to_message
from stoppress.model.file_names import Place
from stoppress.model.site import BadConfiguration, Site
from stoppress.primitives.urls import host_of, identity
from stoppress.record.claims import aimed_at, copies_of, event_again
from stoppress.record.versions import is_version, mutual_hosts

Key: TypeAlias = tuple[str, str]


def recall(events: Iterable[tuple[ArticleEvent, Site, bool]]) -> list[Known | Exception]:
    """Return what the table has for each event, or the error if an item of the event cannot be read. Raises what `table` raises.

    Each event comes with its site, and with True if an earlier attempt had a conflict with another writer.
    Most events need at most three reads. Conflicts about a URL and removals by URL need one or two more. No key is read twice.
    """
    events, stored = list(events), _Items()
    while True:
        results: list[Known | Exception] = []
        for event, site, overtaken in events:
            try:
                results.append(_read_known(event, site, overtaken, stored))
            except Exception as error:  # noqa: BLE001 - an unreadable item must not stop the other events
                results.append(error)
        if not stored.read_missing():
            return results


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

    def event_again(self, article: Article) -> ArticleEvent | None:
        """Return an article's newest event: that of its due record if it is held, else rebuilt from its entries."""
        due = (
            (items.due_pk(article.site), items.due_sk(article.release_at, article.name)) if article.release_at else None
        )
        if due and (event := self.event(due)):
            return event
        claims = self.claims(article.site, [article.url] if article.url else [])
        return event_again(article, *self.entries(article), next(iter(claims.values()), None))

    def entries(self, article: Article) -> tuple[GeneralEntry | None, NewsEntry | None]:
        """Return an article's entries in its shard and in a news sitemap."""
        keys = {bool(entry.published): items.entry_key(article.site, entry) for entry in article.list_stored_entries()}
        general, news = (self.get(keys[is_news]) if is_news in keys else None for is_news in (False, True))
        return items.read_general(general) if general else None, items.read_news(news) if news else None

    def without_freed_place(self, article: Article) -> Article:
        """Return the article without a news place that roll_window freed when it removed the news entry."""
        news = [items.entry_key(article.site, entry) for entry in article.list_stored_entries() if entry.published]
        return article if all(map(self.get, news)) else replace(article, news=None)


def urls_of(event: ArticleEvent, article: Article | None) -> list[str]:
    """Return the URLs whose claims a decision needs: the event's URL, its article's URL, and the first `previous_urls`."""
    urls = [event.url, article.url if article else None]
    if event.action == "publish":
        urls += event.previous_urls[:PREVIOUS_URLS_MAX]
    return list({identity(url): url for url in reversed(urls) if url}.values())[::-1]


def _read_known(event: ArticleEvent, site: Site, overtaken: bool, stored: _Items) -> Known:
    """Return what the table has for one event, in the items read so far."""
    host, own = event.site, _own_article(event, stored)
    event = replace(event, id=own.id) if own else event
    urls = urls_of(event, own)
    claims = stored.claims(host, urls)
    versions = _versions(event, urls, claims, site, stored)
    claims = {page: claim for page, claim in claims.items() if claim.owner}
    owner_names = {claim.owner for claim in claims.values() if claim.live} - {event.name}
    owners = {name: owner for name in sorted(owner_names) if (owner := stored.article(host, name))}
    late = own if own and order_of(event).is_before(own.order) else None
    listed = [*([late] if late else []), *(owner for owner in owners.values() if _may_change(event, owner))]
    again = {article.name: newest for article in listed if (newest := stored.event_again(article))}
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
    return Known(own, claims, owners, again, waiting, versions, _shown_alternates(event, owners, stored))


def _shown_alternates(event: ArticleEvent, owners: Mapping[str, Article], stored: _Items) -> tuple[Alternate, ...]:
    """Return the alternates in the entry of a page that is recorded again."""
    entries = [stored.entries(owner)[0] for owner in owners.values()] if event.action == "again" else []
    return tuple(link for entry in entries if entry for link in entry.alternates)


def _versions(
    event: ArticleEvent, own: Iterable[str], claims: Mapping[str, Claim], site: Site, stored: _Items
) -> dict[str, Claim]:
    """Return the claims on the language versions of an event's page, and of its `own` URLs with these claims, by identity.

    They are read after the event's own claims. So if one of them changes later, either the write of the event's page fails, or the
    page is recorded again.
    """
    if not all(items.claim_key(event.site, url) in stored.by_key for url in own):
        return {}
    urls = [link.href for link in event.alternates]
    urls += [href for claim in claims.values() for href in claim.lists.values()]
    others: list[Site] = []
    for host in set(map(host_of, urls)) & set(site.alternate_hosts):
        with suppress(sites.UnknownSite, BadConfiguration):
            others.append(sites.load(host))
    versions = {page: claim for page, claim in claims.items() if not claim.owner}
    for url in filter(partial(is_version, hosts=mutual_hosts(site, others)), urls):
        unseen = Claim(host_of(url), url)
        versions[identity(url)] = stored.claims(unseen.site, [url]).get(identity(url), unseen)
    return versions


def _own_article(event: ArticleEvent, stored: _Items) -> Article | None:
    """Return the event's article. For a removal by URL alone: the source's copy at the URL, live or waiting."""
    if event.action == "again":
        return None
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
    return event.action == "again" or (event.action == "publish" and (owner.rank == rank or is_dated))


def write_decision(decision: Decision, event: ArticleEvent, reserved: Iterable[Place], now: datetime) -> None:
    """Write a decision about an event in one transaction. Raises Conflict, and then nothing is written.

    `reserved` are the places that were reserved for the event. The transaction deletes the due records that the event settles, so
    that no crash loses a held article.
    """
    host = event.site
    released = [Delete(items.due_pk(host), items.due_sk(release, name)) for release, name in decision.released]
    if decision.article is None and not decision.claims:
        for record in released:  # a newer event has settled them
            table.delete(record.pk, record.sk)
        return
    puts = [*_state_puts(decision, host, reserved), *_event_puts(decision, event, now)]
    deletes = [*_deletes(decision, host), *released]
    if len(puts) == 1 and puts[0].guarded and not deletes:
        table.put(puts[0].item, puts[0].expected_rev)  # costs half as much as a transaction with one item
    else:
        table.transact([*puts, *deletes])


def _state_puts(decision: Decision, host: str, reserved: Iterable[Place]) -> list[Put]:
    """Return the writes of articles, claims and entries."""
    article = decision.article
    puts = [Put(items.article_item(changed), changed.rev) for changed in (article, *decision.displaced) if changed]
    puts += [Put(items.claim_item(claim), claim.rev) for claim in decision.claims]
    if decision.general and article and article.shard:
        puts.append(Put(items.general_item(host, article.shard.file, decision.general), guarded=False))
    if decision.news and article and article.news:
        # roll_window may just have removed the old entry and freed its place. So an entry that keeps its place must exist.
        kept = article.news not in reserved and not any(entry.published and not entry.place for entry in decision.out)
        puts.append(Put(items.news_item(host, article.news, decision.news), guarded=False, must_exist=kept))
    return puts


def _event_puts(decision: Decision, event: ArticleEvent, now: datetime) -> list[Put]:
    """Return the writes of events to be recorded again: at a release, now, or when a URL becomes free."""
    puts = [Put(items.waiting_item(waiting), guarded=False) for waiting in decision.waits]
    coming = [(returning.release or now, returning) for returning in decision.returns]
    if decision.held:
        # An event without a date keeps the embargo of an earlier event, so it takes over that event's date.
        coming.append((decision.held, replace(event, published_at=event.published_at or decision.held)))
    for release, later in coming:
        message = to_message(replace(later, release=release), in_ascii=False)
        puts.append(Put(items.due_item(later.site, release, later.name, message, queue="articles"), guarded=False))
    # Several events may be due at one instant. A transaction writes each item once.
    return puts + [
        due.messages(*due_at) for due_at in dict.fromkeys((later.site, release) for release, later in coming)
    ]


def _deletes(decision: Decision, host: str) -> list[Delete]:
    # A news entry must exist: if roll_window has removed it, its place is free already and must not be returned again.
    deletes = [Delete(*items.entry_key(host, entry), must_exist=entry.published is not None) for entry in decision.out]
    if decision.no_longer_waits:
        deletes.append(Delete(*items.waiting_key(host, *decision.no_longer_waits)))
    return deletes
