"""The cost of one event at archives of any size."""

from collections.abc import Callable, Iterator
from datetime import datetime, timedelta

from bench.archive import Archive, Shape, archive, shape
from bench.measuring import Measured, measuring
from bench.newsroom import NOW, Story, request
from stoppress_cli.stack import Stack

EVENTS = ("new", "edit_fresh", "edit_old", "slug_change", "removal", "expiry")


def send(stack: Stack, story: Story, kind: str, at: datetime, **said: object) -> None:
    """One webhook of the CMS, and all that comes of it."""
    answer = stack.request(request(story.delivery(kind, at, **said), at, f"msg_{kind}_{story.id}_{at:%d%H%M%S}"))
    assert answer.status == 200, answer
    stack.rest()


def measure(one: Archive, event: str, at: datetime) -> Measured:
    """One event on an archive at rest, `at` an instant of its own."""
    stack = one.stack
    ...
