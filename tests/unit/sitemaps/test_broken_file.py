"""A file that would break the protocol is refused with line and reason; every rendered file passes."""

from dataclasses import replace

import pytest

from stoppress.model.entries import Alternate, GeneralEntry, Mark, NewsEntry
from stoppress.model.file_names import BYTES_MAX
from stoppress.sitemaps.fold import fold_general
from stoppress.sitemaps.render import BrokenFile, Rendered, assert_valid, render_general, render_index, render_news
from tests.support.article_events import MORNING, SITE, page

CAMERA = (
    ("thumbnail_loc", page("still.jpg")),
    ("title", "The storm"),
    ("description", "Wind & waves"),
    ("content_loc", page("v.mp4")),
    ("uploader", "The crew"),
)
RICH = GeneralEntry(
    page("a?x=1&y=2"), MORNING, images=(page("1.jpg"),), videos=(CAMERA,), alternates=(Alternate("fr", page("b")),)
)
SHARD = render_general([RICH, GeneralEntry(page("b"))], SITE)
NEWS = render_news([NewsEntry(page("a"), "<Flood> & storm", MORNING, MORNING)], SITE, MORNING)
INDEX = render_index([Mark("sitemap-news.xml", MORNING, 1, 400, "digest")], SITE)
PLAIN = render_general([GeneralEntry(page("b"))], SITE)
FOLDED = fold_general(PLAIN.body, {page("c"): GeneralEntry(page("c"))}, SITE)
assert FOLDED


@pytest.mark.parametrize(
    "rendered", [SHARD, NEWS, INDEX, FOLDED, render_general([], SITE), render_news([], SITE, MORNING)]
)
def test_a_rendered_or_folded_file_passes(rendered: Rendered) -> None:
    assert_valid("sitemap.xml", rendered, SITE.origin)


@pytest.mark.parametrize(
    ("rendered", "old", "new", "reason"),
    [
        (SHARD, b"&amp;", b"&", "line 3: R1.2 not well-formed"),
        (SHARD, b"</urlset>", b"", "line 6: R1.2 no element found"),
        (SHARD, b"</url>", b"</uri>", "line 3: R1.2 mismatched tag"),
        (SHARD, b"Wind", b"W\x0b", "line 3: R1.2 not well-formed"),
        (SHARD, b"Wind", b"W\xff", "line 3: R1.2 not well-formed"),
        (NEWS, b"xmlns:news", b"xmlns:old", "line 3: R1.2 unbound prefix"),
        (SHARD, page("b</loc>").encode(), b"https://example.org/b</loc>", "line 4: R1.7 'https://example.org/b'"),
        (SHARD, page("b</loc>").encode(), b"</loc>", "line 4: R1.7 ''"),
        (INDEX, b"https:", b"http:", "line 3: R1.7 "),
        (NEWS, b"&lt;Flood&gt; &amp; storm", b"", "line 3: R1.11 title is empty"),
        (NEWS, b"en</news:language>", b"</news:language>", "line 3: R1.11 language is empty"),
        (SHARD, b"<url>", b"<url>Flood", "line 3: R1.7 'Floodhttps:"),
        (SHARD, b"</url>", b"Flood</url>", "line 3: R1.11 'Flood'"),
        (SHARD, b"<urlset", b"<old><urlset", "line 6: R1.2 no element found"),
        (PLAIN, b"</urlset>", b"<url><lastmod>2026-11-20</lastmod></url></urlset>", "2 entries, 0 with news, 1 URLs"),
        (SHARD, b"</urlset>", b"<url><loc>%b</loc></url></urlset>" % page("c").encode(),
         "3 entries, .* 2 entries were"),
        (PLAIN, b"<loc>", b"<loc/><loc>", "line 3: R1.7 ''"),
    ],
)  # fmt: skip
def test_a_file_that_breaks_the_protocol_is_refused(rendered: Rendered, old: bytes, new: bytes, reason: str) -> None:
    assert old in rendered.body
    with pytest.raises(BrokenFile, match=f"^sitemap-1.xml would break the protocol, and is not written: .*({reason})"):
        assert_valid("sitemap-1.xml", replace(rendered, body=rendered.body.replace(old, new)), SITE.origin)


def test_the_new_lines_of_a_folded_file_are_checked_and_its_old_ones_are_not() -> None:
    assert FOLDED
    assert FOLDED.fresh
    assert_valid("sitemap.xml", replace(FOLDED, body=b"not read"), SITE.origin)
    assert_valid("sitemap.xml", replace(FOLDED, fresh=b""), SITE.origin)
    with pytest.raises(BrokenFile, match=r"R1\.2"):
        assert_valid("sitemap.xml", replace(FOLDED, fresh=FOLDED.fresh[:-9]), SITE.origin)


def test_a_file_with_more_bytes_than_the_protocol_allows_is_refused() -> None:
    assert FOLDED
    with pytest.raises(BrokenFile, match=r"R1\.10"):
        assert_valid("sitemap.xml", replace(FOLDED, body=bytes(BYTES_MAX + 1)), SITE.origin)
