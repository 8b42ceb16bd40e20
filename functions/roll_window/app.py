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
from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.aws.sites import BadSite, Registry
from stoppress.model.site import Site
from stoppress.primitives.deadline import Deadline
from stoppress.roll.window import NotApplied, beat, in_turn, roll

# Seconds from the deadline until Lambda ends the function: to free the places of expired entries.
RESERVE_SECONDS = 10.0

logger = Logger()


@logger.inject_lambda_context
@in_time
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> None:
    """Handle an event of the schedule or of Parameter Store.

    Raises at the end if a site's work failed, so that an alarm rings.
    """
    now = datetime.now(UTC)
    deadline = Deadline(context.get_remaining_time_in_millis, RESERVE_SECONDS)
    failures: list[Exception] = []
    not_reached: list[str] = []
    changed = _changed_host(event)
    # The registry is read first. Otherwise a site that is added between the two reads would seem to lack its parameter.
    registry = None
    if not changed:
        _beat(now, failures)
        registry = _registry(failures)
    good, bad = sites.load_all(changed)
    counts = Counter(SitesUnreadable=len(bad))
    present = {site.host for site in good} | {site.host for site in bad}
    good += _as_last_applied(bad)
    try:
        if registry:
            counts += _watch(registry, good, now)
            gone = _without_parameter(registry, present)
            counts["SitesGone"] = len(gone)
            good += [site for host in gone if (site := sites.last_applied(host))]
        elif changed in present:
            sites.register(changed)
    except Exception as fault:  # noqa: BLE001 - sites with a parameter do not need the registry
        failures.append(fault)
    for site in in_turn(good, now):
        if deadline.is_over():
            not_reached.append(site.host)
            continue
        done, failed = roll(site, now, deadline)
        failures += failed
        counts += done
        if done:
            logger.info("rolled", site=site.host, done=dict(done))
        for error in failed:
            logger.error("site's work failed", site=site.host, reason=repr(error))
    if not_reached:
        counts["SitesNotReached"] = len(not_reached)
        logger.warning("no time left", sites=not_reached[:100])
    publish({**counts, "SitesFailing": counts["SitesUnreadable"] + counts["SitesGone"] + counts["SitesSilent"]})
    if registry and not not_reached and not any(isinstance(failure, NotApplied) for failure in failures):
        sites.confirm(registry, now)
    if failures:
        raise ExceptionGroup("some of this minute's work failed; the next minute tries again", failures)


def _changed_host(event: dict[str, Any]) -> str | None:
    """The host whose parameter changed, from an event of Parameter Store; None for an event of the schedule.

    Reading one site takes two calls of Parameter Store. Reading all sites at each change would exceed the quota while many are added.
    """
    if event.get("source") != "aws.ssm":
        return None
    return str(event["detail"]["name"]).removeprefix(sites.parameter_name("")).partition("/")[0]


def _beat(now: datetime, failures: list[Exception]) -> None:
    """Send the heartbeat. If that fails, the error is added to `failures`, and the run continues."""
    try:
        beat(now)
    except Exception as fault:  # noqa: BLE001 - the next minute tries again
        failures.append(fault)


def _registry(failures: list[Exception]) -> Registry | None:
    """The registry; None if it cannot be read. Work on sites with a parameter goes on without it."""
    try:
        return sites.registry()
    except Exception as fault:  # noqa: BLE001 - the next minute tries again
        failures.append(fault)
        return None


def _as_last_applied(bad: list[BadSite]) -> list[Site]:
    """The last applied configurations of unreadable sites: a typing error must not stop expiry."""
    for unreadable in bad:
        logger.error("site unreadable", parameter=unreadable.name, reason=unreadable.reason)
    return [applied for unreadable in bad if (applied := sites.last_applied(unreadable.host))]


def _watch(registry: Registry, present: Iterable[Site], now: datetime) -> Counter[str]:
    """Counts sites without an event for `silent_after_hours`, and an overdue run of reconcile_sites."""
    counts: Counter[str] = Counter()
    for site in present:
        if site.silent_after_hours is None:
            continue
        heard = registry.heard.get(site.host)
        if heard is None or heard.version != site.version:  # the hours count from the new configuration
            sites.heard(site, now)
        elif now - heard.at > timedelta(hours=site.silent_after_hours):
            counts["SitesSilent"] += 1
            logger.warning("site is silent", site=site.host, last_event=heard.at.isoformat())
    if registry.reconciliation_due is None or now > registry.reconciliation_due:
        counts["NeedsAttention"] += registry.reconciliation_due is not None
        sites.expect_reconciliation(now)
    return counts


def _without_parameter(registry: Registry, present: set[str]) -> list[str]:
    """Registered hosts without a parameter. Notes in the registry which hosts have a parameter now."""
    for host in sorted(present - registry.present):
        sites.register(host)
    gone = sorted((registry.present | registry.gone) - present)
    for host in gone:
        logger.warning("site's parameter is gone", site=host, remedy=f"put it again, or run: stoppress retire {host}")
        if host in registry.present:
            sites.register(host, gone=True)
    return gone
