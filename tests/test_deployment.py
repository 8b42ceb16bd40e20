"""What is deployed, with what settings, and what the documents say of it."""

import ast
import json
import re
import shlex
import shutil
import subprocess
import tomllib
from collections.abc import Iterator
from fnmatch import fnmatchcase
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

from stoppress_cli import template

ROOT = Path(__file__).parents[1]
SOURCE: dict[str, Any] = yaml_parse((ROOT / "template.yaml").read_text(encoding="utf-8"))
STACK = template.load(ROOT / "template.yaml", {"Cdn": "cloudfront"})
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
    called = {name for name, resource in STACK.resources.items() if resource["Type"] in KEEPING}

    assert not KEPT.keys() - called, "; ".join(f"without {name}: lost {KEPT[name][0]}" for name in KEPT.keys() - called)
    assert not called - KEPT.keys(), (
        "what is new here and keeps something has to stand in KEPT, so that it is never renamed"
    )


@pytest.mark.parametrize("name", KEPT)
def test_what_keeps_something_is_not_replaced(name: str) -> None:
    resource = STACK.resources[name]
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
    assert {name for table in ENVIRONMENTS.values() for name in overrides(table)} | set(commented) <= set(
        SOURCE["Parameters"]
    )
    for table in ENVIRONMENTS.values():
        assert table["deploy"]["parameters"]["confirm_changeset"] is True


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


def lint(path: Path) -> subprocess.CompletedProcess[str]:
    command = [ROOT / ".ci/lint-security", path]
    return subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 -- ours


@needs_linters
def test_the_linter_finds_what_is_planted(tmp_path: Path) -> None:
    text = text_of("template.yaml")
    for good, bad in PLANTED.values():
        assert good in text
        text = text.replace(good, bad)
    planted = tmp_path / "template.yaml"
    planted.write_text(text, encoding="utf-8")

    run = lint(planted)

    assert run.returncode == 1
    assert PLANTED.keys() <= set(re.findall(r"^Check: (\w+):", run.stdout, re.MULTILINE)), run.stdout


@needs_linters
def test_no_finding_is_excused_that_is_none() -> None:
    run = lint(ROOT / "template.yaml")
    excused = re.findall(r"# checkov:skip=", text_of("template.yaml"))

    assert run.returncode == 0, run.stdout
    assert f"Failed checks: 0, Skipped checks: {len(excused)}\n" in run.stdout


def test_whatever_the_linter_passes_over_has_its_reason() -> None:
    reasons = re.findall(r"# checkov:skip=\w+:?(.*)", text_of("template.yaml"))
    assert reasons
    assert all(len(reason.split()) > 5 for reason in reasons)

    lines = text_of(".ci/checkov.yaml").partition("skip-check:\n")[2].splitlines()
    for above, line in zip(["", *lines], lines, strict=False):
        assert line.startswith("  #") or above.startswith("  #"), f"{line.strip()} in .ci/checkov.yaml has no reason"


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
    assert deploy["needs"] == "test"
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

# What the providers' schemas ask for beyond what this stack has; by service, or by action.
NOT_NEEDED = {
    **dict.fromkeys(["ec2", "elasticfilesystem", "s3files"], "no function is in a VPC or mounts anything"),
    **dict.fromkeys(["firehose", "kinesis"], "no stream of these"),
    "kms": "no key of ours",
    "s3tables": "no tables in S3",
    **{
        f"dynamodb:{action}": "no import, replica, or copy of items"
        for action in (
            *("BatchWriteItem", "DeleteItem", "GetItem", "PutItem", "Query", "Scan", "UpdateItem", "ImportTable"),
            *("AssociateTableReplica", "CreateTableReplica"),
            *("DisableKinesisStreamingDestination", "EnableKinesisStreamingDestination"),
            *("UpdateKinesisStreamingDestination", "DeleteResourcePolicy"),
        )
    },
    **{
        f"iam:{action}": "policies are written in the roles, and there is no boundary"
        for action in (
            *("AttachRolePolicy", "DetachRolePolicy", "CreateServiceLinkedRole"),
            *("PutRolePermissionsBoundary", "DeleteRolePermissionsBoundary"),
        )
    },
    **{
        f"s3:{action}": "no objects and no such feature"
        for action in (
            *("DeleteObject", "GetObjectMetadata", "GetObjectVersion", "PutObjectAcl", "getObject"),
            *("REST.PUT.OBJECT", "CreateBucketMetadataTableConfiguration"),
            *(f"UpdateBucketMetadata{kind}TableConfiguration" for kind in ("Annotation", "Inventory", "Journal")),
        )
    },
    "secretsmanager:GetSecretValue": "the generated value is nobody's business",
    "secretsmanager:ReplicateSecretToRegions": "one region",
    "secretsmanager:RemoveRegionsFromReplication": "one region",
}


def role_statements() -> list[dict[str, Any]]:
    policies = yaml_parse(text_of(".github/deploy-role.yaml"))["Resources"]["Role"]["Properties"]["Policies"]
    statements = [statement for policy in policies for statement in policy["PolicyDocument"]["Statement"]]
    return [statement["Fn::If"][1] if "Fn::If" in statement else statement for statement in statements]


def actions(statement: dict[str, Any]) -> list[str]:
    said = statement["Action"]
    return [said] if isinstance(said, str) else list(said)


def test_the_role_may_do_what_cloudformation_does_to_the_stack() -> None:
    allowed = [
        action for statement in role_statements() if statement["Effect"] == "Allow" for action in actions(statement)
    ]
    wanted = {
        action
        for kind in {resource["Type"] for resource in STACK.resources.values()}
        for step in ("create", "read", "update", "delete")
        for action in schema(kind).get("handlers", {}).get(step, {}).get("permissions", [])
    }
    assert wanted
    missing = {action for action in wanted if not any(fnmatchcase(action, pattern) for pattern in allowed)}

    assert {
        action for action in missing if action not in NOT_NEEDED and action.partition(":")[0] not in NOT_NEEDED
    } == set()
    assert not NOT_NEEDED.keys() - missing - {action.partition(":")[0] for action in missing}, "not even asked for"


def test_the_role_reaches_what_is_the_stacks_and_is_given_to_one_environment_only() -> None:
    role = yaml_parse(text_of(".github/deploy-role.yaml"))["Resources"]["Role"]["Properties"]
    [trust] = role["AssumeRolePolicyDocument"]["Statement"]
    conditions = trust["Condition"]["StringEquals"]

    assert conditions["token.actions.githubusercontent.com:sub"] == {
        "Fn::Sub": "repo:${Repository}:environment:${Environment}"
    }
    assert conditions["token.actions.githubusercontent.com:aud"] == "sts.amazonaws.com"
    for statement in role_statements():
        if statement["Resource"] == "*":
            assert not any("*" in action for action in actions(statement)), statement["Sid"]
        for action in actions(statement):
            assert not re.match(r"(iam|dynamodb|s3|secretsmanager|ssm|sqs|sts|cloudformation):\*", action)


# ── the commands in the documents ─────────────────────────────────────────────────────────────────────────────────────────

# Options of the CLI itself, and how many words follow.
GLOBAL_OPTIONS = {"--endpoint-url": 1, "--region": 1, "--query": 1, "--output": 1, "--profile": 1, "--no-cli-pager": 0}
# What the CLI does by itself, not an operation of the service.
OF_THE_CLI = {("s3", "ls"), ("s3", "rm"), ("s3", "cp"), ("s3", "sync")}
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
            return {"Objects": []}
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

    assert {schedule["ScheduleExpression"] for schedule in schedules} == {"rate(1 minute)"}
    assert f"{len(schedules) * 30 * 24 * 60:,} invocations" in text_of("docs/deploying.md")


def test_there_are_commands_to_check() -> None:
    assert len(aws_commands()) >= 10


# ── what the on-call reads ────────────────────────────────────────────────────────────────────────────────────────────────


def named(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def test_readme_has_a_row_for_every_alarm_and_no_other() -> None:
    rows = table_rows(text_of("README.md"), "| alarm | what it means | what to do |")
    alarms = {name for name, resource in STACK.resources.items() if resource["Type"] == "AWS::CloudWatch::Alarm"}

    assert sorted(name for row in rows for name in named(row[0])) == sorted(alarms)


METRIC = re.compile(r"(?:Webhooks|Feeds|Entries|Events|Files|Articles|Sites)(?:[A-Z][a-z]+)+")


def counted(function: str) -> tuple[set[str], set[str]]:
    """The metrics whose names stand in a function's handler or worker, and the beginnings of those that end in an outcome."""
    worker = {"roll_window": "rolling"}.get(function)
    paths = [ROOT / "functions" / function / "app.py", *([ROOT / f"shared/stoppress/{worker}.py"] if worker else [])]
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
        and call.func.id == "Outcome"
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

    assert outcomes("recording") <= explained
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
