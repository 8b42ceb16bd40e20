"""Serves a stack on one port: the sites' files, the HTTP API, and moto as the AWS endpoint."""

import html
import re
import threading
import traceback
from collections.abc import Callable, Iterable
from wsgiref.types import StartResponse, WSGIEnvironment

from botocore.exceptions import ClientError
from werkzeug.http import is_resource_modified
from werkzeug.serving import make_server

from stoppress_cli.local.gateway import Answer, Request
from stoppress_cli.local.panel import Panel
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.wire import LOCK, uncounted
from stoppress_cli.serving import QuietHandler, listener_on, request_of, until_interrupted

TICK_S = 1.0

_REASONS = {200: "OK", 303: "See Other", 304: "Not Modified", 404: "Not Found"}
# Headers of S3 that a file is served with.
_KEPT = re.compile(r"content-type|content-encoding|cache-control|etag|last-modified|x-amz-(meta-.*|version-id)")


class Server:
    """Binds the port at once (raises PortInUse). `serve` runs until Ctrl-C or SIGTERM."""

    def __init__(self, stack: Stack, host: str, port: int) -> None:
        self._stack = stack
        self._panel = Panel(stack)
        # Held while the stack delivers. HTTP requests do not wait for this lock: their functions run between those that
        # the deliveries call. moto has its own lock, so that files are served while a function waits for a slow feed.
        self._drive = threading.Lock()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._aws: Callable[..., Iterable[bytes]] | None = None
        self._listener, self.url = listener_on(host, port)
        self._server = make_server(
            host,
            self._listener.getsockname()[1],
            self._application,
            threaded=True,
            request_handler=QuietHandler,
            fd=self._listener.fileno(),
        )

    def serve(self) -> None:
        """Serves. The clock is the machine's from now on."""
        self._stack.clock.release()
        ticker = threading.Thread(target=self._tick, daemon=True)
        ticker.start()
        try:
            with until_interrupted():
                self._server.serve_forever()
        finally:
            self._ending.set()
            self._wake.set()
            ticker.join()
            self.close()

    def pages(self) -> list[str]:
        """The addresses of the sites' pages."""
        with uncounted():
            return self._panel.addresses(self.url)

    def stop(self) -> None:
        """Makes `serve` return, from another thread."""
        self._server.shutdown()

    def close(self) -> None:
        """Releases the port."""
        self._server.server_close()
        self._listener.close()

    def _tick(self) -> None:
        """Delivers each second, and at once after a request."""
        while not self._ending.is_set():
            self._wake.wait(TICK_S)
            self._wake.clear()
            if self._ending.is_set():
                return
            with self._drive:
                try:
                    self._stack.come_due()
                except Exception:  # noqa: BLE001 - the user sees the error, and the next second tries again
                    traceback.print_exc()

    def _application(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        if _signed_for_aws(environ):
            return self._aws_endpoint(environ, start_response)
        request = request_of(environ)
        if self._panel.takes(request):
            with self._drive:
                answer = self._panel.answer(request)
        elif any(route.match(request) is not None for route in self._stack.sources.routes):
            answer = self._stack.request(request)
            with uncounted():
                answer = self._panel.extended(request, answer)
            self._wake.set()
        elif request.method in ("GET", "HEAD"):
            answer = self._file(request)
        else:
            answer = Answer(404, {"content-type": "application/json"}, b'{"message":"Not Found"}')
        headers = [*answer.headers.items(), ("content-length", str(len(answer.body)))]
        if answer.status == 304:
            headers = list(answer.headers.items())
        start_response(f"{answer.status} {_REASONS.get(answer.status, '')}", headers)
        return [] if request.method == "HEAD" or answer.status == 304 else [answer.body]

    def _aws_endpoint(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with LOCK:
            if self._aws is None:
                from moto.server import DomainDispatcherApplication, create_backend_app

                self._aws = DomainDispatcherApplication(create_backend_app)
            answer = list(self._aws(environ, start_response))
        self._wake.set()
        return answer

    # ── files ───────────────────────────────────────────────────────────────────────────────────

    def _file(self, request: Request) -> Answer:
        with uncounted():
            client, bucket = self._stack.client("s3"), self._stack.only("AWS::S3::Bucket").ref
            pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
            keys = [row["Key"] for page in pages for row in page.get("Contents", [])]
            hosts = sorted({key.partition("/")[0] for key in keys})
            name = request.path.lstrip("/")
            if not name:
                return _home(keys)
            requested = request.headers.get("host", "").partition(":")[0]
            own = requested if requested in hosts else hosts[0] if hosts else ""
            key = name if name in keys else f"{own}/{name}"
            try:
                stored = client.get_object(Bucket=bucket, Key=key)
            except ClientError:
                return Answer(404, {"content-type": "text/plain"}, f"no file {name} of {own or 'any site'}\n".encode())
            given = stored["ResponseMetadata"]["HTTPHeaders"]
            headers = {name: given[name] for name in given if _KEPT.fullmatch(name)}
            if not is_resource_modified(_conditions(request), given["etag"], last_modified=given["last-modified"]):
                return Answer(304, headers, b"")
            return Answer(200, headers, stored["Body"].read())


def _conditions(request: Request) -> WSGIEnvironment:
    """The conditional headers of a request, in the form that werkzeug reads."""
    given = {name: request.headers.get(name) for name in ("if-none-match", "if-modified-since")}
    return {f"HTTP_{name.upper().replace('-', '_')}": value for name, value in given.items() if value} | {
        "REQUEST_METHOD": request.method
    }


def _home(keys: list[str]) -> Answer:
    rows = []
    for host in sorted({key.partition("/")[0] for key in keys}):
        names = (html.escape(key) for key in keys if key.startswith(f"{host}/"))
        links = "".join(f'<li><a href="/{name}">{name.partition("/")[2]}</a></li>' for name in names)
        rows.append(f"<h2>{html.escape(host)}</h2><ul>{links}</ul>")
    text = "".join(rows) or "<p>No site has files yet.</p>"
    page = f'<!doctype html><html lang="en"><meta charset="utf-8"><title>Stoppress</title><h1>Stoppress</h1>{text}</html>\n'
    return Answer(200, {"content-type": "text/html; charset=utf-8"}, page.encode())


def _signed_for_aws(environ: WSGIEnvironment) -> bool:
    authorization = str(environ.get("HTTP_AUTHORIZATION", ""))
    return authorization.startswith("AWS4-") or "X-Amz-Signature=" in str(environ.get("QUERY_STRING", ""))
