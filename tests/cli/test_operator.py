"""The operator's commands: quarantine, dead letters, rebuilding, forgetting. Each changes nothing when it is run dry."""

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from unittest.mock import Mock

import pytest

from stoppress.aws import queues as doors_queues, table
from stoppress.aws.items import QUARANTINED_CHARACTERS_MAX, quarantine_item
from stoppress.aws.queues import SendError
from stoppress_cli.commands import quarantine, rebuild, redrive
from stoppress_cli.local import local_queues
from stoppress_cli.local.stack import Stack
from tests.support.event_files import objects, on_queue
from tests.support.operated import HOST, arn, event, everything, later, operated, url

pytestmark = pytest.mark.moto

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)
UNKNOWN = "www.example.org"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stack]:
    """One stack with one article, for the tests that leave it as it was."""
    with operated([event(1, "1", "flood")], tmp_path_factory.mktemp("shared")) as made:
        yield made


@pytest.fixture
def stack(shared: Stack) -> Iterator[Stack]:
    """The same, a minute on; whatever a test has left is taken away."""
    later(shared, 1)
    yield shared
    quarantine.delete(quarantine.find_events())
    for name in ("ArticlesQueue", "ArticlesDeadLetters", "RewritesQueue", "Failures"):
        local_queues.queue(arn(shared, name))._messages.clear()


# ── quarantine ──


def test_an_item_stays_in_quarantine_where_its_event_could_not_be_sent(
    stack: Stack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: Any, **__: Any) -> None:
        raise SendError("not taken")

    body = json.dumps({"source": "bus", "detail-type": "article.deleted", "detail": {"site": HOST, "id": "9"}})
    table.put_if(quarantine_item(HOST, "m1", "of another day", body, NOON))
    monkeypatch.setattr(doors_queues, "_send", refused)
    with pytest.raises(SendError):
        quarantine.send_again(quarantine.find_events(), dry_run=False)
    assert [one.id for one in quarantine.find_events()] == ["m1"]


def test_an_event_that_is_too_long_to_keep_is_not_sent_again_in_part(stack: Stack) -> None:
    detail = {"site": HOST, "id": "7", "text": "x" * QUARANTINED_CHARACTERS_MAX}
    body = json.dumps({"source": "bus", "detail-type": "article.published", "detail": detail})
    table.put_if(quarantine_item(HOST, "m1", "url: is missing", body, NOON))
    [(_, why)] = quarantine.send_again(quarantine.find_events(), dry_run=False)
    assert "only its first 50,000 of 50," in why
    assert "have its source send it again" in why
    assert on_queue(stack, "ArticlesQueue") == []
    assert len(quarantine.find_events()) == 1


# ── dead letters ──


def test_events_that_were_given_up_are_told_and_recorded_once_they_are_redriven(stack: Stack) -> None:
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


def test_a_dead_letter_that_would_fail_again_stays(stack: Stack) -> None:
    body = json.dumps({"source": "bus", "detail-type": "article.deleted", "detail": {"site": HOST, "id": "1"}})
    local_queues.send(arn(stack, "ArticlesDeadLetters"), body)
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setattr(redrive, "read", Mock(side_effect=ValueError("no configuration")))
        [dead] = redrive.send_back("articles", dry_run=False)
    assert dead.goes == ""
    assert "correct this first: no configuration" in dead.why
    assert len(on_queue(stack, "ArticlesDeadLetters")) == 1


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
    "something else": ({"a": 1}, ("a message of an unknown kind", "")),
}  # fmt: skip


@pytest.mark.parametrize("kind", FAILURES)
def test_each_kind_of_failure_is_told_and_what_it_left_undone_is_done(kind: str, stack: Stack) -> None:
    body, (what, goes) = FAILURES[kind]
    local_queues.send(arn(stack, "Failures"), json.dumps(body))
    [dead] = redrive.send_back("failures", dry_run=False)
    assert (dead.what, dead.goes) == (what, goes)
    assert len(on_queue(stack, "Failures")) == (0 if goes else 1)
    assert on_queue(stack, "RewritesQueue") == []
    assert len(on_queue(stack, "ArticlesQueue")) == (1 if goes == "articles" else 0)


# ── rebuilding ──


def test_a_rebuild_names_every_file_of_the_site_the_index_last(stack: Stack) -> None:
    works = rebuild.requests(HOST, None)
    assert [work.file for work in works] == ["sitemap-news.xml", "sitemap-2026-11.xml", "sitemap.xml"]
    before = objects(stack)
    for key in before:
        stack.client("s3").delete_object(Bucket=stack.only("AWS::S3::Bucket").ref, Key=key)
    doors_queues.send_rewrites(works)
    stack.rest()
    assert objects(stack) == before
