"""Every minute, or at a changed site, in -> due articles and files to their queues, expired entries out.

Whatever wakes it, it looks at every site: the work is what the table says is due.
"""

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress import sites
from stoppress.rolling import roll

logger = Logger()
metrics = Metrics()


@logger.inject_lambda_context
@metrics.log_metrics
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """A schedule's or a parameter's event; raises at the end if a site's work failed, so that somebody hears of it."""
    now = datetime.now(UTC)
    good, bad = sites.load_all()
    metrics.add_metric("SitesUnreadable", MetricUnit.Count, len(bad))
    for unreadable in bad:  # a misspelt key stops no clock: the site is rolled as it was last applied
        logger.error("site unreadable", parameter=unreadable.name, reason=unreadable.reason)
        if applied := sites.last_applied(unreadable.host):
            good.append(applied)
    failures: list[Exception] = []
    for site in good:
        done, failed = roll(site, now)
        failures += failed
        for name, count in done.items():
            metrics.add_metric(name, MetricUnit.Count, count)
        if done:
            logger.info("rolled", site=site.host, done=dict(done))
        for error in failed:
            logger.error("site's work failed", site=site.host, reason=repr(error))
    if failures:
        raise ExceptionGroup("some of this minute's work failed; the next minute tries again", failures)
