"""Each minute: poll the feeds that are due, and send article events for new and changed entries.

If one run is not enough, the minute's run announces shares of the feeds on the bus, which invokes this function for each.
"""

from collections import Counter
from datetime import datetime
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.aws import sites
from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.poll import feeds, shares
from stoppress.poll.feed_items import PollOutcome
from stoppress.primitives.instants import Deadline

logger = Logger()


@logger.inject_lambda_context
@in_time(reserve_seconds=8)  # to send the last feed's events, write its state, and print log and metrics
def lambda_handler(event: dict[str, Any], now: datetime, deadline: Deadline) -> None:
    """Poll the feeds that are due. A broken feed or site does not stop the others."""
    counts: Counter[str] = Counter()
    share = shares.read_announcement(event)
    polled, unreadable = sites.load_all(sites.POLLS)
    for site in unreadable if share is None else []:
        logger.error("site unreadable", site=site.host, reason=site.reason)  # counted by roll_window
    for outcome in feeds.poll_site_feeds(polled, now, deadline, share):
        counts["FeedsPolled"] += outcome.result in {"changed", "unchanged", "failed"}
        counts["FeedsUnchanged"] += outcome.result == "unchanged"
        counts["FeedsFailed"] += outcome.result == "failed"
        counts["FeedsFailing"] += outcome.needs_attention
        counts["FeedsNotReached"] += outcome.result == "not reached"
        counts["EntriesSent"] += outcome.sent
        counts["EntriesSkipped"] += len(outcome.skipped)
        counts["HubsAsked"] += outcome.result == "subscribing"
        counts["HubsNotAsked"] += outcome.result == "not subscribed"
        counts["WorkFailed"] += outcome.our_fault
        counts["NeedsAttention"] += outcome.new_trouble
        if outcome.result not in {"unchanged", "waiting"} or (outcome.result == "unchanged" and outcome.reason):
            log = logger.info if outcome.result in {"changed", "unchanged", "subscribing"} else logger.warning
            log(f"feed {outcome.result}", **_details(outcome))
    publish(counts)


def _details(outcome: PollOutcome) -> dict[str, Any]:
    # A broken feed repeats one reason for each of its entries.
    details = {"site": outcome.site, "feed": outcome.url, "sent": outcome.sent, "skipped": outcome.skipped[:5]}
    return details | ({"reason": outcome.reason} if outcome.reason else {})
