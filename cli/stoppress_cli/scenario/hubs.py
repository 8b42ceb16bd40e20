"""The WebSub hubs of a scenario: they take subscription requests on loopback, verify them, and push.

They are reached like feeds (`feeds_server`), after stoppress.http has checked the hub's URL. Their own requests go through the
API of the stack, after the function that sent the subscription request has ended.
"""

import hmac
import threading
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from stoppress_cli.local.gateway import Request
from stoppress_cli.scenario.file import HubStep

CHALLENGE = "as-random-as-it-has-to-be"


@dataclass
class _Subscriber:
    """The last subscription request for a topic."""

    callback: str
    secret: str
    is_asked: bool = True  # whether the hub has yet to verify it
    is_verified: bool = False


@dataclass(frozen=True)
class Question:
    """A hub's verification request to the subscriber of a topic."""

    hub: str
    topic: str
    request: Request


@dataclass
class Hubs:
    """All hubs of a scenario, by their URL."""

    _manners: dict[str, HubStep] = field(default_factory=dict)
    _subscribers: dict[tuple[str, str], _Subscriber] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, hub: str, manner: HubStep) -> None:
        """Sets how the hub answers from now on, and whether it then verifies or denies requests, or does neither."""
        with self._lock:
            self._manners[_name(hub)] = manner

    def take(self, hub: str, form: Mapping[str, str]) -> tuple[int, str]:
        """Takes a subscription request; returns the status and text of the answer."""
        with self._lock:
            manner = self._manners.get(_name(hub))
            if manner is None:
                return 404, "there is no hub here"
            if 200 <= manner.status < 300:
                known = self._subscribers.get((_name(hub), form["hub.topic"]))
                subscriber = _Subscriber(form["hub.callback"], form["hub.secret"])
                subscriber.is_verified = bool(known and known.is_verified and known.callback == subscriber.callback)
                self._subscribers[_name(hub), form["hub.topic"]] = subscriber
            return manner.status, manner.body

    def questions(self) -> list[Question]:
        """The verification requests that are due; each is returned once."""
        questions = []
        with self._lock:
            for (hub, topic), subscriber in self._subscribers.items():
                manner = self._manners[hub]
                if subscriber.is_asked and (manner.verifies or manner.denies is not None):
                    subscriber.is_asked = False
                    lease = {} if manner.lease_s is None else {"hub.lease_seconds": str(manner.lease_s)}
                    parameters = {"hub.mode": "subscribe", "hub.challenge": CHALLENGE, **lease}
                    if manner.denies is not None:
                        parameters = {"hub.mode": "denied", "hub.reason": manner.denies}
                    questions.append(Question(hub, topic, _verification(subscriber, topic, parameters)))
        return questions

    def question(self, hub: str, topic: str, parameters: Mapping[str, str]) -> Question | None:
        """The request of a step with these parameters; None without a subscriber of the topic."""
        subscriber = self._subscribers.get((_name(hub), topic))
        if subscriber is None:
            return None
        return Question(_name(hub), topic, _verification(subscriber, topic, {"hub.challenge": CHALLENGE, **parameters}))

    def received(self, question: Question, status: int, body: bytes) -> None:
        """Records the subscriber's answer."""
        if "hub.mode=subscribe" in question.request.query:
            confirmed = 200 <= status < 300 and body == CHALLENGE.encode()
            self._subscribers[question.hub, question.topic].is_verified = confirmed

    def subscribed(self, hub: str) -> list[str]:
        """The topics with a verified subscriber."""
        own = ((topic, each) for (name, topic), each in self._subscribers.items() if name == _name(hub))
        return [topic for topic, subscriber in own if subscriber.is_verified]

    def push(self, hub: str, topic: str, body: bytes, headers: Mapping[str, str], sign: str) -> Request | None:
        """A push to the subscriber of a topic, verified or not; None without one. `sign`: a hash method, `wrong` or `none`."""
        subscriber = self._subscribers.get((_name(hub), topic))
        if subscriber is None:
            return None
        secret = "another" if sign == "wrong" else subscriber.secret
        method = "sha256" if sign in ("wrong", "none") else sign
        signature = f"{method}={hmac.new(secret.encode(), body, method).hexdigest()}"
        signed = {} if sign == "none" else {"x-hub-signature": signature}
        links = {"link": f'<{hub}>; rel="hub", <{topic}>; rel="self"'}
        return Request(
            "POST",
            _path(subscriber.callback),
            headers={"content-type": "application/xml", **links, **headers, **signed},
            body=body,
        )


def _verification(subscriber: _Subscriber, topic: str, parameters: Mapping[str, str]) -> Request:
    return Request("GET", _path(subscriber.callback), urllib.parse.urlencode({"hub.topic": topic, **parameters}))


def _path(callback: str) -> str:
    return urllib.parse.urlsplit(callback).path


def _name(hub: str) -> str:
    """A hub's URL without its scheme, which the server on loopback does not see."""
    parts = urllib.parse.urlsplit(hub)
    return f"{parts.netloc.lower()}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")
