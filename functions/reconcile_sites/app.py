"""Compares table, index and bucket at night, and repairs differences: see `stoppress.reconcile.sites`.

It runs twice a night, half an hour apart. A difference that both runs find is not work in progress, so the second run
repairs it. Sites that a night's runs do not reach come first in the next night.
"""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws import sites
from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.primitives.deadline import Deadline
from stoppress.reconcile.findings import DRIFT
from stoppress.reconcile.sites import in_turn, reconcile

logger = Logger()

# Seconds from the deadline until Lambda ends the function: to finish comparing a file of 50,000 pages.
RESERVE_SECONDS = 120.0


@logger.inject_lambda_context
@in_time
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handle a schedule's event. Raises at the end if a comparison failed, so that an alarm rings."""
    deadline = Deadline(context.get_remaining_time_in_millis, RESERVE_SECONDS)
    good, _ = sites.load_all_usable()
    failures: list[Exception] = []
    counts: Counter[str] = Counter()
    for site in in_turn(good):
        try:
            report = reconcile(site, datetime.now(UTC), deadline=deadline)
        except Exception as error:  # noqa: BLE001 - one site's fault must not stop the others
            failures.append(error)
            continue
        failures += report.failed
        counts += report.counts
        for finding in report.repaired:
            fields: dict[str, Any] = {
                "kind": finding.kind,
                "file": finding.unit,
                "what": finding.name,
                "reason": finding.reason,
            }
            logger.warning("drift", site=site.host, **fields)
        logger.info(
            "reconciled", site=site.host, whole=report.whole, suspected=len(report.suspected), units=report.units
        )
    publish({**counts, "NeedsAttention": counts[DRIFT]})
    sites.expect_reconciliation(datetime.now(UTC))
    if failures:
        logger.error("not looked at", reasons=[repr(error) for error in failures])
        raise ExceptionGroup("some files could not be compared with the table; the next night tries again", failures)
