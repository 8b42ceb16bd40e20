"""`stoppress redrive`: reads dead letters with their reasons, and sends them back to their queue.

SQS's own redrive (StartMessageMoveTask) shows nothing, and also moves messages that must fail again.
"""

import json
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Annotated, Any, Literal

import typer

from stoppress.aws import queues
from stoppress.aws.clients import client
from stoppress.poll import shares
from stoppress.record.message import Message, Unusable, read
from stoppress.rewrite.publish import REWRITTEN
from stoppress_cli.options import WRITES, Commands, DryRun, Yes
from stoppress_cli.output import end, show

Name = Literal["articles", "failures"]
NAMES: tuple[Name, ...] = ("articles", "failures")

_URLS = {"articles": "ARTICLES_DEAD_LETTERS_URL", "failures": "FAILURES_URL"}
# Visibility time-out while the messages are read; those that stay become visible again at the end.
_HIDDEN_S = 300
# A short poll may return nothing although there are messages, because SQS queries only some of its servers.
_EMPTY_RECEIVES_MAX = 3
_ACTIONS = {"articles": "back to the articles queue", "nowhere": "deleted, there is nothing to send", "": "it stays"}

app = Commands()


@app.command(effect=WRITES, example="stoppress redrive articles --dry-run --stack stoppress", is_over_sites=True)
def redrive(
    queue: Annotated[Name | None, typer.Argument(help="Only this queue: articles or failures; default: both.")] = None,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Show the dead letters with their reasons, and send back the events that would not fail again.

    Messages about failed runs are deleted, because a later run does the same work.

    Exit code 1: some dead letters stay; with --dry-run: there are dead letters.
    """
    letters = []
    for letter in chain.from_iterable(send_back(name, dry_run=dry_run) for name in ([queue] if queue else NAMES)):
        letters.append(letter)
        show(f"{letter.queue}  {letter.sent_at:%Y-%m-%d %H:%M:%S}  {letter.what}")
        show(f"  {letter.why}")
        show(f"  {'would be: ' if dry_run else ''}{_ACTIONS[letter.goes]}")
    stay = sum(dry_run or not letter.goes for letter in letters)
    end(letters, [f"{len(letters) - stay} dealt with, {stay} {'there' if dry_run else 'stay'}"], is_ok=not stay)


@dataclass(frozen=True)
class DeadLetter:
    """A dead letter: what it is, why it failed, and where it goes.

    `goes` is the queue `articles`, or `nowhere` if later runs have done the work. Empty: the letter stays, and `why` is what
    to do.
    """

    queue: Name
    id: str
    sent_at: datetime
    body: str
    what: str
    why: str
    goes: Literal["articles", "nowhere", ""]


def messages(queue: Name) -> Iterator[dict[str, Any]]:
    """Yield every message of a dead-letter queue, once. Those that are not deleted become visible again at the end."""
    url = os.environ[_URLS[queue]]
    receipts: dict[str, str] = {}
    empty = 0
    try:
        while empty < _EMPTY_RECEIVES_MAX:
            answer = client("sqs").receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=10,
                VisibilityTimeout=_HIDDEN_S,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            new = [message for message in answer.get("Messages", []) if message["MessageId"] not in receipts]
            empty = 0 if new else empty + 1
            for message in new:
                receipts[message["MessageId"]] = message["ReceiptHandle"]
                yield message
    finally:
        for receipt in receipts.values():
            with suppress(client("sqs").exceptions.ClientError):  # deleted meanwhile
                client("sqs").change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)


def delete(queue: Name, receipt: str) -> None:
    client("sqs").delete_message(QueueUrl=os.environ[_URLS[queue]], ReceiptHandle=receipt)


def count_letters(queue: Name, matches: Callable[[str], bool], *, erase: bool = False) -> int:
    """Return the number of dead letters whose body matches; `erase` deletes them."""
    matching = [message for message in messages(queue) if matches(message["Body"])]
    for message in matching if erase else ():
        delete(queue, message["ReceiptHandle"])
    return len(matching)


def send_back(queue: Name, *, dry_run: bool) -> Iterator[DeadLetter]:
    """Yield each dead letter, then send it back if it can be sent.

    A letter is deleted only after its work was sent: a crash repeats work and loses none.
    """
    for message in messages(queue):
        sent_at = datetime.fromtimestamp(int(message["Attributes"]["SentTimestamp"]) / 1000, UTC)
        what, why, goes = _article(message, sent_at) if queue == "articles" else _failure(message)
        yield DeadLetter(queue, message["MessageId"], sent_at, message["Body"], what, why, goes)
        if goes == "articles" and not dry_run:
            queues.send(os.environ["ARTICLES_QUEUE_URL"], [message["Body"]])
        if goes and not dry_run:
            delete(queue, message["ReceiptHandle"])


_Description = tuple[str, str, Literal["articles", "nowhere", ""]]


def _article(message: Mapping[str, Any], sent_at: datetime) -> _Description:
    try:
        content = read(Message(message["MessageId"], message["Body"], sent_at))
    except Unusable as error:
        return "an event", f"it cannot be understood, and will go to quarantine: {error}", "articles"
    except Exception as error:  # noqa: BLE001 - any error is the answer to show
        return "an event", f"it would fail again, correct this first: {error}", ""
    if content.report and not content.site:
        return f"a report of refusals at {content.report.site}", "ten attempts to store it failed", "articles"
    events = [event for event, _ in content.events]
    texts = [", ".join(filter(None, (f"{event.action} {event.name} of {event.site}", event.url))) for event in events]
    what = "; ".join(texts) or "an event that changes nothing"
    return what, "ten attempts to record it failed: the log of record_article has the reason", "articles"


def _failure(message: Mapping[str, Any]) -> _Description:
    try:
        document = json.loads(message["Body"])
    except ValueError:
        document = None
    body = document if isinstance(document, dict) else {}
    context = body.get("requestContext") or {}
    function = str(context.get("functionArn", "a function")).split(":function:")[-1].partition(":")[0]
    attributes = message.get("MessageAttributes") or {}
    error = ": ".join(
        str(attributes[name]["StringValue"]) for name in ("ERROR_CODE", "ERROR_MESSAGE") if name in attributes
    )
    kind = str(body.get("detail-type", ""))
    if "requestPayload" in body:
        cause = (body.get("responsePayload") or {}).get("errorMessage") or context.get("condition")
        return f"a call of {function}", f"{cause}; the next run does the same work", "nowhere"
    if kind.lower().startswith(("article.", "page.")):
        detail = body.get("detail") or {}
        what = f"{kind} of {detail.get('site')}, {detail.get('id')}"
        return what, f"the bus could not deliver it: {error or 'no reason is known'}", "articles"
    if kind in {"Scheduled Event", "part to reconcile", REWRITTEN, shares.ANNOUNCED} or "SCHEDULE_ARN" in attributes:
        what = f"a {kind or 'schedule'} that reached no function"
        return what, f"{error}; the next run does the same work", "nowhere"
    return "a message of an unknown kind", "read it in the console; nothing is done with it here", ""
