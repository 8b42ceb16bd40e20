"""A DynamoDB stream that calls a function: batches, filters, retries.

A failed batch is tried once more at the same instant. Further attempts follow when the clock has moved, because Lambda would
back off. Until the batch succeeds, later records wait, as on AWS.
"""

import base64
import copy
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType

from stoppress_cli.local import patterns
from stoppress_cli.local.functions import Function, Result
from stoppress_cli.local.resources import Resource, check_properties
from stoppress_cli.local.template import ACCOUNT, REGION, Json, TemplateError
from stoppress_cli.local.wire import LOCK

ATTEMPTS_AT_ONE_INSTANT = 2

_PROPERTIES = {
    "BatchSize", "EventSourceArn", "FilterCriteria", "FunctionName", "FunctionResponseTypes",
    "MaximumBatchingWindowInSeconds", "StartingPosition",
}  # fmt: skip


class Reader(Protocol):
    """A stream: `read` returns the records since the last call, as Lambda passes them to a function."""

    def read(self) -> list[Json]: ...


class MotoReader:
    """Reads moto's stream directly, and removes the records, which moto would keep forever."""

    def __init__(self, table_name: str, stream_arn: str) -> None:
        self._table_name, self._stream_arn = table_name, stream_arn

    def read(self) -> list[Json]:
        table = dynamodb_backends[ACCOUNT][REGION].get_table(self._table_name)
        shard = table.stream_shard
        assert shard is not None
        with LOCK:
            new, shard.items = shard.items, []
            shard.starting_sequence_number += len(new)
        return [_lambda_record(item.record, self._stream_arn) for item in new]


@dataclass
class _Batch:
    records: list[Json]
    instant: datetime | None = None  # of the last failed attempt
    failed_at_instant: int = 0

    def ready(self, now: datetime) -> bool:
        return self.instant != now or self.failed_at_instant < ATTEMPTS_AT_ONE_INSTANT


class StreamMapping:
    """One event source mapping from a stream to a function."""

    def __init__(self, resource: Resource, function: Function, reader: Reader) -> None:
        check_properties(resource, _PROPERTIES)
        properties = resource.properties
        if properties.get("StartingPosition") != "TRIM_HORIZON":
            raise TemplateError(f"{resource.logical}: the local stack starts at TRIM_HORIZON only")
        self.function = function
        self.name = resource.logical
        self.reported = 0  # records of attempts that failed
        self._reader = reader
        self._batch_size = int(properties.get("BatchSize", 100))
        self._filters = patterns.filters(properties.get("FilterCriteria"), resource.logical)
        self._reports_failures = "ReportBatchItemFailures" in properties.get("FunctionResponseTypes", [])
        self._pending: deque[_Batch] = deque()

    @property
    def waiting(self) -> int:
        """Number of records that wait for a later attempt."""
        return sum(len(batch.records) for batch in self._pending)

    def deliver(self, invoke: Callable[[Function, Json], Result], now: datetime) -> bool:
        """Passes on new records and batches that may be tried again. False if there was nothing to do."""
        new = [record for record in self._reader.read() if patterns.passes(record, self._filters)]
        for start in range(0, len(new), self._batch_size):
            self._pending.append(_Batch(new[start : start + self._batch_size]))
        worked = False
        while self._pending and self._pending[0].ready(now):
            worked = True
            batch = self._pending.popleft()
            result = invoke(self.function, {"Records": batch.records})
            if left := self._left(batch, result, now):
                self._pending.appendleft(left)
        return worked

    def _left(self, batch: _Batch, result: Result, now: datetime) -> _Batch | None:
        """What remains of a batch after an attempt."""
        first = 0 if result.error else self._first_failure(batch, result.payload)
        records = batch.records[first:]  # the records before the reported one are done
        if not records:
            return None
        self.reported += len(records)
        return _Batch(records, now, batch.failed_at_instant + 1 if batch.instant == now else 1)

    def _first_failure(self, batch: _Batch, payload: Any) -> int:
        """Index of the first failed record; the batch's length if none failed."""
        failures = (payload or {}).get("batchItemFailures") or [] if self._reports_failures else []
        numbers = [record["dynamodb"]["SequenceNumber"] for record in batch.records]
        named = [failure.get("itemIdentifier") for failure in failures]
        # As on Lambda, an identifier that is not in the batch fails the whole batch.
        return min((numbers.index(name) if name in numbers else 0 for name in named), default=len(numbers))


def _lambda_record(record: Json, arn: str) -> Json:
    """A stream record as Lambda passes it: JSON only, the time in seconds, with the stream's ARN."""
    change = {**record["dynamodb"]}
    created = change["ApproximateCreationDateTime"]
    change["ApproximateCreationDateTime"] = int(created.timestamp()) if isinstance(created, datetime) else created
    for part in ("Keys", "NewImage", "OldImage"):
        if part in change:
            change[part] = {name: _plain(value) for name, value in change[part].items()}
    return {**record, "awsRegion": REGION, "eventSourceARN": arn, "dynamodb": change}


def _plain(value: Any) -> Any:
    if isinstance(value, DynamoType):
        return _plain(value.to_regular_json())
    if isinstance(value, dict):
        return {key: _plain(part) for key, part in value.items()}
    if isinstance(value, list | set):
        return [_plain(part) for part in value]
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    return copy.copy(value)
