"""Real feeds, beside the repository, through the whole flow: polled, recorded, and listed in valid files.

What a site should list is worked out here from the feed with feedparser as it comes, apart from the product's reading.
The site of a feed is the host of its first entry, as the index of the feeds has it.
"""

import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import feedparser
import pytest

from stoppress.primitives import urls
from tests.support import playing
from tests.support.adjacent_paths import SHARED

FEEDS = SHARED / "feeds"
NOW = "2026-11-20T08:00:00Z"
COUNTED_MIN = 40
STACK_FEEDS_MAX = 12  # each new site has all sites of its stack looked at
# Feeds without one entry that could be listed on the host of their site, and why.
NOT_COUNTED = {
    "atoma__broken-missing-link.xml": "the index names no link of its first entry, so that no host is given",
    "atoma__broken-missing-updated.xml": "its only entry has no link and an id that is no URL",
}
# feedparser as it comes does not read these; they have one entry each, whose link the index has.
UNREADABLE = {"simplepie__feed-utf16be.xml", "simplepie__feed-utf16le.xml"}

pytestmark = pytest.mark.skipif(not FEEDS.is_dir(), reason="the real feeds are not beside this repository")


@dataclass(frozen=True)
class Feed:
    """A feed that should be read, and the host of its first entry."""

    file: str
    host: str
    first_link: str

    def listed(self) -> set[str]:
        """The pages of its entries on its host."""
        if self.file in UNREADABLE:
            return {urls.canonical(self.first_link, "https")}
        parsed = feedparser.parse(FEEDS / self.file, response_headers={"content-location": f"https://{self.host}/rss"})
        links = [page for entry in parsed["entries"] if (page := _page(entry))]
        return {urls.canonical(link, "https") for link in links if urlsplit(link).netloc == self.host}


def _page(entry: feedparser.FeedParserDict) -> str:
    """The web page of an entry: what a feed's proxy stands for, else the first alternate that a browser opens."""
    links = [
        entry.get("feedburner_origlink"),
        *(link.get("href") for link in entry.get("links", []) if link["rel"] == "alternate"),
    ]
    return next((link for link in (*links, entry.get("link")) if link and link.startswith("http")), "")


def feeds() -> list[Feed]:
    if not FEEDS.is_dir():
        return []
    with (FEEDS / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        rows = [row for row in csv.DictReader(index, delimiter="\t") if row["expect"] == "parse"]
    links = [row["first_canonical_hint"] or row["first_link"].partition("  (from")[0] for row in rows]
    return [
        Feed(row["file"], urlsplit(link).netloc, link)
        for row, link in zip(rows, links, strict=True)
        if row["file"] not in NOT_COUNTED
    ]


def stacks() -> list[list[Feed]]:
    """All feeds, so that each is the only one of its site: those of one host on stacks of their own."""
    found: list[list[Feed]] = []
    for feed in feeds():
        with_room = (stack for stack in found if len(stack) < STACK_FEEDS_MAX)
        room = next((stack for stack in with_room if all(other.host != feed.host for other in stack)), None)
        if room is None:
            found.append([feed])
        else:
            room.append(feed)
    return found


def steps(stack: list[Feed]) -> Iterator[playing.Step]:
    for feed in stack:
        url = f"https://{feed.host}/rss"
        yield {"at": NOW, "site": {"host": feed.host, "publication": "A Real Newspaper", "feeds": [url]}}
        yield {"feed": url, "headers": {"content-type": "application/xml"}, "file": feed.file}
    for feed in stack:
        yield {"at": "2026-11-20T08:01:00Z", "expect": {"site": feed.host, "urls": sorted(feed.listed()), "news": []}}


@pytest.mark.matrix
@pytest.mark.parametrize("stack", stacks(), ids=lambda stack: f"{stack[0].file} and {len(stack) - 1} more")
def test_every_entry_of_a_real_feed_on_its_host_is_listed_in_valid_files(stack: list[Feed], tmp_path: Path) -> None:
    path = FEEDS / "INDEX.jsonl"  # the feeds' files are beside it

    one = playing.play(playing.written(steps(stack), path), tmp_path, path=path)

    assert one.failures == []
    assert one.findings() == []
    assert one.waiting == {}


def test_at_least_forty_real_feeds_list_something() -> None:
    assert sum(bool(feed.listed()) for feed in feeds()) >= COUNTED_MIN
