"""Audits on the local stack: a story whose webhook was lost is found in the source's list, and published."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress.audit.audit_state import AuditState, audit_key
from stoppress.aws import table
from stoppress.aws.codec import from_item
from stoppress.http import client
from stoppress.model.event import ArticleEvent, to_message
from stoppress.show import read_site
from stoppress.show.stack_status import Access, stack_status
from stoppress.show.story import story_of
from stoppress_cli.local.guard import Guard
from stoppress_cli.local.permissions import Ask, Permissions, Role
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.wire import Fault
from tests.deployment.test_grants import OF_AUDITS, OF_IMPORTS, Grant
from tests.support import operated
from tests.support.apis import KEY as KEY_OF_API, Blog
from tests.support.operated import news
from tests.support.planting import edited_resources, recorded_asks, roles_refused

pytestmark = pytest.mark.moto

HOST = operated.HOST
HOUR = timedelta(hours=1)
SITE: dict[str, Any] = {
    "host": HOST,
    "publication": "Example News",
    "sources": {
        "cms": {
            "adapter": "wordpress",
            "secret": "newsroom",
            "settings": {"signature": "standard"},
            "list": {"url": f"https://{HOST}/wp-json/wp/v2/posts"},
        }
    },
}


@pytest.fixture
def blog(monkeypatch: pytest.MonkeyPatch) -> Blog:
    fake = Blog()
    monkeypatch.setattr(client, "fetch", fake.fetch)
    monkeypatch.setattr("time.sleep", lambda _: None)
    return fake


@pytest.fixture
def stack(tmp_path: Path, blog: Blog) -> Iterator[Stack]:
    with operated.operated([{"site": SITE}], tmp_path) as running:
        yield running


def post(stack: Stack, blog: Blog, id_: int, hook: str = "post_update") -> None:
    operated.post(stack, blog.delivery(id_), f"{hook}_{id_}", **{"x-wp-webhook-name": hook})


def state() -> AuditState:
    return from_item(AuditState, table.get(*audit_key(HOST, "cms")) or {})


def test_a_story_whose_webhook_was_lost_is_published_by_the_audit(stack: Stack, blog: Blog) -> None:
    blog.publish(1, stack.clock.now())
    post(stack, blog, 1)
    blog.publish(2, stack.clock.now())
    operated.later(stack, 1)
    assert "/story-1<" in news(stack)
    assert "/story-2<" not in news(stack)

    stack.advance(stack.clock.now() + HOUR)
    assert "/story-2<" in news(stack)
    assert stack.metrics["WebhooksMissed"] == 1
    assert (state().listed, state().missed_in_a_day) == (2, 1)

    stack.advance(stack.clock.now() + HOUR)
    assert stack.metrics["WebhooksMissed"] == 1  # counted once
    now = stack.clock.now()
    [problem] = stack_status(read_site.read_stack(HOST, now, None), now, Access("news")).problems
    assert problem.what == "webhooks of cms that never came in 24 hours: 1; the audit sent their stories"
    story = story_of(f"https://{HOST}/story-2", None, now)
    assert [received.reason for received in story.received] == ["the webhook never came; the audit found it"]


def test_a_story_that_two_audits_do_not_find_in_the_list_is_reported_and_stays(stack: Stack, blog: Blog) -> None:
    for id_ in (1, 2):
        blog.publish(id_, stack.clock.now())
        post(stack, blog, id_)
    blog.publish(3, stack.clock.now())
    blog.posts[3]["title"]["rendered"] = ""  # not an article, but listed
    operated.later(stack, 1)
    del blog.posts[1]

    stack.advance(stack.clock.now() + HOUR)
    assert (state().unlisted, state().confirmed) == ((f"https://{HOST}/story-1",), ())  # needs a second audit
    stack.advance(stack.clock.now() + HOUR)
    assert state().confirmed == (f"https://{HOST}/story-1",)
    assert "/story-1<" in news(stack)
    assert stack.metrics["NeedsAttention"] == 1


def test_a_story_whose_lost_changes_are_too_new_for_each_audit_is_not_reported(stack: Stack, blog: Blog) -> None:
    for id_ in (1, 2):
        blog.publish(id_, stack.clock.now())
        post(stack, blog, id_)
    for _ in range(4):
        stack.advance(stack.clock.now() + HOUR - timedelta(minutes=2))
        blog.publish(1, stack.clock.now())
        stack.advance(stack.clock.now() + timedelta(minutes=2))
    assert state().unlisted == ()


def test_a_story_that_was_last_edited_before_the_listed_period_is_not_reported(stack: Stack, blog: Blog) -> None:
    for id_ in (1, 2):
        blog.publish(id_, stack.clock.now())
    # WordPress: a scheduled post keeps the date of its last edit when it is published.
    blog.posts[1]["modified_gmt"] = f"{stack.clock.now() - timedelta(hours=70):%Y-%m-%dT%H:%M:%S}"
    for id_ in (1, 2):
        post(stack, blog, id_)
    for _ in range(3):
        stack.advance(stack.clock.now() + HOUR)
    assert state().unlisted == ()


def test_a_list_that_is_suddenly_empty_reports_no_story(stack: Stack, blog: Blog) -> None:
    blog.publish(1, stack.clock.now())
    post(stack, blog, 1)
    blog.posts.clear()
    for _ in range(3):
        stack.advance(stack.clock.now() + HOUR)
    assert state().confirmed == ()


def test_an_unreadable_list_is_a_failed_audit_and_the_next_one_finds_what_was_lost(stack: Stack, blog: Blog) -> None:
    blog.publish(1, stack.clock.now())
    blog.status = 503
    stack.advance(stack.clock.now() + HOUR)
    assert stack.metrics["AuditsFailed"] == 1
    assert state().failed == "page 1: the server answers 503"

    blog.status = 200
    stack.advance(stack.clock.now() + HOUR)
    assert "/story-1<" in news(stack)
    assert state().failed == ""


def test_a_cms_without_webhooks_is_reported_while_its_feed_has_the_stories(tmp_path: Path) -> None:
    feed = f"https://{HOST}/feed.xml"
    entries = "".join(
        f"<item><title>Story {n}</title><link>https://{HOST}/{n}</link><pubDate>Fri, 20 Nov 2026 11:0{n}:00 GMT</pubDate></item>"
        for n in range(4)
    )
    steps: list[Any] = [
        {"feed": feed, "body": f"<rss version='2.0'><channel>{entries}</channel></rss>"},
        {"site": operated.SITE | {"feeds": [{"url": feed}]}},
        {"at": "2026-11-20T12:05:00Z", "save": "polled"},
    ]
    with operated.operated(steps, tmp_path) as stack:
        stack.advance(stack.clock.now() + HOUR)
        assert state().silent == 4
        assert stack.metrics["NeedsAttention"] == 1


# ── grants ──

KEY = {"sources": {"cms": SITE["sources"]["cms"] | {"list": SITE["sources"]["cms"]["list"] | {"secret": "key"}}}}


@pytest.fixture(scope="module")
def asks(tmp_path_factory: pytest.TempPathFactory) -> list[tuple[Role, Ask]]:
    """Record the roles' requests in two hours, each with an audit."""
    blog = Blog()
    with (
        pytest.MonkeyPatch.context() as patch,
        operated.operated([{"site": SITE | KEY}], tmp_path_factory.mktemp("asks")) as stack,
    ):
        patch.setattr(client, "fetch", blog.fetch)
        stack.client("secretsmanager").create_secret(
            Name=f"stoppress/stoppress/lists/{HOST}/key", SecretString=KEY_OF_API
        )
        for id_ in (1, 2):
            blog.publish(id_, stack.clock.now())
        post(stack, blog, 1)
        operated.later(stack, 1)
        stack.forget_clients()
        with recorded_asks(stack) as recorded:
            stack.advance(stack.clock.now() + HOUR)
        assert stack.metrics["WebhooksMissed"] == 1
        assert not stack.wire.guard.refused
    return recorded


@pytest.mark.matrix
@pytest.mark.parametrize("grant", OF_AUDITS, ids=str)
def test_the_audits_need_each_of_their_grants(grant: Grant, asks: list[tuple[Role, Ask]]) -> None:
    assert roles_refused(asks, Permissions(edited_resources(grant.taken_from))) == {"AuditSourcesRole"}


def test_a_failed_imported_article_is_retried_from_its_own_queue(
    stack: Stack, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    resolved = edited_resources(OF_IMPORTS.taken_from)
    guard = Guard(Permissions(resolved), resolved)
    monkeypatch.setattr(stack.wire, "guard", guard)
    stack.forget_clients()
    event = ArticleEvent(site=HOST, source="cms", id="7", action="publish", url=f"https://{HOST}/old", title="Old")
    url = stack.resources["ImportsQueue"].ref
    stack.client("sqs").send_message(QueueUrl=url, MessageBody=to_message(event))
    stack.wire.faults.append(Fault("dynamodb", "TransactWriteItems"))
    stack.rest()

    [refused] = guard.refused
    assert "sqs:ChangeMessageVisibility" in refused
    assert "ImportsQueue" in refused
