"""Which answers of a feed are stale copies from a cache."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from boto3.dynamodb.types import TypeSerializer

from stoppress.feeds.freshness import STALE_MAX, Freshness, newest_of, of_answer, staleness
from stoppress.feeds.hints import Hints
from stoppress.feeds.schedule import FeedState
from stoppress.poll.items import feed_item
from stoppress_cli.local.meter import item_bytes, write_units

NOW = datetime(2026, 11, 20, 8, 10, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
PARIS = ZoneInfo("Europe/Paris")


def http(instant: datetime) -> str:
    return f"{instant:%a, %d %b %Y %H:%M:%S} GMT"


@pytest.mark.parametrize(
    ("headers", "made_at"),
    [
        ({"date": http(NOW)}, NOW),
        ({"date": http(NOW - MINUTE)}, NOW - MINUTE),
        ({"date": http(NOW - 5 * MINUTE), "age": "300"}, NOW - 5 * MINUTE),
        ({"date": http(NOW), "age": "300"}, NOW - 5 * MINUTE),
        ({"age": "300"}, NOW - 5 * MINUTE),
        ({"date": http(NOW + HOUR)}, NOW),
        ({"date": "soon", "age": "old"}, None),
        ({"date": http(NOW), "age": "-300"}, NOW),
        ({"date": http(NOW), "age": "9" * 30}, NOW),
        ({}, None),
    ],
)
def test_an_answer_was_made_at_its_date_or_before_by_its_age_whichever_way_a_cache_writes_them(
    headers: dict[str, str], made_at: datetime | None
) -> None:
    assert of_answer(headers, NOW).made_at == made_at


@pytest.mark.parametrize(
    ("head", "built_at"),
    [
        ("<rss><channel><lastBuildDate>Fri, 20 Nov 2026 09:00:00 +0100</lastBuildDate>", NOW - 10 * MINUTE),
        ("<feed xmlns='http://www.w3.org/2005/Atom'><updated>2026-11-20T08:00:00Z</updated>", NOW - 10 * MINUTE),
        ("<a:feed><a:updated >\n2026-11-20T08:00:00Z\n</a:updated>", NOW - 10 * MINUTE),
        ("<channel><lastBuildDate><![CDATA[ 2026-11-20 09:00 ]]></lastBuildDate>", NOW - 10 * MINUTE),
        ("<channel><lastBuildDate>Fri, 20 Nov 2026 08:13:00 GMT</lastBuildDate>", NOW),
        ("<channel><lastBuildDate>Fri, 20 Nov 2026 10:00:00 GMT</lastBuildDate>", None),
        ("<channel><lastBuildDate></lastBuildDate>", None),
        ("<channel><lastBuildDate>today</lastBuildDate>", None),
        ("<channel><pubDate>Fri, 20 Nov 2026 08:00:00 GMT</pubDate><sy:updatedBase>2026</sy:updatedBase>", None),
    ],
)
def test_a_feed_says_when_it_was_built_and_never_later_than_it_was_seen(head: str, built_at: datetime | None) -> None:
    assert of_answer({}, NOW, head, PARIS).built_at == built_at


def test_a_server_says_when_the_feed_has_changed() -> None:
    assert of_answer({"last-modified": http(NOW - HOUR)}, NOW).modified_at == NOW - HOUR
    assert of_answer({"last-modified": http(NOW + 3 * MINUTE)}, NOW).modified_at == NOW
    assert of_answer({"last-modified": "yesterday, more or less"}, NOW).modified_at is None


NEWEST = Freshness(NOW, NOW, NOW)


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        (replace(NEWEST, made_at=NOW - 61 * SECOND), "Date less Age"),
        (replace(NEWEST, modified_at=NOW - SECOND), "Last-Modified"),
        (replace(NEWEST, built_at=NOW - SECOND), "the feed's build date"),
    ],
)
def test_an_answer_is_stale_where_any_of_its_instants_went_back_and_the_reason_says_which(
    answer: Freshness, label: str
) -> None:
    assert label in (staleness(answer, NEWEST) or "")


@pytest.mark.parametrize(
    "answer",
    [
        NEWEST,
        Freshness(),
        Freshness(*(NOW + MINUTE for _ in fields(Freshness))),
        replace(NEWEST, made_at=NOW - 60 * SECOND),
    ],
)
def test_an_answer_is_taken_where_nothing_went_back_nothing_is_said_or_only_by_what_clocks_differ(
    answer: Freshness,
) -> None:
    assert staleness(answer, NEWEST) is None


def test_where_nothing_is_remembered_every_answer_is_taken() -> None:
    assert staleness(Freshness(NOW, NOW, NOW), Freshness()) is None


def test_the_later_of_each_instant_is_remembered() -> None:
    known = Freshness(made_at=NOW, modified_at=NOW - HOUR)
    answer = Freshness(made_at=NOW - 30 * SECOND, modified_at=NOW, built_at=NOW)

    assert newest_of(known, answer) == NEWEST


def test_a_stale_copy_is_skipped_for_an_hour_after_the_first() -> None:
    assert FeedState().skips_stale(NOW)
    assert FeedState(stale_since=NOW).skips_stale(NOW + STALE_MAX - SECOND)
    assert not FeedState(stale_since=NOW).skips_stale(NOW + STALE_MAX)


def test_the_item_of_a_usual_feed_is_one_unit_to_write() -> None:
    url = "https://www.example.com/news/rss/all.xml"
    state = FeedState(
        next_poll_at=NOW, last_success=NOW, last_new=NOW, known_since=NOW, stale_since=NOW,
        etag=f'W/"{"0" * 32}"', last_modified=http(NOW), body_digest="0" * 32, config_version=12, answered_by=url,
        hints=Hints(3_600, 300), turnover_s=86_400, hub="https://pubsubhubbub.appspot.com/", topic=url, newest=NEWEST,
    )  # fmt: skip
    item = feed_item("www.example.com", url, state) | {"rev": 100_000}

    assert write_units(item_bytes({name: TypeSerializer().serialize(value) for name, value in item.items()})) == 1
