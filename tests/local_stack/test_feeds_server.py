from collections.abc import Iterator
from datetime import UTC, datetime

import pytest
import time_machine

from stoppress_cli.scenario.feeds_server import TIMES_AS_FAST, FeedServer
from stoppress_cli.scenario.file import FeedAnswer

pytestmark = pytest.mark.moto

URL = "https://www.example.com/rss.xml?full=1"
FEED = FeedAnswer(headers={"etag": '"v1"', "last-modified": "Fri, 20 Nov 2026 08:00:00 GMT"}, body=b"<rss/>")


@pytest.fixture
def server() -> Iterator[FeedServer]:
    with FeedServer().running() as running:
        yield running


def get(path: str, **headers: str) -> tuple[int, bytes]:
    """Send a request as the poller does, through the product's HTTP client with the host in a header."""
    from stoppress.http import address

    with address.pool_to("https", "www.example.com", 443) as pool:
        sent = {"host": "www.example.com", **{name.replace("_", "-"): value for name, value in headers.items()}}
        answer = pool.request("GET", path, headers=sent, retries=False)
        return answer.status, answer.data


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"if_none_match": '"v1"'}, 304),
        ({"if_none_match": 'W/"v1"'}, 304),
        ({"if_none_match": '"v2"'}, 200),
        ({"if_modified_since": "Fri, 20 Nov 2026 08:00:00 GMT"}, 304),
        ({"if_none_match": '"v2"', "if_modified_since": "Fri, 20 Nov 2026 08:00:00 GMT"}, 200),
    ],
)
def test_a_feed_that_has_not_changed_is_answered_with_304(
    server: FeedServer, headers: dict[str, str], status: int
) -> None:
    server.set(URL, FEED)

    assert get("/rss.xml?full=1", **headers) == (status, b"<rss/>" if status == 200 else b"")


@pytest.mark.parametrize("own", [None, "Fri, 20 Nov 2026 07:00:00 GMT"])
def test_an_answer_has_the_date_of_the_virtual_clock_unless_the_scenario_sets_one(
    server: FeedServer, own: str | None
) -> None:
    from stoppress.http import client

    server.set(URL, FeedAnswer(headers={"date": own} if own else {}))

    with time_machine.travel(datetime(2031, 11, 20, 8, 0, tzinfo=UTC), tick=False):
        date = client.fetch(URL).headers["date"]

    assert date == (own or "Thu, 20 Nov 2031 08:00:00 GMT")


def fetch_body(url: str) -> bytes:
    from stoppress.http import client

    return client.fetch(url).body


@pytest.mark.parametrize("slow", [FeedAnswer(body=b"<rss/>", delay_s=60), FeedAnswer(body=b"<rss/>", drip_s=60)])
def test_a_slow_answer_is_accelerated_and_time_outs_are_restored_afterwards(slow: FeedAnswer) -> None:
    from stoppress.http import client, errors

    timeout_s = client.FETCH_SECONDS_MAX
    with FeedServer().running() as server:
        server.set(URL, slow)
        short_timeout_s = client.FETCH_SECONDS_MAX
        with pytest.raises(errors.TooSlow):
            fetch_body(URL)
    assert (short_timeout_s, client.FETCH_SECONDS_MAX) == (timeout_s / TIMES_AS_FAST, timeout_s)
