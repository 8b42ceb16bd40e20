"""Each hour, compare the lists of the sources with the table, and send the articles whose webhook is missing."""

from collections import Counter
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.audit.audit_state import AuditOutcome
from stoppress.audit.sources import audit_sources
from stoppress.aws import sites
from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.primitives.instants import Deadline

logger = Logger()


@logger.inject_lambda_context
@in_time(reserve_seconds=40)  # to finish a request for a page, send its events and write the state
def lambda_handler(event: dict[str, Any], now: datetime, deadline: Deadline) -> None:
    """Handle a schedule's event. A source that fails does not stop the others."""
    counts: Counter[str] = Counter()
    all_sites, _ = sites.load_all()
    for outcome in audit_sources(all_sites, now, deadline):
        counts["WebhooksMissed"] += len(outcome.missed)
        counts["AuditsFailed"] += outcome.result in {"failed", "not reached"}
        counts["NeedsAttention"] += outcome.newly_silent + bool(outcome.unlisted)
        _log(outcome)
    publish(counts)


def _log(outcome: AuditOutcome) -> None:
    details: dict[str, Any] = {"site": outcome.site, "source": outcome.source, "listed": outcome.listed}
    details |= {"reason": outcome.reason} if outcome.reason else {}
    is_healthy = outcome.result == "audited" and not (outcome.missed or outcome.unlisted or outcome.newly_silent)
    (logger.info if is_healthy else logger.warning)(f"source {outcome.result}", **details)
    for event in outcome.missed:
        logger.warning("webhook missed", site=event.site, article=event.name, url=event.url)
    for url in outcome.unlisted:
        logger.warning("not in the list", site=outcome.site, source=outcome.source, url=url)
    if outcome.newly_silent:
        logger.warning("no webhooks, while the feed has stories", site=outcome.site, source=outcome.source)
