"""Lambda's pollers of the table's stream and the queues, with random batch sizes and repeated deliveries."""

import zlib
from typing import TYPE_CHECKING, Any

from stoppress_cli.local.template import Json

if TYPE_CHECKING:
    from tests.simulation.world import World


class ShardReader:
    """Reads one shard of the table's stream in batches of random size; under faults, some records are repeated."""

    def __init__(self, world: "World") -> None:
        self._world = world
        self.records: list[Json] = []
        self.position = 0

    def read(self) -> list[Json]:
        rng = self._world.rng
        if self._world.is_failing and self.position and rng.random() < self._world.call_faults.lost_answer_rate / 4:
            self.position -= min(self.position, rng.randint(1, 3))  # the poller lost its position
        unread = len(self.records) - self.position
        count = unread if not self._world.is_failing else rng.randint(min(1, unread), unread)
        self.position += count
        return self.records[self.position - count : self.position]

    @property
    def unread(self) -> int:
        return len(self.records) - self.position


class Pollers:
    """Stands in for the local stack's queues and stream."""

    def __init__(self, world: "World", shards: int) -> None:
        self._world = world
        self.readers = [ShardReader(world) for _ in range(shards)]

    def distribute_records(self) -> None:
        """Append new records to their shards. All records of an item are in one shard, in order."""
        for record in self._world.backend.read_stream(""):
            keys = record["dynamodb"]["Keys"]
            number = zlib.crc32(f"{keys['pk']['S']} {keys['sk']['S']}".encode()) % len(self.readers)
            self.readers[number].records.append(record)

    def read_stream(self, arn: str) -> list[Json]:
        return self.readers[int(arn)].read()

    def queue(self, arn: str) -> Any:
        return self._world.backend.queue(arn)

    def visible(self, source: Any) -> int:
        return self._world.backend.visible(source)

    def receive(self, source: Any, count: int) -> list[Any]:
        return self._world.backend.receive(
            source, self._world.rng.randint(1, count) if self._world.is_failing else count
        )

    def delete(self, source: Any, messages: list[Any]) -> None:
        if self._world.is_failing and self._world.rng.random() < self._world.call_faults.lost_answer_rate:
            messages = [message for message in messages if self._world.rng.random() < 0.5]
        self._world.backend.delete(source, messages)

    def record(self, message: Any, arn: str) -> Json:
        return self._world.backend.record(message, arn)

    def send(self, arn: str, body: str) -> None:
        self._world.backend.send(arn, body)
