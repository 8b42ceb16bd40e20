"""Creates the template's resources in moto, one function for each type."""

import json
import secrets
import string
from collections.abc import Callable
from typing import Any

from stoppress_cli.local.resources import Resource, check_properties
from stoppress_cli.local.template import REGION, Json

_GIVEN = {"AWS::SecretsManager::Secret"}

Client = Callable[[str], Any]


def is_given(resource: Resource) -> bool:
    """Whether an operator provides the resource: a secret, which scenarios bring themselves."""
    return resource.logical.startswith("First") and resource.type in _GIVEN


def create(resource: Resource, client: Client) -> None:
    """Creates a resource, if its type needs that."""
    if create_one := _CREATORS.get(resource.type):
        create_one(resource, client)


def _table(resource: Resource, client: Client) -> None:
    known = {"AttributeDefinitions", "BillingMode", "GlobalSecondaryIndexes", "KeySchema"}
    # Encryption, recovery and deletion protection have no visible effect in a run.
    ignored = {"DeletionProtectionEnabled", "PointInTimeRecoverySpecification", "SSESpecification", "TableName"}
    check_properties(resource, known | ignored | {"StreamSpecification", "TimeToLiveSpecification"})
    dynamodb, properties = client("dynamodb"), resource.properties
    wanted: Json = {key: properties[key] for key in known if key in properties}
    if stream := properties.get("StreamSpecification"):
        wanted["StreamSpecification"] = {"StreamEnabled": True, **stream}
    dynamodb.create_table(TableName=resource.ref, **wanted)
    if ttl := properties.get("TimeToLiveSpecification"):
        dynamodb.update_time_to_live(TableName=resource.ref, TimeToLiveSpecification=ttl)


def _bucket(resource: Resource, client: Client) -> None:
    ignored = {
        "BucketEncryption", "BucketName", "LifecycleConfiguration", "OwnershipControls",
        "PublicAccessBlockConfiguration", "VersioningConfiguration",
    }  # fmt: skip
    check_properties(resource, ignored)
    client("s3").create_bucket(Bucket=resource.ref, CreateBucketConfiguration={"LocationConstraint": REGION})


def _queue(resource: Resource, client: Client) -> None:
    known = {"DelaySeconds", "MessageRetentionPeriod", "RedrivePolicy", "SqsManagedSseEnabled", "VisibilityTimeout"}
    check_properties(resource, known | {"QueueName"})
    attributes = {key: _text(value) for key, value in resource.properties.items() if key in known}
    client("sqs").create_queue(QueueName=resource.ref.rsplit("/", 1)[1], Attributes=attributes)


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value)


def _bus(resource: Resource, client: Client) -> None:
    check_properties(resource, {"Description", "Name"})
    client("events").create_event_bus(Name=resource.ref)


def _secret(resource: Resource, client: Client) -> None:
    check_properties(resource, {"Description", "GenerateSecretString", "Name", "SecretString"})
    generated = resource.properties.get("GenerateSecretString", {})
    alphabet = string.ascii_letters + string.digits
    made = "".join(secrets.choice(alphabet) for _ in range(int(generated.get("PasswordLength", 32))))
    value = resource.properties.get("SecretString") or made
    client("secretsmanager").create_secret(Name=resource.properties["Name"], SecretString=value)


_CREATORS: dict[str, Callable[[Resource, Client], None]] = {
    "AWS::DynamoDB::Table": _table,
    "AWS::Events::EventBus": _bus,
    "AWS::S3::Bucket": _bucket,
    "AWS::SQS::Queue": _queue,
    "AWS::SecretsManager::Secret": _secret,
}
