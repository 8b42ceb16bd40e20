"""The way of a story to the search engines: only stops that it has passed, each with its delay."""

from datetime import UTC, datetime, timedelta

from stoppress.show.way import way
from stoppress.tell.changes import GONE
from stoppress.tell.state import PageState

T = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
URL = "https://www.example.com/flood"


def at(seconds: int) -> datetime:
    return T + timedelta(seconds=seconds)


def test_each_stop_has_the_seconds_since_the_stop_before() -> None:
    page = PageState(URL, "v1", at(6), checked_at=at(10), told="v1", told_at=at(10))
    assert [(stop.what, stop.after_seconds) for stop in way(at(0), at(2), page)] == [
        ("published", None), ("heard", 2), ("listed", 4), ("page checked", 4), ("engines told", 0),
    ]  # fmt: skip


def test_google_may_crawl_a_page_before_it_is_told_of_it() -> None:
    page = PageState(
        URL, "v1", at(6), checked_at=at(10), told="v1", told_at=at(10),
        inspected_at=at(910), verdict="PASS", crawled_at=at(8), indexed_at=at(910),
    )  # fmt: skip
    assert [(stop.what, stop.after_seconds) for stop in way(at(0), at(2), page)][2:] == [
        ("listed", 4), ("crawled by Google", 2), ("page checked", 2), ("engines told", 0), ("found in Google's index", 900),
    ]  # fmt: skip


def test_a_page_that_is_not_ready_has_passed_no_check() -> None:
    page = PageState(URL, "v1", at(6), checked_at=at(10), checks=1, failing_since=at(10), reason="answers 404")
    assert [stop.what for stop in way(at(0), at(2), page)] == ["published", "heard", "listed"]


def test_what_engines_were_told_before_the_newest_change_does_not_count() -> None:
    page = PageState(URL, "v2", at(600), checked_at=at(10), told="v1", told_at=at(10))
    assert [stop.what for stop in way(None, at(2), page)] == ["heard", "listed"]


def test_a_page_that_left_the_files_is_not_called_listed() -> None:
    page = PageState(URL, GONE, at(6), checked_at=at(30), told=GONE, told_at=at(30))
    assert [stop.what for stop in way(None, None, page)] == ["left the files", "page checked", "engines told"]
