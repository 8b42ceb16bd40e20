"""Shared by simulations of a newsroom: a site on a stack of doubles, and its signed webhooks."""

import json
import random
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from stoppress.model.http_request import Request
from stoppress_cli.scenario import signing
from tests.simulation.stack import StackOnDoubles
from tests.support.playing import TEMPLATE

START = datetime(2026, 11, 20, 6, 3, tzinfo=UTC)
SECRET = "whsec_c3RvcHByZXNz"


class Newsroom:
    """Sites whose source `cms` sends webhooks. `rng` makes all random decisions."""

    def __init__(self, stack: StackOnDoubles, rng: random.Random, sites: Mapping[str, Mapping[str, Any]]) -> None:
        self.stack, self.rng = stack, rng
        stack.backend.put_secret(f"{stack.variable('SECRETS_PATH')}/webhooks/shared/newsroom", SECRET)
        for host, settings in sites.items():
            stack.put_site(host, json.dumps({"host": host, "publication": "Example News", **settings}))
        stack.advance(START)

    @property
    def now(self) -> datetime:
        return self.stack.clock.now()

    def post(self, host: str, body: object, **headers: str) -> int:
        """Post a signed webhook. Return the status of the answer."""
        raw = json.dumps(body).encode()
        sent = {
            "content-type": "application/json",
            **{name.replace("_", "-"): value for name, value in headers.items()},
        }
        request = Request(sent, raw, path=f"/webhooks/{host}/cms")
        signed = signing.signed(request, "standard", SECRET, f"msg_{self.rng.random()}", self.now)
        return self.stack.request(signed).status


@contextmanager
def fresh_stack(**parameters: str) -> Iterator[StackOnDoubles]:
    """Open a stack on which no retry sleeps."""
    with mock.patch("time.sleep"), StackOnDoubles(TEMPLATE, parameters, start=START - timedelta(minutes=1)) as stack:
        yield stack
