"""The exact bytes of the files, and properties for any text in them."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st
from lxml import etree

from stoppress.model import file_names as limits
from stoppress.model.entries import Alternate, GeneralEntry, Mark, NewsEntry
from stoppress.model.file_names import NEWS_FILE, file_name, shard_series
from stoppress.model.news_window import NEWS_WINDOW
from stoppress.model.site import Page, Shards, Site
from stoppress.model.site_parts import Outputs
from stoppress.primitives.text import clean
from stoppress.sitemaps import render
from stoppress.sitemaps.render import (
    BrokenFile,
    Rendered,
    assert_valid,
    lists_in_general,
    render_general,
    render_index,
    render_news,
    render_pages,
)
from stoppress.sitemaps.tags import general_line, line_bytes, news_line
from tests.support.article_events import MORNING, SITE, page

GOLDEN = Path(__file__).parents[3] / "tests/fixtures/golden"
SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
HOUR = timedelta(hours=1)

GENERAL = [
    GeneralEntry(page("2026/11/20/flood"), MORNING + HOUR),
    GeneralEntry(page("2026/11/19/%C3%BCmlat?id=1&page=2"), datetime(2026, 11, 19, 23, 59, 59, tzinfo=UTC)),
    GeneralEntry(page("2026/11/18/undated")),
    GeneralEntry(page("2026/11/20/'quoted'"), MORNING),
]
FRESH = [
    NewsEntry(page("2026/11/20/flood"), "Flood closes the harbour", MORNING, MORNING + HOUR),
    NewsEntry(page("2026/11/20/fish?a=1&b=2"), 'Fish & "chips" <cheap>', MORNING),
    NewsEntry(page("2026/11/20/wave"), "🌊 Überschwemmung – der Hafen ist zu", MORNING + HOUR),
    NewsEntry(page("2026/11/20/inondation"), "L'eau monte", MORNING - HOUR, MORNING, "Nouvelles d'Exemple", "fr"),
    NewsEntry(page("2026/11/18/old"), "Expires this very second", MORNING - 46 * HOUR),
]
MARKS = [
    Mark("sitemap-news.xml", MORNING + timedelta(microseconds=1), 4, 2_000, "n"),
    Mark("sitemap-2026-11.xml", MORNING, 4, 700, "b"),
    Mark("sitemap-2026-10.xml", MORNING - 700 * HOUR, 2_000, 90_000, "a"),
    Mark("sitemap-2026-11-2.xml", MORNING + HOUR, 1, 200, "c"),
    Mark("sitemap-2026-09.xml", MORNING + HOUR, 0, 150, "emptied"),
]
AT = MORNING + 2 * HOUR


@pytest.mark.parametrize(
    ("name", "rendered"),
    [
        ("shard", render_general(GENERAL, SITE)),
        ("emptied-shard", render_general([], SITE)),
        ("news", render_news(FRESH, SITE, AT)),
        ("empty-window", render_news(FRESH, SITE, AT + 48 * HOUR)),
        ("index", render_index(MARKS, SITE)),
    ],
)
def test_the_bytes_are_those_of_the_golden_file(name: str, rendered: Rendered) -> None:
    assert rendered.body == (GOLDEN / f"{name}.xml").read_bytes()


def test_the_index_lists_an_empty_window_but_no_emptied_shard() -> None:
    empty = [Mark(NEWS_FILE, MORNING, 0, 150, "n"), Mark("sitemap-2026-11.xml", MORNING, 0, 150, "b")]
    body = render_index([*empty, Mark("sitemap-news-2.xml", MORNING, 0, 150, "n2")], SITE).body.decode()

    assert "sitemap-news.xml" in body
    assert "sitemap-2026-11.xml" not in body
    assert "sitemap-news-2.xml" not in body


@pytest.mark.parametrize(("wants", "listed"), [(True, "/news.xml.gz<"), (False, "/news.xml<")])
def test_the_index_lists_a_gzip_form_that_its_site_still_wants(*, wants: bool, listed: str) -> None:
    site = SITE.model_copy(update={"outputs": Outputs(gzip=wants)})
    mark = Mark("news.xml", MORNING, 1, 1, "d", also=("news.xml.gz",))

    assert listed.encode() in render_index([mark], site).body


def test_no_two_files_of_any_series_share_a_name() -> None:
    """This holds also after a change of the period, because old shards stay."""
    series = ["2026", *(f"2026-{month:02}" for month in range(1, 13)), "2026-11-02", "2026-11-20", "news"]
    named = Site(host=SITE.host, publication="Example News", shards=Shards(per_section=True))
    sections = [
        "Formula",
        "Formula 2",
        "Formula 10",
        "Formula 010",
        "Formula 1-00",
        "Café",
        "2026",
        "Ω",
        "x" * 50,
        f"{'x' * 39} 2",
    ]
    series += sorted({shard_series(named, MORNING, section) for section in sections})
    names = [file_name(name, number) for name in dict.fromkeys(series) for number in range(1, 140)]
    assert len(set(names)) == len(names)


# ── limits ──


def test_entries_are_limited_at_the_number_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(render, "URLS_MAX", 4)
    monkeypatch.setattr(render, "NEWS_ENTRIES_MAX", 4)
    for rendered in (render_general(GENERAL, SITE), render_news(FRESH, SITE, AT)):  # one of FRESH has expired
        assert_valid("sitemap.xml", rendered, SITE.origin)
    for rendered in (render_general([*GENERAL, GeneralEntry(page("z"))], SITE), render_news(FRESH, SITE, MORNING)):
        with pytest.raises(BrokenFile, match=r"R1\.10 5 entries"):
            assert_valid("sitemap.xml", rendered, SITE.origin)


def test_sizes_are_bytes_of_utf_8_not_characters(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [NewsEntry(page("wave"), "🌊" * 100, MORNING)]
    rendered = render_news(entries, SITE, AT)
    body = rendered.body
    assert len(body) > len(body.decode()) + 290

    monkeypatch.setattr(render, "BYTES_MAX", len(body))
    assert_valid("sitemap-news.xml", rendered, SITE.origin)
    monkeypatch.setattr(render, "BYTES_MAX", len(body) - 1)
    with pytest.raises(BrokenFile, match=rf"R1\.10 .* {len(body)} bytes"):
        assert_valid("sitemap-news.xml", rendered, SITE.origin)


def test_the_limits_of_the_protocol_are_in_the_code() -> None:
    assert (limits.URLS_MAX, limits.BYTES_MAX, limits.NEWS_ENTRIES_MAX) == (50_000, 50 * 1024 * 1024, 1_000)
    assert timedelta(hours=48) == NEWS_WINDOW


# ── any text ──

LEGAL = st.characters(exclude_categories=["Cs"]) | st.sampled_from("<>&\"'\u2028]🌊ü")
TITLES = st.text(LEGAL, max_size=60).map(clean).filter(bool)
LOCS = st.text(st.characters(min_codepoint=33, max_codepoint=126), max_size=30).map(page)
WHEN = st.datetimes(datetime(2026, 11, 1), datetime(2026, 11, 30), timezones=st.just(UTC))  # noqa: DTZ001 - UTC comes beside
NEWS_ENTRIES = st.builds(NewsEntry, LOCS, TITLES, WHEN, st.none() | WHEN, st.none() | TITLES, st.none() | st.just("fr"))


@given(st.lists(st.builds(GeneralEntry, LOCS, st.none() | WHEN), max_size=8, unique_by=lambda entry: entry.loc))
def test_any_urls_are_written_sorted_one_per_line(entries: list[GeneralEntry]) -> None:
    rendered = render_general(entries, SITE)
    locs = [element.text for element in _root(rendered).iter(f"{SITEMAP}loc")]

    assert locs == (sorted(entry.loc for entry in entries) or [SITE.home])
    lines = rendered.body.decode().split("\n")
    assert [line.startswith("<url>") for line in lines] == [False, False, *[True] * len(locs), False, False]


@given(NEWS_ENTRIES, st.builds(GeneralEntry, LOCS, st.none() | WHEN))
def test_a_line_has_its_estimated_size(news: NewsEntry, general: GeneralEntry) -> None:
    for line, body in (
        (news_line(news, SITE), render_news([news], SITE, news.published).body),
        (general_line(general, SITE), render_general([general], SITE).body),
    ):
        assert line_bytes(line) <= len(body) <= line_bytes(line) + limits.FRAME_BYTES_MAX


def _root(rendered: Rendered) -> Any:
    return etree.fromstring(rendered.body)


VERSIONS = (Alternate("en", page("a")), Alternate("fr", page("fr/b")), Alternate("x-default", "http://a.example.org/"))
RULES: dict[str, tuple[list[dict[str, str]], str]] = {
    "none": ([], "en fr x-default"),
    "the other page is excluded": ([{"path": "/fr/*"}], "en x-default"),
    "the page is excluded": ([{"path": "/a"}], ""),
    "perhaps the other page is included": (
        [{"include": "all", "section": "sport"}, {"path": "/fr/*"}],
        "en fr x-default",
    ),
    "perhaps the other page is excluded": ([{"path": "/fr/*", "section": "sport"}], "en fr x-default"),
    "the other page is no news": ([{"path": "/fr/*", "exclude": "news"}], "en fr x-default"),
}


@pytest.mark.parametrize("case", RULES)
def test_both_entries_list_the_alternates_that_the_rules_allow(case: str) -> None:
    rules, codes = RULES[case]
    site = Site.model_validate(SITE.model_dump() | {"scheme": "http", "rules": rules})
    general = GeneralEntry(page("a"), alternates=VERSIONS)
    news = render_news([general.as_news("A", MORNING, None)], site, MORNING).body.decode()
    hrefs = {link.hreflang: link.href.replace("https:", "http:") for link in VERSIONS if link.hreflang in codes.split()}

    for text in (general_line(general, site), news):
        assert dict(re.findall(r'hreflang="([^"]+)" href="([^"]+)"', text)) == hrefs
    assert ("xmlns:xhtml" in news) is bool(codes)


def test_a_single_page_has_no_alternates() -> None:
    site = Site.model_validate(SITE.model_dump() | {"rules": [{"path": "/fr/*"}]})
    assert "xhtml" not in render_general([GeneralEntry(page("a"), alternates=VERSIONS[:2])], site).body.decode()


def test_a_configured_page_is_one_page_in_any_spelling_of_an_event() -> None:
    site = Site.model_validate(SITE.model_dump() | {"pages": (Page(url="/caf%c3%a9"),)})
    entry = GeneralEntry(page("caf%C3%A9"), MORNING)

    assert render_pages([entry], site).urls == 1
    assert render_pages([entry], site).newest == MORNING
    assert not lists_in_general(entry, site)
