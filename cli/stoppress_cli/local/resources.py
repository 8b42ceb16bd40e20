"""The resource types that the local stack runs: their names, the properties that it understands, and how moto creates them."""

import json
import secrets
import string
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

from stoppress_cli.local.template import ACCOUNT, REGION, STACK_NAME, Json, Resolver, Template, TemplateError, arn_of

# Types that the local stack leaves out on purpose. A type that is neither here nor in _TYPES is refused. Otherwise the
# local stack would silently leave out a new part of the template.
NOT_RUN = {
    "AWS::ApiGatewayV2::Stage": "the local API has one stage only",
    "AWS::CloudWatch::Alarm": "nobody watches alarms of a local stack",
    "AWS::CloudWatch::Dashboard": "the local stack stores no metrics",
    "AWS::Lambda::LayerVersion": "its folder is on sys.path instead",
    "AWS::Logs::LogGroup": "the functions' output goes to --log",
    "AWS::Logs::MetricFilter": "only alarms use its metric",
    "AWS::SNS::Subscription": "only alarms use it",
    "AWS::SNS::Topic": "only alarms use it",
}


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
    wanted: Json = {key: properties[key] for key in created if key in properties}
    if stream := properties.get("StreamSpecification"):
        wanted["StreamSpecification"] = {"StreamEnabled": True, **stream}
    dynamodb.create_table(TableName=resource.ref, **wanted)
    if ttl := properties.get("TimeToLiveSpecification"):
        dynamodb.update_time_to_live(TableName=resource.ref, TimeToLiveSpecification=ttl)


def _create_bucket(resource: Resource, client: Client) -> None:
    client("s3").create_bucket(Bucket=resource.ref, CreateBucketConfiguration={"LocationConstraint": REGION})


def _create_queue(resource: Resource, client: Client) -> None:
    attributes = {key: value for key, value in resource.properties.items() if key != "QueueName"}
    texts = {key: value if isinstance(value, str) else json.dumps(value) for key, value in attributes.items()}
    client("sqs").create_queue(QueueName=resource.ref.rsplit("/", 1)[1], Attributes=texts)


def _create_bus(resource: Resource, client: Client) -> None:
    client("events").create_event_bus(Name=resource.ref)


def _create_secret(resource: Resource, client: Client) -> None:
    length = int(resource.properties.get("GenerateSecretString", {}).get("PasswordLength", 32))
    value = "".join(secrets.choice(string.ascii_letters + string.digits) for _ in range(length))
    client("secretsmanager").create_secret(Name=resource.properties["Name"], SecretString=value)


@dataclass(frozen=True)
class _Type:
    """A type of resource. In `arn`, `ref` and `attributes` (the values of Fn::GetAtt), `{name}` is the physical name."""

    arn: str = ""
    ref: str = "{name}"
    name_property: str = ""
    attributes: dict[str, str] = field(default_factory=dict)
    properties: str | None = None  # the understood ones, and those without a visible effect in a run; None: any
    create: Callable[[Resource, Client], None] | None = None


# Other resources may refer to those that do not run, so some of these have names too.
_TYPES = {
    "AWS::ApiGatewayV2::Api": _Type(
        attributes={"ApiEndpoint": "http://127.0.0.1"}, properties="Body Description Name ProtocolType Tags"
    ),
    "AWS::DynamoDB::Table": _Type(
        arn_of("dynamodb", "table/{name}"),
        name_property="TableName",
        attributes={"StreamArn": arn_of("dynamodb", "table/{name}/stream/local")},
        properties="AttributeDefinitions BillingMode DeletionProtectionEnabled KeySchema PointInTimeRecoverySpecification"
        " SSESpecification StreamSpecification TableName TimeToLiveSpecification",
        create=_create_table,
    ),
    "AWS::Events::EventBus": _Type(
        arn_of("events", "event-bus/{name}"),
        name_property="Name",
        attributes={"Name": "{name}"},
        properties="Description Name",
        create=_create_bus,
    ),
    "AWS::Events::Rule": _Type(
        arn_of("events", "rule/{name}"),
        name_property="Name",
        properties="Description EventBusName EventPattern Name State Targets",
    ),
    "AWS::IAM::Role": _Type(f"arn:aws:iam::{ACCOUNT}:role/{{name}}"),
    "AWS::Lambda::EventInvokeConfig": _Type(
        properties="DestinationConfig FunctionName MaximumEventAgeInSeconds MaximumRetryAttempts Qualifier"
    ),
    "AWS::Lambda::EventSourceMapping": _Type(
        properties="BatchSize EventSourceArn FilterCriteria FunctionName FunctionResponseTypes"
        " MaximumBatchingWindowInSeconds ScalingConfig StartingPosition"
    ),
    "AWS::Lambda::Function": _Type(
        arn_of("lambda", "function:{name}"),
        name_property="FunctionName",
        properties="Architectures Code Description Environment FunctionName Handler LoggingConfig MemorySize"
        " ReservedConcurrentExecutions Role Runtime Tags Timeout TracingConfig",
    ),
    "AWS::Lambda::Permission": _Type(),
    "AWS::Logs::LogGroup": _Type(arn_of("logs", "log-group:{name}:*")),
    "AWS::S3::Bucket": _Type(
        "arn:aws:s3:::{name}",
        name_property="BucketName",
        attributes={
            "DomainName": "{name}.s3.amazonaws.com",
            "RegionalDomainName": f"{{name}}.s3.{REGION}.amazonaws.com",
        },
        properties="BucketEncryption BucketName LifecycleConfiguration OwnershipControls PublicAccessBlockConfiguration"
        " VersioningConfiguration",
        create=_create_bucket,
    ),
    "AWS::S3::BucketPolicy": _Type(),
    "AWS::Scheduler::Schedule": _Type(
        arn_of("scheduler", "schedule/default/{name}"),
        name_property="Name",
        properties="Description FlexibleTimeWindow GroupName Name ScheduleExpression State Target",
    ),
    "AWS::SecretsManager::Secret": _Type(
        ref=arn_of("secretsmanager", "secret:{name}"),
        name_property="Name",
        properties="Description GenerateSecretString Name",
        create=_create_secret,
    ),
    "AWS::SQS::Queue": _Type(
        arn_of("sqs", "{name}"),
        f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{{name}}",
        name_property="QueueName",
        attributes={"QueueName": "{name}"},
        properties="DelaySeconds MessageRetentionPeriod QueueName RedrivePolicy SqsManagedSseEnabled VisibilityTimeout",
        create=_create_queue,
    ),
    "AWS::SQS::QueuePolicy": _Type(),
    "AWS::SNS::Topic": _Type(ref=arn_of("sns", "{name}"), attributes={"TopicName": "{name}"}),
}


def resolve(template: Template, stack_name: str = STACK_NAME) -> list[Resource]:
    """Return every resource of the template that runs here, in the template's order, all properties resolved.

    Layers are left out, because their folders are on sys.path. Raises TemplateError for a type that is neither run nor
    listed in NOT_RUN.
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
        if resource["Type"] not in NOT_RUN:
            properties = {key: value for key, value in resource.get("Properties", {}).items() if key != "Layers"}
            ref, attributes = values[logical]
            arn = attributes.get("Arn", "")
            resources.append(Resource(logical, resource["Type"], ref, arn, resolver.resolve(properties)))
    return resources


def _values(logical: str, resource: Json, nameless: Resolver, stack_name: str) -> tuple[str, dict[str, str]]:
    """Return the value of Ref to a resource, and those of Fn::GetAtt by attribute."""
    kind = resource["Type"]
    if kind not in _TYPES and kind not in NOT_RUN:
        raise TemplateError(
            f"{logical}: the local stack does not know {kind}. Add it to stoppress_cli/local/resources.py,"
            " or list it there under NOT_RUN with the reason"
        )
    type_ = _TYPES.get(kind, _Type())
    given = resource.get("Properties", {}).get(type_.name_property)
    name = nameless.resolve(given) if given else f"{stack_name}-{logical}"
    if kind == "AWS::S3::Bucket":
        name = f"{name.lower()}-{ACCOUNT}"
    elif kind == "AWS::ApiGatewayV2::Api":
        name = name.lower()
    attributes = {"Arn": type_.arn, **type_.attributes} if type_.arn else type_.attributes
    return type_.ref.format(name=name), {attribute: text.format(name=name) for attribute, text in attributes.items()}


def of_type(resources: Iterable[Resource], kind: str) -> list[Resource]:
    """Return the resources of a type."""
    return [resource for resource in resources if resource.type == kind]


def check_properties(resources: Iterable[Resource]) -> None:
    """Raise TemplateError for a property that the local stack does not know."""
    for resource in resources:
        known = _TYPES[resource.type].properties
        if known is not None and (unknown := sorted(set(resource.properties) - set(known.split()))):
            raise TemplateError(
                f"{resource.logical} ({resource.type}): the local stack does not know the property {unknown[0]};"
                " implement it, or list it as known in stoppress_cli/local/resources.py"
            )


def is_given(resource: Resource) -> bool:
    """Return True if an operator provides the resource: a secret, which scenarios bring themselves."""
    return resource.logical.startswith("First") and resource.type == "AWS::SecretsManager::Secret"


def create(resource: Resource, client: Client) -> None:
    """Create a resource in moto, if its type needs that."""
    if create_one := _TYPES[resource.type].create:
        create_one(resource, client)


def failure_destination(properties: Json) -> str | None:
    """Return the ARN of the destination to which Lambda sends failed invocations."""
    destination: str | None = properties.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    return destination
