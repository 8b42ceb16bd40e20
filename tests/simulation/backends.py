"""What stands behind the doors: the doubles for the wide run, moto for the narrow one."""

import json
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from functools import cache
from typing import TYPE_CHECKING, Any

import boto3
from botocore.config import Config
from moto import mock_aws
from moto.s3.models import s3_backends

from stoppress_cli.local import bus, moto_fixes, queues, resources
from stoppress_cli.local.queues import MotoReader
from stoppress_cli.local.template import ACCOUNT, REGION, Json
from tests.simulation.doubles.configuration import SecretsManager
from tests.simulation.doubles.dynamodb import Dynamo
from tests.simulation.doubles.events import Events
from tests.simulation.doubles.s3 import S3
from tests.simulation.doubles.sqs import Message, Queue, Sqs

if TYPE_CHECKING:
    from tests.simulation.stack import StackOnDoubles
    from tests.simulation.world import World

_SERVICES = ("dynamodb", "s3", "sqs", "secretsmanager", "events")


class Fast(Sqs):
    """The doubles. Its queues are what the mappings of the world read."""

    def __init__(self, world: "World | StackOnDoubles") -> None:
        super().__init__(world.wiring.queues())
        table = world.wiring.only("AWS::DynamoDB::Table")
        self._dynamo = Dynamo(table.ref, f"{table.arn}/stream/local")
        self._s3 = S3(world.wiring.only("AWS::S3::Bucket").ref)
        self._secrets = SecretsManager()
        self._told = 0

        self.clients: dict[str, Any] = {
            "dynamodb": self._dynamo,
            "s3": self._s3,
            "sqs": self,
            "secretsmanager": self._secrets,
            "events": Events(world.arrived),
        }

    def put_secret(self, name: str, value: str) -> None:
        self._secrets.values[name] = value

    def changes(self) -> list[Json]:
        new = self._dynamo.changes[self._told :]
        self._told += len(new)
        return new

    def next_visible_at(self, source: Queue) -> float | None:
        return min((message.visible_at for message in source.messages), default=None)

    def bodies(self, source: Queue) -> list[str]:
        return [message.body for message in source.messages]

    def purge(self, source: Queue) -> None:
        source.messages.clear()

    def objects(self) -> dict[str, bytes]:
        return {key: stored.body for key, stored in self._s3.objects.items()}

    def items(self) -> list[Json]:
        return list(self._dynamo.all_items())


class OfNextVersion(Fast):
    """The doubles, with what the next version writes: an unknown attribute in each item, an unknown key in each object of a message."""

    def __init__(self, world: "World | StackOnDoubles") -> None:
        super().__init__(world)
        write = self._dynamo._write
        self._dynamo._write = lambda key, new: write(key, new and _item_of_next_version(new))  # type: ignore[method-assign]

    def _put(self, queue: Queue, body: str, delay_s: int) -> Message:
        return super()._put(queue, _message_of_next_version(body), delay_s)


# Maps in items whose keys are data: hours, sources, Search Console's types of URLs.
_KEYED_BY_DATA = ("missed", "removed", "urls")


def _item_of_next_version(item: Json) -> Json:
    plain = {name: value if name in _KEYED_BY_DATA else _value_of_next_version(value) for name, value in item.items()}
    if "message" in item:
        plain["message"] = {"S": _message_of_next_version(item["message"]["S"])}
    return plain | {"of_next_version": {"L": [{"N": "1"}]}}


def _value_of_next_version(value: Json) -> Json:
    if "L" in value:
        return {"L": [_value_of_next_version(each) for each in value["L"]]}
    return {"M": _item_of_next_version(value["M"])} if "M" in value else value


def _message_of_next_version(body: str) -> str:
    with suppress(ValueError, RecursionError):
        return json.dumps(_object_of_next_version(json.loads(body)))
    return body


def _object_of_next_version(value: Any) -> Any:
    if isinstance(value, list):
        return [_object_of_next_version(each) for each in value]
    if isinstance(value, dict):
        return {name: _object_of_next_version(each) for name, each in value.items()} | {"of_next_version": {"a": [1]}}
    return value


class Moto:
    """On moto, read in place as the local stack reads it."""

    def __init__(self, world: "World") -> None:
        self._table = world.wiring.only("AWS::DynamoDB::Table")
        self._bucket = world.wiring.only("AWS::S3::Bucket").ref
        self.clients: dict[str, Any] = {service: _client(service) for service in _SERVICES}
        self._stream = MotoReader(self._table.ref, f"{self._table.arn}/stream/local")
        made = sorted(world.wiring.resources, key=lambda one: "RedrivePolicy" in one.properties)
        for resource in made:
            if not resources.is_given(resource):
                resources.create(resource, lambda service: self.clients[service])

    def put_secret(self, name: str, value: str) -> None:
        self.clients["secretsmanager"].create_secret(Name=name, SecretString=value)

    def queue(self, arn: str) -> Any:
        return queues.queue(arn)

    def send(self, arn: str, body: str) -> None:
        queues.send(arn, body)

    def visible(self, source: Any) -> int:
        return queues.visible(source)

    def receive(self, source: Any, count: int) -> list[Any]:
        return queues.receive(source, count)

    def delete(self, source: Any, messages: list[Any]) -> None:
        queues.delete(source, messages)

    def record(self, message: Any, arn: str) -> Json:
        return queues.record(message, arn)

    def changes(self) -> list[Json]:
        return self._stream.read()

    def next_visible_at(self, source: Any) -> float | None:
        instants = (max(message.visible_at, message.delayed_until) / 1000 for message in source._messages)
        return min(instants, default=None)

    def bodies(self, source: Any) -> list[str]:
        return [str(message.body) for message in source._messages]

    def purge(self, source: Any) -> None:
        queues.delete(source, list(source._messages))

    def objects(self) -> dict[str, bytes]:
        keys = s3_backends[ACCOUNT]["aws"].buckets[self._bucket].keys
        return {key: keys[key].value for key in keys}

    def items(self) -> list[Json]:
        pages = self.clients["dynamodb"].get_paginator("scan").paginate(TableName=self._table.ref)
        return [item for page in pages for item in page["Items"]]


@cache
def _client(service: str) -> Any:
    # A fault is the weather's to order, and so are repetitions.
    return boto3.client(service, region_name=REGION, config=Config(retries={"total_max_attempts": 1}))  # type: ignore[call-overload]


@contextmanager
def mocked(arrived: Any) -> Iterator[None]:
    """Holds moto while a run is made on it; `arrived` hears of the events of its buses."""
    with ExitStack() as opening:
        opening.enter_context(mock_aws())
        opening.enter_context(moto_fixes.applied())
        opening.enter_context(bus.overheard(arrived))
        yield
