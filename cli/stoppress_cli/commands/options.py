"""Options that several commands share."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

from stoppress_cli.local.functions import environment

LOCAL = "http://127.0.0.1:8000"

Stack = Annotated[
    str | None,
    typer.Option("--stack", help="Name of a deployed stack; default: the stack on this machine.", show_default=False),
]
Endpoint = Annotated[str, typer.Option("--local", help="URL at which `stoppress up` or the demo serves.")]
Template = Annotated[
    Path | None, typer.Option("--template", help="Another template.yaml than this checkout's.", show_default=False)
]
Site = Annotated[str | None, typer.Option("--site", help="Host of the site; default: all sites.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Log = Annotated[
    Path | None, typer.Option("--log", help="File for everything that the functions print.", show_default=False)
]
Port = Annotated[int, typer.Option(help="Port to serve on.", min=0, max=65_535)]
Host = Annotated[str, typer.Option(help="Address to serve on.")]

Profile = Annotated[
    str | None,
    typer.Option("--profile", help="AWS profile; default: AWS_PROFILE.", show_default=False),
]
Region = Annotated[
    str | None,
    typer.Option(
        "--region",
        help="AWS region; default: AWS_REGION, else AWS_DEFAULT_REGION, else the profile's.",
        show_default=False,
    ),
]


class Commands(typer.Typer):
    """A Typer that adds --profile and --region to each command that has --stack."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Any], Any]:
        """Registers a command, as Typer does."""
        register = super().command(name, **settings)
        return lambda command: register(_with_account(command))


def _with_account(command: Callable[..., Any]) -> Callable[..., Any]:
    signature = inspect.signature(command)
    if "stack" not in signature.parameters:
        return command

    @functools.wraps(command)
    def run(*, profile: str | None, region: str | None, **arguments: Any) -> Any:
        with environment(_account(profile, region)):
            return command(**arguments)

    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=annotation)
        for name, annotation in (("profile", Profile), ("region", Region))
    ]
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), *added])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, **{each.name: each.annotation for each in added}}
    return run


def _account(profile: str | None, region: str | None) -> dict[str, str | None]:
    """The environment variables that the two options set; None removes a variable."""
    variables: dict[str, str | None] = {}
    if profile is not None:
        # As in the AWS CLI, --profile overrides credentials in the environment.
        variables = dict.fromkeys(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
        variables["AWS_PROFILE"] = profile
    if region is not None:
        variables["AWS_REGION"] = region
    return variables
