"""Connects a command to the stack on this machine or to a deployed one, and explains the errors of AWS."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, suppress
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import typer
import urllib3
from botocore.exceptions import BotoCoreError, ClientError, EndpointConnectionError
from botocore.utils import is_valid_endpoint_url
from urllib3.exceptions import HTTPError

from stoppress.aws import clients, sites
from stoppress.aws.queues import SendError
from stoppress.aws.secrets import NoSecret
from stoppress.aws.site_versions import Replaced
from stoppress.aws.sites import BadSite, UnknownSite
from stoppress.aws.table import Conflict
from stoppress.model.event import ListingError
from stoppress.model.site import BadConfiguration
from stoppress.show.question import Unclear
from stoppress.signatures.verify import BadSecret
from stoppress_cli.local import resources
from stoppress_cli.local.process import Clock, environment, no_aws_settings
from stoppress_cli.local.template import STACK_NAME, WITH_ALL, TemplateError, find, load
from stoppress_cli.output import FAILED, counted, errors, fail

# Environment variable with the commit of the deployed stack, for `stoppress status`.
DEPLOYED_COMMIT = "DEPLOYED_COMMIT"
# Environment variables that `stoppress.aws` reads, each with the output of a deployed stack that contains its value, and the
# resource's logical name in the template.
RESOURCES = {
    "TABLE_NAME": ("TableName", "Table"),
    "BUCKET_NAME": ("BucketName", "Bucket"),
    "ARTICLES_QUEUE_URL": ("ArticlesQueueUrl", "ArticlesQueue"),
    "IMPORTS_QUEUE_URL": ("ImportsQueueUrl", "ImportsQueue"),
    "REWRITES_QUEUE_URL": ("RewritesQueueUrl", "RewritesQueue"),
    "ARTICLES_DEAD_LETTERS_URL": ("ArticlesDeadLettersUrl", "ArticlesDeadLetters"),
    "FAILURES_URL": ("FailuresUrl", "Failures"),
}
CLOCK_SECONDS_MAX = 5.0
# The header `date` has whole seconds, and the answer takes some time.
CLOCK_DIFFERENCE_MIN = timedelta(minutes=1)
_AWS_ERRORS = Path(__file__).with_name("aws_errors.toml")
# moto accepts any credentials, but requires some.
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}


def describe_error(error: ClientError | BotoCoreError, used: str = "") -> str:
    """Return the text of an AWS error for an operator, with what to do. `used` is the result of `_describe_endpoint`."""
    if isinstance(error, ClientError):
        code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
        names = [code]
        fields: Mapping[str, Any] = {"call": error.operation_name, "code": code, "message": message}
        unknown = f"AWS could not do {error.operation_name} ({code}): {message}"
    else:
        names, fields = [kind.__name__ for kind in type(error).__mro__], error.kwargs
        unknown = " ".join(str(error).split())
    entries = tomllib.loads(_AWS_ERRORS.read_text(encoding="utf-8"))["advice"]
    advice = next((entry["text"] for entry in entries if not set(entry["errors"]).isdisjoint(names)), None)
    return (advice.format(**fields, used=used) if advice else unknown).strip()


class BadRequest(ValueError):
    """A request that the stack cannot or must not fulfil; the text contains what to give instead."""


# Errors whose text is the reason why a command cannot do its work.
_REASONS = (
    BadRequest, Unclear, TemplateError, UnknownSite, BadConfiguration, NoSecret, SendError, Conflict, Replaced, ListingError,
    TimeoutError, BadSecret,
)  # fmt: skip


@contextmanager
def open_stack(stack: str | None, endpoint: str) -> Iterator[None]:
    """Connect `stoppress.aws` to a deployed stack of that name, or without a name to the endpoint, while the block runs.

    An error of the stack or of AWS in the block is printed, and the command exits with FAILED.
    """
    with exit_on_error(stack, endpoint):
        if stack is None and not _is_url(endpoint):
            raise BadRequest(
                f"{endpoint!r} is no URL; give one such as http://127.0.0.1:8000, or --stack and the stack's name"
            )
        with deployed(stack) if stack is not None else local(endpoint):
            yield


@contextmanager
def exit_on_error(stack: str | None, endpoint: str) -> Iterator[None]:
    """Print an error of the stack or of AWS in the block, and exit with FAILED."""
    try:
        yield
    except _REASONS as error:
        fail(error)
    except (ClientError, BotoCoreError) as error:
        is_local = stack is None and isinstance(error, EndpointConnectionError)
        advice = f"no answer from {endpoint}; start `stoppress up`, or name a deployed stack with --stack"
        fail(advice if is_local else describe_error(error, _describe_endpoint(stack, endpoint)))


def _describe_endpoint(stack: str | None, endpoint: str) -> str:
    """Return the region and the endpoint that a command used: an error may come from the wrong one. Empty if no region is set."""
    try:
        meta = clients.client("cloudformation").meta if stack else None
    except BotoCoreError:
        return ""
    used = f"region {meta.region_name}, endpoint {meta.endpoint_url}" if meta else f"endpoint {endpoint}"
    return f" (used: {used})"


@contextmanager
def warn_of_unreadable(host: str | None) -> Iterator[None]:
    """Warn if the newest version of the site, or of one of all sites (None), cannot be read. Exit with FAILED after the block.

    The version before is then in force.
    """
    unusable = [site for site in sites.load_all()[1] if host in (None, site.host)]
    print_unreadable(unusable)
    with suppress(typer.Exit) if unusable else nullcontext():
        yield
    if unusable:
        raise typer.Exit(FAILED)


def print_unreadable(unusable: Sequence[BadSite]) -> None:
    """Print on stderr the sites whose newest version cannot be read, each with its reason. Print nothing if there are none."""
    if unusable:
        errors.print(
            f"stoppress: cannot read {counted(len(unusable), 'site')}: correct the sites below with `stoppress sites put`. Until then"
            " the version before is in force."
        )
    for site in unusable:
        errors.print(f"  {site.host}: {'; '.join(site.reason.splitlines())}")


@contextmanager
def local(endpoint: str) -> Iterator[None]:
    """Connect to the stack that `stoppress up` or `make demo` serves at this endpoint."""
    refs = {resource.logical: resource.ref for resource in resources.resolve(load(find(None), defaults=WITH_ALL))}
    variables = {name: refs[logical] for name, (_, logical) in RESOURCES.items() if logical in refs}
    start = endpoint.rstrip("/")
    variables |= {"SECRETS_PATH": f"stoppress/{STACK_NAME}", "WEBHOOKS_URL": start, "PAGES_URL": f"{start}/sites"}
    here = no_aws_settings() | {"FILE_VERSIONS_DAYS": "0"} | _CREDENTIALS | {"AWS_ENDPOINT_URL": endpoint}
    with _connected(variables | here), _clock_of(endpoint):
        yield


@contextmanager
def _clock_of(endpoint: str) -> Iterator[None]:
    """Run the block at the time of a local stack, whose pages can move its clock."""
    try:
        date = urllib3.request("HEAD", endpoint, timeout=CLOCK_SECONDS_MAX, retries=False).headers.get("date", "")
        ahead = parsedate_to_datetime(date) - datetime.now(UTC)
    except (HTTPError, ValueError):  # no connection, which the command's first call reports, or no date
        ahead = timedelta()
    if abs(ahead) <= CLOCK_DIFFERENCE_MIN:
        yield
        return
    clock = Clock()
    clock.move(clock.now() + ahead, runs=True)
    try:
        yield
    finally:
        clock.release()


@contextmanager
def deployed(stack: str) -> Iterator[None]:
    """Connect to a stack of this version, with the credentials in the environment. Raises BadRequest."""
    description = describe(stack)
    if description is None:
        advice = "give another name, region (--region) or profile (--profile)"
        raise BadRequest(f"there is no stack {stack!r}: {advice}{_describe_endpoint(stack, '')}")
    outputs = {output["OutputKey"]: output["OutputValue"] for output in description.get("Outputs", [])}
    if missing := sorted({"TableName", "BucketName", "SecretsPath", "Version"} - outputs.keys()):
        raise BadRequest(f"{stack} is no stack of Stoppress: it has no output {missing[0]}")
    own, deployed_version, commit = version("stoppress"), outputs["Version"], outputs.get("Commit", "unknown")
    if deployed_version != own:
        raise BadRequest(
            f"the stack {stack} has version {deployed_version}, this command has {own}: check out the commit {commit}, or deploy {own}"
        )
    variables = {name: outputs[output] for name, (output, _) in RESOURCES.items() if output in outputs}
    if pages := outputs.get("PagesUrl"):  # the stack has pages
        variables["PAGES_URL"] = pages
    # The output has the address of the first site: <api>/webhooks/<host>/cms.
    variables["WEBHOOKS_URL"] = outputs.get("WebhookUrl", "").partition("/webhooks/")[0]
    days = {"FILE_VERSIONS_DAYS": outputs.get("FileVersionsDays")}
    with _connected(variables | days | {"SECRETS_PATH": outputs["SecretsPath"], DEPLOYED_COMMIT: commit}):
        yield


@contextmanager
def account(profile: str | None, region: str | None) -> Iterator[None]:
    """Use an AWS profile and region instead of those of the environment, if given, while the block runs."""
    variables: dict[str, str | None] = {}
    if profile is not None:
        # As in the AWS CLI, --profile overrides credentials in the environment.
        variables = dict.fromkeys(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
        variables["AWS_PROFILE"] = profile
    # The AWS CLI prefers AWS_REGION; boto3 reads AWS_DEFAULT_REGION only.
    if region := region or os.environ.get("AWS_REGION"):
        variables |= {"AWS_REGION": region, "AWS_DEFAULT_REGION": region}
    with _connected(variables):
        yield


def describe(stack: str) -> dict[str, Any] | None:
    """Return a stack as DescribeStacks does; None for a stack that does not exist. Raises BadRequest, and the errors of AWS."""
    # CloudFormation's own error for an invalid name quotes a regular expression.
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*|arn:.+", stack):
        raise BadRequest(f"{stack!r} is no name of a stack: give letters, digits and hyphens, or the ARN of a stack")
    try:
        return dict(clients.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0])
    except ClientError as error:
        # CloudFormation has no error code for a missing stack.
        if "does not exist" in str(error):
            return None
        raise


def _is_url(endpoint: str) -> bool:
    """Return True if boto3 can connect to the endpoint."""
    with suppress(ValueError):
        has_port = urlsplit(endpoint).port != 0
        return has_port and endpoint.startswith(("http://", "https://")) and bool(is_valid_endpoint_url(endpoint))
    return False


@contextmanager
def _connected(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Set the variables, and have `stoppress.aws` create new clients, while the block runs."""
    with environment(variables):
        clients.forget()
        try:
            yield
        finally:
            clients.forget()
