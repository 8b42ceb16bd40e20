"""Where moto 5.2 differs from AWS or is too slow for a run of thousands of articles, put right while a stack runs.

- A transaction keeps a snapshot of the items it touches, not of the whole table (moto copies the table once an item).
- A Query reads one partition, not the table, and copies nothing.
- The stream leaves out what AWS leaves out: writes that change nothing, and the first INSERT of the two that
  moto emits when UpdateItem makes an item.
- Attribute values are written to JSON directly, not by way of botocore's service model.
- Sending to a queue does not count the queue's messages several times over.
- What has been replaced or deleted is forgotten (moto's lists of all it has ever made keep it for ever).
"""

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from moto.core.common_models import BaseModel
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb.comparisons import get_comparison_func
from moto.dynamodb.models import DynamoDBBackend
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import StreamRecord, StreamShard, Table
from moto.s3.models import FakeKey
from moto.sqs.models import Queue

from stoppress_cli.local.meter import item_bytes

PAGE_BYTES = 1_048_576  # one page of a Query: 1 MB of items evaluated (DynamoDB developer guide, Query)

_transact = DynamoDBBackend.transact_write_items
_query = Table.query
_attributes: Any = Queue.__dict__["attributes"].fget
_serialize_structure = BaseJSONSerializer._serialize_type_structure


def _touched(backend: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> list[tuple[Table, Any, Any]]:
    """Table, partition key and sort key of each item the transaction names; malformed parts are moto's to refuse."""
    touched = []
    for part in transact_items:
        for operation in part.values():
            table = backend.tables.get(operation.get("TableName", ""))
            key = operation.get("Key") or operation.get("Item") or {}
            if table is None or table.hash_key_attr not in key:
                continue
            sort = key.get(table.range_key_attr) if table.range_key_attr else None
            touched.append((table, DynamoType(key[table.hash_key_attr]), DynamoType(sort) if sort else None))
    return touched


def _transact_write_items(self: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> None:
    touched = _touched(self, transact_items)
    before = [(table, pk, sk, copy.deepcopy(_item(table, pk, sk))) for table, pk, sk in touched]
    streams = {id(table.stream_shard): (table.stream_shard, len(table.stream_shard.items)) for table, _, _ in touched
               if table.stream_shard is not None}  # fmt: skip
    tables = self.tables
    # moto copies `self.tables[name]` for its own rollback and puts the copy back: both go to this stand-in,
    # where the copy is the table itself.
    self.tables = _Uncopied(tables)
    try:
        _transact(self, transact_items)
    except Exception:
        for table, pk, sk, item in before:
            _put_back(table, pk, sk, item)
        for shard, length in streams.values():
            del shard.items[length:]
        raise
    finally:
        self.tables = tables


class _Uncopied(dict[str, Any]):
    """The tables during a transaction: deep copies of a table are the table, all else is as it was."""

    def __init__(self, tables: Any) -> None:
        super().__init__({name: _Uncopyable(table) for name, table in tables.items()})


class _Uncopyable:
    """A table that answers every attribute as the table does, and a deep copy with itself."""

    def __init__(self, table: Table) -> None:
        object.__setattr__(self, "_table", table)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._table, name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Uncopyable":
        return self


def _item(table: Table, pk: DynamoType, sk: DynamoType | None) -> Item | None:
    found: Any = table.items.get(pk)
    item: Item | None = found.get(sk) if found is not None and table.has_range_key else found
    return item


def _put_back(table: Table, pk: DynamoType, sk: DynamoType | None, item: Item | None) -> None:
    items: Any = table.items
    holder, key = (items[pk], sk) if table.has_range_key else (items, pk)
    if item is None:
        holder.pop(key, None)
    else:
        holder[key] = item


def _query_partition(
    self: Table,
    hash_key: DynamoType | None,
    range_comparison: str | None,
    range_objs: list[DynamoType],
    limit: int,
    exclusive_start_key: dict[str, Any],
    scan_index_forward: bool,
    projection_expressions: list[list[str]] | None,
    index_name: str | None = None,
    consistent_read: bool = False,
    filter_expression: Any = None,
    **more: Any,
) -> tuple[list[Item], int, dict[str, Any] | None]:
    conditions = {"hash_key_conditions", "range_key_conditions"}
    if index_name or hash_key is None or not self.has_range_key or set(more) - conditions:
        return _query(
            self, hash_key, range_comparison, range_objs, limit, exclusive_start_key, scan_index_forward,
            projection_expressions, index_name, consistent_read, filter_expression, **more,
        )  # fmt: skip
    partition: dict[DynamoType, Item] = self.items.get(hash_key) or {}
    rows = sorted(((key.cast_value, item) for key, item in partition.items()), key=lambda row: row[0])
    if range_comparison:
        holds, values = get_comparison_func(range_comparison), [value.cast_value for value in range_objs]
        rows = [row for row in rows if holds(row[0], *values)]
    if scan_index_forward is False:
        rows.reverse()
    if exclusive_start_key:
        start = DynamoType(exclusive_start_key[str(self.range_key_attr)]).cast_value
        rows = [row for row in rows if (row[0] < start if scan_index_forward is False else row[0] > start)]
    results: list[Item] = []
    evaluated_bytes = 0
    last: dict[str, Any] | None = None
    for _, item in rows:
        size = _size(item)
        if len(results) == limit or (results and evaluated_bytes + size > PAGE_BYTES):
            last = self._get_last_evaluated_key(results[-1], None)
            break
        results.append(item)
        evaluated_bytes += size
    # For the meter: what was read counts, not what the filter and the projection leave of it.
    self.evaluated_bytes = evaluated_bytes  # type: ignore[attr-defined]
    scanned = len(results)
    if filter_expression is not None:
        results = [item for item in results if filter_expression.expr(item)]
    if projection_expressions:
        results = [item.project(projection_expressions) for item in results]
    return results, scanned, last


def _size(item: Item) -> int:
    return item_bytes(item.to_json()["Attributes"])


def _add_to_stream(self: StreamShard, old: Item | None, new: Item | None) -> None:
    # Whole, because moto's own looks for Lambda functions of its own at each record, and loads a good deal for it.
    if old is not None and new is not None and old == new:
        return
    if old is None and new is not None and self.items:
        last = self.items[-1].record
        keys = {self.table.hash_key_attr: new.hash_key.to_json()}
        if self.table.range_key_attr is not None and new.range_key is not None:
            keys[self.table.range_key_attr] = new.range_key.to_json()
        if last["eventName"] == "INSERT" and last["dynamodb"]["Keys"] == keys:
            self.items.pop()
    event = "INSERT" if old is None else "REMOVE" if new is None else "MODIFY"
    specification = self.table.stream_specification or {}
    number = self.starting_sequence_number + len(self.items)
    self.items.append(StreamRecord(self.table, specification["StreamViewType"], event, old, new, number))


def _serialize_attribute(self: BaseJSONSerializer, serialized: Any, value: Any, shape: Any, key: str) -> None:
    if shape.name == "AttributeValue" and key and value is not None:
        serialized[self.get_serialized_name(shape, key)] = _wire_value(self, value)
    else:
        _serialize_structure(self, serialized, value, shape, key)


def _wire_value(serializer: BaseJSONSerializer, value: Any) -> dict[str, Any]:
    kind, content = (value.type, value.value) if isinstance(value, DynamoType) else next(iter(value.items()))
    match kind:
        case "M":
            return {kind: {name: _wire_value(serializer, part) for name, part in content.items()}}
        case "L":
            return {kind: [_wire_value(serializer, part) for part in content]}
        case "B":
            return {kind: serializer._base64(content)}
        case "BS":
            return {kind: [serializer._base64(part) for part in content]}
        case _:
            return {kind: content}


_tracked = BaseModel.__new__
_dispose = FakeKey.dispose


def _forgotten(cls: type[BaseModel], *args: Any, **kwargs: Any) -> BaseModel:
    # Objects of S3 hold files, which moto closes by its list.
    return _tracked(cls, *args, **kwargs) if cls is FakeKey else object.__new__(cls)


def _disposed(self: FakeKey, garbage: bool = False) -> None:
    _dispose(self, garbage)
    # A new list: moto may be going through the old one.
    tracked: list[FakeKey] = FakeKey.instances_tracked  # type: ignore[attr-defined]
    FakeKey.instances_tracked = [one for one in tracked if one is not self]  # type: ignore[attr-defined]


class _OnDemand(dict[str, Any]):
    """A queue's attributes, computed when someone asks for one that a standard queue has."""

    def __init__(self, queue: Queue) -> None:
        super().__init__()
        self._queue = queue

    def get(self, key: str, default: Any = None) -> Any:
        if key in Queue.FIFO_ATTRIBUTES and not self._queue.fifo_queue:
            return default
        return _attributes(self._queue).get(key, default)

    def __getitem__(self, key: str) -> Any:
        return _attributes(self._queue)[key]

    def __contains__(self, key: object) -> bool:
        return key in _attributes(self._queue)

    def __iter__(self) -> Iterator[str]:
        return iter(_attributes(self._queue))

    def items(self) -> Any:
        return _attributes(self._queue).items()

    def keys(self) -> Any:
        return _attributes(self._queue).keys()


@contextmanager
def applied() -> Iterator[None]:
    """Holds all fixes while the block runs; moto is as it came afterwards."""
    with (
        mock.patch.object(DynamoDBBackend, "transact_write_items", _transact_write_items),
        mock.patch.object(Table, "query", _query_partition),
        mock.patch.object(StreamShard, "add", _add_to_stream),
        mock.patch.object(BaseJSONSerializer, "_serialize_type_structure", _serialize_attribute),
        mock.patch.object(Queue, "attributes", property(_OnDemand)),
        mock.patch.object(BaseModel, "__new__", _forgotten),
        mock.patch.object(FakeKey, "dispose", _disposed),
    ):
        yield
