"""One run: the functions of the template on doubles of AWS, one call at a time, in the order that a seed decides.

Whatever calls AWS hands the turn back before each call. The seed says who is next, when the clock moves, what fails, what
comes twice, late or in another order. Nothing of it depends on how the product does its work.
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
from tests.simulation.call_faults import WRITES, CallFaults, Killed, suffer
from tests.simulation.doors import AtOnce, Door, nowhere, with_doors
from tests.simulation.interleaving import Task
from tests.simulation.pollers import Pollers
from tests.simulation.wiring import Apps, Wiring, copied

STEPS_MAX = 40_000  # calls of AWS after which a run that does not come to rest is an error
MINUTE = timedelta(minutes=1)
# Of two that are at one thing the slower one does most harm: it may have to wait until all others are done.
_STARVED_AT_WRITES = 0.25
_CHANGES_OF_MIND = 0.05
_STICKY_IN_QUIET = 0.95  # the chance that who has the turn keeps it
_EPOCH, _MICROSECOND = datetime(1970, 1, 1, tzinfo=UTC), timedelta(microseconds=1)
# One loader for all runs: making a module of a function takes longer than many a run's calls.
APPS = Apps()


@dataclass
class Sandbox:
    """An execution environment of one function: its module, what it keeps in memory, and how wrong its clock is."""

    function: Function
    app: ModuleType
    skew: timedelta
    known: sites.Cache = field(default_factory=sites.Cache)
    secrets: dict[str, Any] = field(default_factory=dict)


@dataclass
class _Invocation:
    sandbox: Sandbox
    begun: datetime
    deadline: datetime
    killed: bool = False


class World:
    """A stack that runs: what happens in it is decided by `chance`, a fault at a time by `weather`."""

    def __init__(self, seed: int, wiring: Wiring, start: datetime) -> None:
        self._feeds_a_run = 1 if seed % 2 else shares.FEEDS_A_RUN  # in every second seed, each host may have a run
        self.chance = random.Random(seed)
        self.call_faults = CallFaults.of(self.chance)
        self.is_failing = True
        self.now = start
        self.wiring = wiring
        self.fetch: Callable[[str, dict[str, str], datetime], client.Response] = nowhere
        self.look: Callable[[str, str], None] = lambda operation, key: None  # hears of each put and deletion
        self.routed: Callable[[Json], None] = lambda event: None  # hears of each event that a bus brings to its targets
        self.overheard: Callable[[Json], None] = lambda event: None  # and of each that is put on one
        self._seen: AssertionError | None = None
        self.log: list[str] = []
        self.steps = 0
        self._tasks: list[Task] = []
        self._running: Task | None = None
        self._invocations: dict[Task, _Invocation] = {}
        self._warm: dict[str, list[Sandbox]] = {}
        self._taken: list[Sandbox] = []
        self._polling_now: dict[str, int] = {}
        self._arrived: list[tuple[str, Json]] = []
        self._clock: Any = None
        self._starving = self.chance.random() < 0.5
        self._sticky = self.chance.choice((0.2, 0.6, 0.9))
        self._hurry = self.chance.choice((0.002, 0.02, 0.06))
        self.doors = {name: Door(self, name) for name in ("dynamodb", "s3", "sqs", "secretsmanager", "events")}
        self.backend = Doubles(self)
        self.pollers = Pollers(self, self.chance.choice((1, 2, 3, 3)))
        self.sources, self.streams = wiring.sources(len(self.pollers.readers))
        self.sources.invoke = self.invoke  # type: ignore[method-assign]
        self._concurrency = {one.name: wiring.concurrency(one.name) for one in self.sources.queue_mappings}

    # ── driving it ──

    @contextmanager
    def open(self, constants: Sequence[tuple[ModuleType, str, Any]] = ()) -> Iterator[None]:
        """Everything that the process shares is the run's while the block runs."""
        random.seed(self.chance.random())
        with ExitStack() as opening:
            opening.callback(random.seed)
            opening.enter_context(environment(self.wiring.variables()))
            for function in self.wiring.functions.values():  # so that all modules are there to be patched
                APPS.give_back(function, APPS.take(function))
            self._clock = opening.enter_context(time_machine.travel(self.now, tick=False))
            opening.callback(self._close)
            own = secrets._cache, sites._cache
            patches = [
                *((module, "client", self.doors.__getitem__) for module in with_doors()),
                *((module, "local_queues", self.pollers) for module in (cli_mappings, cli_sources, bus)),
                (feeds, "ThreadPoolExecutor", AtOnce),
                (feeds, "wait", self._some_of),
                (shares, "FEEDS_A_RUN", self._feeds_a_run),
                (client, "fetch", self._fetched),
                (time, "sleep", lambda _seconds: self.pause("sleep")),
                (time, "monotonic", self._monotonic),
                *constants,
            ]
            for module, name, value in patches:
                opening.callback(setattr, module, name, getattr(module, name))
                setattr(module, name, value)
            yield
            secrets._cache, sites._cache = own

    def start(self, name: str, work: Callable[[], object]) -> None:
        """Begin something that hands the turn on at each call of AWS."""
        self._tasks.append(Task(name, work, self.chance.random()))

    def run_with_faults(
        self, until: Callable[[], datetime | None], due: Callable[[], Callable[[], None] | None]
    ) -> None:
        """Run until nothing is left to do: `due` gives what of the story is due, `until` the instant of what comes next."""
        while True:
            if (step := due()) and (not self._tasks or self.chance.random() < 0.5):
                step()
                continue
            if self._tasks and self.chance.random() < 0.7:
                self._step()
            elif choices := self._startable():
                self.chance.choice(choices)()
            elif self._tasks:
                self._step()
            elif (later := until()) is None:
                return
            elif later > self.now:
                self._let_pass(later)
            if self.chance.random() < self._hurry:
                self._let_pass(until())

    def rest(self) -> None:
        """Run until nothing is left to do at this instant."""
        while self._tasks or (choices := self._startable()):
            if self._tasks:
                self._step()
            else:
                self.chance.choice(choices)()

    def advance(self, instant: datetime) -> None:
        """Move the clock; what schedules have become due fire once."""
        self.move(instant)
        self.sources.fire_due()

    def move(self, instant: datetime) -> None:
        """Move the clock and nothing else."""
        self.now = max(self.now, instant)
        self._set_clock(timedelta())

    def _monotonic(self) -> float:
        return (self.now - _EPOCH).total_seconds()

    def _set_clock(self, skew: timedelta) -> None:
        # What move_to does, without the time zone of the process, which costs more than most calls.
        assert hasattr(self._clock, "_destination_timestamp_ns"), "time-machine keeps its instant elsewhere"
        self._clock._destination_timestamp_ns = int((self.now - _EPOCH + skew) / _MICROSECOND) * 1_000

    def next_instant(self) -> datetime | None:
        """When the next message, invocation or batch that waits for its time can be tried."""
        waiting = [
            datetime.fromtimestamp(at, UTC)
            for mapping in self.sources.queue_mappings
            if (at := self.backend.next_visible_at(self.backend.queue(mapping.arn))) is not None
        ]
        waiting += [one.due for one in self.sources.invocations._waiting]
        waiting += [self.now + MINUTE for one in self.streams if one._pending]
        return min(waiting, default=None)

    @property
    def is_busy(self) -> bool:
        """Whether anything runs, or an event is on its way through a bus."""
        return bool(self._tasks or self._arrived)

    def request(self, request: Request) -> Answer:
        """One HTTP request through the API, within a task."""
        return self.sources.request(request)

    # ── what runs ──

    def _let_pass(self, later: datetime | None) -> None:
        seconds = self.chance.choice(
            (1, 20, 60, 200, 900) if not self._tasks or self.chance.random() < 0.05 else (0, 1)
        )
        instant = self.now + timedelta(seconds=seconds)
        if later and (waiting := self.next_instant()):  # what waits is tried again within the hour
            later = min(later, max(waiting, self.now + 60 * MINUTE))
        if later is not None and (instant > later or (not self._tasks and self.chance.random() < 0.6)):
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
        if self._seen:
            raise self._seen

    def _next_task(self) -> Task:
        """Any task; or, in seeds that starve some, the one that is to go before the others, which changes at times."""
        if not self._starving or not self.is_failing:
            return self.chance.choice(self._tasks)
        first = max(self._tasks, key=lambda task: task.urgency)
        if self.chance.random() < _CHANGES_OF_MIND:
            first.urgency = -self.chance.random()
        return first

    def _startable(self) -> list[Callable[[], None]]:
        """Every delivery that could begin now."""
        found: list[Callable[[], None]] = []
        for mapping in self.sources.queue_mappings:
            busy = self._polling_now.get(mapping.name, 0)
            if busy < self._concurrency[mapping.name] and self.backend.visible(self.backend.queue(mapping.arn)):
                found.append(self._polling(mapping.name, partial(mapping.deliver, self.invoke)))
        self.pollers.share_out()
        for number, (stream, reader) in enumerate(zip(self.streams, self.pollers.readers, strict=True)):
            name = f"shard {number}"
            ready = stream._pending and stream._pending[0].ready(self.now)
            if not self._polling_now.get(name) and (ready or (reader.unread and not stream._pending)):
                found.append(self._polling(name, partial(stream.deliver, self.invoke, self.now)))
        if self._arrived:
            found.append(self._route)
        if any(one.due <= self.now for one in self.sources.invocations._waiting):
            deliver = partial(self.sources.invocations.deliver, self.invoke, self.now)
            found.append(partial(self.start, "invocations", deliver))
        return found

    def _polling(self, name: str, deliver: Callable[[], Any]) -> Callable[[], None]:
        def work() -> None:
            try:
                deliver()
            finally:
                self._polling_now[name] -= 1

        def begin() -> None:
            self._polling_now[name] = self._polling_now.get(name, 0) + 1
            self.start(name, work)

        return begin

    def arrived(self, bus_name: str, event: Json) -> None:
        try:
            self.overheard(event)
        except AssertionError as seen:
            self._seen = self._seen or seen
        self._arrived.append((bus_name, event))

    def _route(self) -> None:
        number = self.chance.randrange(len(self._arrived))
        bus_name, event = self._arrived.pop(number)
        if self.is_failing and self.chance.random() < 0.05:
            self._arrived.append((bus_name, event))
        self.routed(event)
        self.sources._route(bus_name, event, self.now)

    # ── functions ──

    def invoke(self, function: Function, event: Json) -> Result:
        """Call a function as Lambda does. It may be killed on the way, and its answer may not be received."""
        task = self._running
        assert task
        sandbox = self._sandbox(function)
        one = _Invocation(sandbox, self.now, self.now + timedelta(seconds=function.timeout_s))
        self._invocations[task] = one
        context = Context(function.name, function.memory_mib, function.timeout_s, "simulated")
        try:
            self.pause(f"{function.logical} begins")
            handler = getattr(sandbox.app, function._attribute)
            result = Result(copied(handler(copied(event), context)))
        except Killed:
            one.killed = True
            result = Result(error={"errorType": "Sandbox.Timedout", "errorMessage": "killed"})
        except Exception as fault:  # noqa: BLE001 - whatever a function raises is Lambda's to report
            result = Result(error={"errorType": type(fault).__name__, "errorMessage": str(fault)})
        finally:
            del self._invocations[task]
            self._set_clock(timedelta())
        self.log.append(f"{self.now:%d %H:%M:%S} {function.logical} {result.error or result.payload}")
        if one.killed:
            self._leave(sandbox)
        else:
            self._warm.setdefault(function.logical, []).append(sandbox)
        if self.is_failing and self.chance.random() < self.call_faults.of_answers:
            return Result(error={"errorType": "Sandbox.Timedout", "errorMessage": "the answer was not received"})
        return result

    def _sandbox(self, function: Function) -> Sandbox:
        warm = self._warm.setdefault(function.logical, [])
        if warm and self.is_failing and self.chance.random() < self.call_faults.of_cold_starts:
            self._leave(warm.pop(self.chance.randrange(len(warm))))
        if warm:
            return warm.pop(self.chance.randrange(len(warm)))
        skew = timedelta(seconds=self.chance.uniform(-self.call_faults.skew_s, self.call_faults.skew_s))
        made = Sandbox(function, APPS.take(function), skew)
        vars(made.app).get("_begun", set()).clear()  # a new execution environment has not looked at its deployment
        self._taken.append(made)
        return made

    def _leave(self, sandbox: Sandbox) -> None:
        self._taken.remove(sandbox)
        APPS.give_back(sandbox.function, sandbox.app)

    def pause(self, what: str) -> None:
        """Hand the turn back; with it come this function's own memory and clock."""
        task = self._running
        assert task, f"{what} outside of any task"
        self.steps += 1
        assert self.steps < STEPS_MAX, "the stack does not come to rest: some function makes its own work"
        starved = self._starving and self.is_failing and what in WRITES and self.chance.random() < _STARVED_AT_WRITES
        if starved:
            task.urgency = -self.chance.random()
        if starved or self.chance.random() >= (self._sticky if self.is_failing else _STICKY_IN_QUIET):
            task.pause()
        one = self._invocations.get(task)
        if one is None:
            return
        sites._cache = one.sandbox.known
        secrets._cache = one.sandbox.secrets
        self._set_clock(one.sandbox.skew)
        if one.killed or self.now > one.deadline:
            one.killed = True
            raise Killed

    def call(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        self.pause(operation)
        task = self._running
        assert task
        one = self._invocations.get(task)
        fault = self.call_faults.fault(self.chance, operation) if self.is_failing and one else None
        self._set_clock(timedelta())
        try:
            if fault is None:
                return self._sent(service, operation, params)
            self.log.append(f"{self.now:%d %H:%M:%S} {operation}: {fault}")
            return suffer(
                fault, self.chance, service, operation, params, lambda **said: self._sent(service, operation, said)
            )
        except Killed:
            if one:
                one.killed = True
            raise
        finally:
            if one:
                self._set_clock(one.sandbox.skew)

    def _sent(self, service: str, operation: str, params: dict[str, Any]) -> Any:
        answer = getattr(self.backend.clients[service], operation)(**params)
        if operation in ("put_object", "delete_object"):
            try:
                self.look(operation, params["Key"])
            except AssertionError as seen:  # the product would take it for a fault of S3, and try again
                self._seen = self._seen or seen
        return answer

    def _fetched(self, url: str, headers: dict[str, str]) -> client.Response:
        assert self._running
        asked_at = self._invocations[self._running].begun  # a run may decide by the instant when it began
        self.pause("fetch")
        if self.is_failing and self.chance.random() < self.call_faults.of_calls:
            raise errors.TooSlow(f"{url} did not answer in time")
        return self.fetch(url, headers, asked_at)

    def _some_of(
        self, futures: Iterable[Future[Any]], timeout: float, until: str
    ) -> tuple[list[Future[Any]], list[Future[Any]]]:
        """Some have been answered, in any order."""
        shuffled = self.chance.sample(all_of := list(futures), len(all_of))
        done = self.chance.randint(1, len(shuffled))
        return shuffled[:done], shuffled[done:]

    def _close(self) -> None:
        for task in self._tasks:
            self._running = task
            task.end()
        for sandbox in self._taken:
            APPS.give_back(sandbox.function, sandbox.app)
