"""The stack on one machine, built from template.yaml: what it names is made in moto, what calls functions is driven."""

import contextlib
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import boto3
from moto import mock_aws

from stoppress_cli.local import bus, creation, grants, moto_fixes, queues, resources
from stoppress_cli.local.clock import Clock
from stoppress_cli.local.functions import OUTPUT, Function, environment, no_aws_settings
from stoppress_cli.local.gateway import Answer, Request
from stoppress_cli.local.guard import Guard
from stoppress_cli.local.permissions import Permissions
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.sources import Sources
from stoppress_cli.local.stream import EndpointReader, MotoReader, Reader
from stoppress_cli.local.template import STACK_NAME, TemplateError, load
from stoppress_cli.local.wire import LOCK, Wire, absent


class Stack:
    """A running stack; use it as a context manager, one at a time in a process.

    `parameters` are the template's. `first_site` makes the template's own site parameter and its secret
    (scenarios bring their own). `dynamodb_url` names another DynamoDB endpoint than moto. Lines that functions
    print go to `log`. Raises TemplateError for a template it cannot run whole.
    """

    def __init__(
        self,
        template: Path,
        parameters: Mapping[str, str] | None = None,
        *,
        name: str = STACK_NAME,
        first_site: bool = False,
        dynamodb_url: str | None = None,
        log: TextIO | None = None,
        start: datetime | None = None,
    ) -> None:
        self.name = name
        self.clock = Clock()
        self.metrics: Counter[str] = Counter()
        loaded = load(template, parameters)
        self._layers = loaded.layers
        self.resources = {resource.logical: resource for resource in resources.resolve(loaded, name)}
        permissions = Permissions(self.resources.values())
        if faults := grants.faults(self.resources.values(), permissions):
            raise TemplateError("\n".join(faults))
        self.wire = Wire(Guard(permissions, self.resources.values(), absent), dynamodb_url)
        self.functions = {
            logical: Function(resource, loaded.code[logical])
            for logical, resource in self.resources.items()
            if resource.type == "AWS::Lambda::Function"
        }
        self.sources = Sources(self.functions.values())
        self._first_site, self._dynamodb_url, self._log, self._start = first_site, dynamodb_url, log, start
        self.dynamodb_elsewhere = dynamodb_url is not None
        self._open = contextlib.ExitStack()
        self._clients: dict[str, Any] = {}
        self._sites: dict[str, dict[str, Any]] = {}  # the configurations that each function keeps

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opening:
            opening.enter_context(environment(no_aws_settings() | self._endpoints()))
            opening.enter_context(_on_path(self._layers))
            opening.callback(self.clock.release)
            if self._start is not None:
                self.clock.move(self._start)
            opening.enter_context(mock_aws())
            opening.enter_context(self.wire.attached())
            opening.enter_context(moto_fixes.applied())
            opening.enter_context(bus.overheard(self.sources.event_arrived))
            self.metrics = opening.enter_context(OUTPUT.aimed(self._log))
            self.forget_clients()
            opening.callback(self.forget_clients)
            self._make()
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    # ── driving it ──────────────────────────────────────────────────────────────────────────────

    def advance(self, instant: datetime, *, every_schedule: bool = False) -> None:
        """Moves the clock to `instant`, lets what has become due fire once, and comes to rest.

        With `every_schedule` those of each minute fire, though no whole one has begun: AWS counts their minutes from any second.
        """
        self.clock.move(instant)
        self.come_due(every_schedule=every_schedule)

    def come_due(self, *, every_schedule: bool = False) -> None:
        """Fires what is due at this instant and comes to rest."""
        self.sources.fire_due(every_schedule=every_schedule)
        self.sources.rest()

    def request(self, request: Request) -> Answer:
        """One HTTP request through the API. What it causes waits for `rest`."""
        return self.sources.request(request)

    def rest(self) -> None:
        """Delivers until nothing is left to do at this instant."""
        self.sources.rest()

    def forget_parameters(self) -> None:
        """Empties the cache of secrets that the functions' layer keeps."""
        if (module := sys.modules.get("stoppress.aws.secrets")) is not None:
            module.forget()

    def forget_clients(self) -> None:
        """Empties what the functions' layer keeps between calls, as new execution environments would."""
        self.forget_parameters()
        if (module := sys.modules.get("stoppress.aws.clients")) is not None:
            module.client.cache_clear()
        self._sites.clear()

    # ── looking at it ───────────────────────────────────────────────────────────────────────────

    def client(self, service: str) -> Any:
        """A client for the stack's own use; its calls are not counted."""
        with LOCK:  # making a client is not thread-safe
            if service not in self._clients:
                self._clients[service] = boto3.client(service)  # type: ignore[call-overload]
            return self._clients[service]

    def only(self, kind: str) -> Resource:
        """The one resource of a type."""
        found = [resource for resource in self.resources.values() if resource.type == kind]
        if len(found) != 1:
            raise TemplateError(f"the template has {len(found)} resources of {kind}, the local stack needs one")
        return found[0]

    def variable(self, name: str) -> str:
        """An environment variable that the template gives to some function."""
        for function in self.functions.values():
            if name in function.variables:
                return function.variables[name]
        raise TemplateError(f"no function of the template has the environment variable {name}")

    def waiting_messages(self) -> dict[str, int]:
        """Number of messages in each queue that is not empty, by logical name: to be retried, delayed, or dead."""
        sources = {name: resource for name, resource in self.resources.items() if resource.type == "AWS::SQS::Queue"}
        numbers = {name: len(queues.queue(resource.arn)._messages) for name, resource in sources.items()}
        return {name: number for name, number in numbers.items() if number}

    # ── making it ───────────────────────────────────────────────────────────────────────────────

    def _endpoints(self) -> dict[str, str | None]:
        if self._dynamodb_url is None:
            return {}
        return {
            "AWS_ENDPOINT_URL_DYNAMODB": self._dynamodb_url,
            "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": self._dynamodb_url,
        }

    def _make(self) -> None:
        # A redrive policy names a queue that must exist: queues without one come first.
        for resource in sorted(self.resources.values(), key=lambda one: "RedrivePolicy" in one.properties):
            if self._first_site or not creation.is_given(resource):
                creation.create(resource, self.client, again=self.dynamodb_elsewhere)
        for resource in self.resources.values():
            self.sources.add(resource, self._reader)
        self.sources.running = self._running

    def _running(self, function: str | None) -> None:
        self.wire.running = function
        # On Lambda each function has a memory of its own, so that one may still go by a configuration that another knows is old.
        module: Any = sys.modules.get("stoppress.aws.sites")
        if function is not None and module is not None:
            module._cache = self._sites.setdefault(function, {})

    def _reader(self, stream_arn: str) -> Reader:
        table = stream_arn.split("/")[1]
        if self._dynamodb_url is not None:
            return EndpointReader(table, stream_arn, self._dynamodb_url)
        return MotoReader(table, stream_arn)


@contextlib.contextmanager
def _on_path(folders: tuple[Path, ...]) -> Any:
    """Makes the layers importable, as Lambda does; where they are installed already nothing changes."""
    added = [str(folder) for folder in folders if str(folder) not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for folder in added:
            sys.path.remove(folder)
