"""EventBridge and EventBridge Scheduler: buses, rules, schedules, and asynchronous invocations with retries."""

import bisect
import json
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from moto.events.exceptions import InvalidEventPatternException
from moto.events.models import EventPattern, EventsBackend

from stoppress_cli.local import local_queues
from stoppress_cli.local.lambda_functions import Function, Result
from stoppress_cli.local.resources import Resource, failure_destination
from stoppress_cli.local.template import ACCOUNT, REGION, Json, TemplateError

DEFAULT_BUS = "default"
# How long Lambda waits before each retry of a failed asynchronous invocation.
RETRY_DELAYS = (timedelta(minutes=1), timedelta(minutes=2))

_RATE = re.compile(r"rate\((\d+) (minute|hour)s?\)")
_DAILY = re.compile(r"cron\((\d+(?:,\d+)*) (\d+) \* \* \? \*\)")
_MINUTES = {"minute": 1, "hour": 60}
_DAY_MINUTES = 24 * 60

_OPERATORS = {"prefix", "suffix", "anything-but", "exists", "numeric", "equals-ignore-case", "wildcard", "cidr"}


def read_pattern(pattern: str | Json, where: str) -> Callable[[Any], bool]:
    """Return moto's test whether an event matches the pattern of a rule or of a mapping's filter, JSON text or object.

    Raises TemplateError for a pattern or an operator that moto does not support.
    """
    try:
        parsed = EventPattern.load(pattern if isinstance(pattern, str) else json.dumps(pattern))
    except InvalidEventPatternException as error:
        raise TemplateError(f"{where}: {error.message}") from error
    if unknown := sorted(set(_operators(parsed.get_pattern())) - _OPERATORS):
        raise TemplateError(f"{where}: the local stack does not support the filter {unknown[0]!r}")
    return parsed.matches_event


def _operators(pattern: Json) -> Iterator[str]:
    """Return the operators of a pattern: the keys of the objects in its lists."""
    for key, value in pattern.items():
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, dict):
                yield from _operators(part) if part is value or key == "$or" else part


class Rule:
    """A pattern on a bus and the ARNs of its targets, which receive the event itself. Raises TemplateError."""

    def __init__(self, resource: Resource) -> None:
        properties = resource.properties
        for target in properties["Targets"]:
            _check_target(resource, target)
        self.targets = tuple(target["Arn"] for target in properties["Targets"])
        self.bus = str(properties.get("EventBusName", DEFAULT_BUS)).rsplit("/", 1)[-1]
        self.matches = read_pattern(properties["EventPattern"], resource.logical)


def _check_target(resource: Resource, target: Json) -> None:
    if unknown := sorted(set(target) - {"Arn", "DeadLetterConfig", "Id", "RetryPolicy", "RoleArn"}):
        raise TemplateError(f"{resource.logical}: the local stack does not support the target property {unknown[0]}")


class Schedule:
    """A schedule of EventBridge Scheduler: each period, on whole periods of the clock, or each day at some minutes."""

    def __init__(self, resource: Resource) -> None:
        target = resource.properties["Target"]
        _check_target(resource, target)
        expression = resource.properties["ScheduleExpression"]
        # Minutes since midnight (UTC) at which it fires.
        self._minutes: Sequence[int]
        if rate := _RATE.fullmatch(expression):
            self._minutes = range(0, _DAY_MINUTES, int(rate[1]) * _MINUTES[rate[2]])
        elif daily := _DAILY.fullmatch(expression):
            self._minutes = sorted(int(daily[2]) * 60 + int(minute) for minute in daily[1].split(","))
        else:
            raise TemplateError(
                f"{resource.logical}: the local stack supports rate(<number> minutes or hours) and daily"
                f" cron(<minutes> <hour> * * ? *), not {expression}"
            )
        self._is_daily = rate is None
        self.target: str = target["Arn"]
        self._arn = resource.arn
        self._fired: int | None = None  # the value of `_count` at the last firing

    def due(self, now: datetime) -> bool:
        """Return True if the schedule has to fire. A new rate is due immediately; a new daily schedule waits for its minute."""
        if self._fired is None and self._is_daily:
            self._fired = self._count(now - timedelta(minutes=1))
        return self._fired is None or self._count(now) > self._fired

    @property
    def frequent(self) -> bool:
        """Return True if the schedule fires each minute."""
        return len(self._minutes) == _DAY_MINUTES

    def fire(self, now: datetime) -> Json:
        """Record that the schedule fires. Return the event for the target."""
        self._fired = self._count(now)
        return envelope("Scheduled Event", "aws.scheduler", "{}", now, [self._arn])

    def _count(self, now: datetime) -> int:
        """Return how many firings were due from 1970 until `now`."""
        day, minute = divmod(int(now.timestamp()) // 60, _DAY_MINUTES)
        return day * len(self._minutes) + bisect.bisect_right(self._minutes, minute)


def envelope(detail_type: str, source: str, detail: Any, now: datetime, resources: list[str] | None = None) -> Json:
    """Return an event as EventBridge delivers it."""
    return {
        "version": "0",
        "id": str(uuid.uuid4()),
        "detail-type": detail_type,
        "source": source,
        "account": ACCOUNT,
        "time": now.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        "region": REGION,
        "resources": resources or [],
        "detail": detail,
    }


@dataclass
class _Invocation:
    function: Function
    event: Json
    since: datetime
    due: datetime
    failed: int = 0


class Invocations:
    """Asynchronous invocations: retried after a minute, then two, then sent to the failure destination."""

    def __init__(self) -> None:
        self._configured: dict[str, Json] = {}
        self._waiting: deque[_Invocation] = deque()

    def configure(self, resource: Resource) -> None:
        """Apply a function's EventInvokeConfig."""
        self._configured[resource.properties["FunctionName"]] = resource.properties

    def add(self, function: Function, event: Json, now: datetime) -> None:
        self._waiting.append(_Invocation(function, event, now, now))

    def deliver(self, invoke: Callable[[Function, Json], Result], now: datetime) -> bool:
        """Run every invocation that is due. Return False if there is none."""
        due = [waiting for waiting in self._waiting if waiting.due <= now]
        self._waiting = deque(waiting for waiting in self._waiting if waiting.due > now)
        for invocation in due:
            result = invoke(invocation.function, invocation.event)
            if result.error is not None:
                self._retry_or_report(invocation, result, now)
        return bool(due)

    def _retry_or_report(self, invocation: _Invocation, result: Result, now: datetime) -> None:
        settings = self._configured.get(invocation.function.name, {})
        attempts = int(settings.get("MaximumRetryAttempts", 2))
        age = timedelta(seconds=int(settings.get("MaximumEventAgeInSeconds", 21_600)))
        if invocation.failed < attempts:
            due = now + RETRY_DELAYS[invocation.failed]
            if due - invocation.since <= age:
                self._waiting.append(replace(invocation, due=due, failed=invocation.failed + 1))
                return
        destination = failure_destination(settings)
        if destination is None:
            return
        report = {
            "version": "1.0",
            "timestamp": now.isoformat(),
            "requestContext": {
                "functionArn": f"{invocation.function.arn}:$LATEST",
                "condition": "RetriesExhausted" if invocation.failed == attempts else "EventAgeExceeded",
                "approximateInvokeCount": invocation.failed + 1,
            },
            "requestPayload": invocation.event,
            "responsePayload": result.error,
        }
        local_queues.send(destination, json.dumps(report))


@contextmanager
def observe_events(on_event: Callable[[str, Json], None]) -> Iterator[None]:
    """Call `on_event(bus, event)` for every event that is put on a bus of moto while the block runs."""
    put_events = EventsBackend.put_events

    def put_and_report(self: EventsBackend, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = put_events(self, events)
        now = datetime.now(UTC)
        for entry, answer in zip(events, answers, strict=True):
            if "EventId" in answer:
                detail = json.loads(entry["Detail"])
                at = entry.get("Time", now)
                at = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
                event = envelope(entry["DetailType"], entry["Source"], detail, at, entry.get("Resources"))
                event["id"] = answer["EventId"]
                on_event(str(entry.get("EventBusName") or DEFAULT_BUS).rsplit("/", 1)[-1], event)
        return answers

    with mock.patch.object(EventsBackend, "put_events", put_and_report):
        yield
