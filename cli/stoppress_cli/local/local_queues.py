"""Queues and streams for event source mappings, directly on those of moto: the Lambda service's own calls are not counted."""

import json
import math

from moto.core.utils import unix_time_millis
from moto.dynamodb.models import dynamodb_backends
from moto.dynamodb.models.utilities import dynamo_json_dump
from moto.sqs.models import Message, Queue, sqs_backends

from stoppress_cli.local.template import ACCOUNT, REGION, Json
from stoppress_cli.local.wire import LOCK


def queue(arn: str) -> Queue:
    return sqs_backends[ACCOUNT][REGION].get_queue(arn.rsplit(":", 1)[1])


def send(arn: str, body: str) -> None:
    with LOCK:
        sqs_backends[ACCOUNT][REGION].send_message(arn.rsplit(":", 1)[1], body)


def visible(source: Queue) -> int:
    """Return the number of messages that a consumer could receive at this instant."""
    now = unix_time_millis()
    with LOCK:
        return sum(1 for message in source._messages if _due(message, now))


def receive(source: Queue, count: int) -> list[Message]:
    """Receive up to `count` messages; they are invisible for the queue's visibility time-out.

    A message that was received as often as the redrive policy allows goes to the dead-letter queue instead.
    """
    now = unix_time_millis()
    limit = (source.redrive_policy or {}).get("maxReceiveCount", math.inf)
    with LOCK:
        due = [message for message in source._messages if _due(message, now)]
        dead = [message for message in due if message.approximate_receive_count >= limit]
        received = [message for message in due if message.approximate_receive_count < limit][:count]
        for message in received:
            message.mark_received(source.visibility_timeout)  # type: ignore[attr-defined]
        if source.dead_letter_queue is not None:
            delete(source, dead)
            for message in dead:
                message.visible_at = 0.0
                source.dead_letter_queue._messages.append(message)
        return received


def delete(source: Queue, messages: list[Message]) -> None:
    deleted = {id(message) for message in messages}
    with LOCK:
        source._messages = [message for message in source._messages if id(message) not in deleted]


def record(message: Message, arn: str) -> Json:
    """Return the record that Lambda passes to the function."""
    return {
        "messageId": message.id,
        "receiptHandle": message.receipt_handle,
        "body": message.body,
        "attributes": {
            "ApproximateReceiveCount": str(message.approximate_receive_count),
            "SentTimestamp": str(message.sent_timestamp),
            "SenderId": message.sender_id,
            "ApproximateFirstReceiveTimestamp": str(message.approximate_first_receive_timestamp),
        },
        "messageAttributes": {},
        "md5OfBody": message.body_md5,
        "eventSource": "aws:sqs",
        "eventSourceARN": arn,
        "awsRegion": REGION,
    }


def _due(message: Message, now_millis: float) -> bool:
    # moto compares with <, which would never hold while the clock stands still.
    return message.visible_at <= now_millis and message.delayed_until <= now_millis


def read_stream(arn: str) -> list[Json]:
    """Return the records of a table's stream since the last call, as Lambda passes them to a function.

    They are removed, because moto would keep them forever.
    """
    shard = dynamodb_backends[ACCOUNT][REGION].get_table(arn.split("/")[1]).stream_shard
    assert shard is not None
    with LOCK:
        new, shard.items = shard.items, []
        shard.starting_sequence_number += len(new)
    records = (item.record | {"awsRegion": REGION, "eventSourceARN": arn} for item in new)
    return [json.loads(dynamo_json_dump(record)) for record in records]
