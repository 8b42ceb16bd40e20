"""The stack on one machine, built from template.yaml: what it names is made in moto, what calls functions is driven."""

import contextlib
import json
import os
import secrets
import string
import sys
from collections import Counter
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TextIO

import boto3
from moto import mock_aws

from stoppress_cli import bus, moto_fixes, resources
from stoppress_cli.clock import Clock
from stoppress_cli.functions import OUTPUT, Function
from stoppress_cli.gateway import Answer, Request
from stoppress_cli.resources import Resource, check_properties
from stoppress_cli.sources import Sources
from stoppress_cli.stream import EndpointReader, MotoReader, Reader
from stoppress_cli.template import REGION, STACK_NAME, Json, TemplateError, load
from stoppress_cli.wire import LOCK, Wire

PARAMETER_CACHE_S = 60  # how long Powertools' parameters (secrets) may be kept by the functions

_TABLE = {
    "AttributeDefinitions", "BillingMode", "DeletionProtectionEnabled", "GlobalSecondaryIndexes", "KeySchema",
    "PointInTimeRecoverySpecification", "SSESpecification", "StreamSpecification", "TableName",
    "TimeToLiveSpecification",
}  # fmt: skip
_BUCKET = {
    "BucketEncryption", "BucketName", "LifecycleConfiguration", "OwnershipControls", "PublicAccessBlockConfiguration",
    "VersioningConfiguration",
}  # fmt: skip
_QUEUE = {
    "DelaySeconds", "MessageRetentionPeriod", "QueueName", "RedrivePolicy", "SqsManagedSseEnabled", "VisibilityTimeout",
}  # fmt: skip

_ENVIRONMENT = {
    "AWS_DEFAULT_REGION": REGION,
    "AWS_REGION": REGION,
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
}


class Stack:
    """A running stack; use it as a context manager, one at a time in a process.

    `parameters` are the template's. `first_site` makes the template's own site parameters and generated secrets
    (scenarios bring their own). `dynamodb_url` names another DynamoDB endpoint than moto. Lines that functions
    print go to `log`. Raises TemplateError for a template it cannot run whole.
    """

    def __init__(
        self,
        template: Path,
        parameters: Mapping[str, str] | None = None,
        *,
        name: str = STACK_NAME,
        first_site: bool = False,
        dynamodb_url: str | None = None,
        log: TextIO | None = None,
        start: datetime | None = None,
    ) -> None:
        self.name = name
        self.clock = Clock()
        self.wire = Wire(dynamodb_url)
        self.metrics: Counter[str] = Counter()
        loaded = load(template, parameters)
        self._layers = loaded.layers
        self.resources = {resource.logical: resource for resource in resources.resolve(loaded, name)}
        self.functions = {
            logical: Function(resource, loaded.code[logical])
            for logical, resource in self.resources.items()
            if resource.type == "AWS::Lambda::Function"
        }
        self.sources = Sources(self.functions.values())
        self._first_site, self._dynamodb_url, self._log, self._start = first_site, dynamodb_url, log, start
        self.dynamodb_elsewhere = dynamodb_url is not None
        self._open = contextlib.ExitStack()
        self._clients: dict[str, Any] = {}
        self._cached_since: datetime | None = None

    def __enter__(self) -> Self:
        with contextlib.ExitStack() as opening:
            opening.enter_context(_environment(_ENVIRONMENT | self._endpoints()))
            opening.enter_context(_on_path(self._layers))
            opening.callback(self.clock.release)
            if self._start is not None:
                self.clock.move(self._start)
            opening.enter_context(mock_aws())
            opening.enter_context(self.wire.attached())
            opening.enter_context(moto_fixes.applied())
            opening.enter_context(bus.overheard(self.sources.event_arrived))
            self.metrics = opening.enter_context(OUTPUT.aimed(self._log))
            self.forget_clients()
            opening.callback(self.forget_clients)
            self._make()
            self._open = opening.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open.close()

    # ── driving it ──────────────────────────────────────────────────────────────────────────────

    def advance(self, instant: datetime) -> None:
        """Moves the clock to `instant`, lets what has become due fire once, and comes to rest."""
        self.clock.move(instant)
        self.come_due()

    def come_due(self) -> None:
        """Fires what is due at this instant and comes to rest."""
        now = self.clock.now()
        if self._cached_since is None or abs((now - self._cached_since).total_seconds()) >= PARAMETER_CACHE_S:
            self.forget_parameters()
            self._cached_since = now
        self.sources.fire_due()
        self.sources.rest()

    def request(self, request: Request) -> Answer:
        """One HTTP request through the API. What it causes waits for `rest`."""
        return self.sources.request(request)

    def rest(self) -> None:
        """Delivers until nothing is left to do at this instant."""
        self.sources.rest()

    def forget_parameters(self) -> None:
        """Empties the cache of secrets that Powertools keeps in the functions."""
        if (module := sys.modules.get("aws_lambda_powertools.utilities.parameters")) is not None:
            module.clear_caches()

    def forget_clients(self) -> None:
        """Empties what the functions' layer keeps between calls, as new execution environments would."""
        self.forget_parameters()
        if (module := sys.modules.get("stoppress.aws")) is not None:
            module.client.cache_clear()
        if (module := sys.modules.get("stoppress.sites")) is not None:
            module.forget()

    # ── looking at it ───────────────────────────────────────────────────────────────────────────

    def client(self, service: str) -> Any:
        """A client for the stack's own use; its calls are not counted."""
        with LOCK:  # making a client is not thread-safe
            if service not in self._clients:
                self._clients[service] = boto3.client(service)  # type: ignore[call-overload]
            return self._clients[service]

    def only(self, kind: str) -> Resource:
        """The one resource of a type."""
        found = [resource for resource in self.resources.values() if resource.type == kind]
        if len(found) != 1:
            raise TemplateError(f"the template has {len(found)} resources of {kind}, the local stack needs one")
        return found[0]

    def variable(self, name: str) -> str:
        """An environment variable that the template gives to some function."""
        for function in self.functions.values():
            if name in function.variables:
                return function.variables[name]
        raise TemplateError(f"no function of the template has the environment variable {name}")

    # ── making it ───────────────────────────────────────────────────────────────────────────────

    def _endpoints(self) -> dict[str, str]:
        if self._dynamodb_url is None:
            return {}
        return {
            "AWS_ENDPOINT_URL_DYNAMODB": self._dynamodb_url,
            "AWS_ENDPOINT_URL_DYNAMODB_STREAMS": self._dynamodb_url,
        }

    def _make(self) -> None:
        makers = {
            "AWS::DynamoDB::Table": self._make_table,
            "AWS::Events::EventBus": self._make_bus,
            "AWS::S3::Bucket": self._make_bucket,
            "AWS::SecretsManager::Secret": self._make_secret,
            "AWS::SQS::Queue": self._make_queue,
            "AWS::SSM::Parameter": self._make_parameter,
        }
        # A redrive policy names a queue that must exist: queues without one come first.
        ordered = sorted(self.resources.values(), key=lambda resource: "RedrivePolicy" in resource.properties)
        for resource in ordered:
            if maker := makers.get(resource.type):
                maker(resource)
        for resource in self.resources.values():
            self.sources.add(resource, self._reader)
        self.sources.running = self._running
        now = self.clock.now()
        for schedule in self.sources.schedules:
            schedule.due(now)  # the count of periods starts here

    def _running(self, function: str | None) -> None:
        self.wire.running = function

    def _reader(self, stream_arn: str) -> Reader:
        table = stream_arn.split("/")[1]
        if self._dynamodb_url is not None:
            return EndpointReader(table, stream_arn, self._dynamodb_url)
        return MotoReader(table, stream_arn)

    def _make_table(self, resource: Resource) -> None:
        check_properties(resource, _TABLE)
        client = self.client("dynamodb")
        properties = resource.properties
        if self._dynamodb_url is not None:
            with contextlib.suppress(client.exceptions.ResourceNotFoundException):
                client.delete_table(TableName=resource.ref)  # of an earlier run
        wanted = {
            key: properties[key]
            for key in ("AttributeDefinitions", "BillingMode", "GlobalSecondaryIndexes", "KeySchema")
            if key in properties
        }
        if stream := properties.get("StreamSpecification"):
            wanted["StreamSpecification"] = {"StreamEnabled": True, **stream}
        client.create_table(TableName=resource.ref, **wanted)
        if (ttl := properties.get("TimeToLiveSpecification")) and self._dynamodb_url is None:
            client.update_time_to_live(TableName=resource.ref, TimeToLiveSpecification=ttl)

    def _make_bucket(self, resource: Resource) -> None:
        check_properties(resource, _BUCKET)
        client = self.client("s3")
        client.create_bucket(Bucket=resource.ref, CreateBucketConfiguration={"LocationConstraint": REGION})

    def _make_queue(self, resource: Resource) -> None:
        check_properties(resource, _QUEUE)
        attributes = {
            key: json.dumps(value) if isinstance(value, dict) else str(value).lower() if value is True else str(value)
            for key, value in resource.properties.items()
            if key != "QueueName"
        }
        self.client("sqs").create_queue(QueueName=resource.ref.rsplit("/", 1)[1], Attributes=attributes)

    def _make_bus(self, resource: Resource) -> None:
        check_properties(resource, {"Description", "Name"})
        self.client("events").create_event_bus(Name=resource.ref)

    def _make_parameter(self, resource: Resource) -> None:
        check_properties(resource, {"Description", "Name", "Tier", "Type", "Value"})
        if self._first_site:
            properties: Json = resource.properties
            tier = properties.get("Tier", "Standard")
            self.client("ssm").put_parameter(
                Name=resource.ref, Value=properties["Value"], Type=properties["Type"], Tier=tier
            )

    def _make_secret(self, resource: Resource) -> None:
        check_properties(resource, {"Description", "GenerateSecretString", "Name", "SecretString"})
        if self._first_site:
            generated = resource.properties.get("GenerateSecretString", {})
            alphabet = string.ascii_letters + string.digits
            length = int(generated.get("PasswordLength", 32))
            value = resource.properties.get("SecretString") or "".join(
                secrets.choice(alphabet) for _ in range(length)
            )
            self.client("secretsmanager").create_secret(Name=resource.properties["Name"], SecretString=value)


@contextlib.contextmanager
def _environment(variables: Mapping[str, str]) -> Any:
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


@contextlib.contextmanager
def _on_path(folders: tuple[Path, ...]) -> Any:
    """Makes the layers importable, as Lambda does; where they are installed already nothing changes."""
    added = [str(folder) for folder in folders if str(folder) not in sys.path]
    sys.path.extend(added)
    try:
        yield
    finally:
        for folder in added:
            sys.path.remove(folder)


