"""Do the work that is due, every minute: see `stoppress.roll.window`. The first run after a deployment also adds the first site."""

from collections import Counter
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.primitives.instants import Deadline
from stoppress.roll.window import beat, begin_deployment, roll

logger = Logger()
# Whether this execution environment has checked its deployment. A deployment ends all older environments.
_begun: set[str] = set()


@logger.inject_lambda_context
@in_time(reserve_seconds=10)  # to free the places of expired entries
def lambda_handler(event: dict[str, Any], now: datetime, deadline: Deadline) -> None:
    """Handle an event of the schedule. Raises at the end if some work failed, so that an alarm fires."""
    failures: list[Exception] = []
    counts: Counter[str] = Counter()
    for task in (beat, _begin):
        try:
            task(now)
        except Exception as error:  # noqa: BLE001 - the next minute tries again
            failures.append(error)
    done, failed = roll(now, deadline)
    counts += done
    failures += failed
    if done:
        logger.info("rolled", done=dict(done))
    for failure in failures:
        logger.error("work failed", reason=repr(failure), about=getattr(failure, "__notes__", []))
    counts["NeedsAttention"] += counts["SitesEmptied"]
    failing = ("SitesUnreadable", "SitesSilent", "DueNotReached")
    publish({**counts, "SitesFailing": sum(counts[name] for name in failing)})
    if failures:
        raise ExceptionGroup("some of this minute's work failed; the next minute tries again", failures)


def _begin(now: datetime) -> None:
    if not _begun:
        begin_deployment(now)
        _begun.add("deployment")
