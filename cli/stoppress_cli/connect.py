"""How a command finds its stack: the one that runs on this machine, or a deployed one; and why it cannot."""

import os
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import boto3
import typer
import urllib3
from botocore import exceptions
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import is_valid_endpoint_url
from urllib3.exceptions import HTTPError

from stoppress.aws import clients, sites
from stoppress.aws.queues import SendError
from stoppress.aws.sites import UnknownSite
from stoppress.aws.table import Conflict
from stoppress.model.site import BadConfiguration
from stoppress.show.question import Unclear
from stoppress_cli.local import resources
from stoppress_cli.local.functions import environment, no_aws_settings
from stoppress_cli.local.template import WITH_ALL, TemplateError, find, load
from stoppress_cli.output import FAILED, OK, counted, errors, fail

# Environment variables that `stoppress.aws` reads, each with the output of a deployed stack that has its value.
_OUTPUTS = {"TABLE_NAME": "TableName", "BUCKET_NAME": "BucketName", "SECRETS_PATH": "SecretsPath"}
# Variables of the queues, each with the output of a deployed stack and the logical name in the template.
_QUEUES = {
    "ARTICLES_QUEUE_URL": ("ArticlesQueueUrl", "ArticlesQueue"),
    "IMPORTS_QUEUE_URL": ("ImportsQueueUrl", "ImportsQueue"),
    "REWRITES_QUEUE_URL": ("RewritesQueueUrl", "RewritesQueue"),
    "ARTICLES_DEAD_LETTERS_URL": ("ArticlesDeadLettersUrl", "ArticlesDeadLetters"),
    "FAILURES_URL": ("FailuresUrl", "Failures"),
}
CLOCK_SECONDS_MAX = 5.0
# The header `date` has whole seconds, and the answer takes some time.
CLOCK_DIFFERENCE_MIN = timedelta(minutes=1)
# moto accepts any credentials, but requires some.
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}

# What to do about AWS's error codes. {call} is the operation, {message} the message of AWS.
_IN_WORDS = {
    ("ExpiredToken", "ExpiredTokenException", "RequestExpired"): "the AWS credentials have expired: sign in again",
    ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"): (
        "these AWS credentials may not call {call}: use others, or get the permission. {message}"
    ),
    ("UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId", "SignatureDoesNotMatch"): (
        "AWS does not know these credentials: give others with --profile or AWS_PROFILE"
    ),
    ("ResourceNotFoundException", "NoSuchBucket", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"): (
        "{call} names something that is not there: check the stack and the region, and deploy what was deleted. {message}"
    ),
    ("ThrottlingException", "Throttling", "ProvisionedThroughputExceededException", "RequestLimitExceeded"): (
        "AWS had too many requests: run the command again in a minute"
    ),
}
# Texts for errors that botocore raises before AWS answers. The names in braces are the error's fields.
_BEFORE_AWS: dict[tuple[type[BotoCoreError], ...], str] = {
    (exceptions.ProfileNotFound,): (
        "there is no AWS profile {profile!r}: give another with --profile or AWS_PROFILE; `aws configure list-profiles` lists"
        " them"
    ),
    (exceptions.InvalidRegionError,): "{region_name!r} is no AWS region: give one such as eu-west-1",
    (exceptions.NoRegionError,): "no AWS region is set: give one with --region or AWS_REGION",
    (exceptions.NoCredentialsError, exceptions.PartialCredentialsError): (
        "there are no AWS credentials: sign in, or name a profile that has some with --profile or AWS_PROFILE"
    ),
    (exceptions.SSOError, exceptions.TokenRetrievalError): (
        "the AWS sign-in has expired: run `aws sso login`, with --profile if you use one"
    ),
    (exceptions.LoginError,): "the AWS sign-in has expired: run `aws login`, with --profile if you use one",
    (exceptions.ConfigParseError,): (
        "the AWS configuration {path} cannot be read: correct it, or name another with AWS_CONFIG_FILE"
    ),
    (exceptions.EndpointConnectionError, exceptions.ConnectTimeoutError): (
        "nobody answers at {endpoint_url}: check the region (--region) and the network"
    ),
}


def in_words(error: ClientError | BotoCoreError) -> str:
    """An AWS error in words for an operator, with what to do about it."""
    if not isinstance(error, ClientError):
        text = next((text for types, text in _BEFORE_AWS.items() if isinstance(error, types)), None)
        return text.format(**error.kwargs) if text else " ".join(str(error).split())
    code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
    unknown = "AWS could not do {call} ({code}): {message}"
    words = next((words for codes, words in _IN_WORDS.items() if code in codes), unknown)
    return words.format(call=error.operation_name, code=code, message=message).strip()


class BadRequest(ValueError):
    """A command asks for what the stack does not have or must not do; the text says what to give instead."""


@contextmanager
def open_stack(stack: str | None, endpoint: str, template: Path | None) -> Iterator[None]:
    """Connect `stoppress.aws` to a deployed stack of that name, or without a name to the endpoint, while the block runs.

    An error of the stack or of AWS in the block is printed, and the command exits with FAILED.
    """
    with exit_on_error(stack, endpoint):
        if stack is None and not _is_url(endpoint):
            raise BadRequest(
                f"{endpoint!r} is no URL; give one such as http://127.0.0.1:8000, or --stack and the stack's name"
            )
        with deployed(stack) if stack is not None else local(find(template), endpoint):
            yield


@contextmanager
def exit_on_error(stack: str | None, endpoint: str) -> Iterator[None]:
    """Print an error of the stack or of AWS in the block, and exit with FAILED."""
    try:
        yield
    except (
        BadRequest,
        Unclear,
        TemplateError,
        UnknownSite,
        BadConfiguration,
        SendError,
        Conflict,
        TimeoutError,
    ) as error:
        fail(error)
    except (ClientError, BotoCoreError) as error:
        is_local = stack is None and isinstance(error, exceptions.EndpointConnectionError)
        advice = f"nobody answers at {endpoint}; start `stoppress up`, or name a deployed stack with --stack"
        fail(advice if is_local else in_words(error))


@contextmanager
def warn_of_unreadable(host: str | None) -> Iterator[None]:
    """Warn if the newest version of the site, or of one of all sites (None), cannot be read. Exit with FAILED after the block.

    The version before is then in force.
    """
    unusable = [(site.host, site.reason) for site in sites.load_all()[1] if host in (None, site.host)]
    print_unreadable(unusable)
    code = OK
    try:
        yield
    except typer.Exit as end:
        code = end.exit_code
    raise typer.Exit(FAILED if unusable else code)


def print_unreadable(unusable: Sequence[tuple[str, str]]) -> None:
    """Print on stderr the sites whose newest version cannot be read, each with its reason. Print nothing if there are none."""
    if unusable:
        errors.print(
            f"stoppress: cannot read {counted(len(unusable), 'site')}: correct the sites below with `stoppress sites put`. Until then"
            " the version before is in force."
        )
    for host, reason in unusable:
        errors.print(f"  {host}: {'; '.join(reason.splitlines())}")


@contextmanager
def local(template: Path, endpoint: str) -> Iterator[None]:
    """Connects to the stack that `stoppress up` or `make demo` serves at this endpoint."""
    here = no_aws_settings() | _CREDENTIALS | {"AWS_ENDPOINT_URL": endpoint}
    resolved = resources.resolve(load(template, defaults=WITH_ALL))
    queues = {queue.logical: queue.ref for queue in resources.of_type(resolved, "AWS::SQS::Queue")}
    functions = [function.properties for function in resources.of_type(resolved, "AWS::Lambda::Function")]
    variables = {name: value for each in functions for name, value in each["Environment"]["Variables"].items()}
    named = {name: str(variables[name]) for name in (*_OUTPUTS, "SECRETS_PATH")}
    named |= {name: queues[logical] for name, (_, logical) in _QUEUES.items() if logical in queues}
    start = endpoint.rstrip("/")
    named |= {"WEBHOOKS_URL": start, "PAGES_URL": f"{start}/sites"}
    with _connected(named | here), _clock_of(endpoint):
        yield


@contextmanager
def _clock_of(endpoint: str) -> Iterator[None]:
    """Runs the block at the time of a local stack, whose pages can move its clock."""
    try:
        date = urllib3.request("HEAD", endpoint, timeout=CLOCK_SECONDS_MAX, retries=False).headers.get("date", "")
        ahead = parsedate_to_datetime(date) - datetime.now(UTC)
    except (
        HTTPError,
        ValueError,
    ):  # nobody answers, which the command's first call reports; or a server without a date
        ahead = timedelta()
    if abs(ahead) <= CLOCK_DIFFERENCE_MIN:
        yield
        return
    from stoppress_cli.local.clock import Clock  # imports time_machine, which commands on AWS do not need

    clock = Clock()
    clock.jump(ahead)
    try:
        yield
    finally:
        clock.release()


@contextmanager
def deployed(stack: str) -> Iterator[None]:
    """Connects to a stack of this version, with the credentials in the environment. Raises BadRequest."""
    region = region_set()
    outputs = {output["OutputKey"]: output["OutputValue"] for output in described(stack).get("Outputs", [])}
    if missing := sorted({*_OUTPUTS.values(), "Version"} - outputs.keys()):
        raise BadRequest(f"{stack} is no stack of Stoppress: it has no output {missing[0]}")
    own, its = version("stoppress"), outputs["Version"]
    if its != own:
        raise BadRequest(
            f"the stack {stack} has version {its}, this command has {own}: check out v{its}, or deploy {own}"
        )
    named = {name: outputs[output] for name, output in _OUTPUTS.items()}
    named |= {name: outputs[output] for name, (output, _) in _QUEUES.items() if output in outputs}
    if pages := outputs.get("PagesUrl"):  # the stack has pages
        named["PAGES_URL"] = pages
    # The output has the address of the first site: <api>/webhooks/<host>/cms.
    named["WEBHOOKS_URL"] = outputs.get("WebhookUrl", "").partition("/webhooks/")[0]
    with _connected(named | ({"AWS_DEFAULT_REGION": region} if region else {})):
        yield


@contextmanager
def account() -> Iterator[None]:
    """Connects to the account and region that the environment sets. The stack need not exist."""
    region = region_set()
    with _connected({"AWS_DEFAULT_REGION": region} if region else {}):
        yield


def region_set() -> str | None:
    """The region that AWS_REGION names. The AWS CLI prefers this variable; boto3 reads AWS_DEFAULT_REGION only."""
    return os.environ.get("AWS_REGION") or None


def described(stack: str) -> dict[str, Any]:
    """A stack, as DescribeStacks returns it. Raises BadRequest."""
    # CloudFormation's own error for an invalid name quotes a regular expression.
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9-]*|arn:.+", stack):
        raise BadRequest(f"{stack!r} is no name of a stack: give letters, digits and hyphens, or the ARN of a stack")
    try:
        cloudformation = boto3.client("cloudformation", region_name=region_set())
        [answer] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except (ClientError, BotoCoreError) as error:
        # CloudFormation has no error code of its own for a missing stack.
        if isinstance(error, ClientError) and "does not exist" in str(error):
            raise BadRequest(
                f"there is no stack {stack!r} in {cloudformation.meta.region_name}: give another name, region (--region)"
                " or profile (--profile)"
            ) from error
        raise BadRequest(in_words(error)) from error
    return dict(answer)


def queue_url(variable: str) -> str:
    """The URL of a queue of the connected stack. Raises BadRequest if its parameters leave the queue out."""
    url = os.environ.get(variable)
    if url is None:
        assert variable == "IMPORTS_QUEUE_URL", variable
        raise BadRequest("the stack has no queue for imports: deploy it with the parameter Listing=yes")
    return url


def _is_url(endpoint: str) -> bool:
    """Whether boto3 can connect to the endpoint."""
    try:
        has_port = urlsplit(endpoint).port != 0
        return has_port and endpoint.startswith(("http://", "https://")) and bool(is_valid_endpoint_url(endpoint))
    except ValueError:
        return False


@contextmanager
def _connected(variables: Mapping[str, str | None]) -> Iterator[None]:
    """Sets the variables, and has `stoppress.aws` make new clients, while the block runs."""
    with environment(variables):
        clients.client.cache_clear()
        try:
            yield
        finally:
            clients.client.cache_clear()
