"""The options that the commands share, and how a command is registered, listed and connected to its stack."""

import functools
import inspect
from collections.abc import Callable, Mapping
from contextlib import ExitStack
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
Endpoint = typer.Option("--local", help="URL at which `stoppress up` or the demo serves.")
Template = Annotated[
    Path | None, typer.Option("--template", help="Another template.yaml than this version's.", show_default=False)
]
SiteOption = Annotated[
    str | None, typer.Option("--site", help="Host of the site; default: all sites.", show_default=False)
]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Log = Annotated[
    Path | None, typer.Option("--log", help="File for everything that the functions print.", show_default=False)
]
Port = Annotated[int, typer.Option(help="Port to serve on.", min=0, max=65_535)]
Host = Annotated[str, typer.Option(help="Address to serve on.")]

Settings = Annotated[str | None, typer.Option("--settings", help="The source's settings, as JSON.", show_default=False)]
SiteConfig = Annotated[
    Path | None,
    typer.Option(
        "--site-config",
        help="A site's configuration. The last part of a delivery's path is the source; its host, time zone and URL are used.",
        show_default=False,
    ),
]

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
    """A Typer whose commands state their effect and an example, and get the options of their stack or account."""

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
        self,
        name: str | None = None,
        *,
        effect: str,
        example: str,
        may_lack_stack: bool = False,
        is_over_sites: bool = False,
    ) -> Callable[[Any], Any]:
        """Register a command, as Typer does. `effect` is one of EFFECTS; the command's help ends with `example`.

        A command that reads or writes a stack runs connected to it. A parameter `access` receives how the user reaches the stack.
        `may_lack_stack`: without --stack and --local the command runs unconnected, and `access` is None. `is_over_sites`: the command
        covers the site of its parameter `site` or `host`, or all sites, and warns of those that cannot be read.
        """
        cls = type("Command", (TyperCommand,), {"effect": effect, "example": example})
        register = super().command(name, cls=cls, epilog=f"Example: {example}")

        def connect(command: Callable[..., Any]) -> Any:
            if effect in (READS, WRITES):
                command = _on_stack(command, may_lack_stack=may_lack_stack, is_over_sites=is_over_sites)
            return register(_in_account(command) if effect in (READS_ACCOUNT, READS, WRITES) else command)

        return connect


def effect_of(command: Any) -> str:
    """Return the effect of a command or group that Typer has made of a function."""
    return str(command.effect)


def _on_stack(command: Callable[..., Any], *, may_lack_stack: bool, is_over_sites: bool) -> Callable[..., Any]:
    """Add --stack, --local and --template to a command, and connect it while it runs."""

    @functools.wraps(command)
    def run(*, stack: str | None, local: str | None, template: Path | None, **arguments: Any) -> Any:
        from stoppress.show.site import Access  # `stoppress --version` does without boto3
        from stoppress_cli import connect

        access = None
        with ExitStack() as connection:
            if stack or local or not may_lack_stack:
                connection.enter_context(connect.open_stack(stack, local or LOCAL, template))
                # The ARN of a stack ends with stack/<name>/<id>. The names of alarms and secrets contain <name>.
                name = stack.split("/")[1] if stack and "/" in stack else stack
                access = Access(name, local if local != LOCAL else None)
            if is_over_sites:
                connection.enter_context(connect.warn_of_unreadable(arguments.get("site", arguments.get("host"))))
            return command(**arguments, **({"access": access} if takes_access else {}))

    takes_access = "access" in inspect.signature(command).parameters
    unconnected = typer.Option("--stack", help="Name of the site's deployed stack; default: none.", show_default=False)
    name = Annotated[str | None, unconnected] if may_lack_stack else Stack
    local = Annotated[str | None, Endpoint] if may_lack_stack else Annotated[str, Endpoint]
    options = {
        "stack": (name, None),
        "local": (local, None if may_lack_stack else LOCAL),
        "template": (Template, None),
    }
    return _with_options(run, options, without="access")


def _in_account(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add --profile and --region to a command, and set their environment variables while it runs."""

    @functools.wraps(command)
    def run(*, profile: str | None, region: str | None, **arguments: Any) -> Any:
        with environment(_account(profile, region)):
            return command(**arguments)

    return _with_options(run, {"profile": (Profile, None), "region": (Region, None)})


def _with_options(
    run: Callable[..., Any], options: Mapping[str, tuple[Any, object]], without: str = ""
) -> Callable[..., Any]:
    """Give a wrapper the signature of what it wraps, which Typer reads, with further options: the type and default of each."""
    signature = inspect.signature(run)
    added = [
        inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)
        for name, (annotation, default) in options.items()
    ]
    parameters = [each for each in signature.parameters.values() if each.name != without] + added
    run.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {each.name: each.annotation for each in parameters}
    return run


def _account(profile: str | None, region: str | None) -> dict[str, str | None]:
    """Return the environment variables that the two options set; None removes a variable."""
    variables: dict[str, str | None] = {}
    if profile is not None:
        # As in the AWS CLI, --profile overrides credentials in the environment.
        variables = dict.fromkeys(["AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"])
        variables["AWS_PROFILE"] = profile
    if region is not None:
        variables["AWS_REGION"] = region
    return variables
