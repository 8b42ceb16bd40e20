"""What a command looks at: the stack that runs on this machine, or one that is deployed."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import boto3
from botocore.exceptions import BotoCoreError, ClientError

from stoppress import aws
from stoppress_cli import resources
from stoppress_cli.functions import environment
from stoppress_cli.template import REGION, load

# The variable by which the doors find a thing, and the output of a deployed stack that names it.
_OUTPUTS = {"TABLE_NAME": "TableName", "BUCKET_NAME": "BucketName", "SITES_PATH": "SitesPath"}
# moto takes any credentials; it wants some.
_ANYBODY = {
    "AWS_ACCESS_KEY_ID": "local",
    "AWS_SECRET_ACCESS_KEY": "local",
    "AWS_REGION": REGION,
    "AWS_DEFAULT_REGION": REGION,
}


class NoStack(LookupError):
    """There is no such stack; the text says what to give."""


@contextmanager
def local(template: Path, endpoint: str) -> Iterator[None]:
    """The doors lead to the stack that `stoppress up` or `make demo` serves at this endpoint."""
    made = [one for one in resources.resolve(load(template)) if one.type == "AWS::Lambda::Function"]
    variables = {name: value for one in made for name, value in one.properties["Environment"]["Variables"].items()}
    named = {name: str(variables[name]) for name in _OUTPUTS}
    with _doors(named | _ANYBODY | {"AWS_ENDPOINT_URL": endpoint}):
        yield


@contextmanager
def deployed(stack: str) -> Iterator[None]:
    """The doors lead to a stack of the account that the environment's credentials are for. Raises NoStack."""
    try:
        [described] = boto3.client("cloudformation").describe_stacks(StackName=stack)["Stacks"]
    except (ClientError, BotoCoreError) as error:
        raise NoStack(f"the stack {stack} cannot be looked at: {error}") from error
    outputs = {one["OutputKey"]: one["OutputValue"] for one in described.get("Outputs", [])}
    if missing := sorted(set(_OUTPUTS.values()) - outputs.keys()):
        raise NoStack(f"{stack} is no stack of Stoppress: it has no output {missing[0]}")
    with _doors({name: outputs[output] for name, output in _OUTPUTS.items()}):
        yield


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
def _doors(variables: dict[str, str]) -> Iterator[None]:
    """The functions' doors, with clients of their own while the block runs."""
    with environment(dict(variables)):
        aws.client.cache_clear()
        try:
            yield
        finally:
            aws.client.cache_clear()
