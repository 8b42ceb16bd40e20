"""One stack's doubles of AWS, and a variant that stores what a later version of Stoppress would write."""

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from stoppress_cli.local.template import Json
from tests.simulation.doubles.configuration import SecretsManager
from tests.simulation.doubles.dynamodb import Dynamo
from tests.simulation.doubles.events import Events
from tests.simulation.doubles.s3 import S3
from tests.simulation.doubles.sqs import Message, Queue, Sqs

if TYPE_CHECKING:
    from tests.simulation.stack import StackOnDoubles
    from tests.simulation.world import World


class Doubles(Sqs):
    """The doubles of a stack. The event source mappings read its queues."""

    def __init__(self, world: "World | StackOnDoubles") -> None:
        super().__init__(world.wiring.queues())
        table = world.wiring.only("AWS::DynamoDB::Table")
        self._dynamo = Dynamo(table.ref, f"{table.arn}/stream/local")
        self._s3 = S3(world.wiring.only("AWS::S3::Bucket").ref)
        self._secrets = SecretsManager()
        self._stream_position = 0

        self.clients: dict[str, Any] = {
            "dynamodb": self._dynamo,
            "s3": self._s3,
            "sqs": self,
            "secretsmanager": self._secrets,
            "events": Events(world.arrived),
        }

    def put_secret(self, name: str, value: str) -> None:
        self._secrets.values[name] = value

    def read_stream(self, _arn: str) -> list[Json]:
        new = self._dynamo.changes[self._stream_position :]
        self._stream_position += len(new)
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


class NextVersionDoubles(Doubles):
    """Doubles that add an unknown attribute to each item and an unknown key to each object of a message, as a later version might."""

    def __init__(self, world: "World | StackOnDoubles") -> None:
        super().__init__(world)
        write = self._dynamo._write
        self._dynamo._write = lambda key, new: write(key, new and _item_of_next_version(new))  # type: ignore[method-assign]

    def _put(self, queue: Queue, body: str, delay_s: int) -> Message:
        return super()._put(queue, _message_of_next_version(body), delay_s)


# Attributes whose maps have data as keys: hours, sources, Search Console's types of URLs, languages, pages.
_KEYED_BY_DATA = ("missed", "removed", "urls", "lists", "links")


def _item_of_next_version(item: Json) -> Json:
    plain = {name: value if name in _KEYED_BY_DATA else _value_of_next_version(value) for name, value in item.items()}
    if "message" in item:
        plain["message"] = {"S": _message_of_next_version(item["message"]["S"])}
    return plain | {"of_next_version": {"L": [{"N": "1"}]}}


def _value_of_next_version(value: Json) -> Json:
    if "L" in value:
        return {"L": [_value_of_next_version(element) for element in value["L"]]}
    return {"M": _item_of_next_version(value["M"])} if "M" in value else value


def _message_of_next_version(body: str) -> str:
    with suppress(ValueError, RecursionError):
        return json.dumps(_object_of_next_version(json.loads(body)))
    return body


def _object_of_next_version(value: Any) -> Any:
    if isinstance(value, list):
        return [_object_of_next_version(element) for element in value]
    if isinstance(value, dict):
        return {name: _object_of_next_version(field) for name, field in value.items()} | {"of_next_version": {"a": [1]}}
    return value
