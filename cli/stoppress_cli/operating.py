"""What a command looks at: the stack that runs on this machine, or one that is deployed."""

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from stoppress import aws
from stoppress_cli import resources
from stoppress_cli.functions import environment, no_aws_settings
from stoppress_cli.template import load

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
        client = boto3.client("cloudformation", region_name=region)
        [described] = client.describe_stacks(StackName=stack)["Stacks"]
    except (ClientError, BotoCoreError) as error:
        raise NoStack(f"the stack {stack} cannot be looked at: {error}") from error
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
def looked_at(stack: str | None, endpoint: str, template: Path) -> Iterator[None]:
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
        aws.client.cache_clear()
        try:
            yield
        finally:
            aws.client.cache_clear()
