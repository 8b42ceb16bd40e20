"""The resources of template.yaml for the simulation: names, environment variables, queues and event sources."""

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

# Powertools keeps one logger per service name. Other tests check logs and metrics.
_LOGGING = {
    "POWERTOOLS_SERVICE_NAME": "simulation",
    "POWERTOOLS_LOG_LEVEL": "CRITICAL",
    "METRICS_NAMESPACE": "simulation",
}
_PER_FUNCTION = {"POWERTOOLS_SERVICE_NAME", "METRICS_NAMESPACE"}

_loaded = itertools.count()


@dataclass(frozen=True)
class Wiring:
    """The template's resources, and its functions by logical name."""

    resources: tuple[Resource, ...]
    functions: dict[str, Function]

    def sources(self, shards: int) -> tuple[Sources, list[StreamMapping]]:
        """Return a fresh stack's event sources, and one stream mapping per shard, with the shard's number as its ARN."""
        sources = Sources(self.functions.values())
        for resource in self.resources:
            sources.add(resource)
        [function] = [resource.function for resource in sources.stream_mappings]
        mappings = self.of("AWS::Lambda::EventSourceMapping")
        [mapping] = [mapping for mapping in mappings if "/stream/" in str(mapping.properties)]
        streams = [StreamMapping(mapping, function) for _ in range(shards)]
        for number, stream in enumerate(streams):
            stream.arn = str(number)
        return sources, streams

    def of(self, kind: str) -> list[Resource]:
        return [resource for resource in self.resources if resource.type == kind]

    def only(self, kind: str) -> Resource:
        [resource] = self.of(kind)
        return resource

    def concurrency(self, mapping: str) -> int:
        """Return a queue mapping's maximum concurrency, in batches."""
        properties = {source.logical: source.properties for source in self.of("AWS::Lambda::EventSourceMapping")}
        return int(properties[mapping].get("ScalingConfig", {}).get("MaximumConcurrency", 10))

    def queues(self) -> dict[str, Queue]:
        queues = {
            resource.ref: Queue(resource.arn, int(resource.properties.get("VisibilityTimeout", 30)))
            for resource in self.of("AWS::SQS::Queue")
        }
        by_arn = {queue.arn: queue for queue in queues.values()}
        for resource in self.of("AWS::SQS::Queue"):
            if policy := resource.properties.get("RedrivePolicy"):
                queues[resource.ref].received_max = int(policy["maxReceiveCount"])
                queues[resource.ref].dead = by_arn[policy["deadLetterTargetArn"]]
        return queues

    def variables(self) -> dict[str, str]:
        """Return the functions' environment variables. All functions share one process, so their values must be equal."""
        values: dict[str, set[str]] = defaultdict(set)
        for function in self.functions.values():
            for name, value in function.variables.items():
                values[name].add(value)
        differing = {name for name in values if len(values[name]) > 1 and name not in _PER_FUNCTION}
        assert not differing, (
            f"the functions have different values for {differing}, which the simulation does not support"
        )
        return {name: min(values[name]) for name in values} | {"AWS_REGION": REGION} | _LOGGING

    def variable(self, name: str) -> str:
        return self.variables()[name]


@cache
def wiring(path: Path = TEMPLATE) -> Wiring:
    loaded = template.load(path)
    resolved = tuple(resources.resolve(loaded))
    functions = [resource for resource in resolved if resource.type == "AWS::Lambda::Function"]
    return Wiring(resolved, {one.logical: Function(one, loaded.code[one.logical]) for one in functions})


class Apps:
    """A pool of the functions' modules, each used by one execution environment at a time, as on Lambda."""

    def __init__(self) -> None:
        self._free: dict[Path, list[ModuleType]] = defaultdict(list)

    def acquire(self, function: Function) -> ModuleType:
        """Return an unused module of a function."""
        free = self._free[function._path.resolve()]
        return free.pop() if free else self._load(function._path.resolve())

    def release(self, function: Function, module: ModuleType) -> None:
        """Return a module to the pool."""
        self._free[function._path.resolve()].append(module)

    def clear(self) -> None:
        """Empty the pool, so that modules are loaded again."""
        self._free.clear()

    def _load(self, path: Path) -> ModuleType:
        spec = importlib.util.spec_from_file_location(f"simulated_{path.parent.name}_{next(_loaded)}", path)
        assert spec
        module = importlib.util.module_from_spec(spec)
        assert spec.loader
        spec.loader.exec_module(module)
        module.publish = lambda _values: None  # type: ignore[attr-defined]
        return module


def json_copy(value: Any) -> Any:
    """Return a copy of a value, as JSON transfers it."""
    return json.loads(json.dumps(value))
