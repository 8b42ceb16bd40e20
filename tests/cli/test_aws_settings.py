"""AWS settings that cannot work: each command with --stack prints one sentence with the remedy."""

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
    """Return the one sentence that a failed command prints."""
    assert isinstance(done.exception, SystemExit), done.exception
    assert (done.exit_code, done.stdout) == (2, "")
    [line] = done.stderr.splitlines()
    assert line.startswith("stoppress: ")
    return line.removeprefix("stoppress: ")


def answering(monkeypatch: pytest.MonkeyPatch, **outputs: str) -> list[tuple[str, str, str]]:
    """Describe a stack with these outputs, and refuse every other call. Return the list of calls, which grows."""
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
        {words for words in commands(root) if any(param.name == option for param in command_of(root, words).params)}
        for option in ("stack", "profile", "region")
    )

    assert {"rebuild", "sites put", "preflight"} < stack
    assert stack == profile == region


def test_without_a_region_the_command_requests_one(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION"):
        monkeypatch.delenv(name)
    assert reason(run("rebuild", "--stack", "news")) == "no AWS region is set: give one with --region or AWS_REGION"

    calls = answering(monkeypatch)
    assert "is no stack of Stoppress" in reason(run("rebuild", "--stack", "news", "--region", "eu-central-1"))
    assert [region for _, region, _ in calls] == ["eu-central-1"]
    assert "AWS_REGION" not in os.environ


@pytest.mark.parametrize(
    ("region", "default"), [("eu-central-1", None), ("eu-central-1", "us-east-1"), (None, "us-east-1")]
)
def test_a_stack_is_found_in_the_region_that_the_aws_cli_would_use(
    region: str | None, default: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("AWS_REGION", region), ("AWS_DEFAULT_REGION", default)):
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)
    calls = answering(monkeypatch, Version=version("stoppress"), **OUTPUTS)
    reason(run("rebuild", "--stack", "news"))
    clients.forget()

    assert [region for _, region, _ in calls] == [region or default] * 2


def test_the_profile_option_overrides_the_credentials_of_the_environment(
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
SSO = """[profile desk]
sso_session = desk
sso_account_id = 123456789012
sso_role_name = editor
[sso-session desk]
sso_start_url = https://example.com/start
sso_region = eu-west-1
"""
USED = " (used: region eu-west-1, endpoint https://cloudformation.eu-west-1.amazonaws.com)"
# By case: options, variables of the environment (None: not set), the text of the AWS configuration, and the sentence.
UNUSABLE: dict[str, tuple[list[str], dict[str, str | None], str, str]] = {
    "a profile that does not exist": (
        ["--profile", "nobody"], {}, "",
        "there is no AWS profile 'nobody': give another with --profile or AWS_PROFILE; `aws configure list-profiles` lists them",
    ),
    "no credentials": (
        [], dict.fromkeys(KEYS), "",
        "there are no AWS credentials: sign in, or name a profile that has some with --profile or AWS_PROFILE",
    ),
    "a sign-in that has expired": (
        ["--profile", "desk"], {}, SSO, "the AWS sign-in has expired: run `aws sso login`, with --profile if you use one",
    ),
    "a configuration that cannot be read": (
        [], {}, "region = eu-west-1\n[default\n",
        "the AWS configuration {config} cannot be read: correct it, or name another with AWS_CONFIG_FILE",
    ),
    "no region": (
        ["--region", "west of here"], {}, "", "'west of here' is no AWS region: give one such as eu-west-1",
    ),
    "a region where nobody answers": (
        [], {"AWS_ENDPOINT_URL": "http://127.0.0.1:9"}, "",
        "no answer from http://127.0.0.1:9/: check the region (--region) and the network (used: region eu-west-1, endpoint http://127.0.0.1:9)",
    ),
    "no name of a stack": (
        ["--stack", "no such name"], {}, "",
        "'no such name' is no name of a stack: give letters, digits and hyphens, or the ARN of a stack",
    ),
    "an empty name of a stack": (
        ["--stack", ""], {}, "", "'' is no name of a stack: give letters, digits and hyphens, or the ARN of a stack",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", UNUSABLE)
def test_invalid_settings_have_a_one_line_message(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    options, variables, text, sentence = UNUSABLE[case]
    config = tmp_path / "config"
    config.write_text(text)
    for name, value in ({"HOME": str(tmp_path), "AWS_CONFIG_FILE": str(config)} | variables).items():
        monkeypatch.setenv(name, value) if value else monkeypatch.delenv(name)

    assert reason(run("rebuild", "--stack", "news", *options)) == sentence.format(config=config)


@pytest.mark.parametrize(
    ("code", "message", "text"),
    [
        ("ExpiredToken", "No.", "the AWS credentials have expired: sign in again"),
        ("AccessDenied", "No.", "these AWS credentials may not call DescribeStacks: use others, or get the permission. No."),
        ("InvalidClientTokenId", "No.", f"AWS rejects these credentials: give others with --profile or AWS_PROFILE{USED}"),
        ("ThrottlingException", "No.", "AWS had too many requests: run the command again in a minute"),
        (
            "ResourceNotFoundException", "No.",
            f"DescribeStacks asks for something that does not exist: check the stack and the region, and deploy what was deleted{USED}. No.",
        ),
        ("InternalServerError", "No.", "AWS could not do DescribeStacks (InternalServerError): No."),
        (
            "ValidationError", "Stack with id news does not exist",
            f"there is no stack 'news': give another name, region (--region) or profile (--profile){USED}",
        ),
    ],
)  # fmt: skip
def test_an_error_of_aws_is_one_line(code: str, message: str, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: BaseClient, operation: str, __: Any) -> Any:
        raise ClientError({"Error": {"Code": code, "Message": message}}, operation)

    monkeypatch.setattr(BaseClient, "_make_api_call", refuse)

    assert reason(run("rebuild", "--stack", "news")) == text


def test_a_stack_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = answering(monkeypatch, **OUTPUTS, Version="9.0.0", Commit="2f1e")

    own = version("stoppress")
    assert reason(run("rebuild", "--stack", "news")) == (
        f"the stack news has version 9.0.0, this command has {own}: check out the commit 2f1e, or deploy {own}"
    )
    assert len(calls) == 1
