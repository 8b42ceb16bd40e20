"""A stack that the SAM CLI deploys to ministack, an emulator of AWS. ministack is another process, reached over HTTP only."""

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
from datetime import UTC, datetime
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.exceptions import BotoCoreError, ClientError

from stoppress.model.http_request import Request
from stoppress_cli.local.template import parse_yaml
from stoppress_cli.scenario import signing

NAME, REGION = "stoppress", "eu-west-1"
SEEN_S = 180.0  # an event is in the files two or three seconds later; a loaded machine takes longer
ENDS_S = 1_200.0  # far longer than any program here
LINES_SHOWN = 15

Ended = subprocess.CompletedProcess[str]
Resources = dict[str, Any]


class Emulator:
    """ministack on a free port of this machine. The folder contains its log and the code of the functions."""

    def __init__(self, program: str, folder: Path) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        self.endpoint = f"http://127.0.0.1:{self.port}"
        # The variables with which a program uses the emulator as AWS.
        self.aws_settings = {"AWS_ENDPOINT_URL": self.endpoint, "AWS_DEFAULT_REGION": REGION}
        self.log = folder / f"ministack-{self.port}.log"
        self._program = program
        self._settings = {"GATEWAY_PORT": str(self.port), "TMPDIR": str(folder)}
        self.stop_command = " ".join(
            [*(f"{name}={value}" for name, value in self._settings.items()), program, "--stop"]
        )

    def start(self) -> None:
        """Start the emulator in the background, and return when it answers. It outlives this process."""
        listening = {"BIND_HOST": "127.0.0.1", "MINISTACK_REGION": REGION}
        ended = run([self._program, "--detach"], self._settings | listening)
        assert ended.returncode == 0, ended.stdout + ended.stderr
        until(f"ministack answers at {self.endpoint}", self._answers, report=lambda: tail(self.log))

    def stop(self) -> None:
        """Stop the emulator and the processes of the functions."""
        run([self._program, "--stop"], self._settings)
        until("ministack ends", lambda: not self._answers(), report=lambda: tail(self.log))

    def _answers(self) -> bool:
        with socket.socket() as probe:
            return probe.connect_ex(("127.0.0.1", self.port)) == 0


class Stack:
    """The stack in the emulator. `sam` is the SAM CLI, `build` the folder of `sam build`."""

    def __init__(self, emulator: Emulator, sam: str, build: Path, folder: Path) -> None:
        self._emulator, self._sam, self._build, self._folder = emulator, sam, build, folder
        self._printed = folder / "printed.log"

    def deploy(self, change: Callable[[Resources], None] | None = None) -> Ended:
        """Run `sam deploy`; `change` changes the resources in a copy of the template.

        ministack has no metric math, so the alarms with an expression are left out.
        """
        document = parse_yaml((self._build / "template.yaml").read_text(encoding="utf-8"))
        resources = document["Resources"]
        for name in [name for name, resource in resources.items() if "Metrics" in resource.get("Properties", {})]:
            del resources[name]
        for resource in resources.values():
            for code in {"CodeUri", "ContentUri"} & resource.get("Properties", {}).keys():
                resource["Properties"][code] = str(self._build / resource["Properties"][code])
        if change:
            change(resources)
        template = self._folder / "changed.json"
        template.write_text(json.dumps(document), encoding="utf-8")
        options = ["--resolve-s3", "--capabilities", "CAPABILITY_IAM", "--no-confirm-changeset"]
        options += ["--parameter-overrides", "Listing=yes"]
        return self._run(self._sam, "deploy", "--template-file", str(template), *options, "--stack-name", NAME)

    def delete(self) -> Ended:
        return self._run(self._sam, "delete", "--no-prompts", "--stack-name", NAME)

    def file_of(self, name: str, text: str) -> Path:
        path = self._folder / name
        path.write_text(text, encoding="utf-8")
        return path

    def command(self, *words: str) -> Ended:
        return self._run(sys.executable, "-m", "stoppress_cli", *words, "--stack", NAME)

    def _run(self, *words: str) -> Ended:
        """Run a program that uses the emulator as AWS, and keep its output for `until`."""
        settings = self._emulator.aws_settings
        # SAM polls the stack every five seconds by default.
        ended = run(words, settings | {"SAM_CLI_TELEMETRY": "0", "SAM_CLI_POLL_DELAY": "0.5"})
        self._printed.write_text(f"{' '.join(words)}\n{ended.stdout}{ended.stderr}", encoding="utf-8")
        return ended

    def aws(self, service: str) -> Any:
        return _client(service, self._emulator.endpoint)

    @cached_property
    def outputs(self) -> dict[str, str]:
        return {output["OutputKey"]: output["OutputValue"] for output in self.described["Outputs"]}

    @property
    def described(self) -> dict[str, Any]:
        [stack] = self.aws("cloudformation").describe_stacks(StackName=NAME)["Stacks"]
        return dict(stack)

    def function(self, logical: str) -> dict[str, Any]:
        configuration = self.aws("lambda").get_function_configuration(FunctionName=self._physical(logical))
        return dict(configuration)

    def _physical(self, logical: str) -> str:
        answer = self.aws("cloudformation").describe_stack_resource(StackName=NAME, LogicalResourceId=logical)
        return str(answer["StackResourceDetail"]["PhysicalResourceId"])

    def make_routes(self) -> None:
        """Create the routes of the HTTP API from its OpenAPI `Body`, which ministack ignores."""
        template = self.aws("cloudformation").get_template(StackName=NAME, TemplateStage="Processed")["TemplateBody"]
        api, gateway = self._physical("WebhookApi"), self.aws("apigatewayv2")
        for path, methods in template["Resources"]["WebhookApi"]["Properties"]["Body"]["paths"].items():
            for method, operation in methods.items():
                integration = operation["x-amazon-apigateway-integration"]
                [function] = re.findall(r"\$\{(\w+)\.Arn\}", json.dumps(integration["uri"]))
                created = gateway.create_integration(
                    ApiId=api,
                    IntegrationType="AWS_PROXY",
                    IntegrationUri=self.function(function)["FunctionArn"],
                    PayloadFormatVersion=integration["payloadFormatVersion"],
                )
                verb = "ANY" if method == "x-amazon-apigateway-any-method" else method.upper()
                gateway.create_route(
                    ApiId=api, RouteKey=f"{verb} {path}", Target=f"integrations/{created['IntegrationId']}"
                )

    @cached_property
    def api(self) -> str:
        """Return the path of the HTTP API at the emulator's endpoint, because the API's host name cannot be resolved."""
        return f"/_aws/execute-api/{self._physical('WebhookApi')}/$default"

    @property
    def address(self) -> str:
        return self._emulator.endpoint + self.api

    def post(self, path: str, event: Mapping[str, Any], secret: str) -> int:
        """Post a webhook signed by Standard Webhooks, and return the status of the answer."""
        request = Request({"content-type": "application/json"}, json.dumps(event).encode())
        signed = signing.signed(request, "standard", secret, f"msg_{uuid.uuid4()}", datetime.now(UTC))
        connection = http.client.HTTPConnection("127.0.0.1", self._emulator.port, timeout=SEEN_S)
        try:
            connection.request("POST", self.api + path, signed.body, dict(signed.headers))
            return connection.getresponse().status
        finally:
            connection.close()

    def file(self, host: str, name: str) -> str:
        """Return the text of a site's file, or an empty text."""
        try:
            answer = self.aws("s3").get_object(Bucket=self.outputs["BucketName"], Key=f"{host}/{name}")
        except self.aws("s3").exceptions.NoSuchKey:
            return ""
        return str(answer["Body"].read().decode())

    def waiting(self, output: str) -> int:
        """Return the number of messages in the queue of an output."""
        counts = ["ApproximateNumberOfMessages", "ApproximateNumberOfMessagesNotVisible"]
        answer = self.aws("sqs").get_queue_attributes(QueueUrl=self.outputs[output], AttributeNames=counts)
        return sum(int(answer["Attributes"][count]) for count in counts)

    def until(self, what: str, holds: Callable[[], bool], within_s: float = SEEN_S) -> None:
        """Wait until `holds` is true. After the deadline, fail with the last log lines of each function."""
        until(what, holds, within_s, report=self._logs)

    def _logs(self) -> str:
        shown = [tail(self._emulator.log), tail(self._printed)]
        try:
            for group in self.aws("logs").describe_log_groups()["logGroups"]:
                events = self.aws("logs").filter_log_events(logGroupName=group["logGroupName"])["events"]
                shown += [group["logGroupName"], *(event["message"].rstrip() for event in events[-LINES_SHOWN:])]
        except (BotoCoreError, ClientError) as error:
            shown.append(f"the functions' logs cannot be read: {error}")
        return "\n".join(shown)


@cache
def _client(service: str, endpoint: str) -> Any:
    return boto3.client(service, endpoint_url=endpoint)  # type: ignore[call-overload]


def until(what: str, holds: Callable[[], bool], within_s: float = SEEN_S, *, report: Callable[[], str]) -> None:
    """Wait until `holds` is true. After the deadline, fail with `what` and the report."""
    deadline = time.monotonic() + within_s
    while not holds():
        if time.monotonic() > deadline:
            pytest.fail(f"not after {within_s:.0f} s: {what}\n{report()}")
        time.sleep(0.2)


def run(words: tuple[str, ...] | list[str], settings: Mapping[str, str]) -> Ended:
    """Run a program to its end, and keep its output."""
    environment = os.environ | settings
    return subprocess.run(  # noqa: S603 - our own command, and the programs that scripts/build installs
        words, env=environment, capture_output=True, text=True, timeout=ENDS_S, check=False
    )


def tail(log: Path) -> str:
    """Return the last lines of a file, if it exists."""
    lines = log.read_text(encoding="utf-8", errors="replace").splitlines() if log.exists() else []
    return "\n".join([str(log), *lines[-LINES_SHOWN:]])
