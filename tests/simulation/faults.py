"""Faults planted in the product by patching a function, each with a seed whose run fails.

An additional call to AWS shifts the injected faults to other calls, and then another seed fails:
test_planted_in_the_product.py also tries the seeds of `--seeds`, and prints the new seed to record here.
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
from tests.simulation.patches import Patch, Stub, ignore

FAULTS: dict[str, Patch] = {
    # ── recording ──
    "creating an item has no condition": Patch(
        "aws.table:_as_read",
        lambda as_read: (
            lambda rev: ("attribute_not_exists(pk) OR attribute_exists(pk)", None) if rev is None else as_read(rev)
        ),
        103,
    ),
    "article and entries are written in separate transactions": Patch(
        "aws.table:transact",
        lambda transact: lambda operations: [transact([operation]) for operation in operations],
        20,
    ),
    "a write error is ignored": Patch(
        "record.transaction:write_decision",
        lambda write: lambda *of: ignore(write, (ClientError, BotoCoreError, TimeoutError), *of),
        34,
    ),
    "a conflict is ignored": Patch(
        "aws.table:transact", lambda transact: lambda operations: ignore(transact, table.Conflict, operations), 66
    ),
    "unprocessed keys are dropped": Patch(
        "aws.table:_table", lambda table: lambda: Stub(table(), batch_get_item=_without_unprocessed_keys(table())), 486
    ),
    "places in files are not counted": Patch(
        "aws.table:update", lambda _: lambda key, change, *, always_writes=False: change(table.get(*key)), 1
    ),
    "failed messages are not reported": Patch(
        "record.article:record",
        lambda record: (
            lambda messages, now, deadline: {
                id_: replace(outcome, error=None) for id_, outcome in record(messages, now, deadline).items()
            }
        ),
        12,
    ),
    # ── deciding ──
    "a late event is applied as new": Patch("record.decide:late", lambda _: _decide_as_new, 20),
    "a removal before its article writes no tombstone": Patch(
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
    "a late removal removes another article's page": Patch(
        "record.claims:removed",
        lambda removed: lambda event, current, known, now: removed(event, current, _add_own_claim(known, current), now),
        9,
    ),
    "a removal keeps the news entry": Patch(
        "model.article:Article.list_entries",
        lambda entries: (
            lambda article, now, keeps=False: [
                key for key in entries(article, now, keeps=keeps) if keeps or not key.published
            ]
        ),
        1,
    ),
    "a claim is kept after a move": Patch(
        "record.publication:Publication._leaving",
        lambda leaving: lambda self, decision: _drop_dead_claims(leaving(self, decision), decision),
        7,
    ),
    "the older of two claims wins": Patch(
        "model.order:is_claimed_before", lambda _: lambda one, other, same_source: True, 3
    ),
    "a late event does not date the article": Patch(
        "record.publication_date:with_late_date", lambda _: lambda article, event, now: None, 266
    ),
    "a late event replaces a held event": Patch(
        "record.decide:decide",
        lambda decide: lambda event, known, site, now: _hold_always(decide(event, known, site, now), event, known),
        20,
    ),
    "a feed ranks as high as the CMS": Patch(
        "model.event:rank_of", lambda rank_of: lambda source: CMS_RANK if source == FEED_SOURCE else rank_of(source), 4
    ),
    # ── order ──
    "a timestamp ahead is clamped to the time of receipt": Patch(
        "model.event:order_of", lambda order_of: lambda event: _clamp(order_of(event)), 22
    ),
    "timestamps ahead are compared with correct ones": Patch(
        "model.order:_by_instant", lambda _: lambda one, other: (one[0] > other[0]) - (one[0] < other[0]), 145
    ),
    "the change date replaces the timestamp": Patch(
        "model.event:order_of",
        lambda order_of: lambda event: order_of(replace(event, timestamp=event.updated_at or event.timestamp)),
        2,
    ),
    "versions are ignored": Patch("model.order:_by_version", lambda _: lambda one, other: 0, 54),
    "a publication wins a tie": Patch(
        "model.order:_compare",
        lambda compared: lambda one, other: -compared(one, other) if _is_tie(one, other) else compared(one, other),
        10,
    ),
    "a removal wins a tie even in a burst": Patch("model.order:BURST", lambda _: timedelta(), 82),
    "a repeat is not recognised by its content": Patch(
        "model.event:names_of",
        lambda names_of: lambda event, digest: names_of(event, digest)[-1:] if event.delivery else (),
        87,
    ),
    "a repeat is not recognised by its delivery id": Patch(
        "model.event:names_of",
        lambda names_of: lambda event, digest: names_of(replace(event, delivery=None), digest),
        213,
    ),
    "a late delivery is not remembered": Patch(
        "record.decide:late",
        lambda late: lambda event, known, *of: _forget_delivery(late(event, known, *of), known),
        93,
    ),
    # ── claims ──
    "a removal by URL alone is ignored": Patch("record.claims:aimed_at", lambda _: lambda event, copies: None, 11),
    "the CMS cannot remove the page of a feed": Patch(
        "record.claims:with_weaker_page_removed", lambda _: lambda decision, *_of: decision, 11
    ),
    "a displaced article never comes back": Patch(
        "record.claims:leave", lambda leave: lambda *of: (leave(*of)[0], ()), 20
    ),
    "a claim outlives its article": Patch(
        "record.claims:leave",
        lambda leave: (
            lambda url, article, known: (
                tuple(known.claims[identity(claim.url)] for claim in leave(url, article, known)[0]),
                leave(url, article, known)[1],
            )
        ),
        20,
    ),
    "an old claim replaces a newer claim": Patch(
        "model.order:is_claimed_before", lambda _: lambda order, other, same_source: False, 2
    ),
    "clocks of two sources are compared uncorrected": Patch(
        "model.order:own_time", lambda _: lambda order: order.timestamp or order.received, 259
    ),
    "a feed lists a URL that the CMS has moved away from": Patch(
        "record.publication:Publication._stronger_claim",
        lambda stronger: lambda self: "" if self.claim and not self.claim.live else stronger(self),
        8,
    ),
    # ── embargo and first publication ──
    "a held article claims its URL immediately": Patch(
        "record.publication:Publication._held",
        lambda held: lambda self, release_at: _claim_immediately(self, held(self, release_at)),
        12,
    ),
    "an embargo of a few minutes is ignored": Patch(
        "model.exclusion_reasons:is_embargo",
        lambda is_embargo: lambda event, now: is_embargo(event, now) and event.published_at > now + CLOCK_SKEW_MAX,
        6,
    ),
    "an event without a date ends an embargo": Patch(
        "record.publication:Publication._embargo",
        lambda embargo: lambda self: embargo(self) if self.event.published_at else None,
        27,
    ),
    "any later date is the first publication": Patch(
        "record.publication_date:_takes", lambda _: lambda article, event, date, rank, site: True, 18
    ),
    "an incorrect date is never corrected": Patch(
        "record.publication_date:_takes",
        lambda _: lambda article, event, date, rank, site: article.first_published is None,
        19,
    ),
    # ── identity ──
    "each spelling is a separate page": Patch("primitives.urls:identity", lambda _: lambda url: url, 4),
    "a guid is one article in all feeds": Patch("feeds.events:_id_of", lambda _: lambda guid, feed: guid, 5),
    "a reused id continues the deleted article": Patch(
        "record.decide:_current",
        lambda current: lambda event, article, now: article or current(event, article, now),
        35,
    ),
    # ── due work ──
    "a due item is deleted before it is sent": Patch(
        "aws.table:query",
        lambda query: (
            lambda pk, **only: (
                _delete_each(query(pk, **only)) if pk.startswith("due-") and only.get("below") else query(pk, **only)
            )
        ),
        2,
    ),
    "no news sitemap expires": Patch("rewrite.publish:_schedule_expiry", lambda _: lambda attempt, forms: None, 244),
    "the place of an expired entry is released twice": Patch(
        "roll.window:give_back", lambda give_back: lambda places: give_back(2 * list(places)), 106
    ),
    # ── the files ──
    "the ETag is read after the table": Patch(
        "aws.bucket:write",
        lambda write: (
            lambda site, file, *content, replaces, **also: write(
                site, file, *content, replaces=bucket.read(site, file), **also
            )
        ),
        403,
    ),
    "a failed conditional write is ignored": Patch(
        "aws.bucket:write",
        lambda write: lambda *of, **also: ignore(write, (bucket.Overtaken, ClientError), *of, **also),
        7,
    ),
    "a failed file is not handed over": Patch("rewrite.sitemaps:hand_over", lambda _: lambda results: None, 51),
    "a failed file counts as done": Patch(
        "rewrite.sitemaps:rewrite_all",
        lambda rewrite_all: (
            lambda works, now, deadline: [
                result if result.request.entries else replace(result, error=None)
                for result in rewrite_all(works, now, deadline)
            ]
        ),
        8,
    ),
    "an emptied file is never deleted": Patch(
        "rewrite.publish:schedule_rewrite", lambda _: lambda site, file, release: None, 39
    ),
    "changed entries are folded in without being read": Patch(
        "rewrite.file_lines:table", lambda table: Stub(table, get_many=lambda keys: {}), 1
    ),
    "an edition's articles are in the site's news sitemap": Patch(
        "model.file_names:news_series", lambda _: lambda site, url: NEWS_SERIES, 27
    ),
    "an edition's news never expires": Patch(
        "rewrite.publish:_schedule_expiry",
        lambda schedule: (
            lambda attempt, forms: schedule(attempt, forms) if series_of(attempt.file) == NEWS_SERIES else None
        ),
        253,
    ),
    "all URLs of a site are under https": Patch("sitemaps.tags:under_scheme", lambda _: lambda loc, site: loc, 14),
    "the traits of a page are lost": Patch(
        "model.entries:excluding_rule",
        lambda excluding: lambda rules, target, url, traits: excluding(rules, target, url, Traits()),
        1,
    ),
    "the nightly comparison repairs nothing": Patch(
        "reconcile.sites:repair", lambda _: lambda site, findings, now: None, 20
    ),
    "a removed site's file is written late and kept": Patch(
        "rewrite.sitemaps:_rewrite_of_removed", lambda _: lambda request: "ignored", 253
    ),
    "a disabled robots.txt is not deleted": Patch(
        "rewrite.sitemaps:all_files", lambda all_files: lambda site, **_: all_files(site), 19
    ),
    "an unreadable version is not reported": Patch(
        "aws.sites:load_all", lambda load_all: lambda *of: (load_all(*of)[0], []), 14
    ),
    "a changed site's files are not rewritten": Patch(
        "rewrite.sitemaps:queues", lambda queues: Stub(queues, send_rewrites=lambda *_of, **_how: None), 1
    ),
    # ── incoming events ──
    "messages that a queue rejected are dropped": Patch(
        "aws.queues:send",
        lambda send: (
            lambda url, messages, delay_seconds=0: [
                ignore(send, (queues.SendError, ClientError), url, batch, delay_seconds)
                for batch in queues._batches(messages)
            ]
        ),
        69,
    ),
    "a webhook is acknowledged although the queue failed": Patch(
        "receive.webhook:queues",
        lambda queues: Stub(queues, send_articles=lambda events: ignore(queues.send_articles, Exception, events)),
        69,
    ),
    "only the first new entry of a feed is sent": Patch(
        "poll.ingest:queues",
        lambda queues: Stub(queues, send_articles=lambda events: queues.send_articles(events[:1])),
        11,
    ),
    "unreadable messages are dropped": Patch(
        "aws.table:put_if",
        lambda put_if: lambda item, *of: None if item["pk"].startswith("quarantine#") else put_if(item, *of),
        3,
    ),
    "updating an item has no condition": Patch(
        "aws.table:_as_read",
        lambda as_read: lambda rev: as_read(rev) if rev is None else ("attribute_exists(pk)", None),
        146,
    ),
    "gzip files are deleted before the index that lists them": Patch(
        "rewrite.output_formats:delete_forms", lambda _: _delete_forms, 21
    ),
    "forms without a mark are not deleted": Patch(
        "rewrite.output_formats:possible_forms", lambda _: lambda file: set(), 19
    ),
    "only one of several changed entries is folded in": Patch(
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
    "folding ignores the size of a file": Patch(
        "sitemaps.fold:render", lambda render: Stub(render, is_within_limits=lambda file, entries_max: True), 31
    ),
    # ── explain ──
    "rules are not reported as reasons": Patch("show.reasons:_rule_reasons", lambda _: lambda *_of: iter(()), 1),
    "the news sitemaps are not read": Patch(
        "show.read_story:candidates",
        lambda _: lambda facts: [article.shard.file for article in facts.articles if article.shard],
        1,
    ),
    "a held article is reported although its URL was removed": Patch(
        "show.reasons:_is_outclaimed", lambda _: lambda _article, _claim: False, 235
    ),
}


def _clamp(order: Any) -> Any:
    return replace(order, timestamp=order.timestamp and min(order.timestamp, order.received))


def _delete_forms(site: Any, file: Any, forms: Any, served: Any = None) -> None:
    if forms and bucket.read(site.host, INDEX_FILE):
        for name, stored in sorted(forms.items()):
            bucket.delete(site.host, name, stored)


def _without_unprocessed_keys(client: Any) -> Any:
    return lambda **of: client.batch_get_item(**of) | {"UnprocessedKeys": {}}


def _delete_each(items: Iterator[Any]) -> Iterator[Any]:
    for item in items:
        table.delete(item["pk"], item["sk"])
        yield item


def _is_tie(one: Any, other: Any) -> bool:
    """Return True if a publication and a removal have equal timestamps and versions, and were not received in a burst."""
    same_version = one.version == other.version or type(one.version) is not type(other.version)
    same = same_version and one.timestamp is not None and one.timestamp == other.timestamp
    apart = abs(parse(one.received) - parse(other.received))
    return same and bool(one.removal) != bool(other.removal) and not timedelta() < apart <= BURST


def _decide_as_new(event: Any, known: Any, site: Any, now: Any) -> Decision:
    article = replace(known.article, order=order_of(event))
    return decide.decide(event, replace(known, article=article), site, now)


def _forget_delivery(decision: Decision, known: Any) -> Decision:
    """Return the decision with the article's remembered deliveries unchanged."""
    article = decision.article and replace(decision.article, deliveries=known.article.deliveries)
    return replace(decision, article=article)


def _add_own_claim(known: Any, article: Any) -> Any:
    """Return the known state, changed so that the article claims the URL that it stores."""
    page = identity(article.url or "")
    if page not in known.claims:
        return known
    claim = replace(known.claims[page], owner=article.name, live=True)
    return replace(known, claims={**known.claims, page: claim})


def _drop_dead_claims(after: Decision, before: Decision) -> Decision:
    return replace(after, claims=tuple(claim for claim in after.claims if claim.live or claim in before.claims))


def _hold_always(decision: Decision, event: Any, known: Any) -> Decision:
    changed = (article for article in (decision.article, *decision.displaced) if article)
    after = next((article for article in changed if article.name == event.name), known.article)
    return replace(decision, held=after.release_at if after else None)


def _claim_immediately(publication: Any, decision: Any) -> Decision:
    claimed: Decision = publication._with_claim(decision.article)
    return replace(claimed, outcome="held", reason=decision.reason)
