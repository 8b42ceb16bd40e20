"""Random newsrooms whose webhooks get lost: after two hours the audits have published every story, and none has come back.

A seed is a newsroom: its stories, what gets lost, which audits fail and which calls of AWS fail. `--first-seed` and `--seeds` choose
the seeds.
"""

import json
import random
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest

from stoppress.audit import sources
from stoppress.cms import listing
from stoppress.http import client
from stoppress_cli.local.gateway import Request
from stoppress_cli.local.wire import Fault
from stoppress_cli.scenario import signing
from tests.simulation.stack import StackOnDoubles
from tests.support.blog import Blog
from tests.support.playing import TEMPLATE

HOST = "www.example.com"
SECRET = "whsec_c3RvcHByZXNz"
START = datetime(2026, 11, 20, 6, 3, tzinfo=UTC)
LOST, AUDIT_FAILS, LIST_IS_OLD, CALL_FAILS = 0.05, 0.01, 0.1, 0.2
ACTS, POSTS = 40, 12
CALLS = [
    ("dynamodb", "TransactWriteItems"),
    ("dynamodb", "BatchGetItem"),
    ("s3", "PutObject"),
    ("sqs", "SendMessageBatch"),
]


class Newsroom:
    """One seed: a blog, what of it was received, and the stack."""

    def __init__(self, seed: int, stack: StackOnDoubles, blog: Blog) -> None:
        self.chance = random.Random(f"lost webhooks {seed}")
        self.stack, self.blog = stack, blog
        self.removed_unreceived: set[int] = set()
        self.lost = self.failed = 0
        self.an_hour_ago: dict[int, dict[str, Any]] = {}
        source = {
            "adapter": "wordpress",
            "secret": "newsroom",
            "settings": {"signature": "standard"},
            "list": {"url": f"https://{HOST}/wp-json/wp/v2/posts"},
        }
        site = {"host": HOST, "publication": "Example News", "sources": {"cms": source}}
        stack.backend.put_secret(f"{stack.variable('SECRETS_PATH')}/webhooks/{HOST}/newsroom", SECRET)
        stack.put_site(HOST, json.dumps(site))
        stack.advance(START)

    def act(self) -> None:
        """Somebody publishes, edits, moves or removes a post, and the webhook comes or gets lost."""
        id_ = self.chance.randint(1, POSTS)
        now = self.stack.clock.now()
        if id_ in self.blog.posts and self.chance.random() < 0.25:
            body = self.blog.webhook(id_)
            del self.blog.posts[id_]
            if not self.send(body, "post_trash", now):
                self.removed_unreceived.add(id_)
            return
        slug = f"story-{id_}-{self.chance.randint(1, 3)}" if self.chance.random() < 0.3 else ""
        self.blog.publish(id_, now, slug)
        self.send(self.blog.webhook(id_), "post_update", now)

    def send(self, body: dict[str, Any], trigger: str, now: datetime) -> bool:
        """The plugin sends once. Returns whether the webhook came."""
        if self.chance.random() < LOST:
            self.lost += 1
            return False
        raw = json.dumps(body).encode()
        headers = {"content-type": "application/json", "x-wp-webhook-name": trigger}
        signed = signing.standard(SECRET, headers, raw, f"msg_{self.chance.random()}", now)
        return self.stack.request(Request("POST", f"/webhooks/{HOST}/cms", "", headers | signed, raw)).status == 200

    def pass_time(self, until: datetime) -> None:
        """The hours pass with their audits. Some fail, and some get a list from a cache, an hour old."""
        now = self.stack.clock.now()
        hour = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        while hour <= until:
            fails, is_old = self.chance.random() < AUDIT_FAILS, self.chance.random() < LIST_IS_OLD
            self.failed += fails or is_old
            self.blog.status = 503 if fails else 200
            self.blog.cached = self.an_hour_ago if is_old else None
            self.stack.advance(hour)
            self.an_hour_ago = dict(self.blog.posts)
            hour += timedelta(hours=1)
        self.stack.advance(until)

    def wait_for_two_audits(self) -> None:
        """Two hours pass, and one more for each audit in them that fails. An audit leaves five minutes to the webhooks."""
        until = self.stack.clock.now() + timedelta(hours=2, minutes=6)
        failed = self.failed
        self.pass_time(until)
        while self.failed > failed:
            until += timedelta(hours=self.failed - failed)
            failed = self.failed
            self.pass_time(until)

    def break_something(self) -> None:
        """The next call of some kind fails, once."""
        if self.chance.random() < CALL_FAILS:
            service, operation = self.chance.choice(CALLS)
            self.stack.wire.faults.append(Fault(service, operation))


def id_of(page: str) -> int:
    """The post that a page belongs to."""
    return int(page.rpartition("/story-")[2].partition("-")[0])


def listed(stack: StackOnDoubles) -> set[str]:
    """The pages in the news sitemap."""
    body = stack.backend.objects().get(f"{HOST}/sitemap-news.xml", b"").decode()
    return {part.partition("</loc>")[0] for part in body.split("<loc>")[1:]}


@contextmanager
def newsroom(seed: int) -> Iterator[Newsroom]:
    """A newsroom on a stack of its own."""
    blog = Blog(HOST)
    with ExitStack() as opening:
        opening.enter_context(mock.patch.object(client, "fetch", blog.fetch))
        opening.enter_context(mock.patch("time.sleep"))
        stack = opening.enter_context(StackOnDoubles(TEMPLATE, start=START - timedelta(minutes=1)))
        yield Newsroom(seed, stack, blog)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, number = metafunc.config.getoption("--first-seed"), metafunc.config.getoption("--seeds")
    if "seed" in metafunc.fixturenames:
        metafunc.parametrize("seed", range(first, first + number))


def play(room: Newsroom) -> str:
    """What is wrong after two hours; empty if every story is right."""
    stack, chance = room.stack, room.chance
    for _ in range(ACTS):
        room.break_something()
        room.act()
        room.pass_time(stack.clock.now() + timedelta(seconds=chance.choice((1, 30, 200, 900))))
    stack.wire.faults.clear()
    room.wait_for_two_audits()

    published = {post["link"] for post in room.blog.posts.values()}
    found = listed(stack)
    left = {page for page in found - published if id_of(page) not in room.removed_unreceived}
    if published - found:
        return f"missing: {sorted(published - found)}"
    return f"came back or stayed: {sorted(left)}" if left else ""


@pytest.mark.matrix
def test_after_two_hours_every_story_is_right_and_no_removed_one_has_come_back(seed: int) -> None:
    with newsroom(seed) as room:
        assert play(room) == ""


# ── planted faults ──


def _nothing_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "is_missed", lambda _event, _article: False)


def _edits_overlooked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sources, "is_missed", lambda _event, article: article is None)


def _an_old_list_believed(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the list has is sent, whatever was recorded, as if it had changed just now."""
    marked = listing.marked

    def newest(event: Any, asked_at: datetime, by: str) -> Any:
        now = asked_at - timedelta(minutes=6)
        return replace(marked(event, asked_at, by), version=now, timestamp=now)

    monkeypatch.setattr(listing, "marked", newest)


# The fault, and a seed that shows it.
FAULTS: dict[Callable[[pytest.MonkeyPatch], None], int] = {
    _nothing_sent: 4,
    _edits_overlooked: 8,
    _an_old_list_believed: 3,
}


@pytest.mark.matrix
@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.__name__)
def test_a_fault_in_the_audit_is_noticed(
    fault: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    fault(monkeypatch)
    with newsroom(FAULTS[fault]) as room:
        assert play(room) != ""
