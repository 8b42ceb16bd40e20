"""What is left to do about a page, by its item in the table."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoppress.notify.page import PageVerdict
from stoppress.notify.state import GONE, PageState, after_failed_check, is_ready, seconds_until_check

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
MINUTE = timedelta(minutes=1)
PAGE = PageState("https://www.example.com/a", "v2", NOW)
MISSING = PageVerdict(ready=False, reason="answers 404", kind="status", is_gone=True)


@pytest.mark.parametrize(
    ("state", "seconds"),
    [
        (PAGE, 0),
        (replace(PAGE, notified="v1"), 0),
        (replace(PAGE, notified="v2"), None),
        (replace(PAGE, changed=NOW - timedelta(hours=48)), None),
        (replace(PAGE, notified="v1", tried_at=NOW - MINUTE), 600),
        (replace(PAGE, tried_at=NOW - 11 * MINUTE), 0),
        (replace(PAGE, checks=1, checked_at=NOW - timedelta(seconds=4)), 6),
        (replace(PAGE, checks=7, checked_at=NOW - MINUTE), 840),
    ],
)
def test_a_page_is_checked_unless_it_is_notified_or_has_to_wait(state: PageState, seconds: int | None) -> None:
    assert seconds_until_check(state, NOW) == seconds


def test_checks_are_repeated_for_ten_minutes_and_then_every_quarter_of_an_hour() -> None:
    state, now, seconds = PAGE, NOW, []
    while now < NOW + 40 * MINUTE:
        assert seconds_until_check(state, now) == 0
        state = after_failed_check(state, MISSING, now)
        seconds.append(seconds_until_check(state, now) or 0)
        now += timedelta(seconds=seconds[-1])
    assert seconds == [10, 20, 40, 80, 160, 290, 900, 900]
    assert (state.is_late, state.failing_since, state.reason) == (True, NOW, "answers 404")


@pytest.mark.parametrize(
    ("verdict", "listed", "gone"),
    [
        (PageVerdict(ready=True), True, False),
        (PageVerdict(ready=True, kind="robots"), True, False),
        (MISSING, False, True),
        (PageVerdict(ready=False, kind="redirect"), False, False),
        (PageVerdict(ready=False, kind="unreachable"), False, False),
    ],
)
def test_a_listed_page_must_be_ready_and_a_removed_one_must_answer_404_or_410(
    verdict: PageVerdict, *, listed: bool, gone: bool
) -> None:
    assert is_ready(PAGE, verdict) is listed
    assert is_ready(replace(PAGE, version=GONE), verdict) is gone
