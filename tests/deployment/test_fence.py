"""The permissions boundary: the deploy role cannot leave it, and what is deployed has room inside it."""

import json
import re
from functools import cache

import pytest

from stoppress_cli.local import permissions, resources, template
from stoppress_cli.local.permissions import Ask, Context, Statement
from stoppress_cli.local.template import WITH_ALL, parse_yaml
from tests.deployment.test_deployment import (
    BOUNDARY,
    DEPLOYED,
    REACHED,
    ROLE_OF_A_FUNCTION,
    ROOT,
    WHAT_SAM_BUILT,
    arn,
    role_may,
    written_out,
)
from tests.docs.pages import text_of

pytestmark = pytest.mark.deployed

TEMPLATE = ROOT / "template.yaml"
INSIDE: Context = {"iam:permissionsboundary": (BOUNDARY,)}
FOREIGN_BOUNDARY: Context = {"iam:permissionsboundary": (arn("iam", "policy/news-of-mine", ""),)}
BY_LAMBDA: Context = {"iam:passedtoservice": ("lambda.amazonaws.com",)}
ADMINISTRATOR: Context = {"iam:policyarn": ("arn:aws:iam::aws:policy/AdministratorAccess",)}
FOREIGN_ROLE = arn("iam", "role/Administrators", "")
ITSELF = arn("iam", f"role/{DEPLOYED}-deploys-production", "")
# Every part that a parameter adds, with its role and its grants.
EVERYTHING = {**WITH_ALL, "ReaderDistributionArns": arn("cloudfront", "distribution/E1", "")}
STACK_ID = arn("cloudformation", f"stack/{DEPLOYED}/0a1b2c3d")


@cache
def boundary(stack: str) -> tuple[Statement, ...]:
    policy = parse_yaml(text_of(".github/deploy-role.yaml"))["Resources"]["Boundary"]["Properties"]["PolicyDocument"]
    return tuple(permissions.statements(written_out(policy, stack)))


@pytest.mark.parametrize("action", ["CreateRole", "PutRolePolicy", "PutRolePermissionsBoundary", "DeleteRolePolicy"])
@pytest.mark.parametrize(
    ("context", "expected"), [(INSIDE, True), ({}, False), (FOREIGN_BOUNDARY, False)], ids=["inside", "none", "foreign"]
)
def test_a_role_is_made_and_changed_only_inside_the_boundary(action: str, context: Context, *, expected: bool) -> None:
    assert role_may(Ask(f"iam:{action}", ROLE_OF_A_FUNCTION, context)) is expected


ESCALATIONS = [
    # an administrator: by a policy of AWS, or by a role outside of the stack's names
    Ask("iam:AttachRolePolicy", ROLE_OF_A_FUNCTION, ADMINISTRATOR),
    Ask("iam:AttachRolePolicy", ROLE_OF_A_FUNCTION, ADMINISTRATOR | INSIDE),
    Ask("iam:CreateRole", FOREIGN_ROLE, INSIDE),
    Ask("iam:PutRolePolicy", FOREIGN_ROLE, INSIDE),
    Ask("iam:CreateUser", arn("iam", "user/news-me", "")),
    Ask("iam:CreateAccessKey", arn("iam", "user/editor", "")),
    # the boundary: taken off, or widened
    Ask("iam:DeleteRolePermissionsBoundary", ROLE_OF_A_FUNCTION, INSIDE),
    *(
        Ask(f"iam:{action}", BOUNDARY)
        for action in ("CreatePolicyVersion", "SetDefaultPolicyVersion", "DeletePolicy", "DeletePolicyVersion")
    ),
    Ask("iam:CreatePolicy", arn("iam", f"policy/{DEPLOYED}-mine", "")),
    # somebody else's role: passed to a function, or opened to others
    Ask("iam:PassRole", FOREIGN_ROLE, BY_LAMBDA),
    Ask("iam:PassRole", ITSELF, BY_LAMBDA),
    Ask("iam:PassRole", ROLE_OF_A_FUNCTION, {"iam:passedtoservice": ("cloudformation.amazonaws.com",)}),
    *(Ask("iam:UpdateAssumeRolePolicy", role) for role in (FOREIGN_ROLE, ROLE_OF_A_FUNCTION, ITSELF)),
    Ask("sts:AssumeRole", FOREIGN_ROLE),
    # itself
    *(Ask(f"iam:{action}", ITSELF, INSIDE) for action in ("PutRolePolicy", "AttachRolePolicy", "DeleteRole")),
    # what people wrote
    Ask("dynamodb:DeleteTable", REACHED["AWS::DynamoDB::Table"][0]),
    Ask("s3:DeleteBucket", REACHED["AWS::S3::Bucket"][0]),
    Ask("secretsmanager:DeleteSecret", REACHED["AWS::SecretsManager::Secret"][0]),
    # what nobody approved
    *(
        Ask(f"cloudformation:{action}", STACK_ID)
        for action in ("CreateChangeSet", "UpdateStack", "SetStackPolicy", "DeleteStack")
    ),
    Ask("s3:PutObject", WHAT_SAM_BUILT),
]


@pytest.mark.parametrize("ask", ESCALATIONS, ids=str)
def test_the_deploy_role_cannot_escalate(ask: Ask) -> None:
    assert not role_may(ask)
    assert not role_may(ask, name="PlanRole") or ask.action in {"cloudformation:CreateChangeSet", "s3:PutObject"}


@pytest.mark.parametrize(
    ("action", "role"),
    [
        ("CreateChangeSet", "PlanRole"),
        ("DescribeChangeSet", "PlanRole"),
        ("DescribeChangeSet", "Role"),
        ("ExecuteChangeSet", "Role"),
    ],
)
def test_one_role_plans_and_the_other_executes(action: str, role: str) -> None:
    other = {"PlanRole": "Role", "Role": "PlanRole"}[role]
    ask = Ask(f"cloudformation:{action}", STACK_ID)

    assert role_may(ask, name=role)
    assert role_may(ask, name=other) is (action == "DescribeChangeSet")


def test_the_deploy_role_deletes_the_secrets_that_parameters_make_and_no_other() -> None:
    made = {"websub": True, "page": True}
    names = made | {
        "webhooks/www.example.com/cms": False,
        "lists/www.example.com/websub": False,
        "engines/shared/page": False,
    }

    for name, may in names.items():
        secret = arn("secretsmanager", f"secret:stoppress/{DEPLOYED}/{name}-AbCdEf")
        assert role_may(Ask("secretsmanager:DeleteSecret", secret)) is may, name


def test_the_role_that_plans_changes_no_resource() -> None:
    reached = {resource for places in REACHED.values() for resource in places}
    changes = [
        Ask(action, resource)
        for action in ("lambda:UpdateFunctionCode", "dynamodb:DeleteTable", "s3:PutBucketPolicy", "sqs:DeleteQueue")
        for resource in reached
    ]

    assert not [ask for ask in changes if role_may(ask, name="PlanRole")]


def test_each_role_is_trusted_to_jobs_of_its_environment_only() -> None:
    roles = parse_yaml(text_of(".github/deploy-role.yaml"))["Resources"]
    subjects = {}
    for name in ("Role", "PlanRole"):
        [trust] = roles[name]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        subjects[name] = trust["Condition"]["StringEquals"]["token.actions.githubusercontent.com:sub"]["Fn::Sub"]

    assert subjects == {
        "Role": "repo:${Repository}:environment:${Environment}",
        "PlanRole": "repo:${Repository}:environment:${Environment}-plan",
    }


# ── the boundary and the stack ────────────────────────────────────────────────────────────────────────────────────────────


def test_every_role_of_the_stack_takes_the_boundary_that_it_is_given() -> None:
    stack = resources.resolve(template.load(TEMPLATE, {"PermissionsBoundaryArn": BOUNDARY, **EVERYTHING}), DEPLOYED)
    roles = {each.logical: each.properties for each in stack if each.type == "AWS::IAM::Role"}

    assert len(roles) == 15  # one for each function, one that SAM makes for each schedule
    assert {properties.get("PermissionsBoundary") for properties in roles.values()} == {BOUNDARY}


def test_without_a_boundary_no_role_names_one() -> None:
    stack = resources.resolve(template.load(TEMPLATE), DEPLOYED)

    assert not [each.logical for each in stack if "PermissionsBoundary" in each.properties]


def grants() -> list[tuple[str, Ask]]:
    """Each action that a role of the stack is allowed, on each of its resources."""
    stack = resources.resolve(template.load(TEMPLATE, EVERYTHING), DEPLOYED)
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


def test_the_boundary_leaves_room_for_what_the_roles_of_the_stack_allow() -> None:
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
def test_a_role_with_every_permission_still_does_not_leave_the_boundary(ask: Ask) -> None:
    assert not permissions.allowed(ask, boundary(DEPLOYED))


def test_the_boundary_fits_into_a_managed_policy() -> None:
    # IAM's quota: 6,144 characters without white space.
    policy = parse_yaml(text_of(".github/deploy-role.yaml"))["Resources"]["Boundary"]["Properties"]["PolicyDocument"]

    assert len(re.sub(r"\s", "", json.dumps(written_out(policy, "a" * 31)))) <= 6144
