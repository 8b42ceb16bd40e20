"""At night in -> files to be repaired to the rewrites queue, entries and objects that belong nowhere out.

It is called twice, half an hour apart: what the first look saw and the second one sees again has not been on its way, and is
repaired. What it has no time for is left to the next night.
"""

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws import sites
from stoppress.reconcile.sites import DRIFT, KINDS, in_turn, reconcile

logger = Logger()
metrics = Metrics()

# A file of 50,000 pages that was begun is looked at to its end.
TIME_LEFT_MS = 120_000


@logger.inject_lambda_context
@metrics.log_metrics
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """A schedule's event; raises at the end if something could not be looked at, so that somebody hears of it."""
    good, bad = sites.load_all()
    good += [applied for one in bad if (applied := sites.last_applied(one.host))]
    failures: list[Exception] = []
    for name in (DRIFT, *KINDS.values()):
        metrics.add_metric(name, MetricUnit.Count, 0)
    for site in in_turn(good):
        try:
            report = reconcile(
                site, datetime.now(UTC), may_go_on=lambda: context.get_remaining_time_in_millis() > TIME_LEFT_MS
            )
        except Exception as error:  # noqa: BLE001 - one site's fault keeps no other
            failures.append(error)
            continue
        failures += report.failed
        for name, count in report.counts.items():
            metrics.add_metric(name, MetricUnit.Count, count)
        for one in report.repaired:
            logger.warning("drift", site=site.host, kind=one.kind, file=one.unit, what=one.name, reason=one.reason)
        logger.info(
            "reconciled", site=site.host, whole=report.whole, suspected=len(report.suspected), units=report.units
        )
    if failures:
        logger.error("not looked at", reasons=[repr(error) for error in failures])
        raise ExceptionGroup("some files could not be compared with the table; the next night tries again", failures)
