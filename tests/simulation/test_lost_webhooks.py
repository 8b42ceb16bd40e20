"""Random newsrooms whose webhooks get lost: after two hours the audits have put every story right, and none has come back.

A seed is a newsroom: its stories, what gets lost, which audits fail and which calls of AWS fail. `--first-seed` and `--seeds` choose
the seeds.
"""

import json
import random
from collections.abc import Iterator
from contextlib import ExitStack
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

import pytest

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
LOST, AUDIT_FAILS, CALL_FAILS = 0.05, 0.01, 0.02
ACTS, POSTS = 40, 12
CALLS = [
    ("dynamodb", "TransactWriteItems"),
    ("dynamodb", "BatchGetItem"),
    ("s3", "PutObject"),
    ("sqs", "SendMessageBatch"),
]


class Newsroom:
    """One seed: a blog, what of it was heard, and the stack."""

    def __init__(self, seed: int, stack: StackOnDoubles, blog: Blog) -> None:
        self.chance = random.Random(f"lost webhooks {seed}")
        self.stack, self.blog = stack, blog
        self.trusts = self.chance.random() < 0.5
        self.removed_unheard: set[int] = set()
        self.lost = self.failed = 0
        source = {
            "adapter": "wordpress",
            "secret": "newsroom",
            "settings": {"signature": "standard"},
            "list": {"url": f"https://{HOST}/wp-json/wp/v2/posts", "trusts_removals": self.trusts},
        }
        site = {"host": HOST, "publication": "Example News", "sources": {"cms": source}}
        stack.backend.put_secret(f"{stack.variable('SECRETS_PATH')}/{HOST}/newsroom", SECRET)
        stack.client("ssm").put_parameter(
            Name=f"{stack.variable('SITES_PATH')}/{HOST}", Value=json.dumps(site), Type="String"
        )
        stack.advance(START)

    def act(self) -> None:
        """Somebody publishes, edits, moves or removes a post, and the webhook comes or gets lost."""
        id_ = self.chance.randint(1, POSTS)
        now = self.stack.clock.now()
        if id_ in self.blog.posts and self.chance.random() < 0.25:
            body = self.blog.webhook(id_)
            del self.blog.posts[id_]
            if not self.send(body, "post_trash", now):
                self.removed_unheard.add(id_)
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
        """The hours pass with their audits, some of which fail."""
        now = self.stack.clock.now()
        hour = now.replace(minute=0, second=0, microsecond=0) + timedelta(hours=1)
        while hour <= until:
            fails = self.chance.random() < AUDIT_FAILS
            self.failed += fails
            self.blog.status = 503 if fails else 200
            self.stack.advance(hour)
            hour += timedelta(hours=1)
        self.stack.advance(until)

    def break_something(self) -> None:
        """The next call of some kind fails, once."""
        if self.chance.random() < CALL_FAILS * 10:
            service, operation = self.chance.choice(CALLS)
            self.stack.wire.faults.append(Fault(service, operation))


def id_of(page: str) -> int:
    """The post that a page belongs to."""
    return int(page.rpartition("/story-")[2].partition("-")[0])


def listed(stack: StackOnDoubles) -> set[str]:
    """The pages in the news sitemap."""
    body = stack.backend.objects().get(f"{HOST}/sitemap-news.xml", b"").decode()
    return {part.partition("</loc>")[0] for part in body.split("<loc>")[1:]}


@pytest.fixture
def newsroom(seed: int) -> Iterator[Newsroom]:
    blog = Blog(HOST)
    with ExitStack() as opening:
        opening.enter_context(mock.patch.object(client, "fetch", blog.fetch))
        opening.enter_context(mock.patch("time.sleep"))
        stack = opening.enter_context(StackOnDoubles(TEMPLATE, start=START - timedelta(minutes=1)))
        yield Newsroom(seed, stack, blog)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    first, number = metafunc.config.getoption("--first-seed"), metafunc.config.getoption("--seeds")
    metafunc.parametrize("seed", range(first, first + number))


def test_after_two_hours_every_story_is_right_and_no_removed_one_has_come_back(newsroom: Newsroom) -> None:
    stack, chance = newsroom.stack, newsroom.chance
    for _ in range(ACTS):
        newsroom.break_something()
        newsroom.act()
        newsroom.pass_time(stack.clock.now() + timedelta(seconds=chance.choice((1, 30, 200, 900))))
    stack.wire.faults.clear()
    # The audit leaves five minutes to the webhooks, and two audits must agree before it removes.
    newsroom.pass_time(stack.clock.now() + timedelta(hours=2 + newsroom.failed, minutes=6))

    published = {post["link"] for post in newsroom.blog.posts.values()}
    found = listed(stack)
    assert published <= found, f"missing: {published - found}"
    left = {page for page in found - published if newsroom.trusts or id_of(page) not in newsroom.removed_unheard}
    assert not left or not published, f"came back or stayed: {left}"  # an empty list removes nothing
