"""Stand-ins for boto3 clients, paginators and thread pools, while a run or a stack of doubles uses the process."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Any, Protocol

from stoppress.aws import clients
from stoppress.http import client, errors


class CallHandler(Protocol):
    """Handles the calls of a client: a World, which injects faults, or a stack."""

    def call(self, service: str, operation: str, params: dict[str, Any]) -> Any: ...


class ClientProxy:
    def __init__(self, handler: CallHandler, service: str) -> None:
        self._handler, self._service = handler, service

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_") or operation == "meta":
            raise AttributeError(operation)
        return lambda **params: self._handler.call(self._service, operation, params)

    def get_paginator(self, operation: str) -> "Paginator":
        return Paginator(self, operation)


@dataclass
class Paginator:
    client: Any
    operation: str

    def paginate(self, **params: Any) -> Iterator[Any]:
        response_field, parameter = {"list_objects_v2": ("NextContinuationToken", "ContinuationToken")}.get(
            self.operation, ("NextToken", "NextToken")
        )
        while True:
            page = getattr(self.client, self.operation)(**params)
            yield page
            if not page.get(response_field):
                return
            params[parameter] = page[response_field]


class InlineExecutor:
    """An executor that runs submitted functions immediately, in the calling thread."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as fault:  # noqa: BLE001 - the future raises it
            future.set_exception(fault)
        return future

    def shutdown(self, **_: Any) -> None: ...


def modules_with_clients() -> list[ModuleType]:
    """Return the product's modules that import the function `client`."""
    loaded = [module for name, module in sys.modules.items() if name.startswith("stoppress.") and module is not clients]
    return [module for module in loaded if vars(module).get("client") is clients.client]


def unreachable(url: str, headers: dict[str, str], requested_at: datetime) -> client.Response:
    raise errors.Unreachable(f"{url} is not served")
