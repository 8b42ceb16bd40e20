"""Notify search engines of the pages that changed in the files: see `stoppress.notify.engines`."""

import os
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.aws import sites
from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.aws.queues import most_delivered_first, report_failed
from stoppress.notify.engines import Notified, notify_engines, sweep
from stoppress.primitives.instants import Deadline

logger = Logger()


@logger.inject_lambda_context
@in_time(reserve_seconds=45)  # to end the fetch of a page, notify the engines, and write the pages' states
def lambda_handler(event: dict[str, Any], now: datetime, deadline: Deadline) -> dict[str, list[dict[str, str]]] | None:
    """Handle a batch of the engines queue, and return the messages to deliver again; or sweep each hour."""
    if "Records" not in event:
        _sweep(now)
        return None
    records = most_delivered_first(event["Records"])
    done = notify_engines({record["messageId"]: record["body"] for record in records}, now, deadline)
    _log(done)
    publish(
        {
            "PagesNotified": len(done.notified),
            "PagesNotReady": len(done.not_ready),
            "EnginesFailed": len(done.engines_failing),
            "WorkFailed": len(done.failed),
        }
    )
    to_repeat = [record for record in records if record["messageId"] in done.failed.keys() | done.postponed]
    return report_failed(os.environ["ENGINES_QUEUE_URL"], to_repeat, logger.warning)


def _sweep(now: datetime) -> None:
    all_sites, _ = sites.load_all()
    done = sweep(all_sites, now)
    _log(done)
    publish({"WorkFailed": len(done.failed), "EnginesFailed": len(done.engines_failing)})


def _log(done: Notified) -> None:
    for site, url in done.notified:
        logger.info("notified", site=site, url=url)
    for site, url, reason in done.not_ready:
        logger.warning("page not ready", site=site, url=url, reason=reason)
    for site, reason in done.engines_failing:
        logger.warning("engine fails", site=site, reason=reason)
    for error in {repr(error) for error in done.failed.values()}:
        logger.warning("failed", reason=error)
