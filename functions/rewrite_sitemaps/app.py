"""Writes the sitemap files that the table's stream and the rewrites queue name.

The stream names changed entries. Only their lines in the files are made again (`sitemaps.fold`). The queue names files
to make from all their entries: files that failed, and files that a changed configuration or a repair needs.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws.clients import in_time
from stoppress.aws.items import changed_entry, file_of, is_heartbeat
from stoppress.aws.metrics import publish
from stoppress.aws.queues import RewriteRequest, read_rewrite, retry_later
from stoppress.primitives.deadline import Deadline
from stoppress.rewrite.sitemaps import Result, hand_over, rewrite_all

# Seconds from the deadline until Lambda ends the function: to finish one file and to queue the others.
RESERVE_SECONDS = 20.0

logger = Logger()


@logger.inject_lambda_context
@in_time
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Handle a batch of the stream or of the rewrites queue; the answer names the records to send again."""
    records: list[dict[str, Any]] = event["Records"]
    from_queue = records[0]["eventSource"] == "aws:sqs"
    if not from_queue:  # a heartbeat only shows that the stream is read
        records = [record for record in records if not is_heartbeat(record["dynamodb"])]
    requests, unreadable = _requests(records, from_queue)
    deadline = Deadline(context.get_remaining_time_in_millis, RESERVE_SECONDS)
    results = rewrite_all(requests.values(), datetime.now(UTC), deadline)
    failed = {(result.request.site, result.request.file) for result in _returning(results, from_queue)}
    counts = Counter(f"Files{result.outcome.capitalize()}" for result in results)
    publish(
        {
            **counts,
            "FilesUnreadable": len(unreadable),
            "WritingSeconds": [] if from_queue else _seconds(records, requests, results),
            "WorkFailed": counts["FilesFailed"] + len(unreadable),
        }
    )
    again = [
        record
        for record in records
        if (identity := _identity(record)) in unreadable or (requests[identity].site, requests[identity].file) in failed
    ]
    if from_queue:
        for error in retry_later(os.environ["REWRITES_QUEUE_URL"], again):
            logger.warning("not delayed", reason=repr(error))
    return {"batchItemFailures": [{"itemIdentifier": _identity(record)} for record in again]}


def _requests(
    records: list[dict[str, Any]], from_queue: bool
) -> tuple[dict[str, RewriteRequest], dict[str, Exception]]:
    requests: dict[str, RewriteRequest] = {}
    unreadable: dict[str, Exception] = {}
    for record in records:
        try:
            if from_queue:
                requests[_identity(record)] = read_rewrite(record["body"])
            else:
                requests[_identity(record)] = _changed(record["dynamodb"])
        except ValueError as error:
            logger.warning("names no file", reason=str(error))
            unreadable[_identity(record)] = error
    return requests, unreadable


def _seconds(
    records: Iterable[dict[str, Any]], requests: dict[str, RewriteRequest], results: Iterable[Result]
) -> list[float]:
    """For each written file, the seconds since the first record of the stream that changed its entries."""
    changed: dict[tuple[str, str], float] = {}
    for record in records:
        if request := requests.get(_identity(record)):
            created = float(record["dynamodb"]["ApproximateCreationDateTime"])
            changed[request.site, request.file] = min(changed.get((request.site, request.file), created), created)
    written = [(result.request.site, result.request.file) for result in results if result.outcome == "written"]
    return [max(0.0, datetime.now(UTC).timestamp() - changed[file]) for file in written]


def _changed(record: dict[str, Any]) -> RewriteRequest:
    entry = changed_entry(record)
    return RewriteRequest(*file_of(record["Keys"]["pk"]["S"]), entries=frozenset([entry]) if entry else None)


def _identity(record: dict[str, Any]) -> str:
    return str(record["messageId"] if "messageId" in record else record["dynamodb"]["SequenceNumber"])


def _returning(results: Sequence[Result], from_queue: bool) -> Sequence[Result]:
    """Log the outcomes. Returns the results whose records Lambda must retry.

    Unwritten files from the stream are sent to the rewrites queue. Lambda retries their records only if the queue
    fails.
    """
    for result in results:
        fields: dict[str, Any] = {"site": result.request.site, "file": result.request.file, "outcome": result.outcome}
        if result.error is None:
            logger.info("file", urls=result.urls, size_bytes=result.size_bytes, **fields)
        else:
            logger.warning("file", reason=repr(result.error), **fields)
    unwritten = [result for result in results if result.error]
    return unwritten if from_queue or hand_over(unwritten) else []
