"""The resources that the local stack runs: their names and properties, and how moto creates them.

resource_types.toml lists what the local stack supports of each type.
"""

import functools
import json
import secrets
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stoppress_cli.local.template import ACCOUNT, REGION, STACK_NAME, Json, Resolver, Template, TemplateError


@dataclass(frozen=True)
class Resource:
    """A resource that runs here: its logical name, type, physical name, ARN (may be empty) and resolved properties."""

    logical: str
    type: str
    ref: str
    arn: str
    properties: Json


Client = Callable[[str], Any]


def _create_table(resource: Resource, client: Client) -> None:
    dynamodb, properties = client("dynamodb"), resource.properties
    created = ("AttributeDefinitions", "BillingMode", "KeySchema")
    arguments: Json = {key: properties[key] for key in created if key in properties}
    if stream := properties.get("StreamSpecification"):
        arguments["StreamSpecification"] = {"StreamEnabled": True, **stream}
    dynamodb.create_table(TableName=resource.ref, **arguments)
    if ttl := properties.get("TimeToLiveSpecification"):
        dynamodb.update_time_to_live(TableName=resource.ref, TimeToLiveSpecification=ttl)


def create(resource: Resource, client: Client) -> None:
    """Create a resource in moto, if its type needs that."""
    match resource.type:
        case "AWS::DynamoDB::Table":
            _create_table(resource, client)
        case "AWS::Events::EventBus":
            client("events").create_event_bus(Name=resource.ref)
        case "AWS::S3::Bucket":
            client("s3").create_bucket(Bucket=resource.ref, CreateBucketConfiguration={"LocationConstraint": REGION})
        case "AWS::SecretsManager::Secret":
            length = int(resource.properties.get("GenerateSecretString", {}).get("PasswordLength", 32))
            secret = secrets.token_hex(length)[:length]
            client("secretsmanager").create_secret(Name=resource.properties["Name"], SecretString=secret)
        case "AWS::SQS::Queue":
            attributes = {key: value for key, value in resource.properties.items() if key != "QueueName"}
            texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in attributes.items()}
            client("sqs").create_queue(QueueName=resource.ref.rsplit("/", 1)[1], Attributes=texts)


@dataclass(frozen=True)
class _Type:
    """A type of resource, as resource_types.toml describes it."""

    not_run: str = ""
    name_property: str = ""
    arn: str = ""
    ref: str = "{name}"
    attributes: dict[str, str] = field(default_factory=dict)
    properties: list[str] | None = None


@functools.cache
def _types() -> dict[str, _Type]:
    text = Path(__file__).with_name("resource_types.toml").read_text(encoding="utf-8")
    return {kind: _Type(**row) for kind, row in tomllib.loads(text).items()}


def resolve(template: Template, stack_name: str = STACK_NAME) -> list[Resource]:
    """Return every resource of the template that runs here, in the template's order, all properties resolved.

    Layers are left out, because their code is this installation's. Raises TemplateError for a type that the local stack does
    not support.
    """
    nameless = Resolver(template, {}, stack_name)
    present = {
        logical: resource
        for logical, resource in template.resources.items()
        if "Condition" not in resource or nameless.holds(resource["Condition"])
    }
    values = {logical: _values(logical, resource, nameless, stack_name) for logical, resource in present.items()}
    resolver = Resolver(template, values, stack_name)
    resources = []
    for logical, resource in present.items():
        if not _types()[resource["Type"]].not_run:
            properties = {key: value for key, value in resource.get("Properties", {}).items() if key != "Layers"}
            ref, attributes = values[logical]
            arn = attributes.get("Arn", "")
            resources.append(Resource(logical, resource["Type"], ref, arn, resolver.resolve(properties)))
    return resources


def _values(logical: str, resource: Json, nameless: Resolver, stack_name: str) -> tuple[str, dict[str, str]]:
    """Return the value of Ref to a resource, and those of Fn::GetAtt by attribute."""
    kind = resource["Type"]
    if kind not in _types():
        raise TemplateError(
            f"{logical}: the local stack does not support {kind}. Add it to stoppress_cli/local/resource_types.toml,"
            " with the reason if the local stack does not run it"
        )
    type_ = _types()[kind]
    fixed_name = resource.get("Properties", {}).get(type_.name_property)
    name = nameless.resolve(fixed_name) if fixed_name else f"{stack_name}-{logical}"
    fields = {"name": name, "lower": name.lower(), "region": REGION, "account": ACCOUNT}
    attributes = {"Arn": type_.arn, **type_.attributes} if type_.arn else type_.attributes
    return type_.ref.format(**fields), {key: text.format(**fields) for key, text in attributes.items()}


def of_type(resources: Iterable[Resource], kind: str) -> list[Resource]:
    return [resource for resource in resources if resource.type == kind]


def check_properties(resources: Iterable[Resource]) -> None:
    """Raise TemplateError for a property that the local stack does not support."""
    for resource in resources:
        supported = _types()[resource.type].properties
        if supported is not None and (unknown := sorted(set(resource.properties) - set(supported))):
            raise TemplateError(
                f"{resource.logical} ({resource.type}): the local stack does not support the property {unknown[0]};"
                " implement it, or list it as known in stoppress_cli/local/resource_types.toml"
            )


def is_given(resource: Resource) -> bool:
    """Return True if an operator provides the resource: a secret, which scenarios create themselves."""
    return resource.logical.startswith("First") and resource.type == "AWS::SecretsManager::Secret"


def failure_destination(properties: Json) -> str | None:
    """Return the ARN of the destination to which Lambda sends failed invocations."""
    destination: str | None = properties.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    return destination
