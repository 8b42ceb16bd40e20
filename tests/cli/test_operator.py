"""Quarantine, dead letters, restored tables: effects and output of the commands; a dry run changes nothing."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from unittest.mock import Mock

import pytest
from typer.testing import CliRunner, Result

from stoppress.aws import bucket, queues as aws_queues, sites, table
from stoppress.aws.items import QUARANTINED_CHARACTERS_MAX, quarantine_item
from stoppress.aws.queues import SendError
from stoppress.reconcile.look import Look
from stoppress.reconcile.sites import reconcile
from stoppress_cli.app import app
from stoppress_cli.commands import quarantine, rebuild, redrive, restore
from stoppress_cli.local import local_queues
from stoppress_cli.local.stack import Stack
from tests.support.event_files import objects, on_queue
from tests.support.operated import (
    HOST,
    SITE,
    arn,
    copy_table,
    event,
    everything,
    later,
    on_the_bus,
    operated,
    served,
    url,
)
from tests.support.playing import Step

pytestmark = pytest.mark.moto

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
UNKNOWN = "www.example.org"
# Without a title, the event cannot be applied.
BAD: Step = on_the_bus(id="7", url=url("flood"), version="x")
LOST: Step = on_the_bus(
    site=UNKNOWN, id="8", url=f"https://{UNKNOWN}/a", title="A", published_at="2026-11-20T12:00:00Z"
)


@pytest.fixture(scope="class")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """Yield one stack with one article, for tests that do not change it."""
    with operated([event(1, "1", "flood")], tmp_path_factory.mktemp("shared")) as stack:
        yield stack


@pytest.fixture
def stack(shared: Stack) -> Iterator[Stack]:
    """Yield the shared stack a minute later, and delete the events and messages of the test."""
    later(shared, 1)
    yield shared
    quarantine.delete(quarantine.find_events())
    for name in ("ArticlesQueue", "ArticlesDeadLetters", "RewritesQueue", "Failures"):
        local_queues.queue(arn(shared, name))._messages.clear()


# ── quarantine ──


def test_quarantine_lists_events_with_and_without_a_site_and_drops_the_chosen_ones(tmp_path: Path) -> None:
    with operated([BAD, LOST], tmp_path):
        kept = quarantine.find_events()
        kept.sort(key=lambda item: item.site, reverse=True)
        assert [item.site for item in kept] == [HOST, "unknown"]
        assert "title" in kept[0].reason
        assert [item.id for item in quarantine.find_events(reason="UNKNOWN SITE")] == [kept[1].id]
        assert [item.id for item in quarantine.find_events(HOST)] == [kept[0].id]
        assert [item.id for item in quarantine.find_events(ids=[kept[1].id[:12]])] == [kept[1].id]
        with pytest.raises(
            ValueError, match=r"^no id in quarantine begins with 'zzz': `stoppress quarantine list` has the"
        ):
            quarantine.find_events(ids=["zzz"])
        with pytest.raises(ValueError, match=r"^2 ids in quarantine begin with '': give more of the id"):
            quarantine.find_events(ids=[""])

        assert quarantine.delete([kept[0]]) == 1
        assert quarantine.find_events() == [kept[1]]


def test_a_quarantined_event_of_an_unknown_site_is_applied_when_the_site_exists(tmp_path: Path) -> None:
    with operated([LOST], tmp_path) as stack:
        [(item, why)] = quarantine.send_again(quarantine.find_events(), dry_run=False)
        assert "it would come back: unknown site" in why
        assert on_queue(stack, "ArticlesQueue") == []

        stack.put_site(UNKNOWN, json.dumps({**SITE, "host": UNKNOWN}))
        later(stack, 1)
        before = everything(stack)
        assert quarantine.send_again(quarantine.find_events(), dry_run=True) == [(item, "")]
        assert everything(stack) == before
        assert quarantine.send_again(quarantine.find_events(), dry_run=False) == [(item, "")]
        assert quarantine.find_events() == []
        stack.rest()
        assert f"https://{UNKNOWN}/a".encode() in objects(stack)[f"{UNKNOWN}/sitemap-news.xml"]


FAILURES = {
    "a minute that failed": (
        {"requestContext": {"functionArn": "arn:aws:lambda:eu-west-1:1:function:x-Roll:$LATEST", "condition": "RetriesExhausted"},
         "requestPayload": {}, "responsePayload": {"errorMessage": "throttled"}},
        ("a call of x-Roll", "nowhere"),
    ),
    "an event that the bus could not deliver": (
        {"detail-type": "article.deleted", "source": "bus", "detail": {"site": HOST, "id": "1"}},
        (f"article.deleted of {HOST}, 1", "articles"),
    ),
    "a share of the feeds that was not polled": (
        {"detail-type": "feeds due", "source": "stoppress", "detail": {"share": 1, "of": 2}},
        ("a feeds due that reached no function", "nowhere"),
    ),
    "the announcement of a file that nobody received": (
        {"detail-type": "sitemap rewritten", "source": "stoppress", "detail": {"site": HOST}},
        ("a sitemap rewritten that reached no function", "nowhere"),
    ),
    "something else": ({"a": 1}, ("a message of an unknown kind", "")),
}  # fmt: skip


class TestOneStack:
    def test_an_item_stays_in_quarantine_if_its_event_could_not_be_sent(
        self, stack: Stack, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        def refused(*_: Any, **__: Any) -> None:
            raise SendError("not taken")

        body = json.dumps({"source": "bus", "detail-type": "article.deleted", "detail": {"site": HOST, "id": "9"}})
        table.put_if(quarantine_item(HOST, "m1", "of another day", body, NOON))
        monkeypatch.setattr(aws_queues, "send", refused)
        with pytest.raises(SendError):
            quarantine.send_again(quarantine.find_events(), dry_run=False)
        assert [item.id for item in quarantine.find_events()] == ["m1"]

    def test_an_event_that_is_too_long_to_keep_is_not_sent_again_in_part(self, stack: Stack) -> None:
        detail = {"site": HOST, "id": "7", "text": "x" * QUARANTINED_CHARACTERS_MAX}
        body = json.dumps({"source": "bus", "detail-type": "article.published", "detail": detail})
        table.put_if(quarantine_item(HOST, "m1", "url: is missing", body, NOON))
        [(_, why)] = quarantine.send_again(quarantine.find_events(), dry_run=False)
        assert "only its first 50,000 of 50," in why
        assert "have its source send it again" in why
        assert on_queue(stack, "ArticlesQueue") == []
        assert len(quarantine.find_events()) == 1

    def test_dead_events_are_shown_and_recorded_once_they_are_redriven(self, stack: Stack) -> None:
        body = json.dumps(
            {"source": "bus", "detail-type": "article.published",
             "detail": {"site": HOST, "id": "1", "url": url("ferry"), "title": "Ferry", "published_at": "2026-11-20T12:00:00Z"}}
        )  # fmt: skip
        local_queues.send(arn(stack, "ArticlesDeadLetters"), body)
        before = everything(stack)
        [dead] = redrive.send_back("articles", dry_run=True)
        assert dead.what == f"publish bus#1 of {HOST}, {url('ferry')}"
        assert "the log of record_article has the reason" in dead.why
        assert everything(stack) == before

        later(stack, 1)
        assert [letter.what for letter in redrive.send_back("articles", dry_run=False)] == [dead.what]
        assert on_queue(stack, "ArticlesDeadLetters") == []
        stack.rest()
        assert url("ferry").encode() in objects(stack)[f"{HOST}/sitemap-news.xml"]

    def test_a_dead_letter_that_would_fail_again_stays(self, stack: Stack) -> None:
        body = json.dumps({"source": "bus", "detail-type": "article.deleted", "detail": {"site": HOST, "id": "1"}})
        local_queues.send(arn(stack, "ArticlesDeadLetters"), body)
        with pytest.MonkeyPatch.context() as monkeypatch:
            monkeypatch.setattr(redrive, "read", Mock(side_effect=ValueError("no configuration")))
            [dead] = redrive.send_back("articles", dry_run=False)
        assert dead.goes == ""
        assert "correct this first: no configuration" in dead.why
        assert len(on_queue(stack, "ArticlesDeadLetters")) == 1

    @pytest.mark.parametrize("kind", FAILURES)
    def test_each_kind_of_failure_is_shown_and_its_work_is_done_again(self, kind: str, stack: Stack) -> None:
        body, (what, goes) = FAILURES[kind]
        local_queues.send(arn(stack, "Failures"), json.dumps(body))
        [dead] = redrive.send_back("failures", dry_run=False)
        assert (dead.what, dead.goes) == (what, goes)
        assert len(on_queue(stack, "Failures")) == (0 if goes else 1)
        assert on_queue(stack, "RewritesQueue") == []
        assert len(on_queue(stack, "ArticlesQueue")) == (1 if goes == "articles" else 0)

    def test_a_rebuild_requests_every_file_of_the_site_the_index_last(self, stack: Stack) -> None:
        works = rebuild.requests(HOST, None)
        assert [work.file for work in works] == ["sitemap-news.xml", "sitemap-2026-11.xml", "sitemap.xml"]
        before = objects(stack)
        for key in before:
            stack.client("s3").delete_object(Bucket=stack.only("AWS::S3::Bucket").ref, Key=key)
        aws_queues.send_rewrites(works)
        stack.rest()
        assert objects(stack) == before


# ── restoring ──


NEWS, SHARD = "sitemap-news.xml", "sitemap-2026-11.xml"


def test_a_table_restored_to_an_earlier_instant_restores_the_files_of_that_instant(tmp_path: Path) -> None:
    with operated([event(1, "1", "flood"), event(2, "2", "ferry")], tmp_path) as stack:
        copy_table(stack, "restored")
        then = objects(stack)
        later(stack, 10)
        for sk in ("cms#1", "cms#2"):
            body = {"source": "cms", "detail-type": "article.deleted", "detail": {"site": HOST, "id": sk[-1]}}
            stack.client("sqs").send_message(
                QueueUrl=stack.variable("ARTICLES_QUEUE_URL"), MessageBody=json.dumps(body)
            )
        stack.rest()
        newer = bucket.read(HOST, SHARD)
        assert newer
        assert objects(stack)[f"{HOST}/{SHARD}"] != then[f"{HOST}/{SHARD}"]

        before = everything(stack)
        items, surplus = restore.replace_items("restored", dry_run=True)
        assert surplus > 0
        assert everything(stack) == before
        assert restore.replace_items("restored", dry_run=False) == (items, surplus)
        assert restore.replace_items("restored", dry_run=True) == (items, 0)
        aws_queues.send_rewrites(rebuild.requests(None, None))
        stack.rest()
        assert {name: objects(stack)[f"{HOST}/{name}"] for name in (NEWS, SHARD)} == {
            name: then[f"{HOST}/{name}"] for name in (NEWS, SHARD)
        }
        older = bucket.read(HOST, SHARD)
        assert older
        assert older.changed > newer.changed  # a reader sees that it has changed
        look = Look(sites.load(HOST))
        assert reconcile(look, look.units, dry_run=True).suspected == []


# ── as they are typed ──


UNREADABLE = {
    "broken.example.com": "{",
    "empty.example.com": "{}",
    "misspelt.example.com": '{"host": "misspelt.example.com", "publicatoin": "News"}',
}


Run = Callable[..., Result]


@contextmanager
def typing(stack: Stack) -> Iterator[Run]:
    with served(stack) as endpoint:

        def run(*words: str) -> Result:
            done = CliRunner().invoke(app, [*words, "--local", endpoint])
            assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
            return done

        yield run


@pytest.fixture(scope="module")
def broken(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    """Yield a stack with an article, an item in quarantine, and three sites whose only version cannot be read."""
    with operated([event(1, "1", "flood"), BAD], tmp_path_factory.mktemp("broken")) as stack, typing(stack) as run:
        for host, text in UNREADABLE.items():
            stack.put_site(host, text)
        yield run


def test_exit_codes_report_what_commands_did_and_dry_runs_change_nothing(tmp_path: Path) -> None:
    with operated([event(1, "1", "flood"), BAD], tmp_path) as stack, typing(stack) as run:
        before = everything(stack)
        [kept] = json.loads(run("quarantine", "list", "--json").stdout)
        unchanging: list[tuple[list[str], int, str]] = [
            (["quarantine", "show", kept["id"][:8]], 0, '"version": "x"'),
            (["quarantine", "retry", "--all", "--dry-run"], 1, "it would come back: "),
            (["quarantine", "retry"], 2, ""),
            (["quarantine", "drop", kept["id"], "--dry-run"], 0, ""),
            (["redrive", "--dry-run"], 0, "0 dealt with, 0 there\n"),
            (["redrive"], 0, "0 dealt with, 0 stay\n"),
            (["rebuild", "--dry-run"], 0, "3 files would be sent"),
            (["rebuild", "sitemap-1999.xml"], 2, ""),
            (["reconcile", "--dry-run"], 0, "0 repaired, 0 seen once\n"),
            (["forget", url("flood"), "--dry-run"], 1, "article cms#1: removed"),
            (["forget", url("unknown")], 0, ""),
        ]
        for words, code, text in unchanging:
            done = run(*words)
            assert (words, done.exit_code, text in done.output) == (words, code, True), done.output
        assert everything(stack) == before
        for words in (
            ["quarantine", "drop", kept["id"], "--yes"],
            ["quarantine", "list"],
            ["rebuild", "sitemap-news.xml"],
        ):
            assert (words, run(*words).exit_code) == (words, 0)
        assert len(on_queue(stack, "RewritesQueue")) == 1


@pytest.mark.parametrize(
    "words",
    [
        ["quarantine", "list", "--json"],
        ["quarantine", "show", "{id}"],
        ["quarantine", "retry", "--all", "--dry-run"],
        ["quarantine", "drop", "--all", "--dry-run"],
        ["redrive", "--dry-run"],
        ["rebuild", "--dry-run"],
        ["rebuild", "sitemap-1999.xml"],
        ["reconcile", "--dry-run"],
        ["feeds", "show", "--json"],
        ["status"],
    ],
    ids=" ".join,
)
def test_a_command_over_all_sites_lists_those_that_cannot_be_read_and_fails(broken: Run, words: list[str]) -> None:
    [kept] = quarantine.find_events(HOST)
    done = broken(*(word.format(id=kept.id) for word in words))
    assert done.exit_code == (1 if "status" in words else 2)
    assert done.stderr.startswith("stoppress: cannot read 3 sites: ")
    for host, reason in zip(UNREADABLE, ("not JSON", "publication: ", "publicatoin: "), strict=True):
        [line] = [line for line in done.stderr.splitlines() if host in line]
        assert line.startswith(f"  {host}: version 1 cannot be read: ")
        assert reason in line
    if "--json" in words:
        json.loads(done.stdout)


def test_a_command_over_one_site_is_about_that_site_alone(broken: Run) -> None:
    assert broken("rebuild", "--dry-run", "--site", HOST).exit_code == 0
    assert broken("reconcile", "--dry-run", "--site", HOST).stderr == ""
    done = broken("quarantine", "list", "--site", "broken.example.com")
    assert done.exit_code == 2
    assert "broken.example.com" in done.stderr
    assert "empty.example.com" not in done.stderr


def test_a_missing_table_is_reported_in_plain_text(broken: Run) -> None:
    done = broken("restore", "foo")
    assert done.exit_code == 2
    assert done.stderr.startswith(
        "stoppress: there is no table 'foo' here: name the one that point-in-time recovery has"
    )
    assert "Exception" not in done.stderr
