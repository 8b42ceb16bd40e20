"""`stoppress preflight`: checks an AWS account before the first deployment."""

from collections.abc import Callable, Iterator, Sequence
from typing import Annotated

import typer
from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws.clients import client
from stoppress_cli.connect import BadRequest, describe, describe_error
from stoppress_cli.local import resources
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.template import TemplateError, find, load
from stoppress_cli.options import READS_ACCOUNT, Commands, Template
from stoppress_cli.output import Check, end, fail, show

app = Commands()

# A new on-demand table's stream has four shards. Lambda runs one invocation a shard.
_STREAM_SHARDS = 4
# The API admits 50 requests a second (ThrottleRate), and a request takes some 50 ms.
_WEBHOOKS = 3


@app.command(effect=READS_ACCOUNT, example="stoppress preflight --region eu-west-1 --parameter Host=www.example.com")
def preflight(
    stack: Annotated[str, typer.Option("--stack", help="Name of the future stack.")] = "stoppress",
    parameters: Annotated[
        list[str] | None,
        typer.Option(
            "--parameter", help="A parameter of the deployment, such as Host=www.example.com; can be repeated."
        ),
    ] = None,
    template: Template = None,
) -> None:
    """Check an AWS account before the first deployment: credentials, Lambda's quota, and whether names that the stack needs are free.

    Exit code 1: a check failed; its line contains the fix.
    """
    values = dict(parameter.partition("=")[::2] for parameter in parameters or ())
    if not all(values.values()):
        fail("write each --parameter as NAME=VALUE, such as --parameter Host=www.example.com")
    try:
        resolved = resources.resolve(load(find(template), values), stack)
    except TemplateError as error:
        fail(error)
    results = []
    for check in checks(stack, resolved):
        results.append(check)
        show(f"{check.outcome:<8} {check.check}: {check.text}{f'; {check.fix}' if check.fix else ''}")
    outcomes = {check.outcome for check in results}
    has_faults = "fault" in outcomes
    end(results, is_ok=not has_faults, is_known=has_faults or "unknown" not in outcomes)


def checks(stack: str, resolved: Sequence[Resource]) -> Iterator[Check]:
    """Check the account. If the credentials do not work, no other check runs."""
    credentials = _run("credentials", _credentials)
    yield credentials
    if credentials.outcome != "ok":
        return
    yield _run("Lambda concurrency", _concurrency, resolved)
    existing = _run("stack", _stack, stack)
    yield existing
    if existing.outcome == "ok":
        yield from (_run("names", _name, resource) for resource in resolved if resource.type in _TAKEN)


def _run(subject: str, check: Callable[..., tuple[str, str]], *arguments: object) -> Check:
    """Run a check, which returns its text and for a fault the fix."""
    try:
        text, fix = check(*arguments)
    except BadRequest as error:
        return Check(subject, "unknown", str(error))
    except (ClientError, BotoCoreError) as error:
        return Check(subject, "unknown", describe_error(error))
    return Check(subject, "fault" if fix else "ok", text, fix)


def _credentials() -> tuple[str, str]:
    region = client("cloudformation").meta.region_name  # STS alone also answers without a region
    identity = client("sts").get_caller_identity()
    return f"account {identity['Account']}, region {region}, as {identity['Arn']}", ""


def _concurrency(resolved: Sequence[Resource]) -> tuple[str, str]:
    """Compare the account's quota with the most concurrent invocations that the stack can need."""
    mappings = [resource.properties for resource in resources.of_type(resolved, "AWS::Lambda::EventSourceMapping")]
    queues = sum(int(source["ScalingConfig"]["MaximumConcurrency"]) for source in mappings if "ScalingConfig" in source)
    streams = sum(int(source.get("ParallelizationFactor", 1)) for source in mappings if "ScalingConfig" not in source)
    stream, clocks = _STREAM_SHARDS * streams, len(resources.of_type(resolved, "AWS::Scheduler::Schedule"))
    needed = queues + stream + clocks + _WEBHOOKS
    free = client("lambda").get_account_settings()["AccountLimit"]["UnreservedConcurrentExecutions"]
    parts = f"{queues} queues + {stream} stream + {clocks} clocks + {_WEBHOOKS} webhooks"
    fix = (
        "raise the quota: aws service-quotas request-service-quota-increase --service-code lambda"
        " --quota-code L-B99A9384 --desired-value 1000"
    )
    return f"{free:,} free, {needed} needed ({parts})", "" if free >= needed else fix


def _stack(stack: str) -> tuple[str, str]:
    description = describe(stack)
    if description is None:
        return f"there is no stack {stack!r} yet", ""
    status = description["StackStatus"]
    if status in {"ROLLBACK_COMPLETE", "ROLLBACK_FAILED"}:
        remedy = f"delete what the failed deployment left: aws cloudformation delete-stack --stack-name {stack}"
    else:
        remedy = "upgrade it with sam deploy, or use another --stack"
    return f"there is a stack {stack!r} already ({status})", remedy


def _name(resource: Resource) -> tuple[str, str]:
    name = str(resource.properties["Name"])
    service, call, argument, deletion = _TAKEN[resource.type]
    try:
        getattr(client(service), call)(**{argument: name})
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return f"{name} is free", ""
        raise
    return f"{name} exists already", f"delete it (aws {service} {deletion} {name}), or use another --stack"


# Resource types with a name fixed in the template: the service, the call that describes a resource, its argument, and the command that
# deletes it. DescribeSecret also finds a secret that is scheduled for deletion: its name is not free yet.
_TAKEN = {
    "AWS::Events::EventBus": ("events", "describe_event_bus", "Name", "delete-event-bus --name"),
    "AWS::Scheduler::Schedule": ("scheduler", "get_schedule", "Name", "delete-schedule --name"),
    "AWS::SecretsManager::Secret": (
        "secretsmanager", "describe_secret", "SecretId", "delete-secret --force-delete-without-recovery --secret-id",
    ),
}  # fmt: skip
