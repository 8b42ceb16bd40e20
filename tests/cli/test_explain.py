"""`stoppress explain`: the complete answer about a page, also for pages that were never listed."""

import json
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress.model.site import Site
from stoppress.notify.sitemap_reports import SubmittedSitemap, note_report
from stoppress.primitives.instants import parse
from stoppress.show.read_story import is_about
from stoppress.show.story import Story, story_of
from stoppress_cli.app import app
from stoppress_cli.commands.explain import as_lines
from stoppress_cli.local.process import environment
from stoppress_cli.local.stack import Stack
from tests.simulation.stack import StackOnDoubles
from tests.support import operated, playing
from tests.support.operated import HOST, url
from tests.support.playing import Step
from tests.support.printed import as_text

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
SITE: dict[str, Any] = operated.SITE | {
    "sources": {"cms": {"secret": "newsroom"}},
    "rules": [{"exclude": "news", "section": "horoscope"}, {"path": "/sponsored/*"}],
    "pages": ["/about"],
}


def event(minute: int, article: str, path: str, kind: str = "article.published", late_by: int = 0, **data: Any) -> Step:
    """Return a webhook some minutes after twelve, with the timestamp of `late_by` minutes before."""
    step = operated.event(minute, article, path, kind, **data)
    return {**step, "body": step["body"] | {"timestamp": f"2026-11-20T12:{minute - late_by:02}:00Z"}}


def lines_of(
    steps: list[Step], target: str, tmp_path: Path, *, host: str | None = None, after: timedelta = timedelta()
) -> str:
    return as_text(as_lines(answer(steps, target, tmp_path, host=host, after=after)))


def answer(
    steps: Sequence[Step],
    target: str,
    tmp_path: Path,
    *,
    host: str | None = None,
    after: timedelta = timedelta(),
    before: Callable[[], None] = lambda: None,
) -> Story:
    """Play the steps on the doubles of AWS, call `before`, and return the answer at the time `after` noon."""
    stories: list[Story] = []

    def ask(stack: Stack) -> None:
        assert isinstance(stack, StackOnDoubles)
        with environment(stack.wiring.variables()):
            before()
            stories.append(story_of(target, host, NOON + after))

    played = playing.play(playing.written([operated.MADE[0], {"site": SITE}, *steps]), tmp_path, watch=ask)
    assert played.failures == []
    return stories[0]


def test_a_listed_page_is_shown_with_its_files_its_article_and_what_was_received(tmp_path: Path) -> None:
    steps = [event(1, "1042", "flood"), event(2, "1042", "flood", title="Flood closes harbour and market")]
    story = lines_of(steps, f"http://{HOST}/flood?utm_source=mail#top", tmp_path)

    assert story.splitlines()[:3] == [
        (
            "In the news sitemap: yes, until 2026-11-22 12:00:00 +00:00"
            " (sitemap-news.xml, last changed 2026-11-20 12:02:00 +00:00)"
        ),
        "In the general sitemap: yes (sitemap-2026-11.xml, last changed 2026-11-20 12:01:00 +00:00)",
        url("flood"),
    ]
    assert "article cms#1042: listed\n    first seen       2026-11-20 12:01:00 +00:00\n" in story
    assert "2026-11-20 12:01:00 +00:00  publish  cms#1042  listed\n" in story
    assert "2026-11-20 12:02:00 +00:00  publish  cms#1042  " in story


def test_a_late_event_is_shown_under_its_own_url_and_under_its_articles(tmp_path: Path) -> None:
    steps = [
        event(2, "1042", "new-slug", version=2),
        event(3, "1042", "old-slug", late_by=2, version=1),
        {**event(4, "1042", "new-slug", kind="article.unpublished", late_by=3, version=1), "tick": True},
    ]
    named = lines_of(steps, url("old-slug"), tmp_path)
    its_own = lines_of(steps, url("new-slug"), tmp_path)

    late = "with the sender's timestamp 2026-11-20 12:01:00 +00:00\n      a newer event was received before: "
    assert f"publish  cms#1042  late\n      {late}" in named
    assert f"publish  cms#1042  late\n      for {url('old-slug')}\n      {late}" in its_own
    assert f"In the news sitemap: no, because article cms#1042 moved to {url('new-slug')}\n" in named
    assert f"Did you mean?\n  {url('new-slug')}" in named
    assert f"remove   cms#1042  late\n      {late}" in its_own
    assert its_own.startswith("In the news sitemap: yes, until ")


def on_the_bus(
    number: int | str, *, slug: str = "flood", kind: str = "article.published", site: str = HOST, **more: Any
) -> Step:
    """Return an event that cannot be applied, because it has no title or an invalid type."""
    detail = {"site": site, "id": number, "url": url(slug), "title": "", "published_at": "soon", "version": "x"} | more
    return {"event": {"source": "cms", "detail-type": kind, "detail": detail}}


def test_a_configured_page_that_is_news_too_is_in_no_other_shard(tmp_path: Path) -> None:
    story = lines_of([event(1, "1", "about")], url("about"), tmp_path)

    assert "(sitemap-news.xml, " in story
    assert "In the general sitemap: yes (sitemap-pages.xml, " in story
    alone = lines_of([], url("about"), tmp_path)
    assert "In the news sitemap: no, because it is a page of the site's configuration" in alone


QUARANTINED: dict[str, tuple[list[Step], bool]] = {
    "a longer path with the same beginning": ([on_the_bus(7, slug="flood-2")], False),
    "another spelling of the URL": ([on_the_bus(7, url=f"http://{HOST.upper()}/flood?utm_source=x#top")], True),
    "the path alone": ([on_the_bus(7, url="/flood")], True),
    "a page that moved": ([on_the_bus(7, slug="harbour", previous_urls=[5, "/other", "/flood"])], True),
    "a number for an id": ([event(1, "42", "flood"), on_the_bus(42, slug="other")], True),
    "a text for an id": ([event(1, "42", "flood"), on_the_bus(" 42 ", slug="other")], True),
    "a removal that names nothing but the id": (
        [event(1, "42", "flood"), on_the_bus(42, kind="article.deleted", url=None)],
        True,
    ),
    "an id that has this one in it": ([event(1, "42", "flood"), on_the_bus(421, slug="other")], False),
    "the id as the title of another": ([event(1, "42", "flood"), on_the_bus(7, slug="other", title=["42"])], False),
    "an unknown site": ([on_the_bus(7, site="ww.example.com")], True),
    "an unknown site, by the id": (
        [event(1, "42", "flood"), on_the_bus(42, site="ww.example.com", url=None)],
        True,
    ),
    "the same id at another host": (
        [event(1, "42", "flood"), on_the_bus(42, site="a.example", url="https://a.example/x")],
        False,
    ),
    "too long to be kept whole": ([on_the_bus(7, body="x" * 60_000)], True),
    "too long to be kept whole, another page": ([on_the_bus(7, slug="flood-2", body="x" * 60_000)], False),
}


@pytest.mark.parametrize("case", QUARANTINED)
def test_a_quarantined_event_is_shown_for_its_own_page_only(case: str, tmp_path: Path) -> None:
    steps, is_listed = QUARANTINED[case]
    story = lines_of(steps, url("flood"), tmp_path)

    assert ("  quarantined\n" in story) is is_listed, story


@pytest.mark.parametrize(
    "kept", ["", "7", "[]", "null", '{"detail": 7}', '{"data": {"url": 7}}', "[" * 5_000, '{"url": "\\ud8']
)
def test_every_quarantined_event_can_be_read(kept: str) -> None:
    assert is_about(kept, url("flood"), Site.model_validate(SITE), {"42"}) is False


@pytest.mark.parametrize("where", ["data", "detail", None])
def test_a_quarantined_event_about_a_page_is_found_in_any_envelope(where: str | None) -> None:
    data = {"url": url("flood")}
    stored = json.dumps({where: data, "site": HOST} if where else data)

    assert is_about(stored, url("flood"), Site.model_validate(SITE), set())


def test_a_page_of_another_host_is_found_in_the_site_that_received_it(tmp_path: Path) -> None:
    foreign = "https://shop.example.com/boats"
    detail = {"site": HOST, "id": "1", "url": foreign, "title": "Buy a boat"}
    step: Step = {"event": {"source": "cms", "detail-type": "article.published", "detail": detail}}
    story = lines_of([step], foreign, tmp_path, host=HOST)

    assert "In the news sitemap: no, because article cms#1 is excluded: foreign host: shop.example.com is not" in story


def test_the_home_page_in_an_empty_news_sitemap_is_not_news(tmp_path: Path) -> None:
    steps = [event(1, "1", "flood"), event(5, "1", "flood", "article.unpublished")]
    story = lines_of(steps, url(""), tmp_path, after=timedelta(minutes=10))

    assert story.startswith("In the news sitemap: no, because ")


@pytest.mark.moto
def test_the_commands_answer_with_their_exit_codes(tmp_path: Path) -> None:
    steps = [event(1, "1", "flood"), event(2, "2", "undated", published_at=None)]
    cases: list[tuple[list[str], int]] = [
        ([url("flood")], 0),
        ([url("nothing")], 1),
        ([url("undated")], 0),
        ([url("undated"), "--news"], 1),
        ([url("flood"), "--news", "--json"], 0),
        (["nowhere"], 2),
        (["https://www.example.org/flood"], 2),
    ]
    with operated.operated([{"site": SITE}, *steps], tmp_path) as stack, operated.served(stack) as endpoint:
        stories = [CliRunner().invoke(app, ["explain", *words, "--local", endpoint]) for words, _ in cases]
        robots = CliRunner().invoke(app, ["sites", "robots", HOST, "--local", endpoint])

    assert [result.exit_code for result in (*stories, robots)] == [*(code for _, code in cases), 0]
    assert json.loads(stories[4].stdout)["news"]["file"] == "sitemap-news.xml"
    assert robots.stdout.startswith(f"Sitemap: https://{HOST}/sitemap.xml\nSitemap: https://{HOST}/sitemap-news.xml")
    assert "no story of www.example.com has 'nowhere' in its headline" in stories[-2].stderr
    assert "unknown site" in stories[-1].stderr
    assert "The stack's sites: www.example.com" in stories[-1].stderr


@pytest.mark.parametrize(
    ("endpoint", "reason"),
    [
        ("http://127.0.0.1:9", "no answer from http://127.0.0.1:9"),
        ("8000", "'8000' is no URL"),
        ("http://", "'http://' is no URL"),
        ("http://[", "'http://[' is no URL"),
        ("http://127.0.0.1:port", "'http://127.0.0.1:port' is no URL"),
    ],
)
def test_without_a_server_the_command_reports_what_to_start(endpoint: str, reason: str) -> None:
    result = CliRunner().invoke(app, ["explain", url("flood"), "--local", endpoint])

    assert result.exit_code == 2
    assert reason in result.stderr


def test_an_internal_error_is_not_turned_into_an_error_message(monkeypatch: pytest.MonkeyPatch) -> None:
    def faulty(*_: object) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr("stoppress_cli.commands.explain.story_of", faulty)

    with pytest.raises(ValueError, match="a defect"):
        CliRunner().invoke(app, ["explain", url("flood")], catch_exceptions=False)


@pytest.mark.moto
def test_an_earlier_moment_is_answered_from_the_versions_of_the_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operated.pretend_deployed(monkeypatch)
    monkeypatch.chdir(tmp_path)
    edited = "Flood closes <harbour> & market"
    steps = [event(1, "1", "flood"), event(5, "1", "flood", title=edited), event(9, "1", "flood", "article.deleted")]
    with operated.operated(steps, tmp_path, versioned=True) as stack:

        def run(*words: str) -> Any:
            return CliRunner().invoke(app, [*words, "--stack", stack.name])

        before, then = "2026-11-20T12:00:30", "2026-11-20T13:06+01:00"
        assert run("explain", url("flood"), "--at", before).exit_code == 1
        shown = run("explain", url("flood"), "--at", then)
        assert shown.exit_code == 0
        assert f"title      {edited}" in shown.stdout
        assert "  file       sitemap-news.xml\n  put_at     2026-11-20 12:05:00 +00:00\n" in shown.stdout
        assert run("explain", url("flood"), "--at", "noon").exit_code == 2

        assert run("sites", "files", HOST, "--at", then).exit_code == 0
        assert "Flood closes" in (tmp_path / HOST / "sitemap-news.xml").read_text()
        assert run("sites", "files", HOST, "--out", "now").exit_code == 0
        assert "Flood closes" not in (tmp_path / "now/sitemap-news.xml").read_text()
        # Somebody else's file, perhaps with a name that leads out of the folder, is not written.
        bucket = stack.only("AWS::S3::Bucket").ref
        stack.client("s3").put_object(Bucket=bucket, Key=f"{HOST}/../../away.xml", Body=b"")
        written = json.loads(run("sites", "files", HOST, "--out", "again", "--json").stdout)
        assert written["files"] == sorted(map(str, Path("again").iterdir()))
        assert run("sites", "files", HOST, "--out", "now/sitemap-news.xml").exit_code == 2


@pytest.mark.moto
def test_an_earlier_moment_shows_which_version_google_read_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    operated.pretend_deployed(monkeypatch)
    steps = [event(minute, "1", "flood", title=f"Flood at {minute}") for minute in (1, 5, 9)]
    with operated.operated(steps, tmp_path, versioned=True) as stack:
        operated.later(stack, 10)
        for read in ("12:05:00", "12:11:30"):  # in the second of the PUT, Google may have come before it
            report = SubmittedSitemap("sitemap-news.xml", downloaded_at=parse(f"2026-11-20T{read}Z"))
            note_report(HOST, report, stack.clock.now())

        def read_next(at: str) -> list[str | None]:
            words = ["explain", url("flood"), "--at", f"2026-11-20T{at}Z", "--stack", stack.name, "--json"]
            listing = json.loads(CliRunner().invoke(app, words).stdout)["listings"][-1]
            assert listing["file"] == "sitemap-news.xml"
            instants = (listing[name] for name in ("put_at", "next_read_by_google", "version_read_by_google"))
            return [instant and instant[11:19] for instant in instants]

        assert read_next("12:01:30") == ["12:01:00", "12:05:00", "12:01:00"]
        assert read_next("12:06:00") == ["12:05:00", "12:11:30", "12:09:00"]
        assert read_next("12:10:00") == ["12:09:00", "12:11:30", "12:09:00"]
        assert read_next("12:12:00") == ["12:09:00", None, None]
