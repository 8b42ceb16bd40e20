"""AWS in dictionaries: what the product asks of DynamoDB, S3, SQS, SSM, Secrets Manager and EventBridge, and nothing else.

Each double has the methods of a boto3 client with its arguments, answers and errors. `test_doubles.py` holds them equal to
moto, and to DynamoDB Local where that can be had. What a double does not know it refuses loudly.
"""

import hashlib
import io
import json
import re
from bisect import bisect_left, insort
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cache
from typing import Any

from botocore.exceptions import ClientError

from stoppress_cli.meter import item_bytes
from stoppress_cli.template import ACCOUNT, REGION

Item = dict[str, Any]  # in DynamoDB's JSON: {"pk": {"S": "…"}, …}

# DynamoDB developer guide, "Service, account, and table quotas".
ITEM_BYTES_MAX = 409_600
PAGE_BYTES = 1_048_576
TRANSACTION_ITEMS_MAX = 100
BATCH_READ_MAX = 100
BATCH_WRITE_MAX = 25
# SSM API reference, GetParametersByPath.
PARAMETERS_A_PAGE = 10


class NotKnown(BaseException):
    """A double was asked for what it does not know. No Exception, so that no function takes it for a fault of AWS."""


_STATUS = {"NoSuchKey": 404, "PreconditionFailed": 412, "ConditionalRequestConflict": 409, "SlowDown": 503}


def error(operation: str, code: str, message: str = "as the double has it", **more: Any) -> ClientError:
    """What boto3 raises."""
    detail: Any = {"Code": code, "Message": message}
    answer: Any = {"Error": detail, "ResponseMetadata": {"HTTPStatusCode": _STATUS.get(code, 400)}, **more}
    return ClientError(answer, operation)


# ── DynamoDB's expressions ──

Condition = Callable[[Item, Item], bool]  # (the item as it is, {} where there is none; the expression's values)

_TOKEN = re.compile(r"\s*(\(|\)|,|<>|<=|>=|=|<|>|:\w+|#?\w+)")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


@cache
def condition(expression: str) -> Condition:
    """A condition of attributes and values, with OR, AND, brackets, comparisons and three functions. Raises NotKnown."""
    parser = _Parser(expression)
    parsed = parser.alternatives()
    parser.end()
    return parsed


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens, position = text, [], 0
        while text[position:].strip():
            found = _TOKEN.match(text, position)
            if found is None:
                raise NotKnown(f"the double cannot read {text[position:]!r} of the expression {text!r}")
            self._tokens.append(found[1])
            position = found.end()

    def end(self) -> None:
        if self._tokens:
            raise NotKnown(f"the double cannot read {self._tokens!r} at the end of the expression {self._text!r}")

    def alternatives(self) -> Condition:
        parts = [self._all_of()]
        while self._next_is("OR"):
            parts.append(self._all_of())
        return parts[0] if len(parts) == 1 else lambda item, values: any(part(item, values) for part in parts)

    def _all_of(self) -> Condition:
        parts = [self._one()]
        while self._next_is("AND"):
            parts.append(self._one())
        return parts[0] if len(parts) == 1 else lambda item, values: all(part(item, values) for part in parts)

    def _one(self) -> Condition:
        if self._next_is("("):
            inner = self.alternatives()
            self._take(")")
            return inner
        name = self._tokens.pop(0)
        if self._next_is("("):
            return self._function(name)
        operator, value = self._tokens.pop(0), self._tokens.pop(0)
        if operator not in {"<>", *_COMPARISONS}:
            raise NotKnown(f"the double does not know {operator} of the expression {self._text!r}")
        if operator == "<>":
            return lambda item, values: item.get(name) != values[value]
        compare = _COMPARISONS[operator]

        def holds(item: Item, values: Item) -> bool:
            left, right = item.get(name), values[value]
            return left is not None and left.keys() == right.keys() and compare(_comparable(left), _comparable(right))

        return holds

    def _function(self, function: str) -> Condition:
        name = self._tokens.pop(0)
        if function == "begins_with":
            self._take(",")
            value = self._tokens.pop(0)
            self._take(")")
            return lambda item, values: item.get(name, {}).get("S", "").startswith(values[value]["S"])
        self._take(")")
        if function not in ("attribute_exists", "attribute_not_exists"):
            raise NotKnown(f"the double does not know the function {function} of the expression {self._text!r}")
        return lambda item, values: (name in item) == (function == "attribute_exists")

    def _next_is(self, token: str) -> bool:
        if self._tokens and self._tokens[0].upper() == token:
            self._tokens.pop(0)
            return True
        return False

    def _take(self, token: str) -> None:
        if not self._next_is(token):
            raise NotKnown(f"the double misses {token!r} in the expression {self._text!r}")


def _comparable(value: Item) -> Any:
    [(kind, content)] = value.items()
    return float(content) if kind == "N" else content


# ── DynamoDB ──


@dataclass
class Partition:
    """The items of one partition key, and their sort keys in order."""

    items: dict[str, Item] = field(default_factory=dict)
    keys: list[str] = field(default_factory=list)


class Dynamo:
    """One table with the keys `pk` and `sk`, and its stream: every change of an item in the order they were made."""

    def __init__(self, table: str, stream_arn: str) -> None:
        self._table, self._stream_arn = table, stream_arn
        self.partitions: dict[str, Partition] = defaultdict(Partition)
        self.changes: list[Item] = []

    def all_items(self) -> Iterator[Item]:
        """Every item of the table."""
        for partition in self.partitions.values():
            yield from partition.items.values()

    # ── the client's methods ──

    def get_item(self, *, TableName: str, Key: Item, ConsistentRead: bool = False) -> Item:  # noqa: N803
        self._known("GetItem", TableName)
        found = self._find(Key)
        return {"Item": dict(found)} if found is not None else {}

    def batch_get_item(self, *, RequestItems: dict[str, Any]) -> Item:  # noqa: N803
        [(name, asked)] = RequestItems.items()
        self._known("BatchGetItem", name)
        keys = [_names(key) for key in asked["Keys"]]
        if len(keys) > BATCH_READ_MAX:
            raise error("BatchGetItem", "ValidationException", "Too many items requested for the BatchGetItem call")
        if len(set(keys)) < len(keys):
            raise error("BatchGetItem", "ValidationException", "Provided list of item keys contains duplicates")
        found = (self._find(key) for key in asked["Keys"])
        return {"Responses": {name: [dict(item) for item in found if item is not None]}, "UnprocessedKeys": {}}

    def query(
        self,
        *,
        TableName: str,  # noqa: N803
        KeyConditionExpression: str,  # noqa: N803
        ExpressionAttributeValues: Item,  # noqa: N803
        ConsistentRead: bool = False,  # noqa: N803
        ExclusiveStartKey: Item | None = None,  # noqa: N803
    ) -> Item:
        self._known("Query", TableName)
        first, _, more = KeyConditionExpression.partition(" AND ")
        asked = re.fullmatch(r"pk = (:\w+)", first)
        if asked is None:
            raise NotKnown(f"the double finds no partition in {KeyConditionExpression!r}")
        holds = condition(more) if more else None
        partition = self.partitions.get(ExpressionAttributeValues[asked[1]]["S"], Partition())
        start = ExclusiveStartKey["sk"]["S"] if ExclusiveStartKey else ""
        found: list[Item] = []
        size_bytes = 0
        for key in partition.keys[bisect_left(partition.keys, start) :]:
            item = partition.items[key]
            if key == start or (holds and not holds(item, ExpressionAttributeValues)):
                continue
            size_bytes += item_bytes(item)
            if found and size_bytes > PAGE_BYTES:
                last = found[-1]
                return {"Items": found, "LastEvaluatedKey": {"pk": last["pk"], "sk": last["sk"]}}
            found.append(dict(item))
        return {"Items": found}

    def put_item(
        self,
        *,
        TableName: str,  # noqa: N803
        Item: Item,  # noqa: N803
        ConditionExpression: str | None = None,  # noqa: N803
        ExpressionAttributeValues: dict[str, Any] | None = None,  # noqa: N803
    ) -> dict[str, Any]:
        self._known("PutItem", TableName)
        _check_item("PutItem", Item)
        if not _allowed(self._find(Item), ConditionExpression, ExpressionAttributeValues):
            raise error("PutItem", "ConditionalCheckFailedException", "The conditional request failed")
        self._write(Item, Item)
        return {}

    def delete_item(
        self,
        *,
        TableName: str,  # noqa: N803
        Key: Item,  # noqa: N803
        ConditionExpression: str | None = None,  # noqa: N803
        ExpressionAttributeValues: Item | None = None,  # noqa: N803
        ReturnValues: str = "NONE",  # noqa: N803
    ) -> Item:
        self._known("DeleteItem", TableName)
        old = self._find(Key)
        if not _allowed(old, ConditionExpression, ExpressionAttributeValues):
            raise error("DeleteItem", "ConditionalCheckFailedException", "The conditional request failed")
        self._write(Key, None)
        return {"Attributes": dict(old)} if old is not None and ReturnValues == "ALL_OLD" else {}

    def batch_write_item(self, *, RequestItems: dict[str, Any]) -> Item:  # noqa: N803
        [(name, asked)] = RequestItems.items()
        self._known("BatchWriteItem", name)
        items = [one["PutRequest"]["Item"] for one in asked]
        keys = [_names(item) for item in items]
        if not 0 < len(keys) <= BATCH_WRITE_MAX or len(set(keys)) < len(keys):
            raise error("BatchWriteItem", "ValidationException", "Too many items, or one of them twice")
        for item in items:
            _check_item("BatchWriteItem", item)
        for item in items:
            self._write(item, item)
        return {"UnprocessedItems": {}}

    def transact_write_items(self, *, TransactItems: Sequence[Item]) -> Item:  # noqa: N803
        parts = [next(iter(one.items())) for one in TransactItems]
        keys = [_names(part.get("Item") or part["Key"]) for _, part in parts]
        if not 0 < len(keys) <= TRANSACTION_ITEMS_MAX or len(set(keys)) < len(keys):
            message = "Transaction request cannot include multiple operations on one item"
            raise error("TransactWriteItems", "ValidationException", message)
        reasons = []
        for kind, part in parts:
            self._known("TransactWriteItems", part["TableName"])
            if kind not in ("Put", "Delete", "ConditionCheck"):
                raise NotKnown(f"the double does not know {kind} in a transaction")
            if kind == "Put":
                _check_item("TransactWriteItems", part["Item"])
            allowed = _allowed(
                self._find(part.get("Item") or part["Key"]),
                part.get("ConditionExpression"),
                part.get("ExpressionAttributeValues"),
            )
            reasons.append("None" if allowed else "ConditionalCheckFailed")
        if any(reason != "None" for reason in reasons):
            said = (
                f"Transaction cancelled, please refer cancellation reasons for specific reasons [{', '.join(reasons)}]"
            )
            codes = [{"Code": reason} for reason in reasons]
            raise error("TransactWriteItems", "TransactionCanceledException", said, CancellationReasons=codes)
        for kind, part in parts:
            if kind != "ConditionCheck":
                self._write(part.get("Item") or part["Key"], part["Item"] if kind == "Put" else None)
        return {}

    # ── inside ──

    def _known(self, operation: str, table: str) -> None:
        if table != self._table:
            raise error(operation, "ResourceNotFoundException", f"Requested resource not found: {table}")

    def _find(self, key: Item) -> Item | None:
        pk, sk = _names(key)
        partition = self.partitions.get(pk)
        return partition.items.get(sk) if partition else None

    def _write(self, key: Item, new: Item | None) -> None:
        pk, sk = _names(key)
        partition = self.partitions[pk]
        old = partition.items.get(sk)
        if old == new:
            return  # nothing changes, and the stream says nothing
        if new is None:
            del partition.items[sk]
            partition.keys.remove(sk)
        else:
            partition.items[sk] = dict(new)
            if old is None:
                insort(partition.keys, sk)
        self._tell(pk, sk, old, new)

    def _tell(self, pk: str, sk: str, old: Item | None, new: Item | None) -> None:
        number = len(self.changes) + 1
        change: Item = {
            "Keys": {"pk": {"S": pk}, "sk": {"S": sk}},
            "SequenceNumber": f"{number:021}",
            "SizeBytes": item_bytes(new or old),
            "StreamViewType": "NEW_AND_OLD_IMAGES",
            "ApproximateCreationDateTime": int(datetime.now(UTC).timestamp()),
        }
        images = {"NewImage": new, "OldImage": old}
        self.changes.append(
            {
                "eventID": f"{number:032x}",
                "eventName": "INSERT" if old is None else "REMOVE" if new is None else "MODIFY",
                "eventVersion": "1.1",
                "eventSource": "aws:dynamodb",
                "awsRegion": REGION,
                "eventSourceARN": self._stream_arn,
                "dynamodb": change | {name: image for name, image in images.items() if image is not None},
            }
        )


def _names(key: Item) -> tuple[str, str]:
    return key["pk"]["S"], key["sk"]["S"]


def _check_item(operation: str, item: Item) -> None:
    if not all(_names(item)):
        raise error(operation, "ValidationException", "a key attribute cannot contain an empty string value")
    if item_bytes(item) > ITEM_BYTES_MAX:
        raise error(operation, "ValidationException", "Item size has exceeded the maximum allowed size")


def _allowed(item: Item | None, expression: str | None, values: Item | None) -> bool:
    return expression is None or condition(expression)(item or {}, values or {})


# ── S3 ──


@dataclass(frozen=True)
class Stored:
    """An object: its bytes, its ETag and its headers."""

    body: bytes
    etag: str
    headers: Item
    changed: datetime


class S3:
    """One bucket."""

    def __init__(self, bucket: str) -> None:
        self._bucket = bucket
        self.objects: dict[str, Stored] = {}

    def get_object(self, *, Bucket: str, Key: str) -> Item:  # noqa: N803
        self._known("GetObject", Bucket)
        stored = self.objects.get(Key)
        if stored is None:
            raise error("GetObject", "NoSuchKey", "The specified key does not exist.")
        return {
            "Body": io.BytesIO(stored.body),
            "ETag": stored.etag,
            "LastModified": stored.changed,
            "ContentLength": len(stored.body),
            "Metadata": {},
            **stored.headers,
        }

    def put_object(
        self,
        *,
        Bucket: str,  # noqa: N803
        Key: str,  # noqa: N803
        Body: bytes,  # noqa: N803
        IfMatch: str | None = None,  # noqa: N803
        IfNoneMatch: str | None = None,  # noqa: N803
        **headers: Any,
    ) -> Item:
        self._known("PutObject", Bucket)
        if unknown := headers.keys() - {"ContentType", "CacheControl", "Metadata"}:
            raise NotKnown(f"the double does not know {sorted(unknown)} of PutObject")
        stored = self.objects.get(Key)
        if IfMatch and stored is None:
            raise error("PutObject", "NoSuchKey", "The specified key does not exist.")
        if (IfNoneMatch == "*" and stored) or (IfMatch and stored and stored.etag != IfMatch):
            raise error(
                "PutObject", "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"
            )
        etag = f'"{hashlib.md5(Body, usedforsecurity=False).hexdigest()}"'
        self.objects[Key] = Stored(Body, etag, headers, datetime.now(UTC).replace(microsecond=0))
        return {"ETag": etag}

    def list_objects_v2(self, *, Bucket: str, Prefix: str) -> Item:  # noqa: N803
        self._known("ListObjectsV2", Bucket)
        found = {key: self.objects[key] for key in sorted(self.objects) if key.startswith(Prefix)}
        contents = [{"Key": key, "ETag": one.etag, "LastModified": one.changed} for key, one in found.items()]
        return {"Contents": contents} if contents else {}

    def delete_object(self, *, Bucket: str, Key: str, IfMatch: str | None = None) -> Item:  # noqa: N803
        self._known("DeleteObject", Bucket)
        stored = self.objects.get(Key)
        if IfMatch and stored is None:
            raise error("DeleteObject", "NoSuchKey", "The specified key does not exist.")
        if IfMatch and stored and stored.etag != IfMatch:
            raise error(
                "DeleteObject", "PreconditionFailed", "At least one of the pre-conditions you specified did not hold"
            )
        self.objects.pop(Key, None)
        return {}

    def _known(self, operation: str, bucket: str) -> None:
        if bucket != self._bucket:
            raise error(operation, "NoSuchBucket", bucket)


# ── SQS ──


@dataclass
class Message:
    """A message of a queue; instants are in seconds since 1970."""

    id: str
    body: str
    sent_at: float
    visible_at: float
    received: int = 0
    first_received_at: float = 0.0

    @property
    def handle(self) -> str:
        """The receipt handle of the last time that it was received."""
        return f"{self.id}-{self.received}"


@dataclass
class Queue:
    """A queue, and where what was received too often goes."""

    arn: str
    visibility_s: int
    received_max: int | None = None
    dead: "Queue | None" = None
    messages: list[Message] = field(default_factory=list)


class Sqs:
    """Queues, as their senders see them (methods of the client) and as Lambda's poller does (the rest)."""

    def __init__(self, queues: dict[str, Queue]) -> None:
        self.queues = queues  # by URL
        self._by_arn = {queue.arn: queue for queue in queues.values()}
        self._sent = 0

    # ── the client's methods ──

    def send_message_batch(self, *, QueueUrl: str, Entries: list[Item]) -> Item:  # noqa: N803
        if not 0 < len(Entries) <= 10 or sum(len(entry["MessageBody"].encode()) for entry in Entries) > 1_048_576:
            raise error(
                "SendMessageBatch", "AWS.SimpleQueueService.BatchRequestTooLong", "at most 10 entries and 1 MiB"
            )
        sent = [
            self._put(self.queues[QueueUrl], entry["MessageBody"], entry.get("DelaySeconds", 0)).id for entry in Entries
        ]
        said = [{"Id": entry["Id"], "MessageId": id_} for entry, id_ in zip(Entries, sent, strict=True)]
        return {"Successful": said}

    def change_message_visibility(self, *, QueueUrl: str, ReceiptHandle: str, VisibilityTimeout: int) -> Item:  # noqa: N803
        id_ = ReceiptHandle.rpartition("-")[0]
        for message in self.queues[QueueUrl].messages:
            if message.id == id_:
                message.visible_at = _now_s() + VisibilityTimeout
                return {}
        raise error("ChangeMessageVisibility", "InvalidParameterValue", "the message is not available for that")

    # ── what Lambda's poller does ──

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
        for message in [one for one in source.messages if one.visible_at <= now]:
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
        gone = {message.id for message in messages}
        source.messages = [message for message in source.messages if message.id not in gone]

    def record(self, message: Message, arn: str) -> Item:
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


# ── SSM, Secrets Manager, EventBridge ──


class Ssm:
    """Parameters and their versions; `changed` hears of each that is put."""

    def __init__(self, changed: Callable[[str, int], None]) -> None:
        self._parameters: dict[str, Item] = {}
        self._changed = changed

    def put_parameter(self, *, Name: str, Value: str, **_: Any) -> Item:  # noqa: N803
        version = self._parameters.get(Name, {"Version": 0})["Version"] + 1
        self._parameters[Name] = {"Name": Name, "Value": Value, "Type": "String", "Version": version}
        self._changed(Name, version)
        return {"Version": version}

    def get_parameter(self, *, Name: str, WithDecryption: bool = False) -> Item:  # noqa: N803
        if Name not in self._parameters:
            raise error("GetParameter", "ParameterNotFound", f"Parameter {Name} not found.")
        return {"Parameter": dict(self._parameters[Name])}

    def get_parameters_by_path(self, *, Path: str, WithDecryption: bool = False, NextToken: str = "0") -> Item:  # noqa: N803
        below = sorted(
            name for name in self._parameters if name.startswith(f"{Path}/") and "/" not in name[len(Path) + 1 :]
        )
        start = int(NextToken)
        end = start + PARAMETERS_A_PAGE
        found = [dict(self._parameters[name]) for name in below[start:end]]
        return {"Parameters": found} | ({"NextToken": str(end)} if end < len(below) else {})


class SecretsManager:
    """Secrets by name."""

    def __init__(self) -> None:
        self.values: dict[str, str] = {}

    def get_secret_value(self, *, SecretId: str) -> Item:  # noqa: N803
        if SecretId not in self.values:
            raise error(
                "GetSecretValue", "ResourceNotFoundException", "Secrets Manager can't find the specified secret."
            )
        return {"Name": SecretId, "SecretString": self.values[SecretId]}


class Events:
    """A bus: `arrived` hears of every entry that is put on one."""

    def __init__(self, arrived: Callable[[str, Item], None]) -> None:
        self._arrived = arrived
        self._put = 0

    def put_events(self, *, Entries: list[Item]) -> Item:  # noqa: N803
        answers = []
        for entry in Entries:
            self._put += 1
            at = entry.get("Time", datetime.now(UTC))
            event = {
                "version": "0",
                "id": f"event-{self._put}",
                "detail-type": entry["DetailType"],
                "source": entry["Source"],
                "account": ACCOUNT,
                "time": at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
                "region": REGION,
                "resources": [],
                "detail": json.loads(entry["Detail"]),
            }
            self._arrived(str(entry["EventBusName"]).rsplit("/", 1)[-1], event)
            answers.append({"EventId": event["id"]})
        return {"FailedEntryCount": 0, "Entries": answers}
