"""A refused delivery on its whole way: from the webhook over the queue to the table, where it can be read back."""

from datetime import date
from pathlib import Path

import pytest

from stoppress.aws import refusals
from tests.support.operated import CMS, HOST, event, on_the_bus, operated, url
from tests.support.playing import Step

pytestmark = pytest.mark.moto


def forged(minute: int, number: int) -> Step:
    """An event with a wrong signature."""
    return {**event(minute, str(number), "flood"), "headers": {"webhook-signature": "v1,AAAA"}}


def test_what_was_refused_or_ignored_can_be_read_back_and_what_was_accepted_is_not_among_it(tmp_path: Path) -> None:
    steps: list[Step] = [
        event(1, "1", "listed"),
        event(2, "2", "untitled", title=""),
        event(3, "3", "misspelt", kind="article.publish"),
        {
            "at": "2026-11-20T12:04:00Z",
            "post": CMS,
            "body": {"type": "comment.created", "data": {"id": 4}},
            "sign": True,
        },
        {"at": "2026-11-20T12:05:00Z", "post": CMS, "body": "{", "sign": True},
        on_the_bus(id="6", url=url("on-the-bus"), title="On the bus"),
    ]
    with operated(steps, tmp_path) as stack:
        kept = [
            (refusal.outcome, refusal.id, refusal.url, refusal.reason[:30])
            for refusal in refusals.read(HOST, 100, stack.clock.now())
        ]
        counts = refusals.counts_of_day(HOST, date(2026, 11, 20), ["cms", "bus"])

        assert kept == [
            ("refused", "", "", "the body is not JSON: Expectin"),
            ("ignored", "4", "", "'comment.created' is not one o"),
            ("refused", "3", url("misspelt"), "type: 'article.publish' is not"),
            ("refused", "2", url("untitled"), "title: is empty: give the head"),
        ]
        assert [(count.source, count.refused, count.unverified) for count in counts] == [("cms", 4, 0)]
        assert stack.metrics["EventsReceived"] == stack.metrics["EventsListed"] == 2


def test_a_flood_of_wrong_signatures_writes_one_number_a_minute(tmp_path: Path) -> None:
    flood = [forged(minute, number) for minute in (1, 2) for number in range(100)]
    with operated(flood, tmp_path) as stack:
        [count] = refusals.counts_of_day(HOST, date(2026, 11, 20), ["cms", "bus"])

        assert refusals.read(HOST, 100, stack.clock.now()) == []
        assert (count.refused, count.unverified) == (0, 101)
        assert stack.functions["RecordArticle"].invocations == 2
