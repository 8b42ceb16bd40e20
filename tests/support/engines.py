"""An engine on loopback: a server that answers as its documentation says, or slowly, or not at all.

It serves pages too.
"""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from unittest import mock

import urllib3

from stoppress.http import address

# indexnow.org/documentation: the answers. Those to 403 are what Bing sends, in its words.
ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    "ok": (200, {}, b""),
    "accepted": (202, {}, b""),
    "bad request": (400, {}, b'{"code":"InvalidRequestParameters","message":"..."}'),
    "key not found": (403, {}, b'{"code":"KeyNotFound","message":"..."}'),
    "verification": (403, {}, b'{"code":"SiteVerificationNotCompleted","message":"..."}'),
    "unprocessable": (422, {}, b'{"code":"UrlListHasInvalidUrl","message":"..."}'),
    "too many": (429, {"Retry-After": "30"}, b""),
    "broken": (500, {}, b"<html>"),
    "overloaded": (503, {"Retry-After": "120"}, b""),
}


@dataclass
class Engine:
    """The server. `answers` are the names of the next answers, then `ok`. `requests` have path, headers and body.

    `pages` are the statuses of pages by path. Other pages answer 404. `paths` are those of the pages that were fetched.
    """

    pages: dict[str, int] = field(default_factory=dict)
    paths: list[str] = field(default_factory=list)
    answers: list[str] = field(default_factory=list)
    requests: list[tuple[str, dict[str, str], bytes]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    @property
    def urls(self) -> list[str]:
        """The URLs of all requests."""
        return [url for _, _, body in self.requests for url in json.loads(body)["urlList"]]


class Answering(BaseHTTPRequestHandler):
    """A request to a server on loopback."""

    def answer(self, status: int, headers: dict[str, str], content: bytes) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        pass


@contextmanager
def on_loopback(handler: type[Answering], closing: threading.Event) -> Iterator[None]:
    """Runs a server that stands for every host. `closing` is set at the end."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def pool_to(*_: Any) -> urllib3.HTTPConnectionPool:
        return urllib3.HTTPConnectionPool("127.0.0.1", server.server_address[1])

    try:
        with mock.patch.object(address, "pool_to", pool_to):
            yield
    finally:
        closing.set()
        server.shutdown()
        server.server_close()


@contextmanager
def engine() -> Iterator[Engine]:
    """A running server, which stands for every host."""
    made = Engine()

    class Handler(Answering):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.requests.append((self.path, {name.lower(): value for name, value in self.headers.items()}, body))
            answer = made.answers.pop(0) if made.answers else "ok"
            if answer == "slow":
                made.closing.wait(20)
                return
            if answer == "cut":
                self.connection.close()
                return
            self.answer(*ANSWERS[answer])

        def do_GET(self) -> None:
            made.paths.append(self.path)
            self.answer(made.pages.get(self.path, 404), {"Content-Type": "text/html"}, b"<title>A story</title>")

    with on_loopback(Handler, made.closing):
        yield made
