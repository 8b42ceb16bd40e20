"""Random newsrooms whose webhooks are lost: after two hours, audits have published every story, and no removed story is listed.

A seed decides the stories, the lost webhooks, the failed audits and the failed calls to AWS. `--first-seed` and `--seeds` select
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
from tests.simulation.patches import Patch, planted
from tests.simulation.stack import StackOnDoubles
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
# A seed takes half a second.
SEEDS = (1, 3, 4, 8)
CALLS = [
    ("dynamodb", "TransactWriteItems"),
    ("dynamodb", "BatchGetItem"),
    ("s3", "PutObject"),
    ("sqs", "SendMessageBatch"),
]


class Newsroom(newsroom.Newsroom):
    """The run of one seed: a blog, its lost removals, and the stack."""

    def __init__(self, seed: int, stack: StackOnDoubles, blog: Blog) -> None:
        super().__init__(stack, random.Random(f"lost webhooks {seed}"), {HOST: SITE})
        self.blog = blog
        self.removed_unreceived: set[int] = set()
        self.lost = self.failed = 0
        self.an_hour_ago: dict[int, dict[str, Any]] = {}

    def act(self) -> None:
        """Publish, edit, move or remove a post, whose webhook may get lost."""
        id_ = self.rng.randint(1, POSTS)
        if id_ in self.blog.posts and self.rng.random() < 0.25:
            body = self.blog.delivery(id_)
            del self.blog.posts[id_]
            if not self.send(body, "post_trash"):
                self.removed_unreceived.add(id_)
            return
        slug = f"story-{id_}-{self.rng.randint(1, 3)}" if self.rng.random() < 0.3 else ""
        self.blog.publish(id_, self.now, slug)
        self.send(self.blog.delivery(id_), "post_update")

    def send(self, body: dict[str, Any], trigger: str) -> bool:
        """Send a webhook once, as the plugin does. Return True if it was received."""
        if self.rng.random() < LOST:
            self.lost += 1
            return False
        return self.post(HOST, body, x_wp_webhook_name=trigger) == 200

    def pass_time(self, until: datetime) -> None:
        """Advance through hourly audits. Some audits fail, and some read a cached list that is an hour old."""
        now = self.now
        hour = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        while hour <= until:
            fails, is_old = self.rng.random() < AUDIT_FAILS, self.rng.random() < LIST_IS_OLD
            self.failed += fails or is_old
            self.blog.status = 503 if fails else 200
            self.blog.cached = self.an_hour_ago if is_old else None
            self.stack.advance(hour)
            self.an_hour_ago = dict(self.blog.posts)
            hour += timedelta(hours=1)
        self.stack.advance(until)

    def wait_for_two_audits(self) -> None:
        """Advance two hours, and one more per failed audit. An audit ignores changes of the last five minutes."""
        until = self.now + timedelta(hours=2, minutes=6)
        failed = self.failed
        self.pass_time(until)
        while self.failed > failed:
            until += timedelta(hours=self.failed - failed)
            failed = self.failed
            self.pass_time(until)

    def inject_fault(self) -> None:
        """Inject one failure into the next call of a random operation."""
        if self.rng.random() < CALL_FAILS:
            service, operation = self.rng.choice(CALLS)
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
    """Return the error after two hours, empty if all stories are correct."""
    stack, rng = room.stack, room.rng
    for _ in range(ACTS):
        room.inject_fault()
        room.act()
        room.pass_time(room.now + timedelta(seconds=rng.choice((1, 30, 200, 900))))
    stack.wire.faults.clear()
    room.wait_for_two_audits()

    published = {post["link"] for post in room.blog.posts.values()}
    pages = listed(stack)
    ids = {page: int(page.rpartition("/story-")[2].partition("-")[0]) for page in pages - published}
    removed = {page for page, id_ in ids.items() if id_ not in room.removed_unreceived}
    if published - pages:
        return f"missing: {sorted(published - pages)}"
    return f"removed, but listed: {sorted(removed)}" if removed else ""


def test_after_two_hours_every_story_is_listed_and_no_removed_story(seed: int) -> None:
    with opened(seed) as room:
        assert play(room) == ""


def _date_entries_now(marked: Callable[..., Any]) -> Callable[..., Any]:
    """Send all entries of the list as if they had just changed, whatever was recorded."""

    def newest(event: Any, requested_at: datetime, by: str) -> Any:
        now = requested_at - timedelta(minutes=6)
        return replace(marked(event, requested_at, by), version=now, timestamp=now)

    return newest


FAULTS = {
    "nothing is sent": Patch("audit.sources:is_missed", lambda _: lambda _event, _article: False, 4),
    "edits are overlooked": Patch("audit.sources:is_missed", lambda _: lambda _event, article: article is None, 8),
    "a stale list counts as new": Patch("cms.listing:marked", _date_entries_now, 3),
}


@pytest.mark.parametrize("name", FAULTS)
def test_a_planted_fault_in_the_audit_is_caught(name: str) -> None:
    with planted(FAULTS[name]), opened(FAULTS[name].seed) as room:
        assert play(room) != ""
