"""A stack with one function, which records each event and returns what the test planned."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from stoppress_cli.local.stack import Stack

NOON = datetime(2026, 11, 20, 12, tzinfo=UTC)

APP = """
import json, os, pathlib

def lambda_handler(event, context):
    with open(os.environ["RECORD"], "a") as record:
        record.write(json.dumps(event) + "\\n")
    plan = pathlib.Path(os.environ["PLAN"])
    steps = json.loads(plan.read_text())
    step = steps.pop(0) if steps else None
    plan.write_text(json.dumps(steps))
    if step == "raise":
        raise ValueError("as planned")
    return step
"""

QUEUES: dict[str, Any] = {
    "Dead": {"Type": "AWS::SQS::Queue"},
    "Queue": {
        "Type": "AWS::SQS::Queue",
        "Properties": {
            "VisibilityTimeout": 60,
            "RedrivePolicy": {"deadLetterTargetArn": {"Fn::GetAtt": "Dead.Arn"}, "maxReceiveCount": 2},
        },
    },
}
TABLE: dict[str, Any] = {
    "Type": "AWS::DynamoDB::Table",
    "Properties": {
        "BillingMode": "PAY_PER_REQUEST",
        "AttributeDefinitions": [
            {"AttributeName": "pk", "AttributeType": "S"},
            {"AttributeName": "sk", "AttributeType": "S"},
        ],
        "KeySchema": [{"AttributeName": "pk", "KeyType": "HASH"}, {"AttributeName": "sk", "KeyType": "RANGE"}],
        "StreamSpecification": {"StreamViewType": "NEW_AND_OLD_IMAGES"},
    },
}


class Toy:
    """A folder with a template and the function; `plan` sets the results of its next invocations, or "raise"."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.template = folder / "template.yaml"
        (folder / "functions" / "toy").mkdir(parents=True)
        (folder / "functions" / "toy" / "app.py").write_text(APP)
        (folder / "record").write_text("")
        self.plan()

    def plan(self, *steps: Any) -> None:
        """Set the results of the next invocations; later invocations return nothing."""
        (self.folder / "plan").write_text(json.dumps(steps))

    @property
    def events(self) -> list[Any]:
        return [json.loads(line) for line in (self.folder / "record").read_text().splitlines()]

    def write(self, events: dict[str, Any], more: dict[str, Any] | None = None, **properties: Any) -> None:
        """Write the template: the function with its event sources, and more resources."""
        function = {
            "Type": "AWS::Serverless::Function",
            "Properties": {
                "CodeUri": "functions/toy/",
                "Handler": "app.lambda_handler",
                "Runtime": "python3.13",
                "Policies": [{"Statement": [{"Effect": "Allow", "Action": "*", "Resource": "*"}]}],
                "Environment": {
                    "Variables": {"RECORD": str(self.folder / "record"), "PLAN": str(self.folder / "plan")}
                },
                "Events": events,
                **properties,
            },
        }
        document = {
            "AWSTemplateFormatVersion": "2010-09-09",
            "Transform": "AWS::Serverless-2016-10-31",
            "Resources": {"Function": function, **(more or {})},
        }
        self.template.write_text(json.dumps(document))

    @contextmanager
    def running(self) -> Iterator[Stack]:
        """Run the template's stack, with its clock at NOON."""
        with Stack(self.template, start=NOON) as stack:
            yield stack


def arn(stack: Stack, logical: str) -> str:
    return stack.resources[logical].arn
