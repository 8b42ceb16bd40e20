"""Requests to Search Console: when they are sent, what is stored of the answers, and failures."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.aws import bucket, queues, table
from stoppress.aws.items import mark_item
from stoppress.model.entries import Mark
from stoppress.notify import changed_files, service_account
from stoppress.notify.engines import Notified, notify_engines, sweep
from stoppress.notify.page_state import (
    GONE,
    INSPECTIONS_A_DAY,
    SEARCH_CONSOLE,
    PageState,
    is_inspection_due,
    message,
    notified_pk,
    page_item,
    page_key,
    read_page,
)
from stoppress.notify.sitemap_reports import (
    READ,
    SubmittedSitemap,
    describe_unread,
    median_wait_s,
    note_report,
    note_unread,
    reads_since,
    submitted_in,
    submitted_item,
)
from stoppress.primitives.instants import NEVER, Deadline, exact
from tests.support.article_events import HOST
from tests.support.console import Console, console, json_key
from tests.support.moto_aws import MotoAws, opened

pytestmark = pytest.mark.moto

T = datetime(2026, 11, 20, 8, tzinfo=UTC)
URL = f"https://{HOST}/flood"
PROPERTY = f"https://{HOST}/"
SETTINGS = {"property": PROPERTY, "secret": "google"}
QUOTA_KEY = notified_pk(PROPERTY), "quota#2026-11-20"


def at(minutes: float) -> datetime:
    return T + timedelta(minutes=minutes)


@pytest.fixture(scope="module")
def opened_once() -> Iterator[MotoAws]:
    with opened(T) as aws:
        aws.secret(f"engines/{HOST}/google", json_key())
        yield aws


@pytest.fixture
def aws(opened_once: MotoAws, sent: list[tuple[str, int]]) -> MotoAws:
    opened_once.clock.move_to(T)
    for item in [*opened_once.items("notified#"), *opened_once.items("file#")]:
        table.delete(item["pk"], item["sk"])
    opened_once.site(engines={"search_console": SETTINGS})
    service_account.forget()
    return opened_once


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the messages that were sent to the engines queue, with their delays."""
    messages: list[tuple[str, int]] = []
    monkeypatch.setattr(queues, "send_engines", messages.extend)
    return messages


@pytest.fixture
def google() -> Iterator[Console]:
    with console() as server:
        yield server


def page(url: str = URL, notified: datetime | None = T, published: datetime | None = T) -> PageState:
    state = PageState(
        url, "v1", T, published, notified="v1" if notified else "", notified_at=notified, checked_at=notified
    )
    table.put(page_item(HOST, state), None)
    return state


def several_pages(number: int) -> list[str]:
    """Write the states of `number` pages. Return their URLs, the newest story first."""
    urls = [f"{URL}-{minute}" for minute in range(number, 0, -1)]
    for minute, url in enumerate(reversed(urls), 1):
        page(url, published=at(minute))
    return urls


def kept(url: str = URL) -> PageState:
    item = table.get(*page_key(HOST, url))
    assert item
    return read_page(item)


def ask(now: datetime, *messages: str, deadline: Deadline = NEVER) -> Notified:
    done = notify_engines({str(number): message for number, message in enumerate(messages)}, now, deadline)
    assert done.failed == {}
    return done


def engine() -> dict[str, Any]:
    return table.get(notified_pk(HOST), SEARCH_CONSOLE) or {}


def sitemap(file: str = "sitemap.xml") -> SubmittedSitemap:
    return next(item for item in submitted_in(table.query(notified_pk(HOST))) if item.file == file)


# ── when pages are inspected ──


@pytest.mark.parametrize(
    ("minutes", "changes", "is_due"),
    [
        (14, {}, False),
        (15, {}, True),
        (359, {"inspected_at": at(15)}, False),
        (360, {"inspected_at": at(15)}, True),
        (400, {"inspected_at": at(360)}, False),
        (359, {"notified_at": None}, False),
        (360, {"notified_at": None}, True),
        (48 * 60 - 1, {}, True),
        (48 * 60, {}, False),
        (60, {"version": GONE}, False),
        (60, {"published": None}, False),
    ],
)
def test_a_story_is_inspected_after_its_notification_and_six_hours_after_publication(
    minutes: float, changes: dict[str, Any], *, is_due: bool
) -> None:
    state = replace(PageState(URL, "v1", T, T, notified="v1", notified_at=T), **changes)
    assert is_inspection_due(state, at(minutes)) == is_due


def test_the_date_of_a_story_is_noted_whichever_file_is_compared_first(
    aws: MotoAws, sent: list[tuple[str, int]]
) -> None:
    news = "<news:news><news:publication_date>2026-11-20T08:00:00Z</news:publication_date></news:news>"
    for file, tags in (("sitemap-2026-11.xml", ""), ("sitemap-news.xml", news)):
        body = f"<urlset><url><loc>{URL}</loc><lastmod>2026-11-20T08:00:00Z</lastmod>{tags}</url></urlset>".encode()
        bucket.write(HOST, file, body, "application/xml", "no-store", replaces=None, changed=T, config="")
        changed_files.compare(HOST, file, at(1))
    assert (kept().published, kept().version) == (T, "2026-11-20T08:00:00Z")
    question = message(HOST, sitemaps=["sitemap-news.xml"]), 600
    assert sent == [(message(HOST, page=URL), 0), question, (message(HOST, page=URL), 0)]
    put_at = bucket.read(HOST, "sitemap-news.xml").put_at  # type: ignore[union-attr]
    assert (kept().listed_at, kept().news_file) == (put_at, "sitemap-news.xml")


# ── inspections ──


def test_the_inspection_result_of_a_page_is_stored(aws: MotoAws, google: Console) -> None:
    page()
    google.answers["inspection"] = ["unknown page", "indexed"]
    ask(at(16), message(HOST, inspect=URL))

    [(url, headers, body)] = google.of("inspection")
    assert url == "https://searchconsole.googleapis.com/v1/urlInspection/index:inspect"
    assert headers["authorization"] == "Bearer ya29.a-token"
    assert headers["content-type"] == "application/json"
    assert body == f'{{"inspectionUrl":"{URL}","siteUrl":"{PROPERTY}"}}'.encode()
    state = kept()
    assert (state.inspected_at, state.verdict, state.coverage) == (at(16), "NEUTRAL", "URL is unknown to Google")
    assert (state.crawled_at, state.indexed_at, state.notified) == (None, None, "v1")

    ask(at(361), message(HOST, inspect=URL))
    state = kept()
    assert (state.verdict, state.robots_state, state.google_canonical) == (
        "PASS", "ALLOWED", "https://www.example.com/flood",
    )  # fmt: skip
    assert state.crawled_at == datetime(2026, 11, 20, 8, 4, 30, tzinfo=UTC)
    assert (state.inspected_at, state.indexed_at) == (at(361), at(361))
    assert len(google.of("token")) == 2  # the first one has expired


def test_a_repeated_message_sends_no_request(aws: MotoAws, google: Console) -> None:
    page()
    ask(at(16), *[message(HOST, inspect=URL)] * 2)
    ask(at(17), message(HOST, inspect=URL), message(HOST, inspect=f"{URL}-unknown"))
    assert google.inspected == [URL]


@pytest.mark.parametrize(("counted", "sent_now"), [(INSPECTIONS_A_DAY - 2, 2), (INSPECTIONS_A_DAY, 0), (700, 3)])
def test_inspections_beyond_the_quota_are_postponed(
    aws: MotoAws, google: Console, sent: list[tuple[str, int]], counted: int, sent_now: int
) -> None:
    urls = several_pages(3)
    table.put({"pk": QUOTA_KEY[0], "sk": QUOTA_KEY[1], "day": counted}, None)
    ask(at(20), *(message(HOST, inspect=url) for url in urls))

    assert google.inspected == urls[:sent_now]
    assert sent == [(message(HOST, inspect=url), 900) for url in urls[sent_now:]]
    assert int(aws.item(*QUOTA_KEY)["day"]) == counted + sent_now
    assert engine() == {}


def test_inspections_end_after_half_a_minute_or_with_the_run(
    aws: MotoAws, google: Console, sent: list[tuple[str, int]]
) -> None:
    urls = several_pages(3)
    for remaining_s in ([90, 90, 90, 90, 50, 50], [30, 30, 30, 30, 0, 0]):
        google.requests.clear()
        seconds = iter([*remaining_s, 0, 0, 0])
        ask(
            at(20),
            *(message(HOST, inspect=url) for url in urls),
            deadline=Deadline(lambda seconds=seconds: 1000 * next(seconds)),  # type: ignore[misc]
        )
        assert google.inspected == urls[:1]
        urls = urls[1:]
    assert [message for message, _ in sent] == [message(HOST, inspect=f"{URL}-{number}") for number in (2, 1, 1)]


# ── failures ──


@pytest.mark.parametrize(
    ("answer", "seconds", "fires", "words"),
    [
        ("unauthorized", 900, True, "Google refuses the token"),
        ("overloaded", 120, False, "answers 503"),
        ("cut", 600, False, "searchconsole.googleapis.com"),
    ],
)
def test_failed_requests_are_retried_and_our_faults_fire_an_alarm(
    aws: MotoAws, google: Console, sent: list[tuple[str, int]], answer: str, seconds: int, words: str, *, fires: bool
) -> None:
    urls = several_pages(2)
    google.answers["inspection"] = [answer]
    done = ask(at(20), *(message(HOST, inspect=url) for url in urls))

    assert google.inspected == urls[:1]  # one refusal is enough
    assert sent == [(message(HOST, inspect=url), seconds) for url in urls]
    assert bool(done.engines_failing) == fires
    assert words in engine()["reason"]
    assert engine()["until"] == exact(at(20) + timedelta(seconds=seconds))
    assert kept(urls[0]).inspected_at is None

    sent.clear()
    ask(at(21), message(HOST, inspect=urls[0]))  # no request is sent before
    assert len(google.inspected) == 1
    assert sent == [(message(HOST, inspect=urls[0]), seconds - 60)]

    later = at(20) + timedelta(seconds=seconds)
    assert ask(later, *(message(HOST, inspect=url) for url in urls)).engines_failing == []
    assert kept(urls[0]).inspected_at == kept(urls[1]).inspected_at == later
    assert "reason" not in engine()
    assert len(google.of("token")) == (2 if answer == "unauthorized" else 1)  # a refused token is not used again


@pytest.mark.parametrize(
    ("answer", "seconds", "fires", "words"),
    [
        ("bad request", 900, True, "answers 400: Request contains an invalid argument.: report this"),
        ("broken", 600, False, "answers 500: <html>"),
        ("no json", 600, False, "cannot be read"),
    ],
)
def test_a_page_for_which_google_fails_delays_no_other(
    aws: MotoAws, google: Console, sent: list[tuple[str, int]], answer: str, seconds: int, words: str, *, fires: bool
) -> None:
    urls = several_pages(5)
    google.answers["inspection"] = [answer, "unknown page", answer]
    ask(at(20), *(message(HOST, inspect=url) for url in urls))
    assert [bool(kept(url).inspected_at) for url in urls] == [False, True, False, True, True]
    assert sent == [(message(HOST, inspect=url), 900) for url in (urls[0], urls[2])]
    assert engine() == {}

    google.answers["inspection"] = [answer, answer]
    sent.clear()
    done = ask(at(36), *(message(HOST, inspect=url) for url in urls))
    assert sent == [(message(HOST, inspect=url), seconds) for url in (urls[0], urls[2])]
    assert bool(done.engines_failing) == fires
    assert engine()["until"] == exact(at(36) + timedelta(seconds=seconds))
    assert words in engine()["reason"]


def test_a_failure_of_google_for_an_hour_fires_an_alarm(aws: MotoAws, google: Console) -> None:
    page()
    google.answers["inspection"] = ["broken"] * 3
    fires = [ask(at(minutes), message(HOST, inspect=URL)).engines_failing for minutes in (20, 50, 80)]
    assert [bool(failing) for failing in fires] == [False, False, True]
    assert fires[-1][0][1].startswith("Search Console: answers 500")


def test_a_run_without_quota_does_not_end_the_noted_failure(aws: MotoAws, google: Console) -> None:
    page()
    google.answers["inspection"] = ["broken"] * 2
    ask(at(20), message(HOST, inspect=URL))
    table.put(
        {"pk": QUOTA_KEY[0], "sk": QUOTA_KEY[1], "day": INSPECTIONS_A_DAY}, rev := int(aws.item(*QUOTA_KEY)["rev"])
    )
    ask(at(50), message(HOST, inspect=URL))
    table.put({"pk": QUOTA_KEY[0], "sk": QUOTA_KEY[1], "day": 1}, rev + 1)

    assert ask(at(85), message(HOST, inspect=URL)).engines_failing


@pytest.mark.parametrize(
    ("secret", "words"), [("none", "cannot be read"), ("shared/none", "cannot be read"), ("bad", "is no JSON key")]
)  # fmt: skip
def test_a_missing_or_wrong_secret_fires_an_alarm_and_nothing_is_sent(
    aws: MotoAws, google: Console, secret: str, words: str
) -> None:
    aws.secret(f"engines/{HOST}/bad", "a password")
    aws.site(engines={"search_console": SETTINGS | {"secret": secret}})
    page()
    assert words in ask(at(20), message(HOST, inspect=URL)).engines_failing[0][1]
    assert words in engine()["reason"]
    assert google.requests == []


# ── sitemaps ──


def test_a_sitemap_is_submitted_once_and_its_report_read_each_day(aws: MotoAws, google: Console) -> None:
    question = message(HOST, sitemaps=["sitemap.xml", "sitemap-news.xml"])
    ask(T, question)
    [(url, headers, body), (news, _, _)] = google.of("PUT")
    site = "https://www.googleapis.com/webmasters/v3/sites/https%3A%2F%2Fwww.example.com%2F"
    assert url == f"{site}/sitemaps/https%3A%2F%2Fwww.example.com%2Fsitemap.xml"
    assert news == f"{site}/sitemaps/https%3A%2F%2Fwww.example.com%2Fsitemap-news.xml"
    assert (headers["content-length"], headers["authorization"], body) == ("0", "Bearer ya29.a-token", b"")
    assert "content-type" not in headers
    assert sitemap().submitted_at == T

    ask(at(60), question)
    ask(at(120), question)
    ask(at(25 * 60), question)
    assert len(google.of("PUT")) == 2
    assert [request[0] for request in google.of("GET")] == [url, news] * 2
    assert sitemap() == SubmittedSitemap(
        "sitemap.xml",
        T,
        at(25 * 60),
        datetime(2026, 11, 20, 8, 30, 0, 456_000, UTC),
        errors=0,
        warnings=2,
        urls={"web": 120, "news": 20},
    )


def test_a_sitemap_that_has_errors_or_was_deleted_is_submitted_again(aws: MotoAws, google: Console) -> None:
    question = message(HOST, sitemaps=["sitemap.xml"])
    google.answers["GET"] = ["report with errors"] * 2 + ["not found"]
    for hours, submissions in ((0, 1), (3, 2), (27, 2), (28, 2), (51, 3)):
        assert ask(at(60 * hours), question).engines_failing == []
        assert len(google.of("PUT")) == submissions
        if hours == 28:
            assert (sitemap().errors, sitemap().submitted_at) == (3, at(180))


def test_a_failed_submission_is_not_noted(aws: MotoAws, google: Console) -> None:
    question = message(HOST, sitemaps=["sitemap.xml", "sitemap-news.xml"])
    google.answers["PUT"] = ["ok", "broken"]
    ask(T, question)
    assert [item.file for item in submitted_in(table.query(notified_pk(HOST)))] == ["sitemap.xml"]
    ask(at(16), question)
    assert len(google.of("PUT")) == 3
    assert "reason" not in engine()


# ── the sweep ──


def test_the_sweep_inspects_the_newest_due_stories_first(aws: MotoAws, sent: list[tuple[str, int]]) -> None:
    site = aws.site(engines={"search_console": SETTINGS})
    for file in ("sitemap-news.xml", "sitemap-2026-11.xml"):
        table.put_if(mark_item(HOST, Mark(file, T, 2, 1_000, "")))
    several_pages(3)
    # Half of the quota is reserved for new stories.
    table.put({"pk": QUOTA_KEY[0], "sk": QUOTA_KEY[1], "day": INSPECTIONS_A_DAY // 2 - 2}, None)
    table.put_if(submitted_item(HOST, SubmittedSitemap("sitemap.xml", T, at(300)), T))
    assert sweep([site], at(370)) == Notified()
    assert [message for message in map(json.loads, next(zip(*sent, strict=True))) if "detail" not in message] == [
        {"site": HOST, "inspect": f"{URL}-3"},
        {"site": HOST, "inspect": f"{URL}-2"},
        {"site": HOST, "sitemaps": ["sitemap-news.xml"]},
    ]


# ── when Google read the news sitemap ──

NEWS = "sitemap-news.xml"


def listed(*minutes: float) -> bool:
    return note_unread(HOST, NEWS, [at(minute) for minute in minutes], at(max(minutes)))


def reported(read: float, reported_at: float) -> SubmittedSitemap:
    """Return the sitemap after a report, at `reported_at`, of a read at `read`."""
    return note_report(HOST, replace(sitemap(NEWS), read_at=at(reported_at), downloaded_at=at(read)), at(reported_at))


def test_each_read_has_the_delays_of_the_stories_that_it_read_first(aws: MotoAws) -> None:
    assert listed(1, 2)
    assert not listed(3)  # the report is requested already
    assert reported(read=0.5, reported_at=10).unread == (at(1), at(2), at(3))
    assert reported(read=2.5, reported_at=20).unread == (at(3),)
    assert reported(read=2.5, reported_at=30).is_unread(at(30))  # nothing new
    reported(read=0.5, reported_at=31)  # an older report that came late
    assert not reported(read=35.001, reported_at=40).unread
    assert listed(41)

    reads = reads_since(HOST, NEWS, T)
    assert reads == [(at(35), [32 * 60]), (at(2.5), [90, 30]), (at(0.5), [])]
    assert reads_since(HOST, NEWS, at(2.5)) == reads[:1]
    assert median_wait_s(HOST, NEWS, at(60)) == 90
    assert median_wait_s(HOST, NEWS, at(60) + timedelta(days=2)) is None


def test_a_read_in_the_second_of_the_listing_counts_as_too_early(aws: MotoAws) -> None:
    listed(1)
    assert reported(read=1 + 0.9 / 60, reported_at=10).unread == (at(1),)
    assert reported(read=1 + 1.2 / 60, reported_at=20).unread == ()


def test_the_report_is_requested_every_ten_minutes_until_the_story_is_read(
    aws: MotoAws, sent: list[tuple[str, int]], google: Console
) -> None:
    question = message(HOST, sitemaps=[NEWS])
    table.put(submitted_item(HOST, SubmittedSitemap(NEWS, T, at(1), at(-60)), T), None)
    listed(2)
    google.answers["GET"] = ["read early"]
    ask(at(5), question)  # not due
    assert (google.of("GET"), sent) == ([], [])
    ask(at(12), question)
    ask(at(13), question)  # a second message, which ends there
    assert (len(google.of("GET")), sent) == (1, [(question, 600)])
    google.answers["GET"] = ["overloaded"]
    ask(at(23), question)  # Google refuses: later again
    assert sent == [(question, 600)] * 2
    google.answers["GET"] = ["read late"]
    ask(at(50), question)
    assert (len(google.of("GET")), len(sent)) == (3, 2)
    assert not sitemap(NEWS).is_unread(at(50))


@pytest.mark.parametrize(
    ("last", "reported_at", "unread", "reads", "is_left"),
    [
        (0, 360, 10, 6, True),
        (0, 359, 10, 6, False),  # for less than six hours
        (0, 360, None, 6, False),  # there is nothing new to read
        (0, 360, 10, 5, False),  # it was read seldom before
        (0, 360, -2_600, 6, False),  # the story is no news any more
    ],
)
def test_a_sitemap_that_google_stops_reading_is_reported(
    last: float, reported_at: float, unread: float | None, reads: int, *, is_left: bool
) -> None:
    stories = () if unread is None else (at(unread),)
    submitted = SubmittedSitemap(NEWS, T, at(reported_at), at(last), unread=stories)
    of_reads = [{"sk": f"{READ}{NEWS}#{exact(at(-minute))}"} for minute in range(reads)]
    stored = [submitted_item(HOST, submitted, T), *of_reads]
    assert list(describe_unread(stored, at(reported_at))) == [f"Google has left {NEWS} unread"] * is_left


def test_the_sweep_reports_a_sitemap_that_google_leaves_unread(aws: MotoAws, sent: list[tuple[str, int]]) -> None:
    site = aws.site(engines={"search_console": SETTINGS})
    table.put(submitted_item(HOST, SubmittedSitemap(NEWS, T, T), T), None)
    for minute in range(6):
        reported(read=minute, reported_at=minute)
    listed(10)
    reported(read=5, reported_at=370)
    assert sweep([site], at(371)).engines_failing == [(HOST, f"Google has left {NEWS} unread")]
