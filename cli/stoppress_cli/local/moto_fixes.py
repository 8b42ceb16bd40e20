"""Patches of moto 5.2 while a stack runs: where it differs from AWS, or is too slow for thousands of articles.

- A transaction keeps a snapshot of the items that it touches. moto copies the whole table for each item, and puts the copy back.
- A Query reads one partition, and up to 1 MiB of it. moto reads the table.
- The stream leaves out writes that change nothing, as on AWS.
- Attribute values become JSON directly, without botocore's service model.
- The names of a service's methods are listed once. moto lists them at each call.
"""

import copy
import functools
import inspect
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from unittest import mock

from moto.core import responses
from moto.core.serialize import BaseJSONSerializer
from moto.dynamodb.models import DynamoDBBackend, dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType, Item
from moto.dynamodb.models.table import StreamShard, Table
from moto.dynamodb.models.utilities import dynamo_json_dump
from moto.s3.models import s3_backends

from stoppress_cli.local.meter import item_bytes
from stoppress_cli.local.template import ACCOUNT, REGION

PAGE_BYTES = 1_048_576  # one page of a Query: 1 MB of items evaluated (DynamoDB developer guide, Query)

_query, _query_signature = Table.query, inspect.signature(Table.query)
_transact = DynamoDBBackend.transact_write_items
_add = StreamShard.add
_serialize_structure = BaseJSONSerializer._serialize_type_structure
_method_names = functools.cache(responses.method_names_from_class)

Json = dict[str, Any]


def read_item(table_name: str, key: Json) -> Json | None:
    """Return the current item of moto's table in DynamoDB's JSON, or None; `key` may contain other attributes."""
    table = dynamodb_backends[ACCOUNT][REGION].tables.get(table_name)
    keys = _keys(table, key)
    item: Item | None = table.items.get(keys[0], {}).get(keys[1]) if table is not None and keys else None
    return item.to_json()["Attributes"] if item is not None else None


def lacks(bucket: str, key: str) -> bool:
    """Return True if moto's bucket lacks the object."""
    return key not in s3_backends[ACCOUNT]["aws"].buckets[bucket].keys


def last_query(table_name: str) -> int:
    """Return the bytes that the last Query of moto's table read."""
    return int(getattr(dynamodb_backends[ACCOUNT][REGION].get_table(table_name), "evaluated_bytes", 0))


def _keys(table: Table | None, key: Json) -> Any:
    """Return the partition key and the sort key in `key`; None for a key that is not one of the table's."""
    if table is None or not {table.hash_key_attr, table.range_key_attr} <= key.keys():
        return None
    return DynamoType(key[table.hash_key_attr]), DynamoType(key[str(table.range_key_attr)])


def _transact_write_items(self: DynamoDBBackend, transact_items: list[Json]) -> None:
    before: list[
        tuple[Any, DynamoType, Item | None, list[Any], int]
    ] = []  # also the stream's records, and their number
    for part in (part for item in transact_items for part in item.values()):
        table = self.tables.get(part.get("TableName", ""))
        keys = _keys(table, part.get("Key") or part.get("Item") or {})
        if table is not None and keys:  # moto refuses malformed parts itself
            partition: Any = table.items[keys[0]]
            records = table.stream_shard.items if table.stream_shard else []
            before.append((partition, keys[1], copy.deepcopy(partition.get(keys[1])), records, len(records)))
    try:
        _transact(self, transact_items)
    except Exception:
        for partition, sort, item, records, number in before:
            partition.pop(sort, None)
            if item is not None:
                partition[sort] = item
            del records[number:]
        raise


def _query_partition(*args: Any, **kwargs: Any) -> tuple[list[Item], int, Json | None]:
    call = _query_signature.bind(*args, **kwargs).arguments
    table, projection, condition = call["self"], call["projection_expressions"], call.get("filter_expression")
    partition = [*table.items.get(call["hash_key"], {}).values()]
    with mock.patch.object(table, "all_items", return_value=partition):
        page, number, last = _query(**call | {"projection_expressions": None, "filter_expression": None})
    # For the meter: DynamoDB charges for what a Query reads, before the filter and the projection.
    table.evaluated_bytes = sum(item_bytes(item.to_json()["Attributes"]) for item in page)
    results = [item for item in page if condition is None or condition.expr(item)]
    return [item.project(projection) for item in results] if projection else results, number, last


def _add_to_stream(self: StreamShard, old: Item | None, new: Item | None) -> None:
    if old is None or new is None or old != new:
        _add(self, old, new)


def _serialize_attribute(self: BaseJSONSerializer, serialized: Any, value: Any, shape: Any, key: str) -> None:
    if shape.name == "AttributeValue" and key and value is not None:
        serialized[self.get_serialized_name(shape, key)] = json.loads(dynamo_json_dump(value))
    else:
        _serialize_structure(self, serialized, value, shape, key)


@contextmanager
def applied() -> Iterator[None]:
    """Patch moto while the block runs."""
    with (
        mock.patch.object(DynamoDBBackend, "transact_write_items", _transact_write_items),
        mock.patch.object(Table, "__deepcopy__", lambda table, memo: table, create=True),
        mock.patch.object(Table, "query", _query_partition),
        mock.patch("moto.dynamodb.models.table.RESULT_SIZE_LIMIT", PAGE_BYTES),
        mock.patch.object(StreamShard, "add", _add_to_stream),
        mock.patch.object(responses, "method_names_from_class", _method_names),
        mock.patch.object(BaseJSONSerializer, "_serialize_type_structure", _serialize_attribute),
    ):
        yield
