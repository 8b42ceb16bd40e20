"""Copies a table that point-in-time recovery has made into the stack's table, because recovery always makes a new table."""

import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import Any

from stoppress.aws.clients import client
from stoppress.aws.table import BATCH_ITEMS_MAX
from stoppress_cli.printing import counted
from stoppress_cli.stack.find import BadRequest

_ATTEMPTS_MAX = 10


@dataclass(frozen=True)
class Counted:
    """Number of items in the other table, and of items that only the stack's table has."""

    there: int
    extra: int


def differences(name: str) -> Counted:
    """What `restore` would do. Raises BadRequest for a missing table, and DynamoDB's errors."""
    there = sum(1 for _ in _scan(name, keys_only=True))
    return Counted(there, sum(1 for _ in _extra(name)))


def restore(name: str) -> Counted:
    """Copies every item, then deletes the items that the other table lacks. In this order no entry is missing meanwhile.

    Raises as `differences`, and TimeoutError if DynamoDB leaves items unwritten.
    """
    there = _write(_scan(name), lambda item: {"PutRequest": {"Item": item}})
    return Counted(there, _write(_extra(name), lambda key: {"DeleteRequest": {"Key": key}}))


def _scan(name: str, *, keys_only: bool = False) -> Iterator[dict[str, Any]]:
    arguments = {"ProjectionExpression": "pk, sk"} if keys_only else {}
    pages = client("dynamodb").get_paginator("scan").paginate(TableName=name, ConsistentRead=True, **arguments)
    try:
        for page in pages:
            yield from page["Items"]
    except client("dynamodb").exceptions.ResourceNotFoundException:
        raise BadRequest(
            f"there is no table {name!r} here: name the one that point-in-time recovery has made, as"
            " `aws dynamodb list-tables` shows it"
        ) from None


def _extra(name: str) -> Iterator[dict[str, Any]]:
    """Keys that only the stack's table has."""
    keys = _scan(os.environ["TABLE_NAME"], keys_only=True)
    while some := list(islice(keys, 100)):
        wanted: dict[str, Any] = {name: {"Keys": some, "ProjectionExpression": "pk, sk"}}
        present: list[Any] = []
        while wanted:
            answer = client("dynamodb").batch_get_item(RequestItems=wanted)
            present += answer["Responses"].get(name, [])
            wanted = answer.get("UnprocessedKeys") or {}
        yield from (key for key in some if key not in present)


def _write(items: Iterator[dict[str, Any]], request: Callable[[dict[str, Any]], dict[str, Any]]) -> int:
    written = 0
    while some := [request(item) for item in islice(items, BATCH_ITEMS_MAX)]:
        written += len(some)
        for attempt in range(_ATTEMPTS_MAX):
            answer = client("dynamodb").batch_write_item(RequestItems={os.environ["TABLE_NAME"]: some})
            some = (answer.get("UnprocessedItems") or {}).get(os.environ["TABLE_NAME"], [])
            if not some:
                break
            time.sleep(0.05 * 2**attempt)
        else:
            raise TimeoutError(f"DynamoDB left {counted(len(some), 'item')} unwritten; run it again")
    return written
