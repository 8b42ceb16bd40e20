"""The command `stoppress`, put together from `commands/`.

A command imports what it needs when it runs, so that `stoppress --help` starts without boto3 and moto.
"""

from typing import Annotated

import typer

from stoppress_cli.commands.adapters import adapters
from stoppress_cli.commands.check import check
from stoppress_cli.commands.demo import demo
from stoppress_cli.commands.explain import explain
from stoppress_cli.commands.feeds import feeds
from stoppress_cli.commands.forget import forget
from stoppress_cli.commands.listen import listen
from stoppress_cli.commands.options import Commands
from stoppress_cli.commands.page import page
from stoppress_cli.commands.play import play
from stoppress_cli.commands.preflight import preflight
from stoppress_cli.commands.quarantine import quarantine
from stoppress_cli.commands.rebuild import rebuild
from stoppress_cli.commands.reconcile import reconcile
from stoppress_cli.commands.redrive import redrive
from stoppress_cli.commands.restore import restore
from stoppress_cli.commands.retire import retire
from stoppress_cli.commands.robots import robots
from stoppress_cli.commands.secrets import secrets
from stoppress_cli.commands.send import send
from stoppress_cli.commands.sites import sites
from stoppress_cli.commands.status import status
from stoppress_cli.commands.up import up

app = Commands(
    help="Keeps a newsroom's sitemaps. Runs the whole stack of template.yaml on this machine, or looks after a deployed one.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
)
for command in (
    play,
    up,
    demo,
    preflight,
    status,
    explain,
    page,
    send,
    listen,
    robots,
    check,
    redrive,
    rebuild,
    reconcile,
    restore,
    forget,
    retire,
):
    app.command()(command)
app.add_typer(feeds, name="feeds")
app.add_typer(adapters, name="adapters")
app.add_typer(quarantine, name="quarantine")
app.add_typer(sites, name="sites")
app.add_typer(secrets, name="secrets")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        typer.echo(f"stoppress {version('stoppress')}")
        raise typer.Exit


@app.callback()
def _main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    pass
