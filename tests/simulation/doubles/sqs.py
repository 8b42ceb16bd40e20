"""In-memory double of SQS, for senders and for Lambda's poller."""

from dataclasses import dataclass, field
from datetime import UTC, datetime

from stoppress_cli.local.template import REGION, Json
from tests.simulation.doubles.errors import error


@dataclass
class Message:
    """A message; instants are in seconds since 1970."""

    id: str
    body: str
    sent_at: float
    visible_at: float
    received: int = 0
    first_received_at: float = 0.0

    @property
    def handle(self) -> str:
        """The receipt handle of the latest receive."""
        return f"{self.id}-{self.received}"


@dataclass
class Queue:
    """A queue; `dead` is its dead-letter queue."""

    arn: str
    visibility_s: int
    received_max: int | None = None
    dead: "Queue | None" = None
    messages: list[Message] = field(default_factory=list)

    @property
    def _messages(self) -> list[Message]:  # the attribute of moto's queues that the local stack counts
        return self.messages


class Sqs:
    """Queues with the client's methods for senders, and methods for Lambda's poller."""

    def __init__(self, queues: dict[str, Queue]) -> None:
        self.queues = queues  # by URL
        self._by_arn = {queue.arn: queue for queue in queues.values()}
        self._sent = 0

    # ── the client's methods ──

    def send_message_batch(self, *, QueueUrl: str, Entries: list[Json]) -> Json:  # noqa: N803
        if not 0 < len(Entries) <= 10 or sum(len(entry["MessageBody"].encode()) for entry in Entries) > 1_048_576:
            raise error(
                "SendMessageBatch", "AWS.SimpleQueueService.BatchRequestTooLong", "at most 10 entries and 1 MiB"
            )
        sent = [
            self._put(self.queues[QueueUrl], entry["MessageBody"], entry.get("DelaySeconds", 0)).id for entry in Entries
        ]
        rows = [{"Id": entry["Id"], "MessageId": id_} for entry, id_ in zip(Entries, sent, strict=True)]
        return {"Successful": rows}

    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> Json:  # noqa: N803
        id_ = ReceiptHandle.rpartition("-")[0]
        for message in self.queues[QueueUrl].messages:
            if message.id == id_:
                message.visible_at = _now_s() + VisibilityTimeout
                return {}
        raise error("ChangeMessageVisibility", "InvalidParameterValue", "the message is not available for that")

    def get_queue_attributes(self, *, QueueUrl: str, AttributeNames: list[str]) -> Json:  # noqa: N803
        source = self.queues[QueueUrl]
        visible = self.visible(source)
        counts = dict.fromkeys(AttributeNames, "0") | {
            "ApproximateNumberOfMessages": str(visible),
            "ApproximateNumberOfMessagesNotVisible": str(len(source.messages) - visible),
        }
        return {"Attributes": counts}

    # ── methods for Lambda's poller ──

    def queue(self, arn: str) -> Queue:
        return self._by_arn[arn]

    def send(self, arn: str, body: str) -> None:
        self._put(self._by_arn[arn], body, 0)

    def visible(self, source: Queue) -> int:
        now = _now_s()
        return sum(message.visible_at <= now for message in source.messages)

    def receive(self, source: Queue, count: int) -> list[Message]:
        now = _now_s()
        taken: list[Message] = []
        for message in [message for message in source.messages if message.visible_at <= now]:
            if source.dead is not None and message.received >= (source.received_max or 0):
                source.messages.remove(message)
                message.visible_at = 0.0
                source.dead.messages.append(message)
            elif len(taken) < count:
                message.received += 1
                message.first_received_at = message.first_received_at or now
                message.visible_at = now + source.visibility_s
                taken.append(message)
        return taken

    def delete(self, source: Queue, messages: list[Message]) -> None:
        deleted = {message.id for message in messages}
        source.messages = [message for message in source.messages if message.id not in deleted]

    def record(self, message: Message, arn: str) -> Json:
        return {
            "messageId": message.id,
            "receiptHandle": message.handle,
            "body": message.body,
            "attributes": {
                "ApproximateReceiveCount": str(message.received),
                "SentTimestamp": str(int(message.sent_at * 1000)),
                "SenderId": "AIDAEXAMPLE",
                "ApproximateFirstReceiveTimestamp": str(int(message.first_received_at * 1000)),
            },
            "messageAttributes": {},
            "md5OfBody": "",
            "eventSource": "aws:sqs",
            "eventSourceARN": arn,
            "awsRegion": REGION,
        }

    def _put(self, queue: Queue, body: str, delay_s: int) -> Message:
        self._sent += 1
        now = _now_s()
        message = Message(f"message-{self._sent}", body, now, now + delay_s)
        queue.messages.append(message)
        return message


def _now_s() -> float:
    return datetime.now(UTC).timestamp()
