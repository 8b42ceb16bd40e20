"""Feeds on loopback: answers for the feed URLs of a scenario, and the door that leads the poller there."""

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from typing import Any
from unittest import mock
from urllib.parse import urlsplit

# What a feed answers before any step has spoken of it. Not 304: to a request without validators that would be an error.
EMPTY = b'<?xml version="1.0" encoding="utf-8"?><rss version="2.0"><channel><title>Nothing yet</title></channel></rss>'

_LOOPBACK = {"127.0.0.1", "localhost", "::1"}


@dataclass(frozen=True)
class FeedAnswer:
    """What a feed's URL answers; header names are lower case."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    body: bytes = b""

    def to(self, request: Mapping[str, str]) -> "FeedAnswer":
        """The answer to a request with these headers (lower case): 304 where its validators still hold."""
        if self.status != 200:
            return self
        if (asked := request.get("if-none-match")) is not None:
            tags = {tag.strip().removeprefix("W/") for tag in asked.split(",")}
            same = self.headers.get("etag", "").removeprefix("W/") in tags
        else:
            since = request.get("if-modified-since")
            same = since is not None and since == self.headers.get("last-modified")
        if not same:
            return self
        kept = {name: value for name, value in self.headers.items() if name not in ("content-length", "content-type")}
        return FeedAnswer(304, kept)


_NOTHING_YET = FeedAnswer(200, {"content-type": "application/rss+xml"}, EMPTY)


class FeedServer:
    """A server thread on 127.0.0.1; `set` says what a URL answers. The URL's scheme does not matter."""

    def __init__(self) -> None:
        self._answers: dict[tuple[str, str], FeedAnswer] = {}
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self.answer))
        self._server.daemon_threads = True
        self.requests = 0

    @property
    def port(self) -> int:
        return int(self._server.server_address[1])

    def set(self, url: str, answer: FeedAnswer) -> None:
        """From now on `url` answers so."""
        self._answers[_key(urlsplit(url).netloc, url)] = answer

    def answer(self, host: str, path: str, headers: Mapping[str, str]) -> FeedAnswer:
        """What (host, path?query) answers. A URL that no step has spoken of is a feed without entries."""
        self.requests += 1
        found = self._answers.get(_key(host, path))
        return (found or _NOTHING_YET).to(headers)

    @contextmanager
    def running(self) -> Iterator["FeedServer"]:
        """Serves while the block runs, and is where the poller's connections go."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            with _pools_led_to(self.port):
                yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


def _key(host: str, url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    name, _, port = host.lower().partition(":")
    host = name if port in ("", "80", "443") else f"{name}:{port}"
    return host, (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


@contextmanager
def _pools_led_to(port: int) -> Iterator[None]:
    """Replaces the poller's HTTP door, which in production resolves, checks and pins addresses."""
    try:
        web = import_module("stoppress.web")
    except ModuleNotFoundError:  # a template whose layer polls nothing
        yield
        return
    import urllib3

    def pool_to(scheme: str, host: str, other_port: int | None = None) -> Any:
        own = host in _LOOPBACK and other_port is not None
        return urllib3.HTTPConnectionPool("127.0.0.1", other_port if own else port)

    with mock.patch.object(web, "pool_to", pool_to):
        yield


def _handler(answer: Callable[[str, str, Mapping[str, str]], FeedAnswer]) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            headers = {name.lower(): value for name, value in self.headers.items()}
            found = answer(headers.get("host", ""), self.path, headers)
            self.send_response(found.status)
            for name, value in found.headers.items():
                if name != "content-length":
                    self.send_header(name, value)
            if found.status not in (204, 304):
                self.send_header("content-length", str(len(found.body)))
            self.end_headers()
            if found.status not in (204, 304):
                self.wfile.write(found.body)

        def log_message(self, format: str, *args: Any) -> None:
            """Says nothing: the player prints the steps."""

    return Handler
