"""What others wrote to read sitemaps finds every field in our files; the official schemas take them."""

from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import pytest
from lxml import etree
from usp.fetch_parse import SitemapFetcher
from usp.web_client.abstract_client import AbstractWebClient, AbstractWebClientSuccessResponse

from stoppress.sitemaps.other_forms import compressed
from tests.docs.test_tags import rendered
from tests.support.adjacent_paths import SHARED, needs_shared
from tests.support.article_events import HOST, page

FLOOD, STORM, DERBY = page("flood?id=1&page=2"), page("storm"), page("derby")
TITLE = 'Fish & "chips": it\'s cheap'
SHARD, NEWS, TEXT, FEED = "sitemap-2026-11.xml.gz", "sitemap-news.xml", "sitemap-2026-11.txt", "sitemap-news.atom"
EIGHT, HALF_PAST, NINE = (datetime(2026, 11, 20, *time, tzinfo=UTC) for time in ((8, 0), (8, 30), (9, 0)))


def files() -> dict[str, bytes]:
    """A site's files with every tag that the code writes, by name; robots.txt leads to each."""
    texts = {name: text.encode() for name, text in rendered().items()}
    more = "".join(f"Sitemap: https://{HOST}/{name}\n" for name in (TEXT, FEED))
    return {
        "robots.txt": texts["robots.txt"] + more.encode(),
        "sitemap.xml": texts["index"],
        SHARD: compressed(texts["shards"]),
        NEWS: texts["news"],
        TEXT: texts[".txt"],
        FEED: texts[".atom"],
    }


class Served(AbstractWebClientSuccessResponse):
    """What a CDN answers for a file."""

    def __init__(self, url: str, body: bytes) -> None:
        self._url, self._body = url, body

    def status_code(self) -> int:
        return 200

    def status_message(self) -> str:
        return "OK"

    def header(self, case_insensitive_name: str) -> str | None:
        return None

    def raw_data(self) -> bytes:
        return self._body

    def url(self) -> str:
        return self._url


class Files(AbstractWebClient):
    """The site's files, and nothing else."""

    def set_max_response_data_length(self, max_response_data_length: int | None) -> None:
        """Whatever is asked for is short."""

    def get(self, url: str) -> Served:
        return Served(url, files()[url.removeprefix(f"https://{HOST}/")])


@pytest.fixture(scope="module")
def pages_by_file() -> dict[str, list[Any]]:
    """What ultimate-sitemap-parser finds, from robots.txt on: the pages of each file, by its name."""

    def walked(sitemap: Any) -> Iterator[Any]:
        for sub in getattr(sitemap, "sub_sitemaps", []):
            yield from walked(sub)
        yield sitemap

    tree = SitemapFetcher(f"https://{HOST}/robots.txt", 0, Files()).sitemap()
    return {
        element.url.rpartition("/")[2]: list(element.pages)
        for element in walked(tree)
        if not getattr(element, "sub_sitemaps", None)
    }


def test_ultimate_sitemap_parser_walks_from_robots_txt_to_every_file(pages_by_file: dict[str, list[Any]]) -> None:
    everything = [DERBY, FLOOD, STORM]
    urls = {name: sorted(element.url for element in pages) for name, pages in pages_by_file.items()}
    assert urls == {SHARD: everything, NEWS: everything, TEXT: everything, FEED: everything}


def test_ultimate_sitemap_parser_reads_a_page_with_images_and_versions(pages_by_file: dict[str, list[Any]]) -> None:
    (flood,) = (element for element in pages_by_file[SHARD] if element.url == FLOOD)

    assert (flood.last_modified, flood.change_frequency.value, flood.priority) == (NINE, "hourly", Decimal("0.9"))
    assert [image.loc for image in flood.images] == ["https://img.example.com/1.jpg?w=1&h=2"]
    assert flood.alternates == [("en", FLOOD), ("fr-BE", page("fr/inondation"))]
    assert [element.last_modified for element in pages_by_file[SHARD]] == [HALF_PAST, NINE, NINE]


def test_ultimate_sitemap_parser_reads_every_field_of_the_news(pages_by_file: dict[str, list[Any]]) -> None:
    stories = [(element.url, element.last_modified, element.news_story) for element in pages_by_file[NEWS]]

    assert [
        (
            url,
            modified,
            element.title,
            element.publish_date,
            element.publication_name,
            element.publication_language,
            element.keywords,
        )
        for url, modified, element in stories
    ] == [
        (STORM, NINE, "The storm", NINE, "Example News", "en", []),
        (DERBY, HALF_PAST, "The derby", HALF_PAST, "Example Sport & Leisure", "en", []),
        (FLOOD, NINE, TITLE, EIGHT, "Example News", "en", ["flood", "harbour"]),
    ]
    assert [(element.news_story.title, element.news_story.publish_date) for element in pages_by_file[FEED]] == [
        (TITLE, EIGHT), ("The storm", NINE), ("The derby", HALF_PAST),
    ]  # fmt: skip


@needs_shared
@pytest.mark.parametrize("name", ["shards", "pages", "news", "index"])
def test_the_official_schemas_take_every_tag(name: str) -> None:
    path = SHARED / "schemas" / ("siteindex.xsd" if name == "index" else "all.xsd")
    schema = etree.XMLSchema(etree.parse(path, etree.XMLParser(no_network=True)))
    assert schema.validate(etree.fromstring(rendered()[name].encode())), schema.error_log
