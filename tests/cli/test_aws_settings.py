"""AWS settings that cannot work: each command with --stack answers with one sentence that says what to do."""

import json
import os
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
import typer.main
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

from stoppress.aws import clients
from stoppress.show.read_site import StackFacts
from stoppress_cli.app import app
from stoppress_cli.commands import status
from tests.cli.test_commands_as_typed import command_of, commands

OUTPUTS = {"TableName": "t", "BucketName": "b", "SecretsPath": "s"}


@pytest.fixture(autouse=True)
def fresh_session(monkeypatch: pytest.MonkeyPatch) -> None:
    clients.forget()
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")


def run(*words: str) -> Result:
    return CliRunner().invoke(app, list(words))


def reason(done: Result) -> str:
    """The one sentence that a failed command prints."""
    assert isinstance(done.exception, SystemExit), done.exception
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("stoppress: ")
    return line.removeprefix("stoppress: ")


def answering(monkeypatch: pytest.MonkeyPatch, **outputs: str) -> list[tuple[str, str, str]]:
    """Has CloudFormation describe a stack with these outputs, and every other call refused. Returns the calls as they are made."""
    calls: list[tuple[str, str, str]] = []

    def answer(self: BaseClient, operation: str, _: Any) -> Any:
        credentials = self._request_signer._credentials  # type: ignore[attr-defined]
        calls.append((operation, self.meta.region_name, credentials.access_key))
        if operation == "DescribeStacks":
            return {"Stacks": [{"Outputs": [{"OutputKey": k, "OutputValue": v} for k, v in outputs.items()]}]}
        raise ClientError({"Error": {"Code": "AccessDenied", "Message": "User me is not authorized."}}, operation)

    monkeypatch.setattr(BaseClient, "_make_api_call", answer)
    return calls


def test_every_command_on_a_stack_takes_a_profile_and_a_region() -> None:
    root = typer.main.get_command(app)
    stack, profile, region = (
        {words for words in commands(root) if any(each.name == option for each in command_of(root, words).params)}
        for option in ("stack", "profile", "region")
    )

    assert {"rebuild", "sites put", "preflight"} < stack
    assert stack == profile == region


def test_a_region_is_asked_for_where_none_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    assert reason(run("rebuild", "--stack", "news")).startswith("You must specify a region; check ")


@pytest.mark.parametrize(
    ("option", "region", "default"),
    [("eu-west-3", "x", "x"), ("", "eu-central-1", None), ("", "eu-central-1", "us-east-1"), ("", None, "us-east-1")],
)
def test_a_stack_is_looked_for_in_the_region_that_the_aws_cli_would_take(
    option: str, region: str | None, default: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("AWS_REGION", region), ("AWS_DEFAULT_REGION", default)):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    calls = answering(monkeypatch, Version=version("stoppress"), **OUTPUTS)
    reason(run("rebuild", "--stack", "news", *(["--region", option] if option else [])))
    clients.forget()

    assert [region for _, region, _ in calls] == [option or region or default] * 2
    assert os.environ.get("AWS_REGION") == region


def test_a_profile_that_is_named_overrides_the_credentials_of_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = tmp_path / "config"
    config.write_text(
        "[profile desk]\naws_access_key_id = OF-THE-DESK\naws_secret_access_key = x\nregion = us-east-2\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(config))
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    calls = answering(monkeypatch)

    reason(run("rebuild", "--stack", "news", "--profile", "desk"))

    assert calls == [("DescribeStacks", "us-east-2", "OF-THE-DESK")]


def test_status_shows_the_commit_that_is_deployed(monkeypatch: pytest.MonkeyPatch) -> None:
    answering(monkeypatch, **OUTPUTS, Version=version("stoppress"), Commit="2f1e")
    monkeypatch.setattr(status, "read_stack", lambda *_: StackFacts(sites=()))

    assert json.loads(run("status", "--stack", "news", "--json").stdout)["commit"] == "2f1e"


KEYS = ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN")
# The options, variables of the environment (None: not set), the text of the AWS configuration, and words of the sentence.
UNUSABLE: list[tuple[list[str], dict[str, str | None], str, str]] = [
    (["--profile", "nobody"], {}, "", "nobody"),
    ([], dict.fromkeys(KEYS), "", "locate credentials"),
    ([], {}, "region = eu-west-1\n[default\n", "config"),
    (["--region", "west of here"], {}, "", "'west of here'"),
    ([], {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "", "http://127.0.0.1:9/"),
    (["--stack", "no such name"], {}, "", "'no such name' is no name of a stack: give letters, digits and hyphens"),
    (["--stack", ""], {}, "", "'' is no name of a stack: give letters, digits and hyphens"),
]


@pytest.mark.parametrize(("options", "variables", "text", "words"), UNUSABLE, ids=lambda value: str(value)[:30])
def test_settings_that_cannot_work_are_one_sentence(
    options: list[str], variables: dict[str, str | None], text: str, words: str,
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    config = tmp_path / "config"
    config.write_text(text)
    for name, value in ({"HOME": str(tmp_path), "AWS_CONFIG_FILE": str(config)} | variables).items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)

    sentence = reason(run("rebuild", "--stack", "news", *options))
    assert words in sentence
    assert "--profile" in sentence or "is no name" in sentence


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        (
            "AccessDenied",
            "No.",
            "AWS refuses DescribeStacks, AccessDenied: No; check the AWS credentials (--profile), ",
        ),
        (
            "ValidationError",
            "Stack with id news does not exist",
            "there is no stack 'news' in eu-west-1: give another ",
        ),
    ],
)
def test_what_aws_refuses_is_one_sentence(code: str, message: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: BaseClient, operation: str, __: Any) -> Any:
        raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)

    assert reason(run("rebuild", "--stack", "news")).startswith(text)


def test_a_stack_of_another_version_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answering(monkeypatch, **OUTPUTS, Version="9.0.0", Commit="2f1e")

    own = version("stoppress")
    assert reason(run("rebuild", "--stack", "news")) == (
        f"the stack news has version 9.0.0, this command has {own}: check out the commit 2f1e, or deploy {own}"
    )
    assert len(calls) == 1
