"""A small flood, as `make load` pours a large one."""

import random
from datetime import UTC, datetime, timedelta

import pytest

from bench.load.flood import Counts
from bench.load.judge import differences
from bench.load.newsroom import Newsroom, Page
from bench.load.run import Result, grown, load
from bench.load.served import Served

pytestmark = pytest.mark.moto

NOW = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
HEAD = '<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9" xmlns:news="http://www.google.com/schemas/sitemap-news/0.9">'
PAGE = Page("https://www.example.com/a", "Flood", NOW - timedelta(hours=1), NOW - timedelta(minutes=5))
ENTRY = "<url><loc>https://www.example.com/a</loc><lastmod>2026-11-20T11:55:00Z</lastmod>{}</url>"
NEWS = ENTRY.format("<news:news><news:title>Flood</news:title></news:news>")


def test_nothing_of_a_flood_with_faults_on_is_lost() -> None:
    result = load(articles=12, webhooks=80, senders=6, seed=1, storm=4, hurry=True)

    assert result.wrong == []
    assert result.listed > 0
    assert result.flood.failed["503"] > 0
    assert result.flood.retries > 0
    assert sum(result.state["met"].values()) > result.flood.failed["503"]


class Files(Served):
    """Files that a test has made."""

    def __init__(self, **files: str) -> None:
        self.files = {name.replace("_", "-") + ".xml": body for name, body in files.items()}

    def get(self, path: str) -> tuple[int, bytes]:
        index = "".join(f"<sitemap><loc>https://www.example.com/{name}</loc></sitemap>" for name in self.files)
        if path == "/":
            return 200, "".join(f'<a href="/www.example.com/{name}">' for name in [*self.files, "sitemap.xml"]).encode()
        if path == "/sitemap.xml":
            return (
                200,
                f'<sitemapindex xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">{index}</sitemapindex>'.encode(),
            )
        return 200, f"{HEAD}{self.files[path[1:]]}</urlset>".encode()


def test_files_that_say_what_the_senders_remember_are_right() -> None:
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
def test_files_that_say_anything_else_are_wrong(files: Files, pages: list[Page], wrong: str) -> None:
    assert any(line.startswith(wrong) for line in differences(files, pages, NOW))


def test_an_older_version_that_is_acknowledged_late_is_not_what_the_files_must_say() -> None:
    newsroom = Newsroom(1, random.Random(1), NOW)
    first, second = newsroom.speak(), newsroom.speak()
    newsroom.acknowledge(second)
    newsroom.acknowledge(first)

    assert newsroom.acknowledged == {0: second}


def held(webhooks: int, blocks: int, size_bytes: int) -> Result:
    """What a run found that had so much more in memory after its last quarter than after its first."""
    one = {"moto": 0, "others": 0, "kinds": {"list": 5, "dict": 7}}
    other = {"moto": 9_000_000, "others": blocks, "kinds": {"list": 6, "dict": 7}}
    return Result(1, 1, 1, flood=Counts(sent=webhooks), held=[one, other], resident=[0, size_bytes])


def test_a_flood_that_leaves_less_than_a_block_a_webhook_and_what_is_loaded_once_has_grown_nothing() -> None:
    assert list(grown(held(webhooks=8_000, blocks=4_000, size_bytes=4_000_000))) == []


def test_a_flood_that_leaves_something_of_each_webhook_is_told_with_its_kind() -> None:
    (line,) = grown(held(webhooks=8_000, blocks=6_000, size_bytes=4_000_000))
    assert line == "each webhook leaves 1.00 blocks of memory behind; of some kinds there are more: {'list': 1}"


def test_a_process_that_grows_is_told_though_its_blocks_are_few() -> None:
    (line,) = grown(held(webhooks=8_000, blocks=0, size_bytes=60 * 1_048_576))
    assert line == "the process grew by 60 MiB after the first quarter"
