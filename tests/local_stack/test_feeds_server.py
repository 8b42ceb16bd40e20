from collections.abc import Iterator

import pytest
import urllib3

from stoppress_cli.feeds_server import FeedAnswer, FeedServer

URL = "https://www.example.com/rss.xml?full=1"
FEED = FeedAnswer(200, {"etag": '"v1"', "last-modified": "Fri, 20 Nov 2026 08:00:00 GMT"}, b"<rss/>")


@pytest.fixture
def server() -> Iterator[FeedServer]:
    with FeedServer().running() as running:
        yield running


def get(path: str, **headers: str) -> tuple[int, bytes]:
    """As the poller asks: through the door of the product, the host in a header."""
    from stoppress import web

    with web.pool_to("https", "www.example.com", 443) as pool:
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


def test_a_failing_feed_fails_whatever_is_asked(server: FeedServer) -> None:
    server.set(URL, FeedAnswer(503, {"etag": '"v1"'}, b"busy"))

    assert get("/rss.xml?full=1", if_none_match='"v1"') == (503, b"busy")


def test_a_url_that_no_step_has_spoken_of_is_a_feed_without_entries(server: FeedServer) -> None:
    status, body = get("/other.xml")

    assert status == 200
    assert b"<rss" in body
    assert b"<item" not in body


def test_loopback_itself_stays_reachable(server: FeedServer) -> None:
    from stoppress import web

    server.set(f"http://127.0.0.1:{server.port}/own.xml", FEED)
    pool = web.pool_to("http", "127.0.0.1", server.port)
    assert isinstance(pool, urllib3.HTTPConnectionPool)
    with pool:
        own = {"host": f"127.0.0.1:{server.port}"}
        assert pool.request("GET", "/own.xml", headers=own, retries=False).status == 200
