"""What the commands share: options, and how a command is registered and listed."""

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from stoppress_cli.local.functions import environment

LOCAL = "http://127.0.0.1:8000"

Stack = Annotated[
    str | None,
    typer.Option("--stack", help="Name of a deployed stack; default: the stack on this machine.", show_default=False),
]
Endpoint = Annotated[str, typer.Option("--local", help="URL at which `stoppress up` or the demo serves.")]
Template = Annotated[
    Path | None, typer.Option("--template", help="Another template.yaml than this version's.", show_default=False)
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


# What a command reads or writes, from weak to strong. The help shows it beside the command.
HERE, READS_URLS, READS_ACCOUNT, READS, WRITES = EFFECTS = (
    "this machine", "reads URLs", "reads account", "reads stack", "writes stack",
)  # fmt: skip


class Group(TyperGroup):
    """A group whose help lists its commands by name, each with its effect."""

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of the commands, sorted."""
        return sorted(self.commands)

    @property
    def effect(self) -> str:
        """The strongest effect of a command in the group."""
        return max((effect_of(command) for command in self.commands.values()), key=EFFECTS.index)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Writes the list of commands into the help."""
        width = max(map(len, self.commands))
        rows = [
            (f"{name:<{width}}  {effect_of(command)}", command.get_short_help_str(limit=200))
            for name, command in ((name, self.commands[name]) for name in self.list_commands(ctx))
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows, col_max=40)


class Commands(typer.Typer):
    """A Typer whose commands state their effect and an example. Each command that has --stack gets --profile and --region."""

    def __init__(self, **settings: Any) -> None:
        defaults: dict[str, Any] = {
            "cls": Group,
            "context_settings": {"help_option_names": ["-h", "--help"]},
            "no_args_is_help": True,
            "add_completion": False,
            "pretty_exceptions_enable": False,
            "rich_markup_mode": None,
        }
        super().__init__(**(defaults | settings))

    def command(  # type: ignore[override]
        self, name: str | None = None, *, effect: str, example: str, **settings: Any
    ) -> Callable[[Any], Any]:
        """Registers a command, as Typer does. `effect` is one of EFFECTS; the command's help ends with `example`."""
        cls = type("Command", (TyperCommand,), {"effect": effect, "example": example})
        register = super().command(name, cls=cls, epilog=f"Example: {example}", **settings)
        return lambda command: register(_with_account(command))


def effect_of(command: Any) -> str:
    """The effect of a command or group that Typer has made of a function."""
    return str(command.effect)


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
