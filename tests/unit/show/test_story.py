"""The answer about a page, from facts that no scenario at rest can produce."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta

from stoppress.model.article import FORGOTTEN, Article, Claim
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.file_names import Place
from stoppress.model.order import Order
from stoppress.model.site import Site
from stoppress.notify.page_state import PageState
from stoppress.primitives.instants import exact
from stoppress.show.read_files import FileRead
from stoppress.show.read_story import Facts
from stoppress.show.story import answer_story
from stoppress.show.timeline import READ_BY_GOOGLE
from stoppress_cli.commands.explain import as_lines
from tests.support.printed import as_text

HOST, URL = "www.example.com", "https://www.example.com/flood"
NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
NOW = NOON + timedelta(hours=1)
SITE = Site(host=HOST, publication="Example News", language="en")
ORDER = Order(None, None, None, exact(NOON))
LISTED = Article(
    site=HOST,
    name="cms#1",
    state="listed",
    order=ORDER,
    digest="",
    received_at=NOON,
    url=URL,
    first_published=NOON,
    shard=Place("2026-11", 1, 100),
    news=Place("news", 1, 100),
)
FACTS = Facts(
    asked=URL,
    site=SITE,
    url=URL,
    claim=Claim(HOST, URL, "cms#1", live=True, order=ORDER),
    articles=(LISTED,),
    general={"cms#1": GeneralEntry(URL)},
    news=NewsEntry(URL, "Flood", NOON),
    files=(FileRead("sitemap-2026-11.xml", True, NOON), FileRead("sitemap-news.xml", True, NOON)),
)


def with_news_file(*, lists: bool, changed: datetime | None = NOON) -> Facts:
    return replace(FACTS, files=(FACTS.files[0], FileRead("sitemap-news.xml", lists, changed)))


def test_a_recorded_page_in_no_file_yet_shows_the_times_of_both() -> None:
    answer = answer_story(with_news_file(lists=False), NOW).news

    assert [reason.kind for reason in answer.reasons] == ["not written"]
    assert "recorded at 2026-11-20 12:00:00 +00:00" in answer.reasons[0].text
    assert "sitemap-news.xml, last changed at 2026-11-20 12:00:00 +00:00" in answer.reasons[0].text
    assert answer_story(with_news_file(lists=True), NOW).news.reasons == ()


def test_a_reason_has_its_times_in_the_time_zone_of_the_newsroom() -> None:
    paris = Site(host=HOST, publication="Example News", timezone="Europe/Paris")
    story = answer_story(replace(with_news_file(lists=False), site=paris), NOW)

    assert "recorded at 2026-11-20 13:00:00 +01:00" in story.news.reasons[0].text
    ended = answer_story(replace(FACTS, site=paris), NOON + timedelta(hours=48))
    assert "the window ended at 2026-11-22 13:00:00 +01:00" in ended.news.reasons[0].text
    assert "last changed 2026-11-20 13:00:00 +01:00" in as_text(as_lines(ended))


def test_a_page_that_a_file_still_lists_shows_why_it_leaves() -> None:
    answer = answer_story(FACTS, NOON + timedelta(hours=48)).news

    assert (answer.listed, answer.until, [reason.kind for reason in answer.reasons]) == (True, None, ["expired"])


def test_a_forgotten_article_is_no_missing_event() -> None:
    forgotten = replace(LISTED, state="removed", reason=FORGOTTEN, url=None, shard=None, news=None)
    claim = Claim(HOST, URL, "cms#1", live=False, order=ORDER)
    story = answer_story(replace(FACTS, claim=claim, articles=(forgotten,), general={}, news=None, files=()), NOW)

    assert [reason.kind for reason in story.news.reasons] == ["forgotten"]


def test_a_feeds_embargo_ends_nothing_while_the_cms_has_removed_the_page() -> None:
    held = replace(LISTED, name="feed#1", state="held", release_at=NOW + timedelta(days=1), shard=None, news=None)
    removed = replace(LISTED, state="removed")
    claim = Claim(HOST, URL, "cms#1", live=False, order=ORDER)
    story = answer_story(replace(FACTS, claim=claim, articles=(held, removed), general={}, news=None, files=()), NOW)

    assert ([reason.kind for reason in story.news.reasons], story.held_until) == (["removed"], None)


def test_googles_report_on_a_page_is_quoted_or_its_absence_explained() -> None:
    console = {"search_console": {"property": f"https://{HOST}/", "secret": "google"}}
    site = {"host": HOST, "publication": "Example", "timezone": "Europe/Paris", "engines": console}
    page = PageState(URL, "v1", NOON, NOON, inspected_at=NOON + timedelta(minutes=16), verdict="NEUTRAL")
    page = replace(
        page, coverage="Crawled - currently not indexed", google_canonical=f"{URL}?amp", robots_state="DISALLOWED"
    )
    facts = replace(FACTS, site=Site.model_validate(site), page_state=page)
    story = answer_story(replace(facts, read_by_google=NOON + timedelta(minutes=3), console_reason="answers 429"), NOW)

    report = (
        f"yes: {READ_BY_GOOGLE} at 2026-11-20 13:03:00 +01:00; Crawled - currently not indexed"
        f" (asked 2026-11-20 13:16:00 +01:00); its canonical URL is {URL}?amp; robots.txt forbids to crawl it"
        "; no more, because answers 429"
    )
    assert story.google == report
    assert f"Seen by Google: {report}\n" in as_text(as_lines(story))
    plain = replace(page, coverage="", google_canonical=URL, robots_state="ALLOWED")
    not_yet = "not yet: no report shows that Google has read the story; NEUTRAL (asked 2026-11-20 13:16:00 +01:00)"
    assert answer_story(replace(facts, page_state=plain), NOW).google == not_yet
    assert answer_story(replace(facts, site=Site.model_validate(site | {"engines": {}})), NOW).google == ""
