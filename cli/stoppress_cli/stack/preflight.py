"""Checks an AWS account before the first deployment: credentials, quotas, and whether the stack's names are free."""

import functools
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws.clients import client
from stoppress_cli.local import resources
from stoppress_cli.local.resources import Resource
from stoppress_cli.local.template import load
from stoppress_cli.stack.find import in_words

# A new on-demand table's stream has four shards. Lambda runs one invocation a shard.
_STREAM_SHARDS = 4
# The API admits 50 requests a second (ThrottleRate), and a request takes some 50 ms.
_WEBHOOKS = 3
# Systems Manager's quotas for an account in a region: standard parameters, and GetParameter calls a second.
_PARAMETERS_MAX = 10_000
_CALLS_PER_S = 40
_SETTING = "/ssm/parameter-store/"


@dataclass(frozen=True)
class Check:
    """The result of one check. `text` says what to do, unless the outcome is `ok`."""

    outcome: Literal["ok", "fault", "unknown"]
    text: str


def checks(stack: str, template: Path) -> Iterator[Check]:
    """Checks the account. If the credentials do not work, no other check runs. Raises TemplateError."""
    resolved = resources.resolve(load(template), stack)
    credentials = _checked("credentials", _credentials)
    yield credentials
    if credentials.outcome != "ok":
        return
    yield _checked("Lambda concurrency", lambda: _concurrency(resolved))
    yield _checked("Parameter Store", _parameter_store)
    existing = _checked("stack", lambda: _stack(stack))
    yield existing
    if existing.outcome == "ok":
        for resource in resolved:
            if resource.type in _TAKEN:
                yield _checked("names", functools.partial(_name, resource))
        yield _checked("names", lambda: _sites(stack))


def _checked(subject: str, check: Callable[[], Check]) -> Check:
    try:
        result = check()
    except (ClientError, BotoCoreError) as error:
        result = Check("unknown", in_words(error))
    return Check(result.outcome, f"{subject}: {result.text}")


def _credentials() -> Check:
    region = client("cloudformation").meta.region_name  # STS alone also answers without a region
    identity = client("sts").get_caller_identity()
    return Check("ok", f"account {identity['Account']}, region {region}, as {identity['Arn']}")


def concurrency(resolved: Iterable[Resource]) -> dict[str, int]:
    """The most concurrent invocations that the stack can need, by what causes them."""
    resolved = list(resolved)
    mappings = [each.properties for each in resolved if each.type == "AWS::Lambda::EventSourceMapping"]
    queues = [int(each["ScalingConfig"]["MaximumConcurrency"]) for each in mappings if "ScalingConfig" in each]
    streams = [int(each.get("ParallelizationFactor", 1)) for each in mappings if "ScalingConfig" not in each]
    return {
        "queues": sum(queues),
        "stream": _STREAM_SHARDS * sum(streams),
        "clocks": sum(each.type == "AWS::Scheduler::Schedule" for each in resolved),
        "webhooks": _WEBHOOKS,
    }


def _concurrency(resolved: Iterable[Resource]) -> Check:
    wanted = concurrency(resolved)
    parts = " + ".join(f"{number} {name}" for name, number in wanted.items())
    needed = sum(wanted.values())
    free = client("lambda").get_account_settings()["AccountLimit"]["UnreservedConcurrentExecutions"]
    text = f"{free:,} free, {needed} needed ({parts})"
    if free >= needed:
        return Check("ok", text)
    return Check(
        "fault",
        f"{text}; raise the quota: aws service-quotas request-service-quota-increase --service-code lambda"
        " --quota-code L-B99A9384 --desired-value 1000",
    )


def _parameter_store() -> Check:
    ssm = client("ssm")
    tier, fast = (
        ssm.get_service_setting(SettingId=_SETTING + name)["ServiceSetting"]["SettingValue"]
        for name in ("default-parameter-tier", "high-throughput-enabled")
    )
    standard = [{"Key": "Tier", "Option": "Equals", "Values": ["Standard"]}]
    pages = ssm.get_paginator("describe_parameters").paginate(ParameterFilters=standard)
    number = sum(len(page["Parameters"]) for page in pages)
    calls = "high throughput" if fast == "true" else f"{_CALLS_PER_S} calls a second for the whole account"
    text = f"{number:,} of {_PARAMETERS_MAX:,} standard parameters, default tier {tier}, {calls}"
    if number < _PARAMETERS_MAX:
        return Check("ok", text)
    return Check("fault", f"{text}; delete unused parameters, or use another region")


def _stack(stack: str) -> Check:
    cloudformation = client("cloudformation")
    try:
        [described] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except ClientError as error:
        # CloudFormation has no error code of its own for a missing stack.
        if "does not exist" in str(error):
            return Check("ok", f"there is no stack {stack!r} yet")
        raise
    status = described["StackStatus"]
    if status in {"ROLLBACK_COMPLETE", "ROLLBACK_FAILED"}:
        remedy = f"delete what the failed deployment left: aws cloudformation delete-stack --stack-name {stack}"
    else:
        remedy = "upgrade it with sam deploy, or use another --stack"
    return Check("fault", f"there is a stack {stack!r} already ({status}); {remedy}")


def _name(resource: Resource) -> Check:
    name = str(resource.properties["Name"])
    service, call, argument, remedy = _TAKEN[resource.type]
    try:
        getattr(client(service), call)(**{argument: name})
    except ClientError as error:
        if error.response["Error"]["Code"] == "ResourceNotFoundException":
            return Check("ok", f"{name} is free")
        raise
    return Check("fault", f"{name} exists already; {remedy.format(name=name)}")


# Resource types with a name fixed in the template. Each has a service, the call that describes a resource, its argument, and the remedy.
_TAKEN = {
    "AWS::Events::EventBus": (
        "events",
        "describe_event_bus",
        "Name",
        "delete it (aws events delete-event-bus --name {name}), or use another --stack",
    ),
    "AWS::Scheduler::Schedule": (
        "scheduler",
        "get_schedule",
        "Name",
        "delete it (aws scheduler delete-schedule --name {name}), or use another --stack",
    ),
    # DescribeSecret also finds a secret that is scheduled for deletion: its name is not free yet.
    "AWS::SecretsManager::Secret": (
        "secretsmanager",
        "describe_secret",
        "SecretId",
        "delete it (aws secretsmanager delete-secret --secret-id {name} --force-delete-without-recovery), or use another --stack",
    ),
}


def _sites(stack: str) -> Check:
    path = f"/stoppress/{stack}/sites"
    pages = client("ssm").get_paginator("get_parameters_by_path").paginate(Path=path)
    names = [parameter["Name"] for page in pages for parameter in page["Parameters"]]
    if not names:
        return Check("ok", f"{path}/ is free")
    return Check(
        "fault",
        f"{', '.join(names)} exist already; delete the one of your first site (aws ssm delete-parameter --name ...), or use"
        " another --stack",
    )
