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
    """A text for each missing grant, and for each visibility time-out that is too short: where, what, and the effect."""
    checks = _Checks(resources, permissions)
    kinds = (checks.functions, checks.mappings, checks.destinations, checks.schedules, checks.rules, checks.routes)
    return [fault for check in kinds for fault in check()]


class _Checks:
    def __init__(self, resources: Iterable[Resource], permissions: Permissions) -> None:
        self._resources = list(resources)
        self._permissions = permissions
        self._functions = {resource.ref: resource for resource in of_type(self._resources, "AWS::Lambda::Function")}
        self._arns = {resource.arn: resource for resource in self._resources if resource.arn}

    def _lacks(self, where: str, function: Resource, asks: Iterable[Ask], else_: str) -> Iterator[str]:
        role = self._permissions.role_of(function.logical)
        for ask in asks:
            if role is not None and not self._permissions.may(role, ask):
                yield f"{where}: {role.logical} does not allow {ask}; {else_}"

    def functions(self) -> Iterator[str]:
        for function in self._functions.values():
            role = self._permissions.role_of(function.logical)
            if role is None or "lambda.amazonaws.com" not in role.trusts:
                yield f"{function.logical}: its Role is no role of the template that lambda.amazonaws.com may take on"
                continue
            group = function.properties.get("LoggingConfig", {}).get("LogGroup", f"/aws/lambda/{function.ref}")
            stream = arn_of("logs", f"log-group:{group}:log-stream:any")
            asks = [Ask(action, stream) for action in WRITES_LOG]
            yield from self._lacks(function.logical, function, asks, "its log and its metrics would be lost")

    def mappings(self) -> Iterator[str]:
        for mapping in of_type(self._resources, "AWS::Lambda::EventSourceMapping"):
            function = self._functions[_name(mapping.properties["FunctionName"])]
            source = str(mapping.properties["EventSourceArn"])
            refuses = "AWS refuses to make the mapping"
            if ":sqs:" in source:
                asks = [Ask(action, source) for action in TAKES_MESSAGES]
                queue, timeout_s = self._arns[source], int(function.properties.get("Timeout", 3))
                hidden_s = int(queue.properties.get("VisibilityTimeout", 30))
                if hidden_s < timeout_s:
                    yield (
                        f"{mapping.logical}: {queue.logical} hides a message for {hidden_s} s, {function.logical} may take"
                        f" {timeout_s} s; {refuses}. Give it a VisibilityTimeout of {6 * timeout_s}"
                    )
            else:
                asks = [Ask(action, source) for action in FOLLOWS_STREAM] + [Ask("dynamodb:ListStreams", "*")]
            yield from self._lacks(mapping.logical, function, asks, refuses)

    def destinations(self) -> Iterator[str]:
        """Lambda sends failed invocations to the destination with the function's role."""
        for resource in of_type(self._resources, "AWS::Lambda::EventInvokeConfig"):
            if destination := failure_destination(resource.properties):
                function = self._functions[_name(resource.properties["FunctionName"])]
                asks = [Ask("sqs:SendMessage", destination)]
                yield from self._lacks(resource.logical, function, asks, "what is given up would be lost")

    def schedules(self) -> Iterator[str]:
        for resource in of_type(self._resources, "AWS::Scheduler::Schedule"):
            target = resource.properties["Target"]
            role = self._permissions.role(target.get("RoleArn"))
            if role is None or "scheduler.amazonaws.com" not in role.trusts:
                yield f"{resource.logical}: its RoleArn is no role of the template that scheduler.amazonaws.com may take on"
                continue
            asks = [Ask("lambda:InvokeFunction", str(target["Arn"]))]
            asks += [Ask("sqs:SendMessage", dead) for dead in _dead_letters(target)]
            for ask in asks:
                if not self._permissions.may(role, ask):
                    yield f"{resource.logical}: {role.logical} does not allow {ask}; it would fire without effect, or fail silently"

    def rules(self) -> Iterator[str]:
        for rule in of_type(self._resources, "AWS::Events::Rule"):
            for target in rule.properties["Targets"]:
                arn = str(target["Arn"])
                action = "lambda:InvokeFunction" if ":function:" in arn else "sqs:SendMessage"
                yield from self._without_policy(rule, Ask(action, arn), "its events would not arrive")
                for dead in _dead_letters(target):
                    ask = Ask("sqs:SendMessage", dead)
                    yield from self._without_policy(rule, ask, "what it cannot deliver would be lost")

    def _without_policy(self, rule: Resource, ask: Ask, else_: str) -> Iterator[str]:
        if not self._permissions.service_may("events.amazonaws.com", rule.arn, ask):
            yield f"{rule.logical}: no policy of the resource lets this rule {ask}; {else_}"

    def routes(self) -> Iterator[str]:
        for api in of_type(self._resources, "AWS::ApiGatewayV2::Api"):
            for route in gateway.routes(api):
                source = arn_of("execute-api", f"{api.ref}/$default/{route.method}{route.path}")
                ask = Ask("lambda:InvokeFunction", route.function_arn)
                if not self._permissions.service_may("apigateway.amazonaws.com", source, ask):
                    yield f"{api.logical}: no permission lets {route.key} {ask}; it would answer 500"


def _name(function: Any) -> str:
    return str(function).rsplit(":", 1)[-1]


def _dead_letters(target: Mapping[str, Any]) -> list[str]:
    arn = target.get("DeadLetterConfig", {}).get("Arn")
    return [str(arn)] if arn else []
