"""`stoppress preflight` against accounts with obstacles to the first deployment."""

from collections.abc import Callable
from typing import Any

import pytest
from botocore.client import BaseClient
from botocore.exceptions import ClientError
from typer.testing import CliRunner, Result

from stoppress.aws import clients
from stoppress_cli.app import app
from stoppress_cli.output import FAILED

pytestmark = pytest.mark.deployed

Answers = dict[str, Callable[[dict[str, Any]], dict[str, Any]]]


def absent(code: str, text: str = "") -> Callable[[dict[str, Any]], dict[str, Any]]:
    """Return a call that fails as for a resource that does not exist."""

    def refuse(_: dict[str, Any]) -> dict[str, Any]:
        raise ClientError({"Error": {"Code": code, "Message": text}}, "Call")

    return refuse


# moto has no account settings of Lambda.
EMPTY: Answers = {
    "GetCallerIdentity": lambda _: {"Account": "123456789012", "Arn": "arn:aws:iam::123456789012:user/me"},
    "GetAccountSettings": lambda _: {"AccountLimit": {"UnreservedConcurrentExecutions": 1000}},
    "DescribeStacks": absent("ValidationError", "Stack with id news does not exist"),
    "DescribeEventBus": absent("ResourceNotFoundException"),
    "GetSchedule": absent("ResourceNotFoundException"),
    "DescribeSecret": absent("ResourceNotFoundException"),
}


@pytest.fixture
def flight(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Result]:
    """Run the command against an account with these answers."""
    clients.forget()

    def run(*options: str, **answers: Callable[[dict[str, Any]], dict[str, Any]]) -> Result:
        account = EMPTY | answers
        monkeypatch.setattr(BaseClient, "_make_api_call", lambda _, operation, params: account[operation](params))
        done = CliRunner().invoke(app, ["preflight", "--stack", "news", *options])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done

    return run


def faults(done: Result, outcome: str = "fault") -> list[str]:
    return [line.removeprefix(outcome).strip() for line in done.stdout.splitlines() if line.startswith(outcome)]


def test_the_names_and_the_concurrency_are_those_of_the_given_parameters(flight: Callable[..., Result]) -> None:
    done = flight("--parameter", "Host=news.example.org", "--parameter", "Listing=yes")

    assert "23 needed" in done.stdout
    assert "stoppress/news/webhooks/news.example.org/cms is free" in done.stdout
    assert "news-audit is free" in done.stdout
    assert all(flight("--parameter", wrong).exit_code == FAILED for wrong in ("Lisitng=yes", "Host", "Host="))


def test_an_account_that_is_ready_has_a_line_for_each_check(flight: Callable[..., Result]) -> None:
    done = flight()

    assert done.exit_code == 0
    lines = faults(done, "ok")
    assert len(lines) == len(done.stdout.splitlines())
    assert lines[:2] == [
        "credentials: account 123456789012, region eu-west-1, as arn:aws:iam::123456789012:user/me",
        "Lambda concurrency: 1,000 free, 20 needed (10 queues + 4 stream + 3 clocks + 3 webhooks)",
    ]
    assert {line.partition(": ")[2] for line in lines[3:]} == {
        "stoppress/news/webhooks/www.example.com/cms is free",
        "news-articles is free",
        "news-poll-feeds is free",
        "news-roll-window is free",
        "news-reconcile is free",
    }


@pytest.mark.parametrize(
    ("call", "answer", "check", "fix"),
    [
        (
            "GetAccountSettings", {"AccountLimit": {"UnreservedConcurrentExecutions": 10}},
            "Lambda concurrency: 10 free, 20 needed", "aws service-quotas request-service-quota-increase",
        ),
        ("DescribeStacks", {"Stacks": [{"StackStatus": "CREATE_COMPLETE"}]}, "stack: ", "another --stack"),
        (
            "DescribeStacks", {"Stacks": [{"StackStatus": "ROLLBACK_COMPLETE"}]},
            "stack: ", "aws cloudformation delete-stack --stack-name news",
        ),
        ("DescribeEventBus", {"Name": "news-articles"}, "names: ", "aws events delete-event-bus --name news-articles"),
    ],
    ids=["concurrency", "stack", "failed stack", "bus"],
)  # fmt: skip
def test_a_fault_has_its_fix(
    flight: Callable[..., Result], call: str, answer: dict[str, Any], check: str, fix: str
) -> None:
    done = flight(**{call: lambda _: answer})

    assert done.exit_code == 1
    [fault] = faults(done)
    assert fault.startswith(check)
    assert fix in fault


def test_the_names_of_a_stack_that_exists_are_not_its_faults(flight: Callable[..., Result]) -> None:
    done = flight(
        DescribeStacks=lambda _: {"Stacks": [{"StackStatus": "CREATE_COMPLETE"}]},
        DescribeSecret=lambda _: {"Name": "x"},
    )

    assert len(faults(done)) == 1


def test_a_check_without_permission_is_unknown_and_the_rest_is_checked(flight: Callable[..., Result]) -> None:
    done = flight(GetAccountSettings=absent("AccessDeniedException", "No."))

    assert done.exit_code == 2
    [unknown] = faults(done, "unknown")
    assert unknown.startswith("Lambda concurrency: these AWS credentials may not call Call")
    assert len(done.stdout.splitlines()) == 8
    both = flight(GetAccountSettings=absent("AccessDeniedException"), DescribeSecret=lambda _: {"Name": "x"})
    assert both.exit_code == 1, "a fault outweighs what is unknown"


def test_without_credentials_nothing_else_is_checked(flight: Callable[..., Result]) -> None:
    done = flight(GetCallerIdentity=absent("ExpiredToken"))

    assert done.exit_code == 2
    [line] = done.stdout.splitlines()
    assert line.startswith("unknown  credentials: the AWS credentials have expired")
