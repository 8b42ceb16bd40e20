"""The queues and the event bus: article events, requests to rewrite files, announcements."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stoppress.aws.clients import client
from stoppress.primitives.instants import exact, parse

if TYPE_CHECKING:
    from stoppress.aws.refusals import Report
    from stoppress.model.event import ArticleEvent, Incomplete

# SQS: at most 10 messages and 1,048,576 bytes in a call, less some bytes for the envelope.
BATCH_MESSAGES_MAX = 10
BATCH_BYTES_MAX = 1_000_000
# The longest delay before a failed message is tried again.
RETRY_DELAY_MAX_SECONDS = 900


class SendError(RuntimeError):
    """A queue or the bus rejected part of a call; the sender must send that part again."""


@dataclass(frozen=True, slots=True)
class RewriteRequest:
    """A request to rewrite a file with the version `config_version` of the configuration or a later one.

    `release`: the instant of the due record that caused the request. rewrite_sitemaps treats this instant as reached, even if
    its clock is behind. `repair_forms`: compare the file's other forms (gzip, text, feed) even if the file is unchanged, and
    delete those that the configuration does not ask for.
    `entries`: sort key and URL of each changed entry, from the table's stream; None: use all entries. The message leaves
    `entries` out, because other entries may change while it waits in the queue.
    """

    site: str
    file: str
    config_version: int = 0
    release: datetime | None = None
    repair_forms: bool = False
    entries: frozenset[tuple[str, str]] | None = None

    def message(self) -> str:
        fields: dict[str, Any] = {"site": self.site, "file": self.file, "config_version": self.config_version}
        fields |= {"release": exact(self.release)} if self.release else {}
        # The key keeps its old name: messages of the previous version may wait in the queue during an upgrade.
        return json.dumps(fields | ({"thorough": True} if self.repair_forms else {}))


def read_rewrite(message: str) -> RewriteRequest:
    """Read a message of the rewrites queue. Raises ValueError."""
    try:
        fields = json.loads(message)
        release = parse(fields["release"]) if fields.get("release") else None
        version, repair_forms = int(fields.get("config_version", 0)), fields.get("thorough") is True
        return RewriteRequest(str(fields["site"]), str(fields["file"]), version, release, repair_forms)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(
            f'the message names no file: {error!r}; write {{"site": "<host>", "file": "<file>"}}'
        ) from None


def send_articles(events: "Sequence[ArticleEvent | Incomplete | Report]") -> None:
    """Send article events, incomplete deliveries for quarantine, and reports of refusals to the articles queue. Raises SendError."""
    from stoppress.model.event import ArticleEvent, to_message  # imported here: rewrite_sitemaps does not need it

    messages = [to_message(event) if isinstance(event, ArticleEvent) else event.message() for event in events]
    _send(os.environ["ARTICLES_QUEUE_URL"], messages, delay_seconds=0)


def send_imports(events: "Sequence[ArticleEvent]") -> None:
    """Send events of an archive to the imports queue. Raises SendError."""
    from stoppress.model.event import to_message

    _send(os.environ["IMPORTS_QUEUE_URL"], [to_message(event) for event in events], delay_seconds=0)


def send_rewrites(rewrites: Sequence[RewriteRequest], delay_seconds: int = 0) -> None:
    """Send requests to the rewrites queue. Raises SendError."""
    _send(os.environ["REWRITES_QUEUE_URL"], [rewrite.message() for rewrite in rewrites], delay_seconds)


def send_engines(messages: Iterable[tuple[str, int]]) -> None:
    """Send messages to the engines queue, each with its delay in seconds. Raises SendError."""
    by_delay: dict[int, list[str]] = {}
    for message, delay_seconds in messages:
        by_delay.setdefault(min(delay_seconds, RETRY_DELAY_MAX_SECONDS), []).append(message)
    for delay_seconds, same in by_delay.items():
        _send(os.environ["ENGINES_QUEUE_URL"], same, delay_seconds)


def send_again(queue_url: str, messages: Sequence[str]) -> None:
    """Send dead letters unchanged to the queue that they came from. Raises SendError."""
    _send(queue_url, messages, delay_seconds=0)


def messages_in(queue_url: str) -> int:
    """The number of a queue's messages: visible, being handled, and delayed. SQS counts approximately."""
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    answer = client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)
    return sum(int(answer["Attributes"][name]) for name in names)


def retry_later(queue_url: str, records: Iterable[Mapping[str, Any]]) -> list[Exception]:
    """Have failed messages come back after 10 s, 20 s, 40 s and so on. The queue's visibility timeout is several minutes.

    Returns the errors for the log. A message with an error comes back when its visibility timeout ends.
    """
    failures: list[Exception] = []
    for record in records:
        delay = retry_delay_seconds(receive_count(record))
        try:
            client("sqs").change_message_visibility(
                QueueUrl=queue_url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=delay
            )
        except Exception as error:  # noqa: BLE001 - the other messages must still be delayed
            failures.append(error)
    return failures


def receive_count(record: Mapping[str, Any]) -> int:
    """How often a queue delivered a message, this delivery included."""
    return int(record["attributes"]["ApproximateReceiveCount"])


def retry_delay_seconds(receives: int) -> int:
    """The delay before a message that was received `receives` times is tried again."""
    return min(RETRY_DELAY_MAX_SECONDS, 10 << min(receives - 1, 10))


def announce(detail_type: str, detail: dict[str, Any]) -> None:
    """Put an event on the bus. Raises SendError."""
    entry = {
        "EventBusName": os.environ["BUS_NAME"],
        "Source": "stoppress",
        "DetailType": detail_type,
        "Detail": json.dumps(detail),
    }
    answer = client("events").put_events(Entries=[entry])
    if answer["FailedEntryCount"]:
        raise SendError(f"the bus did not take {detail_type!r}: {answer['Entries'][0].get('ErrorMessage')}")


def _send(queue_url: str, messages: Sequence[str], delay_seconds: int) -> None:
    for batch in _batches(messages):
        entries = [
            {"Id": str(number), "MessageBody": body, "DelaySeconds": delay_seconds} for number, body in enumerate(batch)
        ]
        answer = client("sqs").send_message_batch(QueueUrl=queue_url, Entries=entries)
        if answer.get("Failed"):
            raise SendError(f"{len(answer['Failed'])} of {len(entries)} messages not taken: {answer['Failed'][0]}")


def _batches(messages: Sequence[str]) -> Iterator[list[str]]:
    batch: list[str] = []
    size_bytes = 0
    for message in messages:
        message_bytes = len(message.encode())
        if batch and (len(batch) == BATCH_MESSAGES_MAX or size_bytes + message_bytes > BATCH_BYTES_MAX):
            yield batch
            batch, size_bytes = [], 0
        batch.append(message)
        size_bytes += message_bytes
    if batch:
        yield batch
