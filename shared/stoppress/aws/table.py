"""The table in DynamoDB. Items are dictionaries; their `rev` counts the writes.

A writer passes the `rev` that it read (None: no item). If another writer was faster, the write raises Conflict, and the writer
reads and decides again.
"""

import os
import random
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from botocore.exceptions import ClientError

from stoppress.aws.clients import client
from stoppress.aws.codec import from_attribute, to_attribute

if TYPE_CHECKING:  # receive_webhook needs no entries; importing them would slow its cold start
    from stoppress.aws.items import Item

# DynamoDB: at most 100 keys in a BatchGetItem. (Also 100 items in a transaction. Stoppress needs fewer than 50, beside language versions.)
BATCH_KEYS_MAX = 100
# DynamoDB: at most 25 items in a BatchWriteItem.
BATCH_ITEMS_MAX = 25

# botocore does not retry unprocessed keys and items.
_BATCH_ATTEMPTS_MAX = 6
# Cancellation reasons of a transaction that conflicts with another write.
_BUSY = {"ConditionalCheckFailed", "TransactionConflict"}
# Cancellation reasons of a throttled transaction. botocore retries a throttled call, but not a cancelled transaction.
_THROTTLED = {"ThrottlingError", "ProvisionedThroughputExceeded"}
_THROTTLED_ATTEMPTS_MAX = 4
# Each conflict is another writer's success, so a few attempts suffice. After them the caller's message or run is repeated.
UPDATE_ATTEMPTS_MAX = 10


class Conflict(Exception):
    """Another writer was faster: read and decide again."""


class Throttled(Exception):
    """DynamoDB throttled every attempt at a transaction. Nothing was written; try again later."""


@dataclass(frozen=True, slots=True)
class Put:
    """Write an item. `guarded`: only while its `rev` is `expected_rev`. `must_exist`: only over an existing item."""

    item: "Item"
    expected_rev: int | None = None
    guarded: bool = True
    must_exist: bool = False


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete an item; with `must_exist`, the transaction fails if there is none."""

    pk: str
    sk: str
    must_exist: bool = False


@dataclass(frozen=True, slots=True)
class Check:
    """Let a transaction succeed only while this item has the `rev` that was read (None: no item)."""

    pk: str
    sk: str
    expected_rev: int | None


def get(pk: str, sk: str = "-", *, consistent: bool = True) -> "Item | None":
    """Return an item, or None. An eventually consistent read costs half."""
    item = _table().get_item(TableName=_name(), Key=_key(pk, sk), ConsistentRead=consistent).get("Item")
    return read_item(item) if item else None


def get_many(keys: Iterable[tuple[str, str]], *, consistent: bool = True) -> "dict[tuple[str, str], Item]":
    """Return the items at these keys; absent ones are left out. Eventually consistent reads cost half.

    Raises TimeoutError if DynamoDB leaves some unread.
    """
    read: dict[tuple[str, str], Item] = {}

    def read_batch(keys: list[Any]) -> list[Any]:
        answer = _table().batch_get_item(RequestItems={_name(): {"Keys": keys, "ConsistentRead": consistent}})
        items = map(read_item, answer["Responses"].get(_name(), []))
        read.update({(item["pk"], item["sk"]): item for item in items})
        return list(answer.get("UnprocessedKeys", {}).get(_name(), {}).get("Keys", []))

    _process_all([_key(*key) for key in dict.fromkeys(keys)], BATCH_KEYS_MAX, read_batch)
    return read


def _process_all(pending: list[Any], size: int, process: Callable[[list[Any]], list[Any]]) -> None:
    """Process keys or items in batches, and repeat those that DynamoDB leaves unprocessed. Raises TimeoutError after some attempts."""
    for attempt in range(_BATCH_ATTEMPTS_MAX):
        pending = [item for start in range(0, len(pending), size) for item in process(pending[start : start + size])]
        if not pending:
            return
        time.sleep(0.05 * 2**attempt)
    raise TimeoutError(f"DynamoDB left {len(pending)} keys or items unprocessed in {_BATCH_ATTEMPTS_MAX} attempts")


def query(
    pk: str,
    *,
    start: str = " ",
    below: str | None = None,
    prefix: str | None = None,
    consistent: bool = True,
    newest_first: bool = False,
    page_size: int | None = None,
) -> "Iterator[Item]":
    """Yield the items of a partition by sort key: from `start` to `below`, both included, and beginning with `prefix`.

    `consistent`: as in `get_many`. `newest_first`: from the last sort key down. `page_size`: how many items a call reads, for a caller
    that needs few.
    """
    condition, values = "pk = :pk", {":pk": to_attribute(pk)}
    if below is not None:
        condition = f"{condition} AND sk BETWEEN :start AND :below"
        values |= {":start": to_attribute(start), ":below": to_attribute(below)}
    if prefix is not None:
        condition, values = f"{condition} AND begins_with(sk, :prefix)", values | {":prefix": to_attribute(prefix)}
    # Without botocore's paginator: making the first one lists the folders of all services, which would slow cold starts.
    page: dict[str, Any] = {"LastEvaluatedKey": None}
    while "LastEvaluatedKey" in page:
        after = {"ExclusiveStartKey": page["LastEvaluatedKey"]} if page["LastEvaluatedKey"] else {}
        page = _table().query(
            TableName=_name(),
            KeyConditionExpression=condition,
            ExpressionAttributeValues=values,
            ConsistentRead=consistent,
            **({"ScanIndexForward": False} if newest_first else {}),
            **({"Limit": page_size} if page_size else {}),
            **after,
        )
        yield from map(read_item, page["Items"])


def put(item: "Item", expected_rev: int | None) -> None:
    """Write an item while its `rev` is `expected_rev` (None: no item). Raises Conflict."""
    put_if(_count_write(item, expected_rev), *_as_read(expected_rev))


def update(
    key: tuple[str, str], change: "Callable[[Item | None], Item | None]", *, always_writes: bool = False
) -> "Item | None":
    """Write the result of `change` for the present item, despite concurrent writers, and return it; None is not written.

    With `always_writes` the first read is eventually consistent for half a unit, because a write over an older item conflicts.
    Raises Conflict after UPDATE_ATTEMPTS_MAX.
    """
    for attempt in range(1, UPDATE_ATTEMPTS_MAX + 1):
        item = get(*key, consistent=attempt > 1 or not always_writes)
        if (new := change(item)) is None:
            return None
        try:
            put(new, int(item["rev"]) if item else None)
        except Conflict:
            back_off(attempt)
        else:
            return new
    raise Conflict(f"{' '.join(key)}: other writers were faster in all {UPDATE_ATTEMPTS_MAX} attempts")


def put_many(items: "Sequence[Item]") -> None:
    """Write items unconditionally, in any order. Raises TimeoutError if DynamoDB leaves some unwritten."""

    def write_batch(requests: list[Any]) -> list[Any]:
        answer = _table().batch_write_item(RequestItems={_name(): requests})
        return list(answer.get("UnprocessedItems", {}).get(_name(), []))

    _process_all([{"PutRequest": {"Item": _write(item)}} for item in items], BATCH_ITEMS_MAX, write_batch)


def put_if(item: "Item", condition: str | None = None, values: dict[str, Any] | None = None) -> None:
    """Write an item under a DynamoDB condition (None: unconditionally). Raises Conflict if the condition fails."""
    _conditionally("put_item", condition, values, Item=_write(item))


def delete(pk: str, sk: str, condition: str | None = None, values: dict[str, Any] | None = None) -> "Item | None":
    """Delete an item and return it; None if there was none. Raises Conflict if the condition fails."""
    answer = _conditionally("delete_item", condition, values, Key=_key(pk, sk), ReturnValues="ALL_OLD")
    return read_item(answer["Attributes"]) if answer.get("Attributes") else None


def _conditionally(operation: str, condition: str | None, values: dict[str, Any] | None, **arguments: Any) -> Any:
    try:
        return getattr(_table(), operation)(TableName=_name(), **arguments, **_conditional(condition, values))
    except ClientError as error:
        raise _conflict_or(error) from error


def transact(operations: Iterable[Put | Delete | Check]) -> None:
    """Do all operations or none. Raises Conflict if an item is not as it was read, and Throttled."""
    transaction = [_transact_item(operation) for operation in operations]
    for attempt in range(_THROTTLED_ATTEMPTS_MAX):
        try:
            _table().transact_write_items(TransactItems=transaction)
        except ClientError as error:
            reasons = {reason.get("Code") for reason in error.response.get("CancellationReasons", [])}
            if reasons & _BUSY:
                raise Conflict(str(error)) from error
            if not reasons & _THROTTLED:
                raise _conflict_or(error) from error
            throttled = error
        else:
            return
        time.sleep(random.uniform(0.5, 1) * 0.1 * 2**attempt)  # noqa: S311
    raise Throttled(str(throttled)) from throttled


def back_off(conflicts: int) -> None:
    """Wait a random time after a conflict, so that the two writers do not collide again."""
    if conflicts:
        time.sleep(random.uniform(0, 0.01 * 2**conflicts))  # noqa: S311


def _transact_item(operation: Put | Delete | Check) -> dict[str, Any]:
    """Return an operation as DynamoDB takes it."""
    condition, values = None, None
    if isinstance(operation, Check) or (isinstance(operation, Put) and operation.guarded):
        condition, values = _as_read(operation.expected_rev)
    elif operation.must_exist:
        condition = "attribute_exists(pk)"
    arguments = {"TableName": _name(), **_conditional(condition, values)}
    if isinstance(operation, Put):
        item = _count_write(operation.item, operation.expected_rev) if operation.guarded else operation.item
        return {"Put": arguments | {"Item": _write(item)}}
    key = {"Key": _key(operation.pk, operation.sk)}
    return {"ConditionCheck" if isinstance(operation, Check) else "Delete": arguments | key}


def _count_write(item: "Item", expected_rev: int | None) -> "Item":
    return item | {"rev": (expected_rev or 0) + 1}


def _conditional(condition: str | None, values: dict[str, Any] | None) -> dict[str, Any]:
    arguments: dict[str, Any] = {"ConditionExpression": condition} if condition else {}
    return arguments | ({"ExpressionAttributeValues": _write(values)} if values else {})


def _as_read(rev: int | None) -> tuple[str, dict[str, Any] | None]:
    return ("attribute_not_exists(pk)", None) if rev is None else ("rev = :read", {":read": rev})


def _conflict_or(error: ClientError) -> Exception:
    is_conflict = error.response["Error"]["Code"] in ("ConditionalCheckFailedException", "TransactionConflictException")
    return Conflict(str(error)) if is_conflict else error


def _table() -> Any:
    return client("dynamodb")


def _name() -> str:
    return os.environ["TABLE_NAME"]


def _key(pk: str, sk: str) -> dict[str, Any]:
    return {"pk": to_attribute(pk), "sk": to_attribute(sk)}


def _write(item: "Item") -> dict[str, Any]:
    return {name: to_attribute(value) for name, value in item.items()}


def read_item(item: dict[str, Any]) -> "Item":
    """Return an item of DynamoDB's API as values."""
    return {name: from_attribute(value) for name, value in item.items()}
