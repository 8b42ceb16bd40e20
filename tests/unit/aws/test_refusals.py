"""Refusals in the table: kept for 90 days, a bounded number a day, newest first, and counted."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.aws import refusals, table
from stoppress.aws.queues import BATCH_BYTES_MAX
from stoppress.aws.refusals import BYTES_MAX, SLOTS, Count, Refusal, Report, read_report
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, page
from tests.support.moto_aws import MotoAws, counted, once_before

pytestmark = pytest.mark.moto

DAY = "2026-11-20"
EMPTY = Refusal(at=MORNING, source="cms", outcome="refused", reason="title: is empty", id="1042", url=page("flood"))


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoAws]:
    with moto_aws.opened(MORNING) as opened:
        monkeypatch.setattr(table, "back_off", lambda attempt: None)  # no waits in a test
        yield opened


def kept(number: int = 1_000) -> list[Refusal]:
    return refusals.read(HOST, number, datetime.now(UTC))


def report(*of: Refusal, **fields: Any) -> Report:
    return replace(Report(site=HOST, source="cms", at=MORNING, refusals=of), **fields)


def test_a_day_keeps_a_sources_newest_refusals_and_counts_all(aws: MotoAws) -> None:
    of_day = [replace(EMPTY, id=str(number), at=MORNING + timedelta(seconds=number)) for number in range(3 * SLOTS)]
    for each in of_day[:SLOTS]:
        refusals.keep([report(each, at=each.at)])
    refusals.keep(report(each, at=each.at) for each in of_day[SLOTS:])

    assert kept() == of_day[: -SLOTS - 1 : -1]
    assert refusals.counts_of_day(HOST, MORNING.date(), ["cms", "wire"]) == [
        Count(day=DAY, source="cms", refused=3 * SLOTS)
    ]
    assert len(aws.items("refused#")) == SLOTS + 1


def test_unverified_requests_are_only_counted() -> None:
    refusals.keep([report(unverified=1), report(unverified=499), report(unverified=3, source="wire")])

    assert kept() == []
    assert {
        count.source: count.unverified for count in refusals.counts_of_day(HOST, MORNING.date(), ["cms", "wire"])
    } == {"cms": 500, "wire": 3}


def test_two_writers_of_one_day_lose_nothing() -> None:
    other = replace(EMPTY, id="7")
    with once_before(table, "put", lambda: refusals.keep([report(other)])):
        refusals.keep([report(EMPTY)])

    assert {refusal.id for refusal in kept()} == {"1042", "7"}
    assert refusals.counts_of_day(HOST, MORNING.date(), ["cms", "wire"]) == [Count(day=DAY, source="cms", refused=2)]


def test_a_message_contains_the_report_with_long_texts_cut() -> None:
    long = replace(
        EMPTY, id="i" * 9_000, url="u" * 9_000, title="t" * 9_000, reason="é\ud800" * 9_000, delivery="d" * 9_000
    )
    message = report(long, unverified=2).message()
    (read,) = read_report(json.loads(message) | {"of_next_version": 1}).refusals

    assert message.isascii()
    assert {name: len(getattr(read, name).encode()) for name in BYTES_MAX} == BYTES_MAX
    assert "\ud800" not in read.reason
    refusals.keep([report(long)])  # DynamoDB takes the same texts
    assert kept() == [read]


@pytest.mark.parametrize("character", ["é", "\x00", "🌊", "\ud800"])
def test_the_largest_report_fits_in_one_message_of_sqs(character: str) -> None:
    text = character * 9_000
    long = replace(EMPTY, id=text, url=text, reason=text, delivery=text)
    assert len(report(*[long] * SLOTS).message()) < BATCH_BYTES_MAX


def keep_days(days: int) -> list[Refusal]:
    """Keep two sources' full days of refusals, more than a page of a query. Return them newest first."""
    instants = [MORNING + timedelta(days=day, seconds=second) for day in range(days) for second in range(SLOTS)]
    of_all = [
        replace(EMPTY, at=at, source=source, reason="x" * 500, id=str(at))
        for at in instants
        for source in ("cms", "bus")
    ]
    refusals.keep(report(each, at=each.at, source=each.source) for each in of_all)
    return sorted(of_all, key=lambda refusal: refusal.at, reverse=True)


def test_only_as_many_days_as_needed_are_read() -> None:
    newest = keep_days(20)

    for number in (1, 30, 3 * SLOTS):
        assert [refusal.at for refusal in kept(number)] == [refusal.at for refusal in newest[:number]]
    with counted("dynamodb", "Query") as calls:
        assert len(kept(SLOTS)) == SLOTS
    assert len(calls) == 1
    with counted("dynamodb", "Query") as calls:
        assert len(kept(5_000)) == 20 * 2 * SLOTS
    assert len(calls) > 1


def test_expired_items_are_not_read(aws: MotoAws) -> None:
    refusals.keep([report(EMPTY)])
    aws.clock.shift(timedelta(days=90, seconds=-1))
    assert kept() == [EMPTY]
    aws.clock.shift(timedelta(days=90))

    assert kept() == []
    assert len(list(refusals.stored(HOST))) == 1  # DynamoDB has not deleted it yet


@pytest.mark.parametrize(
    "fields", [{"at": "today"}, {"source": None, "at": None}, {"refusals": [None]}, {"refusals": 7}, {"refusals": [{}]}]
)
def test_a_message_of_another_shape_is_no_report(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"report of refusals|not an ISO 8601"):
        read_report(json.loads(report(EMPTY).message()) | fields)
