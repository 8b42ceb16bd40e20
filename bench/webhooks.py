"""How many webhooks one core takes: the handler as it runs on Lambda, its doors faked, so that nothing but our own work is timed."""

import json
import time
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from statistics import median
from typing import Any
from unittest import mock

from bench.archive import TEMPLATE
from bench.newsroom import HOST, NOW, SECRET, SITE, Story, request
from stoppress.aws import queues, secrets, sites
from stoppress.model.http_request import Request
from stoppress.model.site import read_site
from stoppress.receive.webhook import receive
from stoppress_cli.local import gateway
from stoppress_cli.local.functions import OUTPUT, Context, Output
from stoppress_cli.local.stack import Stack

REQUESTS = 1_000
ROUNDS = 5


def per_second() -> dict[str, float]:
    """Deliveries that one core takes in a second.

    `per_second` is of the work itself: verify, normalise, enqueue; `handler_per_second` with Powertools' log line and metrics.
    """
    site = read_site(json.dumps(SITE), 1)
    posted = [
        request(Story(number, NOW).delivery("published", NOW), NOW, f"msg_{number}") for number in range(REQUESTS)
    ]
    sent: list[str] = []
    with Stack(TEMPLATE, start=NOW) as stack, ExitStack() as faked:
        doors: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
            (sites, "load", lambda *_said, **_more: site),
            (secrets, "load", lambda *_name: [SECRET]),
            (queues, "_send", lambda _url, messages, **_more: sent.extend(messages)),
            (Output, "write", lambda _self, text: len(text)),
        )
        for module, name, fake in doors:
            faked.enter_context(mock.patch.object(module, name, fake))
        route = next(one for one in stack.sources.routes if one.match(posted[0]))
        events = [gateway.event(one, route, route.match(one) or {}, NOW) for one in posted]
        deliveries = [Request(one.headers, one.body, path_parameters={"site": HOST, "source": "cms"}) for one in posted]
        function = stack.functions["ReceiveWebhook"]
        assert function.invoke(events[0]).payload["statusCode"] == 200
        handler, context = (
            function._load().lambda_handler,
            Context(function.name, function.memory_mib, function.timeout_s),
        )
        faked.enter_context(mock.patch.dict("os.environ", function.variables_set()))
        faked.enter_context(redirect_stdout(OUTPUT))
        found = {
            "per_second": _rate(lambda: [receive(delivery, NOW) for delivery in deliveries]),
            "handler_per_second": _rate(lambda: [handler(event, context) for event in events]),
        }
    assert len(sent) >= 2 * ROUNDS * REQUESTS
    return found


def _rate(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return round(REQUESTS / median(times))
