"""The boundary of the stack's roles, which the deploying role cannot leave: it allows the roles' permissions and nothing else."""

from functools import cache

import pytest

from stoppress_cli.local import permissions, resources, template
from stoppress_cli.local.permissions import Ask, Statement
from stoppress_cli.local.template import WITH_ALL
from tests.deployment.test_deploy_role import BOUNDARY, DEPLOYED, DOCUMENT, FOREIGN_ROLE, arn, resolve_subs
from tests.docs.pages import ROOT

pytestmark = pytest.mark.deployed

# Every part that a parameter adds, with its role and its grants.
EVERYTHING = {**WITH_ALL, "ReaderDistributionArns": arn("cloudfront", "distribution/E1", "")}


@cache
def boundary(stack: str) -> tuple[Statement, ...]:
    policy = DOCUMENT["Resources"]["Boundary"]["Properties"]["PolicyDocument"]
    return tuple(permissions.statements(resolve_subs(policy, stack)))


def test_every_role_of_the_stack_has_the_given_boundary() -> None:
    stack = resources.resolve(
        template.load(ROOT / "template.yaml", {"PermissionsBoundaryArn": BOUNDARY, **EVERYTHING}), DEPLOYED
    )
    roles = {role.logical: role.properties for role in stack if role.type == "AWS::IAM::Role"}

    assert len(roles) == 15  # one for each function, one that SAM creates for each schedule
    assert {properties.get("PermissionsBoundary") for properties in roles.values()} == {BOUNDARY}


def test_without_the_parameter_no_role_has_a_boundary() -> None:
    stack = resources.resolve(template.load(ROOT / "template.yaml"), DEPLOYED)

    assert not [resource.logical for resource in stack if "PermissionsBoundary" in resource.properties]


def grants() -> list[tuple[str, Ask]]:
    """Return each action that a role of the stack is allowed, on each of its resources."""
    stack = resources.resolve(template.load(ROOT / "template.yaml", EVERYTHING), DEPLOYED)
    return [
        (role.logical, Ask(action, resource))
        for role in stack
        if role.type == "AWS::IAM::Role"
        for policy in role.properties["Policies"]
        for statement in permissions.statements(policy["PolicyDocument"])
        if statement.allows
        for action in statement.actions
        for resource in statement.resources
    ]


def test_the_boundary_allows_what_the_roles_of_the_stack_allow() -> None:
    granted = grants()

    assert len({role for role, _ in granted}) == 15
    # A grant's wildcard has to be covered by one of the boundary, which matching it as text shows.
    assert [(role, str(ask)) for role, ask in granted if not permissions.allowed(ask, boundary(DEPLOYED))] == []


def test_the_boundary_allows_no_action_that_no_role_of_the_stack_has() -> None:
    used = {ask.action for _, ask in grants()}

    assert {action for statement in boundary(DEPLOYED) for action in statement.actions} == used


@pytest.mark.parametrize(
    "ask",
    [
        Ask("iam:CreateUser", arn("iam", "user/me", "")),
        Ask("sts:AssumeRole", FOREIGN_ROLE),
        Ask("dynamodb:GetItem", arn("dynamodb", "table/shop-Orders")),
        Ask("s3:GetObject", "arn:aws:s3:::shop-orders/1.json"),
        Ask("secretsmanager:GetSecretValue", arn("secretsmanager", "secret:stoppress/shop/cms-AbCdEf")),
        Ask("lambda:InvokeFunction", arn("lambda", "function:shop-Pay")),
    ],
    ids=str,
)
def test_a_role_with_every_permission_stays_within_the_boundary(ask: Ask) -> None:
    assert not permissions.allowed(ask, boundary(DEPLOYED))
