"""The cost of one event in calls and units. The numbers do not depend on the machine, only on the code.

`make bench` measures the same for archives of all sizes, with CPU and time.
"""

from collections import Counter
from dataclasses import dataclass
from datetime import timedelta

import pytest

from bench import archive as archives, cost, options
from bench.cost import Cost
from bench.measuring import measuring
from bench.newsroom import NOW
from stoppress.aws import secrets

pytestmark = pytest.mark.moto


@dataclass(frozen=True)
class Price:
    """The cost of an event at 1,000 pages and at a million: calls to AWS by operation, write and read units, invocations."""

    calls: str
    write_units: float
    read_units: dict[int, float]
    invocations: int = 4


# 300 articles in the window, the shard half full, the secret not in memory. Two functions read the site's `current` first,
# and `rewrite_sitemaps` after its last write. A move writes the story of both URLs. An edited or removed old page is in its shard alone.
# Expired entries are in the batch of the minute's heartbeat, which an idle minute also has.
PRICES = {
    "new": Price("GetItem 8, BatchGetItem 4, PutItem 4, TransactWriteItems 1, BatchWriteItem 1, GetObject 3, PutObject 3, PutEvents 3, SendMessageBatch 1, GetSecretValue 1", 13, {1_000: 11, 1_000_000: 12}),
    "edit_fresh": Price("GetItem 6, BatchGetItem 4, PutItem 2, TransactWriteItems 1, BatchWriteItem 1, GetObject 3, PutObject 3, PutEvents 3, SendMessageBatch 1, GetSecretValue 1", 11, {1_000: 10}),
    "edit_old": Price("GetItem 5, BatchGetItem 3, PutItem 1, TransactWriteItems 1, BatchWriteItem 1, GetObject 2, PutObject 2, PutEvents 2, SendMessageBatch 1, GetSecretValue 1", 8, {1_000: 8, 1_000_000: 8}),
    "slug_change": Price("GetItem 7, BatchGetItem 5, PutItem 3, TransactWriteItems 1, BatchWriteItem 1, GetObject 3, PutObject 3, PutEvents 3, SendMessageBatch 1, GetSecretValue 1", 19, {1_000: 13.5}),
    "removal": Price("GetItem 7, BatchGetItem 5, PutItem 2, TransactWriteItems 2, BatchWriteItem 1, GetObject 3, PutObject 3, PutEvents 3, SendMessageBatch 1, GetSecretValue 1, Query 1", 14, {1_000: 11.5, 1_000_000: 12.5}),
    "expiry": Price("GetItem 4, BatchGetItem 2, Query 2, PutItem 2, DeleteItem 2, TransactWriteItems 1, GetObject 2, PutObject 2, PutEvents 2", 6, {1_000: 8}, invocations=1),
}  # fmt: skip


SMALL = 1_000
# Three events at a million pages: only the index differs there, and all events rewrite it.
MEASURED = [(1_000, event) for event in cost.EVENTS] + [(1_000_000, event) for event in ("new", "edit_old", "removal")]


@pytest.fixture(scope="module")
def costs() -> dict[tuple[int, str], Cost]:
    measured: dict[tuple[int, str], Cost] = {}
    for urls in sorted({urls for urls, _ in MEASURED}):
        with archives.archive(archives.shape(urls)) as archive:
            by_event = cost.measure_events(archive, events=[event for size, event in MEASURED if size == urls])
            measured |= {(urls, event): cost for event, cost in by_event.items()}
    return measured


@pytest.mark.parametrize(("urls", "event"), MEASURED)
def test_an_event_costs_exactly_these_calls_and_units(
    urls: int, event: str, costs: dict[tuple[int, str], Cost]
) -> None:
    counted, price = costs[urls, event].counted, PRICES[event]
    calls = Counter({name.rpartition(".")[2]: number for name, number in counted.calls.items()})

    expected = Counter({name: int(number) for name, number in map(str.split, price.calls.split(", "))})
    if urls == SMALL:  # a short index is read as a whole
        expected += Counter(BatchGetItem=-1, Query=1)
    assert calls == +expected
    assert counted.write_units == price.write_units
    assert counted.read_units == price.read_units[urls]
    assert sum(counted.invocations.values()) == price.invocations


# By number of alternates: write and read units of a new article whose versions exist, of an edit, of its removal, and of the minute
# afterwards, in which its versions are recorded again.
VERSIONS = {
    0: [(14, 11), (11, 10), (14, 11.5), (1, 2)],
    3: [(20, 14), (11, 13), (24, 14.5), (33, 33.5)],
    10: [(60, 21), (17, 20), (64, 21.5), (156, 160)],
}


@pytest.mark.parametrize("number", VERSIONS)
def test_an_alternate_costs_these_units(number: int) -> None:
    with archives.newsroom() as stack:
        cost.warm(stack)
        stories = [cost.new_story(NOW + timedelta(seconds=number)) for number in range((number or 1) + 1)]
        codes = dict(zip(("en", "fr", "de", "es", "it", "nl", "pl", "pt", "sv", "da", "fi"), stories, strict=False))
        alternates = {code: story.url() for code, story in codes.items()} if number else {}
        counted = []
        for code, kind in [*((code, "published") for code in reversed(codes)), ("en", "updated"), ("en", "deleted")]:
            at = stack.clock.now() + cost.APART
            stack.advance(at)
            secrets.forget()
            with measuring(stack) as units:
                fields = {
                    "language": code,
                    "alternates": alternates,
                    "title": f"It was {kind}",
                    "images": [],
                    "keywords": [],
                }
                cost._post(stack, codes[code], at, codes[code].delivery(kind, at, updated=at, **fields))
            counted.append(units)
        with measuring(stack) as units:
            stack.advance(stack.clock.now() + cost.APART, every_schedule=True)
        costs = [(units.write_units, units.read_units) for units in [*counted[-3:], units]]
        assert costs == VERSIONS[number]


def test_an_audit_that_finds_nothing_reads_each_story_once_and_writes_its_state() -> None:
    audit = options.play_audit(stories=120)
    assert audit.invocations == {"AuditSources": 1}
    # Queries: sites, places, the news sitemap. Batches: the source's state, two of articles, two of claims.
    assert audit.calls == {"dynamodb.Query": 3, "dynamodb.BatchGetItem": 5, "dynamodb.PutItem": 1}
    assert (audit.read_units, audit.write_units) == (5.5 + 120 * 1.5, 1)


def test_an_import_in_order_costs_a_transaction_an_article_and_a_shard_a_hundred() -> None:
    used = options.play_import(200)
    assert used.calls["dynamodb.TransactWriteItems"] == 200
    # A page of an import has 100 articles. SQS sends, receives or deletes 10 messages per request.
    assert used.sqs_requests == 3 * 20
    assert used.invocations["RecordArticle"] == 2
    assert used.puts <= 2 * 2  # the shard, and the index at its first change
    assert 6 < used.write_units / 200 < 8
