"""The commands of adapters: `stoppress adapters`, `try`, `verify`. What they need is imported when they run."""

from pathlib import Path
from typing import Annotated

import typer

_Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

commands = typer.Typer(
    help="What each CMS sends, and what becomes of it. Without a command: every adapter there is.",
    rich_markup_mode=None,
)


@commands.callback(invoke_without_command=True)
def adapters(context: typer.Context, as_json: _Json = False) -> None:
    """What each CMS sends, and what becomes of it. Without a command: every adapter there is."""
    if context.invoked_subcommand is None:
        from stoppress_cli.adapting import list_adapters

        raise typer.Exit(list_adapters(as_json=as_json))


@commands.command("try")
def try_adapter(
    name: Annotated[str, typer.Argument(help="An adapter, or a mapping file of your own (…/example.toml).")],
    delivery: Annotated[
        str, typer.Argument(help="Recorded delivery (JSON, as docs/how-to/try.md shows), or a bare body; - for stdin.")
    ],
    site: Annotated[
        Path | None,
        typer.Option("--site", help="A site's configuration: gives its host, time zone, URL.", show_default=False),
    ] = None,
    settings: Annotated[
        str | None, typer.Option("--settings", help="The source's settings, as JSON.", show_default=False)
    ] = None,
    now: Annotated[
        str | None, typer.Option(help="The instant to judge by, ISO 8601; else the recorded one.", show_default=False)
    ] = None,
    as_json: _Json = False,
) -> None:
    """Show what a delivery comes to, field by field: each value, where it came from, what was left out and why.

    Exit code 0: it was tried, whatever became of it; 2: file, adapter or options cannot be used. A body that is not what the CMS
    posts (no JSON, say) is incomplete, its body missing; the webhook answers 400 to it.
    """
    from stoppress_cli.adapting import try_delivery

    raise typer.Exit(try_delivery(name, delivery, site, settings, now, as_json=as_json))


@commands.command("verify")
def verify_adapter(
    file: Annotated[
        Path,
        typer.Argument(
            help="Recorded requests with their scheme and secrets, as a JSON list; docs/how-to/try.md shows one."
        ),
    ],
    as_json: _Json = False,
) -> None:
    """Judge the signatures of recorded requests.

    Exit code 0: all are valid; 1: one at least is not; 2: the file cannot be read.
    """
    from stoppress_cli.verifying import verify_file

    raise typer.Exit(verify_file(file, as_json=as_json))


def add_to(app: typer.Typer) -> None:
    """Make them commands of `stoppress`."""
    app.add_typer(commands, name="adapters")
