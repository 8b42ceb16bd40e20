"""What is deployed, with what settings, and what the documents say of it."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import botocore.session
import jmespath
import pytest
from botocore import xform_name
from botocore.exceptions import UnknownServiceError
from botocore.model import ListShape, MapShape, Shape, StructureShape
from botocore.validate import validate_parameters
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER
from samtranslator.yaml_helper import yaml_parse

from stoppress_cli.local import permissions, template
from stoppress_cli.local.permissions import Ask

ROOT = Path(__file__).parents[1]
SOURCE: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text(encoding="utf-8"))
STACK = template.load(ROOT / "template.yaml")
CDN_RESOURCES = template.load(ROOT / "template-cdn.yaml").resources
TEMPLATES = ("template.yaml", "template-cdn.yaml")
SAMCONFIG: dict[str, Any] = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
ENVIRONMENTS = {name: table for name, table in SAMCONFIG.items() if isinstance(table, dict)}
WORKFLOWS = {path.name: path for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINTERS = ROOT / ".venv/linters"
REGION = "eu-west-1"


def text_of(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def table_rows(document: str, heading: str) -> list[list[str]]:
    """The cells of the Markdown table whose first line begins with `heading`."""
    _, found, rest = document.partition(f"\n{heading}")
    assert found, f"there is no table {heading}"
    lines = rest.partition("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines]


def schema(kind: str) -> dict[str, Any]:
    found: dict[str, Any] = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema
    return found


# ── what a new version must not replace ───────────────────────────────────────────────────────────────────────────────────

# CloudFormation knows a resource by its name in the template and by some properties. With another name, or one of those
# properties changed, the next deployment makes a new one and deletes the old, or orphans it where it is retained. For each:
# what a newsroom would lose, and the properties as they were first deployed.
STACK_NAME = "${AWS::StackName}"
KEPT: dict[str, tuple[str, dict[str, Any]]] = {
    "Table": ("every article, date and tombstone: the new one is empty, and all files become so", {}),
    "Bucket": ("the files, where the CDN looks for them", {}),
    "BucketPolicy": ("what lets a distribution read the files", {"Bucket": {"Ref": "Bucket"}}),
    "ArticlesQueue": ("articles that wait to be recorded", {}),
    "ArticlesDeadLetters": ("articles that wait for somebody to send them again", {}),
    "RewritesQueue": ("files that wait to be written again", {}),
    "RewritesDeadLetters": ("names of files that wait for somebody", {}),
    "Failures": ("what waits for somebody to read it", {}),
    "ArticlesBus": ("the bus that in-house services put events on", {"Name": {"Fn::Sub": f"{STACK_NAME}-articles"}}),
    "FirstSite": ("the first site", {"Name": {"Fn::Sub": f"/stoppress/{STACK_NAME}/sites/${{Host}}"}}),
    "FirstSecret": ("the secret that the CMS signs with", {"Name": {"Fn::Sub": f"stoppress/{STACK_NAME}/cms"}}),
    "WebSubSecret": ("what hubs know the feeds' callbacks by", {"Name": {"Fn::Sub": f"stoppress/{STACK_NAME}/websub"}}),
    "WebhookApi": ("the URL that the CMS posts to", {}),
    "Alarms": ("subscriptions of pagers and chats", {}),
    "Distribution": ("the address that a CDN or web server fetches from", {}),
}
KEEPING = {
    "AWS::ApiGatewayV2::Api",
    "AWS::CloudFront::Distribution",
    "AWS::DynamoDB::Table",
    "AWS::Events::EventBus",
    "AWS::S3::Bucket",
    "AWS::S3::BucketPolicy",
    "AWS::SNS::Topic",
    "AWS::SQS::Queue",
    "AWS::SSM::Parameter",
    "AWS::SecretsManager::Secret",
}


def test_what_keeps_something_is_called_as_it_was_first_deployed() -> None:
    both_stacks = {**STACK.resources, **CDN_RESOURCES}
    called = {name for name, resource in both_stacks.items() if resource["Type"] in KEEPING}

    assert not KEPT.keys() - called, "; ".join(f"without {name}: lost {KEPT[name][0]}" for name in KEPT.keys() - called)
    assert not called - KEPT.keys(), (
        "what is new here and keeps something has to stand in KEPT, so that it is never renamed"
    )


@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_something_is_not_replaced(name: str) -> None:
    resource = {**STACK.resources, **CDN_RESOURCES}[name]
    properties = resource.get("Properties", {})
    create_only = [path.split("/")[2] for path in schema(resource["Type"]).get("createOnlyProperties", [])]
    set_once = {key: properties[key] for key in create_only if key in properties}

    assert set_once == KEPT[name][1], f"CloudFormation would replace {name}: lost {KEPT[name][0]}"


def test_the_table_keeps_its_key() -> None:
    assert STACK.resources["Table"]["Properties"]["KeySchema"] == [
        {"AttributeName": "pk", "KeyType": "HASH"},
        {"AttributeName": "sk", "KeyType": "RANGE"},
    ]


def test_the_secret_is_not_generated_anew() -> None:
    # A change of how it is generated generates another, and every webhook is refused from then on.
    how = {"PasswordLength": 44, "ExcludePunctuation": True}

    assert STACK.resources["FirstSecret"]["Properties"]["GenerateSecretString"] == how


# ── parameters and samconfig.toml ─────────────────────────────────────────────────────────────────────────────────────────


@pytest.mark.parametrize("name", SOURCE["Parameters"])
def test_a_parameter_says_what_it_is_has_a_default_that_fits_and_tells_what_would(name: str) -> None:
    parameter = SOURCE["Parameters"][name]

    assert parameter["Description"].endswith(".")
    if pattern := parameter.get("AllowedPattern"):
        assert re.fullmatch(pattern, parameter["Default"])
        assert parameter["ConstraintDescription"]
    if values := parameter.get("AllowedValues"):
        assert parameter["Default"] in values


def test_the_guide_has_each_question_that_the_parameters_ask_in_their_order() -> None:
    # sam deploy --guided shows the names only.
    rows = table_rows(text_of("docs/deploying.md"), "| it asks | answer |")

    asked = [name for row in rows if (name := row[0].strip("`")) in SOURCE["Parameters"] or row[0].startswith("`")]
    assert [name.strip("`") for name in asked] == list(SOURCE["Parameters"])


def overrides(table: dict[str, Any]) -> list[str]:
    given = table.get("deploy", {}).get("parameters", {}).get("parameter_overrides", [])
    return [str(pair).partition("=")[0] for pair in (shlex.split(given) if isinstance(given, str) else given)]


def test_samconfig_gives_parameters_that_the_template_has_and_each_environment_a_stack_of_its_own() -> None:
    stacks = [table["global"]["parameters"]["stack_name"] for table in ENVIRONMENTS.values()]
    commented = re.findall(r'"(\w+)=', "\n".join(re.findall(r"^# .*", text_of("samconfig.toml"), re.MULTILINE)))

    assert len(set(stacks)) == len(stacks)
    # The role may put what was built under the stack's name only.
    assert [table["deploy"]["parameters"]["s3_prefix"] for table in ENVIRONMENTS.values()] == stacks
    assert {name for table in ENVIRONMENTS.values() for name in overrides(table)} | set(commented) <= set(
        SOURCE["Parameters"]
    )
    for table in ENVIRONMENTS.values():
        assert table["deploy"]["parameters"]["confirm_changeset"] is True


AS_SAM_READS_THEM = """
import json, sys
from samcli.cli.types import CfnParameterOverridesType
print(json.dumps([CfnParameterOverridesType().convert(said, None, None) for said in json.load(sys.stdin)]))
"""


def test_a_parameter_reaches_cloudformation_as_samconfig_has_it() -> None:
    # SAM cuts a value with a space in it short, without a word.
    python = ROOT / ".venv/sam/bin/python"
    if not python.exists():
        pytest.skip("the SAM CLI is not installed: make build installs it")
    everything = re.sub(r"^# (?=parameter_overrides)", "", text_of("samconfig.toml"), flags=re.MULTILINE)
    tables = [table for table in tomllib.loads(everything).values() if isinstance(table, dict)]
    said = [table["deploy"]["parameters"]["parameter_overrides"] for table in tables]

    asked = subprocess.run(  # noqa: S603 -- ours
        [python, "-c", AS_SAM_READS_THEM], input=json.dumps(said), check=True, capture_output=True, text=True
    )
    read = json.loads(asked.stdout)

    assert len(said) == len(ENVIRONMENTS)
    assert any(" " in pair for pairs in said for pair in pairs)
    for pairs, values in zip(said, read, strict=True):
        meant = {name: value.strip('"') for name, _, value in (pair.partition("=") for pair in pairs)}
        assert values == meant


@pytest.mark.parametrize("command", sorted({name for table in ENVIRONMENTS.values() for name in table} - {"global"}))
def test_samconfig_has_only_settings_that_sam_knows(command: str) -> None:
    # SAM passes over what it does not know without a word.
    own = ROOT / ".venv/sam/bin/sam"
    if not (sam := str(own) if own.exists() else shutil.which("sam")):
        pytest.skip("the SAM CLI is not installed: make build installs it")
    asked = subprocess.run([sam, command, "--help"], check=True, capture_output=True, text=True)  # noqa: S603 -- ours
    known = set(re.findall(r"--([a-z0-9-]+)", asked.stdout))
    settings = {key for table in ENVIRONMENTS.values() for key in table.get(command, {}).get("parameters", {})}

    assert {key.replace("_", "-") for key in settings} <= known


# ── the linter of security ────────────────────────────────────────────────────────────────────────────────────────────────

# What is planted, by the id of the rule that finds it.
PLANTED = {
    "CKV_AWS_53": ("BlockPublicAcls: true", "BlockPublicAcls: false"),
    "CKV_AWS_62": (
        "Action: events:PutEvents\n                Resource: !GetAtt ArticlesBus.Arn",
        'Action: "*"\n                Resource: "*"',
    ),
    "CKV2_STOPPRESS_1": ("SqsManagedSseEnabled: true", "SqsManagedSseEnabled: false"),
    # In a resource that stands under a condition that does not hold by default.
    "CKV_AWS_34": ("ViewerProtocolPolicy: https-only", "ViewerProtocolPolicy: allow-all"),
}
needs_linters = pytest.mark.skipif(
    not (LINTERS / "installed").exists(), reason="checkov is not installed: make lint installs it"
)


def lint(folder: Path) -> subprocess.CompletedProcess[str]:
    command = [ROOT / "scripts/lint-security", *(folder / name for name in TEMPLATES)]
    return subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 -- ours


@needs_linters
def test_the_linter_finds_what_is_planted(tmp_path: Path) -> None:
    texts = {name: text_of(name) for name in TEMPLATES}
    for good, bad in PLANTED.values():
        assert [name for name, text in texts.items() if good in text], good
        texts = {name: text.replace(good, bad) for name, text in texts.items()}
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    run = lint(tmp_path)

    assert run.returncode == 1
    assert PLANTED.keys() <= set(re.findall(r"^Check: (\w+):", run.stdout, re.MULTILINE)), run.stdout


@needs_linters
def test_no_finding_is_excused_that_is_none() -> None:
    run = lint(ROOT)
    excused = re.findall(r"# checkov:skip=", "".join(map(text_of, TEMPLATES)))

    assert run.returncode == 0, run.stdout
    assert f"Failed checks: 0, Skipped checks: {len(excused)}\n" in run.stdout


def test_whatever_the_linter_passes_over_has_its_reason() -> None:
    reasons = re.findall(r"# checkov:skip=\w+:?(.*)", "".join(map(text_of, TEMPLATES)))
    assert reasons
    assert all(len(reason.split()) > 5 for reason in reasons)

    lines = text_of("scripts/checkov.yaml").partition("skip-check:\n")[2].splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        assert line.startswith("  #") or above.startswith("  #"), (
            f"{line.strip()} in scripts/checkov.yaml has no reason"
        )


# ── workflows ─────────────────────────────────────────────────────────────────────────────────────────────────────────────


@cache
def workflow(name: str) -> dict[Any, Any]:
    read: dict[Any, Any] = yaml_parse(WORKFLOWS[name].read_text(encoding="utf-8"))
    return read


def jobs() -> Iterator[tuple[str, dict[str, Any]]]:
    for name in WORKFLOWS:
        for job, said in workflow(name)["jobs"].items():
            yield f"{name} {job}", said


def test_workflows_run_make_targets_and_scripts_that_exist() -> None:
    targets = set(re.findall(r"^([a-z]+):.*##", text_of("Makefile"), re.MULTILINE))
    commands = [step["run"] for _, job in jobs() for step in job["steps"] if "run" in step]
    made = {target for command in commands for target in re.findall(r"\bmake ([a-z]+)", command)}

    assert made
    assert made <= targets


def test_a_workflow_may_read_and_only_the_deployment_asks_for_a_token_of_aws() -> None:
    for name in WORKFLOWS:
        assert workflow(name)["permissions"] == {"contents": "read"}, name
    asking = {name: job["permissions"] for name, job in jobs() if "permissions" in job}

    assert asking == {"deploy.yml deploy": {"contents": "read", "id-token": "write"}}


def test_what_has_the_token_of_aws_installs_nothing_and_deploys_only_what_was_built() -> None:
    said = workflow("deploy.yml")["jobs"]
    commands = [step["run"] for step in said["deploy"]["steps"] if "run" in step]
    [kept] = [step["with"] for step in said["build"]["steps"] if "actions/upload-artifact" in step.get("uses", "")]
    [taken] = [step["with"] for step in said["deploy"]["steps"] if "actions/download-artifact" in step.get("uses", "")]

    # Everything of PyPI or a registry is run by the job that builds.
    assert not [line for line in commands if re.search(r"\b(make|pip|uv|npm|python3?|scripts|\.venv|curl)\b", line)]
    assert not [step for step in said["deploy"]["steps"] if "actions/setup-python" in step.get("uses", "")]
    assert taken["name"] == kept["name"]
    assert f"tar --extract --gzip --file {kept['path']}" in commands
    # Given a template, SAM looks for samconfig.toml beside it; given none, it takes .aws-sam/build/template.yaml.
    assert ".aws-sam/build" in next(
        step["run"] for step in said["build"]["steps"] if "tar --create" in step.get("run", "")
    )
    assert not [line for line in commands if "--template" in line]
    # A deployment waits up to thirty days for its reviewers.
    assert kept["retention-days"] >= 30


def test_no_workflow_has_a_secret_and_every_job_ends() -> None:
    for name, path in WORKFLOWS.items():
        assert "secrets." not in path.read_text(encoding="utf-8"), name
    for name, job in jobs():
        assert 0 < job["timeout-minutes"] <= 60, name


def test_actions_are_pinned_to_a_commit_and_say_which_version_that_is() -> None:
    used = re.findall(r"uses: (.*)", "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOWS.values()))

    assert used
    for line in used:
        assert re.fullmatch(r"[\w/-]+@[0-9a-f]{40} # v\d+\.\d+\.\d+", line), line
    assert len({line.partition("@")[0] for line in used}) == len(set(used)), "one action, one version"


def test_only_main_and_versions_are_deployed_one_at_a_time_into_an_environment_after_the_tests() -> None:
    deploy = workflow("deploy.yml")["jobs"]["deploy"]

    assert deploy["if"] == "github.ref == 'refs/heads/main' || startsWith(github.ref, 'refs/tags/v')"
    assert deploy["needs"] == ["test", "build"]
    assert workflow("deploy.yml")["jobs"]["build"]["if"] == deploy["if"]
    assert deploy["environment"]
    assert workflow("deploy.yml")["concurrency"]["cancel-in-progress"] is False


def test_what_a_deployment_can_be_told_stands_in_samconfig() -> None:
    deploy = workflow("deploy.yml")
    [step] = [step for step in deploy["jobs"]["deploy"]["steps"] if "CONFIG_ENV" in step.get("env", {})]
    choices = deploy[True]["workflow_dispatch"]["inputs"]["environment"]["options"]  # YAML 1.1 reads `on` as true

    assert set(re.findall(r"'(\w+)'", step["env"]["CONFIG_ENV"])) == ENVIRONMENTS.keys()
    assert sorted(choices) == sorted(
        yaml_parse(text_of(".github/deploy-role.yaml"))["Parameters"]["Environment"]["AllowedValues"]
    )


def test_tests_run_on_the_oldest_python_and_on_that_of_the_functions() -> None:
    versions = workflow("check.yml")["jobs"]["test"]["strategy"]["matrix"]["python"]
    oldest = re.search(r'requires-python = ">=([\d.]+)"', text_of("pyproject.toml"))
    runtime = SOURCE["Globals"]["Function"]["Runtime"].removeprefix("python")

    assert oldest
    assert versions == [oldest[1], runtime]
    for name, job in jobs():
        for step in job["steps"]:
            if "python-version" in step.get("with", {}) and "matrix" not in step["with"]["python-version"]:
                assert step["with"]["python-version"] == runtime, name


# ── the role that the workflow deploys with ───────────────────────────────────────────────────────────────────────────────

# What the providers' schemas ask for beyond what this stack has; by service, by action, or by type and action.
NOT_NEEDED = {
    **dict.fromkeys(["ec2", "elasticfilesystem", "s3files"], "no function is in a VPC or mounts anything"),
    **dict.fromkeys(["firehose", "kinesis"], "no stream of these"),
    "kms": "no key of ours",
    "s3tables": "no tables in S3",
    **{
        f"dynamodb:{action}": "no import, replica, policy, or copy of items"
        for action in (
            *("BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem", "ImportTable"),
            *("AssociateTableReplica", "CreateTableReplica"),
            *("DisableKinesisStreamingDestination", "EnableKinesisStreamingDestination"),
            *("UpdateKinesisStreamingDestination", "UpdateContributorInsights"),
            *("DeleteResourcePolicy", "PutResourcePolicy"),
        )
    },
    **{f"AWS::DynamoDB::Table {service}": "no import" for service in ("logs", "s3")},
    **{f"events:{action}": "no policy on the bus" for action in ("PutPermission", "RemovePermission")},
    **{
        f"iam:{action}": "policies are written in the roles, and there is no boundary"
        for action in (
            *("AttachRolePolicy", "DetachRolePolicy", "CreateServiceLinkedRole"),
            *("PutRolePermissionsBoundary", "DeleteRolePermissionsBoundary"),
        )
    },
    **{
        f"AWS::{kind} iam:PassRole": "nothing of this type is given a role"
        for kind in ("Events::Rule", "S3::Bucket", "SNS::Subscription", "SNS::Topic")
    },
    **{
        f"lambda:{action}": "no version, no reserved concurrency, no signing, runtime as Lambda chooses"
        for action in (
            *("AssociateRuntimeAlias", "DeleteFunctionCodeSigningConfig", "DeleteFunctionConcurrency"),
            *("PassCapacityProvider", "PublishVersion", "PutFunctionCodeSigningConfig", "PutFunctionConcurrency"),
            *("PutFunctionRecursionConfig", "PutFunctionScalingConfig", "PutRuntimeManagementConfig"),
        )
    },
    **{
        f"logs:{action}": "log groups with a retention and nothing else"
        for action in (
            *("AssociateKmsKey", "DisassociateKmsKey", "DeleteDataProtectionPolicy", "PutDataProtectionPolicy"),
            *("DeleteIndexPolicy", "PutIndexPolicy", "DeleteResourcePolicy"),
            *("PutBearerTokenAuthentication", "PutLogGroupDeletionProtection"),
        )
    },
    **{
        f"AWS::S3::Bucket s3:{action}": "no objects and no such feature"
        for action in (
            *("DeleteObject", "PutObjectAcl", "CreateBucketMetadataTableConfiguration"),
            *(f"UpdateBucketMetadata{kind}TableConfiguration" for kind in ("Annotation", "Inventory", "Journal")),
            *(f"DeleteBucket{what}" for what in ("Cors", "Encryption", "Lifecycle", "Replication", "Website")),
            *(f"DeleteBucket{what}Configuration" for what in ("Analytics", "MetadataTable", "Metrics")),
            *(f"PutBucket{what}" for what in ("Abac", "Acl", "CORS", "Logging", "Notification", "Replication")),
            *("PutBucketObjectLockConfiguration", "PutObjectLockConfiguration", "PutBucketWebsite"),
            *(
                f"Put{what}Configuration"
                for what in ("Accelerate", "Analytics", "IntelligentTiering", "Inventory", "Metrics", "Replication")
            ),
        )
    },
    "s3:GetObjectVersion": "what was built is taken as it is",
    "AWS::ApiGatewayV2::Api s3:getObject": "the API is written in the template",
    "AWS::Logs::LogGroup s3:REST.PUT.OBJECT": "no delivery of logs to S3",
    "secretsmanager:GetSecretValue": "the generated value is nobody's business",
    "secretsmanager:ReplicateSecretToRegions": "one region",
    "secretsmanager:RemoveRegionsFromReplication": "one region",
    **{f"sns:{action}": "no attributes" for action in ("SetSubscriptionAttributes", "PutDataProtectionPolicy")},
}

ACCOUNT = "123456789012"
DEPLOYED = "news"  # the stack's name where the role's reach is judged


def arn(service: str, rest: str, region: str = REGION) -> str:
    return f"arn:aws:{service}:{region}:{ACCOUNT}:{rest}"


ROLE_OF_A_FUNCTION = arn("iam", f"role/{DEPLOYED}-PollFeedsRole-AbCdEf123456", "")
WHAT_SAM_BUILT = "arn:aws:s3:::aws-sam-cli-managed-default-samclisourcebucket-abcdef/news/0123abcd"
# What CloudFormation calls a resource of the type, or AWS where it has a number.
REACHED: dict[str, list[str]] = {
    "AWS::ApiGatewayV2::Api": [f"arn:aws:apigateway:{REGION}::/apis", f"arn:aws:apigateway:{REGION}::/apis/a1b2c3"],
    "AWS::ApiGatewayV2::Stage": [f"arn:aws:apigateway:{REGION}::/apis/a1b2c3/stages"],
    "AWS::CloudWatch::Alarm": [arn("cloudwatch", f"alarm:{DEPLOYED}-FailuresAlarm-AbCdEf")],
    "AWS::DynamoDB::Table": [arn("dynamodb", f"table/{DEPLOYED}-Table-ABCDEF")],
    "AWS::Events::EventBus": [arn("events", f"event-bus/{DEPLOYED}-articles")],
    "AWS::Events::Rule": [
        arn("events", f"rule/{DEPLOYED}-RollWindowSiteChanged-AbCdEf"),
        arn("events", f"rule/{DEPLOYED}-articles/{DEPLOYED}-ArticleEventsRule-AbCdEf"),
    ],
    "AWS::IAM::Role": [ROLE_OF_A_FUNCTION],
    "AWS::Lambda::EventInvokeConfig": [arn("lambda", f"function:{DEPLOYED}-PollFeeds-AbCdEf")],
    "AWS::Lambda::EventSourceMapping": [arn("lambda", "event-source-mapping:0a1b2c3d")],
    "AWS::Lambda::Function": [arn("lambda", f"function:{DEPLOYED}-PollFeeds-AbCdEf")],
    "AWS::Lambda::LayerVersion": [
        arn("lambda", f"layer:{DEPLOYED}-shared"),
        arn("lambda", f"layer:{DEPLOYED}-shared:7"),
    ],
    "AWS::Lambda::Permission": [arn("lambda", f"function:{DEPLOYED}-ReceiveWebhook-AbCdEf")],
    "AWS::Logs::LogGroup": [arn("logs", f"log-group:{DEPLOYED}-PollFeedsLog-AbCdEf")],
    "AWS::S3::Bucket": [f"arn:aws:s3:::{DEPLOYED}-bucket-abcdef"],
    "AWS::S3::BucketPolicy": [f"arn:aws:s3:::{DEPLOYED}-bucket-abcdef"],
    "AWS::SNS::Subscription": [arn("sns", f"{DEPLOYED}-Alarms-AbCdEf")],
    "AWS::SNS::Topic": [arn("sns", f"{DEPLOYED}-Alarms-AbCdEf")],
    "AWS::SQS::Queue": [arn("sqs", f"{DEPLOYED}-Failures-AbCdEf")],
    "AWS::SQS::QueuePolicy": [arn("sqs", f"{DEPLOYED}-Failures-AbCdEf")],
    "AWS::SSM::Parameter": [arn("ssm", f"parameter/stoppress/{DEPLOYED}/sites/www.example.com")],
    "AWS::Scheduler::Schedule": [arn("scheduler", f"schedule/default/{DEPLOYED}-poll-feeds")],
    "AWS::SecretsManager::Secret": [arn("secretsmanager", f"secret:stoppress/{DEPLOYED}/cms-AbCdEf")],
}
# Where the Service Authorization Reference has no resource for an action; a call that lists is asked on everything as well.
NO_RESOURCE = {
    "cloudwatch:DescribeAlarms",
    *(f"lambda:{step}EventSourceMapping" for step in ("Create", "Update", "Delete")),  # held by lambda:FunctionArn
    *(f"logs:{action}" for action in ("CreateLogDelivery", "PutResourcePolicy", "DescribeIndexPolicies")),
    *(f"logs:{action}" for action in ("DescribeLogGroups", "DescribeResourcePolicies")),
    "secretsmanager:GetRandomPassword",
    *(f"sns:{action}" for action in ("GetSubscriptionAttributes", "SetSubscriptionAttributes", "Unsubscribe")),
}
CONTEXT: dict[str, list[dict[str, tuple[str, ...]]]] = {
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


def written_out(value: Any, stack: str) -> Any:
    """A part of the role's template, its Fn::Sub resolved."""
    names = {"AWS::Partition": "aws", "AWS::Region": REGION, "AWS::AccountId": ACCOUNT, "StackName": stack}
    match value:
        case {"Fn::Sub": str(text)}:
            return re.sub(r"\$\{(.*?)\}", lambda match: names[match[1]], text)
        case dict():
            return {key: written_out(one, stack) for key, one in value.items()}
        case list():
            return [written_out(one, stack) for one in value]
    return value


@cache
def role_policies(stack: str) -> list[dict[str, Any]]:
    role = yaml_parse(text_of(".github/deploy-role.yaml"))["Resources"]["Role"]["Properties"]
    return [written_out(policy["PolicyDocument"], stack) for policy in role["Policies"]]


def role_statements() -> list[dict[str, Any]]:
    return [statement for policy in role_policies(DEPLOYED) for statement in policy["Statement"]]


def role_may(ask: Ask, stack: str = DEPLOYED) -> bool:
    said = [statement for policy in role_policies(stack) for statement in permissions.statements(policy)]
    concerned = [statement for statement in said if statement.concerns(ask)]
    return bool(concerned) and all(statement.allows for statement in concerned)


def actions(statement: dict[str, Any]) -> list[str]:
    said = statement["Action"]
    return [said] if isinstance(said, str) else list(said)


def asked_of_the_role() -> Iterator[tuple[str, Ask]]:
    """What CloudFormation does to each type of the stack's resources, by the provider's schema."""
    for kind in sorted({resource["Type"] for resource in STACK.resources.values()}):
        handlers = schema(kind).get("handlers", {})
        said = {
            action
            for step in ("create", "read", "update", "delete")
            for action in handlers.get(step, {}).get("permissions", [])
        }
        for action in sorted(said):
            reached = REACHED[kind]
            if action in NO_RESOURCE:
                reached = ["*"]
            elif action.startswith("iam:"):
                reached = [ROLE_OF_A_FUNCTION]
            elif action.startswith("s3:GetObject"):
                reached = [WHAT_SAM_BUILT]
            for resource in reached:
                for context in CONTEXT.get(kind, [{}]):
                    yield kind, Ask(action, resource, context)


def excused(kind: str, ask: Ask) -> set[str]:
    service = ask.action.partition(":")[0]
    return {ask.action, service, f"{kind} {ask.action}", f"{kind} {service}"} & NOT_NEEDED.keys()


def test_the_role_may_do_what_cloudformation_does_to_the_stack() -> None:
    refused = [(kind, ask) for kind, ask in asked_of_the_role() if not role_may(ask)]

    assert [f"{kind}: {ask}" for kind, ask in refused if not excused(kind, ask)] == []
    assert NOT_NEEDED.keys() == set().union(*(excused(kind, ask) for kind, ask in refused)), "not even asked for"


THE_OTHER_FUNCTION: dict[str, tuple[str, ...]] = {"lambda:functionarn": (arn("lambda", "function:shop-Pay-AbCdEf"),)}
BEYOND = [
    *(
        Ask(f"dynamodb:{action}", REACHED["AWS::DynamoDB::Table"][0])
        for action in ("GetItem", "Scan", "PutResourcePolicy")
    ),
    *(Ask(f"s3:{action}", f"arn:aws:s3:::{DEPLOYED}-bucket-abcdef/f.xml") for action in ("GetObject", "PutObject")),
    *(Ask(f"s3:{action}", REACHED["AWS::S3::Bucket"][0]) for action in ("PutBucketAcl", "PutReplicationConfiguration")),
    Ask("s3:PutObject", WHAT_SAM_BUILT.replace(f"/{DEPLOYED}/", "/shop/")),
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
]


@pytest.mark.parametrize("ask", BEYOND, ids=str)
def test_the_role_may_not_itself_read_or_send_what_the_stack_keeps(ask: Ask) -> None:
    assert not role_may(ask)


@pytest.mark.parametrize("environment", ["staging", "production"])
@pytest.mark.parametrize("stack", [DEPLOYED, f"{DEPLOYED}-staging", "shop"])
def test_the_role_changes_no_role_that_deploys(stack: str, environment: str) -> None:
    deploying = arn("iam", f"role/{stack}-deploys-{environment}", "")

    for action in ("CreateRole", "DeleteRole", "PutRolePolicy", "UpdateAssumeRolePolicy", "AttachRolePolicy"):
        assert not role_may(Ask(f"iam:{action}", deploying)), action
    assert not role_may(Ask("iam:PassRole", deploying, {"iam:passedtoservice": ("lambda.amazonaws.com",)}))


def test_the_role_of_staging_does_not_reach_production() -> None:
    # The other way it does, since names are compared from their beginning: docs/deploying.md says so.
    def tables(stack: str) -> Ask:
        return Ask("dynamodb:DeleteTable", arn("dynamodb", f"table/{stack}-Table-ABCDEF"))

    assert not role_may(tables("stoppress"), stack="stoppress-staging")
    assert role_may(tables("stoppress-staging"), stack="stoppress")


def test_the_policies_of_the_role_fit_into_it() -> None:
    # "Aggregate policy size", without white space: IAM's quotas for inline policies of a role.
    longest = "a" * 31
    size = sum(len(json.dumps(policy, separators=(",", ":"))) for policy in role_policies(longest))

    assert size <= 10_240


def test_the_role_is_given_to_one_environment_only_and_takes_nothing_by_wildcard_that_keeps_something() -> None:
    role = yaml_parse(text_of(".github/deploy-role.yaml"))["Resources"]["Role"]["Properties"]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    conditions = trust["Condition"]["StringEquals"]

    assert conditions["token.actions.githubusercontent.com:sub"] == {
        "Fn::Sub": "repo:${Repository}:environment:${Environment}"
    }
    assert conditions["token.actions.githubusercontent.com:aud"] == "sts.amazonaws.com"
    for statement in (statement for statement in role_statements() if statement["Effect"] == "Allow"):
        if statement["Resource"] == "*":
            assert not any("*" in action for action in actions(statement)), statement["Sid"]
        for action in actions(statement):
            # An API's paths are all that Resource leaves of apigateway:*.
            assert not action.endswith(":*") or action == "apigateway:*", statement["Sid"]


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
def test_the_role_takes_a_repository_as_github_names_it(repository: str, *, taken: bool) -> None:
    pattern = yaml_parse(text_of(".github/deploy-role.yaml"))["Parameters"]["Repository"]["AllowedPattern"]

    assert bool(re.fullmatch(pattern, repository)) is taken


def test_the_guide_has_a_command_for_the_role_of_each_environment_and_they_do_not_collide() -> None:
    template_of_role = yaml_parse(text_of(".github/deploy-role.yaml"))
    made = [shlex.split(command) for _, command in aws_commands() if command.startswith("cloudformation create-stack")]
    stacks = [words[words.index("--stack-name") + 1] for words in made]
    given = [dict(re.findall(r"ParameterKey=(\w+),ParameterValue=(\S+)", " ".join(words))) for words in made]

    assert len(set(stacks)) == len(stacks) == len(ENVIRONMENTS)
    assert {one.get("Environment", "production") for one in given} == set(
        template_of_role["Parameters"]["Environment"]["AllowedValues"]
    )
    assert {one["StackName"] for one in given} == {
        table["global"]["parameters"]["stack_name"] for table in ENVIRONMENTS.values()
    }
    # An account has one provider for GitHub: the first makes it.
    assert ["ProviderArn" in one for one in given] == [False, *[True] * (len(given) - 1)]
    for one in given:
        for name, value in one.items():
            parameter = template_of_role["Parameters"][name]
            assert re.fullmatch(parameter.get("AllowedPattern", ".*"), value), f"{name}={value}"
            assert value in parameter.get("AllowedValues", [value]), f"{name}={value}"


# ── names that grow with the stack's ──────────────────────────────────────────────────────────────────────────────────────


def longest_name(service: str, operation: str) -> int:
    shape = botocore.session.get_session().get_service_model(service).operation_model(operation).input_shape
    assert shape
    return int(shape.members["Name"].metadata["max"])


def test_the_guides_say_how_long_a_stack_name_may_be() -> None:
    region = max(botocore.session.get_session().get_available_regions("lambda"), key=len)
    limits = {
        "AWS::CloudFront::Function": longest_name("cloudfront", "CreateFunction"),
        "AWS::Scheduler::Schedule": longest_name("scheduler", "CreateSchedule"),
    }
    left: dict[str, int] = {}
    for resource in (*STACK.resources.values(), *CDN_RESOURCES.values()):
        if (kind := resource["Type"]) in limits:
            name = resource["Properties"]["Name"]["Fn::Sub"].replace("${AWS::Region}", region)
            rest = limits[kind] - len(name.replace(STACK_NAME, ""))
            left[kind] = min(rest, left.get(kind, rest))

    assert f"at most {left['AWS::Scheduler::Schedule']} characters" in text_of("docs/deploying.md")
    assert f"at most {left['AWS::CloudFront::Function']} characters" in text_of("docs/serving.md")


# ── the commands in the documents ─────────────────────────────────────────────────────────────────────────────────────────

# Options of the CLI itself, and how many words follow.
GLOBAL_OPTIONS = {"--endpoint-url": 1, "--region": 1, "--query": 1, "--output": 1, "--profile": 1, "--no-cli-pager": 0}
# What the CLI does by itself, not an operation of the service.
OF_THE_CLI = {("s3", "ls"), ("s3", "rm"), ("s3", "cp"), ("s3", "sync"), ("cloudformation", "deploy")}
SIMPLE = {"integer": int, "long": int, "float": float, "double": float}


def aws_commands() -> list[tuple[str, str]]:
    """Each aws command of the documents, with where it stands; a line that ends in a backslash goes on."""
    code = re.compile(r"```sh\n(.*?)```|`((?:[A-Z_]+=\S+ )*aws [^`\n]+)`", re.DOTALL)
    return [
        (path.name, match[1])
        for path in DOCUMENTS
        for block in code.findall(path.read_text(encoding="utf-8"))
        for line in "".join(block).replace("\\\n", " ").splitlines()
        if (match := re.match(r"\s*(?:[A-Z_]+=\S+ )*aws (.*)", line))
    ]


def from_words(shape: Shape, words: list[str], where: str) -> Any:
    """What the CLI makes of an option's words: JSON, a file, the short form for structures, or a scalar."""
    if len(words) == 1 and words[0].startswith("file://"):
        path = ROOT / words[0].removeprefix("file://")
        if path.name == "versions.json":  # made by the command above it
            return {"Objects": [{"Key": "www.example.com/sitemap.xml", "VersionId": "1"}]}
        text = path.read_text(encoding="utf-8")
        return text if shape.type_name == "string" else json.loads(text)
    if words and words[0][:1] in "{[" and shape.type_name != "string":
        return json.loads(words[0])
    match shape:
        case ListShape():
            return [from_words(shape.member, [word], where) for word in words]
        case StructureShape() | MapShape():
            pairs = (pair.partition("=")[::2] for pair in re.split(r",(?=\w+=)", words[0]))
            members = getattr(shape, "members", {})
            return {
                name: from_words(members[name], value.split(","), where) if name in members else value
                for name, value in pairs
            }
    assert len(words) == 1, f"{where}: {words} for one value"
    return SIMPLE.get(shape.type_name, str)(words[0])


def given(asked: StructureShape, words: list[str], where: str) -> dict[str, Any]:
    options = {f"--{xform_name(name, '-')}": name for name in asked.members}
    parameters: dict[str, Any] = {}
    while words:
        option = words.pop(0)
        values = []
        while words and not words[0].startswith("--"):
            values.append(words.pop(0))
        if option in GLOBAL_OPTIONS:
            assert len(values) == GLOBAL_OPTIONS[option], f"{where}: {option} {values}"
            if option == "--query":
                jmespath.compile(values[0])
            continue
        if option == "--max-items":  # the CLI's own paging
            continue
        if option not in options and f"--{option.removeprefix('--no-')}" in options:
            parameters[options[f"--{option.removeprefix('--no-')}"]] = False
            continue
        assert option in options, f"{where}: there is no {option}"
        shape = asked.members[options[option]]
        parameters[options[option]] = True if shape.type_name == "boolean" else from_words(shape, values, where)
    return parameters


@pytest.mark.parametrize(("document", "command"), aws_commands())
def test_a_command_for_aws_in_the_documents_is_one_that_aws_knows(document: str, command: str) -> None:
    where = f"{document}: aws {command}"
    words = shlex.split(re.sub(r"<[a-z ]+>", "placeholder", command), comments=True)
    words = words[: words.index(">")] if ">" in words else words
    while words[0].startswith("--"):
        words = words[GLOBAL_OPTIONS[words[0]] + 1 :]
    service, operation, *rest = words
    if (service, operation) in OF_THE_CLI:
        return
    session = botocore.session.get_session()
    try:
        model = session.get_service_model("s3" if service == "s3api" else service)
    except UnknownServiceError:
        pytest.fail(f"{where}: there is no service {service}")
    operations = {xform_name(name, "-"): name for name in model.operation_names}
    assert operation in operations, f"{where}: {service} has no {operation}"

    asked = model.operation_model(operations[operation]).input_shape
    assert asked
    validate_parameters(given(asked, rest, where), asked)


def test_the_schedules_cost_as_many_invocations_as_the_guide_says() -> None:
    schedules = [r["Properties"] for r in STACK.resources.values() if r["Type"] == "AWS::Scheduler::Schedule"]

    said = [schedule["ScheduleExpression"] for schedule in schedules]
    a_day = {"rate(1 minute)": 24 * 60, "cron(17,47 3 * * ? *)": 2}
    assert f"{sum(a_day[one] for one in said) * 30:,} invocations" in text_of("docs/deploying.md")


def test_there_are_commands_to_check() -> None:
    assert len(aws_commands()) >= 10


# ── what the on-call reads ────────────────────────────────────────────────────────────────────────────────────────────────


def named(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_readme_has_a_row_for_every_alarm_and_no_other() -> None:
    rows = table_rows(text_of("README.md"), "| alarm | what it means | what to do |")
    alarms = {name for name, resource in STACK.resources.items() if resource["Type"] == "AWS::CloudWatch::Alarm"}

    assert sorted(name for row in rows for name in named(row[0])) == sorted(alarms)


METRIC = re.compile(
    r"(?:Webhooks|Hubs|Pushes|Feeds|Entries|Events|Files|Articles|Sites|Objects|Marks|Places|Drift)(?:[A-Z][a-z]+)+"
)


def counted(function: str) -> tuple[set[str], set[str]]:
    """The metrics whose names stand in a function's handler or worker, and the beginnings of those that end in an outcome."""
    stage = function.replace("_", "/", 1)  # functions/roll_window calls stoppress/roll/window.py
    paths = [ROOT / "functions" / function / "app.py", ROOT / f"shared/stoppress/{stage}.py"]
    names: set[str] = set()
    beginnings: set[str] = set()
    for node in (node for path in paths for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))):
        match node:
            case ast.Constant(value=str(text)) | ast.keyword(arg=str(text)) if METRIC.fullmatch(text):
                names.add(text)
            case ast.Call(
                func=ast.Attribute(attr="add_metric"),
                args=[ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]), *_],
            ):
                beginnings.add(text)
    return names, beginnings


def outcomes(*modules: str) -> set[str]:
    """The outcomes that the code names as it makes one."""
    calls = (
        node
        for module in modules
        for node in ast.walk(ast.parse(text_of(f"shared/stoppress/{module}.py")))
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)
    )
    return {
        call.args[0].value
        for call in calls
        if isinstance(call.func, ast.Name)
        and call.func.id == "MessageOutcome"
        and call.args
        and isinstance(call.args[0], ast.Constant)
        and isinstance(call.args[0].value, str)
    }


def test_readme_has_every_metric_that_the_functions_count_and_no_other() -> None:
    listed: dict[str, set[str]] = {}
    for row in table_rows(text_of("README.md"), "| metric | of | counts |"):
        for function in row[1].split(", "):
            listed.setdefault(function, set()).update(named(row[0]))

    for function in (path.parent.name for path in (ROOT / "functions").glob("*/app.py")):
        names, beginnings = counted(function)
        assert names | beginnings, f"{function} counts nothing"
        by_outcome = {name for name in listed[function] if any(name.startswith(begin) for begin in beginnings)} - names
        assert listed[function] - by_outcome == names, function
        assert bool(by_outcome) == bool(beginnings), function


def test_every_outcome_of_recording_is_counted_under_its_name() -> None:
    explained = {word for row in table_rows(text_of("README.md"), "| outcome | means |") for word in named(row[0])}
    listed = {word for row in table_rows(text_of("README.md"), "| metric | of | counts |") for word in named(row[0])}

    assert outcomes("record/article") <= explained
    assert {f"Events{word.capitalize()}" for word in explained} | {"EventsReceived"} == {
        name for name in listed if name.startswith("Events")
    }


def test_an_alarm_on_a_metric_of_ours_names_one_that_is_counted() -> None:
    listed = {word for row in table_rows(text_of("README.md"), "| metric | of | counts |") for word in named(row[0])}
    watched = {
        resource["Properties"]["MetricName"]
        for resource in STACK.resources.values()
        if resource["Type"] == "AWS::CloudWatch::Alarm" and "Stoppress" in str(resource["Properties"]["Namespace"])
    }

    assert watched
    assert watched <= listed
