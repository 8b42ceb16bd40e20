"""Wiring faults that a deployment would not report, planted one by one: each is detected before it is deployed.

Faults of packaging are planted in tests/deployment/artifact, faults of grants in test_grants.
"""

from pathlib import Path
from typing import Any

import pytest

from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import TemplateError
from tests.support import playing
from tests.support.planting import Edit, planted

pytestmark = pytest.mark.deployed

Resources = dict[str, Any]
EVERY_MINUTE = ("Events", "EveryMinute", "Properties")


def properties(resources: Resources, name: str, *path: str) -> Any:
    """Return the value at a path below a resource's properties."""
    value = resources[name]["Properties"]
    for step in path:
        value = value[step]
    return value


def set_values(name: str, *path: str, **values: Any) -> Edit:
    """Return an edit that sets values below a resource's properties; None removes one."""

    def edit(resources: Resources) -> None:
        held = properties(resources, name, *path)
        held.update(values)
        for removed in [key for key, value in values.items() if value is None]:
            del held[removed]

    return edit


def without_statement(resource: str, sid: str) -> Edit:
    """Return an edit that removes a statement from a role or a queue's policy."""

    def edit(resources: Resources) -> None:
        held = properties(resources, resource)
        document = held["Policies"][0]["PolicyDocument"] if "Policies" in held else held["PolicyDocument"]
        [statement] = [entry for entry in document["Statement"] if entry["Sid"] == sid]
        document["Statement"].remove(statement)

    return edit


def stream_setting(name: str, value: Any) -> Edit:
    """Return an edit of the stream's mapping; None removes the setting."""
    return set_values("RewriteSitemaps", "Events", "ChangedPartitions", "Properties", **{name: value})


# AWS would refuse these, or lose events without an error.
REFUSED: dict[str, tuple[Edit, str]] = {
    "the stream is read from its end": (stream_setting("StartingPosition", "LATEST"), "TRIM_HORIZON"),
    "a schedule has a role that is not for it": (
        set_values("PollFeeds", *EVERY_MINUTE, RoleArn={"Fn::GetAtt": ["PollFeedsRole", "Arn"]}),
        "PollFeedsEveryMinute: its role is no role of the template that scheduler.amazonaws.com may take on",
    ),
    "a schedule has a role that may not call its function": (
        lambda resources: (
            set_values("RollWindow", *EVERY_MINUTE, RoleArn={"Fn::GetAtt": ["PollFeedsRole", "Arn"]})(resources),
            properties(resources, "PollFeedsRole", "AssumeRolePolicyDocument", "Statement")[0]["Principal"].update(
                Service=["lambda.amazonaws.com", "scheduler.amazonaws.com"]
            ),
        ),
        "RollWindowEveryMinute: PollFeedsRole does not allow lambda:InvokeFunction",
    ),
    "nobody may write to the rules' dead-letter queue": (
        without_statement("FailuresPolicy", "RulesReportUndeliveredEvents"),
        "ArticleEventsRule: no policy of the resource lets it sqs:SendMessage on .*Failures",
    ),
    "a rule may not send to the articles queue": (
        without_statement("ArticlesQueuePolicy", "TheRuleSendsArticleEvents"),
        "ArticleEventsRule: no policy of the resource lets it sqs:SendMessage on .*ArticlesQueue",
    ),
    "a function's role is another service's": (
        lambda resources: properties(resources, "RecordArticleRole", "AssumeRolePolicyDocument", "Statement")[0].update(
            Principal={"Service": "ec2.amazonaws.com"}
        ),
        "RecordArticle: its role is no role",
    ),
    "the code of a function is elsewhere": (
        set_values("RecordArticle", CodeUri="functions/record_articles/"),
        "record_articles",
    ),
}


@pytest.mark.parametrize("fault", REFUSED)
def test_a_stack_that_would_lose_events_does_not_start(fault: str, tmp_path: Path) -> None:
    edit, message = REFUSED[fault]
    path = planted(tmp_path, edit)

    with pytest.raises(TemplateError, match=message):
        playing.play(playing.read(playing.SCENARIOS / "publish.jsonl"), tmp_path / "out", template=path)


def test_every_fault_is_reported_not_only_the_first(tmp_path: Path) -> None:
    def edit(resources: Resources) -> None:
        without_statement("RollWindowRole", "ReportFailures")(resources)
        without_statement("PollFeedsRole", "ReportFailures")(resources)

    with pytest.raises(TemplateError) as error:
        Stack(planted(tmp_path, edit))

    assert [line.partition(":")[0] for line in str(error.value).splitlines()] == [
        "PollFeedsEventInvokeConfig",
        "RollWindowEventInvokeConfig",
    ]
