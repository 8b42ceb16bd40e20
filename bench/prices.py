"""Usage in billed quantities and in dollars at list prices."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from bench import model
from bench.measuring import Measured
from bench.wiring import scheduled, wiring
from stoppress.poll.feeds import FETCHES_AT_ONCE

THOUSAND, MILLION, GB = 1_000, 1_000_000, 1_000_000_000
# Each charge: the service, the quantity, its price in prices.toml, and how much of the quantity has this price.
CHARGES = (
    ("Lambda", "invocations", "lambda.million_requests", MILLION),
    ("Lambda", "gb_seconds", "lambda.gb_second", 1),
    ("DynamoDB", "write_units", "dynamodb.million_write_units", MILLION),
    ("DynamoDB", "read_units", "dynamodb.million_read_units", MILLION),
    ("DynamoDB", "table_bytes", "dynamodb.gb_month", GB),
    ("DynamoDB", "table_bytes", "dynamodb.backup_gb_month", GB),
    ("S3", "puts", "s3.thousand_puts", THOUSAND),
    ("S3", "other_s3", "s3.thousand_other", THOUSAND),
    ("S3", "bucket_bytes", "s3.gb_month", GB),
    ("SQS", "sqs_requests", "sqs.million_requests", MILLION),
    ("API Gateway", "api_requests", "api.million_requests", MILLION),
    ("EventBridge", "events", "events.million_events", MILLION),
    ("EventBridge", "schedules", "events.million_schedules", MILLION),
    ("Secrets Manager", "secrets", "secrets.secret_month", 1),
    ("Secrets Manager", "secret_reads", "secrets.ten_thousand_calls", 10_000),
    ("alarms", "alarm_metrics", "cloudwatch.alarm_metric", 1),
    ("alarms", "dashboards", "cloudwatch.dashboard", 1),
    ("custom metrics", "custom_metrics", "cloudwatch.custom_metric", 1),
    ("logs", "log_bytes", "cloudwatch.log_gb", GB),
    ("logs", "log_bytes", "cloudwatch.log_gb_month", GB),
    ("transfer", "bytes_out", "transfer.gb_out", GB),
)
# Charges of a month, not of an event.
_OF_A_MONTH = {"alarms", "custom metrics", "logs", "transfer"}


@dataclass
class Usage:
    """Billed quantities by name, and the part of the hours in which each custom metric is reported."""

    of: dict[str, float] = field(default_factory=dict)
    metrics: Mapping[tuple[str, ...], float] = field(default_factory=dict)

    def __add__(self, other: "Usage") -> "Usage":
        names, metrics = self.of.keys() | other.of.keys(), self.metrics.keys() | other.metrics.keys()
        return Usage(
            {name: self.of.get(name, 0) + other.of.get(name, 0) for name in names},
            {metric: max(self.metrics.get(metric, 0), other.metrics.get(metric, 0)) for metric in metrics},
        )

    def __mul__(self, times: float) -> "Usage":
        return Usage({name: count * times for name, count in self.of.items()}, self.metrics if times else {})

    def __sub__(self, other: "Usage") -> "Usage":
        """Return the quantities less another's. The metrics stay."""
        return Usage((self + other * -1).of, self.metrics)

    @property
    def dollars(self) -> dict[str, float]:
        """Return the price, by service and in all."""
        by_service: dict[str, float] = {}
        for service, quantity, name, unit in CHARGES:
            by_service[service] = by_service.get(service, 0) + self.of.get(quantity, 0) / unit * price(name)
        by_service["total"] = sum(by_service.values())
        return {service: round(dollars, 2) for service, dollars in by_service.items()}


@cache
def _prices() -> dict[str, Any]:
    return tomllib.loads(Path(__file__).with_name("prices.toml").read_text(encoding="utf-8"))


def price(name: str) -> float:
    """Return a price of the dated table prices.toml, such as `s3.gb_month`."""
    service, _, charge = name.partition(".")
    return float(_prices()[service][charge])


def usage(counts: Measured, feeds: int = 0) -> Usage:
    """Return the billed quantities of a measurement. `feeds`: how many feeds each run of poll_feeds fetched."""
    calls, invocations, hops = counts.calls, counts.invocations, model.hops()
    waits_s = ceil(feeds / FETCHES_AT_ONCE) * model.hop("feed").p50_ms / 1_000 * invocations["PollFeeds"]
    requests = invocations["ReceiveWebhook"]
    lines = invocations.total() * hops["log"]["invocation_bytes"] + requests * hops["log"]["request_bytes"]
    return Usage(
        {
            "invocations": invocations.total(),
            "gb_seconds": model.gb_seconds(counts.runs) + waits_s * wiring().memory_mb["PollFeeds"] / 1_024,
            "schedules": sum(invocations[name] for name in scheduled()),
            "sqs_requests": counts.sqs_requests,
            "api_requests": requests,
            "events": calls["eventbridge.PutEvents"],
            "secret_reads": calls["secrets-manager.GetSecretValue"],
            "write_units": counts.write_units,
            "read_units": counts.read_units,
            "puts": counts.puts,
            "other_s3": counts.other_s3,
            "bytes_put": counts.bytes_put,
            "log_bytes": counts.log_bytes + lines,
            "bytes_out": feeds * invocations["PollFeeds"] * hops["feed"]["request_bytes"],
        },
        dict.fromkeys(counts.metrics, 1.0),
    )


def million_events(counts: Measured) -> dict[str, float]:
    """Return the dollars for a million of an event, without its logs."""
    million = usage(counts) * MILLION
    million.of["log_bytes"] = 0
    return {service: dollars for service, dollars in million.dollars.items() if service not in _OF_A_MONTH}
