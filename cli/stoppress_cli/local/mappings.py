"""Event source mappings: queues and streams that call a function in batches, with partial failures and, of streams, filters."""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime

from stoppress_cli.local import local_queues
from stoppress_cli.local.bus import read_pattern
from stoppress_cli.local.lambda_functions import Function, Result
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.template import Json, TemplateError

ATTEMPTS_AT_ONE_INSTANT = 2

Invoke = Callable[[Function, Json], Result]


class _Mapping:
    """Shared code of mappings from queues and from streams."""

    def __init__(self, resource: Resource, function: Function, batch_size: int) -> None:
        properties = resource.properties
        self.function = function
        self.name = resource.logical
        self.arn = str(properties["EventSourceArn"])
        self.reported = 0  # records of attempts that failed
        self._batch_size = int(properties.get("BatchSize", batch_size))
        self._reports_failures = "ReportBatchItemFailures" in properties.get("FunctionResponseTypes", [])

    def _failed_ids(self, result: Result, identifiers: list[str]) -> set[str]:
        """Return the identifiers of the failed records of a batch."""
        if result.error is not None:
            return set(identifiers)
        failures = (result.payload or {}).get("batchItemFailures") or [] if self._reports_failures else []
        failed = {str(failure.get("itemIdentifier")) for failure in failures}
        # As on Lambda, an identifier that is not in the batch fails the whole batch.
        return failed if failed <= set(identifiers) else set(identifiers)


class QueueMapping(_Mapping):
    def __init__(self, resource: Resource, function: Function) -> None:
        super().__init__(resource, function, batch_size=10)
        if "FilterCriteria" in resource.properties:
            raise TemplateError(f"{resource.logical}: the local stack filters streams only")

    def deliver(self, invoke: Invoke) -> bool:
        """Deliver the messages that are visible now, not those that follow from them. Return False if there was none."""
        source = local_queues.queue(self.arn)
        remaining = local_queues.visible(source)
        worked = False
        while remaining > 0 and (messages := local_queues.receive(source, min(self._batch_size, remaining))):
            worked = True
            remaining -= len(messages)
            records = [local_queues.record(message, self.arn) for message in messages]
            failed = self._failed_ids(invoke(self.function, {"Records": records}), [message.id for message in messages])
            self.reported += len(failed)
            # Failed messages wait for their visibility.
            local_queues.delete(source, [message for message in messages if message.id not in failed])
        return worked


@dataclass
class _Batch:
    records: list[Json]
    instant: datetime | None = None  # of the last failed attempt
    failed_at_instant: int = 0

    def ready(self, now: datetime) -> bool:
        return self.instant != now or self.failed_at_instant < ATTEMPTS_AT_ONE_INSTANT


class StreamMapping(_Mapping):
    """An event source mapping from a DynamoDB stream to a function.

    A failed batch is retried once at the same instant. Further attempts follow when the clock has moved, because Lambda
    would back off. Until the batch succeeds, later records wait, as on AWS.
    """

    def __init__(self, resource: Resource, function: Function) -> None:
        super().__init__(resource, function, batch_size=100)
        if resource.properties.get("StartingPosition") != "TRIM_HORIZON":
            raise TemplateError(f"{resource.logical}: the local stack starts at TRIM_HORIZON only")
        filters = resource.properties.get("FilterCriteria", {}).get("Filters", [])
        self._filters = [read_pattern(part["Pattern"], resource.logical) for part in filters]
        self._pending: deque[_Batch] = deque()

    def passes(self, record: Json) -> bool:
        """Return True if a record passes the filters: if one of them matches, or if there are none."""
        return not self._filters or any(matches(record) for matches in self._filters)

    def deliver(self, invoke: Invoke, now: datetime) -> bool:
        """Deliver new records and batches that may be retried. Return False if there was nothing to do."""
        new = [record for record in local_queues.read_stream(self.arn) if self.passes(record)]
        for start in range(0, len(new), self._batch_size):
            self._pending.append(_Batch(new[start : start + self._batch_size]))
        worked = False
        while self._pending and self._pending[0].ready(now):
            worked = True
            batch = self._pending.popleft()
            numbers = [record["dynamodb"]["SequenceNumber"] for record in batch.records]
            failed = self._failed_ids(invoke(self.function, {"Records": batch.records}), numbers)
            if failed:
                rest = batch.records[min(map(numbers.index, failed)) :]  # the records before the reported one are done
                self.reported += len(rest)
                attempts = batch.failed_at_instant + 1 if batch.instant == now else 1
                self._pending.appendleft(_Batch(rest, now, attempts))
        return worked
