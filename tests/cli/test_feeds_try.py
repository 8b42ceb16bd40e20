"""`stoppress feeds try`: the entries of a feed, without a stack."""

import gzip
import json
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import time_machine
from typer.testing import CliRunner

from stoppress.http import client, errors
from stoppress_cli.app import app

FEEDS = Path(__file__).parents[2] / "tests/fixtures/feeds"
URL = "https://www.example.com/news/feed.xml"
NOW = datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC)
Run = Callable[..., tuple[int, str, str]]


@pytest.fixture
def run() -> Run:
    def invoke(*arguments: object) -> tuple[int, str, str]:
        with time_machine.travel(NOW, tick=False):
            result = CliRunner().invoke(app, ["feeds", "try", *map(str, arguments)])
        assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
        return result.exit_code, result.stdout, result.stderr

    return invoke


def report(run: Run, *arguments: object) -> tuple[int, dict[str, Any]]:
    code, out, _ = run(*arguments, "--json")
    document: dict[str, Any] = json.loads(out)
    return code, document


@pytest.mark.parametrize(
    ("file", "code", "outcome", "reason", "line"),
    [
        (
            "page.xml", 1, "reject", "an HTML page, not a feed",
            "A poll would fail, and change nothing: an HTML page, not a feed\n",
        ),
        ("rss-empty.xml", 0, "empty", None, "0 entries, 0 would be sent, 0 deleted\n"),
        ("rss-cut-off-in-an-item.xml", 1, "parse", "cut off after", "incomplete, counts as a failed poll"),
    ],
)  # fmt: skip
def test_a_feed_that_a_poll_could_not_read_in_full_has_its_reason(
    run: Run, file: str, code: int, outcome: str, reason: str | None, line: str
) -> None:
    source = (FEEDS / file, "--url", URL)
    printed_code, out, _ = run(*source)
    ended, document = report(run, *source)

    assert (printed_code, ended, document["outcome"]) == (code, code, outcome)
    assert reason in document["reason"] if reason else document["reason"] is None
    assert line in out


def test_excluded_entries_have_a_reason(run: Run, tmp_path: Path) -> None:
    feed = tmp_path / "rss.xml"
    feed.write_text(
        "<rss version='2.0'><channel>"
        "<item><title>A</title><guid isPermaLink='false'>1</guid></item>"
        "<item><title>B</title><link>https://user@www.example.com/b</link></item>"
        "<item><title>C</title><link>https://elsewhere.example.org/c</link></item>"
        "<item><title>D</title><link>/d</link><pubDate>Fri, 20 Nov 2026 09:00 GMT</pubDate></item>"
        "<item><link>/e</link><pubDate>Fri, 20 Nov 2026 07:00 GMT</pubDate></item>"
        "<item><title>F</title><link>/f</link><pubDate>Fri, 13 Nov 2026 07:00 GMT</pubDate></item>"
        "<item><title>G</title><link>/g</link><pubDate>20 Nov 2026 10:30</pubDate></item>"
        "</channel></rss>"
    )

    _, out, _ = run(feed, "--url", URL, "--site", "www.example.com", "--timezone", "Europe/Paris")

    for line in (
        "  left out: it has no http or https link\n",
        "  left out: 'https://user@www.example.com/b' has a user name or password in it\n",
        "  left out: foreign host: elsewhere.example.org is not www.example.com\n",
        "  held until 2026-11-20T09:00:00Z\n",
        "  held until 2026-11-20T09:30:00Z\n",
        "  general sitemap only: no title\n",
        "  general sitemap only: published more than 48 hours ago\n",
        "7 entries, 5 would be sent, 0 deleted\n",
    ):
        assert line in out
    assert "foreign host" not in run(feed, "--url", URL)[1]


def test_tombstones_and_other_accepted_data_are_reported(run: Run) -> None:
    _, deleted, _ = run(FEEDS / "atom-tombstones.xml", "--url", URL)
    _, taken, _ = run(FEEDS / "rss-media.xml", "--url", URL, "--take", "images,videos")
    _, spoken, _ = run(FEEDS / "atom-languages.xml", "--url", URL, "--take", "language", "--take", "keywords")

    assert "tag:example.com,2026:1\n  is deleted" in deleted
    assert "  2 images\n" in taken
    assert "  2 videos\n" in taken
    assert "  language de, keywords Hafen, wetter\n" in spoken


def test_a_compressed_file_is_unpacked_up_to_the_limit_of_a_fetch(
    run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = (FEEDS / "rss.xml").read_bytes()
    whole, bad = tmp_path / "feed.xml.gz", tmp_path / "bad.gz"
    whole.write_bytes(gzip.compress(body))
    bad.write_bytes(b"\x1f\x8b and no gzip")

    assert report(run, whole, "--url", URL)[1]["outcome"] == "parse"
    assert "damaged gzip" in report(run, bad, "--url", URL)[1]["reason"]
    monkeypatch.setattr("stoppress.http.client.BODY_BYTES_MAX", len(body) - 1)
    assert "larger than" in report(run, whole, "--url", URL)[1]["reason"]


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((FEEDS / "rss.xml",), "rss.xml is a file: add --url with the address where it is served, such as https://"),
        (("nowhere.xml", "--url", URL), "cannot be read: No such file"),
        (("nowhere.xml",), "there is no file nowhere.xml; of a feed on the web give the whole URL, with https://"),
        (("www.example.com/rss.xml",), "there is no file www.example.com/rss.xml; of a feed"),
        ((FEEDS, "--url", URL), "cannot be read: Is a directory"),
        ((FEEDS / "rss.xml", "--url", "www.example.com"), "--url 'www.example.com' is no whole URL"),
        ((FEEDS / "rss.xml", "--url", "https://"), "--url 'https://' is no whole URL"),
        ((FEEDS / "rss.xml", "--url", ""), "--url '' is no whole URL"),
        (("https://",), "'https://' is no whole URL"),
        (("https://www.example.com/a b",), "'https://www.example.com/a b' is no whole URL"),
        ((FEEDS / "rss.xml", "--url", URL, "--timezone", "Paris"), "time zone"),
        ((FEEDS / "rss.xml", "--url", URL, "--site", "https://www.example.com/"), "bare host name"),
        ((FEEDS / "rss.xml", "--url", URL, "--take", "pictures"), "'images', 'videos'"),
    ],
)
def test_impossible_arguments_are_reported_with_a_fix(run: Run, arguments: tuple[object, ...], words: str) -> None:
    code, out, err = run(*arguments)

    assert (code, out) == (2, "")
    assert err.startswith("stoppress: ")
    assert words in err


# ── fetched ───────────────────────────────────────────────────────────────────────────────────────────────────────────────


@pytest.fixture
def internet(monkeypatch: pytest.MonkeyPatch) -> dict[str, client.Response | errors.FetchError]:
    answers: dict[str, client.Response | errors.FetchError] = {}

    def fetch(url: str, headers: Mapping[str, str]) -> client.Response:
        answer = answers[url]
        if isinstance(answer, errors.FetchError):
            raise answer
        return answer

    monkeypatch.setattr(client, "fetch", fetch)
    return answers


def test_a_url_is_fetched_as_the_poller_would(
    run: Run, internet: dict[str, client.Response | errors.FetchError]
) -> None:
    body = b"<rss version='2.0'><channel><item><title>A</title><link>a</link></item></channel></rss>"
    internet[URL] = client.Response(200, {}, body, "https://www.example.com/moved/feed.xml")

    assert report(run, URL)[1]["entries"][0]["url"] == "https://www.example.com/moved/a"
    assert report(run, URL, "--url", "https://other.example.com/x/")[1]["entries"][0]["url"] == (
        "https://other.example.com/x/a"
    )


def test_a_fetch_that_fails_is_a_rejection(run: Run, internet: dict[str, client.Response | errors.FetchError]) -> None:
    internet[URL] = client.Response(404, {}, b"", URL)
    assert report(run, URL) == (1, {"outcome": "reject", "reason": "the server answered 404", "entries": []})

    internet[URL] = errors.Refused("that is not a public address")
    assert report(run, URL)[1]["reason"] == "that is not a public address"


def test_an_index_is_fetched_with_its_sitemaps_and_that_of_a_file_only_lists_them(
    run: Run, internet: dict[str, client.Response | errors.FetchError]
) -> None:
    internet[URL] = client.Response(200, {}, (FEEDS / "sitemap-index.xml").read_bytes(), URL)
    internet["https://www.example.com/old-1.xml"] = client.Response(
        200, {}, (FEEDS / "sitemap-news.xml").read_bytes(), "https://www.example.com/old-1.xml"
    )

    assert [entry["title"] for entry in report(run, URL)[1]["entries"]] == ["Flood & storm", "Ferry", ""]
    code, document = report(run, FEEDS / "sitemap-index.xml", "--url", URL)
    assert (code, document["outcome"]) == (0, "empty")
    assert document["reason"].endswith("https://www.example.com/old-1.xml")
