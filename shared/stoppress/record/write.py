"""Write what one event changes, in one transaction."""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime

from stoppress.aws import due, items, table
from stoppress.aws.table import Delete, Put
from stoppress.model.article import Decision
from stoppress.model.event import ArticleEvent, to_message
from stoppress.model.places import Place


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
    # What a page leaves behind in its shard: a hash of its URL, so that the other pages no longer list it as an alternate.
    departed = [items.entry_key(host, entry) for entry in decision.departed]
    puts += [Put({"pk": pk, "sk": sk}, guarded=False) for pk, sk in departed]
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
        puts.append(Put(items.due_item(event.site, release, later.name, message, queue="articles"), guarded=False))
    # Several events may come at one instant. A transaction writes each item once.
    return puts + [due.messages(event.site, release) for release in dict(coming)]


def _deletes(decision: Decision, host: str) -> list[Delete]:
    # A news entry must exist: if roll_window has removed it, its place is free already and must not be given back again.
    deletes = [
        Delete(*items.entry_key(host, entry), must_exist=entry.published is not None)
        for entry in decision.out
        if entry not in decision.departed
    ]
    if decision.no_longer_waits:
        deletes.append(Delete(*items.waiting_key(host, *decision.no_longer_waits)))
    return deletes
