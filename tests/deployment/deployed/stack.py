"""The built artifact, deployed by the SAM CLI to ministack: an emulator of AWS in a process of its own, reached over HTTP only."""

import http.client
import json
import os
import re
import socket
import subprocess
import sys
import time
import uuid
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError
from samtranslator.yaml_helper import yaml_parse

from stoppress_cli.scenario import signing
from tests.deployment.artifact.builds import ROOT

NAME = "stoppress"
REGION = "eu-west-1"
SEEN_S = 30.0  # an event is in the files two or three seconds later
LINES_SHOWN = 15


class Emulator:
    """ministack on a free port of this machine; what it keeps is in the folder."""

    def __init__(self, program: str, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        self.log = folder / f"ministack-{self.port}.log"
        self._program = program
        self._settings = {
            "BIND_HOST": "127.0.0.1",
            "GATEWAY_PORT": str(self.port),
            "MINISTACK_REGION": REGION,
            "TMPDIR": str(folder),
        }

    @property
    def stop_command(self) -> str:
        """What a user types to stop it."""
        settings = " ".join(f"{name}={value}" for name, value in self._settings.items())
        return f"{settings} {self._program} --stop"

    def start(self) -> None:
        """Returns when it answers. It outlives this process."""
        run([self._program, "--detach"], self._settings)
        until(f"ministack answers at {self.endpoint}", self._answers, report=lambda: tail(self.log))

    def stop(self) -> None:
        """Ends it, and the processes of the functions with it."""
        run([self._program, "--stop"], self._settings)

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


@dataclass(frozen=True)
class Stack:
    """The stack in the emulator. `sam` is the SAM CLI, `build` the folder of what `sam build` made."""

    emulator: Emulator
    sam: str
    build: Path
    folder: Path

    def deploy(self, change: Callable[[dict[str, Any]], None] | None = None) -> subprocess.CompletedProcess[str]:
        """`sam deploy` of the artifact; `change` is given the resources of a copy of the template, and changes them."""
        template = self.build / "template.yaml"
        if change:
            document = yaml_parse(template.read_text(encoding="utf-8"))
            for resource in document["Resources"].values():
                for code in {"CodeUri", "ContentUri"} & resource.get("Properties", {}).keys():
                    resource["Properties"][code] = str(self.build / resource["Properties"][code])
            change(document["Resources"])
            template = self.folder / "changed.json"
            template.write_text(json.dumps(document), encoding="utf-8")
        options = ["--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset"]
        return self._sam("deploy", "--template-file", str(template), *options)

    def delete(self) -> subprocess.CompletedProcess[str]:
        """`sam delete`, as docs/how-to/deploy.md has it."""
        return self._sam("delete", "--no-prompts")

    def _sam(self, command: str, *options: str) -> subprocess.CompletedProcess[str]:
        return self.typed(self.sam, command, "--stack-name", NAME, "--region", REGION, *options)

    def command(self, *words: str) -> subprocess.CompletedProcess[str]:
        """`stoppress … --stack`, as an operator types it."""
        return self.typed(sys.executable, "-m", "stoppress_cli", *words, "--stack", NAME)

    def typed(self, *words: str) -> subprocess.CompletedProcess[str]:
        """A program that speaks to the emulator as it would to AWS."""
        paths = os.pathsep.join(str(ROOT / folder) for folder in ("shared", "cli"))
        variables = {"AWS_ENDPOINT_URL": self.emulator.endpoint, "SAM_CLI_TELEMETRY": "0", "PYTHONPATH": paths}
        ended = run(words, variables, folder=self.folder, check=False)
        self.typed_log.write_text(f"{' '.join(words)}\n{ended.stdout}{ended.stderr}", encoding="utf-8")
        return ended

    def aws(self, service: str) -> Any:
        """A boto3 client."""
        return boto3.client(service, endpoint_url=self.emulator.endpoint)  # type: ignore[call-overload]

    @property
    def typed_log(self) -> Path:
        """The last command and what it printed."""
        return self.folder / "typed.log"

    @cached_property
    def outputs(self) -> dict[str, str]:
        """The outputs of the stack, by name."""
        [stack] = self.aws("cloudformation").describe_stacks(StackName=NAME)["Stacks"]
        return {output["OutputKey"]: output["OutputValue"] for output in stack["Outputs"]}

    def physical(self, logical: str) -> str:
        """The physical id of a resource."""
        found = self.aws("cloudformation").describe_stack_resource(StackName=NAME, LogicalResourceId=logical)
        return str(found["StackResourceDetail"]["PhysicalResourceId"])

    def variables(self, logical: str) -> dict[str, str]:
        """The environment variables of a function."""
        configuration = self.aws("lambda").get_function_configuration(FunctionName=self.physical(logical))
        return dict(configuration["Environment"]["Variables"])

    def make_routes(self) -> None:
        """Gives the HTTP API the routes of its OpenAPI `Body`, which SAM writes and ministack ignores."""
        made = self.aws("cloudformation").get_template(StackName=NAME, TemplateStage="Processed")["TemplateBody"]
        api, gateway = self.physical("WebhookApi"), self.aws("apigatewayv2")
        for path, methods in made["Resources"]["WebhookApi"]["Properties"]["Body"]["paths"].items():
            for method, operation in methods.items():
                integration = operation["x-amazon-apigateway-integration"]
                function = re.search(r"\$\{(\w+)\.Arn\}", json.dumps(integration["uri"]))
                assert function, integration
                arn = self.aws("lambda").get_function(FunctionName=self.physical(function[1]))["Configuration"]
                target = gateway.create_integration(
                    ApiId=api,
                    IntegrationType="AWS_PROXY",
                    IntegrationUri=arn["FunctionArn"],
                    PayloadFormatVersion=integration["payloadFormatVersion"],
                )
                verb = "ANY" if method == "x-amazon-apigateway-any-method" else method.upper()
                gateway.create_route(
                    ApiId=api, RouteKey=f"{verb} {path}", Target=f"integrations/{target['IntegrationId']}"
                )

    @property
    def api(self) -> str:
        """The URL of the HTTP API; the emulator has it below its own, for its host name cannot be looked up."""
        return f"{self.emulator.endpoint}/_aws/execute-api/{self.physical('WebhookApi')}/$default"

    def post(self, path: str, event: Mapping[str, Any], secret: str) -> int:
        """Posts a webhook with the signature of Standard Webhooks; the status of the answer."""
        body = json.dumps(event).encode()
        headers = signing.standard(secret, {}, body, f"msg_{uuid.uuid4()}", datetime.now(UTC))
        connection = http.client.HTTPConnection("127.0.0.1", self.emulator.port, timeout=SEEN_S)
        try:
            url = self.api.removeprefix(self.emulator.endpoint) + path
            connection.request("POST", url, body, headers | {"content-type": "application/json"})
            return connection.getresponse().status
        finally:
            connection.close()

    def file(self, host: str, name: str) -> str:
        """The text of a file of a site; empty where there is none."""
        bucket = self.aws("s3")
        try:
            answer = bucket.get_object(Bucket=self.outputs["BucketName"], Key=f"{host}/{name}")
        except bucket.exceptions.NoSuchKey:
            return ""
        return str(answer["Body"].read().decode())

    def messages(self, output: str) -> int:
        """How many messages wait in the queue that an output names."""
        names = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.aws("sqs").get_queue_attributes(QueueUrl=self.outputs[output], AttributeNames=names)
        return sum(int(answer["Attributes"][name]) for name in names)

    def until(self, what: str, holds: Callable[[], bool], within_s: float = SEEN_S) -> None:
        """Waits until it holds; else fails with the last log lines of each function."""
        until(what, holds, within_s, report=self._logs)

    def _logs(self) -> str:
        shown = [tail(log) for log in (self.emulator.log, self.typed_log)]
        try:
            logs = self.aws("logs")
            for group in logs.describe_log_groups()["logGroups"]:
                events = logs.filter_log_events(logGroupName=group["logGroupName"])["events"][-LINES_SHOWN:]
                shown += [group["logGroupName"], *(event["message"].rstrip() for event in events)]
        except (BotoCoreError, ClientError) as error:
            shown.append(f"no logs: {error}")
        return "\n".join(shown)


def until(what: str, holds: Callable[[], bool], within_s: float = SEEN_S, *, report: Callable[[], str]) -> None:
    """Waits until it holds, and fails with the report after the deadline."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"waited {within_s:.0f} s in vain: {what}\n{report()}")
        time.sleep(0.2)


def run(
    words: Any, variables: Mapping[str, str], *, folder: Path = ROOT, check: bool = True
) -> subprocess.CompletedProcess[str]:
    """A program that ran to its end, with its output as text."""
    return subprocess.run(  # noqa: S603 - our own code, and the programs that scripts/build installed
        list(words), env=os.environ | variables, cwd=folder, capture_output=True, text=True, timeout=300, check=check
    )


def tail(log: Path) -> str:
    """The last lines of a file."""
    return "\n".join(log.read_text(encoding="utf-8", errors="replace").splitlines()[-LINES_SHOWN:])
