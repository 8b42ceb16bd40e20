"""A feed's subscription at its hub, as a function of events and time."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoppress.feeds.feed_schedule import FeedState, Pace, after_success, interval_of
from stoppress.feeds.subscription import (
    BACKUP,
    GRACE,
    LEASE_USUAL,
    PUSHED_MAX,
    RETRY_FIRST,
    RETRY_MAX,
    EntryDigest,
    Subscription,
    failed,
    polled,
    pushed,
    requested,
    verified,
)
from stoppress.model.event import ArticleEvent, digest_of

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
MINUTE, HOUR, DAY = timedelta(minutes=1), timedelta(hours=1), timedelta(days=1)
HUB, TOPIC = "https://hub.example.net/", "https://www.example.com/rss.xml"
NEW = Subscription(HUB, TOPIC)
OWN = Pace(MINUTE, MINUTE, own=True)


def event(article: str = "flood", title: str = "Flood", updated_at: datetime | None = NOW) -> ArticleEvent:
    url = f"https://www.example.com/{article}"
    return ArticleEvent(
        site="www.example.com", source="feed", id=article, action="publish", received_at=NOW, updated_at=updated_at, url=url, title=title
    )  # fmt: skip


def subscribed(at: datetime = NOW, lease: timedelta = 10 * DAY) -> Subscription:
    state = verified(requested(NEW, HUB, TOPIC, at), int(lease.total_seconds()), at)
    assert state is not None
    return state


def trusted(at: datetime = NOW, *events: ArticleEvent) -> Subscription:
    return pushed(subscribed(at), events or (event(),), at)


# ── requests ──


def test_a_feed_with_another_topic_each_time_causes_few_requests_to_its_hub() -> None:
    state, requests = subscribed(), 0
    for minute in range(60):
        now, topic = NOW + minute * MINUTE, f"{TOPIC}?{minute}"
        if state.is_to_ask(HUB, topic, now):
            requests += 1
            state = requested(state, HUB, topic, now)
            state = verified(state, None, now) or state

    assert requests == 5


def test_failed_requests_to_a_hub_back_off_up_to_a_day() -> None:
    state, waits = None, []
    for _ in range(12):
        state = requested(state, HUB, TOPIC, NOW)
        assert state.next_ask_at is not None
        waits.append(state.next_ask_at - NOW)
        assert not state.is_to_ask(HUB, TOPIC, state.next_ask_at - MINUTE)
        assert state.is_to_ask(HUB, TOPIC, state.next_ask_at)

    full = [min(RETRY_FIRST * 2**number, RETRY_MAX) for number in range(12)]
    assert all(0.75 * most <= wait <= most for wait, most in zip(waits, full, strict=True))


def test_a_failure_is_noted_unless_the_hub_has_verified_meanwhile() -> None:
    state = requested(None, HUB, TOPIC, NOW)

    assert failed(state, NOW, "the hub answered 500").refused == "the hub answered 500"
    sure = verified(state, 3600, NOW)
    assert sure is not None
    assert failed(sure, NOW, "the connection broke off") == sure
    assert len(failed(state, NOW, "x" * 9_000).refused or "") == 500


# ── the lease ──


@pytest.mark.parametrize(
    ("lease_s", "lease"),
    [(None, LEASE_USUAL), (0, LEASE_USUAL), (60, MINUTE), (86_400, DAY), (999_999_999, timedelta(seconds=999_999_999))],
)
def test_a_requested_lease_is_valid_for_its_time_and_renewed_in_its_first_half(
    lease_s: int | None, lease: timedelta
) -> None:
    state = verified(requested(None, HUB, TOPIC, NOW), lease_s, NOW)

    assert state is not None
    assert (state.lease_until, state.holds(NOW + lease)) == (NOW + lease, False)
    assert not state.is_to_ask(HUB, TOPIC, NOW + max(0.375 * lease, RETRY_FIRST) - MINUTE)
    assert state.is_to_ask(HUB, TOPIC, NOW + max(0.5 * lease, RETRY_FIRST))
    again = verified(state, lease_s, NOW + MINUTE / 2)  # a hub that missed our answer
    assert again is not None
    assert again.lease_until == NOW + MINUTE / 2 + lease
    assert verified(state, lease_s, NOW + lease) is None
    assert verified(NEW, lease_s, NOW) is None


def test_the_leases_of_many_feeds_are_renewed_at_different_times_and_kept_meanwhile() -> None:
    moments = set()
    for number in range(20):
        state = verified(requested(None, HUB, f"{TOPIC}?{number}", NOW), int((10 * DAY).total_seconds()), NOW)
        assert state is not None
        assert state.next_ask_at is not None
        moments.add(state.next_ask_at - NOW)
        renewing = requested(state, state.hub, state.topic, state.next_ask_at)
        assert renewing.lease_until == state.lease_until
    assert max(moments) - min(moments) > DAY


# ── the trust ──


def test_a_hub_is_trusted_from_the_first_push_with_content_to_the_end_of_the_lease() -> None:
    assert subscribed().backup(NOW) is None
    assert pushed(subscribed(), [], NOW) == subscribed()
    assert trusted().is_trusted(NOW)
    assert trusted().last_push == NOW
    assert trusted().backup(NOW + 10 * DAY) is None
    assert polled(trusted(), [], (), NOW + 10 * DAY).trusted_since is None


def test_a_feed_is_polled_less_often_the_longer_its_hub_is_trusted() -> None:
    waits = [trusted().backup(NOW + time) for time in (MINUTE, HOUR, 3 * HOUR, 9 * DAY)]

    assert waits == [5 * timedelta(seconds=1), 5 * MINUTE, BACKUP, BACKUP]


FLOOD, MARKET, RISING = event(), event("market"), event(title="Flood rises", updated_at=NOW + MINUTE)
CLOSES = event(title="Flood closes the harbour")


@pytest.mark.parametrize(
    ("new", "seen", "hours", "blamed", "is_owed"),
    [
        ([], [digest_of(FLOOD)], 1, True, False),  # an earlier push contained it
        ([CLOSES], [], 1, True, False),  # the push omitted something
        ([RISING], [], 5, True, True),  # a new version that no push contained
        ([MARKET], [], 5, False, False),  # new because of another configuration
    ],
)
def test_an_entry_that_no_push_contained_is_owed_by_the_hub(
    new: list[ArticleEvent], seen: list[str], hours: int, blamed: bool, is_owed: bool
) -> None:
    assert bool(polled(trusted(), new, seen, NOW + hours * HOUR, blamed=blamed).owed) is is_owed


def test_an_entry_that_a_poll_finds_first_ends_the_trust_after_the_grace() -> None:
    state = polled(trusted(), [event("market")], (), NOW + 5 * HOUR)

    assert polled(trusted(), [event("market")], (), NOW + 12 * MINUTE).backup(NOW + 12 * MINUTE) == MINUTE
    assert state.is_trusted(NOW + 5 * HOUR)
    assert state.backup(NOW + 5 * HOUR) == GRACE
    assert state.backup(NOW + 5 * HOUR + 2 * MINUTE) == GRACE - 2 * MINUTE
    assert polled(state, [], (), NOW + 5 * HOUR + GRACE - MINUTE) == state
    over = polled(state, [], (), NOW + 5 * HOUR + GRACE)
    assert (over.trusted_since, over.owed, over.owed_since) == (None, (), None)
    assert over.backup(NOW + 5 * HOUR + GRACE) is None


@pytest.mark.parametrize(("age", "is_asked"), [(23 * HOUR, False), (25 * HOUR, True)])
def test_a_hub_that_lost_the_subscription_is_asked_again_at_intervals(age: timedelta, *, is_asked: bool) -> None:
    at = NOW + age
    over = polled(polled(trusted(), [event("market")], (), at - GRACE), [], (), at)

    assert over.is_to_ask(HUB, TOPIC, at) == is_asked
    assert over.lease_until == NOW + 10 * DAY
    again = requested(over, HUB, TOPIC, at)
    assert not again.is_to_ask(HUB, TOPIC, at + MINUTE)
    assert polled(pushed(again, [event("fair")], at), [], (), at + MINUTE).next_ask_at == again.next_ask_at


def test_a_push_of_the_owed_entries_within_the_grace_keeps_the_trust() -> None:
    at = NOW + 5 * HOUR
    state = polled(trusted(), [event("market"), event("ferry", updated_at=None)], (), at)

    paid = pushed(state, [event("market", title="The market"), event("ferry", updated_at=None)], at + MINUTE)
    unpaid = pushed(state, [event("fair"), event("market")], at + MINUTE)

    assert state.is_owed(event("market"))
    assert not state.is_owed(event("market", title="The market", updated_at=NOW + MINUTE))
    assert (paid.owed, paid.owed_since) == ((), None)
    assert polled(paid, [], (), at + GRACE).is_trusted(at + GRACE)
    assert not polled(unpaid, [], (), at + GRACE).is_trusted(at + GRACE)


# ── the last version of an entry ──


EDITED = event(title="Flood closes the harbour", updated_at=None)
UNDATED = event(updated_at=None)
LATER = event(updated_at=NOW + MINUTE, title="Flood closes the harbour")


@pytest.mark.parametrize(
    ("pushed_last", "entry", "polled_before", "is_news"),
    [
        (FLOOD, FLOOD, None, False),  # the last push contained it
        (FLOOD, MARKET, None, True),
        (FLOOD, MARKET, MARKET, False),  # the last poll found it
        (EDITED, UNDATED, UNDATED, True),  # it is again as before the last push
        (LATER, FLOOD, FLOOD, False),  # the feed lags behind its hub
        (LATER, event(updated_at=NOW + 2 * MINUTE), None, True),
    ],
)
def test_an_entry_from_neither_a_push_nor_a_poll_is_news(
    pushed_last: ArticleEvent, entry: ArticleEvent, polled_before: ArticleEvent | None, is_news: bool
) -> None:
    seen = {digest_of(polled_before)} if polled_before else ()
    assert trusted(NOW, pushed_last).has_news(entry, seen) is is_news


def test_a_mark_ends_when_a_poll_finds_its_entry_or_after_an_hour() -> None:
    state = trusted(NOW, event("flood"), event("market"), event("ferry"))

    after = polled(state, [event("market", title="The market")], [digest_of(event("flood"))], NOW + MINUTE)

    assert after.pushed == (EntryDigest.of(event("ferry")),)
    assert polled(after, [], [digest_of(event("fair"))], NOW + HOUR).pushed == ()


def test_an_entry_has_one_mark_and_the_number_of_marks_is_bounded() -> None:
    twice = pushed(trusted(), [event(title="Flood closes the harbour")], NOW)
    many = [event(str(number)) for number in range(2 * PUSHED_MAX)]

    assert [digest.digest for digest in twice.pushed] == [digest_of(event(title="Flood closes the harbour"))]
    assert pushed(trusted(), many, NOW).pushed == tuple(EntryDigest.of(item) for item in many[:PUSHED_MAX])


# ── when the feed is polled ──


def at_this_hub(**changes: object) -> FeedState:
    return replace(FeedState(hub=HUB, topic=TOPIC, known_since=NOW), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("subscription", "hub", "turnover", "idle", "waits"),
    [
        (trusted(), HUB, None, 6 * HOUR, BACKUP),
        (subscribed(), HUB, None, 6 * HOUR, MINUTE),
        (None, HUB, None, 6 * HOUR, MINUTE),
        (trusted(), "https://other.example.net/", None, 6 * HOUR, MINUTE),  # the feed has left this hub
        # Before half of the feed's entries are replaced, unless the feed is idle.
        (trusted(), HUB, 5 * MINUTE, MINUTE, 2 * MINUTE),
        (trusted(), HUB, 20 * MINUTE, MINUTE, 10 * MINUTE),
        (trusted(), HUB, HOUR, MINUTE, BACKUP),
        (trusted(), HUB, timedelta(seconds=20), MINUTE, MINUTE),
        (trusted(), HUB, 5 * MINUTE, HOUR, 5 * MINUTE),
        (trusted(), HUB, 5 * MINUTE, 4 * HOUR, BACKUP),
    ],
)
def test_a_feed_whose_hub_is_trusted_is_polled_as_a_backup(
    subscription: Subscription | None, hub: str, turnover: timedelta | None, idle: timedelta, waits: timedelta
) -> None:
    at = NOW + 6 * HOUR
    seconds = int(turnover.total_seconds()) if turnover else None
    state = at_this_hub(hub=hub, turnover_s=seconds, last_new=at - idle)

    assert interval_of(state, at, OWN, subscription) == waits


def test_the_poll_comes_when_the_lease_is_to_be_renewed() -> None:
    state = pushed(subscribed(lease=HOUR), [event()], NOW - 6 * HOUR)
    assert state.next_ask_at is not None
    before = state.next_ask_at - 7 * MINUTE

    assert interval_of(at_this_hub(), before, OWN, state) == 7 * MINUTE
    assert interval_of(at_this_hub(), state.next_ask_at + MINUTE, OWN, state) == MINUTE


def test_a_push_is_news_of_the_feed_for_its_own_pace_too() -> None:
    state = at_this_hub(last_new=NOW - 6 * HOUR)
    pace = Pace(MINUTE, HOUR, own=True)

    polled_now = after_success(state, NOW + MINUTE, pace, replace(trusted(), trusted_since=None))

    assert polled_now.last_new == NOW
    assert polled_now.next_poll_at == NOW + 2 * MINUTE
