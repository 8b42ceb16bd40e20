"""Takes article events from the articles queue and the imports queue, and records each in the table in one transaction.

A message that fails is reported to SQS, which delivers it again. A message that can never be recorded goes to
quarantine.
"""

import os
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress.aws.clients import in_time
from stoppress.aws.metrics import publish
from stoppress.aws.queues import receive_count, retry_later
from stoppress.primitives.deadline import Deadline
from stoppress.record import article
from stoppress.record.article import REPORT_KEPT, MessageOutcome
from stoppress.record.message import Message

# Seconds from the deadline until Lambda ends the function: to free unused places, write stories, and delay the retry of messages.
RESERVE_SECONDS = 10.0

logger = Logger()


@logger.inject_lambda_context
@in_time
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> dict[str, list[dict[str, str]]]:
    """Record a batch of the articles queue or the imports queue. The answer names the messages that must come again."""
    # Messages that were delivered most often go first. Otherwise one could be postponed until it becomes a dead letter.
    records: list[dict[str, Any]] = sorted(event["Records"], key=receive_count, reverse=True)
    messages = [_message(record) for record in records]
    deadline = Deadline(context.get_remaining_time_in_millis, RESERVE_SECONDS)
    outcomes = article.record(messages, datetime.now(UTC), deadline)
    _count(messages, outcomes)
    for record in records:
        _log(record["messageId"], outcomes[record["messageId"]])
    again = [record for record in records if outcomes[record["messageId"]].error]
    for error in retry_later(_queue_url(records[0]), again):
        logger.warning("not delayed", reason=repr(error))
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in again]}


def _queue_url(record: Mapping[str, Any]) -> str:
    """The URL of the queue that a message came from. The URLs of both queues differ only in the queue's name."""
    return f"{os.environ['ARTICLES_QUEUE_URL'].rpartition('/')[0]}/{record['eventSourceARN'].rpartition(':')[2]}"


def _count(messages: Sequence[Message], outcomes: Mapping[str, MessageOutcome]) -> None:
    events = [outcome.outcome for outcome in outcomes.values() if outcome.outcome != REPORT_KEPT]
    counts = Counter(f"Events{outcome.capitalize()}" for outcome in events)
    now = datetime.now(UTC)
    published = [message for message in messages if outcomes[message.id].is_new]
    publish(
        {
            **counts,
            "EventsReceived": len(events),
            "RecordingSeconds": [max(0.0, (now - message.sent_at).total_seconds()) for message in published],
            "WorkFailed": counts["EventsFailed"],
            "NeedsAttention": counts["EventsQuarantined"],
        }
    )


def _message(record: dict[str, Any]) -> Message:
    sent_at = datetime.fromtimestamp(int(record["attributes"]["SentTimestamp"]) / 1000, UTC)
    return Message(record["messageId"], record["body"], sent_at)


def _log(message_id: str, outcome: MessageOutcome) -> None:
    """Log the outcome of a message: whether the article is listed, and if not, why.

    Refusals are left out, because receive_webhook has logged them.
    """
    if outcome.outcome == REPORT_KEPT:
        return
    names: dict[str, Any] = outcome.about
    level = logger.warning if outcome.outcome in ("quarantined", "failed") else logger.info
    level("article", message_id=message_id, outcome=outcome.outcome, reason=outcome.reason, **names)
