"""A small flood; `make load` runs a large one."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from bench.load.flood import Newsroom, Page
from bench.load.run import differences, load

pytestmark = pytest.mark.moto

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
HEAD = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">'
PAGE = Page("https://www.example.com/a", "Flood", NOW - timedelta(hours=1), NOW - timedelta(minutes=5))
ENTRY = "<url><loc>https://www.example.com/a</loc><lastmod>2026-11-20T11:55:00Z</lastmod>{}</url>"
NEWS = ENTRY.format("<news:news><news:title>Flood</news:title></news:news>")


def test_a_flood_with_faults_on_loses_no_article() -> None:
    result = load(articles=12, webhooks=80, senders=6, seed=1, factor=4, hurry=True)

    assert result.wrong == []
    assert result.listed > 0
    assert result.flood.failed["503"] > 0
    assert result.flood.retries > 0
    assert sum(result.state["met"].values()) > result.flood.failed["503"]


class Files:
    def __init__(self, **files: str) -> None:
        self.files = {name.replace("_", "-") + ".xml": body for name, body in files.items()}

    def __call__(self, path: str) -> tuple[int, bytes]:
        index = "".join(f"<sitemap><loc>https://www.example.com/{name}</loc></sitemap>" for name in self.files)
        if path == "/":
            return 200, "".join(f'<a href="/www.example.com/{name}">' for name in [*self.files, "sitemap.xml"]).encode()
        if path == "/sitemap.xml":
            return (
                200,
                f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{index}</sitemapindex>'.encode(),
            )
        return 200, f"{HEAD}{self.files[path[1:]]}</urlset>".encode()


def test_files_that_list_the_acknowledged_pages_are_right() -> None:
    files = Files(sitemap_2026_11=ENTRY.format(""), sitemap_news=NEWS)

    assert differences(files, [PAGE], NOW) == []


@pytest.mark.parametrize(
    ("files", "pages", "wrong"),
    [
        (Files(sitemap_2026_11="", sitemap_news=NEWS), [PAGE], "sitemap-2026-11: lost"),
        (Files(sitemap_2026_11=ENTRY.format(""), sitemap_news=""), [PAGE], "sitemap-news: lost"),
        (Files(sitemap_2026_11=ENTRY.format(""), sitemap_news=""), [], "sitemap-2026-11: should not be there"),
        (Files(sitemap_2026_11=ENTRY.format(""), sitemap_news=NEWS.replace("Flood", "Fire")), [PAGE], "sitemap-news: lost"),
        (Files(sitemap_2026_11=ENTRY.format("") * 2, sitemap_news=NEWS), [PAGE], "sitemap-2026-11: should not be there"),
        (Files(sitemap_2026_10=ENTRY.format(""), sitemap_news=NEWS), [PAGE], "sitemap-2026-10: should not be there"),
        (
            Files(sitemap_2026_11=ENTRY.format("").replace("11:55", "11:54"), sitemap_news=NEWS),
            [PAGE],
            "sitemap-2026-11: lost, or in an older state",
        ),
    ],
)  # fmt: skip
def test_files_with_anything_else_are_wrong(files: Files, pages: list[Page], wrong: str) -> None:
    assert any(line.startswith(wrong) for line in differences(files, pages, NOW))


def test_an_older_version_acknowledged_late_does_not_replace_the_newer_version() -> None:
    newsroom = Newsroom(1, random.Random(1), NOW)
    first, second = newsroom.next_delivery(), newsroom.next_delivery()
    newsroom.acknowledge(second)
    newsroom.acknowledge(first)

    assert newsroom.acknowledged == {0: second}
