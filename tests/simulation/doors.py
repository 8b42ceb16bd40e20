"""What stands in a process for its clients of AWS and for its threads, while a run or a stack of doubles has it."""

import sys
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from dataclasses import dataclass
from datetime import datetime
from types import ModuleType
from typing import Any, Protocol

from stoppress.aws import clients
from stoppress.http import client, errors


class Calls(Protocol):
    """Whoever makes the calls: a world, in which each may fail, or a stack."""

    def call(self, service: str, operation: str, params: dict[str, Any]) -> Any: ...


class Door:
    def __init__(self, behind: Calls, service: str) -> None:
        self._behind, self._service = behind, service

    def __getattr__(self, operation: str) -> Callable[..., Any]:
        if operation.startswith("_") or operation == "meta":
            raise AttributeError(operation)
        return lambda **params: self._behind.call(self._service, operation, params)

    def get_paginator(self, operation: str) -> "Paginator":
        return Paginator(self, operation)


@dataclass
class Paginator:
    door: Any
    operation: str

    def paginate(self, **params: Any) -> Iterator[Any]:
        said, given = {"list_objects_v2": ("NextContinuationToken", "ContinuationToken")}.get(
            self.operation, ("NextToken", "NextToken")
        )
        while True:
            page = getattr(self.door, self.operation)(**params)
            yield page
            if not page.get(said):
                return
            params[given] = page[said]


class AtOnce:
    """An executor that does at once what it is given, in the thread that has the turn."""

    def __init__(self, *_: Any, **__: Any) -> None: ...

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(function(*arguments))
        except Exception as fault:  # noqa: BLE001 - it is the future's to raise
            future.set_exception(fault)
        return future

    def shutdown(self, **_: Any) -> None: ...


def with_doors() -> list[ModuleType]:
    """The modules of the product that import the function `client`."""
    known = [module for name, module in sys.modules.items() if name.startswith("stoppress.") and module is not clients]
    return [module for module in known if vars(module).get("client") is clients.client]


def nowhere(url: str, headers: dict[str, str], asked_at: datetime) -> client.Response:
    raise errors.Unreachable(f"{url} is nowhere")
