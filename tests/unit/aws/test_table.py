"""Calls of the table: conflicts are detected, all pages are read, and items are read back unchanged."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from botocore.exceptions import ClientError

from stoppress.aws import table
from stoppress.aws.clients import client
from stoppress.aws.items import (
    QUARANTINED_CHARACTERS_MAX,
    Item,
    entry_key,
    file_of,
    file_pk,
    news_item,
    quarantine_item,
)
from stoppress.aws.table import Conflict, Put, Throttled
from stoppress.model.article import EntryKey
from stoppress.model.entries import NewsEntry
from stoppress.model.file_names import Place
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, page
from tests.support.moto_aws import MotoAws, failing

pytestmark = pytest.mark.moto


@pytest.fixture(autouse=True)
def aws() -> Iterator[MotoAws]:
    with moto_aws.opened(MORNING) as opened:
        yield opened


def item(name: str = "a", **attributes: Any) -> Item:
    return {"pk": f"places#{name}", "sk": "-"} | attributes


@pytest.mark.parametrize(
    ("reasons", "error"),
    [
        (["None", "ConditionalCheckFailed"], Conflict),
        (["None", "TransactionConflict"], Conflict),
        (["ConditionalCheckFailed", "ThrottlingError"], Conflict),
        (["None", "ValidationError"], ClientError),
    ],
)
def test_a_cancelled_transaction_is_a_conflict_unless_its_reason_is_another(
    reasons: list[str], error: type[Exception], monkeypatch: pytest.MonkeyPatch
) -> None:
    _cancel(monkeypatch, reasons)
    with pytest.raises(error) as raised:
        table.transact([Put(item("a")), Put(item("b"))])
    assert raised.type is error


@pytest.mark.parametrize("reason", ["ThrottlingError", "ProvisionedThroughputExceeded"])
def test_a_throttled_transaction_is_tried_again_and_then_is_no_conflict(
    reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(table, "time", _NoTime)
    with monkeypatch.context() as patch:
        _cancel(patch, ["None", reason], times=2)
        table.transact([Put(item("a"))])
    assert table.get("places#a") == item("a", rev=1)

    _cancel(monkeypatch, ["None", reason])
    with pytest.raises(Throttled, match="TransactionCanceled"):
        table.transact([Put(item("b"))])


@pytest.mark.parametrize("operation", ["PutItem", "DeleteItem"])
def test_only_a_write_during_a_transaction_is_a_conflict(operation: str) -> None:
    def write() -> None:
        table.put(item(), None) if operation == "PutItem" else table.delete("places#a", "-")

    with failing("dynamodb", operation, code="TransactionConflictException"), pytest.raises(Conflict):
        write()
    with failing("dynamodb", operation, code="AccessDeniedException"), pytest.raises(ClientError):
        write()


def test_a_delete_returns_the_old_item_and_can_be_conditional() -> None:
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


def test_unprocessed_keys_are_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    table.put(item("a"), None)
    table.put(item("b"), None)
    answers = iter([1, 1, 100])
    _throttle(monkeypatch, lambda: next(answers))
    assert set(table.get_many([("places#a", "-"), ("places#b", "-")])) == {("places#a", "-"), ("places#b", "-")}


def test_keys_that_are_never_read_are_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    table.put(item("a"), None)
    _throttle(monkeypatch, lambda: 0)
    with pytest.raises(TimeoutError, match="left 1 keys or items unprocessed in 6 attempts"):
        table.get_many([("places#a", "-")])


def test_a_partition_is_read_whole_over_all_its_pages_in_order() -> None:
    text = "x" * 100_000
    for number in reversed(range(25)):
        table.put({"pk": "file#a", "sk": f"{number:02}", "text": text}, None)
    table.put({"pk": "file#b", "sk": "00"}, None)

    assert [entry["sk"] for entry in table.query("file#a")] == [f"{number:02}" for number in range(25)]
    assert [entry["sk"] for entry in table.query("file#a", below="20")] == [f"{number:02}" for number in range(21)]


# ── items and their keys ──


def test_a_news_entry_sorts_by_its_publication_and_is_deleted_a_day_after_it_expires() -> None:
    kept = news_item(HOST, Place("news", 1, 1), NewsEntry(page("a"), "A", MORNING))
    assert kept["ttl"] == int((MORNING + timedelta(hours=72)).timestamp())
    assert entry_key(HOST, EntryKey("sitemap-news.xml", page("a"), MORNING))[1].startswith("2026-11-20T08:00:00Z#")


def test_quarantine_truncates_long_events_and_replaces_lone_surrogates() -> None:
    kept = quarantine_item(HOST, "m1", "because", "\ud800" + "x" * 1_000_000, MORNING)
    assert len(kept["event"]) == QUARANTINED_CHARACTERS_MAX
    table.put(kept, None)


@pytest.mark.parametrize(
    ("pk", "names"),
    [("file#www.example.com/sitemap.xml", ("www.example.com", "sitemap.xml")), ("file#a/b/c.xml", ("a", "b/c.xml"))],
)
def test_a_files_partition_contains_site_and_file(pk: str, names: tuple[str, str]) -> None:
    assert file_of(pk) == names
    assert file_pk(*names) == pk


@pytest.mark.parametrize("pk", ["file#a", "file#/b", "file#a/", "article#a/b"])
def test_another_partition_is_no_partition_of_a_file(pk: str) -> None:
    with pytest.raises(ValueError, match="is not the partition of a file"):
        file_of(pk)


def _cancel(monkeypatch: pytest.MonkeyPatch, reasons: list[str], times: int = 1_000) -> None:
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


def _throttle(monkeypatch: pytest.MonkeyPatch, allowed: Any) -> None:
    """Have DynamoDB read only some of the requested keys, without waits."""
    real = client("dynamodb").batch_get_item

    def read_some(*, RequestItems: dict[str, Any]) -> Any:  # noqa: N803 - as boto3 has it
        ((name, request),) = RequestItems.items()
        count = allowed()
        now, later = request["Keys"][:count], request["Keys"][count:]
        answer = real(RequestItems={name: request | {"Keys": now}}) if now else {"Responses": {}}
        return answer | {"UnprocessedKeys": {name: request | {"Keys": later}} if later else {}}

    monkeypatch.setattr(client("dynamodb"), "batch_get_item", read_some)
    monkeypatch.setattr(table, "time", _NoTime)


class _NoTime:
    @staticmethod
    def sleep(seconds: float) -> None:
        """Do not wait in a test."""
