"""Places: the file of an entry, and the limit of reserved places in a file."""

from dataclasses import replace

import pytest
from hypothesis import given, settings, strategies as st

from stoppress.model import file_names
from stoppress.model.file_names import BYTES_MAX, FRAME_BYTES_MAX, URLS_MAX, Place, Series, Used, Want, entries_max_of
from stoppress.model.site import PAGES_MAX

ROOM_BYTES = BYTES_MAX - FRAME_BYTES_MAX
MONTH = "2026-11"


@pytest.mark.parametrize(
    ("series", "shard_size", "entries_max"),
    [
        ("news", 2_000, 1_000),
        ("news-fr", 50_000, 1_000),
        (MONTH, 2_000, 2_000),
        (MONTH, 50_000, 50_000),
        ("pages", 10, 10),
        ("pages", 50_000, URLS_MAX - PAGES_MAX),  # leaves room for the pages of the configuration
    ],
)
def test_the_limits_are_those_of_the_protocol(series: str, shard_size: int, entries_max: int) -> None:
    assert entries_max_of(series, shard_size) == entries_max


def test_bytes_count_against_a_limit_like_entries() -> None:
    half = ROOM_BYTES // 2
    _, handed_out = Series(MONTH).reserve([Want(MONTH, half), Want(MONTH, half), Want(MONTH, 1)], 50_000)

    assert [place.number for place in handed_out] == [1, 1, 1 if ROOM_BYTES % 2 else 2]
    exactly, _ = Series(MONTH).reserve([Want(MONTH, ROOM_BYTES)], 50_000)
    _, (after,) = exactly.reserve([Want(MONTH, 1)], 50_000)
    assert after.number == 2


def test_a_shard_that_was_full_stays_closed() -> None:
    series, _ = Series(MONTH).reserve([Want(MONTH, 100)] * 3, 2)
    emptied = replace(series, files=(Used(0, 0), *series.files[1:]))

    _, (place,) = emptied.reserve([Want(MONTH, 100)], 2)
    assert place.number == 2


def test_news_entries_use_the_lowest_file_with_room() -> None:
    series, handed_out = Series("news").reserve([Want("news", 100)] * 5, 2)
    freed = series.give_back([handed_out[0], handed_out[2]])
    assert [used.entries for used in freed.files] == [1, 1, 1]

    _, again = freed.reserve([Want("news", 100)] * 3, 2)
    assert [place.number for place in again] == [1, 2, 3]


def test_releasing_more_than_was_reserved_leaves_no_negative_count() -> None:
    series, (place,) = Series("news").reserve([Want("news", 100)], 2)

    assert series.give_back([place, place, Place("news", 9, 100)]).files == (Used(0, 0),)


SMALL = Place(MONTH, 1, 100)


@pytest.mark.parametrize(
    ("files", "held", "entries_max", "place", "after"),
    [
        ((Used(2, 200),), SMALL, 2, 1, (Used(2, 250),)),
        ((Used(2, 200), Used(1, 100)), SMALL, 2, 1, (Used(2, 250), Used(1, 100))),
        ((Used(2, ROOM_BYTES), Used(1, 100)), SMALL, 2, 2, (Used(2, ROOM_BYTES), Used(2, 250))),
        ((Used(2_000, 200_000),), SMALL, 10, 1, (Used(2_000, 200_050),)),
        ((Used(2_000, 200_000),), None, 10, 2, (Used(2_000, 200_000), Used(1, 150))),
        ((), Place(MONTH, 3, 100), 10, 1, (Used(1, 150),)),
    ],
    ids=["room", "closed file", "no room", "smaller shards by now", "new entry", "forgotten file"],
)
def test_a_growing_entry_stays_in_its_file_while_there_is_room(
    files: tuple[Used, ...], held: Place | None, entries_max: int, place: int, after: tuple[Used, ...]
) -> None:
    grown, places = Series(MONTH, files).reserve([Want(MONTH, 150, held=held)], entries_max)
    assert (places, grown.files) == ([Place(MONTH, place, 150)], after)


WANTS = st.lists(st.integers(1, 60), max_size=40)


@settings(max_examples=200)
@given(WANTS, st.integers(1, 5), st.sampled_from(["news", MONTH]))
def test_no_file_has_more_reserved_places_than_its_limit(sizes: list[int], entries_max: int, name: str) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_names, "BYTES_MAX", 100 + FRAME_BYTES_MAX)
        series, handed_out = Series(name).reserve([Want(name, size) for size in sizes], entries_max)

    assert [place.size_bytes for place in handed_out] == sizes
    _counts_are_true(series, handed_out)
    for used in series.files:
        assert used.entries <= entries_max
        assert used.size_bytes <= 100


STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("want"), st.integers(1, 60)),
        st.tuples(st.just("grow"), st.integers(0, 30), st.integers(1, 30)),
        st.tuples(st.just("leave"), st.integers(0, 30)),
    ),
    max_size=40,
)


@settings(max_examples=200)
@given(STEPS, st.integers(1, 4))
def test_after_any_changes_the_news_counts_match_the_entries(
    steps: list[tuple[str, *tuple[int, ...]]], entries_max: int
) -> None:
    series, held = Series("news"), []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(file_names, "BYTES_MAX", 100 + FRAME_BYTES_MAX)
        for kind, *numbers in steps:
            if kind == "want":
                series, new = series.reserve([Want("news", numbers[0])], entries_max)
                held += new
            elif held and kind == "leave":
                series = series.give_back([held.pop(numbers[0] % len(held))])
            elif held:
                old = held.pop(numbers[0] % len(held))
                size = min(100, old.size_bytes + numbers[1])
                before = series
                series, (new_place,) = series.reserve([Want("news", size, held=old)], entries_max)
                if new_place.number != old.number:
                    series = series.give_back([old])
                held.append(new_place)
                assert len(series.files) >= len(before.files)
    _counts_are_true(series, held)
    assert all(used.entries <= entries_max and used.size_bytes <= 100 for used in series.files)


def _counts_are_true(series: Series, handed_out: list[Place]) -> None:
    for number, used in enumerate(series.files, 1):
        there = [place for place in handed_out if place.number == number]
        assert used == Used(len(there), sum(place.size_bytes for place in there))
