"""When a feed is polled next: after success, after failure, when its server requests a wait, and after a move."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.feeds.feed_hints import Freshness, Hints
from stoppress.feeds.feed_schedule import (
    MOVE_TRUSTED,
    FeedState,
    Pace,
    after_failure,
    after_success,
    moved,
    must_be_written,
    pace_of,
    turned_over,
)
from stoppress.model.site import Site
from stoppress.model.site_parts import Feed

NOW = datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
EACH_MINUTE = Pace(MINUTE, MINUTE, own=True)
RANGE = Pace(MINUTE, 15 * MINUTE, own=True)
FOREIGN = Pace(15 * MINUTE, HOUR, own=False)
FEED, NEW_PLACE = "https://www.example.com/feed.xml", "https://new.example.com/feed.xml"


def wait(state: FeedState, pace: Pace, now: datetime = NOW) -> timedelta:
    """Return the time from a successful poll to the next one."""
    due = after_success(state, now, pace).next_poll_at
    assert due
    return due - now.replace(second=0)


# ── how often ──


@pytest.mark.parametrize(
    ("state", "waits"),
    [
        *[
            (FeedState(last_new=NOW - idle, known_since=NOW - 30 * DAY), waits)
            for idle, waits in (
                (timedelta(), MINUTE), (23 * MINUTE, MINUTE), (24 * MINUTE, 2 * MINUTE), (2 * HOUR, 10 * MINUTE),
                (3 * HOUR, 15 * MINUTE), (7 * DAY, 15 * MINUTE),
            )
        ],
        (FeedState(), MINUTE),
        (FeedState(known_since=NOW - HOUR), 5 * MINUTE),
    ],
)  # fmt: skip
def test_a_feed_without_new_entries_is_polled_less_and_less_often(state: FeedState, waits: timedelta) -> None:
    assert wait(state, RANGE) == waits
    due = after_success(state, NOW.replace(second=58), RANGE)
    in_its_minute = NOW.replace(second=0) + waits
    assert due.is_due(in_its_minute + timedelta(seconds=1))
    assert not due.is_due(in_its_minute - timedelta(seconds=1))


@pytest.mark.parametrize(
    ("url", "settings", "pace"),
    [
        ("https://www.example.com/feed", {}, EACH_MINUTE),
        ("https://example.com/feed", {}, EACH_MINUTE),
        ("https://feeds.example.com/main", {}, EACH_MINUTE),
        ("https://www.example.com/feed", {"interval_minutes": 5}, Pace(5 * MINUTE, 5 * MINUTE, own=True)),
        ("https://www.example.com/feed", {"interval_max_minutes": 15}, RANGE),
        ("https://www.example.com/feed", {"interval_minutes": 20, "interval_max_minutes": 5}, Pace(20 * MINUTE, 20 * MINUTE, own=True)),
        ("https://wire.example.net/feed", {}, FOREIGN),
        ("https://notexample.com/feed", {}, FOREIGN),
        ("https://wire.example.net/feed", {"interval_minutes": 2}, Pace(2 * MINUTE, HOUR, own=False)),
        ("https://wire.example.net/feed", {"own": True}, EACH_MINUTE),
        ("https://www.example.com/partner", {"own": False}, FOREIGN),
    ],
)  # fmt: skip
def test_a_feeds_pace_is_its_setting_or_the_default(url: str, settings: dict[str, Any], pace: Pace) -> None:
    site = Site(host="www.example.com", publication="Example News")

    assert pace_of(Feed(url=url, **settings), site) == pace


AT_EIGHT = NOW.replace(second=0)
MORNINGS_AND_WEEKENDS = Hints(skip_hours=(8, 9, 10), skip_days=(5, 6))


@pytest.mark.parametrize(
    ("hints", "now", "due"),
    [
        (Hints(document_s=7_200), NOW, NOW + 2 * HOUR),
        (Hints(answer_s=7_200), NOW, NOW + 2 * HOUR),
        (Hints(document_s=10**7), NOW, NOW + DAY),  # no longer than a day
        (MORNINGS_AND_WEEKENDS, NOW, AT_EIGHT.replace(hour=11)),
        (MORNINGS_AND_WEEKENDS, NOW.replace(hour=23, minute=50), datetime(2026, 11, 23, tzinfo=UTC)),
        (Hints(skip_hours=tuple(range(24))), NOW, AT_EIGHT + 15 * MINUTE),  # all hours
    ],
)
def test_hints_of_a_foreign_feed_are_a_lower_bound_and_an_own_feed_is_as_configured(
    hints: Hints, now: datetime, due: datetime
) -> None:
    assert after_success(FeedState(hints=hints), now, FOREIGN).next_poll_at == due
    assert wait(FeedState(hints=hints), EACH_MINUTE, now) == MINUTE
    if hints.document_s == 7_200:
        assert after_failure(FeedState(hints=hints), now, FOREIGN, "").next_poll_at == AT_EIGHT + 2 * HOUR


@pytest.mark.parametrize(
    ("held", "new", "minutes", "turnover_s"),
    [(10, 4, 2, 300), (10, 10, 15, 900), (100, 1, 15, 90_000), (1, 1, 0, 1), (10, 0, 15, 240), (0, 0, 15, 240)],
)  # fmt: skip
def test_the_turnover_of_a_feed_is_measured_by_what_is_new_since_the_last_good_poll(
    held: int, new: int, minutes: int, turnover_s: int
) -> None:
    state = FeedState(last_success=NOW - minutes * MINUTE, turnover_s=240)

    assert turned_over(state, held, new, NOW).turnover_s == turnover_s
    assert turned_over(FeedState(), held, new, NOW).turnover_s is None  # a first poll


# ── when the state is written ──

POLLED = after_success(FeedState(), NOW, EACH_MINUTE)


@pytest.mark.parametrize(
    ("minutes", "change", "pace", "is_written"),
    [
        (1, {}, EACH_MINUTE, False),
        (14, {"newest": Freshness(made_at=NOW)}, EACH_MINUTE, False),
        (15, {}, EACH_MINUTE, True),  # operators read the time of the last successful poll
        (1, {"etag": '"2"'}, EACH_MINUTE, True),
        (1, {}, Pace(2 * MINUTE, HOUR, own=True), True),  # a server requests a wait
    ],
)
def test_the_state_of_a_feed_is_written_if_more_than_times_have_changed(
    minutes: int, change: dict[str, Any], pace: Pace, is_written: bool
) -> None:
    now = NOW + minutes * MINUTE

    assert must_be_written(POLLED, after_success(replace(POLLED, **change), now, pace), now) is is_written


# ── failures ──


def waits_after_failures(url: str, pace: Pace, number: int = 8) -> list[timedelta]:
    state, waits = FeedState(), []
    for _ in range(number):
        state = after_failure(state, NOW, pace, "no answer", url=url)
        assert state.next_poll_at
        waits.append(state.next_poll_at - NOW.replace(second=0))
    return waits


def test_waiting_doubles_with_each_failure_up_to_an_hour_and_ends_with_success() -> None:
    full = [minutes * MINUTE for minutes in (2, 4, 8, 16, 32, 60, 60, 60)]

    waits = waits_after_failures(FEED, EACH_MINUTE)

    assert all(0.75 * most <= waited <= most for waited, most in zip(waits, full, strict=True))
    assert waits_after_failures(FEED, Pace(2 * HOUR, 2 * HOUR, own=True), 3) == [2 * HOUR] * 3
    failed = FeedState()
    for minute in (0, 30, 59):
        failed = after_failure(failed, NOW + minute * MINUTE, EACH_MINUTE, "no answer")
        assert not failed.needs_attention(NOW + minute * MINUTE, 1)
    assert failed.needs_attention(NOW + HOUR, 1)
    well = after_success(failed, NOW + HOUR, EACH_MINUTE)
    assert (failed.failures, failed.last_error, failed.failing_since) == (3, "no answer", NOW)
    assert (well.failures, well.last_error, well.failing_since, well.last_success) == (0, None, None, NOW + HOUR)


def test_feeds_of_one_broken_server_are_not_retried_together() -> None:
    sixth = [waits_after_failures(f"{FEED}?{number}", EACH_MINUTE, 6)[-1] for number in range(100)]

    assert len({waited // MINUTE for waited in sixth}) >= 12
    assert min(sixth) < 48 * MINUTE < 57 * MINUTE < max(sixth)
    assert waits_after_failures(FEED, EACH_MINUTE) == waits_after_failures(FEED, EACH_MINUTE)


@pytest.mark.parametrize(("pause", "waited"), [(HOUR, HOUR), (9 * DAY, DAY)])
def test_a_server_may_ask_for_a_pause_of_a_day_at_most(pause: timedelta, waited: timedelta) -> None:
    assert after_failure(FeedState(), NOW, EACH_MINUTE, "busy", pause=pause).next_poll_at == NOW + waited


def test_a_gone_feed_is_not_polled_until_the_configuration_is_put_again() -> None:
    state = after_failure(FeedState(), NOW, EACH_MINUTE, "the server answered 410", gone_by=3)

    assert state.is_gone(3)
    assert state.needs_attention(NOW, 3)
    assert not state.is_due(NOW + 365 * DAY, 3)
    assert state.is_due(NOW + DAY, 4)
    assert state.is_due(NOW + DAY, 1), "a restored table counts from an earlier version"
    assert not after_success(state, NOW, EACH_MINUTE).is_gone(3)


# ── feeds that move ──


THIRD = "https://third.example.com/feed.xml"


@pytest.mark.parametrize(
    ("polled_url", "permanent_url", "next_place", "after_a_day"),
    [
        (NEW_PLACE, None, NEW_PLACE, FEED),  # once a day the old address is polled again
        (NEW_PLACE, THIRD, THIRD, THIRD),  # the new address redirects to another
        (FEED, None, FEED, FEED),  # the feed is back at its old address
        (NEW_PLACE, FEED, FEED, FEED),
    ],
)
def test_a_feed_is_polled_at_its_last_address(
    polled_url: str, permanent_url: str | None, next_place: str, after_a_day: str
) -> None:
    state = moved(FeedState(), FEED, NEW_PLACE, FEED, NOW)
    assert state.url_to_ask(FEED, NOW + MINUTE) == NEW_PLACE

    later = moved(state, polled_url, permanent_url, FEED, NOW + HOUR)

    assert later.url_to_ask(FEED, NOW + MOVE_TRUSTED - MINUTE) == next_place
    assert later.url_to_ask(FEED, NOW + MOVE_TRUSTED) == after_a_day
