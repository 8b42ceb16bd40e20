"""For any text in any tag, files are valid and contain the data of the event."""

import re
from datetime import timedelta
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st

from stoppress.aws.items import general_item, news_item, read_general, read_news
from stoppress.cms.contract import BadArticle, read_delivery
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.event import ArticleEvent, from_message, to_message
from stoppress.model.file_names import NEWS_FILE, Place
from stoppress.model.media import DESCRIPTION_MAX, DURATION_S_MAX, TITLE_MAX, UPLOADER_MAX
from stoppress.model.site import Site
from stoppress.model.site_parts import Source as SiteSource
from stoppress.sitemaps.render import Rendered, assert_valid, render_general, render_news
from stoppress_cli.check import checker
from stoppress_cli.check.findings import Findings
from stoppress_cli.check.input import Source
from tests.support.article_events import HOST, MORNING, DecidedTable, page

pytestmark = pytest.mark.matrix

SM, NEWS = "{http://www.sitemaps.org/schemas/sitemap/0.9}", "{http://www.google.com/schemas/sitemap-news/0.9}"
IMAGE, VIDEO = (f"{{http://www.google.com/schemas/sitemap-{kind}/1.1}}" for kind in ("image", "video"))
XHTML = "{http://www.w3.org/1999/xhtml}"
SHARD = "sitemap-2026-11.xml"
OF_TEXTS = frozenset(
    "alternate-not-mutual escaped-twice hreflang news-home news-language news-name title-markup"
    " video-description video-url video-value".split()
)
HOUR = timedelta(hours=1)
ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
SITE = Site(
    host=HOST,
    publication="Example News",
    sources={"cms": SiteSource(secret="cms")},
    write=("keywords", "changefreq", "priority"),
)

# Any character: controls, lone surrogates, non-characters and markup.
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
RELATIONS = ("restriction", "platform")
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
    """Return the event of a delivery, as read from the queue; None if the article was refused."""
    now = MORNING + HOUR
    try:
        event, _ = read_delivery({"type": "article.published", "data": data}, SITE, "cms", now)
    except BadArticle:
        return None
    return from_message(to_message(event))


def entries_of(event: ArticleEvent) -> tuple[GeneralEntry, NewsEntry]:
    """Return an article's entries as read from the table."""
    ledger = DecidedTable(SITE)
    ledger.apply(event, MORNING + HOUR)
    (general,), (news,) = ledger.general.values(), ledger.news.values()
    stored = read_general(general_item(HOST, "sitemap-2026-11.xml", general))
    return stored, read_news(news_item(HOST, Place("news", 1, 400), news))


@settings(max_examples=150)
@given(ARTICLES)
def test_the_files_of_any_delivery_break_no_rule_and_contain_its_data(data: dict[str, Any]) -> None:
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
    assert [[(tag.tag.removeprefix(VIDEO), tag.text) for tag in video] for video in videos] == [
        [
            (name, text.partition(" ")[2] if name in RELATIONS else text)
            for name, text in video
            if name != "uploader_info"
        ]
        for video in event.videos
    ]
    assert story.findtext(f"{NEWS}news/{NEWS}title") == event.title
    assert story.findtext(f"{NEWS}news/{NEWS}publication/{NEWS}name") == (event.publication or "Example News")
    assert (story.findtext(f"{NEWS}news/{NEWS}keywords") or "") == ", ".join(event.keywords)
    assert url.findtext(f"{SM}priority") == event.priority
    assert url.findtext(f"{SM}changefreq") == event.changefreq
    check_limits(event)
    for scheme in ("https", "http"):
        site = SITE.model_copy(update={"scheme": scheme})
        files = {SHARD: render_general([general], site), NEWS_FILE: render_news([news], site, MORNING + HOUR)}
        for file, rendered in files.items():
            assert_valid(file, rendered, site.origin)
            assert ILLEGAL.search(rendered.body.decode()) is None
        check_rules(site, files)


def check_limits(event: ArticleEvent) -> None:
    assert event.title
    for video in map(dict, event.videos):
        assert 0 < len(video["title"]) <= TITLE_MAX
        assert 0 < len(video["description"]) <= DESCRIPTION_MAX
        assert 1 <= int(video.get("duration", 1)) <= DURATION_S_MAX
        assert 0 <= float(video.get("rating", 0)) <= 5
        assert 0 < len(video.get("uploader", "-")) <= UPLOADER_MAX
        assert video.get("content_loc") or video.get("player_loc")
    assert all(sum(name == "tag" for name, _ in video) <= 32 for video in event.videos)
    for link in (*event.images, *(dict(video)["thumbnail_loc"] for video in event.videos)):
        assert urlsplit(link).scheme in ("http", "https")
        assert len(link) <= 2_047
    assert event.priority is None or 0 <= float(event.priority) <= 1


def check_rules(site: Site, files: dict[str, Rendered]) -> None:
    """Check files by the rules of `stoppress check`, except those that an article's own texts may break."""
    report = Findings(each_max=1, severities=frozenset({"error"}))
    sources = [Source(file, f"{site.origin}/{file}", rendered_file.body) for file, rendered_file in files.items()]
    checker.check(sources, report, MORNING + HOUR, is_all=False)
    assert {finding.rule.name for finding in report} <= OF_TEXTS


def root(rendered: Rendered) -> Any:
    return ET.fromstring(rendered.body)
