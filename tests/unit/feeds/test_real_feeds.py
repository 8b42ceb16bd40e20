"""Real feeds beside the repository have the outcome, entries and first title, link and date of their index."""

import csv
import json
import re
from datetime import UTC, datetime
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from stoppress.primitives import dates, urls
from stoppress.primitives.instants import iso
from stoppress_cli.app import app
from tests.support.adjacent_paths import SHARED

FEEDS = SHARED / "feeds"
# Its dates have no zone, and by the index the site is in New York, which is the newsroom's zone here.
ZONES = {"feed-rs__rss_2.0_nbcny.xml": "America/New_York"}
# The index was written without the quotation marks that are part of this title.
TITLES = {"syndication__zeit.de.xml": '"Kein Vergleich zu Mai 68"'}
DATES = {"feed-rs__rss_2.0_nbcny.xml": datetime(2023, 12, 16, 19, 2, 33, tzinfo=UTC)}

pytestmark = pytest.mark.skipif(not FEEDS.exists(), reason="the real feeds are not beside this repository")


def rows() -> list[dict[str, str]]:
    if not FEEDS.exists():
        return []
    with (FEEDS / "INDEX.tsv").open(encoding="utf-8", newline="") as index:
        return list(csv.DictReader(index, delimiter="\t"))


@pytest.mark.parametrize("row", rows(), ids=lambda row: row["file"])
def test_a_real_feed_is_read_as_its_index_expects(row: dict[str, str]) -> None:
    zone = ZONES.get(row["file"], "UTC")

    options = ["--url", "https://www.example.com/feed", "--timezone", zone, "--json"]
    result = CliRunner().invoke(app, ["feeds", "try", str(FEEDS / row["file"]), *options])

    report = json.loads(result.stdout)
    entries = report["entries"]
    assert (report["outcome"], result.exit_code) == {
        "parse": ("parse", 0),
        "empty-ok": ("empty", 0),
        "reject": ("reject", 1),
    }[row["expect"]]
    assert bool(report["reason"]) is (row["expect"] == "reject")
    assert len(entries) == int(row["entries"])
    assert sum(not entry["title"] for entry in entries) == int(row["entries_without_title"] or 0)
    assert sum(entry["published_at"] is None for entry in entries) == int(row["entries_without_date"] or 0)
    # A guid that is a permalink replaces a missing link.
    assert sum(entry["url"] is None for entry in entries) <= int(row["entries_without_link"] or 0)
    if not entries:
        return
    first = entries[0]
    assert first["title"] == TITLES.get(row["file"], " ".join(row["first_title"].split()))
    expected = row["first_canonical_hint"] or row["first_link"].partition("  (from")[0]
    assert first["url"] == (urls.canonical(expected) if expected else None)
    date = re.match(r"[\d-]+(T[\d:]+Z)?", row["first_date_utc"])
    published = DATES.get(row["file"]) or dates.instant(date.group() if date else None, ZoneInfo(zone))
    assert first["published_at"] == (iso(published) if published else None)
