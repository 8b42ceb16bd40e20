"""Serves a stack on one port: the sites' files, the HTTP API, moto as the AWS endpoint, and a form that moves the clock."""

import re
import threading
import traceback
from collections.abc import Callable, Iterable, Mapping
from datetime import timedelta
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import parse_qs, urlsplit
from wsgiref.types import StartResponse, WSGIEnvironment

from botocore.exceptions import ClientError
from jinja2 import Template
from werkzeug.wrappers import Response

from stoppress.aws import sites
from stoppress.model.http_request import Request
from stoppress.show.read_page import PAGE_SECRET, page_token
from stoppress_cli.local.gateway import Answer, plain
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.wire import LOCK
from stoppress_cli.serving import request_of, server_on, until_interrupted

TICK_S = 1.0
# How far a button of the first page moves the clock, in hours.
CLOCK_HOURS = ("1", "12", "48")

# Headers of S3 that a file is served with.
_KEPT = re.compile(r"content-type|content-encoding|cache-control|etag|last-modified|x-amz-(meta-.*|version-id)")


class Server:
    """Bind the port immediately (raises PortInUse). `serve` runs until Ctrl-C or SIGTERM."""

    def __init__(self, stack: Stack, host: str, port: int) -> None:
        self._stack = stack
        # Held while the stack delivers. HTTP requests do not wait for this lock: their functions run between those that
        # the deliveries call. moto has its own lock, so that files are served while a function waits for a slow feed.
        self._drive = threading.Lock()
        self._wake = threading.Event()
        self._ending = threading.Event()
        self._aws: Callable[..., Iterable[bytes]] | None = None
        self._server, self.url = server_on(host, port, self._application, threaded=True)

    def serve(self) -> None:
        """Serve. The clock is the machine's from now on."""
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
        """Return the addresses of the sites' pages; none if the stack has no secret for them (parameter `StatusPage`)."""
        client, name = self._stack.client("secretsmanager"), f"{self._stack.variable('SECRETS_PATH')}/{PAGE_SECRET}"
        try:
            secret = client.get_secret_value(SecretId=name)["SecretString"].split()[0]
        except ClientError:
            return []
        with self._stack.as_operator():
            return [f"{self.url}sites/{host}/{page_token(secret, host)}" for host in sites.hosts()]

    def stop(self) -> None:
        """Make `serve` return, from another thread."""
        self._server.shutdown()

    def close(self) -> None:
        self._server.server_close()

    def _tick(self) -> None:
        """Deliver each second, and immediately after a request."""
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
        authorization, query = (str(environ.get(name, "")) for name in ("HTTP_AUTHORIZATION", "QUERY_STRING"))
        if authorization.startswith("AWS4-") or "X-Amz-Signature=" in query:
            return self._aws_endpoint(environ, start_response)
        request = request_of(environ)
        if request.method == "POST" and request.path == "/clock":
            answer = self._move_clock(request)
        elif any(route.match(request) is not None for route in self._stack.sources.routes):
            answer = self._stack.request(request)
            self._wake.set()
        elif request.method in ("GET", "HEAD"):
            response = self._file(request).make_conditional(environ)
            response.headers.pop("date", None)  # the server sends one
            return response(environ, start_response)
        else:
            answer = plain(404, "Not Found")
        return Response(answer.body, answer.status, answer.headers)(environ, start_response)

    def _move_clock(self, request: Request) -> Answer:
        """Move the clock as the form of the first page requests, let the stack come to rest, and redirect to that page."""
        if not _is_own(request.headers):
            return plain(403, "A form is accepted only from a page of this server.")
        hours = parse_qs(request.body.decode(errors="replace")).get("hours", [""])[0]
        if hours not in CLOCK_HOURS:
            return plain(400, f"hours: give one of {', '.join(CLOCK_HOURS)}.")
        with self._drive:
            clock = self._stack.clock
            clock.move(clock.now() + timedelta(hours=int(hours)), runs=True)
            self._stack.come_due()
        return Answer(303, {"location": "/", "cache-control": "no-store"}, b"")

    def _aws_endpoint(self, environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
        with LOCK:
            if self._aws is None:
                from moto.server import DomainDispatcherApplication, create_backend_app

                self._aws = DomainDispatcherApplication(create_backend_app)
            answer = list(self._aws(environ, start_response))
        self._wake.set()
        return answer

    # ── files ───────────────────────────────────────────────────────────────────────────────────

    def _file(self, request: Request) -> Response:
        client, bucket = self._stack.client("s3"), self._stack.only("AWS::S3::Bucket").ref
        pages = client.get_paginator("list_objects_v2").paginate(Bucket=bucket)
        keys = [row["Key"] for page in pages for row in page.get("Contents", [])]
        hosts = sorted({key.partition("/")[0] for key in keys})
        name = request.path.lstrip("/")
        if not name:
            return Response(_home(keys, self.pages()), mimetype="text/html")
        requested = request.headers.get("host", "").partition(":")[0]
        own = requested if requested in hosts else hosts[0] if hosts else ""
        try:
            stored = client.get_object(Bucket=bucket, Key=name if name in keys else f"{own}/{name}")
        except ClientError:
            return Response(f"no file {name} of {own or 'any site'}\n", 404, mimetype="text/plain")
        headers = stored["ResponseMetadata"]["HTTPHeaders"].items()
        return Response(stored["Body"].read(), headers=[pair for pair in headers if _KEPT.fullmatch(pair[0])])


def _home(keys: list[str], pages: list[str]) -> str:
    """Return the list of files: a link to each site's page for editors and to its files, and the form that moves the clock."""
    template = Template(Path(__file__).with_name("home.html").read_text(encoding="utf-8"), autoescape=True)
    files = [key.partition("/") for key in sorted(keys)]
    page: str = template.render(files=files, pages=pages, clock_hours=CLOCK_HOURS)
    return page


def _is_own(headers: Mapping[str, str]) -> bool:
    """Return True if a page of this server sent the form.

    The origin must be the server, and the server's name an IP address or `localhost`: anyone can let another name point
    to this machine.
    """
    host = headers.get("host", "")
    try:
        name = urlsplit(f"http://{host}").hostname or ""
        if name != "localhost":
            ip_address(name)
    except ValueError:
        return False
    return headers.get("origin") == f"http://{host}"
