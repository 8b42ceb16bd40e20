"""The door to what was refused: kept for 90 days, a bounded number a day, newest first, and counted."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from stoppress.aws import refusals, table
from stoppress.aws.queues import BATCH_BYTES_MAX
from stoppress.aws.refusals import CHARACTERS_MAX, SLOTS, Count, Refusal, Report, read_report
from stoppress.primitives.instants import epoch_seconds
from tests.support import doors
from tests.support.doors import Doors, once_before
from tests.support.ledger import HOST, MORNING, page

pytestmark = pytest.mark.moto

DAY = "2026-11-20"
EMPTY = Refusal(at=MORNING, source="cms", outcome="refused", reason="title: is empty", id="1042", url=page("flood"))


@pytest.fixture(autouse=True)
def behind(monkeypatch: pytest.MonkeyPatch) -> Iterator[Doors]:
    with doors.opened(MORNING) as opened:
        monkeypatch.setattr(table, "back_off", lambda attempt: None)  # nobody waits in a test
        yield opened


def report(*of: Refusal, **fields: Any) -> Report:
    return replace(Report(site=HOST, source="cms", at=MORNING, refusals=of), **fields)


def test_a_refusal_is_read_back_as_it_was_kept_and_goes_after_90_days(behind: Doors) -> None:
    refusals.keep([report(EMPTY)])

    assert list(refusals.read(HOST)) == [EMPTY]
    assert {int(item["ttl"]) for item in behind.items("refused#")} == {epoch_seconds(MORNING + timedelta(days=90))}


def test_refusals_come_newest_first_over_days_and_sources() -> None:
    later = replace(EMPTY, at=MORNING + timedelta(days=1), source="bus", outcome="ignored")
    refusals.keep([report(EMPTY), report(later, at=later.at, source="bus")])

    assert list(refusals.read(HOST)) == [later, EMPTY]
    assert [(count.day, count.source, count.refused) for count in refusals.counts(HOST)] == [
        ("2026-11-21", "bus", 1),
        (DAY, "cms", 1),
    ]


def test_a_day_keeps_the_newest_of_a_source_and_counts_all(behind: Doors) -> None:
    of_day = [replace(EMPTY, id=str(number), at=MORNING + timedelta(seconds=number)) for number in range(3 * SLOTS)]
    for each in of_day[:SLOTS]:
        refusals.keep([report(each, at=each.at)])
    refusals.keep(report(each, at=each.at) for each in of_day[SLOTS:])

    assert list(refusals.read(HOST)) == of_day[: -SLOTS - 1 : -1]
    assert refusals.counts(HOST) == [Count(day=DAY, source="cms", refused=3 * SLOTS)]
    assert len(behind.items("refused#")) == SLOTS + 1


def test_unverified_requests_are_only_counted() -> None:
    refusals.keep([report(unverified=1), report(unverified=499), report(unverified=3, source="wire")])

    assert list(refusals.read(HOST)) == []
    assert {count.source: count.unverified for count in refusals.counts(HOST)} == {"cms": 500, "wire": 3}


def test_two_writers_of_one_day_lose_nothing() -> None:
    other = replace(EMPTY, id="7")
    with once_before(table, "put", lambda: refusals.keep([report(other)])):
        refusals.keep([report(EMPTY)])

    assert {refusal.id for refusal in refusals.read(HOST)} == {"1042", "7"}
    assert refusals.counts(HOST) == [Count(day=DAY, source="cms", refused=2)]


def test_a_message_holds_the_report_with_long_texts_cut() -> None:
    long = replace(EMPTY, id="i" * 9_000, url="u" * 9_000, reason="é\ud800" * 9_000, delivery="d" * 9_000)
    message = report(long, unverified=2).message()
    (read,) = read_report(json.loads(message)).refusals

    assert message.isascii()
    assert {name: len(getattr(read, name)) for name in CHARACTERS_MAX} == CHARACTERS_MAX
    assert "\ud800" not in read.reason
    refusals.keep([report(long)])  # DynamoDB takes the same texts
    assert list(refusals.read(HOST)) == [read]


def test_the_largest_report_fits_in_one_message_of_sqs() -> None:
    long = replace(EMPTY, id="é" * 9_000, url="é" * 9_000, reason="é" * 9_000, delivery="é" * 9_000)
    assert len(report(*[long] * SLOTS).message()) < BATCH_BYTES_MAX


@pytest.mark.parametrize(
    "fields", [{"at": "today"}, {"source": None, "at": None}, {"refusals": [None]}, {"refusals": 7}, {"refusals": [{}]}]
)
def test_a_message_of_another_shape_is_no_report(fields: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"report of refusals|not an ISO 8601"):
        read_report(json.loads(report(EMPTY).message()) | fields)
