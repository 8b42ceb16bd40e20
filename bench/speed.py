"""The number of webhooks that one core processes."""

import json
import time
from statistics import median
from typing import Any
from unittest import mock

from bench.newsroom import HOST, NOW, SECRET, SITE, Story, request
from stoppress.aws import queues, secrets, sites
from stoppress.model.http_request import Request
from stoppress.model.site import read_site
from stoppress.receive.webhook import receive

REQUESTS = 1_000
ROUNDS = 5


def measure_webhooks(_quick: bool) -> dict[str, Any]:
    """Return the deliveries that one core verifies, normalises and enqueues in a second, with the calls of AWS faked."""
    site = read_site(json.dumps(SITE), 1)
    requests = [
        request(Story(number, NOW).delivery("published", NOW), NOW, f"msg_{number}") for number in range(REQUESTS)
    ]
    parameters = {"site": HOST, "source": "cms"}
    deliveries = [Request(post.headers, post.body, path_parameters=parameters) for post in requests]
    sent: list[str] = []
    with (
        mock.patch.object(sites, "load", lambda *_arguments, **_more: site),  # noqa: PT008 - a mock takes longer
        mock.patch.object(secrets, "load", lambda *_name: [SECRET]),  # noqa: PT008 - the same
        mock.patch.object(queues, "send", lambda _url, messages, **_more: sent.extend(messages)),
        mock.patch.dict("os.environ", {"ARTICLES_QUEUE_URL": "", "SECRETS_PATH": ""}),
    ):
        times = []
        for _ in range(ROUNDS):
            began = time.process_time()
            for delivery in deliveries:
                receive(delivery, NOW)
            times.append(time.process_time() - began)
    assert len(sent) >= ROUNDS * REQUESTS
    return {"webhook": {"per_second": round(REQUESTS / median(times))}}
