"""What holds for any text in any tag, and for any history of a site with every feature: no file is broken, no page stands twice."""

import gzip
import re
from collections import Counter
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st

from stoppress.aws.items import general_item, news_item, read_general, read_news
from stoppress.cms.contract import BadArticle, read_delivery
from stoppress.model import file_names
from stoppress.model.article import Article
from stoppress.model.entries import GeneralEntry, Mark, NewsEntry
from stoppress.model.event import ArticleEvent, from_message, to_message
from stoppress.model.file_names import is_news, is_pages, is_shard, news_series
from stoppress.model.media_values import DESCRIPTION_MAX, DURATION_S_MAX, TITLE_MAX, UPLOADER_MAX
from stoppress.model.places import Place
from stoppress.model.rules import excluding_rule
from stoppress.model.site import Edition, Outputs, Page, Rule, Shards, Site, Source, Voice
from stoppress.sitemaps import render
from stoppress.sitemaps.gzip_text import compressed, text_sitemap
from stoppress.sitemaps.render import Rendered, render_general, render_index, render_news, render_pages
from tests.support.ledger import HOST, MORNING, Ledger, page

pytestmark = pytest.mark.matrix

SM, NEWS = "{http://www.sitemaps.org/schemas/sitemap/0.9}", "{http://www.google.com/schemas/sitemap-news/0.9}"
IMAGE, VIDEO = (f"{{http://www.google.com/schemas/sitemap-{kind}/1.1}}" for kind in ("image", "video"))
XHTML, ATOM = "{http://www.w3.org/1999/xhtml}", "{http://www.w3.org/2005/Atom}"
MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SITE = Site(
    host=HOST,
    publication="Example News",
    sources={"cms": Source(secret="cms")},
    write=("keywords", "changefreq", "priority"),
)

# Any character there is: controls, half characters, non-characters, and those that markup is made of.
ANY = st.text(st.characters() | st.sampled_from("<>&\"'\x00\x0b\x85\ud800\ufffe\U0001ffff]🌊ü٣क"), max_size=40)
TEXT = ANY | st.sampled_from(
    ["&lt;b&gt;", "&#0;", "&#xD800;", "<![CDATA[x]]>", "&amp;amp;", " ", "]]>", "\u202e", "x" * 3_000]
)
LINKS = ANY.map(lambda text: f"https://img.example.com/{text}")
URLS = LINKS | ANY | st.sampled_from(["/a.jpg", "http://[", "//x", "ftp://a/b"])
SOME_TEXT = TEXT.map(lambda text: f"T{text}")
NUMBERS = st.sampled_from([1, 4.5, "3", "yes", 0.5]) | st.integers() | st.floats() | TEXT | st.booleans()
WHEN = (
    st.sampled_from(["2026-11-20", "2026-11-20T08:00:00Z"])
    | st.sampled_from(["2026-11-20", "2026-11-20T08:00:00+01:00", "2026-02-30", "9999-12-31T23:59:59-12:00"])
    | TEXT
)
VIDEOS = st.fixed_dictionaries(
    {"thumbnail_loc": LINKS, "title": SOME_TEXT, "description": SOME_TEXT, "content_loc": LINKS | URLS},
    optional={
        "player_loc": URLS, "duration": NUMBERS, "expiration_date": WHEN, "rating": NUMBERS, "view_count": NUMBERS,
        "publication_date": WHEN, "tags": st.lists(TEXT, max_size=40) | TEXT, "family_friendly": NUMBERS,
        "restriction": st.just("allow GB IE") | st.dictionaries(st.sampled_from(["allow", "deny"]), TEXT | st.lists(TEXT)) | TEXT,
        "requires_subscription": NUMBERS, "uploader": TEXT | st.fixed_dictionaries({"name": TEXT, "info": URLS}),
        "platform": st.fixed_dictionaries({"allow": st.just(["web", "tv"]) | TEXT}), "live": NUMBERS,
    },
)  # fmt: skip
ARTICLES = st.fixed_dictionaries(
    {"id": st.just("1"), "url": st.just(page("flood")), "title": SOME_TEXT | TEXT, "published_at": st.just("2026-11-20T08:00:00Z")},
    optional={
        "publication": TEXT, "section": TEXT, "type": TEXT, "keywords": st.lists(TEXT, max_size=5) | TEXT,
        "flags": st.lists(TEXT, max_size=5) | st.dictionaries(TEXT, st.booleans(), max_size=3),
        "changefreq": TEXT | st.just("daily"), "priority": NUMBERS | st.just(0.5),
        "images": st.lists(URLS | st.fixed_dictionaries({"url": URLS, "published_at": WHEN}), max_size=5) | TEXT,
        "videos": st.lists(VIDEOS, min_size=1, max_size=3), "alternates": st.dictionaries(st.sampled_from(["fr", "de-AT", "x-default"]) | TEXT, LINKS, max_size=4),
    },
)  # fmt: skip


def read_event(data: dict[str, Any]) -> ArticleEvent | None:
    """The event of a delivery, as it comes out of the queue; None where the article itself was refused."""
    now = MORNING + HOUR
    try:
        event, _ = read_delivery({"type": "article.published", "data": data}, SITE, "cms", now)
    except BadArticle:
        return None
    return from_message(to_message(event))


def entries_of(event: ArticleEvent) -> tuple[GeneralEntry, NewsEntry]:
    """An article's entries as they come out of the table."""
    ledger = Ledger(SITE)
    ledger.hear(event, MORNING + HOUR)
    (general,), (news,) = ledger.general.values(), ledger.news.values()
    stored = read_general(general_item(HOST, "sitemap-2026-11.xml", general))
    assert stored
    return stored, read_news(news_item(HOST, Place("news", 1, 400), news))


@settings(max_examples=300)
@given(ARTICLES)
def test_whatever_a_cms_sends_the_files_are_well_formed_and_say_what_was_read(data: dict[str, Any]) -> None:
    event = read_event(data)
    if event is None:
        return
    general, news = entries_of(event)
    (url,) = root(render_general([general], SITE)).findall(f"{SM}url")
    (story,) = root(render_news([news], SITE, MORNING + HOUR)).findall(f"{SM}url")

    assert [image.findtext(f"{IMAGE}loc") for image in url.findall(f"{IMAGE}image")] == list(event.images)
    links = {link.get("hreflang"): link.get("href") for link in url.findall(f"{XHTML}link")}
    assert links.items() >= {(alternate.hreflang, alternate.href) for alternate in event.alternates}
    assert bool(links) == bool(event.alternates)
    videos = url.findall(f"{VIDEO}video")
    assert [tags_of(video) for video in videos] == [
        {
            "thumbnail_loc": video.thumbnail_loc, "title": video.title, "description": video.description,
            "content_loc": video.content_loc, "player_loc": video.player_loc, "rating": video.rating,
            "expiration_date": video.expiration_date, "publication_date": video.publication_date,
            "uploader": video.uploader, "tags": list(video.tags),
            "duration": None if video.duration_s is None else str(video.duration_s),
            "view_count": None if video.view_count is None else str(video.view_count),
        }
        for video in event.videos
    ]  # fmt: skip
    assert story.findtext(f"{NEWS}news/{NEWS}title") == event.title
    assert story.findtext(f"{NEWS}news/{NEWS}publication/{NEWS}name") == (event.publication or "Example News")
    assert (story.findtext(f"{NEWS}news/{NEWS}keywords") or "") == ", ".join(event.keywords)
    assert url.findtext(f"{SM}priority") == event.priority
    assert url.findtext(f"{SM}changefreq") == event.changefreq


@settings(max_examples=300)
@given(ARTICLES)
def test_whatever_a_cms_sends_no_tag_exceeds_its_limit(data: dict[str, Any]) -> None:
    event = read_event(data)
    if event is None:
        return
    assert event.title
    assert ILLEGAL.search(render_general([entries_of(event)[0]], SITE).body.decode()) is None
    for video in event.videos:
        assert 0 < len(video.title) <= TITLE_MAX
        assert 0 < len(video.description) <= DESCRIPTION_MAX
        assert video.duration_s is None or 1 <= video.duration_s <= DURATION_S_MAX
        assert video.rating is None or 0 <= float(video.rating) <= 5
        assert video.uploader is None or 0 < len(video.uploader) <= UPLOADER_MAX
        assert len(video.tags) <= 32
        assert video.content_loc or video.player_loc
    for link in (*event.images, *(video.thumbnail_loc for video in event.videos)):
        assert urlsplit(link).scheme in ("http", "https")
        assert len(link) <= 2_047
    assert event.priority is None or 0 <= float(event.priority) <= 1


# ── histories ──

PATHS = ["a", "b", "fr/a", "fr/b", "de/a", "sponsored/a", "about", "contact"]
EVENTS = st.tuples(
    st.sampled_from(["publish", "publish", "publish", "remove"]),
    st.sampled_from(["1", "2", "3", "4"]),
    st.sampled_from(PATHS),
    st.integers(-3_000, 60),  # minutes from the morning to the publication
    st.sampled_from([None, "Sport", "Local"]),
    st.booleans(),  # a page that is no article
    st.integers(0, 3),  # minutes until the next event
)
SITES = st.builds(
    Site,
    host=st.just(HOST),
    publication=st.just("Example News"),
    sources=st.just({"cms": Source(secret="cms")}),
    shards=st.builds(Shards, by=st.sampled_from(["day", "month", "year"]), size=st.integers(1, 3), per_section=st.booleans()),
    rules=st.sampled_from([(), (Rule(exclude="all", path="/sponsored/*"),), (Rule(exclude="news", section="Sport"),),
                           (Rule(exclude="general", section="Local"),)]),
    sections=st.sampled_from([{}, {"Sport": Voice(publication="Example Sport")}]),
    editions=st.sampled_from([
        (), (Edition(prefix="/fr/", language="fr", news="fr"),),
        (Edition(prefix="/fr/", language="fr", news="fr"), Edition(prefix="/de/", publication="Beispiel", news="de")),
    ]),
    pages=st.sampled_from([(), (Page(url="/"), Page(url="/about", priority="0.3"))]),
    republish=st.sampled_from(["keep-date", "new-date"]),
    outputs=st.just(Outputs(gzip=True, text=True, atom=True)),
)  # fmt: skip


class Published:
    """A site's files at an instant, from what a ledger holds."""

    def __init__(self, ledger: Ledger, site: Site, now: datetime) -> None:
        names = (
            {file for file, _ in ledger.general}
            | {file for file, *_ in ledger.news}
            | set(file_names.permanent_files(site))
        )
        self.rendered: dict[str, Rendered] = {}
        for file in sorted(names):
            general = [entry for (name, _), entry in ledger.general.items() if name == file]
            news = [entry for (name, *_), entry in ledger.news.items() if name == file]
            if is_news(file):
                self.rendered[file] = render_news(news, site, now)
            else:
                self.rendered[file] = (render_pages if is_pages(file) else render_general)(general, site)

    def locs(self, *, news: bool) -> Iterator[str]:
        """Every page that stands in a file, as often as it does, but for the home page of an empty file."""
        for file, rendered in self.rendered.items():
            if is_news(file) == news and rendered.urls:
                yield from (element.text or "" for element in root(rendered).iter(f"{SM}loc"))


@settings(max_examples=150)
@given(st.lists(EVENTS, min_size=5, max_size=14), SITES, SITES)
def test_whatever_happens_a_page_stands_in_one_shard_and_one_news_file(
    events: list[tuple[str, str, str, int, str | None, bool, int]], site: Site, later: Site
) -> None:
    """Over moves between editions, sections, pages and articles, and over one change of the configuration."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stoppress.model.places.NEWS_ENTRIES_MAX", 2)
        patch.setattr(render, "NEWS_ENTRIES_MAX", 2)
        ledger, now = Ledger(site), MORNING
        for number, (action, article, path, minutes, section, is_page, wait) in enumerate(events):
            now += wait * MINUTE
            if number == len(events) // 2:
                ledger.site = site = later
            fields: dict[str, Any] = {"site": HOST, "source": "cms", "id": article, "timestamp": now, "version": number}
            if action == "publish":
                dates = {"published_at": MORNING + minutes * MINUTE, "updated_at": now}
                fields |= {"url": page(path), "title": f"Story {number}", "section": section, "page": is_page, **dates}
            event = ArticleEvent(action="publish" if action == "publish" else "remove", **fields)
            after = ledger.hear(event, now).article
            if after and after.news and event.url and after.is_in_news(now):
                assert after.news.series == news_series(site, event.url)
            check(ledger, site, now)
        check(ledger, site, now + 49 * HOUR)


def check(ledger: Ledger, site: Site, now: datetime) -> None:
    published = Published(ledger, site, now)
    general, news = Counter(published.locs(news=False)), Counter(published.locs(news=True))
    listed = {a.url: a for a in ledger.articles.values() if a.has_entries and a.url}
    assert [loc for loc, times in (general + Counter()).items() if times > 1] == []
    assert [loc for loc, times in news.items() if times > 1] == []
    # What stands in the files is what is listed and let in, and the configuration's own pages.
    traits = {entry.loc: entry.traits for entry in ledger.general.values()}
    let_in = {url for url in listed if not excluding_rule(site.rules, "general", url, traits[url])}
    assert set(general) == let_in | set(site.pages_by_url)
    assert set(news) == {
        url
        for url, article in listed.items()
        if in_news(article, now) and not excluding_rule(site.rules, "news", url, traits[url])
    }
    for file, rendered in published.rendered.items():
        assert is_news(file) != is_shard(file)
        if is_news(file):
            assert rendered.urls <= 2
        assert text_sitemap(rendered.locs, site) if is_shard(file) else True
        assert gzip.decompress(compressed(rendered.body)) == rendered.body
    marks = [Mark(file, now, one.urls, len(one.body), "", (f"{file}.gz",)) for file, one in published.rendered.items()]
    (index,) = render_index(marks, site)
    named = {(loc.text or "").rpartition("/")[2].removesuffix(".gz") for loc in root(index).iter(f"{SM}loc")}
    assert named == {
        name for name, one in published.rendered.items() if one.urls or name in file_names.permanent_files(site)
    }


def in_news(article: Article, now: datetime) -> bool:
    return article.news is not None and article.is_in_news(now)


def tags_of(video: Any) -> dict[str, Any]:
    names = ("thumbnail_loc", "title", "description", "content_loc", "player_loc", "rating", "expiration_date",
             "publication_date", "uploader", "duration", "view_count")  # fmt: skip
    tags: dict[str, Any] = {name: video.findtext(f"{VIDEO}{name}") for name in names}
    return tags | {"tags": [tag.text for tag in video.findall(f"{VIDEO}tag")]}


def root(rendered: Rendered) -> Any:
    return ET.fromstring(rendered.body)
