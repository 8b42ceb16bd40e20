"""Shared code of the commands that serve: bind a port, read requests, and stop at Ctrl-C or SIGTERM."""

import errno
import os
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from wsgiref.types import WSGIApplication, WSGIEnvironment

from werkzeug.serving import BaseWSGIServer, WSGIRequestHandler, make_server

from stoppress.model.http_request import Request

# The Makefile sets this variable to the text that explains how to choose a port.
PORT_OPTION = "STOPPRESS_PORT_OPTION"


class PortInUse(OSError):
    """The port cannot be used."""


class ErrorHandler(WSGIRequestHandler):
    def log(self, type: str, message: str, *args: Any) -> None:
        if type == "error":
            super().log(type, message, *args)


def server_on(
    host: str, port: int, application: WSGIApplication, *, threaded: bool = False
) -> tuple[BaseWSGIServer, str]:
    """Return a server whose port is bound, and its URL. Port 0 takes any free port. Raises PortInUse."""
    listener = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
    except OSError as error:
        listener.close()
        another = f"{os.environ.get(PORT_OPTION, '--port ')}{8_001 if port == 8_000 else 8_000}"
        reason = "is in use" if error.errno == errno.EADDRINUSE else f"cannot be used: {error.strerror}"
        raise PortInUse(f"port {port} of {host} {reason}; free it, or give another: {another}") from None
    listener.listen(128)
    with listener:  # the server has a copy
        port = listener.getsockname()[1]
        handler, fd = ErrorHandler, listener.fileno()
        server = make_server(host, port, application, threaded=threaded, request_handler=handler, fd=fd)
    return server, f"http://{f'[{host}]' if ':' in host else host}:{port}/"


def request_of(environ: WSGIEnvironment) -> Request:
    headers = {
        name[5:].replace("_", "-").lower(): str(value) for name, value in environ.items() if name.startswith("HTTP_")
    }
    if environ.get("CONTENT_TYPE"):
        headers["content-type"] = environ["CONTENT_TYPE"]
    length = int(environ.get("CONTENT_LENGTH") or 0)
    stream = environ["wsgi.input"]
    # werkzeug sets `wsgi.input_terminated` for a chunked body, which has no length.
    body = stream.read(length) if length else stream.read() if environ.get("wsgi.input_terminated") else b""
    # The raw path: PATH_INFO is decoded already.
    path = str(environ.get("RAW_URI") or environ.get("REQUEST_URI") or environ.get("PATH_INFO", "/")).partition("?")[0]
    return Request(headers, body, str(environ["REQUEST_METHOD"]), path, str(environ.get("QUERY_STRING", "")))


@contextmanager
def until_interrupted() -> Iterator[None]:
    """Run the block until it returns. Ctrl-C and SIGTERM end it without an error."""
    # SIGINT too, because a shell starts background commands with SIGINT ignored.
    numbers = (signal.SIGTERM, signal.SIGINT) if threading.current_thread() is threading.main_thread() else ()
    before = {number: signal.signal(number, signal.default_int_handler) for number in numbers}
    try:
        yield
    except KeyboardInterrupt:
        pass
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
