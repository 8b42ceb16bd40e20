"""The WebSub hubs of a scenario: they receive subscription requests on loopback, verify them, and push.

They are reached like feeds (`feeds_server`), after stoppress.http has checked the hub's URL. Their own requests go through the
API of the stack, after the function that sent the subscription request has ended.
"""

import hmac
import re
import urllib.parse
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from stoppress.model.http_request import Request
from stoppress_cli.local.gateway import Answer
from stoppress_cli.scenario.file import HubStep, PushStep

CHALLENGE = "as-random-as-it-has-to-be"


@dataclass
class _Subscriber:
    """The last subscription request for a topic."""

    topic: str
    callback: str
    secret: str
    is_pending: bool = True  # the hub has not verified it yet
    is_verified: bool = False


class Hubs:
    """All hubs of a scenario, by their URL. Only one thread of the server at a time calls `subscribe`."""

    def __init__(self) -> None:
        self._steps: dict[str, HubStep] = {}
        self._subscribers: dict[tuple[str, str], _Subscriber] = {}  # by hub and topic

    def set(self, step: HubStep) -> None:
        """Set how the hub answers from now on, and whether it then verifies or denies requests, or does neither."""
        self._steps[without_scheme(step.hub)] = step

    def subscribe(self, hub: str, form: Mapping[str, str]) -> tuple[int, str]:
        """Handle a subscription request at a hub, whose URL has no scheme. Return the status and text of the answer."""
        step = self._steps.get(hub)
        if step is None:
            return 404, "there is no hub here"
        if 200 <= step.status < 300:
            before = self._subscribers.get((hub, form["hub.topic"]))
            subscriber = _Subscriber(form["hub.topic"], form["hub.callback"], form["hub.secret"])
            subscriber.is_verified = bool(before and before.is_verified and before.callback == subscriber.callback)
            self._subscribers[hub, subscriber.topic] = subscriber
        return step.status, step.body

    def subscriber(self, hub: str, topic: str) -> _Subscriber | None:
        """Return the last subscriber of a topic."""
        return self._subscribers.get((without_scheme(hub), topic))

    def verifications(self) -> list[tuple[_Subscriber, dict[str, Any]]]:
        """Return the subscribers to verify, and the parameters of the request to each; each is returned once."""
        requests: list[tuple[_Subscriber, dict[str, Any]]] = []
        for (hub, _), subscriber in self._subscribers.items():
            step = self._steps[hub]
            if subscriber.is_pending and step.denies is not None:
                requests.append((subscriber, {"hub.mode": "denied", "hub.reason": step.denies}))
            elif subscriber.is_pending and step.verifies:
                requests.append((subscriber, {"hub.mode": "subscribe", "hub.lease_seconds": step.lease_s}))
            else:
                continue
            subscriber.is_pending = False
        return requests

    def subscribed(self, hub: str) -> list[str]:
        """Return the topics with a verified subscriber."""
        name = without_scheme(hub)
        return [topic for (at, topic), last in self._subscribers.items() if at == name and last.is_verified]


def verify(subscriber: _Subscriber, parameters: Mapping[str, Any], send: Callable[[Request], Answer]) -> Answer:
    """Send a verification request with these parameters, and record the answer. A parameter without a value is left out."""
    fields = {"hub.topic": subscriber.topic, "hub.challenge": CHALLENGE, **parameters}
    query = urllib.parse.urlencode({name: value for name, value in fields.items() if value is not None})
    answer = send(Request(method="GET", path=_path(subscriber.callback), query=query))
    if parameters.get("hub.mode") == "subscribe":
        subscriber.is_verified = 200 <= answer.status < 300 and answer.body == CHALLENGE.encode()
    return answer


def push(subscriber: _Subscriber, step: PushStep) -> Request:
    """Return the push of a step to a subscriber, verified or not."""
    secret = "another" if step.sign == "wrong" else subscriber.secret
    method = "sha256" if step.sign in ("wrong", "none") else step.sign
    signature = f"{method}={hmac.new(secret.encode(), step.body, method).hexdigest()}"
    headers = {
        "content-type": "application/xml",
        "link": f'<{step.push}>; rel="hub", <{step.topic}>; rel="self"',
        **step.headers,
        **({} if step.sign == "none" else {"x-hub-signature": signature}),
    }
    return Request(headers, step.body, path=_path(subscriber.callback))


def _path(callback: str) -> str:
    return urllib.parse.urlsplit(callback).path


def without_scheme(url: str) -> str:
    """Return a URL without its scheme, which the server on loopback does not see, and without the port of a scheme."""
    parts = urllib.parse.urlsplit(url)
    host = re.sub(r":(80|443)?$", "", parts.netloc.lower())
    return f"{host}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")
