"""Counts the functions' usage of AWS: calls, DynamoDB capacity units, S3 requests and bytes.

moto reports no real capacity, so the units are computed from item sizes. The rules are AWS's (DynamoDB developer guide,
"DynamoDB item sizes and formats" and "read and write capacity").
"""

import math
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

WRITE_UNIT_BYTES = 1_024
READ_UNIT_BYTES = 4_096
TRANSACTION_FACTOR = 2
DOCUMENT_OVERHEAD_BYTES = 3  # a list or map, whatever it contains
ELEMENT_OVERHEAD_BYTES = 1  # each element of a list, each pair of a map

Attributes = dict[str, Any]  # an item in DynamoDB's JSON: {"pk": {"S": "…"}, …}


def item_bytes(item: Attributes | None) -> int:
    """Return the size of an item as DynamoDB counts it: UTF-8 names and values. None has no size."""
    return sum(len(name.encode()) + value_bytes(value) for name, value in (item or {}).items())


def value_bytes(value: Attributes) -> int:
    """Return the size of one attribute value, {type: value}."""
    kind, content = next(iter(value.items()))
    match kind:
        case "S":
            return len(content.encode("utf-8", "surrogatepass"))
        case "N":
            # An approximation of DynamoDB's: a byte for two significant digits, one more, and one for a minus sign.
            digits = content.lstrip("+-").lower().partition("e")[0].replace(".", "").strip("0")
            return math.ceil(len(digits) / 2) + 1 + str(content).startswith("-")
        case "BOOL" | "NULL":
            return 1
        case "L":
            return DOCUMENT_OVERHEAD_BYTES + sum(ELEMENT_OVERHEAD_BYTES + value_bytes(part) for part in content)
        case "M":
            return (
                DOCUMENT_OVERHEAD_BYTES
                + sum(ELEMENT_OVERHEAD_BYTES + len(name.encode()) + value_bytes(part) for name, part in content.items())
            )  # fmt: skip
    raise ValueError(f"unknown attribute type {kind}")


def write_units(size_bytes: int) -> int:
    """Return the write units of one item of that size; deleting or conditioning on a missing item costs one."""
    return max(1, math.ceil(size_bytes / WRITE_UNIT_BYTES))


def read_units(size_bytes: int, consistent: bool) -> float:
    """Return the read units of one read of that many bytes; reading nothing costs as much as the smallest item."""
    return max(1, math.ceil(size_bytes / READ_UNIT_BYTES)) * (1.0 if consistent else 0.5)


# How the meter reads moto's tables: the current item of (table, key), and the bytes that a table's last Query read.
ReadItem = Callable[[str, Attributes], Attributes | None]
LastQuery = Callable[[str], int]


@dataclass
class Meter:
    """Running totals. `calls` is counted by (function, "service.Operation")."""

    calls: Counter[tuple[str, str]] = field(default_factory=Counter)
    read_units: float = 0
    write_units: float = 0
    s3_bytes_put: int = 0
    s3_bytes_got: int = 0

    def operations(self) -> Counter[str]:
        """Return calls by "service.Operation", summed over the functions."""
        total: Counter[str] = Counter()
        for (_, operation), count in self.calls.items():
            total[operation] += count
        return total


def keys_written(operation: str, request: Attributes) -> list[tuple[str, Attributes]]:
    """Return (table, key or item) of every item that a request writes, or whose condition it checks."""
    match operation:
        case "PutItem":
            return [(request["TableName"], request["Item"])]
        case "UpdateItem" | "DeleteItem":
            return [(request["TableName"], request["Key"])]
        case "TransactWriteItems":
            parts = [next(iter(part.values())) for part in request["TransactItems"]]
            return [(part["TableName"], part.get("Item") or part["Key"]) for part in parts]
        case "BatchWriteItem":
            return [
                (table, (part.get("PutRequest") or {}).get("Item") or part["DeleteRequest"]["Key"])
                for table, parts in request["RequestItems"].items()
                for part in parts
            ]
    return []


def capacity(
    operation: str, request: Attributes, send: Callable[[], Any], read_item: ReadItem, last_query: LastQuery
) -> tuple[Any, float, float]:
    """Send a DynamoDB request. Return its answer, the read units and the write units that it costs.

    `send()` returns an object with `status_code`. `read_item` reads the table before and after.
    """
    keys = keys_written(operation, request)
    before = [item_bytes(read_item(table, key)) for table, key in keys]
    response = send()
    succeeded = response.status_code == 200
    if not keys:
        return response, _units_read(operation, request, read_item, last_query) if succeeded else 0.0, 0.0
    is_transaction = operation == "TransactWriteItems"
    # A cancelled transaction is charged for the items that it would have written.
    is_cancelled = is_transaction and not succeeded
    after = [item_bytes(item if is_cancelled else read_item(table, item)) for table, item in keys]
    units = sum(write_units(max(old, new)) for old, new in zip(before, after, strict=True))
    return response, 0.0, float(units * (TRANSACTION_FACTOR if is_transaction else 1))


def _units_read(operation: str, request: Attributes, read_item: ReadItem, last_query: LastQuery) -> float:
    consistent = bool(request.get("ConsistentRead"))
    match operation:
        case "GetItem":
            return read_units(item_bytes(read_item(request["TableName"], request["Key"])), consistent)
        case "Query":
            return read_units(last_query(request["TableName"]), consistent)
        case "BatchGetItem":
            return math.fsum(
                read_units(item_bytes(read_item(table, key)), bool(part.get("ConsistentRead")))
                for table, part in request["RequestItems"].items()
                for key in part["Keys"]
            )
    return 0.0
