"""Real feeds, beside the repository, against their index: entries, first title, first link, first date."""

import csv
import re
from datetime import UTC, datetime

import pytest

from stoppress import feed_dates, feeds, urls
from stoppress.feed_documents import read_document
from stoppress.feeds import FeedError, to_events
from stoppress.site import Site
from tests.beside import SHARED

FEEDS = SHARED / "feeds"
NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
# The newsroom's zone counts only where the feed's dates have none.
ZONES = {"feed-rs__rss_2.0_nbcny.xml": "America/New_York"}
# The index has lost the quotation marks that are part of this title.
TITLES = {"syndication__zeit.de.xml": '"Kein Vergleich zu Mai 68"'}
DATES = {"feed-rs__rss_2.0_nbcny.xml": datetime(2023, 12, 16, 19, 2, 33, tzinfo=UTC)}

pytestmark = pytest.mark.skipif(not FEEDS.exists(), reason="the real feeds are not beside this repository")


def rows() -> list[dict[str, str]]:
    if not FEEDS.exists():
        return []
    with (FEEDS / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        return list(csv.DictReader(index, delimiter="\t"))


def site_of(row: dict[str, str]) -> Site:
    return Site(host="www.example.com", publication="Example", timezone=ZONES.get(row["file"], "UTC"))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["file"])
def test_a_real_feed_is_read_as_its_index_says(row: dict[str, str]) -> None:
    site = site_of(row)
    body = (FEEDS / row["file"]).read_bytes()
    if row["expect"] == "reject":
        with pytest.raises(FeedError):
            feeds.read(read_document(body, {}), "https://www.example.com/feed", site)
        return

    reading = feeds.read(read_document(body, {}), "https://www.example.com/feed", site)

    entries = reading.entries
    assert len(entries) == int(row["entries"])
    assert sum(not entry.title for entry in entries) == int(row["entries_without_title"] or 0)
    assert sum(entry.published_at is None for entry in entries) == int(row["entries_without_date"] or 0)
    if not entries:
        return
    first = entries[0]
    assert first.title == TITLES.get(row["file"], " ".join(row["first_title"].split()))
    expected = row["first_canonical_hint"] or row["first_link"].partition("  (from")[0]
    assert (first.url and urls.canonical(first.url)) == (urls.canonical(expected) if expected else None)
    date = re.match(r"[\d-]+(T[\d:]+Z)?", row["first_date_utc"])
    said = DATES.get(row["file"]) or feed_dates.instant(date.group() if date else None, site.zone)
    assert first.published_at == said


@pytest.mark.parametrize("row", [row for row in rows() if row["expect"] != "reject"], ids=lambda row: row["file"])
def test_every_entry_of_a_real_feed_becomes_an_event_or_a_reason(row: dict[str, str]) -> None:
    site = site_of(row)
    body = (FEEDS / row["file"]).read_bytes()
    reading = feeds.read(read_document(body, {}), "https://www.example.com/feed", site)

    events, skipped = to_events(reading, site, NOW)

    identities = {(entry.guid, entry.url) for entry in reading.entries if entry.url}
    assert len(events) + len(skipped) == len(identities) + sum(entry.url is None for entry in reading.entries)
    assert all(event.url for event in events)
