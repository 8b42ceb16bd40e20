"""Compare table, index and bucket at night, and repair differences: see `stoppress.reconcile.sites`.

It runs twice a night, half an hour apart. A difference that both runs find is not work in progress, so the second run
repairs it. Each run announces parts of the work on the bus, which invoke this function again.
"""

from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.primitives.instants import Deadline
from stoppress.reconcile.drift import counts_of
from stoppress.reconcile.sites import PART, Part, announce_sites, next_run, reconcile_part

logger = Logger()


@logger.inject_lambda_context
@in_time(reserve_seconds=120)  # to finish comparing a file of 50,000 pages
def lambda_handler(event: dict[str, Any], now: datetime, deadline: Deadline) -> None:
    """Handle a schedule's event or an announced part. Raises if a comparison failed, so that Lambda repeats the part."""
    part = Part(**event["detail"]) if event.get("detail-type") == PART else next_run(now)
    if not part.site:
        announce_sites(part, deadline)
        return
    report = reconcile_part(part, deadline)
    for finding in report.repaired:
        about = {"kind": finding.kind, "file": finding.unit, "what": finding.name, "reason": finding.reason}
        logger.warning("drift", extra={"site": part.site} | about)
    logger.info("reconciled", site=part.site, suspected=len(report.suspected), units=report.units)
    publish(counts_of(report))
    if report.failed:
        logger.error("not looked at", reasons=[repr(error) for error in report.failed])
    if report.failed and not report.has_rest:
        raise ExceptionGroup("some files could not be compared with the table", report.failed)
