"""The way of a story to the search engines: only stops that it has passed, each with its delay; and the medians of a day."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.aws import items, table
from stoppress.model.article import Article, Claim
from stoppress.model.order import Order
from stoppress.notify.changes import GONE
from stoppress.notify.state import PageState, page_item
from stoppress.primitives.instants import exact
from stoppress.show import read_site
from stoppress.show.way import Delays, delays, way
from stoppress_cli.commands.status import _delays
from tests.support import doors

T = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
URL = "https://www.example.com/flood"


def at(seconds: int) -> datetime:
    return T + timedelta(seconds=seconds)


def test_each_stop_has_the_seconds_since_the_stop_before() -> None:
    page = PageState(URL, "v1", at(6), checked_at=at(10), notified="v1", notified_at=at(10))
    assert [(stop.what, stop.after_seconds) for stop in way(at(0), at(2), page)] == [
        ("published", None), ("received", 2), ("listed", 4), ("page checked", 4), ("engines notified", 0),
    ]  # fmt: skip


def test_google_may_crawl_a_page_before_it_is_told_of_it() -> None:
    page = PageState(
        URL, "v1", at(6), checked_at=at(10), notified="v1", notified_at=at(10),
        inspected_at=at(910), verdict="PASS", crawled_at=at(8), indexed_at=at(910),
    )  # fmt: skip
    assert [(stop.what, stop.after_seconds) for stop in way(at(0), at(2), page)][2:] == [
        ("listed", 4), ("crawled by Google", 2), ("page checked", 2), ("engines notified", 0), ("found in Google's index", 900),
    ]  # fmt: skip


def test_a_page_that_is_not_ready_has_passed_no_check() -> None:
    page = PageState(URL, "v1", at(6), checked_at=at(10), checks=1, failing_since=at(10), reason="answers 404")
    assert [stop.what for stop in way(at(0), at(2), page)] == ["published", "received", "listed"]


def test_what_engines_were_told_before_the_newest_change_does_not_count() -> None:
    page = PageState(URL, "v2", at(600), checked_at=at(10), notified="v1", notified_at=at(10))
    assert [stop.what for stop in way(None, at(2), page)] == ["received", "listed"]


def test_a_page_that_left_the_files_is_not_called_listed() -> None:
    page = PageState(URL, GONE, at(6), checked_at=at(30), notified=GONE, notified_at=at(30))
    assert [stop.what for stop in way(None, None, page)] == ["left the files", "page checked", "engines notified"]


# ── the medians of a day ──

NOW = at(3_600)
HOST = "www.example.com"


def article(published: int | None = 0, received: int = 2, newest: int | None = None, name: str = "cms#1") -> Article:
    """An article with these instants, in seconds after eight."""
    order = Order(None, None, None, exact(at(received if newest is None else newest)))
    first_published = None if published is None else at(published)
    return Article(
        site=HOST, name=name, state="listed", order=order, digest="", received_at=at(received), url=URL, first_published=first_published
    )  # fmt: skip


def story(
    listed: int, ready: int | None = None, notified: int | None = None, url: str = URL, **changes: Any
) -> PageState:
    """A page with these instants, in seconds after eight."""
    checked_at = None if ready is None else at(ready)
    version: dict[str, Any] = {"notified": "v1", "notified_at": at(notified)} if notified is not None else {}
    return replace(PageState(url, "v1", at(listed), checked_at=checked_at), **version, **changes)


def test_the_medians_are_those_of_the_pages_that_show_each_delay() -> None:
    pages = [
        (story(6, 10, 11), article(0, 2)),
        (story(20, 40, 43), article(0, 10)),
        (story(9, 10), article(0, 3)),  # not notified yet
        (story(30), None),  # not checked yet, and its article is gone
    ]
    assert delays(pages, NOW) == Delays(4, received_s=3.0, listed_s=6.0, page_ready_s=4.0, notified_s=2.0)


def test_without_pages_nothing_is_known() -> None:
    assert delays([], NOW) == Delays(0)


def test_pages_of_the_day_before_and_pages_that_left_the_files_do_not_count() -> None:
    day = 24 * 3_600
    pages = [(story(6 + 3_600 - day - 6), article()), (story(6, version=GONE), article())]
    assert delays(pages, NOW) == Delays(0)
    assert delays(pages[:1], NOW - timedelta(seconds=1)).pages == 1


def test_an_update_counts_from_its_own_event() -> None:
    updated = delays([(story(600, 602, 602), article(0, 2, newest=590))], NOW)
    assert (updated.received_s, updated.listed_s) == (2.0, 10.0)


def test_an_event_that_changed_nothing_shows_no_delay() -> None:
    assert delays([(story(6), article(0, 2, newest=700))], NOW).listed_s is None


def test_a_story_that_was_held_counts_from_its_publication() -> None:
    held = delays([(story(605), article(600, 2))], NOW)
    assert (held.received_s, held.listed_s) == (None, 5.0)


def test_an_old_story_that_is_received_of_now_has_no_delay_from_publication() -> None:
    assert delays([(story(6), article(-49 * 3_600, 2))], NOW).received_s is None
    assert delays([(story(6), article(None, 2))], NOW).received_s is None
    assert delays([(story(6), article(-46 * 3_600, 2))], NOW).received_s == 46 * 3_600 + 2


def test_a_check_before_the_newest_change_or_a_failed_one_shows_no_delay() -> None:
    assert delays([(story(6, 4, 4), article())], NOW).page_ready_s is None
    assert delays([(story(6, 9, checks=1), article())], NOW).page_ready_s is None
    assert delays([(story(6, 9, 9, version="v2"), article())], NOW).notified_s is None


@pytest.mark.moto
def test_the_medians_are_read_from_pages_claims_and_articles() -> None:
    with doors.opened(NOW) as behind:
        site = behind.site(engines={})
        for number in range(5):
            url, name = f"{URL}-{number}", f"cms#{number}"
            owned = replace(article(0, 2, name=name), url=url)
            table.put(items.article_item(owned), None)
            table.put(items.claim_item(Claim(HOST, url, name, live=True, order=owned.order)), None)
            table.put(page_item(HOST, story(6 + number, 20, 20, url=url)), None)
        table.put(page_item(HOST, story(6, 20, 20, url=f"{URL}-without-article")), None)
        table.put(page_item(HOST, story(-90_000, url=f"{URL}-old")), None)
        with doors.counted("dynamodb", "Query") as queries, doors.counted("dynamodb", "BatchGetItem") as reads:
            assert read_site._delays_of(site, NOW) == Delays(6, 2.0, 6.0, 12.5, 0.0)
        assert (len(queries), len(reads)) == (1, 2)


@pytest.mark.moto
def test_a_site_without_engines_reads_no_pages() -> None:
    with doors.opened(NOW) as behind, doors.counted("dynamodb", "Query") as queries:
        assert read_site._delays_of(behind.site(), NOW) is None
    assert queries == []


def test_the_medians_are_shown_in_words() -> None:
    assert _delays(Delays(57, 3.0, 5.0, 240.0, 0.0)) == (
        "medians of 57 pages in 24 h: received 3 s after publication, listed 5 s after that, page ready 4 min after that,"
        " engines notified 0 s after that"
    )
    assert _delays(Delays(1)) == "medians of 1 page in 24 h: unknown"
