"""Article events in -> one transaction each in the table out.

What cannot be recorded now is reported and comes again; what can never be is in quarantine, with its reason.
"""

from collections import Counter
from datetime import UTC, datetime
from typing import Any

from aws_lambda_powertools import Logger, Metrics
from aws_lambda_powertools.metrics import MetricUnit
from aws_lambda_powertools.utilities.batch import BatchProcessor, EventType, process_partial_response
from aws_lambda_powertools.utilities.batch.types import PartialItemFailureResponse
from aws_lambda_powertools.utilities.data_classes.sqs_event import SQSRecord
from aws_lambda_powertools.utilities.typing import LambdaContext

from stoppress import recording
from stoppress.recording import Message, Outcome

logger = Logger()
metrics = Metrics()
processor = BatchProcessor(event_type=EventType.SQS, raise_on_entire_batch_failure=False)


@logger.inject_lambda_context
@metrics.log_metrics
def lambda_handler(event: dict[str, Any], context: LambdaContext) -> PartialItemFailureResponse:
    """A batch of the articles queue; the answer names the messages that must come again."""
    records = [SQSRecord(record) for record in event["Records"]]
    metrics.add_metric("EventsReceived", MetricUnit.Count, len(records))
    outcomes = recording.record([_message(record) for record in records], datetime.now(UTC))
    for name, count in Counter(outcome.outcome for outcome in outcomes.values()).items():
        metrics.add_metric(f"Events{name.capitalize()}", MetricUnit.Count, count)

    def tell(record: SQSRecord) -> None:
        _tell(record.message_id, outcomes[record.message_id])

    return process_partial_response(event, tell, processor, context)


def _message(record: SQSRecord) -> Message:
    sent_at = datetime.fromtimestamp(int(record.attributes.sent_timestamp) / 1000, UTC)
    return Message(record.message_id, record.body, sent_at)


def _tell(message_id: str, outcome: Outcome) -> None:
    """Log what became of a message, so that "is my story in, and if not, why not?" has its answer; raise what failed."""
    said: dict[str, Any] = outcome.about
    level = logger.warning if outcome.outcome in ("quarantined", "failed") else logger.info
    level("article", message_id=message_id, outcome=outcome.outcome, reason=outcome.reason, **said)
    if outcome.error:
        raise outcome.error
