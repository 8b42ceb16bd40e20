"""How many webhooks one core takes, and how long the command line takes to start."""

import json
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import ExitStack, redirect_stdout
from statistics import median
from typing import Any
from unittest import mock

from bench.newsroom import HOST, NOW, SECRET, SITE, Story, request
from bench.wiring import TEMPLATE
from stoppress.aws import queues, secrets, sites
from stoppress.model.http_request import Request
from stoppress.model.site import read_site
from stoppress.receive.webhook import receive
from stoppress_cli.local import gateway
from stoppress_cli.local.functions import OUTPUT, Context, Output
from stoppress_cli.local.stack import Stack

REQUESTS = 1_000
ROUNDS = 5
COMMANDS = ("--help", "check --help", "status --help")


def measure_webhooks(_quick: bool) -> dict[str, Any]:
    """Return the deliveries that one core takes in a second, with the handler's calls of AWS faked.

    `per_second` is of the work itself: verify, normalise, enqueue; `handler_per_second` with Powertools' log line and metrics.
    """
    site = read_site(json.dumps(SITE), 1)
    posted = [
        request(Story(number, NOW).delivery("published", NOW), NOW, f"msg_{number}") for number in range(REQUESTS)
    ]
    sent: list[str] = []
    with Stack(TEMPLATE, start=NOW) as stack, ExitStack() as faked:
        doors: tuple[tuple[Any, str, Callable[..., Any]], ...] = (
            (sites, "load", lambda *_arguments, **_more: site),
            (secrets, "load", lambda *_name: [SECRET]),
            (queues, "_send", lambda _url, messages, **_more: sent.extend(messages)),
            (Output, "write", lambda _self, text: len(text)),
        )
        for module, name, fake in doors:
            faked.enter_context(mock.patch.object(module, name, fake))
        route = next(route for route in stack.sources.routes if route.match(posted[0]))
        events = [gateway.event(post, route, route.match(post) or {}, NOW) for post in posted]
        parameters = {"site": HOST, "source": "cms"}
        deliveries = [Request(post.headers, post.body, path_parameters=parameters) for post in posted]
        function = stack.functions["ReceiveWebhook"]
        assert function.invoke(events[0]).payload["statusCode"] == 200
        handler, context = (
            function._load().lambda_handler,
            Context(function.name, function.memory_mib, function.timeout_s),
        )
        faked.enter_context(mock.patch.dict("os.environ", function.variables_set()))
        faked.enter_context(redirect_stdout(OUTPUT))
        rate = _measure_rate(lambda: [receive(delivery, NOW) for delivery in deliveries])
        handler_rate = _measure_rate(lambda: [handler(event, context) for event in events])
    assert len(sent) >= 2 * ROUNDS * REQUESTS
    return {"webhook": {"per_second": rate}, "more": {"webhook": {"handler_per_second": handler_rate}}}


def _measure_rate(work: Callable[[], Any]) -> float:
    times = []
    for _ in range(ROUNDS):
        began = time.process_time()
        work()
        times.append(time.process_time() - began)
    return round(REQUESTS / median(times))


def measure_startup(_quick: bool) -> dict[str, Any]:
    """Return the median milliseconds of fresh processes of COMMANDS. The first only fills the caches of files and is left out."""
    return {"more": {"startup_ms": {words: median([_run(words) for _ in range(ROUNDS + 1)][1:]) for words in COMMANDS}}}


def _run(words: str) -> float:
    began = time.perf_counter()
    subprocess.run([sys.executable, "-m", "stoppress_cli", *words.split()], check=True, capture_output=True)
    return round((time.perf_counter() - began) * 1_000, 1)
