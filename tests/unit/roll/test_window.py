"""roll_window does due work on time and once, and for each site although another fails."""

import json
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.aws import bucket, due, site_versions, sites, table
from stoppress.aws.items import HEARTBEAT, due_item, file_pk, news_item, read_news, read_series, series_item
from stoppress.aws.queues import RewriteRequest, read_request
from stoppress.model.entries import NewsEntry
from stoppress.model.event import ArticleEvent, from_message, to_message
from stoppress.model.file_names import Place, Series, Used
from stoppress.model.news_window import window_end
from stoppress.model.site import BadConfiguration
from stoppress.primitives.instants import Deadline, exact
from stoppress.record.article import record
from stoppress.record.message import Message
from stoppress.rewrite.sitemaps import request_all
from stoppress.roll import window
from stoppress.roll.window import RESEND_AFTER, begin_deployment, roll
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, page, publish
from tests.support.moto_aws import PUBLISHING, MotoAws, counted, failing, once_before, put_site

pytestmark = pytest.mark.moto

SECOND, MINUTE, HOUR = timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1)
WINDOW = timedelta(hours=48)
NEWS = "sitemap-news.xml"


@pytest.fixture(autouse=True)
def aws(monkeypatch: pytest.MonkeyPatch) -> Iterator[MotoAws]:
    with moto_aws.opened(MORNING) as opened:
        monkeypatch.setattr(table, "back_off", lambda attempt: None)
        yield opened


@pytest.fixture
def site(aws: MotoAws) -> None:
    """Put a site whose files are written."""
    aws.site()
    for change in due.every(due.SITES):
        due.done(change)


def receive(*events: ArticleEvent, now: datetime = MORNING) -> None:
    """Record events, and write the due record of their news sitemap as a rewriter does."""
    messages = [Message(f"m{number}", to_message(event), now) for number, event in enumerate(events)]
    assert {outcome.error for outcome in record(messages, now).values()} == {None}
    for item in list(table.query(file_pk(HOST, NEWS)))[:1]:
        due.write(due.expiry(HOST, NEWS, window_end(read_news(item).published)))


def hold(*ids: str, site: str = HOST, until: datetime = MORNING + HOUR) -> None:
    """Record articles under an embargo."""
    receive(*[publish(name, name, site=site, url=f"https://{site}/{name}", published_at=until) for name in ids])


def run_roll(now: datetime) -> Counter[str]:
    """Run without an error, and return the counts."""
    done, failures = roll(now)
    assert failures == []
    return done


def minute(aws: MotoAws, at: datetime) -> None:
    """Call the function, in a new execution environment."""
    aws.clock.move_to(at)
    if app := sys.modules.get("functions.roll_window.app"):
        app._begun.clear()
    aws.call("roll_window", {})


def sent(aws: MotoAws) -> list[str]:
    return [from_message(body).id for body in aws.taken("articles")]


def requests(aws: MotoAws) -> list[RewriteRequest]:
    return [read_request(body) for body in aws.taken("rewrites")]


def news(file: str = NEWS) -> list[str]:
    return [item["loc"] for item in table.query(file_pk(HOST, file))]


def used() -> tuple[Used, ...]:
    return read_series("news", table.get(f"places#{HOST}", "news")).files


def waiting(kind: str) -> list[tuple[str, datetime]]:
    return [(record.name, record.at) for record in due.every(kind)]


# ── expired news ──


def test_an_entry_is_deleted_at_its_expiry_and_not_before(aws: MotoAws, site: None) -> None:
    receive(publish(published_at=MORNING + 0.4 * SECOND), now=MORNING + SECOND)  # a date of a sitemap has whole seconds
    for early in (WINDOW - MINUTE, WINDOW - SECOND, WINDOW - timedelta(microseconds=1)):
        assert run_roll(MORNING + early) == Counter()
        assert news() == [page("flood")]
    aws.read_stream()
    assert run_roll(MORNING + WINDOW)["EntriesExpired"] == 1
    assert (news(), waiting(due.EXPIRIES)) == ([], [])
    assert len(list(table.query(file_pk(HOST, "sitemap-2026-11.xml")))) == 1
    assert [event["dynamodb"]["Keys"]["pk"]["S"] for event in aws.read_stream()].count(f"file#{HOST}/{NEWS}") == 1


@pytest.mark.parametrize("zone", ["Europe/Paris", "America/New_York", "Australia/Lord_Howe"])
def test_the_window_is_48_hours_over_a_change_of_the_clocks_too(aws: MotoAws, zone: str) -> None:
    aws.site(timezone=zone)
    published = datetime(2026, 10, 24, 23, 30, tzinfo=UTC)  # an hour and a half before Paris puts its clocks back
    receive(publish(published_at=published, timestamp=published), now=published)
    assert run_roll(published + WINDOW - SECOND)["EntriesExpired"] == 0
    assert run_roll(published + WINDOW)["EntriesExpired"] == 1


def test_only_expired_entries_are_deleted_and_the_next_one_is_due_at_its_instant(site: None) -> None:
    receive(*[publish(str(n), str(n), published_at=MORNING - HOUR + n * SECOND) for n in range(-2, 3)])
    for _ in range(3):  # each place is released once
        assert run_roll(MORNING - HOUR + WINDOW)["EntriesExpired"] in {0, 3}
        assert (news(), used()[0].entries) == ([page("1"), page("2")], 2)
    assert waiting(due.EXPIRIES) == [(f"{HOST}/{NEWS}", MORNING - HOUR + WINDOW + SECOND)]


@pytest.mark.parametrize("operation", ["Query", "PutItem", "DeleteItem"])
def test_a_call_that_fails_leaves_the_expiry_due(site: None, operation: str) -> None:
    """The record of the next entry is written before the old one is deleted, so that a crash loses neither."""
    receive(publish("1", "1", published_at=MORNING - HOUR), publish("2", "2"))
    with failing("dynamodb", operation):
        assert len(roll(MORNING - HOUR + WINDOW)[1]) == 1
    assert waiting(due.EXPIRIES)[0] == (f"{HOST}/{NEWS}", MORNING - HOUR + WINDOW)
    run_roll(MORNING - HOUR + WINDOW)
    assert (news(), used()[0].entries) == ([page("2")], 1)
    assert waiting(due.EXPIRIES) == [(f"{HOST}/{NEWS}", MORNING + WINDOW)]


def test_a_failed_delete_does_not_affect_the_places_before_it(monkeypatch: pytest.MonkeyPatch, site: None) -> None:
    receive(publish("1", "1"), publish("2", "2"))
    with monkeypatch.context() as patch:
        deletes = iter([table.delete])
        patch.setattr(table, "delete", lambda pk, sk: next(deletes)(pk, sk))  # noqa: PLW0108 - each call takes the next
        assert len(roll(MORNING + WINDOW)[1]) == 1
    assert used()[0].entries == 1
    run_roll(MORNING + WINDOW)
    assert used()[0].entries == 0


@pytest.mark.parametrize("other", ["a roller", "a recorder"])
def test_a_place_is_released_once_despite_a_concurrent_write(site: None, other: str) -> None:
    receive(publish("1", "1", published_at=MORNING - HOUR), publish("2", "2"))
    at = MORNING - HOUR + WINDOW
    story = publish("3", "3", published_at=at, timestamp=at)
    call, act = ("delete", lambda: roll(at)) if other == "a roller" else ("transact", lambda: receive(story, now=at))
    with once_before(table, call, act):
        run_roll(at)
    assert used()[0].entries == len(news()) == (1 if other == "a roller" else 2)


def test_news_of_every_file_expire(site: None) -> None:
    table.put(series_item(HOST, Series("news", (Used(1, 400), Used(0, 0), Used(1, 400)))), None)
    for number in (1, 3):
        place = Place("news", number, 400)
        table.put_if(news_item(HOST, place, NewsEntry(page(str(number)), "A", MORNING)))
        due.write(due.expiry(HOST, place.file, MORNING + WINDOW))
    assert run_roll(MORNING + WINDOW)["EntriesExpired"] == 2
    assert (news(), news("sitemap-news-3.xml"), used()) == ([], [], (Used(0, 0),) * 3)


# ── messages that are due ──


def test_a_message_is_sent_once_while_in_flight_and_again_later(aws: MotoAws, site: None) -> None:
    release = MORNING + HOUR
    hold("1")
    emptied = RewriteRequest(HOST, "sitemap-2025-01.xml", release=release)
    table.put_if(due_item(HOST, release, "file#sitemap-2025-01.xml", emptied.message(), queue="rewrites"))
    assert run_roll(release - timedelta(microseconds=1)) == Counter()

    for at in (release, release + RESEND_AFTER):
        assert run_roll(at) == Counter(ArticlesReleased=1, FilesReleased=1)
        assert run_roll(at + RESEND_AFTER - SECOND) == Counter()
        (body,) = aws.taken("articles")
        assert from_message(body).release == release
        assert requests(aws) == [emptied]

    receive(from_message(body), now=release)
    table.delete(f"due#{HOST}", f"{exact(release)}#file#sitemap-2025-01.xml")
    assert run_roll(release + 2 * RESEND_AFTER) == Counter()
    assert (news(), waiting(due.MESSAGES), aws.items("due#")) == ([page("1")], [], [])


def test_messages_of_two_instants_that_were_sent_together_are_both_sent_again(aws: MotoAws, site: None) -> None:
    hold("1")
    hold("2", until=MORNING + HOUR + SECOND)
    hold("3", until=MORNING + HOUR + MINUTE + RESEND_AFTER)
    run_roll(MORNING + HOUR + MINUTE)
    assert sorted(sent(aws)) == ["1", "2"]
    run_roll(MORNING + HOUR + MINUTE + RESEND_AFTER)
    assert sorted(sent(aws)) == ["1", "2", "3"]


def test_an_unreadable_message_stays_and_delays_no_other(aws: MotoAws, site: None) -> None:
    table.put_if(due_item(HOST, MORNING + HOUR, "cms#bad", "{}", queue="articles"))
    hold("good")
    assert len(roll(MORNING + HOUR)[1]) == 1
    assert (sent(aws), len(waiting(due.MESSAGES))) == (["good"], 1)


# ── deadline, turns, errors ──


def test_a_run_ends_at_its_deadline_and_the_next_one_does_the_rest(site: None) -> None:
    receive(*[publish(str(number), str(number)) for number in range(4)])
    left_ms = iter([2, 2, 1, 0])  # before the record, and before each entry
    done, failures = roll(MORNING + WINDOW, Deadline(lambda: next(left_ms)))
    assert (done, failures) == (Counter(EntriesExpired=2, DueNotReached=1), [])
    assert used()[0].entries == 2
    assert roll(MORNING + WINDOW, Deadline(lambda: 0))[0] == Counter(DueNotReached=1)
    assert run_roll(MORNING + WINDOW)["EntriesExpired"] == 2


def test_the_kinds_of_due_work_are_processed_in_turn(aws: MotoAws, site: None) -> None:
    """A thousand articles of one hour do not delay the expiry of a story."""
    receive(publish("0", "0"))
    for number in range(1, 6):
        hold(str(number), until=MORNING + HOUR + number * SECOND)
    left_ms = iter([1, 1, 1, 1, 0])
    done, _ = roll(MORNING + WINDOW, Deadline(lambda: next(left_ms)))
    assert done == Counter(EntriesExpired=1, SitesEmptied=1, ArticlesReleased=2, DueNotReached=1)


def test_work_that_fails_stops_no_other_site_and_no_other_kind(aws: MotoAws, site: None) -> None:
    aws.site("other.example.com")
    receive(publish())
    hold("1")
    hold("2", site="other.example.com", until=MORNING + 2 * HOUR)
    with failing("sqs", "SendMessageBatch"), pytest.raises(ExceptionGroup, match="the next minute tries again"):
        minute(aws, MORNING + WINDOW)
    assert (news(), sent(aws), aws.metrics["SitesChanged"]) == ([], ["2"], 1)
    run_roll(MORNING + WINDOW + MINUTE)
    assert sent(aws) == ["1"]


def test_without_the_heartbeat_the_rest_of_the_minute_is_done(aws: MotoAws, site: None) -> None:
    receive(publish())
    with failing("dynamodb", "PutItem"), pytest.raises(ExceptionGroup):
        minute(aws, MORNING + WINDOW)
    assert news() == []


def test_an_idle_minute_costs_three_queries_and_the_heartbeat(aws: MotoAws) -> None:
    for number in range(5):
        aws.site(f"site-{number}.example.com")
    minute(aws, MORNING)
    with counted("dynamodb", "Query") as queries, counted("dynamodb", "PutItem") as puts:
        minute(aws, MORNING + SECOND)
    assert (len(queries), len(puts)) == (3, 1)
    assert [item["at"] for item in aws.items(HEARTBEAT)] == [exact(MORNING + SECOND)]
    assert aws.metrics.total() == 0


# ── changed sites ──


def test_a_change_is_requested_after_a_minute_and_again_until_it_is_applied(aws: MotoAws) -> None:
    aws.site()
    assert run_roll(MORNING + MINUTE - SECOND) == Counter()
    for at in (MORNING + MINUTE, MORNING + MINUTE + RESEND_AFTER):
        assert run_roll(at) == Counter(SitesChanged=1)
        assert run_roll(at + SECOND) == Counter()
        (request,) = requests(aws)
    assert not request.file
    request_all(request)
    assert (len(requests(aws)), waiting(due.SITES)) == (3, [])


def test_a_removed_site_is_applied_and_its_messages_wait(aws: MotoAws, site: None) -> None:
    hold("1")
    site_versions.remove(HOST, 1, "a test", MORNING, deletes_files=False)
    assert run_roll(MORNING + HOUR) == Counter()
    assert (requests(aws), waiting(due.SITES)) == ([], [])
    put_site(PUBLISHING)
    assert run_roll(MORNING + HOUR + RESEND_AFTER)["ArticlesReleased"] == 1


@pytest.mark.parametrize("documents", [[{"host": HOST}], [PUBLISHING, {"host": HOST}]], ids=["new", "changed"])
def test_an_unreadable_site_is_failing_until_its_next_version(aws: MotoAws, documents: list[dict[str, Any]]) -> None:
    for document in documents:
        put_site(document)
    with suppress(BadConfiguration):  # the stream's record comes first
        request_all(RewriteRequest(HOST, due=f"{exact(MORNING + MINUTE)}#configuration#{HOST}"))
    for number in (1, 2):
        minute(aws, MORNING + number * MINUTE)
        assert (aws.metrics["SitesUnreadable"], aws.metrics["SitesFailing"]) == (number, number)
    put_site(PUBLISHING)
    assert run_roll(MORNING + 3 * MINUTE)["SitesChanged"] >= 1


def test_the_version_in_force_is_applied_although_a_newer_one_cannot_be_read(aws: MotoAws) -> None:
    put_site(PUBLISHING)
    put_site(PUBLISHING | {"unknown": True})
    aws.taken("rewrites")
    run_roll(MORNING + MINUTE)
    assert len(aws.taken("rewrites")) == 1
    run_roll(MORNING + 2 * MINUTE)
    assert aws.taken("rewrites") == []


# ── a site without events, and a reconciliation that does not run ──


def test_a_site_without_events_is_failing_until_its_next_event(aws: MotoAws) -> None:
    aws.site(silent_after_hours=2)
    aws.site(silent_after_hours=3)
    receive(publish(), now=MORNING + HOUR)
    for hours, silent in ((2, 0), (3, 0), (4, 1), (4.1, 1)):
        assert run_roll(MORNING + hours * HOUR)["SitesSilent"] == silent
    receive(publish("2", "2"), now=MORNING + 5 * HOUR)
    assert [run_roll(MORNING + hours * HOUR)["SitesSilent"] for hours in (5, 7.9, 8)] == [0, 0, 1]

    aws.site()
    run_roll(MORNING + 9 * HOUR)
    assert not [name for name, _ in waiting(due.SITES) if name.startswith(due.SILENCE)]


def test_a_reconciliation_that_does_not_run_is_reported_once_in_26_hours(aws: MotoAws) -> None:
    start = MORNING
    for reported in (0, 1):
        for hours, reports in ((0, 0), (25.9, 0), (26, 1), (27, 1)):
            minute(aws, start + hours * HOUR)
            assert aws.metrics["NeedsAttention"] == reported + reports
        aws.clock.move_to(start := MORNING + 40 * HOUR)
        aws.call("reconcile_sites", {})


# ── the first run after a deployment ──


def test_the_first_site_is_added_to_a_host_without_versions_and_files(
    aws: MotoAws, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FIRST_SITE", json.dumps(PUBLISHING))
    bucket.write(HOST, NEWS, b"", "", "", replaces=None, changed=MORNING, config="")
    begin_deployment(MORNING)
    assert sites.read_current(HOST) is None
    bucket.delete(HOST, NEWS, aws.file(NEWS))
    for _ in range(2):
        begin_deployment(MORNING)
        assert [version.number for version in site_versions.history(HOST)] == [1]
    site_versions.remove(HOST, 1, "a test", MORNING, deletes_files=True)
    begin_deployment(MORNING)
    assert sites.reload(HOST) is None


def test_a_new_code_version_rewrites_the_files_of_all_sites_once(site: None, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = []
    for hours, renderer in enumerate(["this", "this", "other", "other"]):
        monkeypatch.setattr(window, "RENDERER", renderer)
        begin_deployment(MORNING + hours * HOUR)
        changes.append(waiting(due.SITES).count((f"configuration#{HOST}", MORNING + 2 * HOUR)))
    assert changes == [0, 0, 1, 1]
