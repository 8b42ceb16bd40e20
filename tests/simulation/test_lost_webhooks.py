"""Random newsrooms whose webhooks get lost: after two hours the audits have published every story, and none has come back.

A seed is a newsroom: its stories, what gets lost, which audits fail and which calls of AWS fail. `--first-seed` and `--seeds` choose
the seeds.
"""

import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any
from unittest import mock

import pytest

from stoppress.http import client
from stoppress_cli.local.wire import Fault
from tests.simulation import newsroom
from tests.simulation.newsroom import fresh_stack
from tests.simulation.stack import StackOnDoubles
from tests.simulation.swaps import Swap, planted
from tests.support.apis import Blog

pytestmark = pytest.mark.matrix

HOST = "www.example.com"
SITE = {
    "sources": {
        "cms": {
            "adapter": "wordpress",
            "secret": "shared/newsroom",
            "settings": {"signature": "standard"},
            "list": {"url": f"https://{HOST}/wp-json/wp/v2/posts"},
        }
    }
}
LOST, AUDIT_FAILS, LIST_IS_OLD, CALL_FAILS = 0.05, 0.01, 0.1, 0.2
ACTS, POSTS = 40, 12
# A seed is half a second long.
SEEDS = (1, 3, 4, 8)
CALLS = [
    ("dynamodb", "TransactWriteItems"),
    ("dynamodb", "BatchGetItem"),
    ("s3", "PutObject"),
    ("sqs", "SendMessageBatch"),
]


class Newsroom(newsroom.Newsroom):
    """One seed: a blog, what of it was received, and the stack."""

    def __init__(self, seed: int, stack: StackOnDoubles, blog: Blog) -> None:
        super().__init__(stack, random.Random(f"lost webhooks {seed}"), {HOST: SITE})
        self.blog = blog
        self.removed_unreceived: set[int] = set()
        self.lost = self.failed = 0
        self.an_hour_ago: dict[int, dict[str, Any]] = {}

    def act(self) -> None:
        """Somebody publishes, edits, moves or removes a post, and the webhook comes or gets lost."""
        id_ = self.chance.randint(1, POSTS)
        if id_ in self.blog.posts and self.chance.random() < 0.25:
            body = self.blog.delivery(id_)
            del self.blog.posts[id_]
            if not self.send(body, "post_trash"):
                self.removed_unreceived.add(id_)
            return
        slug = f"story-{id_}-{self.chance.randint(1, 3)}" if self.chance.random() < 0.3 else ""
        self.blog.publish(id_, self.now, slug)
        self.send(self.blog.delivery(id_), "post_update")

    def send(self, body: dict[str, Any], trigger: str) -> bool:
        """The plugin sends once. Returns whether the webhook came."""
        if self.chance.random() < LOST:
            self.lost += 1
            return False
        return self.post(HOST, body, x_wp_webhook_name=trigger) == 200

    def pass_time(self, until: datetime) -> None:
        """The hours pass with their audits. Some fail, and some get a list from a cache, an hour old."""
        now = self.now
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
        until = self.now + timedelta(hours=2, minutes=6)
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


def listed(stack: StackOnDoubles) -> set[str]:
    body = stack.backend.objects().get(f"{HOST}/sitemap-news.xml", b"").decode()
    return {part.partition("</loc>")[0] for part in body.split("<loc>")[1:]}


@contextmanager
def opened(seed: int) -> Iterator[Newsroom]:
    blog = Blog()
    with mock.patch.object(client, "fetch", blog.fetch), fresh_stack() as stack:
        yield Newsroom(seed, stack, blog)


def play(room: Newsroom) -> str:
    """What is wrong after two hours; empty if every story is right."""
    stack, chance = room.stack, room.chance
    for _ in range(ACTS):
        room.break_something()
        room.act()
        room.pass_time(room.now + timedelta(seconds=chance.choice((1, 30, 200, 900))))
    stack.wire.faults.clear()
    room.wait_for_two_audits()

    published = {post["link"] for post in room.blog.posts.values()}
    found = listed(stack)
    ids = {page: int(page.rpartition("/story-")[2].partition("-")[0]) for page in found - published}
    left = {page for page, id_ in ids.items() if id_ not in room.removed_unreceived}
    if published - found:
        return f"missing: {sorted(published - found)}"
    return f"came back or stayed: {sorted(left)}" if left else ""


def test_after_two_hours_every_story_is_right_and_no_removed_one_has_come_back(seed: int) -> None:
    with opened(seed) as room:
        assert play(room) == ""


def _an_old_list_believed(marked: Callable[..., Any]) -> Callable[..., Any]:
    """What the list has is sent, whatever was recorded, as if it had changed just now."""

    def newest(event: Any, asked_at: datetime, by: str) -> Any:
        now = asked_at - timedelta(minutes=6)
        return replace(marked(event, asked_at, by), version=now, timestamp=now)

    return newest


FAULTS = {
    "nothing is sent": Swap("audit.sources:is_missed", lambda _: lambda _event, _article: False, 4),
    "edits are overlooked": Swap("audit.sources:is_missed", lambda _: lambda _event, article: article is None, 8),
    "an old list is believed": Swap("cms.listing:marked", _an_old_list_believed, 3),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_in_the_audit_is_noticed(name: str) -> None:
    with planted(FAULTS[name]), opened(FAULTS[name].seed) as room:
        assert play(room) != ""
