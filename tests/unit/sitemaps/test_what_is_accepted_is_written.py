"""Whatever the contract takes can be written: no article holds back the file that it stands in, and the checker agrees."""

from datetime import timedelta
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from stoppress.cms.contract import BadArticle, read_delivery
from stoppress.model.site import Site
from stoppress.sitemaps.broken_file import assert_valid
from stoppress.sitemaps.render import render_general, render_news
from stoppress_cli.check import checker
from stoppress_cli.check.findings import Findings
from stoppress_cli.check.input import InMemory, Source
from tests.support.ledger import HOST, MORNING, SITE, Ledger, page

LATER = MORNING + timedelta(hours=1)

# What has broken files before: markup, entities, parentheses, codes, regions, pages that are each other's versions.
texts = st.one_of(
    st.text(max_size=40),
    st.sampled_from(
        ["AT&amp;amp;amp;T", "<<b>i>x", "News (UK", "a]]>b", "\u202eabc", "&#0;", "x" * 3_000, "<p>Flood</p>"]
    ),
)
urls = st.sampled_from(
    [
        page("a"),
        page("b"),
        page("c?x=1&y=2"),
        f"https://{HOST}/",
        page("é/ü"),
        "https://img.example.com/1.jpg?a=1",
        "x",
        "",
    ]
)
codes = st.sampled_from(["en", "fr", "EN-gb", "zh-Hant", "x-default", "gr", "haw", "xx", ""])
videos = st.fixed_dictionaries(
    {"thumbnail_loc": urls, "title": texts, "description": texts, "content_loc": urls},
    optional={
        "duration": st.integers(-5, 40_000),
        "rating": st.floats(-1, 9),
        "tags": st.lists(texts),
        "uploader": texts,
    },
)
articles = st.fixed_dictionaries(
    {"url": urls, "title": texts},
    optional={
        "published_at": st.sampled_from(["2026-11-20T08:00:00Z", "2026-11-20T10:00:00+01:00", "2019-01-01T00:00:00Z"]),
        "updated_at": st.sampled_from(["2026-11-20T08:30:00Z", "2030-01-01T00:00:00Z"]),
        "language": st.sampled_from(["en", "xx", "zh-Hant", "haw", "sh", "pt-BR"]),
        "publication": texts,
        "section": texts,
        "keywords": st.lists(texts, max_size=3),
        "images": st.lists(urls, max_size=3),
        "videos": st.lists(videos, max_size=2),
        "alternates": st.lists(st.fixed_dictionaries({"hreflang": codes, "url": urls}), max_size=4),
        "changefreq": st.sampled_from(["daily", "often"]),
        "priority": st.sampled_from([0.5, "1.0", 7]),
    },
)
# Rules that one article's own texts can break, without harm to the file.
OF_TEXTS = frozenset(
    "alternate-not-mutual escaped-twice hreflang news-home news-language news-name title-markup"
    " video-description video-url video-value".split()
)
SITES = [
    SITE,
    Site.model_validate(SITE.model_dump() | {"scheme": "http", "write": ["keywords", "changefreq", "priority"]}),
]


@pytest.mark.matrix
@settings(max_examples=150, deadline=None)
@given(documents=st.lists(articles, max_size=6), site=st.sampled_from(SITES))
def test_whatever_the_contract_accepts_is_written(documents: list[dict[str, Any]], site: Site) -> None:
    ledger = Ledger(site)
    for number, data in enumerate(documents):
        document = {
            "type": "article.published",
            "timestamp": "2026-11-20T09:00:00Z",
            "data": {"id": str(number), **data},
        }
        try:
            event, _ = read_delivery(document, site, "cms", LATER)
        except BadArticle:
            continue
        ledger.hear(event, LATER)

    files = {}
    for file in {file for file, _ in ledger.general}:
        files[file] = render_general([entry for (name, _), entry in ledger.general.items() if name == file], site)
    for file in {file for file, _, _ in ledger.news}:
        files[file] = render_news([entry for (name, _, _), entry in ledger.news.items() if name == file], site, LATER)
    for file, rendered in files.items():
        assert_valid(file, rendered, site.origin)
    sources = [Source(file, f"{site.origin}/{file}", InMemory(file, one.body)) for file, one in files.items()]
    report = Findings(each_max=1, severities=frozenset({"error"}))
    checker.check(sources, report, LATER, is_all=False)
    assert {finding.rule.name for finding in report} <= OF_TEXTS
