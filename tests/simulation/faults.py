"""Faults planted in the product, each with a seed that catches it: other functions stand in for the product's own.

The recorded seed catches the fault fast. Another call of AWS in the product moves the weather to other calls, and
then another seed catches it: test_planted_in_the_product.py tries the seeds of `--seeds` as well, and prints the new one.
Where a function is gone, plant the fault where its work is done now.
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import bucket, queues, table
from stoppress.model.article import Decision
from stoppress.model.entries import Traits
from stoppress.model.event import CLOCK_SKEW_MAX, CMS_RANK, order_of
from stoppress.model.file_names import INDEX_FILE, NEWS_SERIES, series_of
from stoppress.model.order import BURST
from stoppress.model.site import FEED_SOURCE
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import identity
from stoppress.record import decide
from tests.simulation.swaps import Swap, With, unless

FAULTS: dict[str, Swap] = {
    # ── recording ──
    "an item is made whatever is there": Swap(
        "aws.table:_as_read",
        lambda as_read: (
            lambda rev: ("attribute_not_exists(pk) OR attribute_exists(pk)", None) if rev is None else as_read(rev)
        ),
        103,
    ),
    "the article is written apart from its entries": Swap(
        "aws.table:transact",
        lambda transact: lambda operations: [transact([operation]) for operation in operations],
        20,
    ),
    "an error while writing is swallowed": Swap(
        "record.transaction:write_decision",
        lambda write: lambda *of: unless(write, (ClientError, BotoCoreError, TimeoutError), *of),
        34,
    ),
    "a conflict is taken for success": Swap(
        "aws.table:transact", lambda transact: lambda operations: unless(transact, table.Conflict, operations), 66
    ),
    "keys that DynamoDB left unread are forgotten": Swap(
        "aws.table:_table", lambda table: lambda: With(table(), batch_get_item=_all_read(table())), 65
    ),
    "places are handed out and not counted": Swap(
        "aws.table:update", lambda _: lambda key, change, *, always_writes=False: change(table.get(*key)), 1
    ),
    "messages that failed are not reported": Swap(
        "record.article:record",
        lambda record: (
            lambda messages, now, deadline: {
                id_: replace(outcome, error=None) for id_, outcome in record(messages, now, deadline).items()
            }
        ),
        12,
    ),
    # ── deciding ──
    "what is late is taken for new": Swap("record.decide:late", lambda _: _decided_as_if_new, 20),
    "a removal of what was never received leaves no tombstone": Swap(
        "record.decide:decide",
        lambda decide: (
            lambda event, known, site, now: (
                Decision(outcome="late")
                if event.action == "remove" and event.id and not known.article
                else decide(event, known, site, now)
            )
        ),
        6,
    ),
    "a late removal takes out another's page": Swap(
        "record.claims:removed",
        lambda removed: (
            lambda event, current, known, now: removed(event, current, _with_its_claim(known, current), now)
        ),
        9,
    ),
    "a removal leaves the news entry": Swap(
        "model.article:Article.list_entries",
        lambda entries: (
            lambda article, now, keeps=False: [
                key for key in entries(article, now, keeps=keeps) if keeps or not key.published
            ]
        ),
        1,
    ),
    "a URL that was left stays claimed": Swap(
        "record.publication:Publication._leaving",
        lambda leaving: lambda self, decision: _without_claims_left(leaving(self, decision), decision),
        7,
    ),
    "the older of two articles keeps the URL": Swap(
        "model.order:is_claimed_before", lambda _: lambda one, other, same_source: True, 3
    ),
    "a late event does not date the article": Swap(
        "record.publication_date:with_late_date", lambda _: lambda article, event, now: None, 266
    ),
    "a late event takes the place of the one that is held": Swap(
        "record.decide:decide",
        lambda decide: (
            lambda event, known, site, now: _held_whatever_it_is(decide(event, known, site, now), event, known)
        ),
        20,
    ),
    "the feed is believed as much as the CMS": Swap(
        "model.event:rank_of", lambda rank_of: lambda source: CMS_RANK if source == FEED_SOURCE else rank_of(source), 4
    ),
    # ── order ──
    "a timestamp counts as the moment it was received where it is ahead": Swap(
        "model.event:order_of", lambda order_of: lambda event: _clamped(order_of(event)), 22
    ),
    "clocks that are ahead are compared with clocks that are right": Swap(
        "model.order:_by_instant", lambda _: lambda one, other: (one[0] > other[0]) - (one[0] < other[0]), 145
    ),
    "the change date is taken for the timestamp": Swap(
        "model.event:order_of",
        lambda order_of: lambda event: order_of(replace(event, timestamp=event.updated_at or event.timestamp)),
        2,
    ),
    "versions are ignored": Swap("model.order:_by_version", lambda _: lambda one, other: 0, 54),
    "a tie is won by the publication": Swap(
        "model.order:_compare",
        lambda compared: lambda one, other: -compared(one, other) if _is_tie(one, other) else compared(one, other),
        10,
    ),
    "a tie is won by the removal even in a burst": Swap("model.order:BURST", lambda _: timedelta(), 82),
    "a repeat is not known by its content": Swap(
        "model.event:names_of",
        lambda names_of: lambda event, digest: names_of(event, digest)[-1:] if event.delivery else (),
        87,
    ),
    "a repeat is not known by its delivery id": Swap(
        "model.event:names_of",
        lambda names_of: lambda event, digest: names_of(replace(event, delivery=None), digest),
        213,
    ),
    "a delivery that came late is not remembered": Swap(
        "record.decide:late", lambda late: lambda event, known, *of: _forgetful(late(event, known, *of), known), 93
    ),
    # ── claims ──
    "a removal by URL alone is ignored": Swap("record.claims:aimed_at", lambda _: lambda event, copies: None, 11),
    "the CMS cannot remove the page of a feed": Swap(
        "record.claims:with_weaker_page_removed", lambda _: lambda decision, *_of: decision, 11
    ),
    "who was displaced never comes back": Swap(
        "record.claims:leave", lambda leave: lambda *of: (leave(*of)[0], ()), 20
    ),
    "a claim outlives its article": Swap(
        "record.claims:leave",
        lambda leave: (
            lambda url, article, known: (
                tuple(known.claims[identity(claim.url)] for claim in leave(url, article, known)[0]),
                leave(url, article, known)[1],
            )
        ),
        20,
    ),
    "an old claim takes the URL from a newer one": Swap(
        "model.order:is_claimed_before", lambda _: lambda order, other, same_source: False, 2
    ),
    "clocks of two sources are compared as they are": Swap(
        "model.order:own_time", lambda _: lambda order: order.timestamp or order.received, 259
    ),
    "a feed brings back a URL that the CMS has left": Swap(
        "record.publication:Publication._stronger_claim",
        lambda stronger: lambda self: "" if self.claim and not self.claim.live else stronger(self),
        8,
    ),
    # ── embargo and first publication ──
    "what is held claims its URL at once": Swap(
        "record.publication:Publication._held",
        lambda held: lambda self, release_at: _claimed_at_once(self, held(self, release_at)),
        12,
    ),
    "an embargo of a few minutes is ignored": Swap(
        "model.exclusion_reasons:is_embargo",
        lambda is_embargo: lambda event, now: is_embargo(event, now) and event.published_at > now + CLOCK_SKEW_MAX,
        6,
    ),
    "an event without a date ends an embargo": Swap(
        "record.publication:Publication._embargo",
        lambda embargo: lambda self: embargo(self) if self.event.published_at else None,
        27,
    ),
    "any later date is the first publication": Swap(
        "record.publication_date:_takes", lambda _: lambda article, event, date, rank, site: True, 18
    ),
    "a mistyped date is never corrected": Swap(
        "record.publication_date:_takes",
        lambda _: lambda article, event, date, rank, site: article.first_published is None,
        19,
    ),
    # ── identity ──
    "each spelling is a page of its own": Swap("primitives.urls:identity", lambda _: lambda url: url, 4),
    "a number is one article in all feeds": Swap("feeds.events:_id_of", lambda _: lambda guid, feed: guid, 5),
    "an id that is used again is the article that was deleted": Swap(
        "record.decide:_current",
        lambda current: lambda event, article, now: article or current(event, article, now),
        35,
    ),
    # ── the clock ──
    "what is due is deleted before it is sent": Swap(
        "aws.table:query",
        lambda query: (
            lambda pk, **only: (
                _deleting(query(pk, **only)) if pk.startswith("due-") and only.get("below") else query(pk, **only)
            )
        ),
        2,
    ),
    "no news sitemap expires": Swap("rewrite.publish:_schedule_expiry", lambda _: lambda attempt, forms: None, 244),
    "an expired entry gives its place back twice": Swap(
        "roll.window:give_back", lambda give_back: lambda places: give_back(2 * list(places)), 106
    ),
    # ── the files ──
    "the ETag is read after the table": Swap(
        "aws.bucket:write",
        lambda write: (
            lambda site, file, *content, replaces, **also: write(
                site, file, *content, replaces=bucket.read(site, file), **also
            )
        ),
        403,
    ),
    "a file that was overtaken is taken for written": Swap(
        "aws.bucket:write",
        lambda write: lambda *of, **also: unless(write, (bucket.Overtaken, ClientError), *of, **also),
        7,
    ),
    "a file that failed is handed over to nobody": Swap(
        "rewrite.sitemaps:hand_over", lambda _: lambda results: None, 51
    ),
    "a file that failed is done": Swap(
        "rewrite.sitemaps:rewrite_all",
        lambda rewrite_all: (
            lambda works, now, deadline: [
                result if result.request.entries else replace(result, error=None)
                for result in rewrite_all(works, now, deadline)
            ]
        ),
        8,
    ),
    "an emptied file is never deleted": Swap(
        "rewrite.publish:schedule_rewrite", lambda _: lambda site, file, release: None, 39
    ),
    "what changed is folded in without being read": Swap(
        "rewrite.file_lines:table", lambda table: With(table, get_many=lambda keys: {}), 1
    ),
    "an edition's articles stand in the site's news sitemap": Swap(
        "model.file_names:news_series", lambda _: lambda site, url: NEWS_SERIES, 27
    ),
    "what an edition lists never expires": Swap(
        "rewrite.publish:_schedule_expiry",
        lambda schedule: (
            lambda attempt, forms: schedule(attempt, forms) if series_of(attempt.file) == NEWS_SERIES else None
        ),
        253,
    ),
    "a site's URLs are all under https": Swap("sitemaps.tags:under_scheme", lambda _: lambda loc, site: loc, 14),
    "the traits of a page are lost": Swap(
        "model.entries:excluding_rule",
        lambda excluding: lambda rules, target, url, traits: excluding(rules, target, url, Traits()),
        1,
    ),
    "what the nightly comparison finds stays": Swap(
        "reconcile.sites:repair", lambda _: lambda site, findings, now: None, 20
    ),
    "a removed site's file is written late and stays": Swap(
        "rewrite.sitemaps:_rewrite_of_removed", lambda _: lambda request: "ignored", 253
    ),
    "a robots.txt that is not kept any more stays": Swap(
        "rewrite.sitemaps:all_files", lambda all_files: lambda site, **_: all_files(site), 19
    ),
    "a version that cannot be read is not reported": Swap(
        "aws.sites:load_all", lambda load_all: lambda *of: (load_all(*of)[0], []), 14
    ),
    "a changed site's files are not rewritten": Swap(
        "rewrite.sitemaps:queues", lambda queues: With(queues, send_rewrites=lambda *_of, **_how: None), 1
    ),
    # ── what comes in ──
    "messages that a queue did not take are forgotten": Swap(
        "aws.queues:send",
        lambda send: (
            lambda url, messages, delay_seconds=0: [
                unless(send, (queues.SendError, ClientError), url, batch, delay_seconds)
                for batch in queues._batches(messages)
            ]
        ),
        69,
    ),
    "a webhook is acknowledged although the queue failed": Swap(
        "receive.webhook:queues",
        lambda queues: With(queues, send_articles=lambda events: unless(queues.send_articles, Exception, events)),
        69,
    ),
    "only the first new entry of a feed is sent": Swap(
        "poll.ingest:queues",
        lambda queues: With(queues, send_articles=lambda events: queues.send_articles(events[:1])),
        11,
    ),
    "what cannot be read is dropped": Swap(
        "aws.table:put_if",
        lambda put_if: lambda item, *of: None if item["pk"].startswith("quarantine#") else put_if(item, *of),
        3,
    ),
    "an item is written whatever was read": Swap(
        "aws.table:_as_read",
        lambda as_read: lambda rev: as_read(rev) if rev is None else ("attribute_exists(pk)", None),
        146,
    ),
    "packed files go before the index that names them": Swap(
        "rewrite.output_formats:delete_forms", lambda _: _taken_away, 21
    ),
    "forms that no mark tells of stay": Swap("rewrite.output_formats:possible_forms", lambda _: lambda file: set(), 19),
    "of several changed entries one is folded in": Swap(
        "rewrite.file_lines:fold",
        lambda fold: (
            lambda attempt: fold(
                replace(
                    attempt,
                    request=replace(
                        attempt.request,
                        entries=attempt.request.entries and frozenset(sorted(attempt.request.entries)[:1]),
                    ),
                )
            )
        ),
        11,
    ),
    "a file is folded into whatever its size": Swap(
        "sitemaps.fold:render", lambda render: With(render, is_within_limits=lambda file, entries_max: True), 31
    ),
    # ── explain ──
    "a rule is no reason": Swap("show.reasons:_rule_reasons", lambda _: lambda *_of: iter(()), 1),
    "the news sitemaps are not read": Swap(
        "show.read_story:candidates",
        lambda _: lambda facts: [article.shard.file for article in facts.articles if article.shard],
        1,
    ),
    "a held article is waited for whose URL was removed": Swap(
        "show.reasons:_is_outclaimed", lambda _: lambda _article, _claim: False, 235
    ),
}


def _clamped(order: Any) -> Any:
    return replace(order, timestamp=order.timestamp and min(order.timestamp, order.received))


def _taken_away(site: Any, file: Any, forms: Any, served: Any = None) -> None:
    if forms and bucket.read(site.host, INDEX_FILE):
        for name, stored in sorted(forms.items()):
            bucket.delete(site.host, name, stored)


def _all_read(client: Any) -> Any:
    return lambda **of: client.batch_get_item(**of) | {"UnprocessedKeys": {}}


def _deleting(items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        table.delete(item["pk"], item["sk"])
        yield item


def _is_tie(one: Any, other: Any) -> bool:
    """Whether a publication and a removal have the same timestamp, no version tells, and they were not received in a burst."""
    same_version = one.version == other.version or type(one.version) is not type(other.version)
    same = same_version and one.timestamp is not None and one.timestamp == other.timestamp
    apart = abs(parse(one.received) - parse(other.received))
    return same and bool(one.removal) != bool(other.removal) and not timedelta() < apart <= BURST


def _decided_as_if_new(event: Any, known: Any, site: Any, now: Any) -> Decision:
    article = replace(known.article, order=order_of(event))
    return decide.decide(event, replace(known, article=article), site, now)


def _forgetful(decision: Decision, known: Any) -> Decision:
    """A decision that leaves the remembered deliveries of the article as they were."""
    article = decision.article and replace(decision.article, deliveries=known.article.deliveries)
    return replace(decision, article=article)


def _with_its_claim(known: Any, article: Any) -> Any:
    """What is known, if the article had the claim on the URL that it knows as its own."""
    page = identity(article.url or "")
    if page not in known.claims:
        return known
    claim = replace(known.claims[page], owner=article.name, live=True)
    return replace(known, claims={**known.claims, page: claim})


def _without_claims_left(after: Decision, before: Decision) -> Decision:
    return replace(after, claims=tuple(claim for claim in after.claims if claim.live or claim in before.claims))


def _held_whatever_it_is(decision: Decision, event: Any, known: Any) -> Decision:
    changed = (article for article in (decision.article, *decision.displaced) if article)
    after = next((article for article in changed if article.name == event.name), known.article)
    return replace(decision, held=after.release_at if after else None)


def _claimed_at_once(publication: Any, decision: Any) -> Decision:
    claimed: Decision = publication._with_claim(decision.article)
    return replace(claimed, outcome="held", reason=decision.reason)
