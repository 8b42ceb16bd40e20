"""The door to the table: who was faster wins, all pages are read, and what was written comes back as it was."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from decimal import Decimal
from typing import Any

import pytest
from botocore.exceptions import ClientError
from hypothesis import given, strategies as st

from stoppress.aws import table
from stoppress.aws.clients import client
from stoppress.aws.items import (
    QUARANTINED_CHARACTERS_MAX,
    Item,
    article_item,
    claim_item,
    due_item,
    entry_key,
    file_of,
    file_pk,
    general_item,
    mark_item,
    news_item,
    quarantine_item,
    read_article,
    read_claim,
    read_general,
    read_mark,
    read_news,
    read_news_place,
    read_series,
    series_files,
    series_item,
)
from stoppress.aws.table import Conflict, Delete, Put, Throttled
from stoppress.model.article import Article, Claim, EntryKey
from stoppress.model.entries import GeneralEntry, Mark, NewsEntry
from stoppress.model.order import Order
from stoppress.model.places import Place, Series, Used
from tests.support import doors
from tests.support.doors import Doors, failing
from tests.support.ledger import HOST, MORNING, page

pytestmark = pytest.mark.moto


@pytest.fixture(autouse=True)
def behind() -> Iterator[Doors]:
    with doors.opened(MORNING) as opened:
        yield opened


def item(name: str = "a", **said: Any) -> Item:
    return {"pk": f"places#{name}", "sk": "-"} | said


def test_an_item_is_there_as_it_was_written_and_counts_its_writes() -> None:
    table.put(item(text="ü🌊", number=7, files=[[1, 2]], flag=True), None)
    assert table.get("places#a") == item(text="ü🌊", number=7, files=[[1, 2]], flag=True, rev=1)
    table.put(item(text="b"), 1)
    assert table.get("places#a") == item(text="b", rev=2)


def test_what_is_not_there_is_none() -> None:
    assert table.get("places#a") is None
    assert table.delete("places#a", "-") is None
    assert list(table.query("places#a")) == []
    assert table.get_many([]) == {}


def test_who_read_an_older_item_is_too_late() -> None:
    table.put(item(text="a"), None)
    table.put(item(text="b"), 1)
    for stale in (None, 1, 7):
        with pytest.raises(Conflict):
            table.put(item(text="c"), stale)
    assert table.get("places#a") == item(text="b", rev=2)


def test_who_read_an_item_that_is_gone_is_too_late() -> None:
    with pytest.raises(Conflict):
        table.put(item(), 1)


def test_a_transaction_is_all_or_nothing() -> None:
    table.put(item("a", text="a"), None)
    with pytest.raises(Conflict):
        table.transact([Put(item("b")), Put(item("a", text="late")), Delete("places#c", "-")])
    assert table.get("places#b") is None
    assert table.get("places#a") == item("a", text="a", rev=1)

    table.transact([Put(item("b")), Put(item("a", text="on time"), 1), Delete("places#c", "-")])
    assert table.get("places#b") == item("b", rev=1)
    assert table.get("places#a") == item("a", text="on time", rev=2)


def test_an_unguarded_put_replaces_whatever_is_there() -> None:
    table.put(item("a", text="a"), None)
    table.transact([Put(item("a", text="b"), guarded=False), Put(item("b"))])
    assert table.get("places#a") == item("a", text="b")


def test_a_delete_that_must_find_something_holds_the_transaction() -> None:
    with pytest.raises(Conflict):
        table.transact([Put(item("b")), Delete("places#gone", "-", must_exist=True)])
    assert table.get("places#b") is None


@pytest.mark.parametrize("reason", ["ConditionalCheckFailed", "TransactionConflict"])
def test_a_cancelled_transaction_is_a_conflict(reason: str, monkeypatch: pytest.MonkeyPatch) -> None:
    _cancelled(monkeypatch, ["None", reason])
    with pytest.raises(Conflict):
        table.transact([Put(item("a")), Put(item("b"))])


def test_a_transaction_that_was_cancelled_for_another_reason_is_no_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    _cancelled(monkeypatch, ["None", "ValidationError"])
    with pytest.raises(ClientError, match="TransactionCanceled"):
        table.transact([Put(item("a")), Put(item("b"))])


@pytest.mark.parametrize("reason", ["ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_throttled_transaction_is_tried_again_and_then_is_no_conflict(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "time", _NoTime)
    with monkeypatch.context() as patch:
        _cancelled(patch, ["None", reason], times=2)
        table.transact([Put(item("a"))])
    assert table.get("places#a") == item("a", rev=1)

    _cancelled(monkeypatch, ["None", reason])
    with pytest.raises(Throttled, match="TransactionCanceled"):
        table.transact([Put(item("b"))])


def test_a_transaction_that_is_throttled_and_too_late_is_a_conflict(monkeypatch: pytest.MonkeyPatch) -> None:
    _cancelled(monkeypatch, ["ConditionalCheckFailed", "ThrottlingError"])
    with pytest.raises(Conflict):
        table.transact([Put(item("a")), Put(item("b"))])


@pytest.mark.parametrize("operation", ["PutItem", "DeleteItem"])
def test_a_write_that_meets_a_transaction_is_a_conflict_and_other_errors_are_themselves(operation: str) -> None:
    def write() -> None:
        table.put(item(), None) if operation == "PutItem" else table.delete("places#a", "-")

    with failing("dynamodb", operation, code="TransactionConflictException"), pytest.raises(Conflict):
        write()
    with failing("dynamodb", operation, code="AccessDeniedException"), pytest.raises(ClientError):
        write()


def test_a_delete_gives_what_was_there_and_can_be_conditional() -> None:
    table.put(item(text="a"), None)
    with pytest.raises(Conflict):
        table.delete("places#a", "-", "digest = :t", {":t": "b"})
    assert table.delete("places#a", "-") == item(text="a", rev=1)
    assert table.get("places#a") is None


def test_more_than_a_hundred_keys_are_read_in_several_calls() -> None:
    for number in range(105):
        table.put(item(str(number)), None)
    keys = [(f"places#{number}", "-") for number in range(130)]
    assert len(table.get_many(keys + keys)) == 105


def test_keys_that_were_left_unread_are_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table.put(item("a"), None)
    table.put(item("b"), None)
    answers = iter([1, 1, 100])
    _throttled(monkeypatch, lambda: next(answers))
    assert set(table.get_many([("places#a", "-"), ("places#b", "-")])) == {("places#a", "-"), ("places#b", "-")}


def test_keys_that_are_never_read_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    table.put(item("a"), None)
    _throttled(monkeypatch, lambda: 0)
    with pytest.raises(TimeoutError, match="left 1 keys unread, 6 attempts long"):
        table.get_many([("places#a", "-")])


def test_a_partition_is_read_whole_over_all_its_pages_in_order() -> None:
    text = "x" * 100_000
    for number in reversed(range(25)):
        table.put({"pk": "file#a", "sk": f"{number:02}", "text": text}, None)
    table.put({"pk": "file#b", "sk": "00"}, None)

    assert [found["sk"] for found in table.query("file#a")] == [f"{number:02}" for number in range(25)]
    assert [found["sk"] for found in table.query("file#a", below="21")] == [f"{number:02}" for number in range(21)]


# ── what is kept comes back ──

ARTICLE = Article(
    site=HOST,
    name="cms#10#42",
    state="listed",
    order=Order(7, 3, "2026-11-20T08:00:00.000000Z", "2026-11-20T08:00:01.000000Z"),
    digest="d",
    heard_at=MORNING + timedelta(microseconds=3),
    known_since=MORNING,
    deliveries=("a", "~b"),
    reborn="2026-11-20T06:00:00.000000Z",
    title="T",
    publication="P",
    url=page("a"),
    first_published=MORNING,
    dated_by=2,
    changed_at=MORNING,
    dated_order=Order(None, None, None, "2026-11-20T07:00:00.000000Z"),
    held_order=Order("2026-11-20T07:00:00.000000Z", None, None, "2026-11-20T07:00:00.000000Z"),
    shard=Place("2026-11", 2, 123),
    news=Place("news", 1, 456),
    release_at=MORNING,
    reason="r",
    news_reason="n",
)


@pytest.mark.parametrize(
    "article",
    [
        ARTICLE,
        Article(
            site=HOST,
            name="cms#1",
            state="removed",
            order=Order("2026-11-20T08:00:00.000000Z", 0, None, "2026-11-20T08:00:00.000000Z", "deleted"),
            digest="d",
            heard_at=MORNING,
        ),
    ],
)
def test_an_article_comes_back_as_it_was_kept(article: Article) -> None:
    kept = article_item(article)
    table.put(kept, None)
    found = table.get(kept["pk"])
    assert found
    back = read_article(found)
    assert back == Article(**{name: getattr(article, name) for name in Article.__dataclass_fields__} | {"rev": 1})
    assert type(back.order.version) is type(article.order.version)


def test_an_article_of_an_earlier_version_is_read() -> None:
    """It kept `updated_at` as a version, and a timestamp no later than when it was heard."""
    kept = {
        "pk": f"article#{HOST}#cms#1",
        "sk": "-",
        "state": "listed",
        "version": "2026-11-20T07:00:00.000000Z",
        "timestamp": "2026-11-20T08:00:00.000000Z",
        "digest": "d",
        "heard_at": "2026-11-20T08:00:00.000000Z",
        "dated_order": [7, 0, "2026-11-20T08:00:00.000000Z"],
        "rev": 4,
    }
    article = read_article(kept)
    at = "2026-11-20T08:00:00.000000Z"
    assert article.order == Order(None, None, at, at)
    assert article.dated_order == Order(7, 0, at, at)
    assert article.is_old_form
    assert read_article(kept | {"removal": True}).order.removal == "unpublished"
    claim = {"pk": f"url#{HOST}#hash", "owner": "cms#1", "live": True, "at": at, "rev": 1}
    assert read_claim(claim, page("a")).order == Order(None, None, at, at)


def test_everything_else_comes_back_too() -> None:
    order = Order(None, None, "2026-11-20T08:00:00.000000Z", "2026-11-20T08:00:01.000000Z")
    claim = Claim(HOST, page("a"), "cms#1", live=True, order=order, waiting=("cms#2",))
    news = NewsEntry(page("a"), "A", MORNING, MORNING, "P", "fr")
    place = Place("news", 2, 345)
    mark = Mark("sitemap-news.xml", MORNING + timedelta(microseconds=5), 3, 4, "d")
    series = Series("2026-11", (Used(1, 2), Used(3, 4)))

    def kept(one: Item) -> Item:
        table.put(one, None)
        found = table.get(one["pk"], one["sk"])
        assert found
        return found

    assert read_claim(kept(claim_item(claim)), page("a")) == replace(claim, rev=1)
    assert read_general(kept(general_item(HOST, "sitemap-2026-11.xml", GeneralEntry(page("a"))))) == GeneralEntry(
        page("a")
    )
    found = kept(news_item(HOST, place, news))
    assert (read_news(found), read_news_place(found)) == (news, place)
    assert read_mark(kept(mark_item(HOST, mark))) == mark
    assert read_series("2026-11", kept(series_item(HOST, series))) == Series("2026-11", series.files, rev=1)
    assert series_files(series) == ["sitemap-2026-11.xml", "sitemap-2026-11-2.xml"]
    assert kept(due_item(HOST, MORNING, "cms#1", "{}", queue="articles"))["sk"] == "2026-11-20T08:00:00.000000Z#cms#1"


def test_an_expired_news_entry_goes_by_itself_a_day_later_at_the_latest() -> None:
    kept = news_item(HOST, Place("news", 1, 1), NewsEntry(page("a"), "A", MORNING))
    assert kept["ttl"] == int((MORNING + timedelta(hours=72)).timestamp())
    assert all(
        "ttl" not in one
        for one in (article_item(ARTICLE), claim_item(Claim(HOST, page("a"), "c", live=False, order=ARTICLE.order)))
    )


def test_news_sort_by_their_publication() -> None:
    keys = [
        entry_key(HOST, EntryKey("sitemap-news.xml", page("a"), MORNING + timedelta(hours=hours)))[1]
        for hours in (0, 3, 26)
    ]
    assert keys == sorted(keys)
    assert keys[0].startswith("2026-11-20T08:00:00Z#")


def test_quarantine_keeps_no_book_and_no_half_characters() -> None:
    kept = quarantine_item(HOST, "m1", "because", "\ud800" + "x" * 1_000_000, MORNING)
    assert len(kept["event"]) == QUARANTINED_CHARACTERS_MAX
    table.put(kept, None)


@pytest.mark.parametrize(
    ("pk", "names"),
    [("file#www.example.com/sitemap.xml", ("www.example.com", "sitemap.xml")), ("file#a/b/c.xml", ("a", "b/c.xml"))],
)
def test_a_files_partition_names_site_and_file(pk: str, names: tuple[str, str]) -> None:
    assert file_of(pk) == names
    assert file_pk(*names) == pk


@pytest.mark.parametrize("pk", ["", "file#", "file#a", "file#/b", "file#a/", "article#a/b", "a/b"])
def test_another_partition_is_no_files(pk: str) -> None:
    with pytest.raises(ValueError, match="is not the partition of a file"):
        file_of(pk)


@given(st.integers(0, 2**63 - 1), st.integers(0, 2**63 - 1))
def test_versions_as_large_as_the_contract_lets_in_lose_no_digit(version: int, sequence: int) -> None:
    kept = article_item(
        Article(
            site=HOST,
            name="cms#1",
            state="held",
            order=Order(version, sequence, "t", "h"),
            digest="",
            heard_at=MORNING,
        )
    )
    back = table._read(table._write(kept | {"rev": Decimal(1)}))
    assert read_article(back).order == Order(version, sequence, "t", "h")


def _cancelled(monkeypatch: pytest.MonkeyPatch, reasons: list[str], times: int = 1_000) -> None:
    answer: Any = {
        "Error": {"Code": "TransactionCanceledException", "Message": "Transaction cancelled"},
        "CancellationReasons": [{"Code": reason} for reason in reasons],
    }

    real, left = client("dynamodb").transact_write_items, iter(range(times))

    def cancel(**transaction: Any) -> Any:
        if next(left, None) is None:
            return real(**transaction)
        raise ClientError(answer, "TransactWriteItems")

    monkeypatch.setattr(client("dynamodb"), "transact_write_items", cancel)


def _throttled(monkeypatch: pytest.MonkeyPatch, allowed: Any) -> None:
    """DynamoDB reads only so many of the keys asked for; nobody waits."""
    real = client("dynamodb").batch_get_item

    def read_some(*, RequestItems: dict[str, Any]) -> Any:  # noqa: N803 - as boto3 has it
        ((name, wanted),) = RequestItems.items()
        count = allowed()
        now, later = wanted["Keys"][:count], wanted["Keys"][count:]
        answer = real(RequestItems={name: wanted | {"Keys": now}}) if now else {"Responses": {}}
        return answer | {"UnprocessedKeys": {name: wanted | {"Keys": later}} if later else {}}

    monkeypatch.setattr(client("dynamodb"), "batch_get_item", read_some)
    monkeypatch.setattr(table, "time", _NoTime)


class _NoTime:
    @staticmethod
    def sleep(seconds: float) -> None:
        """Nobody waits in a test."""
