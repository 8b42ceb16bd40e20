from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine
import urllib3

from stoppress_cli.scenario.feeds_server import TIMES_AS_FAST, FeedAnswer, FeedServer

pytestmark = pytest.mark.moto

URL = "https://www.example.com/rss.xml?full=1"
FEED = FeedAnswer(200, {"etag": '"v1"', "last-modified": "Fri, 20 Nov 2026 08:00:00 GMT"}, b"<rss/>")


@pytest.fixture
def server() -> Iterator[FeedServer]:
    with FeedServer().running() as running:
        yield running


def get(path: str, **headers: str) -> tuple[int, bytes]:
    """As the poller asks: through the door of the product, the host in a header."""
    from stoppress.http import address

    with address.pool_to("https", "www.example.com", 443) as pool:
        sent = {"host": "www.example.com", **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = pool.request("GET", path, headers=sent, retries=False)
        return answer.status, answer.data


def test_the_poller_is_led_to_the_answer_of_the_url(server: FeedServer) -> None:
    server.set(URL, FEED)

    assert get("/rss.xml?full=1") == (200, b"<rss/>")


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if_none_match": '"v1"'}, 304),
        ({"if_none_match": 'W/"v1"'}, 304),
        ({"if_none_match": '"v0", "v1"'}, 304),
        ({"if_none_match": '"v2"'}, 200),
        ({"if_modified_since": "Fri, 20 Nov 2026 08:00:00 GMT"}, 304),
        ({"if_modified_since": "Thu, 19 Nov 2026 08:00:00 GMT"}, 200),
        ({"if_none_match": '"v2"', "if_modified_since": "Fri, 20 Nov 2026 08:00:00 GMT"}, 200),
    ],
)
def test_a_feed_that_has_not_changed_is_answered_with_304(
    server: FeedServer, headers: dict[str, str], status: int
) -> None:
    server.set(URL, FEED)

    assert get("/rss.xml?full=1", **headers) == (status, b"<rss/>" if status == 200 else b"")


@pytest.mark.parametrize("own", [None, "Fri, 20 Nov 2026 07:00:00 GMT"])
def test_an_answer_has_the_date_of_the_virtual_clock_unless_the_scenario_gives_one(
    server: FeedServer, own: str | None
) -> None:
    from stoppress.http import client

    server.set(URL, FeedAnswer(headers={"date": own} if own else {}))

    with time_machine.travel(datetime(2031, 11, 20, 8, 0, tzinfo=UTC), tick=False):
        date = client.fetch(URL).headers["date"]

    assert date == (own or "Thu, 20 Nov 2031 08:00:00 GMT")


def test_a_failing_feed_fails_whatever_is_asked(server: FeedServer) -> None:
    server.set(URL, FeedAnswer(503, {"etag": '"v1"'}, b"busy"))

    assert get("/rss.xml?full=1", if_none_match='"v1"') == (503, b"busy")


def test_a_url_that_no_step_has_spoken_of_is_a_feed_without_entries(server: FeedServer) -> None:
    status, body = get("/other.xml")

    assert status == 200
    assert b"<rss" in body
    assert b"<item" not in body


def test_loopback_itself_stays_reachable(server: FeedServer) -> None:
    from stoppress.http import address

    server.set(f"http://127.0.0.1:{server.port}/own.xml", FEED)
    pool = address.pool_to("http", "127.0.0.1", server.port)
    assert isinstance(pool, urllib3.HTTPConnectionPool)
    with pool:
        own = {"host": f"127.0.0.1:{server.port}"}
        assert pool.request("GET", "/own.xml", headers=own, retries=False).status == 200


def fetched(url: str) -> bytes:
    from stoppress.http import client

    return client.fetch(url).body


@pytest.mark.parametrize("host", ["169.254.169.254", "2852039166", "0x7f.1", "[::1]", "inside.example.com"])
def test_the_pollers_door_checks_addresses_here_as_it_does_elsewhere(server: FeedServer, host: str) -> None:
    from stoppress.http import errors

    server.set("http://inside.example.com/", FeedAnswer(body=b"<rss/>", addresses=("93.184.215.14", "10.0.0.1")))
    server.set(f"http://{host}/", FeedAnswer(body=b"<rss/>"))

    with pytest.raises(errors.Refused):
        fetched(f"http://{host}/")
    assert server.requests_for(f"http://{host}/") == 0


def test_an_answer_can_be_compressed_or_a_bomb_or_of_another_length_than_it_says(server: FeedServer) -> None:
    from stoppress.http import errors

    server.set("http://www.example.com/gzip", FeedAnswer(body=b"<rss/>", gzip=True))
    server.set("http://www.example.com/bomb", FeedAnswer(bomb_bytes=20_000_000))
    server.set("http://www.example.com/short", FeedAnswer(body=b"<rss/>", length=4))
    server.set("http://www.example.com/long", FeedAnswer(body=b"<rss/>", length=400))

    assert [fetched(f"http://www.example.com/{name}") for name in ("gzip", "short", "long")] == [
        b"<rss/>",
        b"<rss",
        b"<rss/>",
    ]
    with pytest.raises(errors.TooLarge):
        fetched("http://www.example.com/bomb")


def test_a_tag_can_change_with_each_answer(server: FeedServer) -> None:
    server.set(URL, FeedAnswer(body=b"<rss/>", changing_etag=True))

    assert [get("/rss.xml?full=1", if_none_match='"1"') for _ in range(2)] == [(200, b"<rss/>")] * 2
    assert server.requests_for(URL) == 2


@pytest.mark.parametrize("slow", [FeedAnswer(body=b"<rss/>", delay_s=60), FeedAnswer(body=b"<rss/>", drip_s=60)])
def test_a_slow_answer_is_played_fast_and_the_pollers_patience_is_its_own_again_afterwards(slow: FeedAnswer) -> None:
    from stoppress.http import client, errors

    patience_s = client.FETCH_SECONDS_MAX
    with FeedServer().running() as server:
        server.set(URL, slow)
        hurried_s = client.FETCH_SECONDS_MAX
        with pytest.raises(errors.TooSlow):
            fetched(URL)
    assert (hurried_s, client.FETCH_SECONDS_MAX) == (patience_s / TIMES_AS_FAST, patience_s)
