"""Deterministic simulation: a scheduler runs the template's functions on doubles of AWS, with one seed for all decisions.

A task pauses before each call to AWS. The seed then decides which task runs next, when the clock moves, which calls fail, and
which events are repeated, delayed or reordered. The simulation does not depend on the product's implementation.
"""

import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from types import ModuleType
from typing import Any

import time_machine

from stoppress.aws import secrets, sites
from stoppress.http import client, errors
from stoppress.model.http_request import Request
from stoppress.poll import feeds, shares
from stoppress_cli.local import bus, event_sources as cli_sources, mappings as cli_mappings
from stoppress_cli.local.gateway import Answer
from stoppress_cli.local.lambda_functions import Context, Function, Result
from stoppress_cli.local.process import environment
from stoppress_cli.local.template import Json
from tests.simulation.backends import Doubles
from tests.simulation.call_faults import WRITES, CallFaults, Killed, inject
from tests.simulation.clients import ClientProxy, InlineExecutor, modules_with_clients, unreachable
from tests.simulation.interleaving import Task
from tests.simulation.pollers import Pollers
from tests.simulation.wiring import Apps, Wiring, json_copy

STEPS_MAX = 40_000  # calls to AWS after which a run that is not idle fails
MINUTE = timedelta(minutes=1)
# A race does most harm if one task is starved: it pauses at a write until all other tasks have ended.
_STARVED_AT_WRITES = 0.25
_PRIORITY_CHANGES = 0.05
_KEEP_TASK_WITHOUT_FAULTS = 0.95  # probability that the running task continues
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
# All runs share the loaded modules, since loading a function's module can take longer than a run's calls.
APPS = Apps()


@dataclass
class Sandbox:
    """An execution environment of one function: its module, its caches, and the error of its clock."""

    function: Function
    app: ModuleType
    skew: timedelta
    site_cache: sites.Cache = field(default_factory=sites.Cache)
    secret_cache: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Invocation:
    sandbox: Sandbox
    begun: datetime
    deadline: datetime
    killed: bool = False


class World:
    """A running stack: its scheduler, clock and fault injection. `rng` makes all random decisions."""

    def __init__(self, seed: int, wiring: Wiring, start: datetime) -> None:
        self._feeds_a_run = 1 if seed % 2 else shares.FEEDS_A_RUN  # every second seed polls one feed per run
        self.rng = random.Random(seed)
        self.call_faults = CallFaults.draw(self.rng)
        self.is_failing = True
        self.now = start
        self.wiring = wiring
        self.fetch: Callable[[str, dict[str, str], datetime], client.Response] = unreachable
        self.on_object_change: Callable[[str, str], None] = lambda operation, key: (
            None
        )  # called after each put or deletion
        self.on_event_routed: Callable[[Json], None] = lambda event: None  # called when a bus routes an event
        self.on_event_put: Callable[[Json], None] = lambda event: None  # called when an event is put on a bus
        self._violation: AssertionError | None = None
        self.log: list[str] = []
        self.steps = 0
        self._tasks: list[Task] = []
        self._running: Task | None = None
        self._invocations: dict[Task, _Invocation] = {}
        self._warm: dict[str, list[Sandbox]] = {}
        self._sandboxes: list[Sandbox] = []
        self._active_polls: dict[str, int] = {}
        self._bus_events: list[tuple[str, Json]] = []
        self._clock: Any = None
        self._starving = self.rng.random() < 0.5
        self._keep_task_rate = self.rng.choice((0.2, 0.6, 0.9))
        self._clock_move_rate = self.rng.choice((0.002, 0.02, 0.06))
        self.clients = {name: ClientProxy(self, name) for name in ("dynamodb", "s3", "sqs", "secretsmanager", "events")}
        self.backend = Doubles(self)
        self.pollers = Pollers(self, self.rng.choice((1, 2, 3, 3)))
        self.sources, self.streams = wiring.sources(len(self.pollers.readers))
        self.sources.invoke = self.invoke  # type: ignore[method-assign]
        self._concurrency = {mapping.name: wiring.concurrency(mapping.name) for mapping in self.sources.queue_mappings}

    # ── running the simulation ──

    @contextmanager
    def open(self, constants: Sequence[tuple[ModuleType, str, Any]] = ()) -> Iterator[None]:
        """Patch everything that the process shares, such as clock, clients and environment, while the block runs."""
        random.seed(self.rng.random())
        with ExitStack() as opening:
            opening.callback(random.seed)
            opening.enter_context(environment(self.wiring.variables()))
            for function in self.wiring.functions.values():  # load all modules before patching
                APPS.release(function, APPS.acquire(function))
            self._clock = opening.enter_context(time_machine.travel(self.now, tick=False))
            opening.callback(self._close)
            caches = secrets._cache, sites._cache
            patches = [
                *((module, "client", self.clients.__getitem__) for module in modules_with_clients()),
                *((module, "local_queues", self.pollers) for module in (cli_mappings, cli_sources, bus)),
                (feeds, "ThreadPoolExecutor", InlineExecutor),
                (feeds, "wait", self._wait),
                (shares, "FEEDS_A_RUN", self._feeds_a_run),
                (client, "fetch", self._fetch),
                (time, "sleep", lambda _seconds: self.pause("sleep")),
                (time, "monotonic", self._monotonic),
                *constants,
            ]
            for module, name, value in patches:
                opening.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, value)
            yield
            secrets._cache, sites._cache = caches

    def start(self, name: str, work: Callable[[], object]) -> None:
        """Start a task, which pauses at each call to AWS."""
        self._tasks.append(Task(name, work, self.rng.random()))

    def run_with_faults(
        self, until: Callable[[], datetime | None], due: Callable[[], Callable[[], None] | None]
    ) -> None:
        """Run until the script has ended and no task is left. `due` returns a due delivery, `until` the next one's instant."""
        while True:
            if (step := due()) and (not self._tasks or self.rng.random() < 0.5):
                step()
                continue
            if self._tasks and self.rng.random() < 0.7:
                self._step()
            elif choices := self._startable_work():
                self.rng.choice(choices)()
            elif self._tasks:
                self._step()
            elif (later := until()) is None:
                return
            elif later > self.now:
                self._move_clock(later)
            if self.rng.random() < self._clock_move_rate:
                self._move_clock(until())

    def run_until_idle(self) -> None:
        """Run until no work is left at this instant."""
        while self._tasks or (choices := self._startable_work()):
            if self._tasks:
                self._step()
            else:
                self.rng.choice(choices)()

    def advance(self, instant: datetime) -> None:
        """Move the clock, and fire each due schedule once."""
        self.move(instant)
        self.sources.fire_due()

    def move(self, instant: datetime) -> None:
        """Move the clock without firing schedules."""
        self.now = max(self.now, instant)
        self._set_clock(timedelta())

    def _monotonic(self) -> float:
        return (self.now - _EPOCH).total_seconds()

    def _set_clock(self, skew: timedelta) -> None:
        # Like move_to, but without setting the process's time zone, which is slow.
        assert hasattr(self._clock, "_destination_timestamp_ns"), "time-machine keeps its instant elsewhere"
        self._clock._destination_timestamp_ns = int((self.now - _EPOCH + skew) / _MICROSECOND) * 1_000

    def next_instant(self) -> datetime | None:
        """Return the instant of the next retry or delayed delivery, None if nothing waits."""
        instants = [
            datetime.fromtimestamp(at, UTC)
            for mapping in self.sources.queue_mappings
            if (at := self.backend.next_visible_at(self.backend.queue(mapping.arn))) is not None
        ]
        instants += [waiting.due for waiting in self.sources.invocations._waiting]
        instants += [self.now + MINUTE for stream in self.streams if stream._pending]
        return min(instants, default=None)

    @property
    def is_busy(self) -> bool:
        """Return True if a task runs, or an event waits to be routed."""
        return bool(self._tasks or self._bus_events)

    def request(self, request: Request) -> Answer:
        """Send one HTTP request to the API, within a task."""
        return self.sources.request(request)

    # ── scheduler ──

    def _move_clock(self, later: datetime | None) -> None:
        seconds = self.rng.choice((1, 20, 60, 200, 900) if not self._tasks or self.rng.random() < 0.05 else (0, 1))
        instant = self.now + timedelta(seconds=seconds)
        if later and (waiting := self.next_instant()):  # retries happen within the hour
            later = min(later, max(waiting, self.now + 60 * MINUTE))
        if later is not None and (instant > later or (not self._tasks and self.rng.random() < 0.6)):
            instant = later
        self.advance(instant)

    def _step(self) -> None:
        task = self._running = self._next_task()
        try:
            task.step()
        finally:
            if task.done:
                self._tasks.remove(task)
            self._set_clock(timedelta())
        if self._violation:
            raise self._violation

    def _next_task(self) -> Task:
        """Return a random task or, in seeds that starve tasks, the one with the highest priority; priorities change at times."""
        if not self._starving or not self.is_failing:
            return self.rng.choice(self._tasks)
        first = max(self._tasks, key=lambda task: task.priority)
        if self.rng.random() < _PRIORITY_CHANGES:
            first.priority = -self.rng.random()
        return first

    def _startable_work(self) -> list[Callable[[], None]]:
        """Return the work that can start now: one entry per poll of a queue or shard, routed event or asynchronous invocation."""
        startable: list[Callable[[], None]] = []
        for mapping in self.sources.queue_mappings:
            busy = self._active_polls.get(mapping.name, 0)
            if busy < self._concurrency[mapping.name] and self.backend.visible(self.backend.queue(mapping.arn)):
                startable.append(self._poll(mapping.name, partial(mapping.deliver, self.invoke)))
        self.pollers.distribute_records()
        for number, (stream, reader) in enumerate(zip(self.streams, self.pollers.readers, strict=True)):
            name = f"shard {number}"
            ready = stream._pending and stream._pending[0].ready(self.now)
            if not self._active_polls.get(name) and (ready or (reader.unread and not stream._pending)):
                startable.append(self._poll(name, partial(stream.deliver, self.invoke, self.now)))
        if self._bus_events:
            startable.append(self._route)
        if any(waiting.due <= self.now for waiting in self.sources.invocations._waiting):
            deliver = partial(self.sources.invocations.deliver, self.invoke, self.now)
            startable.append(partial(self.start, "invocations", deliver))
        return startable

    def _poll(self, name: str, deliver: Callable[[], Any]) -> Callable[[], None]:
        def work() -> None:
            try:
                deliver()
            finally:
                self._active_polls[name] -= 1

        def begin() -> None:
            self._active_polls[name] = self._active_polls.get(name, 0) + 1
            self.start(name, work)

        return begin

    def arrived(self, bus_name: str, event: Json) -> None:
        try:
            self.on_event_put(event)
        except AssertionError as violation:
            self._violation = self._violation or violation
        self._bus_events.append((bus_name, event))

    def _route(self) -> None:
        number = self.rng.randrange(len(self._bus_events))
        bus_name, event = self._bus_events.pop(number)
        if self.is_failing and self.rng.random() < 0.05:
            self._bus_events.append((bus_name, event))
        self.on_event_routed(event)
        self.sources._route(bus_name, event, self.now)

    # ── functions ──

    def invoke(self, function: Function, event: Json) -> Result:
        """Invoke a function as Lambda does. The invocation may be killed, or its response lost."""
        task = self._running
        assert task
        sandbox = self._sandbox(function)
        invocation = _Invocation(sandbox, self.now, self.now + timedelta(seconds=function.timeout_s))
        self._invocations[task] = invocation
        context = Context(function.name, function.memory_mib, function.timeout_s, "simulated")
        try:
            self.pause(f"{function.logical} begins")
            handler = getattr(sandbox.app, function._attribute)
            result = Result(json_copy(handler(json_copy(event), context)))
        except Killed:
            invocation.killed = True
            result = Result(error={"errorType": "Sandbox.Timedout", "errorMessage": "killed"})
        except Exception as fault:  # noqa: BLE001 - Lambda reports any exception of a function
            result = Result(error={"errorType": type(fault).__name__, "errorMessage": str(fault)})
        finally:
            del self._invocations[task]
            self._set_clock(timedelta())
        self.log.append(f"{self.now:%d %H:%M:%S} {function.logical} {result.error or result.payload}")
        if invocation.killed:
            self._release(sandbox)
        else:
            self._warm.setdefault(function.logical, []).append(sandbox)
        if self.is_failing and self.rng.random() < self.call_faults.lost_answer_rate:
            return Result(error={"errorType": "Sandbox.Timedout", "errorMessage": "the answer was not received"})
        return result

    def _sandbox(self, function: Function) -> Sandbox:
        warm = self._warm.setdefault(function.logical, [])
        if warm and self.is_failing and self.rng.random() < self.call_faults.cold_start_rate:
            self._release(warm.pop(self.rng.randrange(len(warm))))
        if warm:
            return warm.pop(self.rng.randrange(len(warm)))
        skew = timedelta(seconds=self.rng.uniform(-self.call_faults.skew_s, self.call_faults.skew_s))
        sandbox = Sandbox(function, APPS.acquire(function), skew)
        vars(sandbox.app).get("_begun", set()).clear()  # a new execution environment has not read its deployment
        self._sandboxes.append(sandbox)
        return sandbox

    def _release(self, sandbox: Sandbox) -> None:
        self._sandboxes.remove(sandbox)
        APPS.release(sandbox.function, sandbox.app)

    def pause(self, operation: str) -> None:
        """Let the scheduler choose the next task. On resumption, restore the function's caches and clock."""
        task = self._running
        assert task, f"{operation} outside of any task"
        self.steps += 1
        assert self.steps < STEPS_MAX, "the stack never becomes idle: a function creates its own events"
        starved = self._starving and self.is_failing and operation in WRITES and self.rng.random() < _STARVED_AT_WRITES
        if starved:
            task.priority = -self.rng.random()
        if starved or self.rng.random() >= (self._keep_task_rate if self.is_failing else _KEEP_TASK_WITHOUT_FAULTS):
            task.pause()
        invocation = self._invocations.get(task)
        if invocation is None:
            return
        sites._cache = invocation.sandbox.site_cache
        secrets._cache = invocation.sandbox.secret_cache
        self._set_clock(invocation.sandbox.skew)
        if invocation.killed or self.now > invocation.deadline:
            invocation.killed = True
            raise Killed

    def call(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        self.pause(operation)
        task = self._running
        assert task
        invocation = self._invocations.get(task)
        fault = self.call_faults.fault(self.rng, operation) if self.is_failing and invocation else None
        self._set_clock(timedelta())
        try:
            if fault is None:
                return self._apply(service, operation, params)
            self.log.append(f"{self.now:%d %H:%M:%S} {operation}: {fault}")
            return inject(
                fault, self.rng, service, operation, params, lambda **sent: self._apply(service, operation, sent)
            )
        except Killed:
            if invocation:
                invocation.killed = True
            raise
        finally:
            if invocation:
                self._set_clock(invocation.sandbox.skew)

    def _apply(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        answer = getattr(self.backend.clients[service], operation)(**params)
        if operation in ("put_object", "delete_object"):
            try:
                self.on_object_change(operation, params["Key"])
            except AssertionError as violation:  # raised later: the product would treat it as a fault of S3 and retry
                self._violation = self._violation or violation
        return answer

    def _fetch(self, url: str, headers: dict[str, str]) -> client.Response:
        assert self._running
        requested_at = self._invocations[self._running].begun  # the product may decide by the run's start
        self.pause("fetch")
        if self.is_failing and self.rng.random() < self.call_faults.call_rate:
            raise errors.TooSlow(f"{url} did not answer in time")
        return self.fetch(url, headers, requested_at)

    def _wait(
        self, futures: Iterable[Future[Any]], timeout: float, until: str
    ) -> tuple[list[Future[Any]], list[Future[Any]]]:
        """Stand in for `concurrent.futures.wait`: return a random part of the futures as done."""
        shuffled = self.rng.sample(pending := list(futures), len(pending))
        done = self.rng.randint(1, len(shuffled))
        return shuffled[:done], shuffled[done:]

    def _close(self) -> None:
        for task in self._tasks:
            self._running = task
            task.end()
        for sandbox in self._sandboxes:
            APPS.release(sandbox.function, sandbox.app)
