"""Does what is due for all sites, every minute and when a site's parameter changes: see `stoppress.roll.window`.

A site without a parameter continues with its last applied configuration until an operator retires it.
"""

from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws import sites
from stoppress.model.site import Site
from stoppress.roll.window import roll

logger = Logger()
metrics = Metrics()


@logger.inject_lambda_context
@metrics.log_metrics
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handle a schedule's or a parameter's event. Raises at the end if a site's work failed, so that the alarm goes off."""
    now = datetime.now(UTC)
    failures: list[Exception] = []
    changed = _changed_host(event)
    # The registry is read before the parameters: a host that is registered in between has its parameter.
    registry = None if changed else _registry(failures)
    good, bad = sites.load_all(changed)
    present = {site.host for site in good} | {site.host for site in bad}
    good += _as_last_applied(bad)
    try:
        if registry:
            good += _compared(registry, present)
        elif changed in present:
            sites.register(changed)
    except Exception as fault:  # noqa: BLE001 - sites with a parameter do not need the registry
        failures.append(fault)
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
    if registry:
        sites.confirm(registry, now)


def _changed_host(event: dict[str, Any]) -> str | None:
    """The host whose parameters an event of Parameter Store names; None for a schedule's event.

    One site costs two calls of Parameter Store. All sites at each change would exceed its quota while many are added.
    """
    if event.get("source") != "aws.ssm":
        return None
    return str(event["detail"]["name"]).removeprefix(sites.parameter_name("")).partition("/")[0]


def _registry(failures: list[Exception]) -> sites.Registry | None:
    """The registry; None if it cannot be read: sites with a parameter do not need it."""
    try:
        return sites.registry()
    except Exception as fault:  # noqa: BLE001 - the next minute tries again
        failures.append(fault)
        return None


def _as_last_applied(bad: list[sites.BadSite]) -> list[Site]:
    """The unreadable sites as last applied: a typing error must not stop expiry."""
    metrics.add_metric("SitesUnreadable", MetricUnit.Count, len(bad))
    for unreadable in bad:
        logger.error("site unreadable", parameter=unreadable.name, reason=unreadable.reason)
    return [applied for unreadable in bad if (applied := sites.last_applied(unreadable.host))]


def _compared(registry: sites.Registry, present: set[str]) -> list[Site]:
    """Registered sites without a parameter, as last applied. Notes in the registry which hosts have a parameter now."""
    for host in sorted(present - registry.present):
        sites.register(host)
    gone = sorted((registry.present | registry.gone) - present)
    if gone:
        metrics.add_metric("SitesGone", MetricUnit.Count, len(gone))
    for host in gone:
        logger.warning("site's parameter is gone", site=host, remedy=f"put it again, or run: stoppress retire {host}")
        if host in registry.present:
            sites.register(host, gone=True)
    return [site for host in gone if (site := sites.last_applied(host))]
