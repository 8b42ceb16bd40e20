"""Who may do what: the statements of roles and of resources' policies, judged as IAM judges them.

moto's own evaluator knows no condition but StringEquals, and takes an Allow whose condition fails for a denial.
"""

import functools
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from stoppress_cli.local.resources import Resource
from stoppress_cli.local.template import Json, TemplateError

Context = dict[str, tuple[str, ...]]  # condition keys in lower case, each with its values

# What every request here says of itself.
_ALWAYS: Context = {"aws:securetransport": ("true",)}


@dataclass(frozen=True)
class Ask:
    """One permission that something needs: an action, the ARN it reaches, and what conditions may look at."""

    action: str
    resource: str
    context: Context = field(default_factory=dict)

    def __str__(self) -> str:
        said = "".join(f" ({key} {', '.join(values)})" for key, values in sorted(self.context.items()) if values)
        return f"{self.action} on {self.resource}{said}"


@dataclass(frozen=True)
class Statement:
    """One statement of a policy; `principals` are services and ARNs, and empty in a role's own policies."""

    allows: bool
    actions: tuple[str, ...]
    resources: tuple[str, ...]
    conditions: Json
    principals: tuple[str, ...] = ()

    def concerns(self, ask: Ask) -> bool:
        """Whether it speaks of this action on this resource under these conditions."""
        return (
            any(_like(pattern.lower(), ask.action.lower()) for pattern in self.actions)
            and any(_like(pattern, ask.resource) for pattern in self.resources)
            and _holds(self.conditions, ask.context)
        )


def statements(document: Mapping[str, Any]) -> list[Statement]:
    """The statements of a policy document, intrinsic functions resolved. Raises TemplateError for what is not known here."""
    found = []
    for written in _list(document["Statement"]):
        known = {"Action", "Condition", "Effect", "Principal", "Resource", "Sid"}
        if unknown := sorted(set(written) - known):
            raise TemplateError(
                f"a policy says {unknown[0]}, which the local stack cannot judge; write it with Action and Resource"
            )
        if "${aws:" in json.dumps(written):
            raise TemplateError("a policy has a policy variable (${aws:…}), which the local stack cannot judge")
        principal = written.get("Principal", {})
        principals = ["*"] if principal == "*" else [name for names in principal.values() for name in _list(names)]
        found.append(
            Statement(
                written["Effect"] == "Allow",
                tuple(_list(written["Action"])),
                tuple(_list(written.get("Resource", "*"))),
                written.get("Condition", {}),
                tuple(principals),
            )
        )
    return found


@dataclass(frozen=True)
class Role:
    """A role of the template: which services may take it on, and what it allows."""

    logical: str
    arn: str
    trusts: tuple[str, ...]
    statements: tuple[Statement, ...]


class Permissions:
    """The roles, the resources' policies and the functions' permissions of a stack."""

    def __init__(self, resources: Iterable[Resource]) -> None:
        resources = list(resources)
        self._roles = {role.arn: role for role in map(_role, _of(resources, "AWS::IAM::Role"))}
        self._functions = {
            one.logical: str(one.properties.get("Role")) for one in _of(resources, "AWS::Lambda::Function")
        }
        arns = {one.ref: one.arn for one in resources if one.arn}
        self._resources: list[tuple[str, Statement]] = []  # the ARN that a policy is attached to, and what it says
        for one in _of(resources, "AWS::SQS::QueuePolicy"):
            said = statements(one.properties["PolicyDocument"])
            self._resources += [(arns[queue], statement) for queue in one.properties["Queues"] for statement in said]
        for one in _of(resources, "AWS::S3::BucketPolicy"):
            bucket = arns[one.properties["Bucket"]]
            self._resources += [(bucket, statement) for statement in statements(one.properties["PolicyDocument"])]
        for one in _of(resources, "AWS::Lambda::Permission"):
            source = one.properties.get("SourceArn")
            conditions = {"ArnLike": {"aws:SourceArn": source}} if source else {}
            function = arns.get(one.properties["FunctionName"], str(one.properties["FunctionName"]))
            action, principal = str(one.properties["Action"]), str(one.properties["Principal"])
            self._resources.append((function, Statement(True, (action,), (function,), conditions, (principal,))))

    def role(self, arn: Any) -> Role | None:
        """The role of an ARN; None where the template has none."""
        return self._roles.get(str(arn))

    def role_of(self, function: str) -> Role | None:
        """The role of a function, given by its logical name."""
        return self.role(self._functions.get(function))

    def may(self, role: Role, ask: Ask) -> bool:
        """Whether who has taken on the role may do it: something allows it and nothing denies it."""
        own = [statement for statement in role.statements if statement.concerns(ask)]
        return _judged(own + self._attached(ask, {"*", role.arn}))

    def service_may(self, service: str, source_arn: str, ask: Ask) -> bool:
        """Whether an AWS service may do it on behalf of `source_arn`, by the policy of the resource it reaches."""
        asked = Ask(ask.action, ask.resource, {**ask.context, "aws:sourcearn": (source_arn,)})
        return _judged(self._attached(asked, {"*", service}))

    def _attached(self, ask: Ask, principals: set[str]) -> list[Statement]:
        return [
            statement
            for arn, statement in self._resources
            if (ask.resource == arn or ask.resource.startswith(f"{arn}/"))
            and principals & set(statement.principals)
            and statement.concerns(ask)
        ]


def _judged(concerned: list[Statement]) -> bool:
    return bool(concerned) and all(statement.allows for statement in concerned)


def _of(resources: Iterable[Resource], kind: str) -> list[Resource]:
    return [resource for resource in resources if resource.type == kind]


def _role(resource: Resource) -> Role:
    properties = resource.properties
    said = statements(properties["AssumeRolePolicyDocument"])
    assume = Ask("sts:AssumeRole", "*")
    concerned = [statement for statement in said if statement.concerns(assume)]
    refused = {principal for statement in concerned if not statement.allows for principal in statement.principals}
    trusts = [principal for statement in concerned for principal in statement.principals if principal not in refused]
    own = [statement for policy in properties.get("Policies", []) for statement in statements(policy["PolicyDocument"])]
    for arn in properties.get("ManagedPolicyArns", []):
        own += statements(_managed(str(arn)))
    return Role(resource.logical, resource.arn, tuple(trusts), tuple(own))


@functools.cache
def _managed(arn: str) -> Json:
    """AWS's own policy of that ARN, as moto has it. Raises TemplateError."""
    from moto.iam.aws_managed_policies import aws_managed_policies_data

    policy = json.loads(aws_managed_policies_data).get(arn.rpartition("/")[2])
    if policy is None:
        raise TemplateError(
            f"the local stack does not know the managed policy {arn}; write its statements into the role"
        )
    document: Json = policy["Document"]
    return document


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]


@functools.cache
def _pattern(text: str) -> re.Pattern[str]:
    """IAM's wildcards: any characters and one character; brackets are themselves."""
    return re.compile("".join({"*": ".*", "?": "."}.get(letter, re.escape(letter)) for letter in text), re.DOTALL)


def _like(pattern: str, text: str) -> bool:
    return _pattern(pattern).fullmatch(text) is not None


_TESTS = {
    "ArnEquals": _like,  # the same as ArnLike, IAM's reference says
    "ArnLike": _like,
    "Bool": lambda wanted, value: str(wanted).lower() == value.lower(),
    "StringEquals": lambda wanted, value: wanted == value,
    "StringLike": _like,
}


def _holds(conditions: Mapping[str, Any], context: Context) -> bool:
    for written, keys in conditions.items():
        quantifier, _, operator = written.rpartition(":")
        if operator not in _TESTS or quantifier not in {"", "ForAllValues", "ForAnyValue"}:
            raise TemplateError(f"the local stack does not know the condition {written}; add it to permissions.py")
        for key, wanted in keys.items():
            values = (_ALWAYS | context).get(key.lower(), ())
            passed = [any(_TESTS[operator](one, value) for one in _list(wanted)) for value in values]
            # ForAllValues holds of nothing at all; a plain condition on a key that is not there does not.
            if not (any(passed) if quantifier == "ForAnyValue" else all(passed) and (passed or quantifier)):
                return False
    return True
