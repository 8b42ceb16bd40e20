"""The command `stoppress`, put together from `commands/`: one module for each command.

A module is imported when its command is used, so that one command does not load what another needs.
"""

import functools
from collections.abc import Iterator, Mapping
from importlib import import_module
from importlib.metadata import version
from typing import Annotated, Any

import typer
import typer.main

from stoppress_cli.options import Commands, Group

NAMES = (
    "adapters", "check", "compare", "demo", "doctor", "explain", "feeds", "forget", "import", "listen", "play", "preflight",
    "quarantine", "rebuild", "reconcile", "redrive", "restore", "secrets", "send", "sites", "status", "up",
)  # fmt: skip


class _Modules(Mapping[str, Any]):
    """The commands by name. Each module of `commands/` has its command, or its group, as `app`."""

    def __getitem__(self, name: str) -> Any:
        if name not in NAMES:
            raise KeyError(name)
        return _load(name)

    def __iter__(self) -> Iterator[str]:
        return iter(NAMES)

    def __len__(self) -> int:
        return len(NAMES)


@functools.cache
def _load(name: str) -> Any:
    module = import_module(f"stoppress_cli.commands.{'import_' if name == 'import' else name}")
    return typer.main.get_command(module.app)


class _Root(Group):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**(settings | {"commands": _Modules()}))


app = Commands(
    help="Keeps the sitemaps of a newsroom up to date. Runs the whole stack on this machine, or works on a deployed stack.",
    cls=_Root,
    add_completion=True,
)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"stoppress {version('stoppress')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
