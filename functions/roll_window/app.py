"""Does what is due for all sites, every minute and when a site's parameter changes: see `stoppress.roll.window`.

A site without a parameter continues with its last applied configuration until an operator retires it.
"""

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws import sites
from stoppress.aws.clients import in_time
from stoppress.model.site import Site
from stoppress.primitives.deadline import Deadline
from stoppress.roll.window import in_turn, roll

# Time after the deadline to free the places of expired entries.
RESERVE_SECONDS = 10.0

logger = Logger()
metrics = Metrics()


@logger.inject_lambda_context
@metrics.log_metrics
@in_time
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handle a schedule's or a parameter's event. Raises at the end if a site's work failed, so that the alarm goes off."""
    now = datetime.now(UTC)
    deadline = Deadline(context.get_remaining_time_in_millis, RESERVE_SECONDS)
    good, bad = sites.load_all()
    metrics.add_metric("SitesUnreadable", MetricUnit.Count, len(bad))
    for unreadable in bad:  # a typing error must not stop expiry: the site's last applied configuration is used
        logger.error("site unreadable", parameter=unreadable.name, reason=unreadable.reason)
        if applied := sites.last_applied(unreadable.host):
            good.append(applied)
    failures: list[Exception] = []
    not_reached: list[str] = []
    try:
        good += _without_parameter(good, {unreadable.host for unreadable in bad})
    except Exception as fault:  # noqa: BLE001 - sites with a parameter do not need the registry
        failures.append(fault)
    for site in in_turn(good, now):
        if deadline.is_over():
            not_reached.append(site.host)
            continue
        done, failed = roll(site, now, deadline)
        failures += failed
        for name, count in done.items():
            metrics.add_metric(name, MetricUnit.Count, count)
        if done:
            logger.info("rolled", site=site.host, done=dict(done))
        for error in failed:
            logger.error("site's work failed", site=site.host, reason=repr(error))
    if not_reached:
        metrics.add_metric("SitesNotReached", MetricUnit.Count, len(not_reached))
        logger.warning("no time left", sites=not_reached[:100])
    if failures:
        raise ExceptionGroup("some of this minute's work failed; the next minute tries again", failures)


def _without_parameter(present: list[Site], unreadable: set[str]) -> list[Site]:
    """Registered sites without a parameter, as last applied. Registers the sites that have a parameter."""
    known, hosts = sites.registered(), {site.host for site in present}
    for host in sorted(hosts - known):
        sites.register(host)
    gone = sorted(known - hosts - unreadable)
    if gone:
        metrics.add_metric("SitesGone", MetricUnit.Count, len(gone))
    for host in gone:
        logger.warning("site's parameter is gone", site=host, remedy=f"put it again, or run: stoppress retire {host}")
    return [site for host in gone if (site := sites.last_applied(host))]
