"""A server on loopback for the feeds of a scenario. Its answers may be slow, cut off or wrongly compressed.

Only the last step of a fetch is replaced: stoppress.http looks the name up (here in the scenario) and checks scheme,
port and every address. Then its connection goes to this server.
"""

import socket
import threading
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from http import HTTPStatus
from typing import Any
from unittest import mock
from urllib.parse import parse_qsl, urlsplit
from wsgiref.types import StartResponse, WSGIEnvironment

import urllib3
from werkzeug.wrappers import Response

from stoppress.http import address, client
from stoppress_cli.scenario.file import FeedAnswer
from stoppress_cli.scenario.hubs import Hubs, without_scheme
from stoppress_cli.serving import request_of, server_on

# The answer of a feed without a step. Not 304, which would be an error for a request without validators.
EMPTY = b'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>Nothing yet</title></channel></rss>'

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}
_PLAIN_PORTS = {80, 443}
# Address of a name without addresses in the scenario: public, and never connected to.
_PUBLIC_ADDRESS = "93.184.215.14"
# Factor by which slow answers, and the poller's time-outs, are shortened.
TIMES_AS_FAST = 20

_NOTHING_YET = FeedAnswer(headers={"content-type": "application/rss+xml"}, body=EMPTY)


class FeedServer:
    """A server thread on 127.0.0.1; `set` sets the answer of a URL. The URL's scheme does not matter."""

    def __init__(self) -> None:
        self._answers: dict[str, FeedAnswer] = {}
        self._addresses: dict[str, tuple[str, ...]] = {}
        self._server, _ = server_on("127.0.0.1", 0, self._answer, threaded=True)
        self.port = self._server.port
        self._open = ExitStack()
        self._is_fast = False
        self._lock = threading.Lock()
        self.hubs = Hubs()
        self._requests: Counter[str] = Counter()
        self.ending = threading.Event()

    def requests_for(self, url: str) -> int:
        return self._requests[without_scheme(url)]

    def set(self, url: str, answer: FeedAnswer) -> None:
        """Set the answer of `url` from now on."""
        self._answers[without_scheme(url)] = answer
        if answer.addresses:
            self._addresses[urlsplit(url).hostname or ""] = tuple(map(str, answer.addresses))
        if (answer.delay_s or answer.drip_s) and not self._is_fast:
            self._is_fast = True
            for name in ("CONNECT_SECONDS_MAX", "FETCH_SECONDS_MAX"):
                self._open.enter_context(mock.patch.object(client, name, getattr(client, name) / TIMES_AS_FAST))

    def _answer(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        request = request_of(environ)
        path = f"//{request.headers.get('host', '')}{request.path}"
        key = without_scheme(f"{path}?{request.query}")
        if request.method == "POST":
            self._count(key)
            with self._lock:
                status, text = self.hubs.subscribe(key, dict(parse_qsl(request.body.decode())))
            return Response(text, status)(environ, start_response)
        # The answer of the URL, else of the URL without its query. A URL without a step is a feed without entries.
        if key not in self._answers:
            key = without_scheme(path)
        number = self._count(key)
        answer = self._answers.get(key, _NOTHING_YET)
        self.ending.wait(answer.delay_s / TIMES_AS_FAST)
        body = answer.sent()
        response = Response(self._drip(body, answer.drip_s), answer.status, answer.headers)
        if "content-type" not in answer.headers:
            response.headers.pop("content-type")
        if answer.gzip or answer.bomb_bytes:
            response.headers["content-encoding"] = "gzip"
        response.headers["content-length"] = str(len(body) if answer.length is None else answer.length)
        if answer.changing_etag:
            response.headers["etag"] = f'"{number}"'
        elif answer.status == HTTPStatus.OK and (
            "if-none-match" in request.headers  # a date has to be the same, as many servers demand
            or request.headers.get("if-modified-since") == answer.headers.get("last-modified")
        ):
            response.make_conditional(environ)
        return response(environ, start_response)

    def _count(self, key: str) -> int:
        with self._lock:
            self._requests[key] += 1
            return self._requests[key]

    def _drip(self, body: bytes, pause_s: float) -> Iterator[bytes]:
        """Yield the body whole, or byte by byte with pauses."""
        for part in (bytes([byte]) for byte in body) if pause_s else [body]:
            yield part
            if self.ending.wait(pause_s / TIMES_AS_FAST):
                return

    def look_up(self, host: str, port: int, **_: Any) -> list[tuple[Any, ...]]:
        """Return the addresses of a host as `socket.getaddrinfo` does, which reads numbers: 10.0.0.1, 167772161, 0x7f.1, ::1."""
        addresses = self._addresses.get(host, (host if ":" in host else _PUBLIC_ADDRESS,))
        with suppress(OSError):
            addresses = (socket.inet_ntoa(socket.inet_aton(host)),)
        return [(0, 0, 0, "", (number, port)) for number in addresses]

    @contextmanager
    def running(self) -> Iterator["FeedServer"]:
        """Serve while the block runs, and take the poller's connections."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            with self._open, _connect_pools(self.port, self.look_up):
                yield self
        finally:
            self.ending.set()
            self._server.shutdown()
            self._server.server_close()
            thread.join()


@contextmanager
def _connect_pools(port: int, look_up: Callable[..., list[tuple[Any, ...]]]) -> Iterator[None]:
    """Make stoppress.http use this resolver, and connect its permitted requests to this server."""
    check = address.pool_to

    def pool_to(scheme: str, host: str, other_port: int) -> Any:
        if host in _LOOPBACK and other_port not in _PLAIN_PORTS:  # a server that the user runs on this machine
            return urllib3.HTTPConnectionPool("127.0.0.1", other_port)
        check(scheme, host, other_port, look_up)
        return urllib3.HTTPConnectionPool("127.0.0.1", port)

    with mock.patch.object(address, "pool_to", pool_to):
        yield
