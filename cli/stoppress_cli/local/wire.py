"""The hooks on every AWS call of the process: permissions, a lock, faults, and the meter.

moto answers botocore's "before-send" event. moto is not thread-safe, so it answers under a lock. `up` holds this lock too,
while it answers as the AWS endpoint. Only the calls of a running function are checked, counted and subject to faults; the
stack's own calls are not.
"""

import json
import threading
import urllib.parse
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Annotated, Any
from unittest import mock

import boto3
import botocore.loaders
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from moto.core.botocore_stubber import BotocoreStubber
from pydantic import ConfigDict, Field

from stoppress.aws import clients
from stoppress_cli.local import meter
from stoppress_cli.local.guard import Guard
from stoppress_cli.local.moto_fixes import last_query, read_item

LOCK = threading.RLock()
# One loader for the process: reading the services' models takes longer than a small scenario.
_loader = botocore.loaders.create_loader()

_answer = BotocoreStubber.__call__
# Every client of every session calls this method; Powertools has its own sessions.
_call: Callable[[BaseClient, str, dict[str, Any]], Any] = BaseClient._make_api_call  # type: ignore[attr-defined]


@dataclass
class Fault:
    """The next `times` calls of service.operation whose URL or body contains `key` fail with `error`.

    Services have the names of botocore's events. With `applied` the call takes effect, and only its answer is lost. The error
    is raised as botocore raises it after its own retries, so that a run does not wait for retries.
    """

    __pydantic_config__ = ConfigDict(extra="forbid")  # of a scenario's step

    service: Annotated[str, Field(pattern="^(dynamodb|eventbridge|s3|secrets-manager|sqs)$")]
    operation: str
    key: str = ""
    times: Annotated[int, Field(ge=1)] = 1
    error: str = "InternalError"
    applied: bool = False

    def matches(self, service: str, operation: str, request: Any) -> bool:
        if self.times <= 0 or (service, operation) != (self.service, self.operation):
            return False
        body = request.body or b""
        text = body.decode("utf-8", "replace") if isinstance(body, bytes) else str(body)
        return self.key in urllib.parse.unquote(request.url) or self.key in text

    def to_error(self, operation: str) -> ClientError:
        return ClientError({"Error": {"Code": self.error, "Message": "a fault of the scenario"}}, operation)


class _Thread(threading.local):
    running: str | None = None  # the logical name of the function that runs in this thread


class Wire:
    """The hooks of a running stack on every AWS call."""

    def __init__(self, guard: Guard) -> None:
        self.guard = guard
        self.meter = meter.Meter()
        self.faults: list[Fault] = []
        self.thread = _Thread()

    @contextmanager
    def attach(self) -> Iterator[None]:
        """Install the hooks while the block runs. moto must be mocking already, because it resets boto3's session."""

        def answer(stubber: BotocoreStubber, event_name: str, request: Any, **kwargs: Any) -> Any:
            with LOCK:
                if self.thread.running is None or not stubber.enabled:
                    return _answer(stubber, event_name, request, **kwargs)
                return self._count_call(event_name, request, lambda: _answer(stubber, event_name, request, **kwargs))

        def check_and_call(client: BaseClient, operation: str, params: dict[str, Any]) -> Any:
            if (function := self.thread.running) is not None:
                self.guard.check(function, client.meta.service_model.service_name, operation, params)
            return _call(client, operation, params)

        clients.forget()
        clients.session().register_component("data_loader", _loader)
        boto3.setup_default_session(botocore_session=clients.session())
        with (
            mock.patch.object(BaseClient, "_make_api_call", check_and_call),
            mock.patch.object(BotocoreStubber, "__call__", answer),
        ):
            yield

    def _count_call(self, event_name: str, request: Any, send: Callable[[], Any]) -> Any:
        _, service, operation = event_name.split(".")
        self.meter.calls[str(self.thread.running), f"{service}.{operation}"] += 1
        fault = next((fault for fault in self.faults if fault.matches(service, operation, request)), None)
        if fault is not None:
            fault.times -= 1
            if fault.applied:
                send()
            raise fault.to_error(operation)
        if service == "dynamodb":
            body = json.loads(request.body)
            response, read, written = meter.capacity(operation, body, send, read_item, last_query)
            self.meter.read_units += read
            self.meter.write_units += written
            return response
        response = send()
        if service == "s3" and response is not None and operation == "PutObject":
            self.meter.s3_bytes_put += _length(request.headers)
        elif service == "s3" and response is not None and operation == "GetObject":
            self.meter.s3_bytes_got += _length(response.headers)
        return response


def _length(headers: Any) -> int:
    # S3 uploads may be aws-chunked; the decoded length is the length of the object.
    return int(headers.get("X-Amz-Decoded-Content-Length") or headers.get("Content-Length") or 0)
