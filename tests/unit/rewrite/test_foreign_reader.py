"""A third-party reader of sitemaps finds every page from robots.txt: each file is in one index."""

import logging
from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest
from usp.tree import sitemap_tree_for_homepage
from usp.web_client.abstract_client import AbstractWebClient, AbstractWebClientSuccessResponse, WebClientErrorResponse

from stoppress.aws.queues import RewriteRequest
from stoppress.model import index_ranges
from stoppress.model.entries import Mark
from stoppress.model.index_ranges import CUT_WAITS, INDEX_FILES_MAX, INDEX_FILES_MOVED
from stoppress.rewrite import file_lines, publish
from stoppress.rewrite.sitemaps import rewrite_all
from stoppress.sitemaps import fold
from tests.support.article_events import HOST, SITE
from tests.support.partitions import INDEX, MINUTE, NOON
from tests.unit.rewrite.test_indexes_at_once import IndexWorld
from tests.unit.rewrite.test_rewriters_at_once import replace_aws

pytestmark = pytest.mark.matrix

SHARDS = [
    f"sitemap-{year}-{month:02}-{day:02}.xml"
    for year in range(1880, 2027)
    for month in range(1, 13)
    for day in range(1, 32)
]


class _Answer(AbstractWebClientSuccessResponse):
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


class _Web(AbstractWebClient):
    """Serves the world's indexes and robots.txt. Each other file lists one page, which has its name."""

    def __init__(self, world: IndexWorld) -> None:
        self._world, self.read = world, Counter[str]()

    def set_max_response_data_length(self, max_response_data_length: int | None) -> None:
        pass

    def get(self, url: str) -> Any:
        name = url.rpartition("/")[2]
        self.read[name] += 1
        if stored := self._world.objects.get(name):
            return _Answer(url, stored.body)
        if name not in self._world.marks:
            return WebClientErrorResponse("404", retryable=False)
        loc = f"<url><loc>https://{HOST}/{name.removesuffix('.xml')}</loc></url>"
        return _Answer(url, f'<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{loc}</urlset>'.encode())


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> Iterator[IndexWorld]:
    world = IndexWorld(SITE.model_copy(update={"robots": ""}), ["sitemap-news.xml"])
    replace_aws(world, monkeypatch)
    logging.disable(logging.CRITICAL)
    yield world
    logging.disable(logging.NOTSET)


def add(world: IndexWorld, number: int) -> None:
    """Give the site `number` shards, the newest last, and request the index and robots.txt."""
    world.marks |= {name: Mark(name, NOON, 1, 200, "first") for name in SHARDS[:number]}
    world.queued += [RewriteRequest(HOST, INDEX), RewriteRequest(HOST, "robots.txt")]


def settle(world: IndexWorld, now: Any) -> None:
    while world.queued:
        requests, world.queued = world.queued, []
        assert [result.error for result in rewrite_all(requests, now) if result.error] == []


def read(world: IndexWorld) -> Counter[str]:
    """Return how often the reader reads each file, after checking that it finds the page of each shard."""
    web = _Web(world)
    tree = sitemap_tree_for_homepage(f"https://{HOST}/", web_client=web, use_known_paths=False)
    files = {page.url.rpartition("/")[2] + ".xml" for page in tree.all_pages()} - {".xml"}
    assert files == world.marks.keys()
    return web.read


def test_a_foreign_reader_finds_every_page_while_a_site_gets_a_second_index(world: IndexWorld) -> None:
    # The news sitemap is in robots.txt and in the index.
    add(world, INDEX_FILES_MAX)
    settle(world, NOON)
    assert set((read(world) - Counter(["sitemap-news.xml"])).values()) == {1}
    add(world, INDEX_FILES_MAX + 1)
    settle(world, NOON + MINUTE)
    counts = read(world)
    assert counts["sitemap-index-2.xml"] == 1
    assert set((counts - Counter(["sitemap-news.xml"])).values()) == {1}

    later = NOON + MINUTE + CUT_WAITS
    rewrite_all([RewriteRequest(HOST, "sitemap-index-2.xml", release=later)], later)
    assert Counter((read(world) - Counter(["sitemap-news.xml"])).values())[2] == INDEX_FILES_MOVED  # for seconds
    settle(world, later)
    assert set((read(world) - Counter(["sitemap-news.xml"])).values()) == {1}


def test_a_foreign_reader_finds_every_page_of_a_site_with_several_indexes(
    world: IndexWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limits are a twentieth of the real ones, because a test with 50,000 files would be too slow."""
    for module, name, limit in ((index_ranges, "INDEX_FILES_URGENT", 1_250), (fold, "INDEX_FILES_URGENT", 1_250),
                                (file_lines, "INDEX_ENTRIES_MAX", 2_500), (publish, "INDEX_ENTRIES_MAX", 2_500)):  # fmt: skip
        monkeypatch.setattr(module, name, limit)
    add(world, 900)
    settle(world, NOON)
    add(world, 2_510)
    settle(world, NOON + MINUTE)

    counts = read(world)
    assert set((counts - Counter(["sitemap-news.xml"])).values()) == {1}
    assert len([name for name in counts if "-index-" in name]) == 5
