"""What `Engines=yes` costs: a story that is published and edited twice, and an hourly sweep, counted on the local stack."""

from collections.abc import Mapping
from contextlib import ExitStack
from datetime import timedelta
from unittest import mock

from bench import cost
from bench.archive import newsroom
from bench.measuring import Measured, measuring
from bench.newsroom import SITE
from stoppress.http import client
from stoppress.http.client import Response

NOTIFIED_SITE = {**SITE, "engines": {"indexnow": {"key": "0f4b1c2d3e4f5a6b"}}}
EDITS = 2
# Longer than the ten minutes that IndexNow asks for between two requests for one page.
BETWEEN_EDITS = timedelta(minutes=15)
# Fetches and requests for each change: the page, its robots.txt and the engine.
REQUESTS = 3


def story(site: Mapping[str, object]) -> Measured:
    """What `Engines=yes` adds to a story of a site that is published and edited twice. Engines are notified of all of it at once."""
    return _story(site, "yes") - _story(SITE, "no")


def sweep() -> Measured:
    """What an hourly sweep uses when no notification is left to send."""
    return _hour("yes") - _hour("no")


def _story(site: Mapping[str, object], switched_on: str) -> Measured:
    with ExitStack() as opening:
        opening.enter_context(mock.patch.object(client, "fetch", _page))
        opening.enter_context(mock.patch.object(client, "post_body", _engine))
        stack = opening.enter_context(newsroom(site=site, Engines=switched_on))
        cost.warm(stack)
        now = stack.clock.now() + cost.APART
        stack.advance(now)
        new = cost.new_story(now)
        with measuring(stack) as found:
            cost.publish(stack, new, now)
            for _ in range(EDITS):
                now += BETWEEN_EDITS
                stack.clock.move(now)
                cost.edit(stack, new, now)
    return found


def _hour(switched_on: str) -> Measured:
    with newsroom(site=NOTIFIED_SITE, Engines=switched_on) as stack:
        cost.warm(stack)
        hour = stack.clock.now().replace(minute=0, second=0) + timedelta(hours=3)
        stack.advance(hour - timedelta(minutes=1), every_schedule=True)
        with measuring(stack) as found:
            stack.advance(hour, every_schedule=True)
    return found


def _page(url: str, *_: object, **_limits: object) -> Response:
    if url.endswith("/robots.txt"):
        return Response(404, {}, b"", url)
    return Response(200, {"content-type": "text/html"}, b"<title>A story</title>", url)


def _engine(url: str, *_: object) -> Response:
    return Response(202, {}, b"", url)
