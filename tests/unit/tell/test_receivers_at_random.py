"""Random changes, failures, repeats and losses: each change is told of in the end, and a CDN is asked seldom."""

import random
from collections.abc import Callable
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any

import pytest
from botocore.exceptions import ClientError, ReadTimeoutError

from stoppress.aws import cdn, items, queues, table
from stoppress.tell import files
from stoppress.tell.files import CDN, INVALIDATION_PAUSE
from tests.support import receivers
from tests.support.ledger import HOST
from tests.support.receivers import Receivers

FAILS, REPEATED, LOST, REFUSED = 0.03, 0.1, 0.05, 0.1
EPISODES, CHANGES_MAX = 8, 5
THROTTLED: Any = {"Error": {"Code": "Throttling", "Message": "slow down"}, "ResponseMetadata": {"HTTPStatusCode": 400}}


class Rough:
    """Calls of AWS that fail before or after they take effect. `failed` counts them."""

    def __init__(self, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.chance = random.Random(f"receivers {seed}")
        self.on = True
        self.failed = 0
        for module, name in ((table, "put"), (table, "get"), (queues, "send_engines")):
            patch.setattr(module, name, self.failing(getattr(module, name)))

    def failing(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def wrapped(*arguments: Any, **options: Any) -> Any:
            chance = self.chance.random() if self.on else 1
            if chance < FAILS / 2:
                self.failed += 1
                raise ReadTimeoutError(endpoint_url="https://aws.example.com/")
            result = call(*arguments, **options)
            if chance < FAILS:
                self.failed += 1
                raise ReadTimeoutError(endpoint_url="https://aws.example.com/")
            return result

        return wrapped


class Play:
    """A seed: episodes of changes, each with a quiet time after it. `taken`: the requests that CloudFront took, by their references."""

    def __init__(self, room: Receivers, seed: int, patch: pytest.MonkeyPatch) -> None:
        self.room = room
        self.site = room.behind.site(engines={"purge": {"distribution": "E1234567890ABC"}})
        self.rough = Rough(seed, patch)
        self.taken: list[tuple[datetime, str]] = []
        patch.setattr(cdn, "invalidate", self.invalidate)

    def invalidate(self, _id: str, _paths: list[str], reference: str) -> None:
        chance = self.rough.chance.random() if self.rough.on else 1
        if chance < REFUSED:
            raise ClientError(THROTTLED, "CreateInvalidation")
        self.taken.append((self.room.now, reference))
        if chance < 2 * REFUSED:
            self.rough.failed += 1
            raise ReadTimeoutError(endpoint_url="https://cloudfront.amazonaws.com/")

    def episode(self, *, loses: bool) -> None:
        """Files change, and events and messages are repeated or lost. After a quiet time, or two sweeps, all is told."""
        chance, room = self.rough.chance, self.room
        self.rough.on = True
        for _ in range(chance.randint(1, CHANGES_MAX)):
            file = chance.choice(("sitemap-news.xml", "sitemap-2026-11.xml"))
            room.hear(file)
            room.wait(seconds=chance.choice((0, 1, 9)))
            room.mark(file)
            for message in list(room.messages):
                fate = chance.random()
                if fate < LOST and loses:
                    room.messages.remove(message)
                elif fate < LOST + REPEATED:
                    room.messages.append((message[0] + timedelta(seconds=chance.randint(0, 600)), message[1]))
            room.wait(seconds=chance.choice((0, 1, 5, 30, 300)))
        self.rough.on = False
        for _ in range(2 if loses else 1):
            if loses:
                room.sweep(self.site)
            room.wait(hours=1)

    def assert_all_told(self) -> None:
        """No message is left, and CloudFront took a request after the last change."""
        marks = [items.read_mark(item) for item in table.query(f"file#{HOST}/sitemap.xml")]
        current = {file: version.digest for file, version in files._purged_versions(marks).items()}
        assert files._read(HOST, CDN).digests == current
        assert self.taken[-1][0] >= max(mark.changed for mark in marks)
        assert self.room.messages == []

    def assert_asked_seldom(self) -> None:
        """Five minutes are between two requests, except where a failure kept the first one from being noted."""
        soon = [
            (earlier, later)
            for earlier, later in pairwise(self.taken)
            if later[1] != earlier[1] and later[0] - earlier[0] < INVALIDATION_PAUSE
        ]
        assert len(soon) <= self.rough.failed


@pytest.mark.moto
@pytest.mark.parametrize("seed", range(6))
def test_each_change_is_told_of_and_a_cdn_is_asked_seldom(seed: int) -> None:
    with receivers.opened() as room, pytest.MonkeyPatch.context() as patch:  # undone before the room's own patches
        play = Play(room, seed, patch)
        for _ in range(EPISODES):
            play.episode(loses=seed % 2 == 1)
            play.assert_all_told()
        play.assert_asked_seldom()
