"""The ranges of the indexes: each file is in exactly one, and no index is too long."""

from collections import Counter
from datetime import timedelta

import pytest
from hypothesis import given, settings, strategies as st

from stoppress.model import index_ranges
from stoppress.model.file_names import INDEX_FILE
from stoppress.model.index_ranges import CUT_WAITS, ONE_INDEX, Indexes
from tests.support.article_events import MORNING

MAX, URGENT = 10, 40
OTHERS = ["sitemap-news.xml", "sitemap-news-fr.xml", "sitemap-pages.xml", "sitemap-pages-2.xml"]
SHARDS = st.builds(
    "sitemap-{}-{:02}{}.xml".format,
    st.integers(1995, 2027),
    st.integers(1, 12),
    st.sampled_from(["", "-2", "-010", "-sport", "-sport-2", "-31"]),
)
# The shards that are added and the time that passes; then the order in which due cuts come into force.
STEPS = st.lists(st.tuples(st.sets(SHARDS, max_size=60), st.booleans(), st.randoms(use_true_random=False)), max_size=8)


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(index_ranges, "INDEX_FILES_MAX", MAX)
    monkeypatch.setattr(index_ranges, "INDEX_FILES_MOVED", MAX - 1)
    monkeypatch.setattr(index_ranges, "INDEX_FILES_URGENT", URGENT)


def listed(indexes: Indexes, files: set[str]) -> Counter[str]:
    """Return the number of files of each index, after checking that each file is in its index's range."""
    for file in files:
        start, below = indexes.range_of(indexes.index_of(file))
        assert start <= file < below
        assert indexes.index_of(file) in indexes.from_file(file)
    return Counter(map(indexes.index_of, files))


@settings(max_examples=60)
@given(STEPS)
def test_each_file_is_in_one_index_and_no_index_is_long_after_all_cuts(
    steps: list[tuple[set[str], bool, object]],
) -> None:
    files, indexes, now = set(OTHERS), ONE_INDEX, MORNING
    for added, is_a_day_later, chance in [*steps, *[(set[str](), True, None)] * 4]:
        files |= added
        now += CUT_WAITS if is_a_day_later else timedelta(hours=6)
        order = list(indexes.files)
        if chance:
            chance.shuffle(order)  # type: ignore[attr-defined]
        for index in [*order, *order]:
            before, indexes = indexes, indexes.with_due(index, now)
            moved = {file for file in files if indexes.index_of(file) != before.index_of(file)}
            assert {indexes.index_of(file) for file in moved} <= {index}
            own = [file for file in files if indexes.index_of(file) == index]
            indexes = indexes.split(index, own, now, is_named=True)
            listed(indexes, files)
    assert all(cut.is_in_force for cut in indexes.cuts)
    assert max(listed(indexes, files).values()) <= MAX + len(OTHERS)
    assert {indexes.index_of(file) for file in OTHERS} == {INDEX_FILE}
    assert len(set(indexes.files)) == len(indexes.files)


def test_an_import_of_many_files_is_cut_into_many_indexes_that_wait_for_no_day() -> None:
    files = [f"sitemap-{year}-{month:02}.xml" for year in range(2000, 2010) for month in range(1, 13)]
    indexes = ONE_INDEX.split(INDEX_FILE, files, MORNING, is_named=True)
    for index in indexes.files:
        indexes = indexes.with_due(index, MORNING)

    assert [cut.index for cut in indexes.cuts[:2]] == ["sitemap-index-2.xml", "sitemap-index-3.xml"]
    assert set(listed(indexes, set(files)).values()) == {9, 3}
    assert indexes.split(INDEX_FILE, files[-3:], MORNING, is_named=True) == indexes


def test_waiting_cuts_come_earlier_when_many_files_are_added() -> None:
    files = [f"sitemap-{year}.xml" for year in range(2000, 2011)]
    waiting = ONE_INDEX.split(INDEX_FILE, files, MORNING, is_named=True)
    assert waiting.with_due("sitemap-index-2.xml", MORNING) == waiting
    assert waiting.split(INDEX_FILE, [*files, "sitemap-2011.xml"], MORNING, is_named=True) == waiting

    more = waiting.split(INDEX_FILE, [f"sitemap-{year}.xml" for year in range(2000, 2050)], MORNING, is_named=True)
    assert [cut.since for cut in more.cuts] == [MORNING - CUT_WAITS] * 5
