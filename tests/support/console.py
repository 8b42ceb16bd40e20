"""Google's token endpoint, Search Console, IndexNow and a publisher's pages on loopback, with every documented answer."""

import json
import threading
import tomllib
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from unittest import mock

import urllib3
from cryptography.hazmat.primitives.asymmetric import rsa
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

from stoppress.http import address
from tests.support import web

EMAIL = "stoppress@example-project.iam.gserviceaccount.com"
TOKEN = "ya29.a-token"


def decoded(text: str) -> bytes:
    """Return the bytes of base64url without padding."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@cache
def private_key() -> str:
    """Return a key in PEM, as in a JSON key of Google."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def json_key(**other: Any) -> str:
    """Return the JSON key of a service account, in the form of the file that Google's console creates."""
    return json.dumps(
        {
            "type": "service_account",
            "project_id": "example-project",
            "private_key_id": "0123456789abcdef",
            "private_key": private_key(),
            "client_email": EMAIL,
            "client_id": "123456789012345678901",
            "token_uri": "https://oauth2.googleapis.com/token",
        }
        | other,
        indent=2,
    )


ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    name: (answer["status"], answer.get("headers", {}), answer.get("body", "").encode())
    for name, answer in tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")).items()
}
_FIRST = {"token": "token", "PUT": "ok", "GET": "report", "inspection": "unknown page", "indexnow": "ok"}
_KINDS = {"/token": "token", "/v1/urlInspection/index:inspect": "inspection", "/indexnow": "indexnow"}


@dataclass
class Console:
    """The server. `answers` has the names of the next answers by kind: token, PUT, GET, inspection, indexnow.

    `requests` have kind, URL, headers and body. `pages` are the statuses of pages by path; None: every page is there. `paths` are
    those of the pages that were fetched.
    """

    pages: dict[str, int] | None = None
    paths: list[str] = field(default_factory=list)

    answers: dict[str, list[str]] = field(default_factory=lambda: {kind: [] for kind in _FIRST})
    requests: list[tuple[str, str, dict[str, str], bytes]] = field(default_factory=list)
    closing: threading.Event = field(default_factory=threading.Event)

    def of(self, kind: str) -> list[tuple[str, dict[str, str], bytes]]:
        return [request[1:] for request in self.requests if request[0] == kind]

    @property
    def notified(self) -> list[str]:
        """Return the URLs of all requests to IndexNow."""
        return [url for _, _, body in self.of("indexnow") for url in json.loads(body)["urlList"]]

    @property
    def inspected(self) -> list[str]:
        return [json.loads(body)["inspectionUrl"] for _, _, body in self.of("inspection")]


@contextmanager
def console() -> Iterator[Console]:
    """Yield a running server to which all hosts resolve."""
    state = Console()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            if not self.headers["Host"].endswith(".googleapis.com") and self.command == "GET":
                state.paths.append(self.path)
                status = 404 if self.path == "/robots.txt" else 200
                status = status if state.pages is None else state.pages.get(self.path, 404)
                self._send(status, {"Content-Type": "text/html"}, b"<title>A story</title>")
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kind = _KINDS.get(self.path, self.command)
            headers = {name.lower(): value for name, value in self.headers.items()}
            state.requests.append((kind, f"https://{headers['host']}{self.path}", headers, body))
            answer = state.answers[kind].pop(0) if state.answers[kind] else _FIRST[kind]
            if answer == "slow":
                state.closing.wait(20)
                return
            if answer == "cut":
                self.connection.close()
                return
            self._send(*(web.ANSWERS if kind == "indexnow" else ANSWERS)[answer])

        def _send(self, status: int, headers: dict[str, str], content: bytes) -> None:
            self.send_response(status)
            for name, value in {**headers, "Content-Length": str(len(content))}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(content)

        def log_message(self, *_: Any) -> None:
            pass

        do_GET = do_POST = do_PUT = _answer  # noqa: N815 - the names of the base class

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()

    def pool_to(*_: Any) -> urllib3.HTTPConnectionPool:
        return urllib3.HTTPConnectionPool("127.0.0.1", server.server_address[1])

    try:
        with mock.patch.object(address, "pool_to", pool_to):
            yield state
    finally:
        state.closing.set()
        server.shutdown()
        server.server_close()
