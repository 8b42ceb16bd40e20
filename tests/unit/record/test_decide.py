"""The rules of recording, one sentence each, and what must hold for any story in any order."""

from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from tests.support.ledger import MORNING, SITE, Ledger, page, publish, remove

MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)


def feed(path: str = "flood", guid: str = "guid-7", **said: Any) -> ArticleEvent:
    return publish(guid, path, **({"source": "feed"} | said))


def test_a_published_article_stands_in_its_month_and_in_the_news() -> None:
    ledger = Ledger()
    decision = ledger.hear(publish())

    assert decision.outcome == "listed"
    assert ledger.pages == {page("flood"): "sitemap-2026-11.xml"}
    assert ledger.news_at(MORNING)[page("flood")].title == "Flood closes the harbour"


def test_the_same_delivery_twice_changes_nothing() -> None:
    ledger = Ledger()
    ledger.hear(publish())

    assert ledger.hear(publish(), MORNING + HOUR).outcome == "duplicate"
    assert ledger.writes == 1


def test_the_same_content_at_a_newer_version_moves_no_lastmod_but_outdates_what_is_older() -> None:
    ledger = Ledger()
    ledger.hear(publish(version=1))
    before = dict(ledger.general)

    assert ledger.hear(publish(version=5, timestamp=MORNING + HOUR)).outcome == "duplicate"
    assert ledger.general == before
    assert ledger.hear(publish(version=3, title="An older headline")).outcome == "late"


def test_an_edit_changes_title_and_lastmod_but_not_the_publication_date() -> None:
    ledger = Ledger()
    ledger.hear(publish())
    ledger.hear(publish(title="Flood closes harbour and airport", updated_at=MORNING + HOUR, timestamp=MORNING + HOUR))

    entry = ledger.news_at(MORNING + HOUR)[page("flood")]
    assert (entry.title, entry.published, entry.lastmod) == (
        "Flood closes harbour and airport",
        MORNING,
        MORNING + HOUR,
    )


def test_a_feed_that_names_no_change_date_moves_no_lastmod() -> None:
    ledger = Ledger()
    ledger.hear(feed())
    ledger.hear(feed(title="Flood Closes The Harbour", timestamp=MORNING + HOUR))

    assert [entry.lastmod for entry in ledger.general.values()] == [MORNING]


def test_lastmod_is_never_before_publication_and_never_in_the_future() -> None:
    ledger = Ledger()
    ledger.hear(publish(updated_at=MORNING - HOUR))
    assert [entry.lastmod for entry in ledger.general.values()] == [MORNING]
    ledger.hear(publish(updated_at=MORNING + 4 * MINUTE, timestamp=MORNING + MINUTE))
    assert [entry.lastmod for entry in ledger.general.values()] == [MORNING + MINUTE]


def test_a_late_publish_does_not_revive_a_deleted_article() -> None:
    ledger = Ledger()
    ledger.hear(publish())
    ledger.hear(remove())

    assert ledger.hear(publish(title="Flood, corrected", timestamp=MORNING + timedelta(seconds=30))).outcome == "late"
    assert ledger.pages == {}


def test_a_repeat_is_known_by_its_version_after_the_hour_of_an_embargo() -> None:
    ledger = Ledger()
    plain: dict[str, Any] = {"timestamp": None, "verb": "updated", "published_at": None}
    ledger.hear(publish(timestamp=None, version=1, published_at=MORNING + HOUR), MORNING)
    edit = publish(version=2, title="Flood, corrected", delivery="msg_1", **plain)
    ledger.hear(edit, MORNING + MINUTE)
    deliveries = ledger.articles["cms#1042"].deliveries
    ledger.release(MORNING + HOUR)

    assert ledger.articles["cms#1042"].deliveries == deliveries
    assert ledger.hear(replace(edit, delivery="msg_2"), MORNING + 2 * HOUR).outcome == "duplicate"


def test_a_repeat_is_known_by_its_version_after_its_article_came_back() -> None:
    ledger = Ledger()
    plain: dict[str, Any] = {"timestamp": None, "verb": "updated", "published_at": None}
    ledger.hear(publish(timestamp=None, version=1), MORNING)
    edit = publish(version=2, title="Flood, corrected", **plain)
    ledger.hear(edit, MORNING)
    ledger.hear(publish("1043", title="Another story", timestamp=None, version=1), MORNING + MINUTE)
    ledger.hear(remove("1043", timestamp=None, version=2), MORNING + 2 * MINUTE)
    assert ledger.articles["cms#1042"].state == "listed"

    assert ledger.hear(edit, MORNING + HOUR).outcome == "duplicate"


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 0, 2), (1, 2, 0), (2, 1, 0)])
def test_a_timestamp_that_comes_late_shows_since_when_an_article_is_known(order: tuple[int, ...]) -> None:
    ledger = Ledger()
    events = [
        publish(version=1),
        publish(version=2, timestamp=MORNING + 10 * MINUTE, title="Flood, corrected"),
        publish(version=3, timestamp=MORNING + 14 * MINUTE, published_at=MORNING + 13 * MINUTE),
    ]
    for number in order:
        ledger.hear(events[number], MORNING + HOUR)

    assert ledger.articles["cms#1042"].first_published == MORNING


def test_a_delete_that_comes_before_its_publish_wins() -> None:
    ledger = Ledger()
    ledger.hear(remove("never seen", timestamp=MORNING + MINUTE))

    assert ledger.hear(publish("never seen"), MORNING + 2 * MINUTE).outcome == "late"
    assert ledger.pages == {}


def test_at_the_same_version_and_instant_the_removal_wins_in_either_order() -> None:
    for events in ([publish(version=7), remove(version=7, timestamp=MORNING)],) * 2:
        for order in (events, events[::-1]):
            ledger = Ledger()
            for event in order:
                ledger.hear(event)
            assert ledger.pages == {}


def test_other_content_at_an_equal_version_is_applied() -> None:
    ledger = Ledger()
    ledger.hear(publish(version=7))
    ledger.hear(publish(version=7, path="flood-in-the-harbour", timestamp=MORNING + MINUTE))

    assert set(ledger.pages) == {page("flood-in-the-harbour")}


def test_a_removal_without_a_version_is_ordered_by_its_instant() -> None:
    ledger = Ledger()
    ledger.hear(publish(version=7))
    ledger.hear(remove())

    assert ledger.pages == {}


def test_a_slug_change_replaces_the_page_in_its_shard() -> None:
    ledger = Ledger()
    ledger.hear(publish())
    ledger.hear(publish(path="harbour-flood", timestamp=MORNING + MINUTE))

    assert ledger.pages == {page("harbour-flood"): "sitemap-2026-11.xml"}
    assert set(ledger.news_at(MORNING)) == {page("harbour-flood")}


def test_swapped_slugs_end_with_each_page_in_its_place() -> None:
    ledger = Ledger()
    ledger.hear(publish("a", "x", title="A"))
    ledger.hear(publish("b", "y", title="B"))
    ledger.hear(publish("a", "y", title="A", timestamp=MORNING + MINUTE))
    ledger.hear(publish("b", "x", title="B", timestamp=MORNING + MINUTE))

    assert {url: entry.title for url, entry in ledger.news_at(MORNING).items()} == {page("x"): "B", page("y"): "A"}
    assert set(ledger.pages) == {page("x"), page("y")}


def test_a_late_delete_does_not_take_a_url_that_another_article_has_by_now() -> None:
    ledger = Ledger()
    ledger.hear(publish("old", "flood"))
    ledger.hear(publish("new", "flood", title="Another flood", timestamp=MORNING + MINUTE))
    ledger.hear(remove("old", timestamp=MORNING + 2 * MINUTE))

    assert set(ledger.pages) == {page("flood")}


def test_of_two_articles_with_one_url_the_newer_has_it_in_either_order() -> None:
    older = publish("old", "flood", title="Old")
    newer = publish("new", "flood", title="New", timestamp=MORNING + MINUTE)
    for order in ([older, newer], [newer, older]):
        ledger = Ledger()
        for event in order:
            ledger.hear(event, MORNING + HOUR)
        assert {entry.title for entry in ledger.news_at(MORNING).values()} == {"New"}


def test_the_cms_takes_over_the_page_that_the_feed_brought() -> None:
    ledger = Ledger()
    ledger.hear(feed(published_at=MORNING - HOUR, title="Flood (feed)"))
    ledger.hear(publish(timestamp=MORNING + MINUTE, title="Flood"))

    entry = ledger.news_at(MORNING)[page("flood")]
    assert (entry.title, entry.published) == ("Flood", MORNING)
    assert ledger.articles["feed#guid-7"].reason == "cms#1042 speaks for this page"


def test_the_cms_date_replaces_that_of_the_feed_only_once() -> None:
    ledger = Ledger()
    ledger.hear(feed(published_at=MORNING - HOUR))
    ledger.hear(publish(published_at=None))
    assert [entry.published for entry in ledger.news_at(MORNING).values()] == [MORNING - HOUR]
    ledger.hear(publish(timestamp=MORNING + MINUTE))
    ledger.hear(publish(timestamp=MORNING + HOUR, published_at=MORNING + HOUR))
    assert [entry.published for entry in ledger.news_at(MORNING).values()] == [MORNING]


def test_the_feed_does_not_touch_the_page_of_the_cms() -> None:
    ledger = Ledger()
    ledger.hear(publish())
    decision = ledger.hear(feed(title="Flood (feed)", timestamp=MORNING + HOUR, updated_at=MORNING + HOUR))

    assert (decision.outcome, decision.reason) == ("displaced", "cms#1042 speaks for this page")
    assert ledger.news_at(MORNING)[page("flood")].title == "Flood closes the harbour"


def test_the_feed_cannot_revive_what_the_cms_removed() -> None:
    ledger = Ledger()
    ledger.hear(feed())
    ledger.hear(publish(timestamp=MORNING + MINUTE))
    ledger.hear(remove(timestamp=MORNING + 2 * MINUTE))
    ledger.hear(feed(title="Flood again", timestamp=MORNING + HOUR, updated_at=MORNING + HOUR))
    ledger.hear(feed(guid="guid-8", timestamp=MORNING + HOUR))

    assert ledger.pages == {}


def test_the_feed_cannot_bring_back_the_slug_that_the_cms_left() -> None:
    ledger = Ledger()
    ledger.hear(publish(path="old-slug"))
    ledger.hear(publish(path="new-slug", timestamp=MORNING + MINUTE))
    ledger.hear(feed("old-slug", timestamp=MORNING + HOUR))

    assert set(ledger.pages) == {page("new-slug")}


def test_previous_urls_bury_what_the_feed_has_brought_under_them() -> None:
    ledger = Ledger()
    ledger.hear(feed("old-slug"))
    ledger.hear(publish(path="new-slug", previous_urls=(page("old-slug"),), timestamp=MORNING + MINUTE))
    ledger.hear(feed("old-slug", title="Still here", timestamp=MORNING + HOUR))

    assert set(ledger.pages) == {page("new-slug")}


def test_previous_urls_do_not_take_the_page_of_another_article_of_the_cms() -> None:
    ledger = Ledger()
    ledger.hear(publish("other", "reused"))
    ledger.hear(publish(path="new-slug", previous_urls=(page("reused"),), timestamp=MORNING + MINUTE))

    assert set(ledger.pages) == {page("new-slug"), page("reused")}


def test_entries_of_a_feed_with_one_url_are_one_page() -> None:
    ledger = Ledger()
    ledger.hear(feed(guid="1", published_at=MORNING - HOUR))
    ledger.hear(feed(guid="2", title="Later", timestamp=MORNING + MINUTE))

    assert {entry.title for entry in ledger.news_at(MORNING).values()} == {"Later"}


def test_a_re_dated_story_does_not_enter_the_window_again() -> None:
    ledger = Ledger()
    ledger.hear(publish())
    later = MORNING + timedelta(days=3)
    decision = ledger.hear(publish(published_at=later, updated_at=later, timestamp=later))

    assert decision.article
    assert decision.article.news_reason == "published more than 48 hours ago"
    assert ledger.news_at(later) == {}
    assert [entry.lastmod for entry in ledger.general.values()] == [later]


def test_a_re_dated_story_is_not_news_again_where_the_newer_event_comes_first() -> None:
    ledger = Ledger()
    later = MORNING + timedelta(days=3)
    ledger.hear(publish(published_at=later, updated_at=later, timestamp=later))
    assert set(ledger.news_at(later)) == {page("flood")}
    decision = ledger.hear(publish(), later)

    assert decision.outcome == "late"
    assert ledger.news_at(later) == {}
    assert ledger.articles["cms#1042"].news_reason == "published more than 48 hours ago"
    assert ledger.series["news"].files[0].entries == 0


def test_a_late_event_that_dates_a_story_within_the_window_moves_only_its_date() -> None:
    ledger = Ledger()
    ledger.hear(publish(title="Flood over", published_at=MORNING + HOUR, timestamp=MORNING + HOUR))
    ledger.hear(publish(published_at=MORNING - HOUR), MORNING + HOUR)

    assert [(e.title, e.published) for e in ledger.news_at(MORNING).values()] == [("Flood over", MORNING - HOUR)]


def test_a_re_dated_story_enters_again_where_the_site_wants_it() -> None:
    ledger = Ledger(SITE.model_copy(update={"republish": "new-date"}))
    ledger.hear(publish())
    later = MORNING + timedelta(days=3)
    ledger.hear(publish(published_at=later, timestamp=later))

    assert [entry.published for entry in ledger.news_at(later).values()] == [later]


def test_republishing_keeps_the_first_date_and_the_shard() -> None:
    ledger = Ledger()
    ledger.hear(publish())
    ledger.hear(remove())
    ledger.hear(publish(published_at=MORNING + HOUR, timestamp=MORNING + HOUR))

    assert ledger.pages == {page("flood"): "sitemap-2026-11.xml"}
    assert [entry.published for entry in ledger.news_at(MORNING).values()] == [MORNING]


def test_a_story_without_a_date_is_general_only_and_stands_in_the_month_it_was_heard_of() -> None:
    ledger = Ledger()
    decision = ledger.hear(publish(published_at=None))

    assert decision.article
    assert decision.article.news_reason == "no publication date"
    assert ledger.pages == {page("flood"): "sitemap-2026-11.xml"}
    assert [entry.lastmod for entry in ledger.general.values()] == [None]


def test_a_date_that_comes_later_puts_the_story_into_the_news_but_not_into_another_shard() -> None:
    ledger = Ledger()
    ledger.hear(publish(published_at=None), datetime(2026, 10, 31, 23, 0, tzinfo=MORNING.tzinfo))
    ledger.hear(publish(timestamp=MORNING + MINUTE))

    assert ledger.pages == {page("flood"): "sitemap-2026-10.xml"}
    assert set(ledger.news_at(MORNING)) == {page("flood")}


def test_a_date_just_ahead_counts_as_now_where_the_senders_clock_has_passed_it() -> None:
    ledger = Ledger()
    ahead = MORNING + 5 * MINUTE
    ledger.hear(publish(published_at=ahead, timestamp=ahead), MORNING)

    assert [entry.published for entry in ledger.news_at(MORNING).values()] == [MORNING]


@pytest.mark.parametrize("timestamp", [MORNING, None])
def test_a_date_a_minute_ahead_is_an_embargo_where_the_senders_clock_has_not_passed_it(
    timestamp: datetime | None,
) -> None:
    ledger = Ledger()
    decision = ledger.hear(publish(published_at=MORNING + MINUTE, timestamp=timestamp), MORNING)

    assert decision.outcome == "held"
    ledger.release(MORNING + MINUTE)
    assert [entry.published for entry in ledger.news_at(MORNING).values()] == [MORNING + MINUTE]


def test_what_a_feed_dates_just_ahead_is_public_and_counts_as_now() -> None:
    ledger = Ledger()
    ledger.hear(feed(published_at=MORNING + 4 * MINUTE), MORNING)

    assert [entry.published for entry in ledger.news_at(MORNING).values()] == [MORNING]


def test_a_story_of_the_future_is_held_until_its_hour() -> None:
    ledger = Ledger()
    release = MORNING + 3 * HOUR
    decision = ledger.hear(publish(published_at=release))
    assert decision.outcome == "held"
    assert ledger.pages == {}
    assert set(ledger.due) == {(release, "cms#1042")}

    ledger.hear(publish(published_at=release, release=release), release)
    assert set(ledger.news_at(release)) == {page("flood")}
    assert set(ledger.due) == set()


def test_a_held_story_that_a_slow_clock_gets_too_early_stays_due() -> None:
    ledger = Ledger()
    release = MORNING + 3 * HOUR
    ledger.hear(publish(published_at=release))
    ledger.hear(publish(published_at=release, release=release, heard_at=MORNING), release - MINUTE)

    assert set(ledger.due) == {(release, "cms#1042")}


def test_a_late_event_of_a_held_story_does_not_take_its_place_among_what_is_due() -> None:
    """Close before its hour the older event dates the story; it is the newer one that is to be published."""
    ledger = Ledger()
    release = MORNING + HOUR
    ledger.hear(publish(published_at=release, title="New", timestamp=MORNING + MINUTE, version=2))
    late = ledger.hear(publish(published_at=release, title="Old", version=1), release - 4 * MINUTE)

    assert (late.outcome, late.held) == ("late", None)
    assert set(ledger.due) == {(release, "cms#1042")}


def test_a_held_story_can_be_put_off_brought_forward_and_removed() -> None:
    ledger = Ledger()
    ledger.hear(publish(published_at=MORNING + 3 * HOUR))
    ledger.hear(publish(published_at=MORNING + 5 * HOUR, timestamp=MORNING + MINUTE))
    assert set(ledger.due) == {(MORNING + 5 * HOUR, "cms#1042")}
    stale = publish(published_at=MORNING + 3 * HOUR, release=MORNING + 3 * HOUR)
    assert ledger.hear(stale, MORNING + 3 * HOUR).outcome == "late"
    ledger.hear(publish(published_at=MORNING, timestamp=MORNING + 4 * HOUR))
    assert (set(ledger.pages), set(ledger.due)) == ({page("flood")}, set())

    ledger.hear(publish("other", "other", published_at=MORNING + 9 * HOUR, timestamp=MORNING + 5 * HOUR))
    ledger.hear(remove("other", timestamp=MORNING + 6 * HOUR))
    assert (set(ledger.pages), set(ledger.due)) == ({page("flood")}, set())


def test_a_held_story_claims_nothing_and_takes_out_no_page_of_another_source() -> None:
    ledger = Ledger()
    ledger.hear(publish(published_at=MORNING + 3 * HOUR))
    ledger.hear(feed(timestamp=None, title="From the feed"), MORNING + MINUTE)
    assert [entry.title for entry in ledger.news_at(MORNING).values()] == ["From the feed"]

    ledger.release(MORNING + 3 * HOUR)
    assert [entry.title for entry in ledger.news_at(MORNING).values()] == ["Flood closes the harbour"]


def test_a_postponed_story_leaves_the_files_and_the_feed_does_not_bring_it_back() -> None:
    ledger = Ledger()
    ledger.hear(publish())
    ledger.hear(publish(published_at=MORNING + 3 * HOUR, timestamp=MORNING + MINUTE))
    ledger.hear(feed(timestamp=None), MORNING + 2 * MINUTE)
    assert ledger.pages == {}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"noindex": True}, "noindex"),
        ({"access": "protected"}, "protected"),
        (
            {"canonical_url": "https://agency.example.org/flood"},
            "canonical elsewhere: https://agency.example.org/flood",
        ),
        ({"canonical_url": page("other")}, "canonical elsewhere"),
        ({"url": "https://blog.example.com/flood"}, "foreign host: blog.example.com is not www.example.com"),
    ],
)
def test_what_stays_out_goes_out_with_its_reason(said: dict[str, Any], reason: str) -> None:
    ledger = Ledger()
    ledger.hear(publish())
    decision = ledger.hear(publish(**({"timestamp": MORNING + MINUTE} | said)))

    assert decision.outcome == "excluded"
    assert decision.article
    assert decision.article.reason.startswith(reason)
    assert (ledger.pages, ledger.news_at(MORNING)) == ({}, {})


@pytest.mark.parametrize("said", [{"access": "subscription"}, {"canonical_url": page("flood")}])
def test_a_paywall_and_a_canonical_link_to_itself_keep_nothing_out(said: dict[str, Any]) -> None:
    ledger = Ledger()
    ledger.hear(publish(**said))

    assert set(ledger.news_at(MORNING)) == {page("flood")}


def test_the_feed_does_not_list_what_the_cms_keeps_out() -> None:
    ledger = Ledger()
    ledger.hear(publish(noindex=True))
    ledger.hear(feed(timestamp=MORNING + MINUTE))

    assert ledger.pages == {}


def test_an_article_that_is_let_in_again_is_listed_again() -> None:
    ledger = Ledger()
    ledger.hear(publish(noindex=True))
    ledger.hear(publish(timestamp=MORNING + MINUTE))

    assert set(ledger.pages) == {page("flood")}


@pytest.mark.parametrize(
    ("said", "reason"),
    [
        ({"news": False}, "its source keeps it out of the news sitemap"),
        ({"title": ""}, "no title"),
        ({"published_at": MORNING - timedelta(hours=48)}, "published more than 48 hours ago"),
    ],
)
def test_what_is_no_news_stands_in_the_general_sitemap_with_its_reason(said: dict[str, Any], reason: str) -> None:
    ledger = Ledger()
    decision = ledger.hear(publish(**said))

    assert decision.article
    assert decision.article.news_reason == reason
    assert (set(ledger.pages), ledger.news_at(MORNING)) == ({page("flood")}, {})


def test_an_article_that_stops_being_news_leaves_the_news_at_once() -> None:
    ledger = Ledger()
    ledger.hear(publish())
    ledger.hear(publish(news=False, timestamp=MORNING + MINUTE))

    assert (set(ledger.pages), ledger.news) == ({page("flood")}, {})
    assert ledger.series["news"].files[0].entries == 0


def test_the_rules_of_a_site_hide_articles_and_say_which() -> None:
    rules = [{"path": "/sponsored/*"}, {"exclude": "news", "section": "horoscope"}]
    site = Site.model_validate(SITE.model_dump() | {"rules": rules})
    ledger = Ledger(site)

    decision = ledger.hear(publish("1", "sponsored/shoes"))
    assert decision.article
    assert (decision.outcome, decision.article.state) == ("excluded", "hidden")
    assert decision.article.reason == 'rule 1 of the site: {"exclude":"all","path":"/sponsored/*"}'
    decision = ledger.hear(publish("2", "stars", section="horoscope"))
    assert decision.article
    assert (decision.outcome, decision.article.state) == ("listed", "listed")
    assert decision.article.news_reason.startswith("rule 2 of the site")
    # Their entries are there: another rule may let them in without anybody telling of them again.
    assert set(ledger.pages) == {page("sponsored/shoes"), page("stars")}
    assert set(ledger.news_at(MORNING)) == {page("sponsored/shoes"), page("stars")}


def test_an_article_hidden_by_a_rule_is_removed_and_moved_as_any_other() -> None:
    ledger = Ledger(Site.model_validate(SITE.model_dump() | {"rules": [{"path": "/sponsored/*"}]}))
    ledger.hear(publish("1", "sponsored/shoes"))
    ledger.hear(publish("1", "shoes", timestamp=MORNING + MINUTE))
    assert (set(ledger.pages), set(ledger.news_at(MORNING))) == ({page("shoes")}, {page("shoes")})
    ledger.hear(publish("1", "sponsored/boots", timestamp=MORNING + 2 * MINUTE))
    ledger.hear(remove("1", timestamp=MORNING + 3 * MINUTE))

    assert (ledger.pages, ledger.news_at(MORNING)) == ({}, {})
    assert ledger.series["news"].files[0].entries == 0


def test_an_article_of_an_edition_is_in_the_editions_news_sitemap() -> None:
    site = Site.model_validate(SITE.model_dump() | {"editions": [{"prefix": "/fr/", "news": "fr"}]})
    ledger = Ledger(site)
    ledger.hear(publish("1", "fr/inondation"))
    ledger.hear(publish("2", "flood"))
    files = {url: file for file, url, _ in ledger.news}
    assert files == {page("fr/inondation"): "sitemap-news-fr.xml", page("flood"): "sitemap-news.xml"}

    ledger.hear(publish("1", "inondation", timestamp=MORNING + MINUTE))
    assert {url: file for file, url, _ in ledger.news}[page("inondation")] == "sitemap-news.xml"
    assert ledger.series["news-fr"].files[0].entries == 0


def test_a_page_that_is_no_article_has_no_news_and_a_file_of_its_kind() -> None:
    ledger = Ledger()
    decision = ledger.hear(publish("about", "about", page=True, title=""))

    assert ledger.pages == {page("about"): "sitemap-pages.xml"}
    assert not ledger.news
    assert decision.article
    assert decision.article.news_reason == "a page, not an article"


def test_a_shard_of_a_section_is_named_after_it() -> None:
    site = Site.model_validate(SITE.model_dump() | {"shards": {"by": "month", "per_section": True}})
    ledger = Ledger(site)
    for number, section in enumerate(["Économie & Bourse", "", "3D", "news"]):
        ledger.hear(publish(str(number), str(number), section=section))

    assert [ledger.pages[page(str(number))] for number in range(4)] == [
        "sitemap-2026-11-economie-bourse.xml",
        "sitemap-2026-11.xml",
        "sitemap-2026-11.xml",
        "sitemap-2026-11-news.xml",
    ]


def test_a_late_event_that_dates_an_article_leaves_its_images_and_its_section_alone() -> None:
    ledger = Ledger()
    later = MORNING + 10 * MINUTE
    ledger.hear(
        publish(timestamp=later, published_at=later, images=("https://img.example.com/1.jpg",), section="local")
    )
    ledger.hear(publish(), now=later)

    [entry] = ledger.general.values()
    assert (entry.images, entry.traits.section) == (("https://img.example.com/1.jpg",), "local")
    [news] = ledger.news.values()
    assert (news.published, news.traits.section) == (MORNING, "local")


def test_an_expired_entry_is_left_to_the_clock_and_its_place_is_not_given_back_twice() -> None:
    ledger = Ledger()
    ledger.hear(publish())
    later = MORNING + timedelta(hours=49)
    decision = ledger.hear(remove(timestamp=later))

    assert [entry.published for entry in decision.out] == [None]


def test_an_article_that_was_displaced_comes_back_by_itself_when_the_url_is_free() -> None:
    ledger = Ledger()
    ledger.hear(publish("1"))
    ledger.hear(publish("2", title="Another flood", timestamp=MORNING + MINUTE))
    assert ledger.hear(publish("1"), MORNING + 2 * MINUTE).outcome == "duplicate"
    ledger.hear(remove("2", timestamp=MORNING + 3 * MINUTE))

    assert [entry.title for entry in ledger.news_at(MORNING).values()] == ["Flood closes the harbour"]


def test_an_article_that_a_rule_kept_out_comes_in_when_it_is_told_again_without_the_rule() -> None:
    ledger = Ledger(Site.model_validate(SITE.model_dump() | {"rules": [{"path": "/flood"}]}))
    ledger.hear(publish())
    ledger.site = SITE
    ledger.hear(publish(), MORNING + MINUTE)

    assert set(ledger.pages) == {page("flood")}


def test_an_inherited_date_is_not_replaced_by_a_late_event_of_the_same_source() -> None:
    ledger = Ledger()
    old = MORNING - timedelta(days=2)
    ledger.hear(feed(guid="g1", published_at=old, timestamp=MORNING))
    ledger.hear(feed(guid="g2", published_at=None, timestamp=MORNING + HOUR))
    ledger.hear(feed(guid="g2", version=MORNING - HOUR, published_at=MORNING - HOUR, timestamp=MORNING), MORNING + HOUR)

    assert ledger.articles["feed#g2"].first_published == old


def test_a_late_event_after_the_window_leaves_no_place_in_the_news_behind() -> None:
    ledger = Ledger()
    ledger.hear(publish(timestamp=MORNING + HOUR))
    now = MORNING + timedelta(hours=49)
    ledger.news.clear()  # the roller was here, and gave the place back
    ledger.series["news"] = ledger.series["news"].give_back(
        [place for a in ledger.articles.values() if (place := a.news)]
    )
    ledger.hear(publish(published_at=MORNING - 3 * HOUR, timestamp=MORNING - 3 * HOUR), now)
    assert ledger.articles["cms#1042"].news is None
    ledger.hear(publish(timestamp=now, title="Flood over", published_at=MORNING - 3 * HOUR), now)

    assert ledger.series["news"].files[0].entries == len(ledger.news_at(now)) == 0


# ── any story, any order ──

stories = st.lists(
    st.fixed_dictionaries(
        {
            "id": st.sampled_from(["1", "2", "3"]),
            "path": st.sampled_from(["x", "y", "z"]),
            "kind": st.sampled_from(["publish", "publish", "publish", "remove", "noindex", "no news"]),
            "days": st.integers(0, 2),
        }
    ),
    max_size=8,
)


def told(story: list[dict[str, Any]]) -> list[ArticleEvent]:
    """A story as events, each a minute after the one before, and dated anew by some days."""
    events = []
    published = MORNING - timedelta(days=3)
    for minute, step in enumerate(story, 1):
        at = MORNING + minute * MINUTE
        published = min(published + timedelta(days=step["days"]), MORNING)
        if step["kind"] == "remove":
            events.append(remove(step["id"], timestamp=at))
        else:
            said: dict[str, Any] = {
                "published_at": published,
                "noindex": step["kind"] == "noindex",
                "news": step["kind"] != "no news",
                "timestamp": at,
                "updated_at": at,
            }
            events.append(publish(step["id"], step["path"], title=f"{step['id']} at {minute}", **said))
    return events


@pytest.mark.matrix
@settings(max_examples=400, deadline=None)
@given(stories, st.randoms(use_true_random=False))
def test_whatever_the_order_no_page_stands_twice_and_the_last_word_of_each_article_holds(
    story: list[dict[str, Any]], random: object
) -> None:
    events = told(story)
    shuffled = events + events[: len(events) // 2]
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    ledger = Ledger()
    for event in shuffled:
        ledger.hear(event, MORNING + HOUR)  # the ledger checks itself after each

    last = {event.id: event for event in events}
    for name, event in last.items():
        article = ledger.articles[f"cms#{name}"]
        if event.action == "remove":
            assert article.state == "removed"
        elif event.noindex:
            assert article.state in ("excluded", "displaced")
        else:
            assert article.state in ("listed", "displaced")
            assert article.url == event.url


@pytest.mark.matrix
@settings(max_examples=400, deadline=None)
@given(stories, st.randoms(use_true_random=False))
def test_where_articles_share_no_url_every_order_ends_in_the_same_files(
    story: list[dict[str, Any]], random: object
) -> None:
    apart = [step | {"path": f"{step['id']}/{step['path']}"} for step in story]
    events = told(apart)
    in_order, shuffled = Ledger(), Ledger()
    for event in events:
        in_order.hear(event, MORNING + HOUR)
    again = events + events
    random.shuffle(again)  # type: ignore[attr-defined]
    for event in again:
        shuffled.hear(event, MORNING + HOUR)

    assert shuffled.pages == in_order.pages
    assert set(shuffled.general.values()) == set(in_order.general.values())
    assert shuffled.news_at(MORNING) == in_order.news_at(MORNING)


def test_an_entry_that_has_another_id_by_now_does_not_come_back_when_it_leaves() -> None:
    ledger = Ledger()
    ledger.hear(feed(guid="17", timestamp=None), MORNING)
    ledger.hear(feed(guid="7fa89e4c:17", timestamp=None), MORNING + MINUTE)
    ledger.hear(remove("7fa89e4c:17", source="feed", timestamp=None, verb=None), MORNING + 2 * MINUTE)

    assert ledger.pages == {}


def test_a_story_that_comes_under_another_id_leaves_nothing_that_comes_back() -> None:
    for newer in (
        publish("p-900", source="wire", timestamp=MORNING + MINUTE),
        publish("2", timestamp=MORNING + MINUTE),
    ):
        ledger = Ledger()
        ledger.hear(publish("1"))
        ledger.hear(newer)
        ledger.hear(remove(newer.id, source=newer.source, timestamp=MORNING + HOUR))
        assert ledger.pages == {}


def test_the_url_beside_the_id_of_a_removal_takes_out_no_other_page() -> None:
    ledger = Ledger()
    ledger.hear(feed("section", guid="g1", timestamp=None), MORNING)
    ledger.hear(feed("", guid="g2", timestamp=None), MORNING)
    ledger.hear(publish())
    ledger.hear(remove(url=page("section")))
    ledger.hear(remove("unknown", url=page("")))

    assert set(ledger.pages) == {page("section"), page("")}


def test_an_undated_event_recorded_after_the_hour_of_an_embargo_leaves_the_story_in_the_news() -> None:
    ledger = Ledger()
    hour = MORNING + HOUR
    ledger.hear(publish(published_at=hour))
    ledger.hear(
        publish(title="Edited", published_at=None, timestamp=hour - MINUTE, heard_at=hour - MINUTE), hour + MINUTE
    )

    assert [(one.title, one.published) for one in ledger.news_at(hour).values()] == [("Edited", hour)]


@pytest.mark.parametrize("date_is_heard", ["in its order", "late"])
def test_an_embargo_that_comes_late_is_over_where_a_newer_event_has_said_another_date(date_is_heard: str) -> None:
    """Also where that date was no correction and so did not become the first publication."""
    ledger = Ledger()
    dated = publish(timestamp=MORNING + 3 * HOUR, published_at=MORNING + 2 * HOUR)
    undated = publish(timestamp=MORNING + 4 * HOUR, published_at=None, title="Edited")
    ledger.hear(publish())
    for event in (dated, undated) if date_is_heard == "in its order" else (undated, dated):
        ledger.hear(event, MORNING + 5 * HOUR)

    embargo = publish(timestamp=MORNING + HOUR, published_at=MORNING + 40 * HOUR)
    ledger.hear(embargo, MORNING + 6 * HOUR)

    assert set(ledger.pages) == {page("flood")}
    assert ledger.articles["cms#1042"].first_published == MORNING
