"""A web server on loopback that answers by path: the origin of nginx, or a publisher's site."""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

Answers = dict[str, tuple[int, dict[str, str], bytes]]


@contextmanager
def serving(
    answers: Mapping[str, tuple[int, dict[str, str], bytes]], received: list[dict[str, str]] | None = None
) -> Iterator[tuple[str, list[str]]]:
    """Serve the answers; yield the server's URL without a slash, and the paths of the requests as they come.

    `received` gets the headers of each request, their names in lower case.
    """
    paths: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            paths.append(self.path)
            if received is not None:
                received.append({name.lower(): value for name, value in self.headers.items()})
            status, headers, body = answers.get(self.path, (404, {}, b"not here"))
            self.send_response_only(status)
            for name, value in {"Content-Length": str(len(body)), **headers}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}", paths
        finally:
            server.shutdown()
            thread.join()
