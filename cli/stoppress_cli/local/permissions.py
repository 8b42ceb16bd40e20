"""Permissions: the statements of roles and of resources' policies, evaluated as IAM evaluates them.

moto's own evaluator supports only the condition StringEquals and none of DynamoDB's resources, and treats an Allow
whose condition fails as a Deny.
"""

import fnmatch
import functools
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoppress_cli.local.resources import Resource, of_type
from stoppress_cli.local.template import Json, TemplateError

Context = dict[str, tuple[str, ...]]  # condition keys in lower case, each with its values

# Policies see every request as sent over TLS.
_ALWAYS: Context = {"aws:securetransport": ("true",)}


@dataclass(frozen=True)
class Ask:
    """A permission that a call needs: an action, the ARN of its resource, and the values for conditions."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)

    def __str__(self) -> str:
        context = "".join(f" ({key} {', '.join(values)})" for key, values in sorted(self.context.items()) if values)
        return f"{self.action} on {self.resource}{context}"


@dataclass(frozen=True)
class Statement:
    """A statement of a policy. `principals` are services and ARNs; a role's own policies have none."""

    allows: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Json
    principals: tuple[str, ...] = ()

    def concerns(self, ask: Ask) -> bool:
        """Return True if the statement applies to this action, resource and context."""
        return (
            any(_like(pattern.lower(), ask.action.lower()) for pattern in self.actions)
            and any(_like(pattern, ask.resource) for pattern in self.resources)
            and _holds(self.conditions, ask.context)
        )


def statements(document: Mapping[str, Any]) -> list[Statement]:
    """Return the statements of a policy document with resolved intrinsic functions. Raises TemplateError for an unsupported element."""
    parsed = []
    for element in _list(document["Statement"]):
        supported = {"Action", "Condition", "Effect", "Principal", "Resource", "Sid"}
        if unknown := sorted(set(element) - supported):
            raise TemplateError(
                f"a policy has {unknown[0]}, which the local stack cannot evaluate; write it with Action and Resource"
            )
        if "${aws:" in json.dumps(element):
            raise TemplateError("a policy has a policy variable (${aws:…}), which the local stack cannot evaluate")
        principal = element.get("Principal", {})
        principals = ["*"] if principal == "*" else [name for names in principal.values() for name in _list(names)]
        parsed.append(
            Statement(
                element["Effect"] == "Allow",
                tuple(_list(element["Action"])),
                tuple(_list(element.get("Resource", "*"))),
                element.get("Condition", {}),
                tuple(principals),
            )
        )
    return parsed


def allowed(ask: Ask, own: Iterable[Statement]) -> bool:
    """Return True if a statement of `own` allows the call and none denies it."""
    concerned = [statement for statement in own if statement.concerns(ask)]
    return bool(concerned) and all(statement.allows for statement in concerned)


@dataclass(frozen=True)
class Role:
    """A role of the template, with the statements of its own policies and of its trust policy."""

    logical: str
    arn: str
    trust: tuple[Statement, ...]
    statements: tuple[Statement, ...]

    def is_trusted_to(self, service: str) -> bool:
        return allowed(Ask("sts:AssumeRole", "*"), [rule for rule in self.trust if service in rule.principals])


class Permissions:
    """The roles, the resources' policies and the functions' permissions of a stack."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        resources = list(resources)
        self._roles = {role.arn: role for role in map(_role, of_type(resources, "AWS::IAM::Role"))}
        self._functions = {
            function.logical: str(function.properties.get("Role"))
            for function in of_type(resources, "AWS::Lambda::Function")
        }
        arns = {resource.ref: resource.arn for resource in resources if resource.arn}
        # The statements of resources' policies, each with the ARN that its policy is attached to.
        self._of_resources = [pair for resource in resources for pair in _attached_statements(resource, arns)]
        self._answers: dict[tuple[str, str], bool] = {}  # functions make the same calls each minute

    def role(self, arn: Any) -> Role | None:
        return self._roles.get(str(arn))

    def role_of(self, function: str) -> Role | None:
        """Return the role of a function, given by its logical name."""
        return self.role(self._functions.get(function))

    def may(self, role: Role, ask: Ask) -> bool:
        """Return True if the role may make the call: a statement allows it and none denies it."""
        call = (role.arn, str(ask))
        if call not in self._answers:
            self._answers[call] = allowed(ask, [*role.statements, *self._find_attached(ask, {"*", role.arn})])
        return self._answers[call]

    def service_may(self, service: str, source_arn: str, ask: Ask) -> bool:
        """Return True if the resource's policy lets an AWS service make the call on behalf of `source_arn`."""
        of_source = Ask(ask.action, ask.resource, {**ask.context, "aws:sourcearn": (source_arn,)})
        return allowed(of_source, self._find_attached(of_source, {"*", service}))

    def _find_attached(self, ask: Ask, principals: set[str]) -> list[Statement]:
        return [
            statement
            for arn, statement in self._of_resources
            if (ask.resource == arn or ask.resource.startswith(f"{arn}/")) and principals & set(statement.principals)
        ]


def _attached_statements(resource: Resource, arns: Mapping[str, str]) -> Iterator[tuple[str, Statement]]:
    """Return the statements of a resource that is a policy, each with the ARN of the resource that it is attached to."""
    properties = resource.properties
    match resource.type:
        case "AWS::SQS::QueuePolicy" | "AWS::S3::BucketPolicy":
            for name in properties.get("Queues") or [properties["Bucket"]]:
                yield from ((arns[name], statement) for statement in statements(properties["PolicyDocument"]))
        case "AWS::Lambda::Permission":
            name, source = str(properties["FunctionName"]), properties.get("SourceArn")
            function = arns.get(name, name)
            conditions = {"ArnLike": {"aws:SourceArn": source}} if source else {}
            action, principal = str(properties["Action"]), str(properties["Principal"])
            yield function, Statement(True, (action,), (function,), conditions, (principal,))


def _role(resource: Resource) -> Role:
    """Return a role. Managed policies are not evaluated: the template uses none."""
    policies = [policy["PolicyDocument"] for policy in resource.properties.get("Policies", [])]
    own = tuple(statement for policy in policies for statement in statements(policy))
    trust = tuple(statements(resource.properties["AssumeRolePolicyDocument"]))
    return Role(resource.logical, resource.arn, trust, own)


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@functools.lru_cache(16_384)
def _like(pattern: str, text: str) -> bool:
    """Return True if a text matches a pattern with IAM's wildcards * and ?; in IAM, brackets are literal."""
    return fnmatch.fnmatchcase(text, pattern.replace("[", "[[]"))


_TESTS: dict[str, Callable[[Any, str], bool]] = {
    "ArnEquals": _like,  # IAM's reference: the same as ArnLike
    "ArnLike": _like,
    "Bool": lambda expected, value: str(expected).lower() == value.lower(),
    "StringEquals": lambda expected, value: expected == value,
    "StringLike": _like,
}


def _holds(conditions: Mapping[str, Any], context: Context) -> bool:
    """Return True if every condition holds. Raises TemplateError for an operator that is not supported here."""
    return all(
        _condition_holds(operator, expected, (_ALWAYS | context).get(key.lower(), ()))
        for operator, keys in conditions.items()
        for key, expected in keys.items()
    )


def _condition_holds(name: str, expected: Any, values: tuple[str, ...]) -> bool:
    quantifier, _, operator = name.rpartition(":")
    if operator not in _TESTS or quantifier not in {"", "ForAllValues"}:
        raise TemplateError(f"the local stack does not support the condition {name}; add it to permissions.py")
    passed = [any(_TESTS[operator](pattern, value) for pattern in _list(expected)) for value in values]
    # Without any value, ForAllValues holds and a plain condition does not.
    return all(passed) and bool(passed or quantifier)
