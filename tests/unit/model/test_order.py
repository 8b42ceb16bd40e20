"""The rule of order, one sentence each: which of two words about an article is the newer one."""

from datetime import datetime, timedelta
from itertools import permutations

import pytest

from stoppress.model.event import ArticleEvent
from stoppress.model.order import DELIVERIES_KEPT, Order, Removal, is_claimed_before, known_by, remembered
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import identity
from tests.support.ledger import MORNING, Ledger, page, publish, remove

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def order(
    heard: timedelta = timedelta(),
    timestamp: timedelta | None = None,
    version: int | timedelta | None = None,
    sequence: int | None = None,
    removal: Removal = "",
) -> Order:
    """An event that was heard so long after eight; its instants are given the same way."""
    return Order(
        version=exact(MORNING + version) if isinstance(version, timedelta) else version,
        sequence=sequence,
        timestamp=None if timestamp is None else exact(MORNING + timestamp),
        heard=exact(MORNING + heard),
        removal=removal,
    )


def newer(one: Order, other: Order) -> Order | None:
    """The newer of two events, whichever is asked first; None where nothing tells."""
    assert not (one.is_before(other) and other.is_before(one))
    return other if one.is_before(other) else one if other.is_before(one) else None


def test_the_higher_version_is_newer_whenever_it_was_heard() -> None:
    old, new = order(HOUR, version=1), order(version=2)
    assert newer(old, new) == new


def test_of_one_version_the_higher_sequence_is_newer_if_both_have_one() -> None:
    old, new = order(HOUR, version=7, sequence=1), order(version=7, sequence=2)
    assert newer(old, new) == new
    without = order(2 * HOUR, version=7, removal="unpublished")
    assert newer(new, without) == without


def test_timestamps_decide_where_one_version_was_ahead_and_came_in_time_and_the_other_came_late() -> None:
    old, new = order(25 * HOUR, version=2 * HOUR, timestamp=timedelta()), order(version=3 * HOUR, timestamp=HOUR)
    assert newer(old, new) == new
    plain = order(version=2 * HOUR), order(3 * HOUR, version=HOUR)
    assert newer(*plain) == plain[1]
    same = order(version=2 * HOUR, timestamp=timedelta()), order(3 * HOUR, version=HOUR, timestamp=timedelta())
    assert newer(*same) == same[1]


def test_a_number_and_an_instant_are_no_versions_of_one_kind() -> None:
    number, instant = order(version=9, timestamp=timedelta()), order(MINUTE, version=-HOUR, timestamp=MINUTE)
    assert newer(number, instant) == instant


def test_timestamps_decide_as_the_sender_gave_them() -> None:
    old, new = order(HOUR, timestamp=timedelta()), order(MINUTE, timestamp=MINUTE)
    assert newer(old, new) == new


@pytest.mark.parametrize("ahead", [timedelta(seconds=30), 3 * MINUTE, 2 * HOUR, -5 * HOUR])
def test_a_clock_that_is_always_wrong_by_the_same_orders_its_events(ahead: timedelta) -> None:
    publication = order(MINUTE, timestamp=ahead)
    removal = order(2 * MINUTE, timestamp=ahead + MINUTE, removal="unpublished")
    assert newer(publication, removal) == removal


def test_what_follows_a_clock_that_was_set_right_is_newer() -> None:
    ahead, right = order(timestamp=2 * HOUR), order(MINUTE, timestamp=MINUTE)
    assert newer(ahead, right) == right


def test_an_event_from_before_stays_older_though_the_newer_clock_was_ahead() -> None:
    """Sent a minute before the other by the same clock, delayed until it looks like an event of the past."""
    removal = order(MINUTE, timestamp=4 * MINUTE, removal="unpublished")
    delayed = order(HOUR, timestamp=timedelta(seconds=30))
    assert newer(removal, delayed) == removal


def test_a_version_in_the_far_future_holds_back_nothing() -> None:
    mistyped, right = order(version=timedelta(days=30_000)), order(MINUTE, version=MINUTE)
    assert newer(mistyped, right) == right


def test_without_timestamps_the_order_of_hearing_decides() -> None:
    old, new = order(timestamp=None), order(MINUTE, timestamp=None, removal="unpublished")
    assert newer(old, new) == new


def test_of_equal_timestamps_the_removal_wins_but_in_a_burst_the_one_that_is_heard_later() -> None:
    at = timedelta()
    removal = order(timestamp=at, removal="unpublished")
    in_the_burst, much_later = order(timedelta(seconds=2), timestamp=at), order(MINUTE, timestamp=at)
    assert newer(removal, in_the_burst) == in_the_burst
    assert newer(removal, much_later) == removal
    assert newer(removal, order(timestamp=at)) == removal


def test_a_version_that_never_changes_orders_nothing() -> None:
    removal, again = order(version=1, removal="unpublished"), order(MINUTE, version=1)
    assert newer(removal, again) == again


def test_after_a_deletion_versions_begin_anew() -> None:
    deletion = order(timestamp=timedelta(), version=5, removal="deleted")
    assert newer(deletion, new := order(HOUR, timestamp=HOUR, version=1)) == new
    unpublished = order(timestamp=timedelta(), version=5, removal="unpublished")
    assert newer(unpublished, order(HOUR, timestamp=HOUR, version=1)) == unpublished


def test_clocks_of_two_sources_are_compared_by_ours_where_they_are_ahead() -> None:
    ahead, right = order(timestamp=2 * HOUR), order(MINUTE, timestamp=MINUTE)
    assert is_claimed_before(ahead, right, same_source=False)


# ── repeats ──


def test_a_repeat_is_known_by_its_id_or_by_type_timestamp_and_content() -> None:
    def names(**values: object) -> set[str]:
        given: dict[str, object] = {
            "verb": "updated",
            "timestamp": MORNING,
            "version": 1,
            "delivery": "d1",
            "digest": "abc",
        }
        return set(known_by(**(given | values)))  # type: ignore[arg-type]

    assert names() & names(timestamp=MORNING + MINUTE)
    assert names() & names(delivery="d2")
    assert not names() & names(delivery="d2", timestamp=MORNING + MINUTE)
    assert not names() & names(digest="other")
    assert not names() & names(version=2)
    assert not names() & names(verb="published")


def test_without_timestamp_and_id_only_a_publication_is_known_by_its_content() -> None:
    publication = known_by(verb="published", timestamp=None, version=None, delivery=None, digest="abc")
    assert len(publication) == 1
    assert known_by(verb="updated", timestamp=None, version=None, delivery=None, digest="abc") == ()
    assert known_by(verb="unpublished", timestamp=None, version=None, delivery=None, digest="abc") == ()
    assert remembered(publication, ("removal",), removal="deleted") == ("removal", *publication)
    assert remembered(publication, ("removal",), removal="unpublished") == ("removal",)


def test_an_article_remembers_its_last_deliveries_and_no_more() -> None:
    kept: tuple[str, ...] = ()
    for number in range(100):
        kept = remembered(kept, (f"by id {number}", f"by content {number}"), removal="")
    assert len(kept) == 2 * DELIVERIES_KEPT
    assert kept[0] == "by id 99"


# ── whole histories ──


def at(minutes: int) -> datetime:
    return MORNING + minutes * MINUTE


HISTORIES: dict[str, list[ArticleEvent]] = {
    "edited, unpublished, published again": [
        publish(timestamp=at(0)),
        publish(timestamp=at(10), title="Corrected", verb="updated", updated_at=at(9)),
        remove(timestamp=at(20)),
        publish(timestamp=at(30), title="Corrected"),
    ],
    "re-dated at each edit": [
        publish(timestamp=at(0)),
        publish(timestamp=at(10), title="Two", published_at=at(10)),
        publish(timestamp=at(20), title="Three", published_at=at(20)),
    ],
    "undated at first, dated by version, moved": [
        publish(timestamp=at(0), version=1, published_at=None),
        publish(timestamp=at(10), version=2),
        publish(timestamp=at(20), version=3, path="moved"),
    ],
    "a mistyped year, corrected": [
        publish(timestamp=at(0), published_at=MORNING - timedelta(days=365)),
        publish(timestamp=at(10)),
        publish(timestamp=at(20), title="Two"),
    ],
    "two stories swap their slugs": [
        publish("a", "x", title="A", timestamp=at(0)),
        publish("b", "y", title="B", timestamp=at(1)),
        publish("a", "y", title="A", timestamp=at(10)),
        publish("b", "x", title="B", timestamp=at(11)),
    ],
}


@pytest.mark.parametrize("history", HISTORIES)
def test_a_history_ends_in_the_same_files_in_whatever_order_it_is_heard(history: str) -> None:
    late = MORNING + 6 * HOUR
    ends = set()
    for events in permutations(HISTORIES[history]):
        ledger = Ledger()
        for number, event in enumerate(events):
            ledger.hear(event, late + number * timedelta(seconds=30))
        news = sorted((url, one.title, one.published, one.lastmod) for url, one in ledger.news_at(late).items())
        ends.add((tuple(sorted(ledger.pages)), tuple(news)))

    assert len(ends) == 1, ends
    assert ends != {((), ())}


@pytest.mark.parametrize("history", HISTORIES)
def test_every_delivery_may_be_repeated_at_the_end_and_changes_nothing(history: str) -> None:
    ledger = Ledger()
    for event in HISTORIES[history]:
        ledger.hear(event)
    pages, news = dict(ledger.general), dict(ledger.news)
    for event in HISTORIES[history]:
        assert ledger.hear(event, MORNING + 6 * HOUR).outcome in ("duplicate", "late")

    assert (ledger.general, ledger.news) == (pages, news)


# ── the identity of a page ──


@pytest.mark.parametrize(
    ("url", "page_of"),
    [
        ("https://e.com/caf%c3%a9", "https://e.com/caf%C3%A9"),
        ("https://e.com/%7Ejoe", "https://e.com/~joe"),
        ("https://e.com/%2e%2e/a", "https://e.com/a"),
        ("https://e.com/a/./b/../c", "https://e.com/a/c"),
        ("https://e.com/a/..", "https://e.com/"),
        ("https://e.com/a/.", "https://e.com/a/"),
        ("https://e.com/.well-known/a", "https://e.com/.well-known/a"),
        ("https://e.com/a%2fb?c=%7e/../d", "https://e.com/a%2Fb?c=~/../d"),
    ],
)
def test_the_identity_of_a_page_is_its_url_normalised_as_rfc_3986_has_it(url: str, page_of: str) -> None:
    assert identity(url) == page_of
    assert identity(page_of) == page_of


def test_another_spelling_of_a_page_takes_its_place_and_is_what_the_file_says() -> None:
    ledger = Ledger()
    ledger.hear(publish(path="caf%C3%A9"))
    ledger.hear(publish(path="caf%c3%a9", timestamp=at(1), title="Two"))

    assert [entry.loc for entry in ledger.general.values()] == [page("caf%c3%a9")]
