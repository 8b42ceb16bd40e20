"""The queues and the event bus: article events, requests to rewrite files, announcements."""

import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

from pydantic import AwareDatetime, ConfigDict, TypeAdapter

from stoppress.aws.clients import client

if TYPE_CHECKING:
    from stoppress.aws.refusals import Report
    from stoppress.model.event import ArticleEvent, Incomplete

Record: TypeAlias = Mapping[str, Any]

# SQS: at most 10 messages and 1,048,576 bytes in a call, less some bytes for the envelope.
BATCH_MESSAGES_MAX = 10
BATCH_BYTES_MAX = 1_000_000
# SQS: the longest delay of a message that is sent.
DELAY_MAX_SECONDS = 900
# The longest delay before a failed message is tried again. So a file is right within ten minutes of a repair, and the alarm about
# failing work stays in ALARM while a message is tried again.
RETRY_DELAY_MAX_SECONDS = 300


class SendError(RuntimeError):
    """A queue or the bus rejected part of a call; the sender must send that part again."""


@dataclass(frozen=True, slots=True)
class RewriteRequest:
    """A request to rewrite a file; without a file, all files of the site.

    `release`: the instant of the due record that caused the request. rewrite_sitemaps treats this instant as reached, even if
    its clock is behind. `checks_all`: use the configuration in force now, and compare the file's other forms (gzip, text, feed)
    even if the file is unchanged. Forms that the configuration does not ask for are deleted.
    `entries`: sort key and URL of each changed entry, from the table's stream; None: use all entries. The message leaves
    `entries` out, because other entries may change while it waits in the queue.
    `due`: the record to delete when all files are requested (`aws.due`). They are requested in falling order of their names, and
    those from `below` on are requested already.
    """

    __pydantic_config__ = ConfigDict(defer_build=True)

    site: str
    file: str = ""
    release: AwareDatetime | None = None
    checks_all: bool = False
    entries: frozenset[tuple[str, str]] | None = None
    due: str = ""
    below: str = ""

    def __post_init__(self) -> None:
        if not (self.file or self.due):
            raise ValueError('the request has no file: write {"site": "<host>", "file": "<file>"}')

    @property
    def path(self) -> tuple[str, str]:
        return self.site, self.file

    def message(self) -> str:
        return _REQUESTS.dump_json(self, exclude_defaults=True, exclude={"entries"}).decode()


_REQUESTS = TypeAdapter(RewriteRequest)


def read_request(message: str) -> RewriteRequest:
    """Read a message of the rewrites queue. Raises ValueError."""
    return _REQUESTS.validate_json(message)


def send_articles(events: "Sequence[ArticleEvent | Incomplete | Report]") -> None:
    """Send article events, incomplete deliveries for quarantine, and reports of refusals to the articles queue. Raises SendError."""
    from stoppress.model.event import ArticleEvent, to_message  # imported here: rewrite_sitemaps does not need it

    messages = [to_message(event) if isinstance(event, ArticleEvent) else event.message() for event in events]
    send(os.environ["ARTICLES_QUEUE_URL"], messages)


def send_imports(events: "Sequence[ArticleEvent]") -> None:
    """Send events of an archive to the imports queue. Raises SendError."""
    from stoppress.model.event import to_message

    send(os.environ["IMPORTS_QUEUE_URL"], [to_message(event) for event in events])


def send_rewrites(rewrites: Sequence[RewriteRequest], delay_seconds: int = 0) -> None:
    """Send requests to the rewrites queue. Raises SendError."""
    send(os.environ["REWRITES_QUEUE_URL"], [rewrite.message() for rewrite in rewrites], delay_seconds)


def send_engines(messages: Iterable[tuple[str, int]]) -> None:
    """Send messages to the engines queue, each with its delay in seconds. Raises SendError."""
    by_delay: dict[int, list[str]] = {}
    for message, delay_seconds in messages:
        by_delay.setdefault(min(delay_seconds, DELAY_MAX_SECONDS), []).append(message)
    for delay_seconds, bodies in by_delay.items():
        send(os.environ["ENGINES_QUEUE_URL"], bodies, delay_seconds)


def messages_in(queue_url: str) -> int:
    """Return the number of a queue's messages: visible, being handled, and delayed. SQS counts approximately."""
    names = [f"ApproximateNumberOfMessages{state}" for state in ("", "NotVisible", "Delayed")]
    answer = client("sqs").get_queue_attributes(QueueUrl=queue_url, AttributeNames=names)
    return sum(int(answer["Attributes"][name]) for name in names)


def report_failed(
    queue_url: str, records: Sequence[Record], warn: Callable[..., None]
) -> dict[str, list[dict[str, str]]]:
    """Return a handler's answer for failed messages, and have them delivered again after 10 s, 20 s, 40 s and so on.

    The queue's visibility timeout is several minutes. A message whose delay cannot be set is delivered again after it; `warn` logs that.
    """
    for record in records:
        delay = retry_delay_seconds(_receive_count(record))
        try:
            client("sqs").change_message_visibility(
                QueueUrl=queue_url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=delay
            )
        except Exception as error:  # noqa: BLE001 - the other messages must still be delayed
            warn("not delayed", reason=repr(error))
    return {"batchItemFailures": [{"itemIdentifier": record["messageId"]} for record in records]}


def most_delivered_first(records: Iterable[Record]) -> list[Record]:
    """Sort messages in this order, because a message that is postponed each time would become a dead letter."""
    return sorted(records, key=_receive_count, reverse=True)


def _receive_count(record: Record) -> int:
    """Return how often a queue delivered a message, this delivery included."""
    return int(record["attributes"]["ApproximateReceiveCount"])


def retry_delay_seconds(receives: int) -> int:
    """Return the delay before a message that was received `receives` times is tried again."""
    return min(RETRY_DELAY_MAX_SECONDS, 10 << min(receives - 1, 10))


def announce(detail_type: str, *details: Mapping[str, Any]) -> None:
    """Put at most ten events on the bus. Raises SendError."""
    shared = {"EventBusName": os.environ["BUS_NAME"], "Source": "stoppress", "DetailType": detail_type}
    entries = [shared | {"Detail": json.dumps(detail)} for detail in details]
    answer = client("events").put_events(Entries=entries)
    if answer["FailedEntryCount"]:
        raise SendError(f"the bus did not take {detail_type!r}: {answer['Entries']}")


def send(queue_url: str, messages: Sequence[str], delay_seconds: int = 0) -> None:
    """Send messages to a queue. Raises SendError."""
    for batch in _batches(messages):
        entries = [
            {"Id": str(number), "MessageBody": body, "DelaySeconds": delay_seconds} | _group(body)
            for number, body in enumerate(batch)
        ]
        answer = client("sqs").send_message_batch(QueueUrl=queue_url, Entries=entries)
        if answer.get("Failed"):
            raise SendError(f"{len(answer['Failed'])} of {len(entries)} messages not taken: {answer['Failed'][0]}")


def _group(body: str) -> dict[str, str]:
    """Return the site of a message as its group: SQS then delivers the messages of other sites before a large backlog of one site."""
    with suppress(ValueError, TypeError, KeyError, RecursionError):
        fields = json.loads(body)
        site = str(fields["detail"]["site"] if "detail" in fields else fields["site"])
        # SQS developer guide, "Using the message group ID": at most 128 letters, digits and marks.
        return {"MessageGroupId": site[:128]} if re.fullmatch("[!-~]+", site) else {}
    return {}


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
