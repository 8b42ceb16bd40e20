"""What is deployed, with what settings, and what the documents say of it."""

import json
import re
import shlex
import subprocess
import tomllib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cfnlint.schema import PROVIDER_SCHEMA_MANAGER

from stoppress_cli.local import permissions, template
from stoppress_cli.local.permissions import Ask
from stoppress_cli.local.template import parse_yaml
from tests.docs.pages import text_of

pytestmark = pytest.mark.deployed

ROOT = Path(__file__).parents[2]
SOURCE: dict[str, Any] = parse_yaml((ROOT / "template.yaml").read_text(encoding="utf-8"))
STACK = template.load(ROOT / "template.yaml")
CDN_RESOURCES = template.load(ROOT / "template-cdn.yaml").resources
TEMPLATES = ("template.yaml", "template-cdn.yaml", "template-firewall.yaml")
SAMCONFIG: dict[str, Any] = tomllib.loads((ROOT / "samconfig.toml").read_text(encoding="utf-8"))
ENVIRONMENTS = {name: table for name, table in SAMCONFIG.items() if isinstance(table, dict)}
WORKFLOWS = {path.name: path for path in sorted((ROOT / ".github/workflows").glob("*.yml"))}
LINTERS = ROOT / ".venv/linters"
REGION = "eu-west-1"


# ── what a new version must not replace ───────────────────────────────────────────────────────────────────────────────────

# CloudFormation knows a resource by its name in the template and by some properties. With another name, or one of those
# properties changed, the next deployment makes a new one and deletes the old, or orphans it where it is retained. These are
# the names of what a newsroom would lose, and the properties as they were first deployed.
STACK_NAME = "${AWS::StackName}"
KEPT: dict[str, dict[str, Any]] = {
    **{
        name: {} for name in ("Table", "Bucket", "PageApi", "WebhookApi", "HubApi", "Alarms", "Notices", "Distribution")
    },
    **{name: {} for name in ("ArticlesQueue", "ArticlesDeadLetters", "ImportsQueue", "RewritesQueue", "Failures")},
    **{name: {} for name in ("EnginesQueue", "EnginesDeadLetters")},
    "BucketPolicy": {"Bucket": {"Ref": "Bucket"}},
    "ArticlesBus": {"Name": {"Fn::Sub": f"{STACK_NAME}-articles"}},
    "FirstSecret": {"Name": {"Fn::Sub": f"stoppress/{STACK_NAME}/webhooks/${{Host}}/cms"}},
    "WebSubSecret": {"Name": {"Fn::Sub": f"stoppress/{STACK_NAME}/websub"}},
    "StatusPageSecret": {"Name": {"Fn::Sub": f"stoppress/{STACK_NAME}/page"}},
}
KEEPING = re.compile(
    r"AWS::(ApiGatewayV2::Api|CloudFront::Distribution|DynamoDB::Table|Events::EventBus|S3::Bucket|S3::BucketPolicy"
    r"|SNS::Topic|SQS::Queue|SecretsManager::Secret)"
)


def test_what_keeps_something_is_called_and_made_as_it_was_first_deployed() -> None:
    """What is new here and keeps something has to stand in KEPT, so that it is never renamed."""
    set_once: dict[str, dict[str, Any]] = {}
    for name, resource in (STACK.resources | CDN_RESOURCES).items():
        if KEEPING.fullmatch(kind := resource["Type"]):
            schema = PROVIDER_SCHEMA_MANAGER.get_resource_schema(REGION, kind).schema
            create_only = [path.split("/")[2] for path in schema.get("createOnlyProperties", [])]
            properties = resource.get("Properties", {})
            set_once[name] = {key: properties[key] for key in create_only if key in properties}

    assert set_once == KEPT


def test_the_table_keeps_its_key_and_is_protected_against_deletion() -> None:
    properties = STACK.resources["Table"]["Properties"]

    assert [(key["AttributeName"], key["KeyType"]) for key in properties["KeySchema"]] == [
        ("pk", "HASH"),
        ("sk", "RANGE"),
    ]
    assert properties["DeletionProtectionEnabled"] is True


@pytest.mark.parametrize(
    ("name", "condition"), [("FirstSecret", None), ("WebSubSecret", "HasHubs"), ("StatusPageSecret", "HasStatusPage")]
)
def test_a_secret_is_not_generated_anew_and_goes_with_the_parameter_that_made_it(
    name: str, condition: str | None
) -> None:
    secret = STACK.resources[name]

    # A change of how it is generated generates another, and every webhook is refused from then on.
    assert secret["Properties"]["GenerateSecretString"] == {"PasswordLength": 44, "ExcludePunctuation": True}
    assert secret.get("Condition") == condition
    if condition:  # the name is fixed: a secret that stayed would make the next creation fail
        assert (secret["DeletionPolicy"], secret["UpdateReplacePolicy"]) == ("Delete", "Delete")


def test_the_stack_policy_lets_no_update_replace_or_delete_what_people_wrote() -> None:
    rules = permissions.statements(json.loads(text_of("stack-policy.json")))
    refused = {
        (action, name)
        for action in ("Update:Modify", "Update:Replace", "Update:Delete")
        for name in STACK.resources
        if not permissions.allowed(Ask(action, f"LogicalResourceId/{name}"), rules)
    }
    kept = ("Bucket", "FirstSecret", "Table")

    assert refused == {(action, name) for action in ("Update:Replace", "Update:Delete") for name in kept}


# ── parameters and samconfig.toml ─────────────────────────────────────────────────────────────────────────────────────────


def overrides(table: dict[str, Any]) -> list[str]:
    given = table.get("deploy", {}).get("parameters", {}).get("parameter_overrides", [])
    return [str(pair).partition("=")[0] for pair in (shlex.split(given) if isinstance(given, str) else given)]


def test_samconfig_sets_parameters_of_the_template_and_one_stack_per_environment() -> None:
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


def test_samconfig_has_only_settings_that_sam_supports() -> None:
    # SAM passes over what it does not know without a word.
    sam = ROOT / ".venv/sam/bin/sam"
    if not sam.exists():
        pytest.skip("the SAM CLI is not installed: make build installs it")
    for command in {name for table in ENVIRONMENTS.values() for name in table} - {"global"}:
        asked = subprocess.run([sam, command, "--help"], check=True, capture_output=True, text=True)  # noqa: S603 -- ours
        settings = {key for table in ENVIRONMENTS.values() for key in table.get(command, {}).get("parameters", {})}
        assert {key.replace("_", "-") for key in settings} <= set(re.findall(r"--([a-z0-9-]+)", asked.stdout)), command


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


@pytest.mark.skipif(not (LINTERS / "installed").exists(), reason="checkov is not installed: make lint installs it")
def test_the_linter_finds_what_is_planted(tmp_path: Path) -> None:
    texts: dict[str, str] = {}
    for good, bad in PLANTED.values():
        name = next(name for name in TEMPLATES if good in text_of(name))
        texts[name] = texts.get(name, text_of(name)).replace(good, bad)
    for name, text in texts.items():
        (tmp_path / name).write_text(text, encoding="utf-8")

    command = [ROOT / "scripts/lint-security", *(tmp_path / name for name in texts)]
    run = subprocess.run(command, check=False, capture_output=True, text=True)  # noqa: S603 -- ours

    assert run.returncode == 1
    assert PLANTED.keys() <= set(re.findall(r"^Check: (\w+):", run.stdout, re.MULTILINE)), run.stdout


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
    read: dict[Any, Any] = parse_yaml(WORKFLOWS[name].read_text(encoding="utf-8"))
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

    assert asking == {
        "deploy.yml plan": {"contents": "read", "id-token": "write"},
        "deploy.yml deploy": {"id-token": "write"},
    }


def test_what_has_a_token_of_aws_installs_nothing_and_plans_only_what_was_built() -> None:
    said = workflow("deploy.yml")["jobs"]
    [kept] = [step["with"] for step in said["build"]["steps"] if "actions/upload-artifact" in step.get("uses", "")]
    [taken] = [step["with"] for step in said["plan"]["steps"] if "actions/download-artifact" in step.get("uses", "")]
    for job in ("plan", "deploy"):
        commands = [step["run"] for step in said[job]["steps"] if "run" in step]
        # Everything of PyPI or a registry is run by the job that builds.
        assert not [line for line in commands if re.search(r"\b(make|pip|uv|npm|python3?|scripts|\.venv|curl)\b", line)]
        assert not [step for step in said[job]["steps"] if "actions/setup-python" in step.get("uses", "")]
        # Given a template, SAM looks for samconfig.toml beside it; given none, it takes .aws-sam/build/template.yaml.
        assert not [line for line in commands if "--template" in line]

    assert taken["name"] == kept["name"]
    assert f"tar --extract --gzip --file {kept['path']}" in [step.get("run") for step in said["plan"]["steps"]]
    assert ".aws-sam/build" in next(
        step["run"] for step in said["build"]["steps"] if "tar --create" in step.get("run", "")
    )
    # A deployment waits up to thirty days for its reviewers.
    assert kept["retention-days"] >= 30


def test_a_change_set_is_printed_before_its_approval_and_nothing_else_is_executed() -> None:
    said = workflow("deploy.yml")["jobs"]
    runs = {job: "\n".join(step.get("run", "") for step in said[job]["steps"]) for job in ("plan", "deploy")}

    assert said["plan"]["environment"] == f"{said['deploy']['environment']}-plan"  # reviewers guard the second only
    assert said["deploy"]["needs"] == "plan"
    assert "--no-execute-changeset" in runs["plan"]
    assert "sam " not in runs["deploy"]
    assert not [step for step in said["deploy"]["steps"] if "checkout" in step.get("uses", "")]


def planned(tmp_path: Path, printed: str, code: int = 0) -> tuple[int, str]:
    """Runs the step that plans with a SAM that prints this. Returns its exit status and what it hands on."""
    [step] = [step for step in workflow("deploy.yml")["jobs"]["plan"]["steps"] if step.get("id") == "plan"]
    sam = tmp_path / "sam"
    sam.write_text(
        f"#!/bin/sh\n[ $1 = --version ] && exit\ncat <<'END'\n{printed}\nEND\nexit {code}\n", encoding="utf-8"
    )
    sam.chmod(0o755)
    handed_on, summary = tmp_path / "output", tmp_path / "summary"
    variables = {"GITHUB_OUTPUT": str(handed_on), "GITHUB_STEP_SUMMARY": str(summary), "CONFIG_ENV": "x", "REGION": "x"}
    assert step["shell"] == "bash"  # GitHub adds pipefail only where a step names its shell
    done = subprocess.run(  # noqa: S603 - ours
        ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step["run"]],  # noqa: S607
        cwd=tmp_path, env={"PATH": f"{tmp_path}:/usr/bin:/bin", **variables}, check=False, capture_output=True,
    )  # fmt: skip
    if done.returncode == 0:
        assert printed in summary.read_text(encoding="utf-8")
    return done.returncode, handed_on.read_text(encoding="utf-8") if handed_on.exists() else ""


def test_the_change_set_that_sam_made_is_handed_on_to_be_executed(tmp_path: Path) -> None:
    change_set = f"arn:aws:cloudformation:{REGION}:123456789012:changeSet/samcli-deploy1763800000/0a1b2c3d"

    assert planned(tmp_path, f"+ Add  Table\n\nChangeset created successfully. {change_set}\n") == (
        0,
        f"change-set={change_set}\n",
    )


def test_without_a_change_there_is_nothing_to_approve(tmp_path: Path) -> None:
    assert planned(tmp_path, "No changes to deploy. Stack stoppress is up to date") == (0, "change-set=\n")
    assert workflow("deploy.yml")["jobs"]["deploy"]["if"] == "needs.plan.outputs.change-set != ''"


def test_a_plan_that_fails_ends_the_deployment(tmp_path: Path) -> None:
    assert planned(tmp_path, "Error: no", code=1) == (1, "")


def test_no_workflow_has_a_secret_and_every_job_ends() -> None:
    for name, path in WORKFLOWS.items():
        assert "secrets." not in path.read_text(encoding="utf-8"), name
    for name, job in jobs():
        assert 0 < job["timeout-minutes"] <= 60, name


def test_only_main_and_versions_are_deployed_one_at_a_time_and_after_the_tests() -> None:
    said = workflow("deploy.yml")["jobs"]

    assert said["plan"]["if"] == "github.ref == 'refs/heads/main' || startsWith(github.ref, 'refs/tags/v')"
    assert said["build"]["if"] == said["plan"]["if"]
    assert said["plan"]["needs"] == ["test", "build"]
    assert said["deploy"]["environment"]
    assert workflow("deploy.yml")["concurrency"]["cancel-in-progress"] is False


def test_every_parameter_of_a_deployment_is_in_samconfig() -> None:
    deploy = workflow("deploy.yml")
    [step] = [step for step in deploy["jobs"]["plan"]["steps"] if "CONFIG_ENV" in step.get("env", {})]
    choices = deploy[True]["workflow_dispatch"]["inputs"]["environment"]["options"]  # YAML 1.1 reads `on` as true

    assert set(re.findall(r"'(\w+)'", step["env"]["CONFIG_ENV"])) == ENVIRONMENTS.keys()
    assert sorted(choices) == sorted(
        parse_yaml(text_of(".github/deploy-role.yaml"))["Parameters"]["Environment"]["AllowedValues"]
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
