"""The door to the queues and the bus: article events, files to be rewritten, announcements."""

import json
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any

from stoppress.aws.clients import client
from stoppress.primitives.instants import exact, parse

if TYPE_CHECKING:
    from stoppress.model.event import ArticleEvent, Incomplete

# SQS: at most 10 messages and 1,048,576 bytes in a call; some bytes are left for what frames them.
BATCH_MESSAGES_MAX = 10
BATCH_BYTES_MAX = 1_000_000
# However often a file has failed, it is tried again after this time at the latest.
RETRY_DELAY_MAX_SECONDS = 900


class SendError(RuntimeError):
    """A queue or the bus has not taken everything; what was not taken must be sent again."""


@dataclass(frozen=True, slots=True)
class RewriteRequest:
    """A file to be written again by name, by the configuration of this version or a later one.

    `release` is set where a due record asked for it: its hour, before which nobody acts on it, whatever his own clock says.
    `repair_forms`: a repair, or a configuration that has settled, this version of it: the file's other forms are looked at even where
    the file itself is as it should be, and those that are not wanted any more go.
    `entries` are sort key and URL of those that changed, where the table's stream has said so; None: make it from all. They
    do not travel: who is told by a queue cannot know what else has changed.
    """

    site: str
    file: str
    config_version: int = 0
    release: datetime | None = None
    repair_forms: bool = False
    entries: frozenset[tuple[str, str]] | None = None

    def message(self) -> str:
        """As it travels on the rewrites queue."""
        said: dict[str, Any] = {"site": self.site, "file": self.file, "config_version": self.config_version}
        said |= {"release": exact(self.release)} if self.release else {}
        return json.dumps(said | ({"thorough": True} if self.repair_forms else {}))


def read_rewrite(message: str) -> RewriteRequest:
    """Read a message of the rewrites queue. Raises ValueError."""
    try:
        said = json.loads(message)
        release = parse(said["release"]) if said.get("release") else None
        version, repair_forms = int(said.get("config_version", 0)), said.get("thorough") is True
        return RewriteRequest(str(said["site"]), str(said["file"]), version, release, repair_forms)
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise ValueError(
            f'the message names no file: {error!r}; write {{"site": "<host>", "file": "<file>"}}'
        ) from None


def send_articles(events: "Sequence[ArticleEvent | Incomplete]") -> None:
    """Article events, and what quarantine is to keep, to the articles queue. Raises SendError where one was not taken."""
    from stoppress.model.event import Incomplete, to_message  # whoever sends articles has it

    messages = [event.message() if isinstance(event, Incomplete) else to_message(event) for event in events]
    _send(os.environ["ARTICLES_QUEUE_URL"], messages, delay_seconds=0)


def send_rewrites(rewrites: Sequence[RewriteRequest], delay_seconds: int = 0) -> None:
    """Files to the rewrites queue. Raises SendError where one was not taken."""
    _send(os.environ["REWRITES_QUEUE_URL"], [rewrite.message() for rewrite in rewrites], delay_seconds)


def send_again(queue_url: str, messages: Sequence[str]) -> None:
    """Messages as they were, to the queue that they were on. Raises SendError where one was not taken."""
    _send(queue_url, messages, delay_seconds=0)


def retry_later(queue_url: str, records: Iterable[Mapping[str, Any]]) -> list[Exception]:
    """Have messages that failed come back after a time that doubles with each attempt, not when their visibility ends.

    Where that fails they come all the same, later: the errors are for the log.
    """
    failures: list[Exception] = []
    for record in records:
        receive_count = int(record["attributes"]["ApproximateReceiveCount"])
        delay_seconds = min(RETRY_DELAY_MAX_SECONDS, 10 * 2 ** min(receive_count - 1, 10))
        try:
            client("sqs").change_message_visibility(
                QueueUrl=queue_url, ReceiptHandle=record["receiptHandle"], VisibilityTimeout=delay_seconds
            )
        except Exception as error:  # noqa: BLE001 - one that is not delayed must not keep the others from it
            failures.append(error)
    return failures


def announce(detail_type: str, detail: dict[str, Any]) -> None:
    """Something that happened, to the bus. Raises SendError where it was not taken."""
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
