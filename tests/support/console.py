"""Google's token end point, Search Console and IndexNow on loopback, as their documents say: each answer, slow and broken ones too.

The server has pages too.
"""

import json
import threading
from base64 import urlsafe_b64decode
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
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
    """The bytes of base64url without padding."""
    return urlsafe_b64decode(text + "=" * (-len(text) % 4))


@cache
def private_key() -> str:
    """A key in PEM, as in a JSON key of Google."""
    key = rsa.generate_private_key(public_exponent=65_537, key_size=2_048)
    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()


def json_key(**other: Any) -> str:
    """The JSON key of a service account, in the form of the file that Google's console makes."""
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


def _error(code: int, message: str, reason: str = "") -> bytes:
    """The error format of the Google APIs."""
    return json.dumps({"error": {"code": code, "message": message, "errors": [{"reason": reason}]}}).encode()


def _status(**other: Any) -> bytes:
    """An answer to an inspection, with the fields of its document."""
    status = {
        "verdict": "NEUTRAL",
        "coverageState": "URL is unknown to Google",
        "robotsTxtState": "ROBOTS_TXT_STATE_UNSPECIFIED",
        "indexingState": "INDEXING_STATE_UNSPECIFIED",
        "pageFetchState": "PAGE_FETCH_STATE_UNSPECIFIED",
    }
    link = "https://search.google.com/search-console/inspect?resource_id=https://www.example.com/"
    return json.dumps(
        {"inspectionResult": {"inspectionResultLink": link, "indexStatusResult": status | other}}
    ).encode()


def report(**other: Any) -> bytes:
    """A report on a sitemap, with the fields of its document; a `long` is a text."""
    document = {
        "path": "https://www.example.com/sitemap.xml",
        "lastSubmitted": "2026-11-20T08:00:00.123Z",
        "isPending": False,
        "isSitemapsIndex": True,
        "lastDownloaded": "2026-11-20T08:30:00.456Z",
        "warnings": "2",
        "errors": "0",
        "contents": [{"type": "web", "submitted": "120", "indexed": "0"}, {"type": "news", "submitted": "20"}],
    }
    return json.dumps(document | other).encode()


ANSWERS: dict[str, tuple[int, dict[str, str], bytes]] = {
    # Tokens: the documented answer, and errors of RFC 6749, 5.2, in Google's words.
    "token": (200, {}, json.dumps({"access_token": TOKEN, "scope": "…", "token_type": "Bearer", "expires_in": 3599}).encode()),
    "invalid grant": (400, {}, b'{"error":"invalid_grant","error_description":"Invalid JWT Signature."}'),
    "invalid client": (401, {}, b'{"error":"invalid_client","error_description":"The OAuth client was not found."}'),
    "no token": (200, {}, b'{"token_type":"Bearer"}'),
    # Sitemaps and inspections.
    "ok": (204, {}, b""),
    "report": (200, {}, report()),
    "report with errors": (200, {}, report(errors="3", lastDownloaded="2026-11-20T10:00:00Z")),
    "unknown page": (200, {}, _status()),
    "indexed": (
        200,
        {},
        _status(
            verdict="PASS",
            coverageState="Submitted and indexed",
            robotsTxtState="ALLOWED",
            lastCrawlTime="2026-11-20T08:04:30Z",
            googleCanonical="https://www.example.com/flood",
        ),
    ),
    "bad request": (400, {}, _error(400, "Request contains an invalid argument.", "badRequest")),
    "unauthorized": (401, {}, _error(401, "Request had invalid authentication credentials.", "authError")),
    "no user": (403, {}, _error(403, "User does not have sufficient permission for site 'https://www.example.com/'.", "forbidden")),
    "disabled": (403, {}, _error(403, "Search Console API has not been used in project 1 before or it is disabled.", "accessNotConfigured")),
    "quota": (403, {}, _error(403, "Quota exceeded.", "quotaExceeded")),
    "not found": (404, {}, _error(404, "'https://www.example.com/' is not a verified Search Console site.", "notFound")),
    "too many": (429, {"Retry-After": "300"}, _error(429, "Quota exceeded for quota metric.", "rateLimitExceeded")),
    "broken": (500, {}, b"<html>"),
    "overloaded": (503, {"Retry-After": "120"}, _error(503, "The service is currently unavailable.", "backendError")),
    "no json": (200, {}, b"<html>"),
    "no verdict": (200, {}, b'{"inspectionResult":{}}'),
    "moved": (307, {"Location": "https://elsewhere.example.net/"}, b""),
}  # fmt: skip
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
        """The URLs of all requests to IndexNow."""
        return [url for _, _, body in self.of("indexnow") for url in json.loads(body)["urlList"]]

    @property
    def inspected(self) -> list[str]:
        """The URLs of all inspections."""
        return [json.loads(body)["inspectionUrl"] for _, _, body in self.of("inspection")]


@contextmanager
def console() -> Iterator[Console]:
    """A running server, which stands for every host."""
    made = Console()

    class Handler(BaseHTTPRequestHandler):
        def _answer(self) -> None:
            if not self.headers["Host"].endswith(".googleapis.com") and self.command == "GET":
                made.paths.append(self.path)
                status = 404 if self.path == "/robots.txt" else 200
                status = status if made.pages is None else made.pages.get(self.path, 404)
                self._send(status, {"Content-Type": "text/html"}, b"<title>A story</title>")
                return
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            kind = _KINDS.get(self.path, self.command)
            headers = {name.lower(): value for name, value in self.headers.items()}
            made.requests.append((kind, f"https://{headers['host']}{self.path}", headers, body))
            answer = made.answers[kind].pop(0) if made.answers[kind] else _FIRST[kind]
            if answer == "slow":
                made.closing.wait(20)
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
    threading.Thread(target=server.serve_forever, args=(0.05,), daemon=True).start()

    def pool_to(*_: Any) -> urllib3.HTTPConnectionPool:
        return urllib3.HTTPConnectionPool("127.0.0.1", server.server_address[1])

    try:
        with mock.patch.object(address, "pool_to", pool_to):
            yield made
    finally:
        made.closing.set()
        server.shutdown()
        server.server_close()
