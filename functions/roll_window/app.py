"""Does what is due for all sites, every minute and when a site's parameter changes: see `stoppress.roll.window`.

A site without a parameter continues with its last applied configuration until an operator retires it.
"""

from collections import Counter
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws import sites
from stoppress.aws.metrics import publish
from stoppress.aws.sites import BadSite, Registry
from stoppress.model.site import Site
from stoppress.roll.window import roll

logger = Logger()


@logger.inject_lambda_context
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handle a schedule's or a parameter's event. Raises at the end if a site's work failed, so that the alarm goes off."""
    now = datetime.now(UTC)
    good, bad = sites.load_all()
    counts = Counter(SitesUnreadable=len(bad))
    for unreadable in bad:  # a typing error must not stop expiry: the site's last applied configuration is used
        logger.error("site unreadable", parameter=unreadable.name, reason=unreadable.reason)
        if applied := sites.last_applied(unreadable.host):
            good.append(applied)
    failures: list[Exception] = []
    try:
        registry = sites.registry()
        counts += _watch(registry, good, now)
        gone = _without_parameter(registry, good, bad)
        counts["SitesGone"] = len(gone)
        good += [site for host in gone if (site := sites.last_applied(host))]
    except Exception as fault:  # noqa: BLE001 - sites with a parameter do not need the registry
        failures.append(fault)
    for site in good:
        done, failed = roll(site, now)
        failures += failed
        counts += done
        if done:
            logger.info("rolled", site=site.host, done=dict(done))
        for error in failed:
            logger.error("site's work failed", site=site.host, reason=repr(error))
    publish({**counts, "SitesFailing": counts["SitesUnreadable"] + counts["SitesGone"] + counts["SitesSilent"]})
    if failures:
        raise ExceptionGroup("some of this minute's work failed; the next minute tries again", failures)


def _watch(registry: Registry, present: Iterable[Site], now: datetime) -> Counter[str]:
    """Counts sites that have been silent for longer than they allow, and a reconciliation that is overdue."""
    counts: Counter[str] = Counter()
    for site in present:
        if site.silent_after_hours is None:
            continue
        heard = registry.heard.get(site.host)
        if heard is None or heard.version != site.version:  # the hours begin with this configuration
            sites.heard(site, now)
        elif now - heard.at > timedelta(hours=site.silent_after_hours):
            counts["SitesSilent"] += 1
            logger.warning("site is silent", site=site.host, last_event=heard.at.isoformat())
    if registry.reconciliation_due is None or now > registry.reconciliation_due:
        counts["NeedsAttention"] += registry.reconciliation_due is not None
        sites.expect_reconciliation(now)
    return counts


def _without_parameter(registry: Registry, present: Iterable[Site], unreadable: Iterable[BadSite]) -> list[str]:
    """Registered hosts without a parameter. Registers the sites that have a parameter."""
    hosts = {site.host for site in present}
    for host in sorted(hosts - registry.hosts):
        sites.register(host)
    gone = sorted(registry.hosts - hosts - {site.host for site in unreadable})
    for host in gone:
        logger.warning("site's parameter is gone", site=host, remedy=f"put it again, or run: stoppress retire {host}")
    return gone
