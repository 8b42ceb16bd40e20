"""The command `stoppress`, put together from `commands/`: one module for each command.

A module is imported when its command is used, so that a command does not load the imports of another.
"""

import functools
import pkgutil
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
import typer.main

from stoppress_cli import commands
from stoppress_cli.options import Commands, Group

# The module of each command. A module whose command is a keyword of Python ends with an underscore.
MODULES = {module.name.rstrip("_"): module.name for module in pkgutil.iter_modules(commands.__path__)}


class _Modules(Mapping[str, Any]):
    """The commands by name. Each module of `commands/` has its command, or its group, as `app`."""

    def __getitem__(self, name: str) -> Any:
        return _load(MODULES[name])

    def __iter__(self) -> Iterator[str]:
        return iter(MODULES)

    def __len__(self) -> int:
        return len(MODULES)


@functools.cache
def _load(module: str) -> Any:
    return typer.main.get_command(import_module(f"{commands.__name__}.{module}").app)


class _Root(Group):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**(settings | {"commands": _Modules()}))


app = Commands(
    help="Run the whole stack on this machine, or operate a deployed one.\n\n"
    "Exit code 1: you answered no, or what the help of the command states; 2: the command could not do its work.",
    cls=_Root,
    add_completion=True,
)


def _print_version(value: bool) -> None:
    if value:
        typer.echo(f"stoppress {version('stoppress')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
