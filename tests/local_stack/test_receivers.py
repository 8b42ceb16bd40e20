"""A CDN and a hub on the local stack: a webhook publishes a story, and both are told of the files that it changed."""

import json
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress.model.http_request import Request as Signed
from stoppress.show.read_site import read_stack
from stoppress.show.site import Access, stack_status
from stoppress.signatures.verify import verify
from stoppress.tell import fetch
from stoppress_cli.local.gateway import Request
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT
from stoppress_cli.scenario import signing
from tests.deployment.test_grants import SECRETS_OF_ENGINES
from tests.support import operated
from tests.support.engines import engine
from tests.support.planting import recorded_asks, roles_refused

pytestmark = pytest.mark.moto

HOST = operated.HOST
SECRET = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw"
HOOK = {"url": "https://purge.example.net/hook", "secret": "engine-purge"}
READER = "E1A2B3C4D5E6F7"
READERS = {"ReaderDistributionArns": f"arn:aws:cloudfront::{ACCOUNT}:distribution/{READER}"}


def site(purge: dict[str, str], **changes: Any) -> dict[str, Any]:
    return operated.SITE | {"engines": {"purge": purge}} | changes


def publish(stack: Stack, story: str, minutes: int) -> None:
    """The webhook of a story comes, and minutes pass."""
    at = f"{stack.clock.now():%Y-%m-%dT%H:%M:%SZ}"
    data = {"id": story, "url": operated.url(story), "title": "Flood closes the harbour", "published_at": at}
    body = json.dumps({"type": "article.published", "timestamp": at, "data": data}).encode()
    headers = {"content-type": "application/json"}
    signed = signing.standard("whsec_c3RvcHByZXNz", headers, body, f"msg_{story}", stack.clock.now())
    assert stack.request(Request("POST", operated.CMS, "", headers | signed, body)).status == 200
    stack.rest()
    wait(stack, minutes)


def wait(stack: Stack, minutes: int) -> None:
    for _ in range(minutes):
        stack.advance(stack.clock.now() + timedelta(minutes=1))


def problems(stack: Stack) -> list[str]:
    now = stack.clock.now()
    return [problem.what for problem in stack_status(read_stack(HOST, now, None), now, Access("news")).problems]


def test_a_story_has_the_cdn_purged_and_the_hub_told_twice(tmp_path: Path) -> None:
    fetch._rules.clear()
    outputs = {"atom": True, "hub": "https://hub.example.net/publish"}
    with engine() as web, operated.operated([{"site": site(HOOK, outputs=outputs)}], tmp_path) as stack:
        path = f"{stack.variable('SECRETS_PATH')}/{HOST}/engine-purge"
        stack.client("secretsmanager").create_secret(Name=path, SecretString=SECRET)
        web.pages["/flood"] = 200
        wait(stack, 70)  # until the marks name the feed, and after a sweep
        web.requests.clear()
        with recorded_asks(stack) as asks:
            publish(stack, "flood", minutes=4)

        of_cdn = [request for request in web.requests if request[0] == "/hook"]
        assert len(of_cdn) == 2
        _, headers, body = of_cdn[1]
        verify("standard", Signed(headers, body), [SECRET], stack.clock.now())
        assert json.loads(body) == {
            "site": HOST,
            "urls": [f"https://{HOST}/sitemap-news.xml", f"https://{HOST}/sitemap.xml"],
        }
        of_hub = [body for path, _, body in web.requests if path == "/publish"]
        assert of_hub == [b"hub.mode=publish&hub.url=https%3A%2F%2Fwww.example.com%2Fsitemap-news.atom"] * 2
        assert not stack.wire.guard.refused
        assert problems(stack) == []
        answer = stack_status(read_stack(HOST, stack.clock.now(), None), stack.clock.now(), Access("news"))
        assert answer.sites[0].delays is not None
        assert (answer.sites[0].delays.pages, answer.sites[0].delays.told_s) == (1, 0.0)

        publish(stack, "fire", minutes=0)
        wait(stack, 8)
        assert len([request for request in web.requests if request[0] == "/hook"]) == 4
    fetch._rules.clear()
    assert roles_refused(asks, tmp_path, SECRETS_OF_ENGINES.taken_from) == {"TellEnginesRole"}


@pytest.mark.parametrize(
    ("distribution", "reason"),
    [
        (READER, "CDN takes nothing: NoSuchDistribution: "),  # it may be purged, and moto does not have it
        ("E9A2B3C4D5E6F7", "CDN takes nothing: AccessDenied: "),
    ],
)
def test_the_function_purges_only_distributions_that_read_the_bucket(
    distribution: str, reason: str, tmp_path: Path
) -> None:
    steps = [{"site": site({"distribution": distribution})}]
    with engine(), operated.operated(steps, tmp_path, parameters=READERS) as stack:
        publish(stack, "flood", minutes=2)
        assert any(problem.startswith(reason) for problem in problems(stack))
        assert stack.metrics["EnginesFailed"] == 1
        assert bool(stack.wire.guard.refused) == (distribution != READER)
    fetch._rules.clear()
