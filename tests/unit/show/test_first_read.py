"""The reads of a file by Google that count as reads of a story."""

import json
from datetime import UTC, datetime, timedelta

import pytest

from stoppress.aws import bucket
from stoppress.aws.bucket import Listed, StoredFile
from stoppress.model.site import read_site
from stoppress.show.read_files import listed_at

T = datetime(2026, 11, 20, 12, tzinfo=UTC)
SITE = read_site(json.dumps({"host": "www.example.com", "publication": "Example"}), 1)
URL = "https://www.example.com/flood"
ENTRY = f"<url><loc>{URL}</loc>{{}}</url>"


@pytest.mark.parametrize(
    ("body", "counts"),
    [
        (ENTRY.format("<news:news>"), True),
        (ENTRY.format(""), False),  # the home page of an empty news sitemap
        (ENTRY.format("<news:news>").replace("flood", "ferry"), False),
        (None, True),  # the bucket no longer has the version
    ],
)
def test_a_read_counts_if_the_version_before_it_listed_the_story(
    body: str | None, monkeypatch: pytest.MonkeyPatch, *, counts: bool
) -> None:
    def read_at(_host: str, file: str, at: datetime, _now: datetime) -> tuple[Listed | None, StoredFile | None]:
        assert at == T - timedelta(seconds=1)
        return (Listed(file, "", at, "1"), StoredFile(body.encode(), "", at)) if body else (None, None)

    monkeypatch.setattr(bucket, "read_at", read_at)
    assert listed_at(SITE, URL, "sitemap-news.xml", T, T) is counts
