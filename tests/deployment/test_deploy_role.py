"""The roles with which a workflow deploys, and their boundary: sufficient for CloudFormation, and nothing else."""

import json
import re
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from stoppress_cli.local import permissions, template
from stoppress_cli.local.permissions import Ask, Context
from stoppress_cli.local.template import parse_yaml
from tests.docs.pages import ROOT, text_of

pytestmark = pytest.mark.deployed

REGION = "eu-west-1"
STACK = template.load(ROOT / "template.yaml")
DOCUMENT = parse_yaml(text_of(".github/deploy-role.yaml"))

# Permissions of CloudFormation that the stack does not need, and the resources of each type.
TABLES = tomllib.loads(Path(__file__).with_suffix(".toml").read_text(encoding="utf-8"))
NOT_NEEDED: dict[str, str] = TABLES["not_needed"]
REACHED: dict[str, list[str]] = TABLES["reached"]

ACCOUNT = "123456789012"
DEPLOYED = "news"  # the stack's name in these tests


def arn(service: str, rest: str, region: str = REGION) -> str:
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{rest}"


BOUNDARY = arn("iam", f"policy/{DEPLOYED}-boundary-production", "")
ROLE_OF_A_FUNCTION = arn("iam", f"role/{DEPLOYED}-PollFeedsRole-AbCdEf123456", "")
SAM_ARTIFACT = "arn:aws:s3:::aws-sam-cli-managed-default-samclisourcebucket-abcdef/news/0123abcd"
# Actions without a resource in the Service Authorization Reference; calls that list are also on every resource.
NO_RESOURCE = {
    "cloudwatch:DescribeAlarms",
    *(f"lambda:{step}EventSourceMapping" for step in ("Create", "Update", "Delete")),  # limited by lambda:FunctionArn
    *(f"logs:{action}" for action in ("CreateLogDelivery", "PutResourcePolicy", "DescribeIndexPolicies")),
    *(f"logs:{action}" for action in ("DescribeLogGroups", "DescribeResourcePolicies")),
    "secretsmanager:GetRandomPassword",
    *(f"sns:{action}" for action in ("GetSubscriptionAttributes", "SetSubscriptionAttributes", "Unsubscribe")),
}
CONTEXT: dict[str, list[dict[str, tuple[str, ...]]]] = {
    "AWS::IAM::Role": [{"iam:permissionsboundary": (BOUNDARY,)}],
    "AWS::Lambda::EventSourceMapping": [
        {"lambda:functionarn": (arn("lambda", f"function:{DEPLOYED}-RecordArticle-Ab"),)}
    ],
    "AWS::Lambda::Function": [{"iam:passedtoservice": ("lambda.amazonaws.com",)}],
    "AWS::Lambda::Permission": [
        {"lambda:principal": (resource["Properties"]["Principal"],)}
        for resource in STACK.resources.values()
        if resource["Type"] == "AWS::Lambda::Permission"
    ],
    "AWS::Scheduler::Schedule": [{"iam:passedtoservice": ("scheduler.amazonaws.com",)}],
}


def resolve_subs(value: Any, stack: str) -> Any:
    """Return a part of the role's template with Fn::Sub resolved."""
    names = {"AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "StackName": stack}
    match value:
        case {"Ref": "Boundary"}:
            return arn("iam", f"policy/{stack}-boundary-production", "")
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{(.*?)\}", lambda match: names[match[1]], text)
        case dict():
            return {key: resolve_subs(child, stack) for key, child in value.items()}
        case list():
            return [resolve_subs(child, stack) for child in value]
    return value


@cache
def role_policies(stack: str, name: str = "Role") -> list[dict[str, Any]]:
    role = DOCUMENT["Resources"][name]["Properties"]
    return [resolve_subs(policy["PolicyDocument"], stack) for policy in role["Policies"]]


def role_may(ask: Ask, stack: str = DEPLOYED, name: str = "Role") -> bool:
    policies = role_policies(stack, name)
    return permissions.allowed(ask, [statement for policy in policies for statement in permissions.statements(policy)])


def calls_of_cloudformation() -> Iterator[tuple[str, Ask]]:
    """Yield CloudFormation's calls for each type of the stack's resources, by the provider's schema."""
    for kind in sorted({resource["Type"] for resource in STACK.resources.values()}):
        handlers = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema.get("handlers", {})
        actions = {
            action
            for step in ("create", "read", "update", "delete")
            for action in handlers.get(step, {}).get("permissions", [])
        }
        for action in sorted(actions):
            reached = REACHED[kind]
            if action in NO_RESOURCE:
                reached = ["*"]
            elif action.startswith("iam:"):
                reached = [ROLE_OF_A_FUNCTION]
            elif action.startswith("s3:GetObject"):
                reached = [SAM_ARTIFACT]
            for resource in reached:
                for context in CONTEXT.get(kind, [{}]):
                    yield kind, Ask(action, resource, context)


INSIDE: Context = {"iam:permissionsboundary": (BOUNDARY,)}
FOREIGN_BOUNDARY: Context = {"iam:permissionsboundary": (arn("iam", "policy/news-of-mine", ""),)}
BY_LAMBDA: Context = {"iam:passedtoservice": ("lambda.amazonaws.com",)}
ADMINISTRATOR: Context = {"iam:policyarn": ("arn:aws:iam::aws:policy/AdministratorAccess",)}
FOREIGN_ROLE = arn("iam", "role/Administrators", "")
ITSELF = arn("iam", f"role/{DEPLOYED}-deploys-production", "")
STACK_ID = arn("cloudformation", f"stack/{DEPLOYED}/0a1b2c3d")


def excuses(kind: str, ask: Ask) -> set[str]:
    """Return the patterns of NOT_NEEDED that match a call."""
    kind = kind.removeprefix("AWS::")
    patterns = " ".join(NOT_NEEDED.values()).split()
    return {text for text in patterns if fnmatchcase(f"{kind}/{ask.action}", text if "/" in text else f"*/{text}")}


def test_the_role_may_do_what_cloudformation_does_to_the_stack() -> None:
    asks = [(kind, ask, excuses(kind, ask), role_may(ask)) for kind, ask in calls_of_cloudformation()]

    assert [f"{kind}: {ask}" for kind, ask, hits, allowed in asks if not (allowed or hits)] == []
    assert [f"{kind}: {ask}" for kind, ask, hits, allowed in asks if allowed and hits] == [], "allowed, not needed"
    assert set(" ".join(NOT_NEEDED.values()).split()) == set().union(*(hits for _, _, hits, _ in asks)), "never used"


THE_OTHER_FUNCTION: dict[str, tuple[str, ...]] = {"lambda:functionarn": (arn("lambda", "function:shop-Pay-AbCdEf"),)}
REFUSED = [
    # data of the stack, which the role does not itself read, send or call
    *(
        Ask(f"dynamodb:{action}", REACHED["AWS::DynamoDB::Table"][0])
        for action in ("GetItem", "Scan", "PutResourcePolicy")
    ),
    *(Ask(f"s3:{action}", f"arn:aws:s3:::{DEPLOYED}-bucket-abcdef/f.xml") for action in ("GetObject", "PutObject")),
    *(Ask(f"s3:{action}", REACHED["AWS::S3::Bucket"][0]) for action in ("PutBucketAcl", "PutReplicationConfiguration")),
    Ask("s3:PutObject", SAM_ARTIFACT.replace(f"/{DEPLOYED}/", "/shop/")),
    Ask("secretsmanager:GetSecretValue", REACHED["AWS::SecretsManager::Secret"][0]),
    Ask("lambda:InvokeFunction", REACHED["AWS::Lambda::Function"][0]),
    Ask("lambda:AddPermission", REACHED["AWS::Lambda::Function"][0], {"lambda:principal": ("210987654321",)}),
    Ask("lambda:CreateEventSourceMapping", "*", THE_OTHER_FUNCTION),
    *(Ask(f"logs:{action}", REACHED["AWS::Logs::LogGroup"][0]) for action in ("FilterLogEvents", "StartQuery")),
    *(Ask(f"sqs:{action}", REACHED["AWS::SQS::Queue"][0]) for action in ("ReceiveMessage", "SendMessage")),
    Ask("events:PutEvents", REACHED["AWS::Events::EventBus"][0]),
    Ask("sns:Publish", REACHED["AWS::SNS::Topic"][0]),
    Ask("iam:PassRole", ROLE_OF_A_FUNCTION, {"iam:passedtoservice": ("ec2.amazonaws.com",)}),
    Ask("cloudfront:UpdateFunction", arn("cloudfront", "function/shop-eu-west-1", "")),
    Ask("lambda:UpdateFunctionCode", arn("lambda", "function:shop-Pay-AbCdEf")),
    # an administrator: by a policy of AWS, or by a role outside of the stack's names
    Ask("iam:AttachRolePolicy", ROLE_OF_A_FUNCTION, ADMINISTRATOR),
    Ask("iam:AttachRolePolicy", ROLE_OF_A_FUNCTION, ADMINISTRATOR | INSIDE),
    Ask("iam:CreateRole", FOREIGN_ROLE, INSIDE),
    Ask("iam:PutRolePolicy", FOREIGN_ROLE, INSIDE),
    Ask("iam:CreateUser", arn("iam", "user/news-me", "")),
    Ask("iam:CreateAccessKey", arn("iam", "user/editor", "")),
    # the boundary: removed, or widened
    Ask("iam:DeleteRolePermissionsBoundary", ROLE_OF_A_FUNCTION, INSIDE),
    *(
        Ask(f"iam:{action}", BOUNDARY)
        for action in ("CreatePolicyVersion", "SetDefaultPolicyVersion", "DeletePolicy", "DeletePolicyVersion")
    ),
    Ask("iam:CreatePolicy", arn("iam", f"policy/{DEPLOYED}-mine", "")),
    # a foreign role: passed to a function, or opened to others
    Ask("iam:PassRole", FOREIGN_ROLE, BY_LAMBDA),
    Ask("iam:PassRole", ITSELF, BY_LAMBDA),
    Ask("iam:PassRole", ROLE_OF_A_FUNCTION, {"iam:passedtoservice": ("cloudformation.amazonaws.com",)}),
    *(Ask("iam:UpdateAssumeRolePolicy", role) for role in (FOREIGN_ROLE, ROLE_OF_A_FUNCTION, ITSELF)),
    Ask("sts:AssumeRole", FOREIGN_ROLE),
    # itself
    *(Ask(f"iam:{action}", ITSELF, INSIDE) for action in ("PutRolePolicy", "AttachRolePolicy", "DeleteRole")),
    # data that people entered
    Ask("dynamodb:DeleteTable", REACHED["AWS::DynamoDB::Table"][0]),
    Ask("s3:DeleteBucket", REACHED["AWS::S3::Bucket"][0]),
    Ask("secretsmanager:DeleteSecret", REACHED["AWS::SecretsManager::Secret"][0]),
    # changes without an approval
    *(
        Ask(f"cloudformation:{action}", STACK_ID)
        for action in ("CreateChangeSet", "UpdateStack", "SetStackPolicy", "DeleteStack")
    ),
    Ask("s3:PutObject", SAM_ARTIFACT),
]


@pytest.mark.parametrize("ask", REFUSED, ids=str)
def test_the_deploy_role_reads_nothing_and_cannot_escalate(ask: Ask) -> None:
    assert not role_may(ask)
    assert not role_may(ask, name="PlanRole") or ask.action in {"cloudformation:CreateChangeSet", "s3:PutObject"}


@pytest.mark.parametrize("environment", ["staging", "production"])
@pytest.mark.parametrize("stack", [DEPLOYED, f"{DEPLOYED}-staging", "shop"])
def test_the_role_changes_no_role_that_deploys(stack: str, environment: str) -> None:
    deploying = arn("iam", f"role/{stack}-deploys-{environment}", "")

    for action in ("CreateRole", "DeleteRole", "PutRolePolicy", "UpdateAssumeRolePolicy", "AttachRolePolicy"):
        assert not role_may(Ask(f"iam:{action}", deploying)), action
    assert not role_may(Ask("iam:PassRole", deploying, {"iam:passedtoservice": ("lambda.amazonaws.com",)}))


def test_the_role_of_staging_does_not_reach_production() -> None:
    # The reverse is allowed, because names are compared by their prefix (docs/how-to/github.md).
    def tables(stack: str) -> Ask:
        return Ask("dynamodb:UpdateTable", arn("dynamodb", f"table/{stack}-Table-ABCDEF"))

    assert not role_may(tables("stoppress"), stack="stoppress-staging")
    assert role_may(tables("stoppress-staging"), stack="stoppress")


@pytest.mark.parametrize(("name", "most"), [("Role", 10_240), ("PlanRole", 10_240), ("Boundary", 6_144)])
def test_a_policy_fits_into_the_quota_of_iam_without_white_space(name: str, most: int) -> None:
    properties = DOCUMENT["Resources"][name]["Properties"]
    documents = [policy["PolicyDocument"] for policy in properties.get("Policies", [properties])]
    texts = [json.dumps(resolve_subs(document, "a" * 31), separators=(",", ":")) for document in documents]

    assert sum(map(len, texts)) <= most


def test_the_deploy_role_allows_no_whole_service_on_all_resources() -> None:
    for statement in (statement for policy in role_policies(DEPLOYED) for statement in policy["Statement"]):
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        if statement["Effect"] == "Allow":
            assert statement["Resource"] != "*" or not any("*" in action for action in actions), statement["Sid"]
            # Resource limits apigateway:* to an API's paths.
            assert not [name for name in actions if name.endswith(":*") and name != "apigateway:*"], statement["Sid"]


def test_each_role_is_trusted_to_jobs_of_its_environment_only() -> None:
    issuer = "token.actions.githubusercontent.com"
    for name, suffix in (("Role", ""), ("PlanRole", "-plan")):
        [trust] = DOCUMENT["Resources"][name]["Properties"]["AssumeRolePolicyDocument"]["Statement"]
        subject = {"Fn::Sub": f"repo:${{Repository}}:environment:${{Environment}}{suffix}"}
        assert trust["Condition"]["StringEquals"] == {f"{issuer}:sub": subject, f"{issuer}:aud": "sts.amazonaws.com"}


@pytest.mark.parametrize(
    ("repository", "taken"),
    [
        ("example/stoppress", True),
        ("example@123456/stoppress@456789", True),
        ("editor_example/stoppress.news_1", True),  # enterprise-managed users have the enterprise after an underscore
        ("example", False),
        ("example/*", False),
        ("example/stoppress:environment:staging", False),
    ],
)
def test_the_role_accepts_a_repository_as_github_spells_it(repository: str, *, taken: bool) -> None:
    pattern = DOCUMENT["Parameters"]["Repository"]["AllowedPattern"]

    assert bool(re.fullmatch(pattern, repository)) is taken


@pytest.mark.parametrize("action", ["CreateRole", "PutRolePolicy", "PutRolePermissionsBoundary", "DeleteRolePolicy"])
@pytest.mark.parametrize(
    ("context", "expected"), [(INSIDE, True), ({}, False), (FOREIGN_BOUNDARY, False)], ids=["inside", "none", "foreign"]
)
def test_a_role_is_made_and_changed_only_inside_the_boundary(action: str, context: Context, *, expected: bool) -> None:
    assert role_may(Ask(f"iam:{action}", ROLE_OF_A_FUNCTION, context)) is expected


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


def test_the_deploy_role_deletes_only_the_secrets_that_parameters_create() -> None:
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
