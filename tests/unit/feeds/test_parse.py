"""Feeds as bytes: each case is a file in tests/feeds, whose first comment contains the expected result."""

import json
import re
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from stoppress.feeds import feed_documents, parse as module
from stoppress.feeds.events import shared_guids, to_events
from stoppress.feeds.feed_documents import Deletion, Entry, FeedError, Reading, decode, read_document
from stoppress.feeds.parse import read
from stoppress.model.site import Site
from stoppress.primitives.instants import iso
from stoppress.primitives.urls import key_of

CASES = sorted((Path(__file__).parents[3] / "tests/fixtures/feeds").glob("*.xml"))
URL = "https://www.example.com/news/feed.xml"
NOW = datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC)
FEED = "https://www.example.com/rss.xml"
KEY = key_of(FEED)[:8]
SITE = Site(host="www.example.com", publication="Example News")


def expectation(body: bytes) -> dict[str, Any]:
    comment = re.search(rb"<!-- (\{.*?\}) -->", body, re.DOTALL)
    assert comment, "a case begins with a comment that contains the expected result"
    expected: dict[str, Any] = json.loads(comment[1])
    return expected


def shown(entry: Entry) -> dict[str, Any]:
    besides = {name: getattr(entry, name) for name in ("language", "keywords", "images", "videos", "alternates")}
    besides["source"] = entry.source if entry.source != "feed" else None
    return {
        "guid": entry.guid,
        "url": entry.url,
        "title": entry.title,
        "published_at": iso(entry.published_at) if entry.published_at else None,
        "updated_at": iso(entry.updated_at) if entry.updated_at else None,
        **{name: list(data) if isinstance(data, tuple) else data for name, data in besides.items() if data},
    }


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.stem)
def test_a_feed_is_read_as_its_first_comment_expects(case: Path) -> None:
    body = case.read_bytes()
    expected = expectation(body)
    site = Site(host="www.example.com", publication="Example News", timezone=expected.get("zone", "UTC"))
    if "reject" in expected:
        with pytest.raises(FeedError, match=expected["reject"]):
            read(read_document(body, {}), URL, site)
        return

    reading = read(read_document(body, {}), URL, site, expected.get("take", ()))

    assert [shown(entry) for entry in reading.entries] == expected["entries"]
    assert (reading.incomplete is not None) is expected.get("cut_off", False)
    deleted = [{"guid": item.guid, "at": item.at and iso(item.at)} for item in reading.deleted]
    assert deleted == expected.get("deleted", [])


@pytest.mark.parametrize(
    ("codec", "claim", "text", "content_type"),
    [
        # The bytes show the encoding, whatever is declared.
        *[
            (codec, "", "<rss>Überflutung</rss>", "text/xml; charset=us-ascii")
            for codec in ("utf-8-sig", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "utf-32-be")
        ],
        *[
            ("utf-8", "", "<rss>é</rss>", content_type)
            for content_type in ("", "text/xml", "text/xml; charset=iso-8859-1", "text/html", "garbage;;=")
        ],
        # The server's charset counts if the document declares none.
        ("koi8-r", "", "<rss>наводнение</rss>", "application/xml; charset=koi8-r"),
        ("cp932", "Shift_JIS", "①髙島屋の洪水", ""),
        ("cp949", "EUC-KR", "항구 침수 똠방", ""),
        ("gb18030", "gb2312", "港口洪水镕", ""),
        ("big5hkscs", "big5", "港口嘅洪水", ""),
        ("cp1254", "iso-8859-9", "İstanbul’da", ""),
        ("iso8859-2", "ISO_8859-2", "Zażółć gęślą", ""),
        ("cp1251", "x-cp1251", "Наводнение", ""),
        ("cp874", "windows-874", "น้ำท่วม", ""),
        ("mac-cyrillic", "x-mac-cyrillic", "Наводнение", ""),
        ("iso-2022-jp", "iso-2022-jp", "港の洪水", ""),
        # Traps.
        *[("cp1252", claim, "\\x41+AGE-é", "") for claim in ("punycode", "unicode_escape", "utf-7", "no-such-thing")],
    ],
)
def test_an_encoding_is_detected_by_bytes_or_by_its_names_in_feeds(
    codec: str, claim: str, text: str, content_type: str
) -> None:
    declaration = f'<?xml version="1.0" encoding="{claim}"?>' if claim else ""

    assert decode((declaration + text).encode(codec), content_type) == declaration + text


def test_utf_8_with_one_broken_character_is_read_despite_a_wrong_declaration() -> None:
    body = "<?xml version='1.0' encoding='ISO-8859-1'?><rss>élève à l'école, déjà été là-bas".encode() + b"\xe9</rss>"

    assert "élève à l'école" in decode(body, "")


@pytest.mark.parametrize("url", ["https://www.example.com/feed", "https://www.example.com/news/feed"])
def test_guids_that_look_like_paths_are_not_resolved_like_links(url: str) -> None:
    guids = ("/flood", "flood", "news/flood", "77")
    tags = "".join(f'<entry><id>{guid}</id><link href="/flood"/></entry>' for guid in guids)

    body = f"<feed><title xml:base='.'/>{tags}</feed>".encode()
    entries = read(read_document(body, {}), url, SITE).entries

    assert tuple(entry.guid for entry in entries) == guids
    assert {entry.url for entry in entries} == {"https://www.example.com/flood"}


def page(name: str) -> str:
    return f"https://www.example.com/{name}"


def entry(guid: str | None = None, url: str | None = "https://www.example.com/a", **changes: Any) -> Entry:
    return Entry(guid, url, **{"title": "Flood", "published_at": None, "updated_at": None, **changes})


VERY_LONG = "é" * 252


@pytest.mark.parametrize(
    ("guid", "url", "name"),
    [
        ("1042", "http://www.example.com/a?utm_source=rss#top", f"{KEY}:1042"),
        (None, "https://www.example.com/a?utm_medium=rss", "https://www.example.com/a"),
        ("é" * 251, "https://www.example.com/a", f"{KEY}:{'é' * 251}"),
        (VERY_LONG, "https://www.example.com/a", f"sha256:{sha256(f'{KEY}:{VERY_LONG}'.encode()).hexdigest()}"),
    ],
    ids=["guid", "no guid", "long guid", "very long guid"],
)
def test_an_entry_becomes_an_event_of_the_feed_and_its_tombstone_has_the_same_id(
    guid: str | None, url: str, name: str
) -> None:
    published, updated = NOW - timedelta(hours=2), NOW - timedelta(hours=1)
    valid = entry(guid, url, published_at=published, updated_at=updated)
    without_page = (entry("1", None), entry("2", "https://user@www.example.com/"))

    (event,), skipped = to_events(Reading((valid, *without_page)), SITE, NOW, feed=FEED)

    assert (event.site, event.source, event.id, event.action) == ("www.example.com", "feed", name, "publish")
    assert event.url == "https://www.example.com/a"
    assert (event.published_at, event.updated_at, event.version, event.received_at) == (published, updated, None, NOW)
    assert ["no http or https link" in skipped[0], "user name" in skipped[1]] == [True, True]
    if guid:
        (removed,), _ = to_events(Reading(deleted=(Deletion(guid, NOW),)), SITE, NOW, feed=FEED)
        assert removed.id == name


def test_a_guid_that_several_pages_share_identifies_no_page() -> None:
    named = (("same", "a"), ("same", "b"), ("same", "b?utm_source=rss"), ("own", "c"), ("own", "c?utm_source=rss"))
    pages = Reading((*(entry(guid, page(name)) for guid, name in named), entry("own", None)))
    shared = shared_guids(pages, SITE)

    together, _ = to_events(pages, SITE, NOW, feed=FEED)
    alone, _ = to_events(Reading((entry("same", page("d")), entry("own", page("e")))), SITE, NOW, shared, feed=FEED)

    assert [event.id for event in together] == [page("a"), page("b"), f"{KEY}:own"]
    assert [event.id for event in alone] == [page("d"), f"{KEY}:own"]


def test_of_two_entries_with_one_id_the_newer_counts_and_of_equals_the_first() -> None:
    old, new = NOW - timedelta(hours=2), NOW - timedelta(hours=1)
    again = [entry("1", title="Old", updated_at=old), entry("1", title="New", updated_at=new)]
    equal = [entry("2", title="First"), entry("2", title="Second")]

    events, _ = to_events(Reading((*again, *equal)), SITE, NOW, feed=FEED)

    assert [event.title for event in events] == ["New", "First"]


def test_a_uri_identifies_one_story_in_all_feeds_and_any_other_guid_one_of_its_feed() -> None:
    guids = ("17", "https://www.example.com/?p=17", "tag:example.com,2026:17")
    ids = [[to_events(Reading((entry(guid),)), SITE, NOW, feed=url)[0][0].id for url in (FEED, URL)] for guid in guids]
    assert [other_id == other for other_id, other in ids] == [False, True, True]
    (removed,), _ = to_events(Reading(deleted=(Deletion("17", None),)), SITE, NOW, feed=FEED)
    assert removed.id == ids[0][0]


# ── limits ────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def items(*names: str) -> bytes:
    tags = "".join(f"<item><title>{name}</title><link>/{name}</link><b><![CDATA[<p><p>]]></b></item>" for name in names)
    return f"<rss version='2.0'><channel>{tags}</channel></rss>".encode()


def test_a_feed_with_too_many_tags_is_read_up_to_the_last_item_that_fits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(feed_documents, "TAGS_MAX", 2 + 3 * 8 + 5)

    reading = read(read_document(items(*"abcde"), {}), URL, SITE)

    assert [item.title for item in reading.entries] == ["a", "b", "c"]
    assert reading.left_out == ("2 entries after the first 3",)
    assert reading.incomplete is None
    monkeypatch.setattr(feed_documents, "TAGS_MAX", 9)
    with pytest.raises(FeedError, match="more than 9 tags"):
        read_document(items("a", "b"), {})


def test_an_unterminated_tag_is_parsed_once() -> None:
    # Parsed again from each of its characters, the tag would take an hour.
    name = b"<" + b"a" * 900_000

    document = read_document(items("a").replace(b"</title>", b"</title><title>b</title>" + name), {})

    assert name.decode() in document.text


# ── media and metadata ────────────────────────────────────────────────────────────────────────────────────────────────────


def test_media_and_metadata_of_a_feed_are_validated_like_those_of_a_cms() -> None:
    video = {"thumbnail_loc": "/t.jpg", "title": "Flood", "description": "Flood", "content_loc": "/v.mp4"}
    with_media = entry(
        images=({"url": "/1.jpg"}, {"url": "https://www.example.com/a"}),
        videos=(video, {**video, "thumbnail_loc": ""}),
        alternates=({"hreflang": "fr", "url": "/fr/a"}, {"hreflang": "xx", "url": "/xx/a"}),
        language="pt-BR",
        keywords=("Harbour",),
    )

    (event,), skipped = to_events(Reading((with_media,)), SITE, NOW, feed=FEED)

    assert event.images == ("https://www.example.com/1.jpg",)
    assert [dict(video)["content_loc"] for video in event.videos] == ["https://www.example.com/v.mp4"]
    assert [(link.hreflang, link.href) for link in event.alternates] == [("fr", "https://www.example.com/fr/a")]
    assert (event.language, event.keywords) == ("pt", ("Harbour",))
    assert [reason.partition(":")[0] for reason in event.dropped] == ["images[1]", "videos[1]", "alternates[1]"]
    assert skipped == []


def test_of_too_many_images_those_that_fit_are_kept() -> None:
    many = tuple({"url": f"https://img.example.com/{'x' * 1_000}/{number}.jpg"} for number in range(500))

    (event,), _ = to_events(Reading((entry(images=many),)), SITE, NOW, feed=FEED)

    assert 0 < len(event.images) < 100
    assert event.images[-1].endswith("/499.jpg")
    assert "were left out" in event.dropped[0]


# ── tombstones ────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize(
    ("updated", "gone", "action"),
    [
        (NOW - timedelta(hours=2), NOW - timedelta(hours=1), "remove"),
        (NOW - timedelta(hours=1), NOW - timedelta(hours=1), "remove"),
        (NOW - timedelta(hours=1), NOW - timedelta(hours=2), "publish"),
        (None, NOW - timedelta(hours=1), "remove"),
        (NOW - timedelta(hours=1), None, "publish"),
    ],
)
def test_of_an_entry_and_its_tombstone_the_newer_counts(
    updated: datetime | None, gone: datetime | None, action: str
) -> None:
    both = Reading((entry("1", published_at=updated),), deleted=(Deletion("1", gone),))

    (event,), skipped = to_events(both, SITE, NOW, feed=FEED)

    assert (event.id, event.action) == (f"{KEY}:1", action)
    assert skipped == []


def test_tombstones_are_read_up_to_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "DELETIONS_MAX", 2)
    stones = "".join(f'<at:deleted-entry ref="{number}" when="2026-11-20T07:00:00Z"/>' for number in range(5))
    body = f'<feed xmlns:at="http://purl.org/atompub/tombstones/1.0">{stones}</feed>'

    reading = read(read_document(body.encode(), {}), URL, SITE)

    assert [deletion.guid for deletion in reading.deleted] == ["0", "1"]
