"""EventBridge and EventBridge Scheduler: buses, rules, schedules, and asynchronous invocations with retries."""

import json
import re
import uuid
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any
from unittest import mock

from moto.events.models import EventsBackend

from stoppress_cli.local import queues
from stoppress_cli.local.functions import Function, Result
from stoppress_cli.local.patterns import Pattern
from stoppress_cli.local.resources import Resource, check_properties, failure_destination
from stoppress_cli.local.template import ACCOUNT, REGION, Json, TemplateError

DEFAULT_BUS = "default"
# How long Lambda waits before each retry of a failed asynchronous invocation.
RETRY_DELAYS = (timedelta(minutes=1), timedelta(minutes=2))

_RATE = re.compile(r"rate\((\d+) (minute|hour|day)s?\)")
_DAILY = re.compile(r"cron\((\d+(?:,\d+)*) (\d+) \* \* \? \*\)")
_SECONDS = {"minute": 60, "hour": 3_600, "day": 86_400}
_TARGET = {"Arn", "DeadLetterConfig", "Id", "Input", "RetryPolicy", "RoleArn"}


@dataclass(frozen=True)
class Rule:
    """A pattern on a bus and the ARNs of its targets with their constant inputs (None: the event itself)."""

    bus: str
    pattern: Pattern
    targets: tuple[tuple[str, str | None], ...]


@dataclass
class Schedule:
    """A schedule that fires every `period_s`, on whole periods of the clock, or each day at `minutes`.

    `minutes` are minutes since midnight (UTC), empty for a rate. `fired`: the value of `_count` at the
    last firing; None before the first.
    """

    name: str
    period_s: int
    target: str
    payload: Callable[[datetime], Json]
    minutes: tuple[int, ...] = ()
    fired: int | None = None

    def due(self, now: datetime) -> bool:
        """Whether the schedule has to fire. A new rate is due at once; a new daily schedule waits for its minute."""
        if self.fired is None and self.minutes:
            self.fired = self._count(now - timedelta(minutes=1))
        return self.fired is None or self._count(now) > self.fired

    @property
    def frequent(self) -> bool:
        """Whether the schedule fires each minute."""
        return not self.minutes and self.period_s <= _SECONDS["minute"]

    def fire(self, now: datetime) -> Json:
        """Fires: returns the event for the target."""
        self.fired = self._count(now)
        return self.payload(now)

    def _count(self, now: datetime) -> int:
        """How many firings were due from 1970 until `now`."""
        if not self.minutes:
            return int(now.timestamp()) // self.period_s
        day, second = divmod(int(now.timestamp()), _SECONDS["day"])
        return day * len(self.minutes) + sum(minute * 60 <= second for minute in self.minutes)


def rule(resource: Resource) -> Rule | Schedule:
    """The rule of a resource: with a pattern, or with a schedule."""
    known = {"Description", "EventBusName", "EventPattern", "Name", "ScheduleExpression", "State", "Targets"}
    check_properties(resource, known)
    properties = resource.properties
    targets = tuple(_target(resource, target) for target in properties["Targets"])
    if "ScheduleExpression" in properties:
        return _schedule(resource, targets[0], "aws.events", {})
    bus = str(properties.get("EventBusName", DEFAULT_BUS)).rsplit("/", 1)[-1]
    return Rule(bus, Pattern(properties["EventPattern"], resource.logical), targets)


def schedule(resource: Resource) -> Schedule:
    """A schedule of EventBridge Scheduler."""
    known = {"Description", "FlexibleTimeWindow", "GroupName", "Name", "ScheduleExpression", "State", "Target"}
    check_properties(resource, known)
    return _schedule(resource, _target(resource, resource.properties["Target"]), "aws.scheduler", "{}")


def _target(resource: Resource, target: Json) -> tuple[str, str | None]:
    """ARN and constant input of a target."""
    if unknown := sorted(set(target) - _TARGET):
        raise TemplateError(f"{resource.logical}: the local stack does not know the target property {unknown[0]}")
    return target["Arn"], target.get("Input")


def _schedule(resource: Resource, target: tuple[str, str | None], source: str, detail: Any) -> Schedule:
    expression = resource.properties["ScheduleExpression"]
    rate, daily = _RATE.fullmatch(expression), _DAILY.fullmatch(expression)
    if rate is None and daily is None:
        raise TemplateError(
            f"{resource.logical}: the local stack knows rate(…) and daily cron(<minutes> <hour> * * ? *), not {expression}"
        )
    arn, constant = target

    def payload(now: datetime) -> Json:
        if constant is not None:
            fixed: Json = json.loads(constant)
            return fixed
        return envelope("Scheduled Event", source, detail, now, [resource.arn])

    if daily is not None:
        minutes = tuple(int(daily[2]) * 60 + int(minute) for minute in daily[1].split(","))
        return Schedule(resource.logical, _SECONDS["day"], arn, payload, minutes)
    assert rate is not None
    return Schedule(resource.logical, int(rate[1]) * _SECONDS[rate[2]], arn, payload)


def envelope(detail_type: str, source: str, detail: Any, now: datetime, resources: list[str] | None = None) -> Json:
    """An event as EventBridge delivers it."""
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
    """Asynchronous invocations: retried after a minute, then two, then handed to the failure destination."""

    def __init__(self) -> None:
        self._configured: dict[str, Json] = {}
        self._waiting: deque[_Invocation] = deque()

    def configure(self, resource: Resource) -> None:
        """Applies a function's EventInvokeConfig."""
        known = {"DestinationConfig", "FunctionName", "MaximumEventAgeInSeconds", "MaximumRetryAttempts", "Qualifier"}
        check_properties(resource, known)
        self._configured[resource.properties["FunctionName"]] = resource.properties

    def add(self, function: Function, event: Json, now: datetime) -> None:
        """Queues an invocation for now."""
        self._waiting.append(_Invocation(function, event, now, now))

    def deliver(self, invoke: Callable[[Function, Json], Result], now: datetime) -> bool:
        """Makes every invocation that is due. False if there is none."""
        due = [waiting for waiting in self._waiting if waiting.due <= now]
        self._waiting = deque(waiting for waiting in self._waiting if waiting.due > now)
        for invocation in due:
            result = invoke(invocation.function, invocation.event)
            if result.error is not None:
                self._failed(invocation, result, now)
        return bool(due)

    def _failed(self, invocation: _Invocation, result: Result, now: datetime) -> None:
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
                "requestId": result.request_id,
                "functionArn": f"{invocation.function.arn}:$LATEST",
                "condition": "RetriesExhausted" if invocation.failed == attempts else "EventAgeExceeded",
                "approximateInvokeCount": invocation.failed + 1,
            },
            "requestPayload": invocation.event,
            "responseContext": {"statusCode": 200, "executedVersion": "$LATEST", "functionError": "Unhandled"},
            "responsePayload": result.error,
        }
        queues.send(destination, json.dumps(report))


@contextmanager
def overheard(arrived: Callable[[str, Json], None]) -> Iterator[None]:
    """Calls `arrived(bus, event)` for every event that is put on a bus of moto while the block runs."""
    put_events = EventsBackend.put_events

    def put_and_report(self: EventsBackend, events: list[dict[str, Any]]) -> list[dict[str, Any]]:
        answers = put_events(self, events)
        now = datetime.now(UTC)
        for entry, answer in zip(events, answers, strict=True):
            if "EventId" in answer:
                detail = json.loads(entry["Detail"])
                at = entry.get("Time", now)
                at = at if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
                made = envelope(entry["DetailType"], entry["Source"], detail, at, entry.get("Resources"))
                made["id"] = answer["EventId"]
                arrived(str(entry.get("EventBusName") or DEFAULT_BUS).rsplit("/", 1)[-1], made)
        return answers

    with mock.patch.object(EventsBackend, "put_events", put_and_report):
        yield
