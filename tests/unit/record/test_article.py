"""Recording in the table: batches, concurrent writers, crashes and repeated deliveries."""

import json
import random
from collections.abc import Iterable, Iterator
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from stoppress.aws import due, refusals, sites, table
from stoppress.aws.clients import client
from stoppress.aws.items import Item, article_key, due_sk, file_pk, read_article, read_news_place, read_series
from stoppress.aws.refusals import Refusal, Report
from stoppress.aws.table import Check, Conflict, Delete, Put
from stoppress.cms.contract_fields import KEYWORDS_MAX
from stoppress.model.article import Article
from stoppress.model.event import ID_BYTES_MAX, ArticleEvent, to_message
from stoppress.model.file_names import Used
from stoppress.model.news_window import NEWS_WINDOW
from stoppress.primitives.instants import Deadline, exact
from stoppress.primitives.text import TITLE_CHARACTERS_MAX
from stoppress.primitives.urls import LOC_CHARACTERS_MAX
from stoppress.record import article as recording
from stoppress.record.article import ATTEMPTS_MAX, REPORT_KEPT, MessageOutcome, record
from stoppress.record.decide import decide
from stoppress.record.message import Message
from stoppress.roll.window import roll
from stoppress_cli.local.meter import item_bytes
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, page, publish, remove
from tests.support.moto_aws import MotoAws, failed_ids, failing, once_before, put_site, queue_batch

pytestmark = pytest.mark.moto

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
NOON = MORNING + 4 * HOUR
SHARD, NEWS = "sitemap-2026-11.xml", "sitemap-news.xml"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoAws]:
    with moto_aws.opened(NOON) as opened:
        opened.site()
        monkeypatch.setattr(table, "back_off", lambda attempt: None)  # no waits in a test
        yield opened


def apply(*events: ArticleEvent | str, now: datetime = NOON) -> list[str]:
    """Record events as one batch, and return their outcomes."""
    return [outcome.outcome for outcome in message_outcomes(*events, now=now)]


def message_outcomes(*events: ArticleEvent | str, now: datetime = NOON) -> list[MessageOutcome]:
    messages = [
        Message(f"m{number}", event if isinstance(event, str) else to_message(event), MORNING)
        for number, event in enumerate(events)
    ]
    outcomes = record(messages, now)
    return [outcomes[message.id] for message in messages]


def article(name: str = "cms#1042") -> Article:
    item = table.get(*article_key(HOST, name))
    assert item
    return read_article(item)


def locs(file: str) -> list[str]:
    return sorted(item["loc"] for item in table.query(file_pk(HOST, file)) if "loc" in item)


def stored_items(aws: MotoAws) -> list[Item]:
    """Return all items except the sites' configurations."""
    return [item for item in aws.items() if not item["pk"].startswith(("site", "due-sites"))]


def used(series: str) -> tuple[Used, ...]:
    return read_series(series, table.get(f"places#{HOST}", series)).files


def bus_event(detail: Any, kind: str = "article.published", source: str = "bus") -> str:
    return json.dumps({
        "version": "0", "id": "6a7e8feb-b491-4cf7-a9f1-bf3703467718", "detail-type": kind, "source": source,
        "account": "123456789012", "time": "2026-11-20T08:00:00Z", "region": "eu-west-1", "resources": [], "detail": detail,
    })  # fmt: skip


# ── batches ──


def test_a_batch_reserves_its_places_in_one_update_per_series(aws: MotoAws) -> None:
    apply(*[publish(str(number), f"page-{number}") for number in range(20)])
    assert [aws.item(f"places#{HOST}", series)["rev"] for series in ("2026-11", "news")] == [1, 1]
    assert [used(series)[0].entries for series in ("2026-11", "news")] == [20, 20]


EDIT = publish(title="Flood closes harbour and airport", timestamp=MORNING + MINUTE)
EDITS = [publish(title=f"Flood, {number}", timestamp=MORNING + number * MINUTE) for number in range(30)]


@pytest.mark.parametrize(
    ("batch", "outcomes", "titles"),
    [
        ([publish(), EDIT], ["listed", "listed"], [EDIT.title]),
        ([EDIT, publish()], ["listed", "late"], [EDIT.title]),
        ([remove(), publish()], ["removed", "late"], []),
        ([publish()] * 3, ["listed", "duplicate", "duplicate"], [publish().title]),
        (
            EDITS,
            ["listed"] * 30,
            [EDITS[-1].title],
        ),  # more than attempts: events that wait for each other are no conflicts
    ],
    ids=["in order", "out of order", "removed first", "repeated", "thirty edits"],
)
def test_events_of_one_article_in_a_batch_are_applied_one_after_the_other(
    batch: list[ArticleEvent], outcomes: list[str], titles: list[str]
) -> None:
    assert apply(*batch) == outcomes
    assert [entry["title"] for entry in table.query(file_pk(HOST, NEWS))] == titles
    assert [file.entries for file in used("2026-11")] == [1] * len(titles)


def test_a_repeated_batch_changes_nothing(aws: MotoAws) -> None:
    later = MORNING + MINUTE
    batch: list[ArticleEvent | str] = [
        publish("a", "x"),
        publish("b", "y"),
        "not JSON",
        publish("a", "z", timestamp=later),
        remove("b", timestamp=later),
        publish("c", "w", published_at=NOON + HOUR),
        publish("d", "v", noindex=True),
    ]
    assert apply(*batch) == ["listed", "listed", "quarantined", "listed", "removed", "held", "excluded"]
    before = [item for item in aws.items() if not item["pk"].startswith(("places#", "story#"))]
    counts = used("2026-11"), used("news")

    apply(*batch, now=NOON + MINUTE)
    assert [item for item in aws.items() if not item["pk"].startswith(("places#", "story#"))] == before
    assert (used("2026-11"), used("news")) == counts


# ── invalid events ──


@pytest.mark.parametrize(
    ("body", "site", "reason"),
    [
        ("", "unknown", "the message is not JSON"),
        ("[" * 100_000, "unknown", "the message is not JSON"),
        ("[]", "unknown", "site: is missing; give the host of the site"),
        ('{"site": 7}', "unknown", "site: is missing"),
        ('{"site": "other.example.com"}', "unknown", "unknown site 'other.example.com'"),
        ('{"site": "../secrets/cms"}', "unknown", "'../secrets/cms' is not a host name"),
        (f'{{"site": "{HOST}", "colour": "red"}}', HOST, "the message is no article event"),
        (f'{{"site": "{HOST}", "source": "cms", "id": "1", "action": "publish"}}', HOST, "url: is missing"),
        (f'{{"site": "{HOST}", "source": "", "id": "1", "action": "again"}}', HOST, "url: is missing"),
        (f'{{"site": "{HOST}", "source": "cms", "id": "", "action": "remove"}}', HOST, "url: is missing"),
        (bus_event({}), "unknown", "detail.site: is missing"),
        (bus_event({"site": HOST, "id": "1"}), HOST, "url: is missing: it has to be given\ntitle: is missing"),
        (bus_event({"site": HOST, "id": "1"}, source="stranger"), HOST, "source: 'stranger' is not among the sources"),
        (bus_event({"site": HOST, "id": "1"}, "article.liked"), HOST, "'article.liked' is not one of"),
        (bus_event({"site": HOST, "id": "1", "url": "javascript:alert(1)", "title": "x"}), HOST, "url: 'javascript:"),
    ],
)
def test_an_invalid_event_is_quarantined_with_its_reason(aws: MotoAws, body: str, site: str, reason: str) -> None:
    for minute in range(2):  # a message that is delivered again is one item
        (outcome,) = message_outcomes(body, now=NOON + minute * MINUTE)

    assert outcome.outcome == "quarantined"
    assert outcome.reason.startswith(reason)
    (kept,) = aws.items("quarantine#")
    assert (kept["pk"], kept["sk"]) == (f"quarantine#{site}", f"{exact(MORNING)}#m0")
    assert (kept["reason"], kept["ttl"]) == (outcome.reason, int((MORNING + timedelta(days=30)).timestamp()))
    assert body.startswith(kept["event"])


def test_a_lone_surrogate_in_a_quarantined_event_does_not_lose_its_log_line(aws: MotoAws) -> None:
    detail = {"site": HOST, "id": "10\ud80042", "url": "https://www.example.com/\ud800", "title": "Flood"}
    assert failed_ids(aws.call("record_article", queue_batch([bus_event(detail)], sent_at=MORNING))) == []
    assert aws.log[-1]["outcome"] == "quarantined"


def test_messages_of_a_site_with_a_broken_configuration_are_retried(aws: MotoAws) -> None:
    """The messages are valid, and an operator will repair the configuration."""
    put_site({"host": "broken.example.com"})
    assert apply(publish(site="broken.example.com", url="https://broken.example.com/a")) == ["failed"]
    assert stored_items(aws) == []


@pytest.mark.parametrize(
    "edit",
    [
        publish("1", "1", timestamp=MORNING + MINUTE, title="Flood"),
        publish("1", "elsewhere", timestamp=MORNING + MINUTE),
        publish("2", "1", timestamp=MORNING + MINUTE),
    ],
    ids=["in its place", "at another URL", "of another article that takes the page over"],
)
def test_an_edit_as_the_window_closes_uses_no_released_place(edit: ArticleEvent) -> None:
    """roll_window is ahead, by its clock or its call, and deletes the entry that this edit writes again."""
    apply(publish("0", "0", published_at=MORNING + HOUR), publish("1", "1"))
    due.write(due.expiry(HOST, NEWS, MORNING + NEWS_WINDOW))
    roll(MORNING + NEWS_WINDOW + timedelta(seconds=1))
    assert [file.entries for file in used("news")] == [1]

    assert apply(edit, now=MORNING + NEWS_WINDOW - timedelta(seconds=4)) == ["listed"]
    assert len(locs(NEWS)) == 2
    assert [file.entries for file in used("news")] == [2]
    due.write(due.expiry(HOST, NEWS, MORNING + NEWS_WINDOW))
    roll(MORNING + NEWS_WINDOW + timedelta(seconds=1))
    assert [file.entries for file in used("news")] == [1]


# ── temporary failures ──


@pytest.mark.parametrize(
    ("operation", "before", "batch", "again", "pages"),
    [
        ("BatchGetItem", [], [publish("1", "1"), "not JSON", publish("2", "2")], ["m0", "m2"], ["1", "2"]),
        ("PutItem", [], ["not JSON", publish("1", "1")], ["m0"], ["1"]),
        ("GetItem", [], [publish("1", "1"), remove("2")], ["m0"], ["1"]),
        # Removals reserve no place: the failed read is that of the released news place.
        ("GetItem", [publish("1", "1"), publish("2", "2")], [remove("1"), remove("9")], [], ["2"]),
    ],
    ids=["the articles' read", "the quarantine", "the reservation of places", "the return of a place"],
)  # fmt: skip
def test_a_failed_call_retries_only_its_messages_and_nothing_is_lost(
    aws: MotoAws, operation: str, before: list[ArticleEvent], batch: list[Any], again: list[str], pages: list[str]
) -> None:
    apply(*before)
    delivered = queue_batch(batch, sent_at=MORNING)
    with failing("dynamodb", operation):
        assert failed_ids(aws.call("record_article", delivered)) == again
    assert failed_ids(aws.call("record_article", delivered)) == []
    assert locs(SHARD) == [page(path) for path in pages]
    assert len(aws.items("quarantine#")) == batch.count("not JSON")
    assert used("news")[0].entries == max(
        len(pages), len(before)
    )  # one place too many, until the nightly reconciliation counts again


@pytest.mark.parametrize(("receives", "delay_s"), [(1, 10), (5, 160), (8, 300)])
def test_only_the_failed_message_is_retried_with_growing_delays(
    aws: MotoAws, monkeypatch: pytest.MonkeyPatch, receives: int, delay_s: int
) -> None:
    requests: list[dict[str, Any]] = []
    monkeypatch.setattr(client("sqs"), "change_message_visibility", lambda **request: requests.append(request))
    batch = queue_batch([publish("1", "1"), publish("2", "2")], sent_at=MORNING)
    for message in batch["Records"]:
        message["attributes"]["ApproximateReceiveCount"] = str(receives)

    with failing("dynamodb", "TransactWriteItems"):
        assert failed_ids(aws.call("record_article", batch)) == ["m0"]
    assert [(request["ReceiptHandle"], request["VisibilityTimeout"]) for request in requests] == [("handle-0", delay_s)]
    assert locs(SHARD) == [page("2")]
    assert failed_ids(aws.call("record_article", batch)) == []
    assert locs(SHARD) == [page("1"), page("2")]


def test_the_message_with_most_attempts_is_recorded_first(aws: MotoAws, monkeypatch: pytest.MonkeyPatch) -> None:
    """Otherwise a message whose batches never have enough time would become a dead letter."""
    monkeypatch.setattr(client("sqs"), "change_message_visibility", lambda **_: None)
    batch = queue_batch([publish(name, name) for name in "abc"], sent_at=MORNING)
    for message, receives in zip(batch["Records"], "132", strict=True):
        message["attributes"]["ApproximateReceiveCount"] = receives
    monkeypatch.setattr(Deadline, "is_over", lambda _: locs(SHARD) != [])

    assert failed_ids(aws.call("record_article", batch)) == ["m2", "m0"]
    assert locs(SHARD) == [page("b")]


def test_messages_of_a_site_whose_configuration_cannot_be_read_are_retried(aws: MotoAws) -> None:
    sites.forget()
    with failing("dynamodb", "GetItem", code="ThrottlingException"):
        assert apply(publish(), publish("2", "2")) == ["failed", "listed"]


def test_an_event_whose_transaction_lost_its_answer_is_then_a_duplicate(aws: MotoAws) -> None:
    with failing("dynamodb", "TransactWriteItems", applied=True):
        assert apply(publish()) == ["failed"]
    before = aws.items()
    assert apply(publish()) == ["duplicate"]
    assert aws.items() == before
    assert used("news")[0].entries == 1


def test_a_transaction_repeated_by_botocore_loses_no_place_in_use() -> None:
    """Botocore's retry conflicts with its own write, and the new decision is a duplicate."""
    with failing("dynamodb", "TransactWriteItems", code="TransactionConflictException", applied=True):
        assert apply(publish()) == ["duplicate"]
    assert (locs(SHARD), locs(NEWS)) == ([page("flood")], [page("flood")])
    assert [series.entries for series in (*used("2026-11"), *used("news"))] == [1, 1]


def test_a_bug_in_one_decision_does_not_affect_other_events(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(event: ArticleEvent, *rest: Any) -> Any:
        if event.id == "2":
            raise ZeroDivisionError
        return decide(event, *rest)

    monkeypatch.setattr(recording, "decide", faulty)
    assert apply(publish("1", "1"), publish("2", "2"), publish("3", "3")) == ["listed", "failed", "listed"]


def test_an_unreadable_article_does_not_affect_other_events(aws: MotoAws) -> None:
    apply(publish("1", "1"), publish("2", "2"))
    item = aws.item(*article_key(HOST, "cms#2"))
    table.put(item | {"received_at": "some day"}, int(item["rev"]))

    later = [publish(name, name, timestamp=MORNING + MINUTE, title=f"Again {name}") for name in "123"]
    takeover = publish("4", "2", timestamp=MORNING + MINUTE)
    assert apply(*later, takeover) == ["listed", "failed", "listed", "failed"]


# ── other writers ──


@pytest.mark.parametrize("now", [NOON, MORNING + 48 * HOUR], ids=["by hand", "by the roller"])
def test_an_article_whose_entry_another_worker_deleted_can_be_removed(now: datetime) -> None:
    apply(publish())
    (entry,) = table.query(file_pk(HOST, NEWS))

    with once_before(table, "transact", lambda: table.delete(entry["pk"], entry["sk"])):
        assert apply(remove(), now=now) == ["removed"]
    assert used("news")[0].entries == 1  # the worker that deleted the entry releases its place


def test_a_place_is_released_after_any_number_of_conflicts(monkeypatch: pytest.MonkeyPatch) -> None:
    transact, others = table.transact, [*range(ATTEMPTS_MAX - 1)]

    def crowded(operations: Iterable[Put | Delete | Check]) -> None:
        if others:
            others.pop()
            raise Conflict("another writer was faster")
        transact(operations)

    apply(publish())
    monkeypatch.setattr(table, "transact", crowded)
    assert apply(remove()) == ["removed"]
    assert used("news")[0].entries == 0


def test_places_reserved_by_two_concurrent_writers_are_all_counted() -> None:
    with once_before(table, "put", lambda: apply(publish("1", "1"))):
        assert apply(publish("2", "2")) == ["listed"]
    assert (used("2026-11")[0].entries, used("news")[0].entries) == (2, 2)


def test_an_event_that_always_conflicts_is_retried_and_releases_its_news_place(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    transact = table.transact

    def lost(operations: list[table.Put | table.Delete]) -> None:
        if any(
            isinstance(operation, table.Put) and operation.item["pk"].startswith("article#") for operation in operations
        ):
            raise Conflict("a writer was faster")
        transact(operations)

    monkeypatch.setattr(table, "transact", lost)
    (outcome,) = message_outcomes(publish())
    assert (outcome.outcome, outcome.reason) == ("failed", "others wrote cms#1042 first in 10 attempts")
    assert used("news") == (Used(0, 0),)
    assert used("2026-11")[0].entries == 1  # a gap: one, not ten


# ── places ──


def test_a_place_is_released_once_though_botocore_repeated_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Botocore repeats a call without an answer. Its put would conflict with itself, as with another worker's."""
    apply(publish("1", "1"), publish("2", "2"), publish("3", "3"))
    put_if = table.put_if

    def repeated(item: Item, condition: str | None = None, values: dict[str, Any] | None = None) -> None:
        put_if(item, condition, values)
        if item["pk"].startswith("places#"):
            put_if(item, condition, values)

    monkeypatch.setattr(table, "put_if", repeated)
    apply(remove("1"))

    assert used("news")[0].entries == 2


def random_event(chance: random.Random, at: datetime) -> ArticleEvent:
    """Return any event of any source about a few articles and pages."""
    source, name = chance.choice(["cms", "cms", "wire", "feed"]), chance.choice("1234")
    if chance.random() < 0.25 and source != "feed":
        return remove(name, source=source, timestamp=at)
    return publish(
        name,
        chance.choice("vwxyz"),
        source=source,
        timestamp=at,
        title="A" * chance.randint(1, 9),
        updated_at=chance.choice([None, at]),
        published_at=chance.choice([None, MORNING, MORNING - HOUR, at, MORNING - 30 * 24 * HOUR, NOON + HOUR]),
        news=chance.random() < 0.8,
        noindex=chance.random() < 0.1,
        previous_urls=tuple(page(path) for path in chance.sample("vwxyz", chance.choice([0, 0, 1, 3]))),
    )


@pytest.mark.matrix
@pytest.mark.parametrize("republish", ["keep-date", "new-date"])
@pytest.mark.parametrize("seed", range(2))
def test_after_any_events_counts_entries_and_articles_agree(aws: MotoAws, seed: int, republish: str) -> None:
    aws.site(republish=republish)
    chance = random.Random(seed)
    for minute in range(20):
        batch = [random_event(chance, MORNING + minute * MINUTE) for _ in range(chance.randint(1, 4))]
        assert [outcome.reason for outcome in message_outcomes(*batch) if outcome.error] == [], (seed, minute)
        check_agreement(aws, NOON)

    due = [item["message"] for item in aws.items("due#")]
    assert [outcome.reason for outcome in message_outcomes(*due, now=NOON + HOUR) if outcome.error] == [], seed
    assert aws.items("due#") == []
    check_agreement(aws, NOON + HOUR)


def check_agreement(aws: MotoAws, now: datetime) -> None:
    """Check that each listed article has its page and news entry, and that the counts are right."""
    items = aws.items()

    def below(prefix: str) -> list[Item]:
        return [item for item in items if item["pk"].startswith(prefix)]

    articles = [read_article(item) for item in below("article#")]
    listed = {article.url: article for article in articles if article.state == "listed"}
    pages = [item["loc"] for item in below(f"file#{HOST}/sitemap-20") if "loc" in item]
    assert sorted(pages) == sorted(url for url in listed if url)
    assert locs(NEWS) == sorted(url for url, article in listed.items() if url and article.is_in_news(now))
    taken = [read_news_place(item) for item in below(file_pk(HOST, NEWS))]
    assert used("news") in ((), (Used(len(taken), sum(place.size_bytes for place in taken)),))
    held = {due_sk(article.release_at, article.name) for article in articles if article.release_at}
    assert held <= {item["sk"] for item in below("due#")}


# ── takeovers and held articles ──


def test_a_late_date_ends_an_embargo_though_an_edit_is_repeated_first(aws: MotoAws) -> None:
    apply(publish(published_at=MORNING + timedelta(days=365)))
    edit = publish(published_at=None, timestamp=MORNING + 2 * MINUTE, title="Edited")
    apply(edit)
    assert apply(publish(timestamp=MORNING + MINUTE)) == ["late"]
    (due,) = aws.items("due#")

    assert apply(edit, due["message"]) == ["listed", "duplicate"]
    assert [entry["title"] for entry in table.query(file_pk(HOST, NEWS))] == ["Edited"]
    assert article().first_published == MORNING
    assert aws.items("due#") == []


@pytest.mark.parametrize("title", ["Edited", "Edited again"])
def test_a_late_date_that_postpones_an_embargo_holds_later_undated_edits(aws: MotoAws, title: str) -> None:
    apply(publish(published_at=NOON + HOUR))
    edit = publish(published_at=None, timestamp=MORNING + 2 * MINUTE, title="Edited")
    apply(edit)
    release = NOON + 2 * HOUR
    assert apply(publish(published_at=release, timestamp=MORNING + MINUTE)) == ["late"]

    apply(edit if title == edit.title else replace(edit, timestamp=MORNING + 3 * MINUTE, title=title))

    assert (locs(SHARD), article().release_at) == ([], release)
    (due,) = aws.items("due#")
    assert due["sk"] == f"{exact(release)}#cms#1042"
    assert apply(due["message"], now=release) == ["listed"]
    assert [entry["title"] for entry in table.query(file_pk(HOST, NEWS))] == [title]
    assert aws.items("due#") == []


def test_an_excluded_article_keeps_a_late_embargo_for_its_next_edits(aws: MotoAws) -> None:
    apply(publish())
    apply(publish(published_at=None, timestamp=MORNING + 2 * MINUTE, noindex=True))
    assert apply(publish(published_at=NOON + HOUR, timestamp=MORNING + MINUTE)) == ["late"]
    assert (article().state, aws.items("due#")) == ("excluded", [])

    assert apply(publish(published_at=None, timestamp=MORNING + 3 * MINUTE, title="Edited")) == ["held"]
    (due,) = aws.items("due#")
    assert apply(due["message"], now=NOON + HOUR) == ["listed"]
    assert article().first_published == NOON + HOUR


def test_a_late_date_ends_the_embargo_of_an_excluded_article(aws: MotoAws) -> None:
    apply(publish())
    apply(publish(published_at=None, timestamp=MORNING + 3 * MINUTE, noindex=True))
    apply(publish(published_at=NOON + HOUR, timestamp=MORNING + MINUTE))
    apply(publish(published_at=MORNING + MINUTE, timestamp=MORNING + 2 * MINUTE))
    assert apply(publish(published_at=None, timestamp=MORNING + 4 * MINUTE, title="Edited")) == ["listed"]


# ── size ──


def largest() -> ArticleEvent:
    base = page("")

    def longest(start: str) -> str:
        return base + start + "x" * (LOC_CHARACTERS_MAX - len(base) - len(start))

    return publish(
        "i" * ID_BYTES_MAX,
        url=longest("a"),
        title="&" * TITLE_CHARACTERS_MAX,
        updated_at=MORNING,
        version=2**63 - 1,
        sequence=2**63 - 1,
        publication="🌊" * TITLE_CHARACTERS_MAX,
        section="🌊" * TITLE_CHARACTERS_MAX,
        keywords=tuple(f"{number:03}" + "🌊" * 197 for number in range(KEYWORDS_MAX)),
        previous_urls=tuple(longest(str(number)) for number in range(10)),
    )


def test_the_largest_legal_event_fits_every_message_item_and_transaction(aws: MotoAws) -> None:
    assert len(to_message(largest()).encode()) < 1_048_576
    assert apply(largest()) == ["listed"]
    held = replace(largest(), id="h" * ID_BYTES_MAX, url=page("held"), published_at=NOON + HOUR)
    assert apply(held) == ["held"]

    sizes = {item["pk"][:12]: item_bytes(table._write(item)) for item in aws.items()}
    assert max(size for pk, size in sizes.items() if not pk.startswith("due#")) < 200_000
    assert max(sizes.values()) < 400_000, sizes
    assert max(len(item["pk"].encode()) for item in aws.items()) <= 2_048
    assert max(len(item["sk"].encode()) for item in aws.items()) <= 1_024


# ── reports of refusals ──


def refused(source: str = "cms", **fields: Any) -> str:
    refusal = Refusal(at=NOON, source=source, outcome="refused", reason="title: is empty", id="1042", url=page("flood"))
    return replace(Report(site=HOST, source=source, at=NOON, refusals=(refusal,)), **fields).message()


def test_a_report_of_refusals_is_kept_beside_the_events_of_its_batch() -> None:
    outcomes = apply(refused(), publish("1", "ferry"), refused("wire"), refused(refusals=(), unverified=7))

    assert outcomes == [REPORT_KEPT, "listed", REPORT_KEPT, REPORT_KEPT]
    assert sorted(refusal.source for _, refusal in refusals.stored(HOST)) == ["cms", "wire"]
    counts = refusals.counts_of_day(HOST, NOON.date(), ["cms", "wire"])
    assert {(count.source, count.refused, count.unverified) for count in counts} == {("wire", 1, 0), ("cms", 1, 7)}


def test_a_report_is_neither_counted_nor_logged_as_an_event(aws: MotoAws) -> None:
    aws.call("record_article", queue_batch([refused(), publish("1", "ferry")], sent_at=MORNING))

    assert {name: aws.metrics[name] for name in ("EventsReceived", "EventsListed")} == {
        "EventsReceived": 1,
        "EventsListed": 1,
    }
    assert not [name for name in aws.metrics if "eport" in name]
    assert [line["outcome"] for line in aws.log if line.get("message") == "article"] == ["listed"]


def test_a_report_that_cannot_be_stored_is_retried_and_a_malformed_one_is_not() -> None:
    with failing("dynamodb", "BatchWriteItem"):
        assert apply(refused(), publish("1", "ferry")) == ["failed", "listed"]
    assert apply(json.dumps({"site": HOST, "refusals": [None]})) == ["quarantined"]
