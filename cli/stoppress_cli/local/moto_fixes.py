"""Patches of moto 5.2 while a stack runs: where it differs from AWS, or is too slow for thousands of articles.

- A transaction keeps a snapshot of the items that it touches. moto copies the whole table for each item.
- A Query reads one partition and copies nothing. moto reads and copies the table.
- The stream leaves out writes that change nothing, as on AWS. When UpdateItem creates an item, moto emits two INSERTs; the
  stream leaves out the first one.
- Attribute values become JSON directly, without botocore's service model.
- Sending to a queue does not count the queue's messages several times.
- Replaced and deleted objects are released. moto keeps a list of every object that it ever created.
- The names of moto's methods are collected once for each class. moto collects them again for each request.
- Every request has the same short user agent. botocore builds a longer one for each request.
"""

import copy
import functools
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from botocore.useragent import UserAgentString
from moto.core import responses
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
_method_names = functools.cache(responses.method_names_from_class)
USER_AGENT = "stoppress-local-stack"


def _touched(backend: DynamoDBBackend, transact_items: list[dict[str, Any]]) -> list[tuple[Table, Any, Any]]:
    """Table, partition key and sort key of each item in the transaction. moto refuses malformed parts itself."""
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
    # For its own rollback moto deep-copies `self.tables[name]` and puts the copy back. Here the copy is the table itself.
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
    """The tables during a transaction; a deep copy of a table is the table itself."""

    def __init__(self, tables: Any) -> None:
        super().__init__({name: _Uncopyable(table) for name, table in tables.items()})


class _Uncopyable:
    """Passes every attribute on to the table; its deep copy is itself."""

    def __init__(self, table: Table) -> None:
        object.__setattr__(self, "_table", table)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._table, name)

    def __setattr__(self, name: str, value: Any) -> None:
        setattr(self._table, name, value)

    def __deepcopy__(self, memo: dict[int, Any]) -> "_Uncopyable":
        return self


def _item(table: Table, pk: DynamoType, sk: DynamoType | None) -> Item | None:
    partition: Any = table.items.get(pk)
    item: Item | None = partition.get(sk) if partition is not None and table.has_range_key else partition
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
    rows = _rows(self.items.get(hash_key) or {}, range_comparison, range_objs)
    start = exclusive_start_key and DynamoType(exclusive_start_key[str(self.range_key_attr)]).cast_value
    items = _after(rows, start, backward=scan_index_forward is False)
    page = _page(items, limit)
    last = self._get_last_evaluated_key(page[-1], None) if len(page) < len(items) else None
    # For the meter: DynamoDB charges for what a Query reads, before the filter and the projection.
    self.evaluated_bytes = sum(map(_size, page))  # type: ignore[attr-defined]
    results = page if filter_expression is None else [item for item in page if filter_expression.expr(item)]
    if projection_expressions:
        results = [item.project(projection_expressions) for item in results]
    return results, len(page), last


def _after(rows: list[tuple[Any, Item]], start: Any, *, backward: bool) -> list[Item]:
    """The items behind the sort key `start` (empty: all), in the direction of the Query."""
    if backward:
        return [item for value, item in reversed(rows) if not start or value < start]
    return [item for value, item in rows if not start or value > start]


def _rows(partition: Any, comparison: str | None, operands: list[DynamoType]) -> list[tuple[Any, Item]]:
    """The sort keys and items of a partition that pass the comparison, in the order of the sort keys."""
    rows = sorted(((key.cast_value, item) for key, item in partition.items()), key=lambda row: row[0])
    if not comparison:
        return rows
    holds, values = get_comparison_func(comparison), [operand.cast_value for operand in operands]
    return [row for row in rows if holds(row[0], *values)]


def _page(items: list[Item], limit: int) -> list[Item]:
    """The first items: at most `limit` and PAGE_BYTES, but always one."""
    size_bytes = 0
    for number, item in enumerate(items):
        size_bytes += _size(item)
        if number == limit or (number and size_bytes > PAGE_BYTES):
            return items[:number]
    return items


def _size(item: Item) -> int:
    return item_bytes(item.to_json()["Attributes"])


def _add_to_stream(self: StreamShard, old: Item | None, new: Item | None) -> None:
    # A whole replacement: moto's own method looks for Lambda functions at each record, and loads many modules for that.
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
    # S3 objects stay in moto's list, because moto closes their files by it.
    return _tracked(cls, *args, **kwargs) if cls is FakeKey else object.__new__(cls)


def _disposed(self: FakeKey, garbage: bool = False) -> None:
    _dispose(self, garbage)
    # A new list, because moto may be iterating over the old one.
    tracked: list[FakeKey] = FakeKey.instances_tracked  # type: ignore[attr-defined]
    FakeKey.instances_tracked = [key for key in tracked if key is not self]  # type: ignore[attr-defined]


class _OnDemand(dict[str, Any]):
    """A queue's attributes, computed only when an attribute of a standard queue is read."""

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
    """Patches moto while the block runs."""
    with (
        mock.patch.object(DynamoDBBackend, "transact_write_items", _transact_write_items),
        mock.patch.object(Table, "query", _query_partition),
        mock.patch.object(StreamShard, "add", _add_to_stream),
        mock.patch.object(BaseJSONSerializer, "_serialize_type_structure", _serialize_attribute),
        mock.patch.object(Queue, "attributes", property(_OnDemand)),
        mock.patch.object(BaseModel, "__new__", _forgotten),
        mock.patch.object(FakeKey, "dispose", _disposed),
        mock.patch.object(responses, "method_names_from_class", _method_names),
        mock.patch.object(UserAgentString, "to_string", return_value=USER_AGENT),
    ):
        yield
