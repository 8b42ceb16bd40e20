"""Writes the sitemap files that the table's stream and the rewrites queue name.

The stream names changed entries. Only their lines in the files are made again (`sitemaps.fold`). The queue names files
to make from all their entries: files that failed, and files that a repair needs. Both name sites whose configuration changed.
"""

import os
from collections import Counter
from collections.abc import Iterable, Sequence
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws.clients import in_time
from stoppress.aws.due import changed_site
from stoppress.aws.items import changed_entry, file_of, is_heartbeat
from stoppress.aws.metrics import publish
from stoppress.aws.queues import AllFiles, RewriteRequest, read_request, retry_later
from stoppress.primitives.deadline import Deadline
from stoppress.rewrite.all_files import request_all
from stoppress.rewrite.sitemaps import Result, hand_over, postpone_all, rewrite_all

# Seconds from the deadline until Lambda ends the function: to finish one file and to queue the others.
RESERVE_SECONDS = 20.0
# Lambda delivers a batch until it succeeds, and no later batch of its shard before. A batch is written within seconds, unless an
# earlier attempt failed. One of its files may crash the function, so all files of an older batch go to the queue, each on its own.
STREAM_AGE_MAX_SECONDS = 180
# A record of the stream that is older than this may come again after a run that was killed. What that run left is checked.
LATE_SECONDS = 30
# A file that fails is tried again at least every five minutes. So it is right within ten minutes of a repair.
RETRY_DELAY_MAX_SECONDS = 300

logger = Logger()


@logger.inject_lambda_context
@in_time
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Handle a batch of the stream or of the rewrites queue; the answer names the records to send again."""
    records: list[dict[str, Any]] = event["Records"]
    from_queue = records[0]["eventSource"] == "aws:sqs"
    if not from_queue:  # a heartbeat only shows that the stream is read
        records = [record for record in records if not is_heartbeat(record["dynamodb"])]
    everything = _requests(records, from_queue)
    unreadable = len(records) - len(everything)
    requests = {identity: request for identity, request in everything.items() if isinstance(request, RewriteRequest)}
    deadline = Deadline(context.get_remaining_time_in_millis, RESERVE_SECONDS)
    now = datetime.now(UTC)
    is_old = not from_queue and any(now.timestamp() - _created(record) > STREAM_AGE_MAX_SECONDS for record in records)
    results = postpone_all(requests.values()) if is_old else rewrite_all(requests.values(), now, deadline)
    failed = {(result.request.site, result.request.file) for result in _returning(results, from_queue)}
    not_requested = {
        identity
        for identity, request in everything.items()
        if isinstance(request, AllFiles) and not _request_all(request, deadline) and from_queue
    }
    counts = Counter(f"Files{result.outcome.capitalize()}" for result in results)
    publish(
        {
            **counts,
            "FilesUnreadable": unreadable,
            "WritingSeconds": [] if from_queue else _seconds(records, requests, results),
            "WorkFailed": counts["FilesFailed"] + unreadable,
        }
    )
    again = [
        record
        for record in records
        if (identity := _identity(record)) in not_requested
        or (identity in requests and (requests[identity].site, requests[identity].file) in failed)
    ]
    if from_queue:
        for error in retry_later(os.environ["REWRITES_QUEUE_URL"], again, RETRY_DELAY_MAX_SECONDS):
            logger.warning("not delayed", reason=repr(error))
    return {"batchItemFailures": [{"itemIdentifier": _identity(record)} for record in again]}


def _request_all(request: AllFiles, deadline: Deadline) -> bool:
    """Request all files of a changed site. Return False if that failed: roll_window repeats a record of the stream."""
    try:
        files = request_all(request, deadline)
    except Exception as error:  # noqa: BLE001 - the other records go on
        logger.warning("not requested", site=request.site, reason=repr(error))
        return False
    logger.info("all files requested", site=request.site, files=files)
    return True


def _requests(records: list[dict[str, Any]], from_queue: bool) -> dict[str, RewriteRequest | AllFiles]:
    """Return the request of each record that can be read. No later attempt could read the others, so they are only logged."""
    requests: dict[str, RewriteRequest | AllFiles] = {}
    for record in records:
        try:
            requests[_identity(record)] = read_request(record["body"]) if from_queue else _changed(record["dynamodb"])
        except Exception as error:  # noqa: BLE001 - the other records must go on
            logger.warning("names no file", reason=repr(error))
    return requests


def _seconds(
    records: Iterable[dict[str, Any]], requests: dict[str, RewriteRequest], results: Iterable[Result]
) -> list[float]:
    """For each written file, the seconds since the first record of the stream that changed its entries."""
    changed: dict[tuple[str, str], float] = {}
    for record in records:
        if request := requests.get(_identity(record)):
            created = _created(record)
            changed[request.site, request.file] = min(changed.get((request.site, request.file), created), created)
    written = [(result.request.site, result.request.file) for result in results if result.outcome == "written"]
    return [max(0.0, datetime.now(UTC).timestamp() - changed[file]) for file in written]


def _created(record: dict[str, Any]) -> float:
    return float(record["dynamodb"]["ApproximateCreationDateTime"])


def _changed(record: dict[str, Any]) -> RewriteRequest | AllFiles:
    if site := changed_site(record):
        return AllFiles(*site)
    entry = changed_entry(record)
    age_seconds = datetime.now(UTC).timestamp() - float(record["ApproximateCreationDateTime"])
    return RewriteRequest(
        *file_of(record["Keys"]["pk"]["S"]),
        checks_all=age_seconds > LATE_SECONDS,
        entries=frozenset([entry]) if entry else None,
    )


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
