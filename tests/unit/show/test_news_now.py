"""Every page, command and report shows the stories in the news that the news sitemap lists."""

import re
from datetime import UTC, datetime, timedelta

import pytest

from stoppress.feeds.events import judged
from stoppress.feeds.feed_documents import Entry, Reading
from stoppress.model.article import Article
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.exclusion_reasons import warnings_of
from stoppress.model.file_names import Place
from stoppress.model.order import Order
from stoppress.model.site import Site
from stoppress.primitives.instants import exact, iso
from stoppress.show.page import render_content
from stoppress.show.read_files import FileRead
from stoppress.show.read_page import SitePage
from stoppress.show.read_site import Quarantine, SiteFacts, StackFacts
from stoppress.show.read_story import Facts
from stoppress.show.stack_status import Access, stack_status
from stoppress.show.story import answer_story
from stoppress.sitemaps.fold import fold_news
from stoppress.sitemaps.render import render_news
from stoppress_cli.commands.feeds import trial_lines

NOW = datetime(2026, 11, 20, 12, tzinfo=UTC)
HOST = "www.example.com"
SITE = Site.model_validate(
    {
        "host": HOST,
        "publication": "Example",
        "sources": {"cms": {}},
        "rules": [{"exclude": "news", "path": "/sponsored/*"}],
    }
)
OTHER = NewsEntry(f"https://{HOST}/other", "Other", NOW - timedelta(hours=1))


def surfaces(url: str, published: datetime) -> dict[str, bool]:
    """Return whether a story is in the news, by the surface that reports it."""
    entry = NewsEntry(url, "Flood", published)
    news = (OTHER, entry)
    facts = SiteFacts(SITE, {}, (), (), news, None, Quarantine())
    status = stack_status(StackFacts((facts,), rolled_at=NOW), NOW, Access())
    window = re.search(r'<h2 id="window">.*?</section>', render_content(SitePage(SITE, status, news)), re.DOTALL)
    file = render_news([OTHER], SITE, NOW).body
    folded = fold_news(file, {(iso(published), url): entry}, SITE, NOW)
    reading = Reading((Entry(url, url, "Flood", published, None),))
    verdicts = judged(reading, SITE, NOW, feed="")
    trial = list(trial_lines(reading, SITE, NOW, ""))
    event = verdicts[0].event
    assert window
    assert folded
    assert event
    article = Article(
        site=HOST, name="cms#1", state="listed", order=Order(None, None, None, exact(published)), digest="",
        received_at=published, url=url, first_published=published, shard=Place("2026-11", 1, 9), news=Place("news", 1, 9),
    )  # fmt: skip
    listed = render_news(news, SITE, NOW).urls == 2
    story = answer_story(
        Facts(
            asked=url, site=SITE, url=url, articles=(article,), general={"cms#1": GeneralEntry(url)}, news=entry,
            files=(FileRead("sitemap-news.xml", listed, NOW),),
        ),
        NOW,
    )  # fmt: skip
    return {
        "the file": listed,
        "the folded file": folded.urls == 2,
        "status": status.sites[0]["window"]["stories"] == 2,
        "status, the next to leave": status.sites[0]["window"]["next_to_leave"] == url,
        "the page": "Flood" in window[0],
        "explain": story.news.listed and not story.news.reasons,
        "feeds try": any("general and news sitemap" in line for line in trial),
        "the answer to a webhook": not warnings_of(event, SITE, NOW, {}),
    }


@pytest.mark.parametrize(
    ("path", "age", "is_in_news"),
    [
        ("flood", timedelta(hours=2), True),
        ("flood", timedelta(hours=48, seconds=-1), True),
        ("flood", timedelta(hours=48), False),
        ("sponsored/flood", timedelta(hours=2), False),
        ("sponsored/flood", timedelta(hours=48), False),
    ],
)
def test_all_surfaces_agree_whether_a_story_is_in_the_news(path: str, age: timedelta, is_in_news: bool) -> None:
    answers = surfaces(f"https://{HOST}/{path}", NOW - age)

    assert answers == dict.fromkeys(answers, is_in_news)
