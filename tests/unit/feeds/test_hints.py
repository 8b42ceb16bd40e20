"""What a feed asks of those who poll it."""

from datetime import UTC, datetime, timedelta

import pytest

from stoppress.feeds.hints import WISH_MAX, Hints, of_document, with_answer

NOW = datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC)
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
        ("<ttl>soon</ttl>", timedelta()),
        ("<ttl>-5</ttl>", timedelta()),
        ("<ttl>999999</ttl>", WISH_MAX),
        ("<sy:updatePeriod>hourly</sy:updatePeriod><sy:updateFrequency>4</sy:updateFrequency>", timedelta(minutes=15)),
        ("<sy:updatePeriod>\n\t\thourly\t</sy:updatePeriod>", timedelta(hours=1)),
        ("<sy:updatePeriod>daily</sy:updatePeriod><sy:updateFrequency>0</sy:updateFrequency>", timedelta(days=1)),
        ("<sy:updatePeriod>now and then</sy:updatePeriod>", timedelta()),
        ("<ttl>10</ttl><sy:updatePeriod>hourly</sy:updatePeriod>", timedelta(hours=1)),
    ],
)
def test_a_feed_says_how_long_to_wait_and_its_entries_have_no_say(wishes: str, least: timedelta) -> None:
    assert of_document(channel(wishes)).least == least


def test_wishes_may_stand_behind_the_entries() -> None:
    assert of_document(f"<rss><channel>{ITEM}<ttl>60</ttl></channel></rss>").least == timedelta(hours=1)


def test_hours_and_days_to_stay_away_are_read_whatever_their_form() -> None:
    hours = "<skipHours><hour>24</hour><hour>3</hour> <hour> 23 </hour><hour>noon</hour></skipHours>"
    days = "<skipDays><day>Sunday</day><day>monday</day><day>Someday</day></skipDays>"

    hints = of_document(channel(hours + days + "<cloud><hour>7</hour></cloud>"))

    assert (hints.skip_hours, hints.skip_days) == ((0, 3, 23), (0, 6))


@pytest.mark.parametrize(
    ("headers", "least"),
    [
        ({}, timedelta()),
        ({"cache-control": "max-age=300"}, timedelta(minutes=5)),
        ({"cache-control": "public, Max-Age=300, s-maxage=600"}, timedelta(minutes=10)),
        ({"cache-control": "no-store, max-age=0"}, timedelta()),
        ({"cache-control": "x-max-age=300"}, timedelta()),
        ({"cache-control": "max-age=0", "expires": "Fri, 20 Nov 2026 09:00:30 GMT"}, timedelta()),
        ({"cache-control": "no-cache", "expires": "Fri, 20 Nov 2026 09:00:30 GMT"}, timedelta()),
        ({"expires": "Fri, 20 Nov 2026 09:00:30 GMT"}, timedelta(hours=1)),
        ({"expires": "Thu, 01 Jan 1970 00:00:00 GMT"}, timedelta()),
        ({"expires": "0"}, timedelta()),
        ({"expires": "Fri, 20 Nov 2026 09:00:30 -0000"}, timedelta(hours=1)),
        ({"cache-control": "max-age=999999999"}, WISH_MAX),
    ],
)
def test_an_answers_headers_say_how_long_it_stays_fresh(headers: dict[str, str], least: timedelta) -> None:
    assert with_answer(Hints(), headers, NOW).least == least


def test_the_longest_of_all_wishes_counts_and_each_answer_speaks_anew() -> None:
    hints = Hints(document_s=600, answer_s=9_000)

    assert with_answer(hints, {"cache-control": "max-age=3600"}, NOW).least == timedelta(hours=1)
    assert with_answer(hints, {}, NOW).least == timedelta(minutes=10)


def test_a_feed_of_nothing_but_beginnings_takes_no_time() -> None:
    text = "<rss><channel>" + "<item><skipHours>" * 200_000

    assert of_document(text) == Hints()
