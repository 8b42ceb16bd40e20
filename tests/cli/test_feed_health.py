"""`stoppress feeds`: the health of each feed of a stack, for people and for programs."""

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoppress_cli.app import app
from stoppress_cli.local.stack import Stack
from stoppress_cli.scenario import player
from tests.support import playing
from tests.support.operated import served
from tests.support.playing import TEMPLATE, Step

WELL, BROKEN, GONE, WIRE = (
    "https://www.example.com/rss.xml",
    "https://www.example.com/broken.xml",
    "https://www.example.com/gone.xml",
    "https://feeds.example.net/wire.xml",
)
ITEM = "<item><link>https://www.example.com/a</link><title>A</title><pubDate>Fri, 20 Nov 2026 07:55:00 GMT</pubDate></item>"
RSS = f'<rss version="2.0"><channel><ttl>60</ttl>{ITEM}</channel></rss>'
MORNING: list[Step] = [
    {
        "at": "2026-11-20T08:00:00Z",
        "site": {
            "host": "www.example.com",
            "publication": "Example News",
            "feeds": [{"url": WELL, "interval_max_minutes": 15}, BROKEN, GONE, WIRE],
        },
    },
    {"site": {"host": "empty.example.com", "publication": "Empty"}},
    {"feed": WELL, "body": RSS, "headers": {"link": "<https://hub.example.net/>; rel=hub"}},
    {"feed": BROKEN, "status": 500},
    {"feed": GONE, "status": 410},
    {"feed": WIRE, "status": 301, "headers": {"location": "/news.xml"}},
    {
        "feed": "https://feeds.example.net/news.xml",
        "body": RSS,
        "headers": {"link": "<http://hub.example.net/>; rel=hub"},
    },
    {"hub": "https://hub.example.net/"},
    {"at": "2026-11-20T08:01:00Z", "expect": {"site": "www.example.com", "urls": ["https://www.example.com/a"]}},
]


def feeds_show(endpoint: str, *arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["feeds", "show", *arguments, "--local", endpoint])
    return result.exit_code, result.stdout


@pytest.mark.moto
def test_the_health_of_feeds_is_shown_for_people_and_for_programs(tmp_path: Path) -> None:
    lines = playing.written(MORNING)
    with Stack(TEMPLATE, start=lines[0].at) as stack:
        with player.playing(stack, tmp_path / "made.jsonl", tmp_path, lambda _line, _text: None) as opened:
            assert opened.play(lines) == []
        with served(stack) as endpoint:
            code, printed = feeds_show(endpoint)
            of_site, as_json = feeds_show(endpoint, "www.example.com", "--json")
            without_feeds = feeds_show(endpoint, "empty.example.com")
            unknown, _ = feeds_show(endpoint, "www.example.org")

    assert (code, of_site, unknown) == (1, 1, 2)
    assert without_feeds == (0, "no feeds are polled: list them in `feeds` of a site's configuration\n")
    feeds = {feed["url"]: feed for feed in json.loads(as_json)["feeds"]}
    assert {url: feed["condition"] for url, feed in feeds.items()} == {
        WELL: "healthy",
        BROKEN: "failing",
        GONE: "gone",
        WIRE: "healthy",
    }
    assert feeds[WELL] == {
        "site": "www.example.com",
        "url": WELL,
        "condition": "healthy",
        "last_success": "2026-11-20T08:01:00Z",
        "last_new_story": "2026-11-20T07:55:00Z",
        "interval_minutes": 1.0,
        "floor_minutes": 1.0,
        "cap_minutes": 15.0,
        "own": True,
        "next_poll": "2026-11-20T08:02:00Z",
        "failures": 0,
        "failing_since": None,
        "last_error": None,
        "moved_to": None,
        "hub": "https://hub.example.net/",
        "subscribed_until": "2026-11-30T08:01:00Z",
        "last_push": None,
        "not_subscribed": None,
    }
    assert (feeds[BROKEN]["failures"], feeds[BROKEN]["last_error"]) == (1, "the server answered 500")
    assert (feeds[WIRE]["interval_minutes"], feeds[WIRE]["moved_to"]) == (60.0, "https://feeds.example.net/news.xml")
    assert feeds[GONE]["next_poll"] is None
    for words in (
        "subscribed at https://hub",
        "not subscribed at http://hub",
        "1 time in a row, since 2026-11-20 08:0",
        "every 60 min",
        "410; put the site with a change to poll it again",
    ):
        assert words in printed
