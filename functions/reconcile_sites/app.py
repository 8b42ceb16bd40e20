"""Compares table, index and bucket at night, and repairs differences: see `stoppress.reconcile.sites`.

It runs twice a night, half an hour apart. A difference that both runs see is not a change on its way, and is repaired. Sites
for which there is no time have their turn in the next night.
"""

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws import sites
from stoppress.reconcile.findings import DRIFT, KINDS
from stoppress.reconcile.sites import in_turn, reconcile

logger = Logger()
metrics = Metrics()

# Time to finish a file of 50,000 pages.
TIME_LEFT_MS = 120_000


@logger.inject_lambda_context
@metrics.log_metrics
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handle a schedule's event. Raises at the end if something could not be looked at, so that the alarm goes off."""
    good, _ = sites.load_all_usable()
    failures: list[Exception] = []
    for name in (DRIFT, *KINDS.values()):
        metrics.add_metric(name, MetricUnit.Count, 0)
    for site in in_turn(good):
        try:
            report = reconcile(
                site, datetime.now(UTC), may_go_on=lambda: context.get_remaining_time_in_millis() > TIME_LEFT_MS
            )
        except Exception as error:  # noqa: BLE001 - one site's fault must not stop the others
            failures.append(error)
            continue
        failures += report.failed
        for name, count in report.counts.items():
            metrics.add_metric(name, MetricUnit.Count, count)
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
    if failures:
        logger.error("not looked at", reasons=[repr(error) for error in failures])
        raise ExceptionGroup("some files could not be compared with the table; the next night tries again", failures)
