"""Connects `stoppress.aws` to a stack: the one that runs on this machine, or a deployed one."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import boto3
from botocore.exceptions import BotoCoreError, ClientError
from botocore.utils import is_valid_endpoint_url

from stoppress.aws import clients
from stoppress_cli.local import resources
from stoppress_cli.local.functions import environment, no_aws_settings
from stoppress_cli.local.template import load

# Environment variables that `stoppress.aws` reads, each with the output of a deployed stack that has its value.
_OUTPUTS = {"TABLE_NAME": "TableName", "BUCKET_NAME": "BucketName", "SITES_PATH": "SitesPath"}
# Variables of the queues, each with the output of a deployed stack and the logical name in the template.
_QUEUES = {
    "ARTICLES_QUEUE_URL": ("ArticlesQueueUrl", "ArticlesQueue"),
    "REWRITES_QUEUE_URL": ("RewritesQueueUrl", "RewritesQueue"),
    "ARTICLES_DEAD_LETTERS_URL": ("ArticlesDeadLettersUrl", "ArticlesDeadLetters"),
    "REWRITES_DEAD_LETTERS_URL": ("RewritesDeadLettersUrl", "RewritesDeadLetters"),
    "FAILURES_URL": ("FailuresUrl", "Failures"),
}
# moto accepts any credentials, but requires some.
_CREDENTIALS = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}

# What to do about AWS's error codes. {call} is the operation, {message} the message of AWS.
_IN_WORDS = {
    ("ExpiredToken", "ExpiredTokenException", "RequestExpired"): "the AWS credentials have expired: sign in again",
    ("AccessDenied", "AccessDeniedException", "UnauthorizedOperation"): (
        "these AWS credentials may not call {call}: use others, or have them allowed to. {message}"
    ),
    ("UnrecognizedClientException", "InvalidClientTokenId", "InvalidAccessKeyId", "SignatureDoesNotMatch"): (
        "AWS does not know these credentials: give others, by AWS_PROFILE or AWS_ACCESS_KEY_ID"
    ),
    ("ResourceNotFoundException", "NoSuchBucket", "QueueDoesNotExist", "AWS.SimpleQueueService.NonExistentQueue"): (
        "{call} names something that is not there: check the stack and the region, and deploy what was deleted. {message}"
    ),
    ("ThrottlingException", "Throttling", "ProvisionedThroughputExceededException", "RequestLimitExceeded"): (
        "AWS is asked too often at the moment: run it again"
    ),
}


def in_words(error: ClientError | BotoCoreError) -> str:
    """An AWS error in words for an operator, with what to do about it."""
    if not isinstance(error, ClientError):
        return str(error)
    code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
    unknown = "AWS could not do {call} ({code}): {message}"
    words = next((words for codes, words in _IN_WORDS.items() if code in codes), unknown)
    return words.format(call=error.operation_name, code=code, message=message).strip()


class BadRequest(ValueError):
    """A command asks for what the stack does not have or must not do; the text says what to give instead."""


@contextmanager
def local(template: Path, endpoint: str) -> Iterator[None]:
    """Connects to the stack that `stoppress up` or `make demo` serves at this endpoint."""
    here = no_aws_settings() | _CREDENTIALS | {"AWS_ENDPOINT_URL": endpoint}
    resolved = resources.resolve(load(template))
    queues = {queue.logical: queue.ref for queue in resources.of_type(resolved, "AWS::SQS::Queue")}
    functions = [function.properties for function in resources.of_type(resolved, "AWS::Lambda::Function")]
    variables = {name: value for each in functions for name, value in each["Environment"]["Variables"].items()}
    named = {name: str(variables[name]) for name in _OUTPUTS}
    named |= {name: queues[logical] for name, (_, logical) in _QUEUES.items() if logical in queues}
    with _connected(named | here):
        yield


@contextmanager
def deployed(stack: str) -> Iterator[None]:
    """Connects to a stack of the account that the environment's credentials belong to. Raises BadRequest."""
    # The AWS CLI prefers AWS_REGION; boto3 reads AWS_DEFAULT_REGION only.
    region = os.environ.get("AWS_REGION") or None
    try:
        cloudformation = boto3.client("cloudformation", region_name=region)
        [described] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except (ClientError, BotoCoreError) as error:
        # CloudFormation has no error code of its own for a missing stack.
        if isinstance(error, ClientError) and "does not exist" in str(error):
            region = cloudformation.meta.region_name
            raise BadRequest(
                f"there is no stack {stack!r} in {region}: give another name, region (AWS_REGION) or profile (AWS_PROFILE)"
            ) from error
        raise BadRequest(f"the stack {stack} cannot be described: {in_words(error)}") from error
    outputs = {output["OutputKey"]: output["OutputValue"] for output in described.get("Outputs", [])}
    if missing := sorted(set(_OUTPUTS.values()) - outputs.keys()):
        raise BadRequest(f"{stack} is no stack of Stoppress: it has no output {missing[0]}")
    named = {name: outputs[output] for name, output in _OUTPUTS.items()}
    named |= {name: outputs[output] for name, (output, _) in _QUEUES.items() if output in outputs}
    with _connected(named | ({"AWS_DEFAULT_REGION": region} if region else {})):
        yield


def queue_url(variable: str) -> str:
    """The URL of a queue of the connected stack. Raises BadRequest where an older version deployed the stack."""
    url = os.environ.get(variable)
    if url is None:
        output, _ = _QUEUES[variable]
        raise BadRequest(f"the stack has no output {output}: an older version deployed it, deploy it again")
    return url


@contextmanager
def opened(stack: str | None, endpoint: str, template: Path) -> Iterator[None]:
    """Connects to the deployed stack of that name; without a name, to the endpoint. Raises BadRequest and TemplateError."""
    if stack is not None:
        with deployed(stack):
            yield
        return
    if not _is_url(endpoint):
        raise BadRequest(
            f"{endpoint!r} is no URL; give one such as http://127.0.0.1:8000, or --stack and the stack's name"
        )
    with local(template, endpoint):
        yield


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
