"""The options that the commands share, and how a command is registered, listed and connected to its stack."""

import functools
import inspect
from collections.abc import Callable, Iterable
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer
from typer.core import TyperCommand, TyperGroup

from stoppress_cli.output import printing_json

LOCAL = "http://127.0.0.1:8000"

HostArgument = Annotated[str | None, typer.Argument(help="Host of a site; default: all sites.")]
Template = Annotated[Path | None, typer.Option(help="Another template.yaml to use; default: this version's.")]
SiteOption = Annotated[str | None, typer.Option("--site", help="Host of the site; default: all sites.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing in the stack.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Log = Annotated[Path | None, typer.Option(help="File for the output of the functions.")]
Port = Annotated[int, typer.Option(help="Port to serve on.", min=0, max=65_535)]
Host = Annotated[str, typer.Option(help="Address to serve on.")]
Settings = Annotated[str | None, typer.Option(help="The source's settings, as JSON.")]
SiteConfig = Annotated[Path | None, typer.Option(help="File with the site's configuration.")]
Now = Annotated[
    str | None,
    typer.Option(help="Time to treat as now, in ISO 8601; default: a recorded delivery's, or the real one."),
]
At = Annotated[
    str | None, typer.Option(help="An earlier time in ISO 8601; without a UTC offset, it is in the site's time zone.")
]

# The type and default of each option that a command gets by its registration.
_Shared = dict[str, tuple[Any, object]]
_JSON: _Shared = {"as_json": (Json, False)}
_STACK: _Shared = {
    "stack": (
        Annotated[str | None, typer.Option(help="Name of a deployed stack; default: the stack on this machine.")],
        None,
    ),
    "local": (Annotated[str | None, typer.Option(help=f"URL of a stack on this machine, such as {LOCAL}.")], None),
}
_ACCOUNT: _Shared = {
    "profile": (Annotated[str | None, typer.Option(help="AWS profile; default: AWS_PROFILE.")], None),
    "region": (Annotated[str | None, typer.Option(help="AWS region; default: as the AWS CLI chooses it.")], None),
}

# What a command reads or writes, from weak to strong. The help shows it beside the command.
HERE, READS_URLS, READS_ACCOUNT, READS, WRITES = EFFECTS = (
    "this machine", "reads URLs", "reads account", "reads stack", "writes stack",
)  # fmt: skip


class Group(TyperGroup):
    """A group whose help lists its commands, each with its effect."""

    @property
    def effect(self) -> str:
        """Return the strongest effect of a command in the group."""
        commands: Iterable[Any] = self.commands.values()
        return max((str(command.effect) for command in commands), key=EFFECTS.index)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        """Write the list of commands into the help."""
        width = max(map(len, self.commands))
        commands: Iterable[tuple[str, Any]] = self.commands.items()
        rows = [
            (f"{name:<{width}}  {command.effect}", command.get_short_help_str(limit=200)) for name, command in commands
        ]
        with formatter.section("Commands"):
            formatter.write_dl(rows, col_max=40)


class Commands(typer.Typer):
    """A Typer whose commands state their effect and an example, and get the options that commands share."""

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
        has_json: bool = True,
        may_lack_stack: bool = False,
        is_over_sites: bool = False,
    ) -> Callable[[Any], Any]:
        """Register a command, as Typer does. `effect` is one of EFFECTS; the command's help ends with `example`.

        A command that reads or writes a stack runs connected to it. A parameter `access` receives how the user reaches the stack.
        `has_json`: the command prints with `print_answer`, and has the option --json. `may_lack_stack`: without --stack and --local
        the command runs unconnected, and `access` is None. `is_over_sites`: the command covers the site of its parameter `site` or
        `host`, or all sites, and warns of those that cannot be read.
        """
        options = _JSON if has_json else {}
        if effect in (READS, WRITES):
            options = options | _STACK
        if effect in (READS_ACCOUNT, READS, WRITES):
            options = options | _ACCOUNT
        cls = type("Command", (TyperCommand,), {"effect": effect, "example": example})
        register = super().command(name, cls=cls, epilog=f"Example: {example}")

        def add_options(command: Callable[..., Any]) -> Any:
            parameters = dict(inspect.signature(command).parameters)
            takes_access = parameters.pop("access", None)

            @functools.wraps(command)
            def run(**arguments: Any) -> Any:
                shared = {name: arguments.pop(name) for name in options}
                host = [arguments.get("site", arguments.get("host"))] if is_over_sites else []
                with ExitStack() as session:
                    access = _open_session(session, shared, host, may_lack_stack=may_lack_stack)
                    return command(**arguments, **({"access": access} if takes_access else {}))

            for option, (annotation, default) in options.items():
                keyword = inspect.Parameter.KEYWORD_ONLY
                parameters[option] = inspect.Parameter(option, keyword, default=default, annotation=annotation)
            # Typer reads both.
            run.__signature__ = inspect.Signature(list(parameters.values()))  # type: ignore[attr-defined]
            run.__annotations__ = {name: parameter.annotation for name, parameter in parameters.items()}
            return register(run)

        return add_options


def _open_session(session: ExitStack, shared: dict[str, Any], hosts: list[str | None], *, may_lack_stack: bool) -> Any:
    """Apply the shared options while the session lasts. Return the `Access` to the stack, None without one.

    `hosts` has the site that the command covers, None for all sites; it is empty for other commands.
    """
    session.enter_context(printing_json(as_json=shared.get("as_json", False)))
    if "profile" not in shared:
        return None
    from stoppress.show.stack_status import Access
    from stoppress_cli import connect  # `stoppress --version` does without boto3

    session.enter_context(connect.account(shared["profile"], shared["region"]))
    stack, local = shared.get("stack"), shared.get("local")
    if "stack" not in shared or (may_lack_stack and not (stack or local)):
        return None
    session.enter_context(connect.open_stack(stack, local or LOCAL))
    for host in hosts:
        session.enter_context(connect.warn_of_unreadable(host))
    # The ARN of a stack ends with stack/<name>/<id>. The names of alarms and secrets contain <name>.
    return Access(stack.split("/")[1] if stack and "/" in stack else stack, local)
