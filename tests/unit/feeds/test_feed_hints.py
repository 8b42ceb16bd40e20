"""The waits that a feed requests, and the detection of stale copies from a cache."""

from dataclasses import fields, replace
from datetime import UTC, datetime, timedelta
from zoneinfo import ZoneInfo

import pytest
from boto3.dynamodb.types import TypeSerializer

from stoppress.feeds.feed_hints import (
    WAIT_MAX_S,
    Freshness,
    Hints,
    add_answer_hints,
    find_staleness,
    merge_freshness,
    read_freshness,
    read_hints,
)
from stoppress.feeds.feed_schedule import FeedState
from stoppress.poll.feed_items import feed_item
from stoppress_cli.local.meter import item_bytes, write_units

NOW = datetime(2026, 11, 20, 8, 10, tzinfo=UTC)
SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
PARIS = ZoneInfo("Europe/Paris")

ASKED_AT = datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC)
ITEM = "<item><title>&lt;ttl&gt;</title><ttl>9999</ttl></item>"
SY = 'xmlns:sy="http://purl.org/rss/1.0/modules/syndication/"'


def channel(wishes: str) -> str:
    return f'<rss version="2.0" {SY}><channel><title>News</title>{wishes}{ITEM}{ITEM}</channel></rss>'


@pytest.mark.parametrize(
    ("wishes", "least"),
    [
        ("", timedelta()),
        ("<ttl>60</ttl>", timedelta(hours=1)),
        ("<ttl> 5 </ttl>", timedelta(minutes=5)),
        ("<ttl>-5</ttl>", timedelta()),
        ("<ttl>999999</ttl>", timedelta(seconds=WAIT_MAX_S)),
        ("<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>", timedelta(minutes=15)),
        ("<sy:updatePeriod>\n\t\thourly\t</sy:updatePeriod>", timedelta(hours=1)),
        ("<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>0</sy:updateFrequency>", timedelta(days=1)),
        ("<sy:updatePeriod>now and then</sy:updatePeriod>", timedelta()),
        ("<ttl>10</ttl><sy:updatePeriod>hourly</sy:updatePeriod>", timedelta(hours=1)),
    ],
)
def test_a_feed_sets_how_long_to_wait_and_its_entries_do_not(wishes: str, least: timedelta) -> None:
    assert read_hints(channel(wishes)).least == least
    assert read_hints(f"<rss><channel>{ITEM}{wishes}</channel></rss>").least == least


def test_skip_hours_and_skip_days_are_read_in_any_form() -> None:
    hours = "<skipHours><hour>24</hour><hour>3</hour> <hour> 23 </hour><hour>noon</hour></skipHours>"
    days = "<skipDays><day>Sunday</day><day>monday</day><day>Someday</day></skipDays>"

    hints = read_hints(channel(hours + days))

    assert (hints.skip_hours, hints.skip_days) == ((0, 3, 23), (0, 6))


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({}, timedelta()),
        ({"cache-control": "max-age=300"}, timedelta(minutes=5)),
        ({"cache-control": "public, Max-Age=300, s-maxage=600"}, timedelta(minutes=10)),
        ({"cache-control": "no-store, max-age=0"}, timedelta()),
        ({"cache-control": "max-age=0", "expires": "Fri, 20 Nov 2026 09:00:30 GMT"}, timedelta()),
        ({"cache-control": "no-cache", "expires": "Fri, 20 Nov 2026 09:00:30 GMT"}, timedelta()),
        ({"expires": "Fri, 20 Nov 2026 09:00:30 GMT"}, timedelta(hours=1)),
        ({"expires": "Thu, 01 Jan 1970 00:00:00 GMT"}, timedelta()),
        ({"expires": "Fri, 20 Nov 2026 09:00:30 -0000"}, timedelta(hours=1)),
        ({"cache-control": "max-age=999999999"}, timedelta(seconds=WAIT_MAX_S)),
    ],
)
def test_an_answers_headers_set_how_long_it_stays_fresh(headers: dict[str, str], least: timedelta) -> None:
    assert add_answer_hints(Hints(answer_s=9_000), headers, ASKED_AT).least == least
    hour = timedelta(hours=1)
    assert add_answer_hints(Hints(document_s=3_600), headers, ASKED_AT).least == max(least, hour)


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
def test_the_time_of_an_answer_is_read_from_date_or_age(headers: dict[str, str], made_at: datetime | None) -> None:
    assert read_freshness(headers, NOW).made_at == made_at


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
def test_a_feeds_build_date_is_read_and_never_in_the_future(head: str, built_at: datetime | None) -> None:
    assert read_freshness({}, NOW, head, PARIS).built_at == built_at


def test_the_last_modified_date_of_a_feed_is_read() -> None:
    assert read_freshness({"last-modified": http(NOW - HOUR)}, NOW).modified_at == NOW - HOUR
    assert read_freshness({"last-modified": http(NOW + 3 * MINUTE)}, NOW).modified_at == NOW
    assert read_freshness({"last-modified": "yesterday, more or less"}, NOW).modified_at is None


NEWEST = Freshness(NOW, NOW, NOW)


@pytest.mark.parametrize(
    ("answer", "label"),
    [
        (replace(NEWEST, made_at=NOW - 61 * SECOND), "Date less Age"),
        (replace(NEWEST, modified_at=NOW - SECOND), "Last-Modified"),
        (replace(NEWEST, built_at=NOW - SECOND), "the feed's build date"),
        (NEWEST, None),
        (Freshness(), None),
        (Freshness(*(NOW + MINUTE for _ in fields(Freshness))), None),
        (replace(NEWEST, made_at=NOW - 60 * SECOND), None),  # clocks differ
    ],
)
def test_an_answer_with_an_earlier_date_is_stale_and_the_reason_names_it(answer: Freshness, label: str | None) -> None:
    reason = find_staleness(answer, NEWEST)

    assert label in reason if label and reason else reason is label


def test_the_later_of_each_instant_is_remembered() -> None:
    last = Freshness(made_at=NOW, modified_at=NOW - HOUR)
    answer = Freshness(made_at=NOW - 30 * SECOND, modified_at=NOW, built_at=NOW)

    assert merge_freshness(last, answer) == NEWEST


def test_the_item_of_a_usual_feed_is_one_unit_to_write() -> None:
    url = "https://www.example.com/news/rss/all.xml"
    state = FeedState(
        next_poll_at=NOW, last_success=NOW, last_new=NOW, known_since=NOW, stale_since=NOW,
        etag=f'W/"{"0" * 32}"', last_modified=http(NOW), body_digest="0" * 32, config_version=12,
        hints=Hints(3_600, 300), turnover_s=86_400, hub="https://pubsubhubbub.appspot.com/", topic=url, newest=NEWEST,
    )  # fmt: skip
    item = feed_item("www.example.com", url, state) | {"rev": 100_000}

    assert write_units(item_bytes({name: TypeSerializer().serialize(value) for name, value in item.items()})) == 1
