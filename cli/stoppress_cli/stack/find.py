"""What a command looks at: the stack that runs on this machine, or one that is deployed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from stoppress.aws import clients
from stoppress_cli.local import resources
from stoppress_cli.local.functions import environment, no_aws_settings
from stoppress_cli.local.template import load

# The variable by which the doors find a thing, and the output of a deployed stack that names it.
_OUTPUTS = {"TABLE_NAME": "TableName", "BUCKET_NAME": "BucketName", "SITES_PATH": "SitesPath"}
# The queues, which only some commands ask for: by their variable the output, and what it is called in the template.
_QUEUES = {
    "ARTICLES_QUEUE_URL": ("ArticlesQueueUrl", "ArticlesQueue"),
    "REWRITES_QUEUE_URL": ("RewritesQueueUrl", "RewritesQueue"),
    "ARTICLES_DEAD_LETTERS_URL": ("ArticlesDeadLettersUrl", "ArticlesDeadLetters"),
    "REWRITES_DEAD_LETTERS_URL": ("RewritesDeadLettersUrl", "RewritesDeadLetters"),
    "FAILURES_URL": ("FailuresUrl", "Failures"),
}
# moto takes any credentials; it wants some.
_ANYBODY = {"AWS_ACCESS_KEY_ID": "local", "AWS_SECRET_ACCESS_KEY": "local"}


# What AWS answers, by the codes of its services, in words. {call} is the operation, {message} what AWS says itself.
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
    """What AWS refused and what to do about it, for an operator."""
    if not isinstance(error, ClientError):
        return str(error)
    code, message = error.response["Error"].get("Code", ""), error.response["Error"].get("Message", "")
    unknown = "AWS could not do {call} ({code}): {message}"
    words = next((words for codes, words in _IN_WORDS.items() if code in codes), unknown)
    return words.format(call=error.operation_name, code=code, message=message).strip()


class NoStack(LookupError):
    """There is no such stack; the text says what to give."""


@contextmanager
def local(template: Path, endpoint: str) -> Iterator[None]:
    """The doors lead to the stack that `stoppress up` or `make demo` serves at this endpoint."""
    here = no_aws_settings() | _ANYBODY | {"AWS_ENDPOINT_URL": endpoint}
    resolved = resources.resolve(load(template))
    queues = {one.logical: one.ref for one in resolved if one.type == "AWS::SQS::Queue"}
    made = [one for one in resolved if one.type == "AWS::Lambda::Function"]
    variables = {name: value for one in made for name, value in one.properties["Environment"]["Variables"].items()}
    named = {name: str(variables[name]) for name in _OUTPUTS}
    named |= {name: queues[logical] for name, (_, logical) in _QUEUES.items() if logical in queues}
    with _doors(named | here):
        yield


@contextmanager
def deployed(stack: str) -> Iterator[None]:
    """The doors lead to a stack of the account that the environment's credentials are for. Raises NoStack."""
    # The AWS CLI takes AWS_REGION first; boto3 reads AWS_DEFAULT_REGION only.
    region = os.environ.get("AWS_REGION") or None
    try:
        cloudformation = boto3.client("cloudformation", region_name=region)
        [described] = cloudformation.describe_stacks(StackName=stack)["Stacks"]
    except (ClientError, BotoCoreError) as error:
        if isinstance(error, ClientError) and "does not exist" in str(error):
            region = cloudformation.meta.region_name
            raise NoStack(
                f"there is no stack {stack!r} in {region}: give another name, region (AWS_REGION) or profile (AWS_PROFILE)"
            ) from error
        raise NoStack(f"the stack {stack} cannot be looked at: {in_words(error)}") from error
    outputs = {one["OutputKey"]: one["OutputValue"] for one in described.get("Outputs", [])}
    if missing := sorted(set(_OUTPUTS.values()) - outputs.keys()):
        raise NoStack(f"{stack} is no stack of Stoppress: it has no output {missing[0]}")
    named = {name: outputs[output] for name, output in _OUTPUTS.items()}
    named |= {name: outputs[output] for name, (output, _) in _QUEUES.items() if output in outputs}
    with _doors(named | ({"AWS_DEFAULT_REGION": region} if region else {})):
        yield


def queue_url(variable: str) -> str:
    """The URL of a queue of the stack that is looked at. Raises NoStack where an older version deployed it."""
    url = os.environ.get(variable)
    if url is None:
        raise NoStack(f"the stack has no output {_QUEUES[variable][0]}: an older version deployed it, deploy it again")
    return url


@contextmanager
def opened(stack: str | None, endpoint: str, template: Path) -> Iterator[None]:
    """The deployed stack of that name; without one, what is served at the endpoint. Raises NoStack and TemplateError."""
    if stack is not None:
        with deployed(stack):
            yield
        return
    if not endpoint.startswith(("http://", "https://")):
        raise NoStack(
            f"{endpoint!r} is no URL; give one such as http://127.0.0.1:8000, or --stack and the stack's name"
        )
    with local(template, endpoint):
        yield


@contextmanager
def _doors(variables: Mapping[str, str | None]) -> Iterator[None]:
    """The functions' doors, with clients of their own while the block runs."""
    with environment(variables):
        clients.client.cache_clear()
        try:
            yield
        finally:
            clients.client.cache_clear()
