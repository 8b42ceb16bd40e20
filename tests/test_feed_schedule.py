"""When a feed is asked again: after success, after failure, and when its server asks for patience."""

from datetime import UTC, datetime, timedelta

import pytest

from stoppress.feed_schedule import FeedState, after_failure, after_success

NOW = datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC)


def test_a_feed_polled_in_one_minutes_run_is_due_in_the_run_an_interval_later() -> None:
    state = after_success(FeedState(), datetime(2026, 11, 20, 8, 0, 58, tzinfo=UTC), interval_minutes=1)

    assert state.is_due(datetime(2026, 11, 20, 8, 1, 1, tzinfo=UTC))
    assert not state.is_due(datetime(2026, 11, 20, 8, 0, 59, tzinfo=UTC))


def test_waiting_doubles_with_each_failure_up_to_an_hour_and_ends_with_success() -> None:
    state, waits = FeedState(), []
    for _ in range(8):
        state = after_failure(state, NOW, 1, "no answer")
        assert state.next_poll_at
        waits.append((state.next_poll_at - NOW.replace(second=0)) // timedelta(minutes=1))

    assert waits == [2, 4, 8, 16, 32, 60, 60, 60]
    assert (state.failures, state.last_error) == (8, "no answer")
    well = after_success(state, NOW, 1)
    assert (well.failures, well.last_error, well.last_success) == (0, None, NOW)


def test_a_feed_that_is_polled_every_two_hours_is_not_polled_more_often_when_it_fails() -> None:
    assert after_failure(FeedState(), NOW, 120, "no answer").next_poll_at == NOW.replace(second=0) + timedelta(hours=2)


@pytest.mark.parametrize(
    ("retry_after", "wait"),
    [
        ("3600", timedelta(hours=1)),
        ("Fri, 20 Nov 2026 10:00:30 GMT", timedelta(hours=2)),
        ("999999999999999", timedelta(days=1)),
        ("Fri, 20 Nov 2099 10:00:30 GMT", timedelta(days=1)),
    ],
)
def test_a_server_is_left_alone_as_long_as_it_asks_but_not_longer_than_a_day(retry_after: str, wait: timedelta) -> None:
    assert after_failure(FeedState(), NOW, 1, "busy", retry_after=retry_after).next_poll_at == NOW + wait


@pytest.mark.parametrize("retry_after", ["", "soon", "-5", "Fri, 20 Nov 2020 10:00:30 GMT", "²"])
def test_a_wish_that_cannot_be_read_changes_nothing(retry_after: str) -> None:
    asked = after_failure(FeedState(), NOW, 1, "busy", retry_after=retry_after)

    assert asked == after_failure(FeedState(), NOW, 1, "busy")


def test_a_feed_that_is_gone_is_asked_once_a_day() -> None:
    state = after_failure(FeedState(), NOW, 1, "the server answered 410", gone=True)

    assert state.gone
    assert state.next_poll_at == NOW.replace(second=0) + timedelta(days=1)
    assert not after_success(state, NOW, 1).gone
