"""The hourly sweep sends lost messages again, and does not duplicate waiting ones."""

import json
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest

from stoppress.aws import bucket, queues, table
from stoppress.aws.items import claim_item, mark_item
from stoppress.model.article import Claim
from stoppress.model.entries import Mark
from stoppress.model.order import Order
from stoppress.model.site import Site
from stoppress.notify import engines
from stoppress.notify.changed_files import compare
from stoppress.notify.engines import notify_engines, sweep
from stoppress.notify.indexnow import Meaning
from stoppress.notify.page_readiness import PageVerdict
from stoppress.notify.page_state import (
    GONE,
    INDEXNOW,
    PageState,
    after_failed_check,
    is_ready,
    message,
    notified_pk,
    page_item,
    page_key,
    read_page,
    seconds_until_check,
    update_page,
)
from stoppress.primitives.instants import NEVER, Deadline, exact
from tests.support.article_events import HOST
from tests.support.moto_aws import opened

T = datetime(2026, 11, 20, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
URL = f"https://{HOST}/flood"
SHARD = "sitemap-2026-11.xml"


@pytest.fixture
def site() -> Iterator[Site]:
    with opened(T) as aws:
        yield aws.site(engines={"indexnow": {"key": "0f4b1c2d3e4f5a6b"}})


@pytest.fixture
def sent(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, int]]:
    """Return the messages that were sent to the engines queue, with their delays."""
    messages: list[tuple[str, int]] = []
    monkeypatch.setattr(queues, "send_engines", messages.extend)
    return messages


def page(version: str = "v1", checked_at: datetime | None = None, checks: int = 0) -> None:
    table.put(page_item(HOST, PageState(URL, version, T, T, checked_at=checked_at, checks=checks)), None)


def pages_of(sent: list[tuple[str, int]]) -> list[str]:
    return [document["page"] for document in (json.loads(message) for message, _ in sent) if "page" in document]


def test_a_refused_request_does_not_end_the_claim_of_another_run(
    site: Site, sent: list[tuple[str, int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    page()

    def refuse(*_: object) -> Meaning:
        update_page(HOST, URL, lambda old: replace(old, tried_at=T + HOUR))  # another run claims the page
        return Meaning("later", "answers 429", 60, is_certain=True)

    monkeypatch.setattr(engines, "check_pages", lambda *_: {URL: PageVerdict(ready=True)})
    monkeypatch.setattr(engines, "_post_to_indexnow", refuse)
    notify_engines({"1": message(HOST, page=URL)}, T, NEVER)

    assert read_page(table.get(*page_key(HOST, URL)) or {}).tried_at == T + HOUR


def test_after_two_hours_a_page_waits_for_the_sweep_without_a_message(site: Site, sent: list[tuple[str, int]]) -> None:
    page()
    paused = {"reason": "429", "since": exact(T), "until": exact(T + 24 * HOUR)}
    table.put_if({"pk": notified_pk(HOST), "sk": INDEXNOW} | paused)
    notify_engines({"1": message(HOST, page=URL)}, T + HOUR, NEVER)
    assert pages_of(sent) == [URL]
    sent.clear()
    notify_engines({"1": message(HOST, page=URL)}, T + 3 * HOUR, NEVER)
    assert pages_of(sent) == []


@pytest.mark.parametrize("failed_checks", [9, 0], ids=["page stays", "engine refused"])
def test_a_removed_page_is_swept_for_two_days(site: Site, sent: list[tuple[str, int]], failed_checks: int) -> None:
    page(GONE, checked_at=T + HOUR, checks=failed_checks)
    sweep([site], T + 3 * HOUR)
    assert pages_of(sent) == [URL]
    sent.clear()
    sweep([site], T + 48 * HOUR)
    assert pages_of(sent) == []


@pytest.mark.parametrize(("live", "expected"), [(False, [URL]), (True, [])])
def test_the_sweep_finds_a_removed_page_that_no_comparison_detected(
    site: Site, sent: list[tuple[str, int]], expected: list[str], *, live: bool
) -> None:
    table.put(page_item(HOST, PageState(URL, "v1", T, T, notified="v1", notified_at=T, tried_at=T)), None)
    table.put(claim_item(Claim(HOST, URL, "cms#1", live=live, order=Order(None, None, None, exact(T)))), None)
    sweep([site], T + HOUR)
    assert pages_of(sent) == expected

    notify_engines({"1": message(HOST, page=URL)}, T + HOUR, NEVER)
    assert read_page(table.get(*page_key(HOST, URL)) or {}).gone is not live


def test_the_sweep_replaces_a_lost_event_about_a_file_for_two_days(site: Site, sent: list[tuple[str, int]]) -> None:
    table.put_if(mark_item(HOST, Mark(SHARD, T, 1, 500, "")))
    sweep([site], T + 47 * HOUR)
    assert [json.loads(message)["detail"]["file"] for message, _ in sent] == [SHARD]
    sent.clear()
    sweep([site], T + 49 * HOUR)
    assert sent == []


def test_a_site_without_notifications_for_days_skips_pages_removed_meanwhile(
    site: Site, sent: list[tuple[str, int]]
) -> None:
    listed = f"<urlset>\n<url><loc>{URL}</loc><lastmod>2026-11-20T07:59:00Z</lastmod></url>\n</urlset>\n"
    sweep([site], T)
    for body, now in ((listed, T), ("<urlset>\n</urlset>\n", T + 300 * 24 * HOUR)):
        stored = bucket.read(HOST, SHARD)
        bucket.write(HOST, SHARD, body.encode(), "application/xml", "no-store", replaces=stored, changed=now, config="")
        sent.clear()
        compare(HOST, SHARD, now)
        assert pages_of(sent) == ([URL] if body == listed else [])


def test_work_without_time_is_postponed_and_no_failure(site: Site) -> None:
    done = notify_engines({"1": message(HOST, page=URL)}, T, Deadline(lambda: 0))
    assert (done.failed, done.postponed) == ({}, {"1"})


# ── the remaining work for a page ──

MINUTE = timedelta(minutes=1)
PAGE = PageState("https://www.example.com/a", "v2", T)
MISSING = PageVerdict(ready=False, reason="answers 404", kind="status", is_gone=True)


@pytest.mark.parametrize(
    ("state", "seconds"),
    [
        (PAGE, 0),
        (replace(PAGE, notified="v1"), 0),
        (replace(PAGE, notified="v2"), None),
        (replace(PAGE, changed=T - timedelta(hours=48)), None),
        (replace(PAGE, notified="v1", tried_at=T - MINUTE), 600),
        (replace(PAGE, tried_at=T - 11 * MINUTE), 0),
        (replace(PAGE, checks=1, checked_at=T - timedelta(seconds=4)), 6),
        (replace(PAGE, checks=7, checked_at=T - MINUTE), 840),
    ],
)
def test_a_page_is_checked_unless_it_is_notified_or_has_to_wait(state: PageState, seconds: int | None) -> None:
    assert seconds_until_check(state, T) == seconds


def test_checks_are_repeated_for_ten_minutes_and_then_every_quarter_of_an_hour() -> None:
    state, now, seconds = PAGE, T, []
    while now < T + 40 * MINUTE:
        assert seconds_until_check(state, now) == 0
        state = after_failed_check(state, MISSING, now)
        seconds.append(seconds_until_check(state, now) or 0)
        now += timedelta(seconds=seconds[-1])
    assert seconds == [10, 20, 40, 80, 160, 290, 900, 900]
    assert (state.is_failing, state.failing_since, state.reason) == (True, T, "answers 404")


@pytest.mark.parametrize(
    ("verdict", "listed", "gone"),
    [
        (PageVerdict(ready=True), True, False),
        (PageVerdict(ready=True, kind="robots"), True, False),
        (MISSING, False, True),
        (PageVerdict(ready=False, kind="redirect"), False, False),
        (PageVerdict(ready=False, kind="unreachable"), False, False),
    ],
)
def test_a_listed_page_must_be_ready_and_a_removed_one_must_answer_404_or_410(
    verdict: PageVerdict, *, listed: bool, gone: bool
) -> None:
    assert is_ready(PAGE, verdict) is listed
    assert is_ready(replace(PAGE, version=GONE), verdict) is gone
