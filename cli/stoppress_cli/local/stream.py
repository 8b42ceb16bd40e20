"""A DynamoDB stream that calls a function: batches, filters, retries, bisecting, the failure destination.

A failed batch is tried once more at the same instant. Further attempts follow when the clock has moved, because Lambda would
back off. Until the batch succeeds or is given up, later records wait, as on AWS.
"""

import base64
import copy
import json
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Protocol

import boto3
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.dynamo_type import DynamoType

from stoppress_cli.local import patterns, queues
from stoppress_cli.local.functions import Function, Result
from stoppress_cli.local.resources import Resource, check_properties, failure_destination
from stoppress_cli.local.template import ACCOUNT, REGION, Json, TemplateError
from stoppress_cli.local.wire import LOCK

ATTEMPTS_AT_ONE_INSTANT = 2

_PROPERTIES = {
    "BatchSize", "BisectBatchOnFunctionError", "DestinationConfig", "EventSourceArn", "FilterCriteria", "FunctionName",
    "FunctionResponseTypes", "MaximumBatchingWindowInSeconds", "MaximumRetryAttempts", "StartingPosition",
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


class EndpointReader:
    """Reads the stream of another DynamoDB endpoint through its API, with all its shards."""

    def __init__(self, table_name: str, stream_arn: str, url: str) -> None:
        self._stream_arn = stream_arn
        self._client = boto3.client("dynamodbstreams", endpoint_url=url)
        streams = self._client.list_streams(TableName=table_name)["Streams"]
        self._arn = streams[-1]["StreamArn"]
        self._iterators: dict[str, str | None] = {}

    def read(self) -> list[Json]:
        description = self._client.describe_stream(StreamArn=self._arn)["StreamDescription"]
        records: list[Json] = []
        for shard in description["Shards"]:
            shard_id = shard["ShardId"]
            if shard_id not in self._iterators:
                self._iterators[shard_id] = self._client.get_shard_iterator(
                    StreamArn=self._arn, ShardId=shard_id, ShardIteratorType="TRIM_HORIZON"
                )["ShardIterator"]
            while iterator := self._iterators[shard_id]:
                answer = self._client.get_records(ShardIterator=iterator)
                self._iterators[shard_id] = answer.get("NextShardIterator")
                if not answer["Records"]:
                    break
                records += [_lambda_record(dict(record), self._stream_arn) for record in answer["Records"]]
        return records


@dataclass
class _Batch:
    records: list[Json]
    failed: int = 0  # failed attempts, without bisecting
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
        self._arn = properties["EventSourceArn"]
        self._batch_size = int(properties.get("BatchSize", 100))
        self._filters = patterns.filters(properties.get("FilterCriteria"), resource.logical)
        self._reports_failures = "ReportBatchItemFailures" in properties.get("FunctionResponseTypes", [])
        self._bisects = bool(properties.get("BisectBatchOnFunctionError", False))
        self._retries_max = int(properties.get("MaximumRetryAttempts", -1))  # -1: until the records expire
        self._on_failure = failure_destination(properties)
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
            self._pending.extendleft(reversed(self._left(batch, result, now)))
        return worked

    def _left(self, batch: _Batch, result: Result, now: datetime) -> list[_Batch]:
        """What remains of a batch after an attempt, as batches."""
        if result.error is None:
            first = self._first_failure(batch, result.payload)
            if first == len(batch.records):
                return []
            if first > 0:  # the records before the reported one are done
                batch = replace(batch, records=batch.records[first:])
        elif self._bisects and len(batch.records) > 1:
            middle = len(batch.records) // 2
            return [replace(batch, records=part) for part in (batch.records[:middle], batch.records[middle:])]
        same = batch.instant == now
        self.reported += len(batch.records)
        batch = _Batch(batch.records, batch.failed + 1, now, batch.failed_at_instant + 1 if same else 1)
        if 0 <= self._retries_max < batch.failed:
            self._give_up(batch, result, now)
            return []
        return [batch]

    def _first_failure(self, batch: _Batch, payload: Any) -> int:
        """Index of the first failed record; the batch's length if none failed."""
        failures = (payload or {}).get("batchItemFailures") or [] if self._reports_failures else []
        numbers = [record["dynamodb"]["SequenceNumber"] for record in batch.records]
        named = [failure.get("itemIdentifier") for failure in failures]
        # As on Lambda, an identifier that is not in the batch fails the whole batch.
        return min((numbers.index(name) if name in numbers else 0 for name in named), default=len(numbers))

    def _give_up(self, batch: _Batch, result: Result, now: datetime) -> None:
        if self._on_failure is None:
            return
        numbers = [record["dynamodb"]["SequenceNumber"] for record in batch.records]
        times = [record["dynamodb"]["ApproximateCreationDateTime"] for record in batch.records]
        report = {
            "requestContext": {
                "requestId": result.request_id,
                "functionArn": self.function.arn,
                "condition": "RetryAttemptsExhausted",
                "approximateInvokeCount": batch.failed,
            },
            "responseContext": {
                "statusCode": 200,
                "executedVersion": "$LATEST",
                "functionError": "Unhandled" if result.error else None,
            },
            "version": "1.0",
            "timestamp": now.isoformat(),
            "DDBStreamBatchInfo": {
                "shardId": "local",
                "startSequenceNumber": numbers[0],
                "endSequenceNumber": numbers[-1],
                "approximateArrivalOfFirstRecord": times[0],
                "approximateArrivalOfLastRecord": times[-1],
                "batchSize": len(numbers),
                "streamArn": self._arn,
            },
        }
        queues.send(self._on_failure, json.dumps(report))


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
