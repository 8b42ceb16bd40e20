"""Everything that calls a function: routes, rules, schedules, queue and stream mappings."""

import json
import threading
from collections import deque
from collections.abc import Callable, Iterable
from datetime import UTC, datetime

from stoppress.model.http_request import Request
from stoppress_cli.local import bus, gateway, local_queues
from stoppress_cli.local.lambda_functions import Function, Result
from stoppress_cli.local.mappings import QueueMapping, StreamMapping
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.template import Json, TemplateError

ROUNDS_MAX = 1_000  # rounds of deliveries after which a stack that never rests is an error
DEEP_MESSAGES = 100  # moto's queues are slow above this depth, so they are drained during a burst of requests


class EndlessLoopError(RuntimeError):
    """The functions invoke each other without end."""


class Sources:
    """All event sources of a stack. Nothing runs by itself: `rest` delivers, `fire_due` fires the schedules that are due."""

    def __init__(self, functions: Iterable[Function]) -> None:
        self.functions = {function.arn: function for function in functions}
        self._by_name = {function.name: function for function in self.functions.values()}
        self.routes: list[gateway.Route] = []
        self.rules: list[bus.Rule] = []
        self.schedules: list[bus.Schedule] = []
        self.queue_mappings: list[QueueMapping] = []
        self.stream_mappings: list[StreamMapping] = []
        self.invocations = bus.Invocations()
        # Called with the function that runs, and with None afterwards.
        self.running: Callable[[str | None], None] = lambda name: None
        self._events: deque[tuple[str, Json]] = deque()
        # Functions share the process's environment and output, so only one runs at a time.
        self.one_at_a_time = threading.RLock()

    def add(self, resource: Resource) -> None:
        """Add a resource that calls functions, and ignore others."""
        match resource.type:
            case "AWS::ApiGatewayV2::Api":
                self.routes += gateway.routes(resource)
            case "AWS::Events::Rule":
                self.rules.append(bus.Rule(resource))
            case "AWS::Scheduler::Schedule":
                self.schedules.append(bus.Schedule(resource))
            case "AWS::Lambda::EventInvokeConfig":
                self.invocations.configure(resource)
            case "AWS::Lambda::EventSourceMapping":
                arn = str(resource.properties["EventSourceArn"])
                function = self._by_name[str(resource.properties["FunctionName"]).rsplit(":", 1)[-1]]
                if ":sqs:" in arn:
                    self.queue_mappings.append(QueueMapping(resource, function))
                elif "/stream/" in arn:
                    self.stream_mappings.append(StreamMapping(resource, function))
                else:
                    raise TemplateError(
                        f"{resource.logical}: the local stack supports queues and DynamoDB streams only"
                    )

    def invoke(self, function: Function, event: Json) -> Result:
        """Call a function now. Its AWS calls are counted and subject to faults."""
        with self.one_at_a_time:
            self.running(function.logical)
            try:
                return function.invoke(event)
            finally:
                self.running(None)

    def request(self, request: Request) -> gateway.Answer:
        """Send an HTTP request through the API. Without a route for its path or method the gateway answers 404."""
        # A route with a method comes before ANY.
        for route in sorted(self.routes, key=lambda route: route.method == "ANY"):
            parameters = route.match(request)
            if parameters is None:
                continue
            if len(request.body) > gateway.PAYLOAD_BYTES_MAX:
                return gateway.plain(413, "Request Entity Too Large")
            event = gateway.event(request, route, parameters, datetime.now(UTC))
            return gateway.answer(self.invoke(self.functions[route.function_arn], event))
        return gateway.plain(404, "Not Found")

    def event_arrived(self, bus_name: str, event: Json) -> None:
        """Queue an event that was put on a bus; `rest` delivers it."""
        self._events.append((bus_name, event))

    def rest(self) -> None:
        """Deliver until no work is due at this instant. Retries and delayed messages wait for the clock.

        Raises EndlessLoopError after ROUNDS_MAX rounds.
        """
        for _ in range(ROUNDS_MAX):
            if not self._round():
                return
        raise EndlessLoopError(
            f"the stack did not come to rest in {ROUNDS_MAX} rounds; a function causes its own work. "
            f"Invocations: {', '.join(f'{function.logical} {function.invocations}' for function in self._by_name.values())}"
        )

    def drain_deep_queues(self) -> None:
        """Deliver from queues in which many messages wait."""
        for mapping in self.queue_mappings:
            if len(local_queues.queue(mapping.arn)._messages) >= DEEP_MESSAGES:
                mapping.deliver(self.invoke)

    def fire_due(self, *, every_schedule: bool = False) -> None:
        """Fire each schedule that is due, only once even if it was missed several times.

        With `every_schedule` the schedules that fire every minute also fire if no new minute has begun since they last did.
        """
        now = datetime.now(UTC)
        for schedule in self.schedules:
            if schedule.due(now) or (every_schedule and schedule.frequent):
                self._target(schedule.target, schedule.fire(now), now)

    def _round(self) -> bool:
        now = datetime.now(UTC)
        worked = bool(self._events)
        while self._events:
            self._route(*self._events.popleft(), now)
        worked |= self.invocations.deliver(self.invoke, now)
        for queue_mapping in self.queue_mappings:
            worked |= queue_mapping.deliver(self.invoke)
        if worked:  # the stream comes last, so that a burst makes few, large batches
            return True
        for stream_mapping in self.stream_mappings:
            worked |= stream_mapping.deliver(self.invoke, now)
        return worked

    def _route(self, bus_name: str, event: Json, now: datetime) -> None:
        for rule in self.rules:
            if rule.bus == bus_name and rule.matches(event):
                for arn in rule.targets:
                    self._target(arn, event, now)

    def _target(self, arn: str, event: Json, now: datetime) -> None:
        if ":sqs:" in arn:
            local_queues.send(arn, json.dumps(event))
        elif arn in self.functions:
            self.invocations.add(self.functions[arn], event, now)
        else:
            raise TemplateError(f"a rule or schedule has the target {arn}, which the local stack cannot call")
