from typing import Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, DryRun, Endpoint, Stack, Template, Yes
from stoppress_cli.printing import console, counted


def restore(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table that point-in-time recovery has made.")],
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, yes: Yes = False,
) -> None:  # fmt: skip
    """Make the stack's table equal to another one: copy every item, and delete the items that the other table lacks.

    Stop the functions first and rebuild the files afterwards, as docs/how-to/operate.md says. Exit code 0: done; 1: you
    said no; 2: the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress_cli.stack import restore as tables

        items = tables.differences(table)
        console.print(
            f"{table} has {counted(items.there, 'item')}; the stack's table has {counted(items.extra, 'item')} that it has not"
        )
        if dry_run:
            raise typer.Exit(OK)
        if not yes and not typer.confirm("Make the stack's table what that one is?"):
            raise typer.Exit(ATTENTION)
        done = tables.restore(table)
        console.print(
            f"{counted(done.there, 'item')} copied, {done.extra:,} taken out; now start the functions and run stoppress rebuild"
        )
