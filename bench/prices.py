"""What is measured, in dollars at list prices."""

import tomllib
from functools import cache
from pathlib import Path
from typing import Any

from bench import model
from bench.measuring import Measured

MILLION = 1_000_000


@cache
def prices() -> dict[str, Any]:
    """The dated table, prices.toml."""
    return tomllib.loads(Path(__file__).with_name("prices.toml").read_text(encoding="utf-8"))


def million_events(one: Measured) -> dict[str, float]:
    """Dollars for a million of an event, by service and in all."""
    of = prices()
    by = {
        "dynamodb": one.write_units * of["dynamodb"]["million_write_units"] + one.read_units * of["dynamodb"]["million_read_units"],
        "s3": (one.puts * of["s3"]["thousand_puts"] + one.other_s3 * of["s3"]["thousand_other"]) * 1_000,
        "sqs": one.sqs_requests * of["sqs"]["million_requests"],
        "lambda": sum(one.invocations.values()) * of["lambda"]["million_requests"]
        + model.gb_seconds(one.runs) * of["lambda"]["gb_second"] * MILLION,
        "api": one.invocations["ReceiveWebhook"] * of["api"]["million_requests"],
        "events": one.calls["eventbridge.PutEvents"] * of["events"]["million_events"],
        "secrets": one.calls["secrets-manager.GetSecretValue"] * of["secrets"]["ten_thousand_calls"] * 100,
    }  # fmt: skip
    return {name: round(dollars, 2) for name, dollars in (by | {"total": sum(by.values())}).items()}
