"""Write the sitemap files that the table's stream and the rewrites queue request: see `stoppress.rewrite.sitemaps`."""

import os
from collections import Counter
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.aws.queues import report_failed
from stoppress.primitives.instants import Deadline
from stoppress.rewrite.sitemaps import BatchOutcome, rewrite_batch

logger = Logger()


@logger.inject_lambda_context
@in_time(reserve_seconds=20)  # to finish one file and to queue the others
def lambda_handler(event: dict[str, Any], now: datetime, deadline: Deadline) -> dict[str, list[dict[str, str]]]:
    """Handle a batch of the stream or of the rewrites queue. Return the records to deliver again."""
    done = rewrite_batch(event["Records"], now, deadline)
    _log(done)
    counts = Counter(f"Files{result.outcome.capitalize()}" for result in done.results)
    end = datetime.now(UTC).timestamp()
    publish(
        {
            **counts,
            "FilesUnreadable": len(done.unreadable),
            "WritingSeconds": [max(0.0, end - since) for since in done.written_since],
            "WorkFailed": counts["FilesFailed"] + len(done.unreadable),
        }
    )
    if "messageId" in event["Records"][0]:
        return report_failed(os.environ["REWRITES_QUEUE_URL"], done.again, logger.warning)
    return {"batchItemFailures": [{"itemIdentifier": record["dynamodb"]["SequenceNumber"]} for record in done.again]}


def _log(done: BatchOutcome) -> None:
    for error in done.unreadable:
        logger.warning("request without a file", reason=repr(error))
    for result in done.results:
        fields: dict[str, Any] = {"site": result.request.site, "file": result.request.file, "outcome": result.outcome}
        if result.error is None:
            logger.info("file", urls=result.urls, size_bytes=result.size_bytes, **fields)
        else:
            logger.warning("file", reason=repr(result.error), **fields)
    for host, files in done.requested:
        if isinstance(files, Exception):
            logger.warning("not requested", site=host, reason=repr(files))
        else:
            logger.info("all files requested", site=host, files=files)
