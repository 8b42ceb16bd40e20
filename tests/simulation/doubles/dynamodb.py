"""In-memory double of DynamoDB: one table, its stream, and copies as point-in-time recovery creates them."""

import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

from stoppress_cli.local.meter import item_bytes
from stoppress_cli.local.template import REGION
from tests.simulation.doubles.errors import NotSupported, error
from tests.simulation.doubles.expressions import Item, condition

# DynamoDB developer guide, "Service, account, and table quotas".
ITEM_BYTES_MAX = 409_600
PAGE_BYTES = 1_048_576
TRANSACTION_ITEMS_MAX = 100
BATCH_READ_MAX = 100
BATCH_WRITE_MAX = 25


@dataclass
class Partition:
    """The items of one partition key, and their sort keys in order."""

    items: dict[str, Item] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)


class Dynamo:
    """One table with the keys `pk` and `sk`, and its stream: all changes of items, in order."""

    def __init__(self, table: str, stream_arn: str) -> None:
        self._table, self._stream_arn = table, stream_arn
        self.partitions: dict[str, Partition] = defaultdict(Partition)
        self.copies: dict[str, dict[str, Partition]] = {}
        self.changes: list[Item] = []

    def all_items(self) -> Iterator[Item]:
        for partition in self.partitions.values():
            yield from partition.items.values()

    def copy(self, name: str) -> None:
        """Store a copy of the current items under a table name."""
        partitions = self.partitions.items()
        self.copies[name] = {pk: Partition(dict(items.items), list(items.keys)) for pk, items in partitions}

    # ── the client's methods ──

    def get_item(self, *, TableName: str, Key: Item, ConsistentRead: bool = False) -> Item:  # noqa: N803
        self._check_table("GetItem", TableName)
        item = self._find(Key)
        return {"Item": dict(item)} if item is not None else {}

    def batch_get_item(self, *, RequestItems: dict[str, Any]) -> Item:  # noqa: N803
        [(name, request)] = RequestItems.items()
        partitions = self._readable("BatchGetItem", name)
        keys = [_key_of(key) for key in request["Keys"]]
        if len(keys) > BATCH_READ_MAX:
            raise error("BatchGetItem", "ValidationException", "Too many items requested for the BatchGetItem call")
        if len(set(keys)) < len(keys):
            raise error("BatchGetItem", "ValidationException", "Provided list of item keys contains duplicates")
        items = (self._find(key, partitions) for key in request["Keys"])
        return {"Responses": {name: [dict(item) for item in items if item is not None]}, "UnprocessedKeys": {}}

    def query(
        self,
        *,
        TableName: str,  # noqa: N803
        KeyConditionExpression: str,  # noqa: N803
        ExpressionAttributeValues: Item,  # noqa: N803
        ConsistentRead: bool = False,  # noqa: N803
        ExclusiveStartKey: Item | None = None,  # noqa: N803
        ScanIndexForward: bool = True,  # noqa: N803
        Limit: int = 0,  # noqa: N803
    ) -> Item:
        self._check_table("Query", TableName)
        first, _, more = KeyConditionExpression.partition(" AND ")
        match = re.fullmatch(r"pk = (:\w+)", first)
        if match is None:
            raise NotSupported(f"the double finds no partition in {KeyConditionExpression!r}")
        holds = condition(more) if more else None
        partition = self.partitions.get(ExpressionAttributeValues[match[1]]["S"], Partition())
        start = ExclusiveStartKey["sk"]["S"] if ExclusiveStartKey else ""
        if ScanIndexForward:
            keys = partition.keys[bisect_left(partition.keys, start) :]
        else:
            keys = partition.keys[: bisect_left(partition.keys, start) if start else None][::-1]
        items: list[Item] = []
        size_bytes = 0
        for key in keys:
            item = partition.items[key]
            if key == start or (holds and not holds(item, ExpressionAttributeValues)):
                continue
            size_bytes += item_bytes(item)
            if items and (size_bytes > PAGE_BYTES or len(items) == Limit):
                last = items[-1]
                return {"Items": items, "LastEvaluatedKey": {"pk": last["pk"], "sk": last["sk"]}}
            items.append(dict(item))
        return {"Items": items}

    def scan(self, *, TableName: str, ConsistentRead: bool, ProjectionExpression: str = "") -> Item:  # noqa: N803
        partitions = self._readable("Scan", TableName)
        return {"Items": [dict(item) for partition in partitions.values() for item in partition.items.values()]}

    def put_item(
        self,
        *,
        TableName: str,  # noqa: N803
        Item: Item,  # noqa: N803
        ConditionExpression: str | None = None,  # noqa: N803
        ExpressionAttributeValues: dict[str, Any] | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        self._check_table("PutItem", TableName)
        _check_item("PutItem", Item)
        if not _condition_holds(self._find(Item), ConditionExpression, ExpressionAttributeValues):
            raise error("PutItem", "ConditionalCheckFailedException", "The conditional request failed")
        self._write(Item, Item)
        return {}

    def delete_item(
        self,
        *,
        TableName: str,  # noqa: N803
        Key: Item,  # noqa: N803
        ConditionExpression: str | None = None,  # noqa: N803
        ExpressionAttributeValues: Item | None = None,  # noqa: N803
        ReturnValues: str = "NONE",  # noqa: N803
    ) -> Item:
        self._check_table("DeleteItem", TableName)
        old = self._find(Key)
        if not _condition_holds(old, ConditionExpression, ExpressionAttributeValues):
            raise error("DeleteItem", "ConditionalCheckFailedException", "The conditional request failed")
        self._write(Key, None)
        return {"Attributes": dict(old)} if old is not None and ReturnValues == "ALL_OLD" else {}

    def batch_write_item(self, *, RequestItems: dict[str, Any]) -> Item:  # noqa: N803
        [(name, requests)] = RequestItems.items()
        self._check_table("BatchWriteItem", name)
        items = [request["PutRequest"]["Item"] for request in requests]
        keys = [_key_of(item) for item in items]
        if not 0 < len(keys) <= BATCH_WRITE_MAX or len(set(keys)) < len(keys):
            raise error("BatchWriteItem", "ValidationException", "Too many items, or a duplicate item")
        for item in items:
            _check_item("BatchWriteItem", item)
        for item in items:
            self._write(item, item)
        return {"UnprocessedItems": {}}

    def transact_write_items(self, *, TransactItems: Sequence[Item]) -> Item:  # noqa: N803
        parts = [next(iter(operation.items())) for operation in TransactItems]
        keys = [_key_of(part.get("Item") or part["Key"]) for _, part in parts]
        if not 0 < len(keys) <= TRANSACTION_ITEMS_MAX or len(set(keys)) < len(keys):
            message = "Transaction request cannot include multiple operations on one item"
            raise error("TransactWriteItems", "ValidationException", message)
        reasons = []
        for kind, part in parts:
            self._check_table("TransactWriteItems", part["TableName"])
            if kind not in ("Put", "Delete", "ConditionCheck"):
                raise NotSupported(f"the double does not support {kind} in a transaction")
            if kind == "Put":
                _check_item("TransactWriteItems", part["Item"])
            allowed = _condition_holds(
                self._find(part.get("Item") or part["Key"]),
                part.get("ConditionExpression"),
                part.get("ExpressionAttributeValues"),
            )
            reasons.append("None" if allowed else "ConditionalCheckFailed")
        if any(reason != "None" for reason in reasons):
            message = (
                f"Transaction cancelled, please refer cancellation reasons for specific reasons [{', '.join(reasons)}]"
            )
            codes = [{"Code": reason} for reason in reasons]
            raise error("TransactWriteItems", "TransactionCanceledException", message, CancellationReasons=codes)
        for kind, part in parts:
            if kind != "ConditionCheck":
                self._write(part.get("Item") or part["Key"], part["Item"] if kind == "Put" else None)
        return {}

    # ── internals ──

    def _check_table(self, operation: str, table: str) -> None:
        if table != self._table:
            raise error(operation, "ResourceNotFoundException", f"Requested resource not found: {table}")

    def _readable(self, operation: str, table: str) -> dict[str, Partition]:
        if table not in self.copies:
            self._check_table(operation, table)
        return self.copies.get(table, self.partitions)

    def _find(self, key: Item, partitions: dict[str, Partition] | None = None) -> Item | None:
        pk, sk = _key_of(key)
        partition = (self.partitions if partitions is None else partitions).get(pk)
        return partition.items.get(sk) if partition else None

    def _write(self, key: Item, new: Item | None) -> None:
        pk, sk = _key_of(key)
        partition = self.partitions[pk]
        old = partition.items.get(sk)
        if old == new:
            return  # no change, and no record in the stream
        if new is None:
            del partition.items[sk]
            partition.keys.remove(sk)
        else:
            partition.items[sk] = dict(new)
            if old is None:
                insort(partition.keys, sk)
        self._append_record(pk, sk, old, new)

    def _append_record(self, pk: str, sk: str, old: Item | None, new: Item | None) -> None:
        number = len(self.changes) + 1
        change: Item = {
            "Keys": {"pk": {"S": pk}, "sk": {"S": sk}},
            "SequenceNumber": f"{number:021}",
            "SizeBytes": item_bytes(new or old),
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            "ApproximateCreationDateTime": int(datetime.now(UTC).timestamp()),
        }
        images = {"NewImage": new, "OldImage": old}
        self.changes.append(
            {
                "eventID": f"{number:032x}",
                "eventName": "INSERT" if old is None else "REMOVE" if new is None else "MODIFY",
                "eventVersion": "1.1",
                "eventSource": "aws:dynamodb",
                "awsRegion": REGION,
                "eventSourceARN": self._stream_arn,
                "dynamodb": change | {name: image for name, image in images.items() if image is not None},
            }
        )


def _key_of(key: Item) -> tuple[str, str]:
    return key["pk"]["S"], key["sk"]["S"]


def _check_item(operation: str, item: Item) -> None:
    if not all(_key_of(item)):
        raise error(operation, "ValidationException", "a key attribute cannot contain an empty string value")
    if item_bytes(item) > ITEM_BYTES_MAX:
        raise error(operation, "ValidationException", "Item size has exceeded the maximum allowed size")


def _condition_holds(item: Item | None, expression: str | None, values: Item | None) -> bool:
    return expression is None or condition(expression)(item or {}, values or {})
