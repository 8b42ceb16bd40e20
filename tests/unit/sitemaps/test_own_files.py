"""A file of Stoppress that is listed as a feed is recognised behind proxies; a CMS's file of the same name is not."""

import re
from datetime import timedelta

import pytest

from stoppress.feeds.feed_documents import FeedError
from stoppress.http import client
from stoppress.model.entries import GeneralEntry, Mark, NewsEntry
from stoppress.model.site import Site
from stoppress.poll import fetch_feeds as fetching
from stoppress.sitemaps.fold import is_own_file
from stoppress.sitemaps.other_forms import atom_feed
from stoppress.sitemaps.render import render_general, render_index, render_news, render_pages
from tests.support.article_events import HOST, MORNING, SITE, page

PAGES = [GeneralEntry(page(path), MORNING) for path in ("a", "b?x=1&y=2", "c")]
NEWS = [NewsEntry(page(path), "T", MORNING - timedelta(minutes=number)) for number, path in enumerate("abc")]
NAMES = ("sitemap-2026-11.xml", "sitemap-news.xml")
SHARD = render_general(PAGES, SITE).body

OURS = {
    "sitemap-2026-11.xml": SHARD,
    "sitemap-2026-11-2.xml": render_general([*PAGES, GeneralEntry(page("d"))], SITE).body,
    "sitemap-news.xml": render_news(NEWS, SITE, MORNING).body,
    "sitemap-news-fr.xml": render_news([], SITE, MORNING).body,  # empty: it lists the home page
    "sitemap.xml": render_index([Mark(name, MORNING, 1, 1, "d") for name in NAMES], SITE).body,
    "sitemap-news.atom": atom_feed(NEWS, SITE, file="sitemap-news.atom"),
}
# Files of other generators. The first is the most similar one found: sorted, one page a line, no blanks.
THEIRS = {
    "without a date": re.sub(rb"<lastmod>[^<]*</lastmod>", b"", SHARD),
    "another form of date": SHARD.replace(b"Z</lastmod>", b"+00:00</lastmod>"),
    "days": SHARD.replace(b"T08:00:00Z", b""),
    "in another order": render_general(PAGES, SITE).body.replace(b"/a<", b"/z<"),
    "indented": SHARD.replace(b"<url>", b"  <url>"),
    "another declaration": SHARD.replace(b'"UTF-8"', b'"utf-8"'),
    "a style sheet": SHARD.replace(b"?>\n", b'?>\n<?xml-stylesheet type="text/xsl" href="/main.xsl"?>\n', 1),
    "no line end": SHARD.rstrip(),
    "a schema": SHARD.replace(b"<urlset ", b'<urlset xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance" '),
    "of another host": SHARD.replace(b"www.example.com", b"www.example.org"),
    "an index of other names": OURS["sitemap.xml"].replace(b"/sitemap-", b"/post-sitemap-"),
    "not XML": b"\xff\xfe<html>",
    "nothing": b"",
}


@pytest.mark.parametrize("name", OURS)
@pytest.mark.parametrize("before", [f"https://{HOST}/", f"https://d111111abcdef8.cloudfront.net/{HOST}/"])
def test_a_file_of_stoppress_is_recognised_by_name_and_bytes(name: str, before: str) -> None:
    assert is_own_file(before + name, OURS[name], SITE)
    assert not is_own_file(f"https://{HOST}/old-{name}", OURS[name], SITE)
    if name.endswith(".xml"):
        assert is_own_file(f"{before}{name}.gz", OURS[name], SITE)


@pytest.mark.parametrize("kind", THEIRS)
def test_a_file_of_a_cms_is_not_recognised(kind: str) -> None:
    for name in ("sitemap.xml", "sitemap-news.xml", "sitemap-2026-11.xml", "sitemap-news.atom"):
        assert not is_own_file(f"https://{HOST}/{name}", THEIRS[kind], SITE)


def test_a_file_of_configured_pages_is_recognised_without_dates() -> None:
    pages = [page("about"), page("contact?a=1&b=2")]
    before, site = (
        Site.model_validate({"host": HOST, "publication": "P", "scheme": "http", "pages": named})
        for named in (pages[:1], pages)
    )
    url = page("sitemap-pages.xml")
    assert is_own_file(url, render_pages([], site).body, site)
    assert is_own_file(url, render_pages([], before).body, site)  # the new configuration is not applied yet
    assert not is_own_file(url, render_pages([], site).body, before)
    assert not is_own_file(url, render_pages([], site).body.replace(b"<url>", b" <url>"), site)


def test_a_site_polls_its_old_sitemap_until_stoppress_serves_the_url(monkeypatch: pytest.MonkeyPatch) -> None:
    """The proxy removes the headers of Stoppress."""
    bodies = {"/sitemap.xml": THEIRS["another form of date"], "/sitemap-news.xml": b""}
    monkeypatch.setattr(
        client, "fetch", lambda url, headers: client.Response(200, {}, bodies[url.removeprefix(f"https://{HOST}")], url)
    )
    old = fetching.fetch(page("sitemap.xml"), {}, SITE)
    _, reading = fetching.read(old, SITE, ())
    assert [entry.url for entry in reading.entries] == [page("a"), page("b?x=1&y=2"), page("c")]

    bodies["/sitemap.xml"] = OURS["sitemap.xml"]
    with pytest.raises(FeedError, match="Stoppress writes this file itself: take it out of the site's feeds"):
        fetching.fetch(page("sitemap.xml"), {}, SITE)

    # The CMS's index lists a file that Stoppress now serves.
    bodies["/sitemap.xml"] = OURS["sitemap.xml"].replace(b"sitemap-2026-11.xml", b"post-sitemap.xml")
    bodies |= {"/post-sitemap.xml": THEIRS["indented"], "/sitemap-news.xml": OURS["sitemap-news.xml"]}
    fetched = fetching.fetch(page("sitemap.xml"), {}, SITE)
    assert [child.url for child in fetched.children] == [page("post-sitemap.xml")]
    assert fetched.failures == (f"{page('sitemap-news.xml')}: Stoppress writes this file itself",)
