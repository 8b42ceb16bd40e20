"""The order of events: which of two events of an article is newer, and which event is a repeat."""

from datetime import timedelta
from typing import Any

import pytest

from stoppress.model.event import ArticleEvent, names_of
from stoppress.model.order import DELIVERIES_KEPT, Order, Removal, is_claimed_before, is_repeat, remember_deliveries
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import identity
from tests.support.article_events import MORNING

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)


def order(
    received: timedelta = timedelta(),
    timestamp: timedelta | None = None,
    version: int | timedelta | None = None,
    sequence: int | None = None,
    removal: Removal = "",
) -> Order:
    """Return the order of an event; all instants are given as time after eight."""
    return Order(
        version=exact(MORNING + version) if isinstance(version, timedelta) else version,
        sequence=sequence,
        timestamp=None if timestamp is None else exact(MORNING + timestamp),
        received=exact(MORNING + received),
        removal=removal,
    )


AT_EIGHT = timedelta()
DELETED_AT_VERSION_5 = order(timestamp=AT_EIGHT, version=5, removal="deleted")
UNPUBLISHED_AT_VERSION_5 = order(timestamp=AT_EIGHT, version=5, removal="unpublished")
REMOVED_AT_EIGHT = order(timestamp=AT_EIGHT, removal="unpublished")
CLOCK_AHEAD, CLOCK_RIGHT = order(timestamp=2 * HOUR), order(MINUTE, timestamp=MINUTE)
# By rule: the older event, and the newer one.
NEWER: dict[str, tuple[Order, Order]] = {
    "the higher version, although it was received first": (order(HOUR, version=1), order(version=2)),
    "the higher sequence of one version": (order(HOUR, version=7, sequence=1), order(version=7, sequence=2)),
    "receipt, where only one has a sequence": (order(HOUR, version=7, sequence=2),
        order(2 * HOUR, version=7, removal="unpublished")),
    "timestamps, where one version was ahead and the other came late": (
        order(25 * HOUR, version=2 * HOUR, timestamp=AT_EIGHT), order(version=3 * HOUR, timestamp=HOUR),
    ),
    "receipt, where one version was ahead and there are no timestamps": (order(version=2 * HOUR),
        order(3 * HOUR, version=HOUR)),
    "receipt, where one version was ahead and the timestamps are equal": (order(version=2 * HOUR, timestamp=AT_EIGHT),
        order(3 * HOUR, version=HOUR, timestamp=AT_EIGHT)),
    "timestamps, where one version is a number and one an instant": (order(version=9, timestamp=AT_EIGHT),
        order(MINUTE, version=-HOUR, timestamp=MINUTE)),
    "timestamps, as the sender gave them": (order(HOUR, timestamp=AT_EIGHT), order(MINUTE, timestamp=MINUTE)),
    "timestamps of a clock that is always ahead": (order(MINUTE, timestamp=2 * HOUR),
        order(2 * MINUTE, timestamp=2 * HOUR + MINUTE, removal="unpublished")),
    "timestamps of a clock that is always behind": (order(MINUTE, timestamp=-5 * HOUR),
        order(2 * MINUTE, timestamp=-5 * HOUR + MINUTE, removal="unpublished")),
    "what follows a clock that was set right": (CLOCK_AHEAD, CLOCK_RIGHT),
    "the later timestamp of a clock that is ahead, where the earlier event was delayed": (
        order(HOUR, timestamp=timedelta(seconds=30)), order(MINUTE, timestamp=4 * MINUTE, removal="unpublished"),
    ),
    "what follows a version in the far future": (order(version=timedelta(days=30_000)), order(MINUTE, version=MINUTE)),
    "receipt, without timestamps": (order(), order(MINUTE, removal="unpublished")),
    "in a burst of equal timestamps the event received later": (REMOVED_AT_EIGHT,
        order(timedelta(seconds=2), timestamp=AT_EIGHT)),
    "of equal timestamps the removal": (order(MINUTE, timestamp=AT_EIGHT), REMOVED_AT_EIGHT),
    "of equal timestamps and receipts the removal": (order(timestamp=AT_EIGHT), REMOVED_AT_EIGHT),
    "receipt, where the version never changes": (order(version=1, removal="unpublished"), order(MINUTE, version=1)),
    "a lower version after a deletion": (DELETED_AT_VERSION_5, order(HOUR, timestamp=HOUR, version=1)),
    "the higher version where the removal was no deletion": (order(HOUR, timestamp=HOUR, version=1),
        UNPUBLISHED_AT_VERSION_5),
}  # fmt: skip


@pytest.mark.parametrize("reason", NEWER)
def test_exactly_one_of_two_events_is_newer_in_either_comparison(reason: str) -> None:
    older, newer = NEWER[reason]
    assert (older.is_before(newer), newer.is_before(older)) == (True, False)


def test_timestamps_ahead_of_our_clock_are_compared_as_received() -> None:
    assert is_claimed_before(CLOCK_AHEAD, CLOCK_RIGHT, same_source=False)


# ── repeats ──


def names(digest: str = "abc", **values: Any) -> tuple[str, ...]:
    return names_of(ArticleEvent(site="www.example.com", source="cms", id="1", action="publish", **values), digest)


@pytest.mark.parametrize(
    ("values", "repeats"),
    [
        ({}, True),
        ({"timestamp": MORNING + MINUTE}, True),
        ({"delivery": "d2"}, False),
        ({"delivery": None}, True),
        ({"delivery": None, "timestamp": MORNING + MINUTE}, False),
        ({"digest": "other"}, False),
        ({"version": 2}, False),
        ({"verb": "published"}, False),
    ],
)
def test_a_repeat_has_the_same_id_or_else_the_same_timestamp(values: dict[str, Any], *, repeats: bool) -> None:
    first: dict[str, Any] = {"verb": "updated", "timestamp": MORNING, "version": 1, "delivery": "d1", "digest": "abc"}

    assert is_repeat(names(**(first | values)), names(**first)) is repeats


def test_without_timestamp_and_id_only_a_publication_is_identified_by_content() -> None:
    publication = names(verb="published")
    assert len(publication) == 1
    assert names(verb="updated") == ()
    assert names(verb="unpublished") == ()
    assert remember_deliveries(publication, ("removal",), removal="deleted") == ("removal", *publication)
    assert remember_deliveries(publication, ("removal",), removal="unpublished") == ("removal",)


def test_an_article_stores_a_bounded_number_of_deliveries() -> None:
    kept: tuple[str, ...] = ()
    for number in range(100):
        kept = remember_deliveries(kept, (f"by id {number}", f"by content {number}"), removal="")
    assert len(kept) == 2 * DELIVERIES_KEPT
    assert kept[0] == "by id 99"


# ── the identity of a page ──


@pytest.mark.parametrize(
    ("url", "page_of"),
    [
        ("https://e.com/caf%c3%a9", "https://e.com/caf%C3%A9"),
        ("https://e.com/%7Ejoe", "https://e.com/~joe"),
        ("https://e.com/a/./b/../c", "https://e.com/a/c"),
        ("https://e.com/a/..", "https://e.com/"),
        ("https://e.com/.well-known/a", "https://e.com/.well-known/a"),
        ("https://e.com/a%2fb?c=%7e/../d", "https://e.com/a%2Fb?c=~/../d"),
    ],
)
def test_the_identity_of_a_page_is_its_url_normalised_as_rfc_3986_has_it(url: str, page_of: str) -> None:
    assert identity(url) == page_of
    assert identity(page_of) == page_of
