"""The timeline of a story: the stages that it has passed, each with its delay; and the medians of a day."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.aws import items, table
from stoppress.model.article import Article, Claim
from stoppress.model.order import Order
from stoppress.notify.page_state import GONE, PageState, page_item
from stoppress.primitives.instants import exact
from stoppress.show import read_site
from stoppress.show.timeline import DELAYS, list_stops, median_delays
from tests.support import moto_aws

T = datetime(2026, 11, 20, 8, 0, tzinfo=UTC)
URL = "https://www.example.com/flood"


def at(seconds: int) -> datetime:
    return T + timedelta(seconds=seconds)


MEDIANS = ("pages", *DELAYS)
NOTIFIED = PageState(URL, "v1", at(6), checked_at=at(10), notified="v1", notified_at=at(10))
# By case: the page, and its stages after "received", each with the seconds since the stage before.
STOPS: dict[str, tuple[PageState, dict[str, int]]] = {
    "notified": (NOTIFIED, {"listed": 4, "page checked": 4, "engines notified": 0}),
    "crawled before it was notified": (
        replace(NOTIFIED, inspected_at=at(910), verdict="PASS", crawled_at=at(8), indexed_at=at(910)),
        {"listed": 4, "crawled by Google": 2, "page checked": 2, "engines notified": 0, "found in Google's index": 900},
    ),
    "not ready": (PageState(URL, "v1", at(6), checked_at=at(10), checks=1, failing_since=at(10)), {"listed": 4}),
    "changed after it was notified": (replace(NOTIFIED, version="v2", changed=at(600)), {"listed": 598}),
    "gone": (replace(NOTIFIED, version=GONE, notified=GONE), {"left the files": 4, "page checked": 4, "engines notified": 0}),
}  # fmt: skip


@pytest.mark.parametrize("case", STOPS)
def test_a_timeline_has_only_passed_stages_each_with_its_delay(case: str) -> None:
    page, stops = STOPS[case]
    passed = list_stops(at(0), at(2), page)

    assert [(stop.what, stop.after_seconds) for stop in passed[:2]] == [("published", None), ("received", 2)]
    assert {stop.what: stop.after_seconds for stop in passed[2:]} == stops


# ── the medians of a day ──

NOW = at(3_600)
HOST = "www.example.com"


def article(published: int | None = 0, received: int = 2, newest: int | None = None, name: str = "cms#1") -> Article:
    """Return an article with these instants, in seconds after eight."""
    order = Order(None, None, None, exact(at(received if newest is None else newest)))
    first_published = None if published is None else at(published)
    return Article(
        site=HOST, name=name, state="listed", order=order, digest="", received_at=at(received), url=URL, first_published=first_published
    )  # fmt: skip


def story(
    listed: int, ready: int | None = None, notified: int | None = None, url: str = URL, **changes: Any
) -> PageState:
    """Return a page with these instants, in seconds after eight."""
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
    assert median_delays(pages, NOW) == dict(zip(MEDIANS, (4, 3.0, 6.0, 4.0, 2.0), strict=True))


# By case: the page and its article, and the delays that they show: received, listed, page ready, notified.
CASES: dict[str, tuple[PageState, Article, tuple[float | None, ...]]] = {
    "an update counts from its own event": (story(600, 602, 602), article(0, 2, newest=590), (2, 10, 2, 0)),
    "an event that changed nothing": (story(6), article(0, 2, newest=700), (2, None, None, None)),
    "a held story counts from its publication": (story(605), article(600, 2), (None, 5, None, None)),
    "an old story that is received now": (story(6), article(-49 * 3_600, 2), (None, 4, None, None)),
    "a story without a date": (story(6), article(None, 2), (None, 4, None, None)),
    "a story of the window": (story(6), article(-46 * 3_600, 2), (46 * 3_600 + 2, 4, None, None)),
    "a check before the newest change": (story(6, 4, 4), article(), (2, 4, None, None)),
    "a failed check": (story(6, 9, checks=1), article(), (2, 4, None, None)),
    "a notification of the version before": (story(6, 9, 9, version="v2"), article(), (2, 4, 3, None)),
}


@pytest.mark.parametrize("case", CASES)
def test_a_delay_counts_only_if_the_page_shows_it(case: str) -> None:
    page, its_article, expected = CASES[case]

    assert median_delays([(page, its_article)], NOW) == dict(zip(MEDIANS, (1, *expected), strict=True))


@pytest.mark.moto
def test_the_medians_are_read_from_pages_claims_and_articles() -> None:
    with moto_aws.opened(NOW) as aws:
        site = aws.site(engines={})
        for number in range(5):
            url, name = f"{URL}-{number}", f"cms#{number}"
            owned = replace(article(0, 2, name=name), url=url)
            table.put(items.article_item(owned), None)
            table.put(items.claim_item(Claim(HOST, url, name, live=True, order=owned.order)), None)
            table.put(page_item(HOST, story(6 + number, 20, 20, url=url)), None)
        table.put(page_item(HOST, story(6, 20, 20, url=f"{URL}-without-article")), None)
        table.put(page_item(HOST, story(-90_000, url=f"{URL}-old")), None)
        table.put(page_item(HOST, story(6, url=f"{URL}-gone", version=GONE)), None)
        with moto_aws.counted("dynamodb", "Query") as queries, moto_aws.counted("dynamodb", "BatchGetItem") as reads:
            assert read_site._delays_of(site, NOW) == dict(zip(MEDIANS, (6, 2.0, 6.0, 12.5, 0.0), strict=True))
        assert (len(queries), len(reads)) == (1, 2)
