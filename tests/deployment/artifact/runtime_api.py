"""The Lambda Runtime API on loopback, a function in its own process that uses it, and the AWS that the function calls.

https://docs.aws.amazon.com/lambda/latest/dg/runtimes-api.html: the runtime requests the next invocation, and posts its result.
"""

import json
import queue
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from stoppress_cli.local.lambda_functions import Function
from stoppress_cli.local.server import Server
from stoppress_cli.local.stack import Stack
from tests.deployment.artifact import builds

BOOTSTRAP = Path(__file__).with_name("bootstrap.py")
VERSION = "/2018-06-01/runtime"
# Far more than any function takes: only a hanging run reaches it.
HANGS_S = 600.0


@dataclass(frozen=True)
class Answer:
    """A post of the runtime: to `response`, `error` (of one invocation) or `init/error` (the function did not start)."""

    kind: str
    payload: Any


class _Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore a runtime that was killed while it waited for its next invocation."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


class RuntimeApi:
    """One function's Runtime API. Put invocations into `events`, and get the results from `answers`."""

    def __init__(self) -> None:
        self.events: queue.Queue[tuple[Any, str, int]] = queue.Queue()
        self.answers: queue.Queue[Answer] = queue.Queue()
        self._server = _Server(("127.0.0.1", 0), _handler(self))
        self.address = f"127.0.0.1:{self._server.server_address[1]}"

    @contextmanager
    def running(self) -> Iterator["RuntimeApi"]:
        """Serve while the block runs."""
        thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
        thread.start()
        try:
            yield self
        finally:
            self._server.shutdown()
            self._server.server_close()
            thread.join()


class Environment:
    """An execution environment: the process of one function, and the API that invokes it."""

    def __init__(self, api: RuntimeApi, process: subprocess.Popen[bytes], log: Path, function: Function) -> None:
        self._api, self._process, self._log, self._function = api, process, log, function

    def invoke(self, event: Any) -> Answer:
        """Return the function's answer, which may be an error. Fail if the process ends without an answer."""
        self._api.events.put((event, self._function.arn, self._function.timeout_s))
        waited_until = time.monotonic() + HANGS_S
        while True:
            try:
                return self._api.answers.get(timeout=0.05 if self._process.poll() is None else 0)
            except queue.Empty:
                ended = self._process.poll()
                assert time.monotonic() < waited_until, f"no answer in {HANGS_S:.0f} s; it printed:\n{self.log()}"
                assert ended is None or not self._api.answers.empty(), f"ended with {ended}, it printed:\n{self.log()}"

    def log(self) -> str:
        """Return the complete output of the process."""
        return self._log.read_text(encoding="utf-8", errors="replace")


@contextmanager
def started(
    function: Function,
    folders: list[Path],
    log: Path,
    variables: Mapping[str, str],
    *,
    handler: str,
    feeds_port: int = 0,
) -> Iterator[Environment]:
    """Start a function's process with only these folders on its path; `variables` are added to Lambda's."""
    with RuntimeApi().running() as api, log.open("wb") as output:
        process = subprocess.Popen(  # noqa: S603 - our own build
            [builds.python(), "-I", "-S", "-B", str(BOOTSTRAP), handler, str(feeds_port), *map(str, folders)],
            cwd=folders[0],
            env={
                **function.variables_set(),
                "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13",
                "AWS_LAMBDA_RUNTIME_API": api.address,
                "LAMBDA_TASK_ROOT": str(folders[0]),
                "LANG": "en_US.UTF-8",
                "TZ": ":UTC",
                "_HANDLER": handler,
                **variables,
            },
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
        )
        try:
            yield Environment(api, process, log, function)
        finally:
            process.kill()
            process.wait()


@contextmanager
def aws_of(stack: Stack) -> Iterator[dict[str, str]]:
    """Serve the stack's AWS on loopback and yield its environment variables. Nothing in the stack runs by itself."""
    server = Server(stack, "127.0.0.1", 0)
    # `serve` would also deliver events, to the functions of this process instead of the built ones.
    thread = threading.Thread(target=server._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield {
            "AWS_ENDPOINT_URL": server.url.rstrip("/"),
            "AWS_ACCESS_KEY_ID": "testing",
            "AWS_SECRET_ACCESS_KEY": "testing",
            "AWS_SESSION_TOKEN": "testing",
        }
    finally:
        server.stop()
        thread.join()
        server.close()


def _handler(api: RuntimeApi) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            """Answer GET …/invocation/next, when there is an invocation."""
            event, arn, timeout_s = api.events.get()
            headers = {
                "Lambda-Runtime-Aws-Request-Id": str(uuid.uuid4()),
                "Lambda-Runtime-Deadline-Ms": str(int((time.time() + timeout_s) * 1000)),
                "Lambda-Runtime-Invoked-Function-Arn": arn,
                "Lambda-Runtime-Trace-Id": "Root=1-6afea180-5759e988bd862e3fe1be46a9;Sampled=0",
            }
            self._answer(200, headers, json.dumps(event).encode())

        def do_POST(self) -> None:
            """Accept POST …/invocation/<id>/response, …/error and …/init/error."""
            body = self.rfile.read(int(self.headers["content-length"]))
            kind = "init/error" if self.path == f"{VERSION}/init/error" else self.path.rpartition("/")[2]
            self._answer(202, {}, b'{"status": "OK"}')
            api.answers.put(Answer(kind, json.loads(body)))

        def _answer(self, status: int, headers: Mapping[str, str], body: bytes) -> None:
            self.send_response(status)
            for name, value in {
                **headers,
                "content-type": "application/json",
                "content-length": str(len(body)),
            }.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: Any) -> None:
            """Print nothing."""

    return Handler
