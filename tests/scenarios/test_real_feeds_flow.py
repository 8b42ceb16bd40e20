"""Real feeds, stored beside the repository, in the whole flow: polled, recorded, and listed in valid files.

The expected pages come from unmodified feedparser, independently of the product. The site of a feed is the host of its first entry,
according to the index of the feeds.
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
STACK_FEEDS_MAX = 12  # each new site causes a check of all sites of its stack
# Feeds without an entry that could be listed on the host of their site, with the reason.
NOT_COUNTED = {
    "atoma__broken-missing-link.xml": "the index has no link of its first entry, and so no host",
    "atoma__broken-missing-updated.xml": "its only entry has no link and an id that is not a URL",
}
# Unmodified feedparser cannot read these feeds; each has one entry, whose link is in the index.
UNREADABLE = {"simplepie__feed-utf16be.xml", "simplepie__feed-utf16le.xml"}

pytestmark = pytest.mark.skipif(not FEEDS.is_dir(), reason="the real feeds are not beside this repository")


@dataclass(frozen=True)
class Feed:
    """A feed that must be readable, and the host of its first entry."""

    file: str
    host: str
    first_link: str

    def pages(self) -> set[str]:
        """Return the entries' pages on the feed's host."""
        if self.file in UNREADABLE:
            return {urls.canonical(self.first_link, "https")}
        parsed = feedparser.parse(FEEDS / self.file, response_headers={"content-location": f"https://{self.host}/rss"})
        links = [page for entry in parsed["entries"] if (page := _page(entry))]
        return {urls.canonical(link, "https") for link in links if urlsplit(link).netloc == self.host}


def _page(entry: feedparser.FeedParserDict) -> str:
    """Return the web page of an entry: the original link behind FeedBurner, or the first alternate that is a web link."""
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
    """Distribute all feeds to stacks, so that each stack has at most one feed per host."""
    groups: list[list[Feed]] = []
    for feed in feeds():
        with_room = (stack for stack in groups if len(stack) < STACK_FEEDS_MAX)
        room = next((stack for stack in with_room if all(other.host != feed.host for other in stack)), None)
        if room is None:
            groups.append([feed])
        else:
            room.append(feed)
    return groups


def steps(stack: list[Feed]) -> Iterator[playing.Step]:
    for feed in stack:
        url = f"https://{feed.host}/rss"
        yield {"at": NOW, "site": {"host": feed.host, "publication": "A Real Newspaper", "feeds": [url]}}
        yield {"feed": url, "headers": {"content-type": "application/xml"}, "file": feed.file}
    for feed in stack:
        yield {"at": "2026-11-20T08:01:00Z", "expect": {"site": feed.host, "urls": sorted(feed.pages()), "news": []}}


@pytest.mark.matrix
@pytest.mark.parametrize("stack", stacks(), ids=lambda stack: f"{stack[0].file} and {len(stack) - 1} more")
def test_every_entry_of_a_real_feed_on_its_host_is_listed_in_valid_files(stack: list[Feed], tmp_path: Path) -> None:
    path = FEEDS / "INDEX.jsonl"  # the feeds' files are beside it

    played = playing.play(playing.written(steps(stack), path), tmp_path, path=path)

    assert played.failures == []
    assert played.findings() == []
    assert played.waiting == {}


def test_at_least_forty_real_feeds_list_something() -> None:
    assert sum(bool(feed.pages()) for feed in feeds()) >= COUNTED_MIN
