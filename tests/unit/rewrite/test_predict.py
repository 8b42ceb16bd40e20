"""The prediction for one file. tests/simulation/test_predicted_configurations.py compares predictions with files."""

import gzip
import zlib

import pytest

from stoppress.rewrite.predict import FileChange
from stoppress.sitemaps.other_forms import compressed


def listing(*lines: str) -> bytes:
    return "\n".join(["<?xml?>", "<urlset>", *lines, "</urlset>", ""]).encode()


def line(path: str, more: str = "", scheme: str = "https") -> str:
    return f"<url><loc>{scheme}://www.example.com/{path}</loc>{more}</url>"


def test_lines_are_compared_by_their_url() -> None:
    before = listing(line("a"), line("b"), line("c"), line("d"))
    after = listing(line("b", "<lastmod>1</lastmod>"), line("c", scheme="http"), line("d"), line("e"), line("f"))
    assert FileChange("sitemap-2026-11.xml", before, after).lines() == {"enter": 2, "leave": 1, "change": 2}
    assert FileChange("sitemap-2026-11.xml", None, after).lines() == {"enter": 5, "leave": 0, "change": 0}


def test_the_home_page_of_an_empty_news_sitemap_is_no_story() -> None:
    story = line("a", "<news:news></news:news>")
    change = FileChange("sitemap-news.xml", listing(story), listing(line("")))
    assert change.stories() == ({"//www.example.com/a"}, set())
    assert FileChange("sitemap-2026-11.xml", listing(story), None).stories() == (set(), set())


@pytest.mark.parametrize("stored", [b"by hand", compressed(b"another")[:12], compressed(b"another")])
def test_a_gzip_file_changes_with_its_content(stored: bytes) -> None:
    assert FileChange("sitemap.xml.gz", stored, compressed(b"text")).is_change


def test_another_compression_of_a_file_is_no_change() -> None:
    body = b"text " * 1_000
    packed = gzip.compress(body, zlib.Z_BEST_COMPRESSION, mtime=1)
    assert packed != compressed(body)
    assert not FileChange("sitemap.xml.gz", packed, compressed(body)).is_change
