"""The settings in template.yaml that the latency depends on, and the resources that are billed."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from stoppress_cli.local import template

TEMPLATE = Path(__file__).parents[1] / "template.yaml"
DAYS_A_MONTH = 30
MINUTES_A_MONTH = DAYS_A_MONTH * 24 * 60
# Long polls end after 20 seconds without a message.
LONG_POLLS_A_MINUTE = 3
# Lambda keeps five long polls open at each queue. Without a maximum concurrency and with low traffic, there are two (Lambda
# developer guide, "Configuring scaling behavior for SQS event source mappings").
POLLERS, POLLERS_UNLIMITED = 5, 2


@dataclass(frozen=True)
class Wiring:
    """The batches of queue and stream, and the memory of the functions."""

    queue_window_ms: float
    queue_batch: int
    queue_concurrency: int
    stream_window_ms: float
    stream_batch: int
    memory_mb: dict[str, int]


@cache
def wiring() -> Wiring:
    """Return the wiring of the template, as SAM transforms it."""
    resources = template.load(TEMPLATE).resources
    types = "AWS::Lambda::EventSourceMapping", "AWS::Lambda::Function"
    mappings, functions = (
        {name: item["Properties"] for name, item in resources.items() if item["Type"] == kind} for kind in types
    )
    [stream] = [mapping for mapping in mappings.values() if "StartingPosition" in mapping]
    [queue] = [mapping for mapping in mappings.values() if "ArticlesQueue" in str(mapping["EventSourceArn"])]
    return Wiring(
        queue.get("MaximumBatchingWindowInSeconds", 0) * 1_000.0,
        queue.get("BatchSize", 10),
        queue.get("ScalingConfig", {}).get("MaximumConcurrency", 1),
        stream.get("MaximumBatchingWindowInSeconds", 0) * 1_000.0,
        stream.get("BatchSize", 100),
        {name: int(function.get("MemorySize", 128)) for name, function in functions.items()},
    )


@cache
def _resources(switched_on: str) -> Mapping[str, Mapping[str, Any]]:
    loaded = template.load(TEMPLATE, {switched_on: "yes"} if switched_on else {})
    resolver = template.Resolver(loaded, {}, template.STACK_NAME)
    return {
        logical: resource
        for logical, resource in loaded.resources.items()
        if "Condition" not in resource or resolver.holds(resource["Condition"])
    }


def of_type(kind: str, switched_on: str = "") -> dict[str, Mapping[str, Any]]:
    """Return the properties of a type's resources, by logical name.

    These are the resources that exist without parameters, or with the parameter `switched_on` set to `yes`.
    """
    resources = _resources(switched_on).items()
    return {name: resource["Properties"] for name, resource in resources if resource["Type"] == kind}


def alarm_metrics(switched_on: str = "") -> int:
    """Return how many metrics the alarms watch. CloudWatch bills each metric, also in an expression."""
    alarms = of_type("AWS::CloudWatch::Alarm", switched_on).values()
    metrics = [alarm.get("Metrics", [{"MetricStat": {}}]) for alarm in alarms]
    return sum("MetricStat" in metric for queries in metrics for metric in queries)


def polled_requests(switched_on: str = "") -> int:
    """Return the long polls of a month at the queues that have a function."""
    event_sources = of_type("AWS::Lambda::EventSourceMapping", switched_on).values()
    mappings = [mapping for mapping in event_sources if "StartingPosition" not in mapping]
    pollers = sum(POLLERS if "ScalingConfig" in mapping else POLLERS_UNLIMITED for mapping in mappings)
    return pollers * LONG_POLLS_A_MINUTE * MINUTES_A_MONTH


@cache
def scheduled() -> frozenset[str]:
    """Return the functions that a schedule invokes."""
    schedules = of_type("AWS::Scheduler::Schedule").values()
    return frozenset(schedule["Target"]["Arn"]["Fn::GetAtt"][0] for schedule in schedules)
