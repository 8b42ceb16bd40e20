"""Dead letters: what lies there and why, sent back to where it came from.

StartMessageMoveTask would do the moving, but tells nothing of what it moves, and moves what would only fail again.
"""

import json
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal

from stoppress.aws import queues, sites
from stoppress.aws.clients import client
from stoppress.aws.queues import read_rewrite
from stoppress.record.message import Message, Unusable, read
from stoppress_cli.printing import counted
from stoppress_cli.stack import rebuild
from stoppress_cli.stack.find import queue_url

Name = Literal["articles", "rewrites", "failures"]
NAMES: tuple[Name, ...] = ("articles", "rewrites", "failures")

_URLS = {"articles": "ARTICLES_DEAD_LETTERS_URL", "rewrites": "REWRITES_DEAD_LETTERS_URL", "failures": "FAILURES_URL"}
# While they are looked at nobody else gets them; what is left is given back at the end.
_HIDDEN_S = 300
# A receive may find nothing although something is there (SQS asks some of its servers only).
_EMPTY_RECEIVES_MAX = 3


@dataclass(frozen=True)
class Dead:
    """A message: what it is, why it is here as far as it says, and what sending it back means.

    `goes` is `articles`, `rewrites`, `rebuild` (every file of every site), `nowhere` (what it asked for was done since), or
    empty: it stays, and `why` says what to do.
    """

    queue: Name
    id: str
    sent_at: datetime
    body: str
    receipt: str
    what: str
    why: str
    goes: Literal["articles", "rewrites", "rebuild", "nowhere", ""]


@contextmanager
def messages(queue: Name) -> Iterator[Iterator[dict[str, Any]]]:
    """All messages of a dead-letter queue, each once. Those that are not deleted are there again when the block ends."""
    url = queue_url(_URLS[queue])
    seen: dict[str, str] = {}

    def received() -> Iterator[dict[str, Any]]:
        empty = 0
        while empty < _EMPTY_RECEIVES_MAX:
            answer = client("sqs").receive_message(
                QueueUrl=url,
                MaxNumberOfMessages=10,
                VisibilityTimeout=_HIDDEN_S,
                MessageSystemAttributeNames=["All"],
                MessageAttributeNames=["All"],
            )
            new = [one for one in answer.get("Messages", []) if one["MessageId"] not in seen]
            empty = 0 if new else empty + 1
            for one in new:
                seen[one["MessageId"]] = one["ReceiptHandle"]
                yield one

    try:
        yield received()
    finally:
        for receipt in seen.values():
            try:
                client("sqs").change_message_visibility(QueueUrl=url, ReceiptHandle=receipt, VisibilityTimeout=0)
            except client("sqs").exceptions.ClientError:  # it was deleted
                continue


def delete(queue: Name, receipt: str) -> None:
    """Take a message out for good."""
    client("sqs").delete_message(QueueUrl=queue_url(_URLS[queue]), ReceiptHandle=receipt)


def redrive(queue: Name, now: datetime, *, dry_run: bool, show: Callable[[Dead], None]) -> list[Dead]:
    """Send back what can be; `show` gets each message first. A message goes only after what it asks for was sent."""
    found = []
    rebuilt = False
    with messages(queue) as received:
        for message in received:
            dead = _read(queue, message, now)
            found.append(dead)
            show(dead)
            if dry_run or not dead.goes:
                continue
            if dead.goes == "articles":
                queues.send_again(queue_url("ARTICLES_QUEUE_URL"), [dead.body])
            elif dead.goes == "rewrites":
                queues.send_again(queue_url("REWRITES_QUEUE_URL"), [dead.body])
            elif dead.goes == "rebuild" and not rebuilt:
                rebuild.send(rebuild.requests(None, None))
                rebuilt = True
            delete(queue, dead.receipt)
    return found


def _read(queue: Name, message: Mapping[str, Any], now: datetime) -> Dead:
    sent_at = datetime.fromtimestamp(int(message["Attributes"]["SentTimestamp"]) / 1000, UTC)
    judge = {"articles": _article, "rewrites": _rewrite, "failures": _failure}[queue]
    what, why, goes = judge(message, sent_at, now)
    return Dead(queue, message["MessageId"], sent_at, message["Body"], message["ReceiptHandle"], what, why, goes)


_Judged = tuple[str, str, Literal["articles", "rewrites", "rebuild", "nowhere", ""]]


def _article(message: Mapping[str, Any], sent_at: datetime, now: datetime) -> _Judged:
    try:
        found = read(Message(message["MessageId"], message["Body"], sent_at), now)
    except Unusable as error:
        return "an event", f"it cannot be understood, and will go to quarantine: {error}", "articles"
    except Exception as error:  # noqa: BLE001 - whatever hinders it now is what the operator asks for
        return "an event", f"it would fail again, mend this first: {error}", ""
    said = [
        f"{event.action} {event.name} of {event.site}" + (f", {event.url}" if event.url else "")
        for event, _ in found.events
    ]
    return (
        "; ".join(said) or "an event that changes nothing",
        "it could not be recorded, eight attempts long: the log of record_article has the reason",
        "articles",
    )


def _rewrite(message: Mapping[str, Any], sent_at: datetime, now: datetime) -> _Judged:
    try:
        work = read_rewrite(message["Body"])
    except ValueError as error:
        return "a file", f"{error}; nothing can be made of it", "nowhere"
    try:
        sites.load_kept(work.site)
    except Exception as error:  # noqa: BLE001 - as above
        return f"{work.site}/{work.file}", f"it would fail again, mend this first: {error}", ""
    return (
        f"{work.site}/{work.file}",
        "it could not be written, ten attempts long: the log of rewrite_sitemaps has the reason",
        "rewrites",
    )


def _failure(message: Mapping[str, Any], sent_at: datetime, now: datetime) -> _Judged:
    try:
        said = json.loads(message["Body"])
    except ValueError:
        said = {}
    said = said if isinstance(said, dict) else {}
    context = said.get("requestContext") or {}
    function = str(context.get("functionArn", "a function")).split(":function:")[-1].partition(":")[0]
    given = message.get("MessageAttributes") or {}
    error = ": ".join(str(given[name]["StringValue"]) for name in ("ERROR_CODE", "ERROR_MESSAGE") if name in given)
    kind = str(said.get("detail-type", ""))
    if "DDBStreamBatchInfo" in said:
        number = said["DDBStreamBatchInfo"].get("batchSize")
        changes = counted(number, "change") if isinstance(number, int) else "changes"
        why = f"{function} gave it up ({context.get('condition')}); it names no files, so that all are written again"
        return f"a batch of {changes} of the stream", why, "rebuild"
    if "requestPayload" in said:
        cause = (said.get("responsePayload") or {}).get("errorMessage") or context.get("condition")
        return f"a call of {function}", f"{cause}; its next turn does the same work", "nowhere"
    if kind.lower().startswith(("article.", "page.")):
        what = f"{kind} of {(said.get('detail') or {}).get('site')}, {(said.get('detail') or {}).get('id')}"
        return what, f"the bus could not deliver it: {error or 'it does not say why'}", "articles"
    if kind in ("Scheduled Event", "Parameter Store Change") or "SCHEDULE_ARN" in given:
        return (
            f"a {kind or 'schedule'} that reached no function",
            f"{error}; the next minute does the same work",
            "nowhere",
        )
    return "a message of an unknown kind", "read it in the console; nothing is done with it here", ""
