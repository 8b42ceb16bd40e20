"""Finds grants that a template lacks before anything runs: on AWS their absence would lose events or logs silently."""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from stoppress_cli.local import gateway
from stoppress_cli.local.permissions import Ask, Permissions
from stoppress_cli.local.resources import Resource, failure_destination, of_type
from stoppress_cli.local.template import arn_of

# Calls that the Lambda service makes with a function's role (Lambda developer guide, "execution role permissions").
TAKES_MESSAGES = ("sqs:ReceiveMessage", "sqs:DeleteMessage", "sqs:GetQueueAttributes")
FOLLOWS_STREAM = ("dynamodb:DescribeStream", "dynamodb:GetRecords", "dynamodb:GetShardIterator")
WRITES_LOG = ("logs:CreateLogStream", "logs:PutLogEvents")


def faults(resources: Iterable[Resource], permissions: Permissions) -> list[str]:
    """Return a text for each missing grant, and for each visibility time-out that is too short: where, what, and the effect."""
    return [*_Checks([*resources], permissions).faults()]


class _Checks:
    def __init__(self, resources: list[Resource], permissions: Permissions) -> None:
        self._permissions = permissions
        self._resources = resources
        self._functions = {resource.ref: resource for resource in of_type(resources, "AWS::Lambda::Function")}
        self._arns = {resource.arn: resource for resource in resources if resource.arn}

    def faults(self) -> Iterator[str]:
        for resource in self._resources:
            properties = resource.properties
            match resource.type:
                case "AWS::Lambda::Function":
                    group = properties.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{resource.ref}")
                    stream = arn_of("logs", f"log-group:{group}:log-stream:any")
                    asks = [Ask(action, stream) for action in WRITES_LOG]
                    effect = "its log and its metrics would be lost"
                    yield from self._of_role(resource, properties.get("Role"), "lambda", asks, effect)
                case "AWS::Lambda::EventSourceMapping":
                    yield from self._of_mapping(resource)
                case "AWS::Lambda::EventInvokeConfig" if destination := failure_destination(properties):
                    # Lambda sends failed invocations with the function's role.
                    role = self._function(properties).properties.get("Role")
                    asks = [Ask("sqs:SendMessage", destination)]
                    yield from self._of_role(resource, role, "lambda", asks, "what is given up would be lost")
                case "AWS::Scheduler::Schedule":
                    target = properties["Target"]
                    asks = [Ask("lambda:InvokeFunction", str(target["Arn"])), *_dead_letters(target)]
                    effect = "it would fire without effect, or fail silently"
                    yield from self._of_role(resource, target.get("RoleArn"), "scheduler", asks, effect)
                case "AWS::Events::Rule":
                    yield from self._of_rule(resource)
                case "AWS::ApiGatewayV2::Api":
                    for route in gateway.routes(resource):
                        source = arn_of("execute-api", f"{resource.ref}/$default/{route.method}{route.path}")
                        ask = Ask("lambda:InvokeFunction", route.function_arn)
                        if not self._permissions.service_may("apigateway.amazonaws.com", source, ask):
                            yield f"{resource.logical}: no permission lets {route.key} {ask}; it would answer 500"

    def _of_role(self, user: Resource, arn: Any, service: str, asks: Iterable[Ask], effect: str) -> Iterator[str]:
        role = self._permissions.role(arn)
        if role is None or f"{service}.amazonaws.com" not in role.trusts:
            yield f"{user.logical}: its role is no role of the template that {service}.amazonaws.com may take on"
            return
        for ask in asks:
            if not self._permissions.may(role, ask):
                yield f"{user.logical}: {role.logical} does not allow {ask}; {effect}"

    def _of_mapping(self, mapping: Resource) -> Iterator[str]:
        function, source = self._function(mapping.properties), str(mapping.properties["EventSourceArn"])
        effect = "AWS refuses to make the mapping"
        if ":sqs:" in source:
            asks = [Ask(action, source) for action in TAKES_MESSAGES]
            queue, timeout_s = self._arns[source], int(function.properties.get("Timeout", 3))
            hidden_s = int(queue.properties.get("VisibilityTimeout", 30))
            if hidden_s < timeout_s:
                yield (
                    f"{mapping.logical}: {queue.logical} hides a message for {hidden_s} s, {function.logical} may take"
                    f" {timeout_s} s; {effect}. Give it a VisibilityTimeout of {6 * timeout_s}"
                )
        else:
            asks = [*(Ask(action, source) for action in FOLLOWS_STREAM), Ask("dynamodb:ListStreams", "*")]
        yield from self._of_role(mapping, function.properties.get("Role"), "lambda", asks, effect)

    def _of_rule(self, rule: Resource) -> Iterator[str]:
        for target in rule.properties["Targets"]:
            action = "lambda:InvokeFunction" if ":function:" in str(target["Arn"]) else "sqs:SendMessage"
            lost = [(ask, "what it cannot deliver would be lost") for ask in _dead_letters(target)]
            for ask, effect in [(Ask(action, str(target["Arn"])), "its events would not arrive"), *lost]:
                if not self._permissions.service_may("events.amazonaws.com", rule.arn, ask):
                    yield f"{rule.logical}: no policy of the resource lets this rule {ask}; {effect}"

    def _function(self, properties: Mapping[str, Any]) -> Resource:
        return self._functions[str(properties["FunctionName"]).rsplit(":", 1)[-1]]


def _dead_letters(target: Mapping[str, Any]) -> list[Ask]:
    arn = target.get("DeadLetterConfig", {}).get("Arn")
    return [Ask("sqs:SendMessage", str(arn))] if arn else []
