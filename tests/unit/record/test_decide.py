"""The rules of recording, one test each. The simulation checks the invariants for any story in any order."""

from dataclasses import replace
from datetime import datetime, timedelta
from itertools import permutations
from typing import Any

import pytest

from stoppress.model.event import ArticleEvent
from tests.support.article_events import MORNING, DecidedTable, page, publish, remove

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def feed(path: str = "flood", guid: str = "guid-7", **changes: Any) -> ArticleEvent:
    return publish(guid, path, **({"source": "feed"} | changes))


def at(minutes: int) -> datetime:
    return MORNING + minutes * MINUTE


FLOOD = "Flood closes the harbour"
SITEMAP: dict[str, Any] = {"article": page("flood"), "source": "sitemap"}
OLD = publish("old", title="Old", received_at=at(60))
NEW = publish("new", title="New", timestamp=at(1), received_at=at(60))
# By story: the events, and the titles of the pages that stay in the news, by path.
STORIES: dict[str, tuple[list[ArticleEvent], dict[str, str]]] = {
    "a late publication of a deleted article": (
        [publish(), remove(), publish(title="Corrected", timestamp=MORNING + timedelta(seconds=30))], {},
    ),
    "a removal at the version and the instant of a publication": (
        [publish(version=7), remove(version=7, timestamp=MORNING)], {},
    ),
    "a publication at the version and the instant of a removal": (
        [remove(version=7, timestamp=MORNING), publish(version=7)], {},
    ),
    "other content at an equal version": ([publish(version=7), publish(version=7, path="moved", timestamp=at(1))],
        {"moved": FLOOD}),
    "a removal without a version": ([publish(version=7), remove()], {}),
    "a newer article takes a URL": ([OLD, NEW], {"flood": "New"}),
    "an older article does not take a URL": ([NEW, OLD], {"flood": "New"}),
    "the CMS moves its page to a URL of the feed": (
        [feed("new"), publish(path="old"), publish(path="new", timestamp=at(1), title="Moved")], {"new": "Moved"},
    ),
    "the feed does not take the page of the CMS": ([publish(), feed(title="Feed", timestamp=at(60), updated_at=at(60))],
        {"flood": FLOOD}),
    "previous URLs leave the page of another article of the CMS": (
        [publish("other", "reused"), publish(path="new", previous_urls=(page("reused"),), timestamp=at(1))],
        {"new": FLOOD, "reused": FLOOD},
    ),
    "two entries of a feed with one URL": ([feed(guid="1"), feed(guid="2", title="Later", timestamp=at(1))],
        {"flood": "Later"}),
    "a feed's entry that got another id and leaves": (
        [
            feed(guid="17", timestamp=None), feed(guid="7f:17", timestamp=None, received_at=at(1)),
            remove("7f:17", source="feed", timestamp=None, verb=None, received_at=at(2)),
        ], {},
    ),
    "a story that another source publishes again and removes": (
        [publish("1"), publish("p-900", source="wire", timestamp=at(1)), remove("p-900", source="wire", timestamp=at(2))],
        {},
    ),
    "a story that is published again under another id and removed": (
        [publish("1"), publish("2", timestamp=at(1)), remove("2", timestamp=at(2))], {},
    ),
    "a postponed story, which the feed does not bring back": (
        [publish(), publish(published_at=at(180), timestamp=at(1)), feed(timestamp=None, received_at=at(2))], {},
    ),
    "what the CMS keeps out, the feed does not bring": ([publish(noindex=True), feed(timestamp=at(1))], {}),
    "an old sitemap revives nothing that the CMS removed": (
        [publish(), remove(), publish(**SITEMAP, timestamp=at(5), updated_at=at(4))], {},
    ),
    "an old sitemap revives nothing that the feed removed": (
        [feed(), remove("guid-7", source="feed"), publish(**SITEMAP, timestamp=at(5), updated_at=at(4))], {},
    ),
    "a publication without a timestamp, recorded late, that is repeated": (
        [
            publish(timestamp=None, received_at=at(1), verb="updated", title="Edited"),
            publish(timestamp=None), publish(timestamp=None, received_at=at(60)),
        ], {"flood": "Edited"},
    ),
    "a late version without a timestamp that is repeated after the deletion": (
        [
            publish(version=4, timestamp=None), publish(version=3, timestamp=None, received_at=at(1)),
            remove(timestamp=None, received_at=at(2), verb="deleted"),
            publish(version=3, timestamp=None, received_at=at(60)),
        ], {},
    ),
    "the URL beside the id of a removal": (
        [feed("section", guid="g1", timestamp=None), publish(), remove(url=page("section"))], {"section": FLOOD},
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", STORIES)
def test_a_story_ends_in_these_pages(story: str) -> None:
    events, titles = STORIES[story]
    ledger = DecidedTable()
    for event in events:
        ledger.apply(event)

    assert {url: entry.title for url, entry in ledger.news_at(MORNING).items()} == {
        page(path): title for path, title in titles.items()
    }
    assert set(ledger.pages) == set(ledger.news_at(MORNING))


DATES: dict[str, tuple[list[ArticleEvent], str, datetime]] = {
    "a late event within the window changes only the date": (
        [publish(title="Over", published_at=at(60), timestamp=at(60)), publish(published_at=at(-60), received_at=at(60))],
        "Over", at(-60),
    ),
    "a date just ahead, which the sender's clock has passed": (
        [publish(published_at=at(5), timestamp=at(5), received_at=MORNING)], FLOOD, MORNING,
    ),
    "a feed's date just ahead": ([feed(published_at=at(4), received_at=MORNING)], FLOOD, MORNING),
    "the feed's date replaces that of an old news sitemap": (
        [publish(**SITEMAP, published_at=at(-90)), feed(published_at=at(-30))], FLOOD, at(-30),
    ),
    "the date of the CMS replaces the feed's": ([feed(published_at=at(-60)), publish(timestamp=at(1), title="CMS")],
        "CMS", MORNING),
    "the date of the CMS replaces the feed's once": (
        [feed(published_at=at(-60)), publish(timestamp=at(1)), publish(timestamp=at(60), published_at=at(60))],
        FLOOD, MORNING,
    ),
}  # fmt: skip


@pytest.mark.parametrize("story", DATES)
def test_a_story_ends_with_this_date(story: str) -> None:
    events, title, published = DATES[story]
    ledger = DecidedTable()
    for event in events:
        ledger.apply(event)

    assert [(entry.title, entry.published) for entry in ledger.news_at(MORNING).values()] == [(title, published)]
    assert set(ledger.pages.values()) == {"sitemap-2026-11.xml"}


def test_equal_content_at_a_newer_version_only_raises_the_version() -> None:
    ledger = DecidedTable()
    ledger.apply(publish(version=1))
    before = dict(ledger.general)

    assert ledger.apply(publish(version=5, timestamp=MORNING + HOUR)).outcome == "duplicate"
    assert ledger.general == before
    assert ledger.apply(publish(version=3, title="An older headline")).outcome == "late"


def test_a_feed_without_change_dates_changes_no_lastmod() -> None:
    ledger = DecidedTable()
    ledger.apply(feed())
    ledger.apply(feed(title="Flood Closes The Harbour", timestamp=MORNING + HOUR))

    assert [entry.lastmod for entry in ledger.general.values()] == [MORNING]


def test_lastmod_is_never_before_publication_and_never_in_the_future() -> None:
    ledger = DecidedTable()
    ledger.apply(publish(updated_at=MORNING - HOUR))
    assert [entry.lastmod for entry in ledger.general.values()] == [MORNING]
    ledger.apply(publish(updated_at=MORNING + 4 * MINUTE, timestamp=MORNING + MINUTE))
    assert [entry.lastmod for entry in ledger.general.values()] == [MORNING + MINUTE]


def test_a_repeat_is_detected_by_its_version_after_an_embargo() -> None:
    ledger = DecidedTable()
    plain: dict[str, Any] = {"timestamp": None, "verb": "updated", "published_at": None}
    ledger.apply(publish(timestamp=None, version=1, published_at=MORNING + HOUR), MORNING)
    edit = publish(version=2, title="Flood, corrected", delivery="msg_1", **plain)
    ledger.apply(edit, MORNING + MINUTE)
    deliveries = ledger.articles["cms#1042"].deliveries
    ledger.release(MORNING + HOUR)

    assert ledger.articles["cms#1042"].deliveries == deliveries
    assert ledger.apply(replace(edit, delivery="msg_2"), MORNING + 2 * HOUR).outcome == "duplicate"


def test_a_repeat_is_detected_by_its_version_after_its_article_is_listed_again() -> None:
    ledger = DecidedTable()
    plain: dict[str, Any] = {"timestamp": None, "verb": "updated", "published_at": None}
    ledger.apply(publish(timestamp=None, version=1), MORNING)
    edit = publish(version=2, title="Flood, corrected", **plain)
    ledger.apply(edit, MORNING)
    ledger.apply(publish("1043", title="Another story", timestamp=None, version=1), MORNING + MINUTE)
    ledger.apply(remove("1043", timestamp=None, version=2), MORNING + 2 * MINUTE)
    assert ledger.articles["cms#1042"].state == "listed"

    assert ledger.apply(edit, MORNING + HOUR).outcome == "duplicate"


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 1, 0)])
def test_the_earliest_timestamp_is_the_first_publication_in_every_order(order: tuple[int, ...]) -> None:
    ledger = DecidedTable()
    events = [
        publish(version=1),
        publish(version=2, timestamp=MORNING + 10 * MINUTE, title="Flood, corrected"),
        publish(version=3, timestamp=MORNING + 14 * MINUTE, published_at=MORNING + 13 * MINUTE),
    ]
    for number in order:
        ledger.apply(events[number], MORNING + HOUR)

    assert ledger.articles["cms#1042"].first_published == MORNING


def test_a_released_story_is_listed_though_the_recorders_clock_is_slow() -> None:
    ledger = DecidedTable()
    release = MORNING + 3 * HOUR
    ledger.apply(publish(published_at=release))
    ledger.apply(publish(published_at=release, release=release, received_at=MORNING), release - MINUTE)

    assert set(ledger.news_at(release)) == {page("flood")}
    assert set(ledger.due) == set()


def test_a_late_event_that_dates_an_article_keeps_its_images_and_section() -> None:
    ledger = DecidedTable()
    later = MORNING + 10 * MINUTE
    ledger.apply(
        publish(timestamp=later, published_at=later, images=("https://img.example.com/1.jpg",), section="local")
    )
    ledger.apply(publish(), now=later)

    [entry] = ledger.general.values()
    assert (entry.images, entry.traits.section) == (("https://img.example.com/1.jpg",), "local")
    [news] = ledger.news.values()
    assert (news.published, news.traits.section) == (MORNING, "local")


def test_an_inherited_date_is_not_replaced_by_a_late_event_of_the_same_source() -> None:
    ledger = DecidedTable()
    old = MORNING - timedelta(days=2)
    ledger.apply(feed(guid="g1", published_at=old, timestamp=MORNING))
    ledger.apply(feed(guid="g2", published_at=None, timestamp=MORNING + HOUR))
    ledger.apply(feed(guid="g2", version=at(-60), published_at=at(-60), timestamp=MORNING), MORNING + HOUR)

    assert ledger.articles["feed#g2"].first_published == old


def test_a_late_event_after_the_window_reserves_no_place_in_the_news() -> None:
    ledger = DecidedTable()
    ledger.apply(publish(timestamp=MORNING + HOUR))
    now = MORNING + timedelta(hours=49)
    ledger.news.clear()  # as roll_window does when the window ends
    ledger.series["news"] = ledger.series["news"].give_back(
        [place for a in ledger.articles.values() if (place := a.news)]
    )
    ledger.apply(publish(published_at=MORNING - 3 * HOUR, timestamp=MORNING - 3 * HOUR), now)
    assert ledger.articles["cms#1042"].news is None
    ledger.apply(publish(timestamp=now, title="Flood over", published_at=MORNING - 3 * HOUR), now)

    assert ledger.series["news"].files[0].entries == len(ledger.news_at(now)) == 0


WIRE = publish("w1", source="wire", title="From the wire")
CMS = publish("1", title="From the CMS", timestamp=MORNING + MINUTE)


@pytest.mark.parametrize(
    ("removals", "after", "pages"),
    [
        (["wire"], None, {page("flood")}),
        (["wire"], publish("1", "moved", timestamp=MORNING + HOUR), {page("moved")}),
        (["wire"], remove("1", timestamp=MORNING + HOUR), set()),
        (["cms"], None, {page("flood")}),
        (["cms"], publish("2", timestamp=MORNING + HOUR), {page("flood")}),
        (["cms", "wire"], None, set()),
        (["cms", "wire"], publish("w1", source="wire", title="Again", timestamp=MORNING + HOUR), {page("flood")}),
    ],
)
def test_a_removal_by_url_removes_its_own_sources_copy_in_every_order(
    removals: list[str], after: ArticleEvent | None, pages: set[str]
) -> None:
    by_url = [remove("", source=source, url=page("flood"), timestamp=MORNING + 2 * MINUTE) for source in removals]
    for events in permutations([WIRE, CMS, *by_url, *([after] if after else [])]):
        ledger = DecidedTable()
        for seconds, event in enumerate((*events, events[0])):
            ledger.apply(event, MORNING + HOUR + timedelta(seconds=10 * seconds))
        assert set(ledger.pages) == pages, [event.name for event in events]


def test_a_removal_of_an_unknown_id_keeps_the_home_page_beside_it() -> None:
    ledger = DecidedTable()
    ledger.apply(feed("", timestamp=None))
    ledger.apply(remove("unknown", url=page("")))

    assert set(ledger.pages) == {page("")}


@pytest.mark.parametrize("order", ["in its order", "late"])
def test_a_late_embargo_has_no_effect_if_a_newer_event_has_another_date(order: str) -> None:
    """The same holds where that date was no correction and did not become the first publication."""
    ledger = DecidedTable()
    dated = publish(timestamp=MORNING + 3 * HOUR, published_at=MORNING + 2 * HOUR)
    undated = publish(timestamp=MORNING + 4 * HOUR, published_at=None, title="Edited")
    ledger.apply(publish())
    for event in (dated, undated) if order == "in its order" else (undated, dated):
        ledger.apply(event, MORNING + 5 * HOUR)

    embargo = publish(timestamp=MORNING + HOUR, published_at=MORNING + 40 * HOUR)
    ledger.apply(embargo, MORNING + 6 * HOUR)

    assert set(ledger.pages) == {page("flood")}
    assert ledger.articles["cms#1042"].first_published == MORNING


def test_an_undated_edit_just_before_the_release_keeps_the_release_date() -> None:
    """The same holds where the sender's clock is ahead and the edit's timestamp is after the release."""
    ledger, release = DecidedTable(), MORNING + 4 * HOUR
    ledger.apply(publish())
    ledger.apply(publish(timestamp=MORNING + HOUR, published_at=release), MORNING + HOUR)
    ledger.apply(publish(timestamp=release + HOUR, published_at=None, received_at=release - 3 * MINUTE))
    ledger.release(release)

    assert ledger.articles["cms#1042"].first_published == release
