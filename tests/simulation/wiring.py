"""The stack of template.yaml as the simulation needs it: its names, its functions' variables, and fresh event sources."""

import importlib.util
import itertools
import json
from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any

from stoppress_cli.local import resources, template
from stoppress_cli.local.event_sources import Sources
from stoppress_cli.local.lambda_functions import Function
from stoppress_cli.local.mappings import StreamMapping
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.template import REGION
from tests.simulation.doubles.sqs import Queue

TEMPLATE = Path(__file__).parents[2] / "template.yaml"

# Loggers are kept by the name of their service: these are nobody else's. What is logged and counted is tested elsewhere.
_QUIET = {
    "POWERTOOLS_SERVICE_NAME": "simulation",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    "METRICS_NAMESPACE": "simulation",
}
_ITS_OWN = {"POWERTOOLS_SERVICE_NAME", "METRICS_NAMESPACE"}

_loaded = itertools.count()


@dataclass(frozen=True)
class Wiring:
    """The template's resources, and its functions by logical name."""

    resources: tuple[Resource, ...]
    functions: dict[str, Function]

    def sources(self, shards: int) -> tuple[Sources, list[StreamMapping]]:
        """The event sources of a fresh stack; the stream's mapping once for each shard, whose number is its ARN."""
        sources = Sources(self.functions.values())
        for resource in self.resources:
            sources.add(resource)
        [function] = [one.function for one in sources.stream_mappings]
        [mapping] = [one for one in self.of("AWS::Lambda::EventSourceMapping") if "/stream/" in str(one.properties)]
        streams = [StreamMapping(mapping, function) for _ in range(shards)]
        for number, stream in enumerate(streams):
            stream.arn = str(number)
        return sources, streams

    def of(self, kind: str) -> list[Resource]:
        return [one for one in self.resources if one.type == kind]

    def only(self, kind: str) -> Resource:
        [found] = self.of(kind)
        return found

    def concurrency(self, mapping: str) -> int:
        """How many batches of a queue's mapping may be under way."""
        [found] = [one for one in self.of("AWS::Lambda::EventSourceMapping") if one.logical == mapping]
        return int(found.properties.get("ScalingConfig", {}).get("MaximumConcurrency", 10))

    def queues(self) -> dict[str, Queue]:
        found = {
            one.ref: Queue(one.arn, int(one.properties.get("VisibilityTimeout", 30)))
            for one in self.of("AWS::SQS::Queue")
        }
        by_arn = {queue.arn: queue for queue in found.values()}
        for one in self.of("AWS::SQS::Queue"):
            if policy := one.properties.get("RedrivePolicy"):
                found[one.ref].received_max = int(policy["maxReceiveCount"])
                found[one.ref].dead = by_arn[policy["deadLetterTargetArn"]]
        return found

    def variables(self) -> dict[str, str]:
        """What the functions find in their environment. In one process they share it, and so must agree."""
        found: dict[str, set[str]] = defaultdict(set)
        for function in self.functions.values():
            for name, value in function.variables.items():
                found[name].add(value)
        apart = {name: values for name, values in found.items() if len(values) > 1 and name not in _ITS_OWN}
        assert not apart, (
            f"functions have other values for the same variable, which the simulation cannot give: {apart}"
        )
        return {name: min(values) for name, values in found.items()} | {"AWS_REGION": REGION} | _QUIET

    def variable(self, name: str) -> str:
        return self.variables()[name]


@cache
def wiring(path: Path = TEMPLATE) -> Wiring:
    loaded = template.load(path)
    resolved = tuple(resources.resolve(loaded))
    functions = {
        one.logical: Function(one, loaded.code[one.logical]) for one in resolved if one.type == "AWS::Lambda::Function"
    }
    return Wiring(resolved, functions)


class Apps:
    """Modules of the functions, each used by one execution environment at a time, as it is on Lambda."""

    def __init__(self) -> None:
        self._free: dict[Path, list[ModuleType]] = defaultdict(list)

    def take(self, function: Function) -> ModuleType:
        """A module that nobody uses."""
        free = self._free[function._path.resolve()]
        return free.pop() if free else self._load(function._path.resolve())

    def give_back(self, function: Function, module: ModuleType) -> None:
        """Let somebody else use it."""
        self._free[function._path.resolve()].append(module)

    def forget(self) -> None:
        """Load them anew from now on."""
        self._free.clear()

    def _load(self, path: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"simulated_{path.parent.name}_{next(_loaded)}", path)
        assert spec
        module = importlib.util.module_from_spec(spec)
        assert spec.loader
        spec.loader.exec_module(module)
        module.publish = lambda _values: None  # type: ignore[attr-defined]
        return module


def copied(value: Any) -> Any:
    """A value as JSON brings it to the other side."""
    return json.loads(json.dumps(value))
