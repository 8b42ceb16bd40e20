"""CloudWatch for tests: metrics by minute, and whether an alarm of the template would be in ALARM.

Sources of the rules: AWS, *Alarm evaluation* and *Configuring how CloudWatch alarms treat missing data* (alarms); *Available
CloudWatch metrics for Amazon SQS* (a message received three times or more does not count in ApproximateAgeOfOldestMessage; a
message that SQS moves to a dead-letter queue does not count in NumberOfMessagesSent; metrics arrive up to 15 minutes late when a queue
was inactive, and are zero where nothing happens in an active one).
"""

import io
import json
import re
from collections import defaultdict
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stoppress.model.http_request import Request
from stoppress_cli.local.gateway import Answer
from stoppress_cli.local.lambda_functions import Function
from stoppress_cli.local.template import Resolver, Template
from tests.simulation.stack import StackOnDoubles

Key = tuple[str, str, frozenset[tuple[str, str]]]

STATISTICS: Mapping[str, Callable[[list[float]], float]] = {"Sum": sum, "Maximum": max, "SampleCount": len}
BREACHES: Mapping[str, Callable[[float, float], bool]] = {
    "GreaterThanThreshold": lambda value, threshold: value > threshold,
    "LessThanThreshold": lambda value, threshold: value < threshold,
}
# AWS looks at more periods than it evaluates; its example has five for three.
MORE_PERIODS = 2
# From the third receipt on, a message is no longer in ApproximateAgeOfOldestMessage.
RECEIVED_MAX = 3


def minute_of(instant: datetime) -> int:
    return int(instant.timestamp()) // 60


class Metrics(io.TextIOBase):
    """Values by metric and minute. Used as a stack's log, it parses lines in the embedded metric format."""

    def __init__(self) -> None:
        self.values: dict[Key, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
        self.sqs_late = (0, 0)  # metrics of SQS from the first minute on arrive at the second minute

    def add(self, namespace: str, name: str, dimensions: Mapping[str, str], *values: float) -> None:
        self.values[namespace, name, frozenset(dimensions.items())][minute_of(datetime.now(UTC))].extend(values)

    def write(self, text: str) -> int:
        line: Any = None
        with suppress(ValueError):
            line = json.loads(text)
        for group in line["_aws"]["CloudWatchMetrics"] if isinstance(line, dict) and "_aws" in line else ():
            for names in group["Dimensions"]:
                for metric in group["Metrics"]:
                    value = line[metric["Name"]]
                    values = value if isinstance(value, list) else [value]
                    self.add(group["Namespace"], metric["Name"], {name: line[name] for name in names}, *values)
        return len(text)

    def datum(self, metric: Mapping[str, Any], statistic: str, start: int, end: int, now: int) -> float | None:
        """Return a metric's statistic from minute `start` up to minute `end`, as published by minute `now`; None without data."""
        late_from, late_until = self.sqs_late
        if metric["Namespace"] == "AWS/SQS" and now < late_until:
            end = min(end, late_from)
        dimensions = frozenset((pair["Name"], pair["Value"]) for pair in metric.get("Dimensions", []))
        minutes = self.values.get((metric["Namespace"], metric["MetricName"], dimensions), {})
        values = [value for minute in range(start, end) for value in minutes.get(minute, [])]
        return STATISTICS[statistic](values) if values else None


@dataclass(frozen=True)
class Alarm:
    """An alarm of the template, its properties resolved."""

    name: str
    properties: Mapping[str, Any]

    def is_in_alarm(self, metrics: Metrics, minute: int) -> bool:
        """Return True if the alarm is in ALARM at the start of `minute`. AWS evaluates every minute, over whole periods."""
        evaluated = int(self.properties["EvaluationPeriods"])
        newest_first = [self._datum(metrics, minute, back) for back in range(evaluated + MORE_PERIODS)]
        real = [value for value in newest_first if value is not None][:evaluated]
        threshold = float(self.properties["Threshold"])
        breaching = sum(BREACHES[self.properties["ComparisonOperator"]](value, threshold) for value in real)
        if self.properties["TreatMissingData"] == "breaching":  # fills up to as many as are evaluated
            breaching += evaluated - len(real)
        else:
            assert self.properties["TreatMissingData"] == "notBreaching"
        return breaching >= int(self.properties.get("DatapointsToAlarm", evaluated))

    def _datum(self, metrics: Metrics, minute: int, back: int) -> float | None:
        if "Metrics" not in self.properties:
            return self._of(metrics, self.properties, "Statistic", minute, back)
        values = {
            part["Id"]: self._of(metrics, part["MetricStat"]["Metric"] | part["MetricStat"], "Stat", minute, back)
            for part in self.properties["Metrics"]
            if "MetricStat" in part
        }
        [expression] = [part["Expression"] for part in self.properties["Metrics"] if "Expression" in part]
        functions = {
            "FILL": lambda value, other: other if value is None else value,
            "IF": lambda condition, value, other: value if condition else other,
        }
        python = expression.replace(" AND ", " and ")
        return float(eval(python, {"__builtins__": {}} | functions | values))  # noqa: S307 - the template is ours

    def _of(self, metrics: Metrics, stat: Mapping[str, Any], statistic: str, minute: int, back: int) -> float | None:
        minutes = int(stat["Period"]) // 60
        start, end = minute - minutes * (back + 1), minute - minutes * back
        return metrics.datum(stat, str(stat[statistic]), start, end, minute)


def resolver(template: Template, stack: StackOnDoubles) -> Resolver:
    """Return a resolver for resources that the local stack does not run."""
    names: dict[str, tuple[str, dict[str, str]]] = {name: (name, {"Arn": name}) for name in template.resources}
    for name, resource in stack.resources.items():
        names[name] = resource.ref, {"Arn": resource.arn, "QueueName": resource.ref.rsplit("/", 1)[-1]}
    return Resolver(template, names, stack.name)


def alarms(template: Template, stack: StackOnDoubles) -> list[Alarm]:
    resolve = resolver(template, stack).resolve
    return [
        Alarm(name, resolve(resource["Properties"]))
        for name, resource in template.resources.items()
        if resource["Type"] == "AWS::CloudWatch::Alarm"
    ]


class Watch:
    """Publishes the metrics of AWS' own services. Call `sample` often, and `close_minute` at the end of each minute."""

    def __init__(self, stack: StackOnDoubles, template: Template, metrics: Metrics) -> None:
        self._stack, self._metrics = stack, metrics
        self._before = dict.fromkeys(stack.functions, (0, 0))
        self._delivered = 0
        resolve = resolver(template, stack).resolve
        self._filters = [
            (name, resolve(resource["Properties"]))
            for name, resource in template.resources.items()
            if resource["Type"] == "AWS::Logs::MetricFilter"
        ]
        put = stack.backend._put

        def put_and_count(queue: Any, body: str, delay_s: int) -> Any:
            self._queue(queue.arn, "NumberOfMessagesSent", 1)
            return put(queue, body, delay_s)

        request = stack.request

        def request_and_count(received: Request) -> Answer:
            answer = request(received)
            self.count_answer(answer.status, api="HubApi" if received.path.startswith("/websub/") else "WebhookApi")
            return answer

        add = stack.sources.invocations.add

        def add_and_count(function: Function, event: Any, now: datetime) -> None:
            metrics.add("AWS/Lambda", "AsyncEventsReceived", {"FunctionName": function.name}, 1.0)
            add(function, event, now)

        stack.sources.invocations.add = add_and_count  # type: ignore[method-assign]
        stack.backend._put = put_and_count  # type: ignore[method-assign]
        stack.request = request_and_count  # type: ignore[assignment,method-assign]

    def count_answer(self, status: int, times: int = 1, api: str = "WebhookApi") -> None:
        dimensions = {"ApiId": self._stack.resources[api].ref}
        if status >= 400:
            self._metrics.add("AWS/ApiGateway", f"{status // 100}xx", dimensions, *[1.0] * times)

    def sample(self) -> None:
        """Publish the state of queues and stream."""
        now = datetime.now(UTC).timestamp()
        for resource in self._stack.resources.values():
            if resource.type == "AWS::SQS::Queue":
                messages = self._stack.backend.queue(resource.arn).messages
                ages = [now - message.sent_at for message in messages if message.received < RECEIVED_MAX]
                self._queue(resource.arn, "ApproximateAgeOfOldestMessage", max(ages, default=0.0))
                visible = sum(message.visible_at <= now for message in messages)
                self._queue(resource.arn, "ApproximateNumberOfMessagesVisible", visible)
                hidden = sum(message.visible_at > now and message.received > 0 for message in messages)
                self._queue(resource.arn, "ApproximateNumberOfMessagesNotVisible", hidden)
                self._queue(resource.arn, "NumberOfMessagesSent", 0.0)
        for mapping in self._stack.sources.stream_mappings:
            created = [
                record["dynamodb"]["ApproximateCreationDateTime"]
                for batch in mapping._pending
                for record in batch.records
            ]
            delivered = mapping.function.invocations > self._delivered
            self._delivered = mapping.function.invocations
            if created or delivered:
                age = (now - float(min(created))) * 1000 if created else 0.0
                self._metrics.add("AWS/Lambda", "IteratorAge", {"FunctionName": mapping.function.name}, age)

    def close_minute(self) -> None:
        """Publish the invocations and errors of the minute that ends. Lambda also logs a report of each invocation."""
        for name, function in self._stack.functions.items():
            invocations, errors = self._before[name]
            self._before[name] = function.invocations, function.errors
            new = {"Invocations": function.invocations - invocations, "Errors": function.errors - errors}
            for metric, number in new.items():
                if new["Invocations"]:
                    self._metrics.add("AWS/Lambda", metric, {"FunctionName": function.name}, number)
            for _ in range(new["Errors"]):
                self._apply_filters(f"{name}Log", {"type": "platform.report", "record": {"status": "error"}})
            for _ in range(new["Invocations"] - new["Errors"]):
                self._apply_filters(f"{name}Log", {"type": "platform.report", "record": {"status": "success"}})

    def _apply_filters(self, group: str, line: Mapping[str, Any]) -> None:
        for _, properties in self._filters:
            if properties["LogGroupName"] == group and _passes(line, properties["FilterPattern"]):
                for metric in properties["MetricTransformations"]:
                    self._metrics.add(metric["MetricNamespace"], metric["MetricName"], {}, float(metric["MetricValue"]))

    def _queue(self, arn: str, metric: str, value: float) -> None:
        self._metrics.add("AWS/SQS", metric, {"QueueName": arn.rsplit(":", 1)[-1]}, value)


def _passes(line: Mapping[str, Any], pattern: str) -> bool:
    """Return True if a line matches a pattern of terms `$.path = "value"` and `$.path != "value"` joined by &&."""
    terms = re.fullmatch(r"\{ (.*) \}", pattern)
    assert terms, pattern
    return all(_holds(line, term) for term in terms[1].split(" && "))


def _holds(line: Mapping[str, Any], term: str) -> bool:
    match = re.fullmatch(r'\$\.([\w.]+) (!?=) "(\w[\w.]*)"', term)
    assert match, term
    value: Any = line
    for name in match[1].split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return bool(value == match[3]) == (match[2] == "=")
