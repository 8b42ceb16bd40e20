"""The report of a scenario: the expectations that do not hold, and the counts at the end of the run."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import ACCOUNT, REGION
from stoppress_cli.output import counted
from stoppress_cli.scenario import listed_pages


@dataclass
class Report:
    """Number of steps played, and each expectation that does not hold, with its line."""

    steps: int = 0
    failures: list[str] = field(default_factory=list)

    def rows(self, stack: Stack, seconds: float) -> dict[str, str]:
        """Return what `stoppress play` prints at the end, by heading; `seconds` is how long the run took."""
        meter = stack.wire.meter
        articles = Counter(item.get("state", {}).get("S", "?") for item in _articles(stack))
        files = Counter(file.host for file in listed_pages.read(stack))
        rows = {
            "steps": f"{self.steps:,} in {seconds:.1f} s, {counted(len(self.failures), 'difference')}",
            "articles": _listed(articles) or "none",
            "files": _listed(files) or "none",
            "API calls": f"{sum(meter.calls.values()):,}: {_listed(meter.operations())}" if meter.calls else "none",
            "capacity": f"{meter.write_units:,g} write units, {meter.read_units:,g} read units",
            "S3": f"{meter.s3_bytes_put:,} bytes put, {meter.s3_bytes_got:,} bytes got",
            "metrics": ", ".join(f"{name} {value:,g}" for name, value in sorted(stack.metrics.items())) or "none",
        }
        return rows | {name: text for name, text in _troubles(stack).items() if text}


def _troubles(stack: Stack) -> dict[str, str]:
    """Rows of failures, refused calls, faults that met no call, and messages that wait; an empty text where there are none."""
    functions, mappings = stack.functions.items(), stack.sources.mappings()
    refused = stack.wire.guard.refused
    unmet = [fault for fault in stack.wire.faults if fault.times > 0]
    return {
        "failed": ", ".join(f"{name} {counted(each.errors, 'time')}" for name, each in functions if each.errors),
        "retried": ", ".join(f"{each.name} {counted(each.reported, 'record')}" for each in mappings if each.reported),
        "refused": f"{counted(len(refused), 'call')}; the first: {refused[0]}" if refused else "",
        "faults": ", ".join(f"{fault.service}.{fault.operation} {fault.times:,} not met" for fault in unmet),
        "queues": ", ".join(f"{name} {number:,}" for name, number in stack.waiting_messages().items()),
    }


def _listed(numbers: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {number:,}" for name, number in sorted(numbers.items()))


def _articles(stack: Stack) -> Iterator[dict[str, Any]]:
    """Return every article's item in DynamoDB's JSON. moto's table is read in place, because its Scan is slow."""
    table = stack.only("AWS::DynamoDB::Table").ref
    from moto.dynamodb.models import dynamodb_backends

    for key, partition in dynamodb_backends[ACCOUNT][REGION].get_table(table).items.items():
        if key.value.startswith("article#"):
            yield from (item.to_json()["Attributes"] for item in partition.values())
