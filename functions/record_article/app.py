"""Receive article events from the articles queue and the imports queue, and record each in the table in one transaction.

A message that fails is reported to SQS, which delivers it again. A message that can never be recorded goes to quarantine.
"""

import os
from collections import Counter
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger

from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.aws.queues import most_delivered_first, report_failed
from stoppress.primitives.instants import Deadline
from stoppress.record import article
from stoppress.record.article import REPORT_KEPT, MessageOutcome
from stoppress.record.message import Message

logger = Logger()


@logger.inject_lambda_context
@in_time(reserve_seconds=10)  # to free unused places, write stories, and delay the retry of messages
def lambda_handler(event: dict[str, Any], now: datetime, deadline: Deadline) -> dict[str, list[dict[str, str]]]:
    """Record a batch of the articles queue or the imports queue. Return the messages that must be delivered again."""
    records = most_delivered_first(event["Records"])
    sent_at = {
        record["messageId"]: datetime.fromtimestamp(int(record["attributes"]["SentTimestamp"]) / 1000, UTC)
        for record in records
    }
    messages = [Message(record["messageId"], record["body"], sent_at[record["messageId"]]) for record in records]
    outcomes = article.record(messages, now, deadline)
    _publish(outcomes, sent_at)
    for message_id, outcome in outcomes.items():
        if outcome.outcome != REPORT_KEPT:  # receive_webhook has logged the refusals
            log = logger.warning if outcome.outcome in ("quarantined", "failed") else logger.info
            log("article", message_id=message_id, outcome=outcome.outcome, reason=outcome.reason, **outcome.about)
    # The URLs of both queues differ only in the queue's name.
    queue = records[0]["eventSourceARN"].rpartition(":")[2]
    to_repeat = [record for record in records if outcomes[record["messageId"]].error]
    return report_failed(f"{os.environ['ARTICLES_QUEUE_URL'].rpartition('/')[0]}/{queue}", to_repeat, logger.warning)


def _publish(outcomes: Mapping[str, MessageOutcome], sent_at: Mapping[str, datetime]) -> None:
    events = [outcome.outcome for outcome in outcomes.values() if outcome.outcome != REPORT_KEPT]
    counts = Counter(f"Events{outcome.capitalize()}" for outcome in events)
    end = datetime.now(UTC)
    waited = [end - sent_at[message_id] for message_id, outcome in outcomes.items() if outcome.is_new]
    publish(
        {
            **counts,
            "EventsReceived": len(events),
            "RecordingSeconds": [max(0.0, time.total_seconds()) for time in waited],
            "WorkFailed": counts["EventsFailed"],
            "NeedsAttention": counts["EventsQuarantined"],
        }
    )
