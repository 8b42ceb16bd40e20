"""The local stack on the doubles of AWS instead of moto: the same template, event sources, permissions and faults, many times faster."""

import json
from contextlib import ExitStack, redirect_stdout
from types import SimpleNamespace
from typing import Any, Self
from unittest import mock

from stoppress_cli.local import bus, event_sources, guard, mappings, resources, stack as local_stack
from stoppress_cli.local.lambda_functions import OUTPUT
from stoppress_cli.local.process import environment, no_aws_settings
from stoppress_cli.local.stack import Stack
from tests.simulation.backends import Doubles, NextVersionDoubles
from tests.simulation.clients import ClientProxy, modules_with_clients
from tests.simulation.wiring import Wiring


class StackOnDoubles(Stack):
    """A stack without moto: it creates no resources in moto, and sends no HTTP requests to AWS."""

    backend_kind = Doubles

    def __enter__(self) -> Self:
        self.wiring = Wiring(tuple(self.resources.values()), self.functions)
        with ExitStack() as opening:
            opening.enter_context(environment(no_aws_settings()))
            opening.callback(self.clock.release)
            if self._start is not None:
                self.clock.move(self._start)
            self.backend = self.backend_kind(self)
            lacks = lambda bucket, key: key not in self.backend.objects()  # noqa: E731
            opening.enter_context(mock.patch.object(guard, "lacks", lacks))
            self.metrics = opening.enter_context(OUTPUT.write_to(self._log))
            for function in self.functions.values():  # load all modules before patching
                with environment(function.variables_set()), redirect_stdout(OUTPUT):
                    function._load()
            for module in modules_with_clients():
                opening.enter_context(mock.patch.object(module, "client", self.client))
            for module in (mappings, event_sources, bus, local_stack):
                opening.enter_context(mock.patch.object(module, "local_queues", self.backend))
            self.forget_clients()
            opening.callback(self.forget_clients)
            for resource in self.resources.values():
                if resource.type == "AWS::SecretsManager::Secret" and not resources.is_given(resource):
                    resources.create(resource, self.client)
                self.sources.add(resource)
            self.sources.running = self._running
            self._open = opening.pop_all()
        return self

    def client(self, service: str) -> Any:
        return ClientProxy(self, service)

    def arrived(self, bus_name: str, event: Any) -> None:
        self.sources.event_arrived(bus_name, event)

    def call(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        """Make one call of a client. A function's call needs a permission, and fails if a scenario injects a fault."""
        send = getattr(self.backend.clients[service], operation)
        if self.wire.thread.running is None:
            return send(**params)
        name = operation.title().replace("_", "")
        self.wire.guard.check(self.wire.thread.running, service, name, params)
        if not self.wire.faults:
            return send(**params)
        named = {key: value for key, value in params.items() if key != "Body"}  # a file may contain other files' names
        request = SimpleNamespace(url="", body=json.dumps(named, ensure_ascii=False))
        fault = next((fault for fault in self.wire.faults if fault.matches(service, name, request)), None)
        if fault is None:
            return send(**params)
        fault.times -= 1
        if fault.applied:
            send(**params)
        raise fault.to_error(name)


class StackOnNextVersion(StackOnDoubles):
    """A stack after a rollback: the next version has written its items and messages."""

    backend_kind = NextVersionDoubles
