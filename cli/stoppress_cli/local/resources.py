"""The resource types that the local stack runs, with their names, and the types that it leaves out, with reasons."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from stoppress_cli.local.template import ACCOUNT, REGION, STACK_NAME, Json, Resolver, Template, TemplateError, arn_of

# Types that the local stack leaves out on purpose. A type that is neither here nor in _NAMES is refused. Otherwise the
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

Names = tuple[str, dict[str, str]]  # the value of Ref; the values of Fn::GetAtt by attribute


def _named(name: str) -> Names:
    return name, {}


def _queue(name: str) -> Names:
    return f"https://sqs.{REGION}.amazonaws.com/{ACCOUNT}/{name}", {"Arn": arn_of("sqs", name), "QueueName": name}


def _table(name: str) -> Names:
    arn = arn_of("dynamodb", f"table/{name}")
    return name, {"Arn": arn, "StreamArn": f"{arn}/stream/local"}


def _bucket(name: str) -> Names:
    name = f"{name.lower()}-{ACCOUNT}"
    domain = f"{name}.s3.amazonaws.com"
    regional = f"{name}.s3.{REGION}.amazonaws.com"
    return name, {"Arn": f"arn:aws:s3:::{name}", "DomainName": domain, "RegionalDomainName": regional}


# Other resources may refer to those that do not run, so some of these have names too.
_NAMES: dict[str, Callable[[str], Names]] = {
    "AWS::ApiGatewayV2::Api": lambda name: (name.lower(), {"ApiEndpoint": "http://127.0.0.1"}),
    "AWS::DynamoDB::Table": _table,
    "AWS::Events::EventBus": lambda name: (name, {"Arn": arn_of("events", f"event-bus/{name}"), "Name": name}),
    "AWS::Events::Rule": lambda name: (name, {"Arn": arn_of("events", f"rule/{name}")}),
    "AWS::IAM::Role": lambda name: (name, {"Arn": f"arn:aws:iam::{ACCOUNT}:role/{name}"}),
    "AWS::Lambda::EventInvokeConfig": _named,
    "AWS::Lambda::EventSourceMapping": _named,
    "AWS::Lambda::Function": lambda name: (name, {"Arn": arn_of("lambda", f"function:{name}")}),
    "AWS::Lambda::Permission": _named,
    "AWS::Logs::LogGroup": lambda name: (name, {"Arn": arn_of("logs", f"log-group:{name}:*")}),
    "AWS::S3::Bucket": _bucket,
    "AWS::S3::BucketPolicy": _named,
    "AWS::Scheduler::Schedule": lambda name: (name, {"Arn": arn_of("scheduler", f"schedule/default/{name}")}),
    "AWS::SecretsManager::Secret": lambda name: (arn_of("secretsmanager", f"secret:{name}"), {}),
    "AWS::SQS::Queue": _queue,
    "AWS::SQS::QueuePolicy": _named,
    "AWS::SNS::Topic": lambda name: (arn_of("sns", name), {"TopicName": name}),
    "AWS::SSM::Parameter": _named,
}

# The property that holds the name of a resource.
_NAME_PROPERTY = {
    "AWS::DynamoDB::Table": "TableName",
    "AWS::Events::EventBus": "Name",
    "AWS::Events::Rule": "Name",
    "AWS::Lambda::Function": "FunctionName",
    "AWS::S3::Bucket": "BucketName",
    "AWS::Scheduler::Schedule": "Name",
    "AWS::SecretsManager::Secret": "Name",
    "AWS::SQS::Queue": "QueueName",
    "AWS::SSM::Parameter": "Name",
}


@dataclass(frozen=True)
class Resource:
    """A resource that runs here: its logical name, type, physical name, ARN (may be empty) and resolved properties."""

    logical: str
    type: str
    ref: str
    arn: str
    properties: Json


def resolve(template: Template, stack_name: str = STACK_NAME) -> list[Resource]:
    """Every resource of the template that runs here, in the template's order, all properties resolved.

    Raises TemplateError for a type that is neither run nor listed in NOT_RUN.
    """
    nameless = Resolver(template, {}, stack_name)
    names: dict[str, Names] = {}
    present = {
        logical: resource
        for logical, resource in template.resources.items()
        if "Condition" not in resource or nameless.holds(resource["Condition"])
    }
    for logical, resource in present.items():
        kind = resource["Type"]
        if kind not in _NAMES and kind not in NOT_RUN:
            raise TemplateError(
                f"{logical}: the local stack does not know {kind}. Add it to stoppress_cli/local/resources.py,"
                " or list it there under NOT_RUN with the reason"
            )
        given = resource.get("Properties", {}).get(_NAME_PROPERTY.get(kind, ""))
        names[logical] = _NAMES.get(kind, _named)(nameless.resolve(given) if given else f"{stack_name}-{logical}")
    resolver = Resolver(template, names, stack_name)
    return [
        Resource(logical, kind, names[logical][0], names[logical][1].get("Arn", ""), properties(resource, resolver))
        for logical, resource in present.items()
        if (kind := resource["Type"]) not in NOT_RUN
    ]


def of_type(resources: Iterable[Resource], kind: str) -> list[Resource]:
    """The resources of a type."""
    return [resource for resource in resources if resource.type == kind]


def properties(resource: Mapping[str, Any], resolver: Resolver) -> Json:
    """The resolved properties of a resource, without layers: their folders are on sys.path."""
    kept = {key: value for key, value in resource.get("Properties", {}).items() if key != "Layers"}
    resolved: Json = resolver.resolve(kept)
    return resolved


def check_properties(resource: Resource, known: set[str]) -> None:
    """Raises TemplateError for a property that the local stack does not know."""
    if unknown := sorted(set(resource.properties) - known):
        raise TemplateError(
            f"{resource.logical} ({resource.type}): the local stack does not know the property {unknown[0]};"
            " implement it, or list it as known where the resource is created"
        )


def failure_destination(properties: Json) -> str | None:
    """The ARN of the destination to which Lambda sends failed invocations."""
    destination: str | None = properties.get("DestinationConfig", {}).get("OnFailure", {}).get("Destination")
    return destination
