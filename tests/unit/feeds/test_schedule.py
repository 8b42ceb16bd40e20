"""When a feed is asked again: after success, after failure, when its server asks for patience, and when it has moved."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

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
from stoppress.feeds.timing import Freshness, Hints
from stoppress.model.site import Site
from stoppress.model.site_sources import Feed

NOW = datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
EACH_MINUTE = Pace(MINUTE, MINUTE, own=True)
RANGE = Pace(MINUTE, 15 * MINUTE, own=True)
FOREIGN = Pace(15 * MINUTE, HOUR, own=False)
FEED, NEW_PLACE = "https://www.example.com/feed.xml", "https://new.example.com/feed.xml"


def wait(state: FeedState, pace: Pace, now: datetime = NOW) -> timedelta:
    """From the minute of a good poll to the next one."""
    due = after_success(state, now, pace).next_poll_at
    assert due
    return due - now.replace(second=0)


def test_a_feed_polled_in_one_minutes_run_is_due_in_the_run_an_interval_later() -> None:
    state = after_success(FeedState(), datetime(2026, 11, 20, 8, 0, 58, tzinfo=UTC), EACH_MINUTE)

    assert state.is_due(datetime(2026, 11, 20, 8, 1, 1, tzinfo=UTC))
    assert not state.is_due(datetime(2026, 11, 20, 8, 0, 59, tzinfo=UTC))


# ── how often ──


@pytest.mark.parametrize(
    ("quiet", "waits"),
    [
        (timedelta(), MINUTE), (23 * MINUTE, MINUTE), (24 * MINUTE, 2 * MINUTE), (2 * HOUR, 10 * MINUTE),
        (3 * HOUR, 15 * MINUTE), (7 * DAY, 15 * MINUTE),
    ],
)  # fmt: skip
def test_the_longer_nothing_new_has_come_the_more_seldom_a_feed_is_asked_up_to_its_cap(
    quiet: timedelta, waits: timedelta
) -> None:
    assert wait(FeedState(last_new=NOW - quiet, known_since=NOW - 30 * DAY), RANGE) == waits


def test_a_feed_that_never_had_a_story_is_quiet_since_it_is_known() -> None:
    assert wait(FeedState(), RANGE) == MINUTE
    assert wait(FeedState(known_since=NOW - HOUR), RANGE) == 5 * MINUTE


@pytest.mark.parametrize(
    ("url", "said", "pace"),
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
def test_a_feeds_pace_is_its_own_setting_or_what_is_usual_for_whose_it_is(
    url: str, said: dict[str, Any], pace: Pace
) -> None:
    site = Site(host="www.example.com", publication="Example News")

    assert pace_of(Feed(url=url, **said), site) == pace


@pytest.mark.parametrize("hints", [Hints(document_s=7_200), Hints(answer_s=7_200)])
def test_what_a_feed_of_others_asks_for_is_a_lower_bound_and_the_publishers_own_is_asked_as_configured(
    hints: Hints,
) -> None:
    assert after_success(FeedState(hints=hints), NOW, FOREIGN).next_poll_at == NOW + 2 * HOUR
    assert wait(FeedState(hints=hints), EACH_MINUTE) == MINUTE


def test_no_feed_is_left_alone_for_longer_than_a_day_whatever_it_says_of_itself() -> None:
    assert after_success(FeedState(hints=Hints(document_s=10**7)), NOW, FOREIGN).next_poll_at == NOW + DAY


def test_the_hours_and_days_that_a_feed_of_others_names_are_kept_free() -> None:
    morning = Hints(skip_hours=(8, 9, 10), skip_days=(5, 6))

    assert after_success(FeedState(hints=morning), NOW, FOREIGN).next_poll_at == NOW.replace(
        hour=11, minute=0, second=0
    )
    friday_night = NOW.replace(hour=23, minute=50)
    assert after_success(FeedState(hints=morning), friday_night, FOREIGN).next_poll_at == datetime(
        2026, 11, 23, tzinfo=UTC
    )
    assert wait(FeedState(hints=morning), EACH_MINUTE) == MINUTE


def test_a_feed_that_names_all_hours_is_asked_all_the_same() -> None:
    assert wait(FeedState(hints=Hints(skip_hours=tuple(range(24)))), FOREIGN) == 15 * MINUTE


@pytest.mark.parametrize(
    ("held", "new", "minutes", "turnover_s"),
    [(10, 4, 2, 300), (10, 10, 15, 900), (100, 1, 15, 90_000), (1, 1, 0, 1), (10, 0, 15, 240), (0, 0, 15, 240)],
)  # fmt: skip
def test_how_fast_a_feed_turns_over_is_told_by_what_is_new_since_the_last_good_poll(
    held: int, new: int, minutes: int, turnover_s: int
) -> None:
    state = FeedState(last_success=NOW - minutes * MINUTE, turnover_s=240)

    assert turned_over(state, held, new, NOW).turnover_s == turnover_s


def test_a_first_poll_tells_nothing_of_how_fast_a_feed_turns_over() -> None:
    assert turned_over(FeedState(), 10, 10, NOW).turnover_s is None


# ── when the state is written ──

POLLED = after_success(FeedState(), NOW, EACH_MINUTE)


@pytest.mark.parametrize(
    ("minutes", "change", "is_written"),
    [
        (1, {}, False),
        (14, {"newest": Freshness(made_at=NOW)}, False),
        (15, {}, True),  # operators read when a feed was last polled well
        (1, {"etag": '"2"'}, True),
    ],
)
def test_the_state_of_a_feed_polled_each_minute_is_written_if_more_than_times_have_changed(
    minutes: int, change: dict[str, Any], is_written: bool
) -> None:
    now = NOW + minutes * MINUTE

    assert must_be_written(POLLED, after_success(replace(POLLED, **change), now, EACH_MINUTE), now) is is_written


def test_the_state_of_a_feed_that_is_to_wait_is_written() -> None:
    assert must_be_written(POLLED, after_success(POLLED, NOW + MINUTE, Pace(2 * MINUTE, HOUR, own=True)), NOW + MINUTE)


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
    failed = FeedState()
    for _ in full:
        failed = after_failure(failed, NOW, EACH_MINUTE, "no answer")
    well = after_success(failed, NOW + HOUR, EACH_MINUTE)
    assert (failed.failures, failed.last_error, failed.failing_since) == (8, "no answer", NOW)
    assert (well.failures, well.last_error, well.failing_since, well.last_success) == (0, None, None, NOW + HOUR)


def test_feeds_of_one_broken_server_do_not_come_back_together() -> None:
    sixth = [waits_after_failures(f"{FEED}?{number}", EACH_MINUTE, 6)[-1] for number in range(100)]

    assert len({waited // MINUTE for waited in sixth}) >= 12
    assert min(sixth) < 48 * MINUTE < 57 * MINUTE < max(sixth)
    assert waits_after_failures(FEED, EACH_MINUTE) == waits_after_failures(FEED, EACH_MINUTE)


def test_a_feed_that_is_polled_every_two_hours_is_not_polled_more_often_when_it_fails() -> None:
    assert waits_after_failures(FEED, Pace(2 * HOUR, 2 * HOUR, own=True), 3) == [2 * HOUR] * 3


def test_a_feed_of_others_that_fails_is_asked_no_sooner_than_it_asks_for() -> None:
    state = after_failure(FeedState(hints=Hints(document_s=4 * 3_600)), NOW, FOREIGN, "no answer")

    assert state.next_poll_at == NOW.replace(second=0) + 4 * HOUR


@pytest.mark.parametrize(("pause", "waited"), [(HOUR, HOUR), (9 * DAY, DAY)])
def test_a_server_may_ask_for_a_pause_of_a_day_at_most(pause: timedelta, waited: timedelta) -> None:
    assert after_failure(FeedState(), NOW, EACH_MINUTE, "busy", pause=pause).next_poll_at == NOW + waited


def test_a_feed_that_is_gone_is_not_asked_again_until_the_configuration_is_put_again() -> None:
    state = after_failure(FeedState(), NOW, EACH_MINUTE, "the server answered 410", gone_by=3)

    assert state.is_gone(3)
    assert not state.is_due(NOW + 365 * DAY, 3)
    assert state.is_due(NOW + DAY, 4)
    assert state.is_due(NOW + DAY, 1), "a restored table counts from an earlier version"
    assert not after_success(state, NOW, EACH_MINUTE).is_gone(3)


def test_a_feed_that_is_gone_or_has_failed_for_an_hour_needs_somebody() -> None:
    state = after_failure(FeedState(), NOW, EACH_MINUTE, "no answer")
    again = after_failure(state, NOW + 30 * MINUTE, EACH_MINUTE, "no answer")

    assert not again.needs_somebody(NOW + 59 * MINUTE, 1)
    assert again.needs_somebody(NOW + HOUR, 1)
    assert after_failure(FeedState(), NOW, EACH_MINUTE, "gone", gone_by=1).needs_somebody(NOW, 1)
    assert not FeedState().needs_somebody(NOW, 1)


# ── feeds that move ──


def test_a_feed_that_has_moved_for_good_is_asked_at_its_new_place_and_once_a_day_at_the_old_one() -> None:
    state = moved(FeedState(), FEED, NEW_PLACE, FEED, NOW)
    an_hour_later = moved(state, NEW_PLACE, None, FEED, NOW + HOUR)

    assert state.url_to_ask(FEED, NOW + MINUTE) == NEW_PLACE
    assert an_hour_later.url_to_ask(FEED, NOW + MOVE_TRUSTED - MINUTE) == NEW_PLACE
    assert an_hour_later.url_to_ask(FEED, NOW + MOVE_TRUSTED) == FEED


THIRD = "https://third.example.com/feed.xml"


@pytest.mark.parametrize(
    ("asked", "permanent_url", "next_place"),
    [
        (NEW_PLACE, THIRD, THIRD),  # the new place sends on to another
        (FEED, None, FEED),  # the feed is back at its old place
        (NEW_PLACE, FEED, FEED),
    ],
)
def test_a_feed_is_asked_where_it_was_last_found(asked: str, permanent_url: str | None, next_place: str) -> None:
    state = moved(FeedState(), FEED, NEW_PLACE, FEED, NOW)

    assert moved(state, asked, permanent_url, FEED, NOW + HOUR).url_to_ask(FEED, NOW + HOUR) == next_place
