"""Hubs (WebSub) that a scenario has: they take requests on loopback, ask back, and push what a step says.

They are reached as feeds are (`feeds_server`): the poller's door has checked scheme, port and address of the hub's URL before. Their
own requests go through the API of the stack, once the function that has asked them is done.
"""

import hmac
import threading
import urllib.parse
from collections.abc import Mapping
from dataclasses import dataclass, field

from stoppress_cli.local.gateway import Request

CHALLENGE = "as-random-as-it-has-to-be"
LEASE_S = 864_000
_METHODS = {"sha1", "sha256", "sha384", "sha512"}


@dataclass(frozen=True)
class Manner:
    """How a hub answers requests, and what it makes of them: it verifies them, denies them, or is never heard of again."""

    status: int = 202
    body: str = ""
    verifies: bool = True
    lease_s: int | None = LEASE_S
    denies: str | None = None


@dataclass
class _Subscriber:
    """Who has asked for a topic, as it was said last."""

    callback: str
    secret: str
    is_asked: bool = False  # whether the hub has still to ask back
    is_verified: bool = False


@dataclass(frozen=True)
class Question:
    """What a hub is about to ask, of which subscriber."""

    hub: str
    topic: str
    request: Request


@dataclass
class Hubs:
    """All hubs of a scenario, by their URL."""

    _manners: dict[str, Manner] = field(default_factory=dict)
    _subscribers: dict[tuple[str, str], _Subscriber] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def set(self, hub: str, manner: Manner) -> None:
        """From now on the hub does so."""
        with self._lock:
            self._manners[_name(hub)] = manner

    def take(self, hub: str, form: Mapping[str, str]) -> tuple[int, str]:
        """The answer to a request for a subscription: status and text."""
        with self._lock:
            manner = self._manners.get(_name(hub))
            if manner is None:
                return 404, "there is no hub here"
            if 200 <= manner.status < 300:
                known = self._subscribers.get((_name(hub), form["hub.topic"]))
                one = _Subscriber(form["hub.callback"], form["hub.secret"], is_asked=True)
                one.is_verified = bool(known and known.is_verified and known.callback == one.callback)
                self._subscribers[_name(hub), form["hub.topic"]] = one
            return manner.status, manner.body

    def questions(self) -> list[Question]:
        """What the hubs have to ask now; each is asked once."""
        found = []
        with self._lock:
            for (hub, topic), one in self._subscribers.items():
                manner = self._manners[hub]
                if one.is_asked and (manner.verifies or manner.denies is not None):
                    one.is_asked = False
                    lease = {} if manner.lease_s is None else {"hub.lease_seconds": str(manner.lease_s)}
                    said = {"hub.mode": "subscribe", "hub.challenge": CHALLENGE, **lease}
                    if manner.denies is not None:
                        said = {"hub.mode": "denied", "hub.reason": manner.denies}
                    found.append(Question(hub, topic, _asking(one, topic, said)))
        return found

    def question(self, hub: str, topic: str, said: Mapping[str, str]) -> Question | None:
        """A question of a step's own; None where nobody has asked for the topic."""
        one = self._subscribers.get((_name(hub), topic))
        return Question(_name(hub), topic, _asking(one, topic, {"hub.challenge": CHALLENGE, **said})) if one else None

    def heard(self, question: Question, status: int, body: bytes) -> None:
        """What the subscriber has answered."""
        if "hub.mode=subscribe" in question.request.query:
            confirmed = 200 <= status < 300 and body == CHALLENGE.encode()
            self._subscribers[question.hub, question.topic].is_verified = confirmed

    def subscribed(self, hub: str) -> list[str]:
        """The topics that somebody is subscribed to, as the hub knows it."""
        return [topic for (name, topic), one in self._subscribers.items() if name == _name(hub) and one.is_verified]

    def push(self, hub: str, topic: str, body: bytes, headers: Mapping[str, str], sign: str) -> Request | None:
        """A push to who has asked for the topic, verified or not; None where nobody has. `sign`: a method, `wrong` or `none`."""
        one = self._subscribers.get((_name(hub), topic))
        if one is None:
            return None
        secret = "another" if sign == "wrong" else one.secret
        method = sign if sign in _METHODS else "sha256"
        signature = f"{method}={hmac.new(secret.encode(), body, method).hexdigest()}"
        signed = {} if sign == "none" else {"x-hub-signature": signature}
        links = {"link": f'<{hub}>; rel="hub", <{topic}>; rel="self"'}
        return Request(
            "POST",
            _path(one.callback),
            headers={"content-type": "application/xml", **links, **headers, **signed},
            body=body,
        )


def _asking(one: _Subscriber, topic: str, said: Mapping[str, str]) -> Request:
    return Request("GET", _path(one.callback), urllib.parse.urlencode({"hub.topic": topic, **said}))


def _path(callback: str) -> str:
    return urllib.parse.urlsplit(callback).path


def _name(hub: str) -> str:
    """A hub's URL without its scheme: the server on loopback is not told which it was."""
    parts = urllib.parse.urlsplit(hub)
    return f"{parts.netloc.lower()}{parts.path or '/'}" + (f"?{parts.query}" if parts.query else "")
