from typing import Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, DryRun, Endpoint, Json, Stack, Template, Yes
from stoppress_cli.printing import confirmed, counted, print_json, printer


def restore(
    table: Annotated[str, typer.Argument(metavar="TABLE", help="Table that point-in-time recovery has made.")],
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, yes: Yes = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Make the stack's table equal to another one: copy every item, and delete the items that the other table lacks.

    Stop the functions first and rebuild the files afterwards, as docs/how-to/operate.md says. Exit code 0: done; 1: you
    said no; 2: the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress_cli.stack import restore as tables

        show = printer(as_json=as_json)
        items = tables.differences(table)
        show(
            f"{table} has {counted(items.there, 'item')}; the stack's table has {counted(items.extra, 'item')} that it lacks"
        )
        is_agreed = not dry_run and confirmed(
            f"Replace the items of the stack's table with those of {table}?", yes=yes, as_json=as_json
        )
        if is_agreed:
            items = tables.restore(table)
            show(
                f"{counted(items.there, 'item')} copied, {items.extra:,} taken out; now start the functions and run stoppress"
                " rebuild"
            )
        if as_json:
            print_json({"table": table, "items": items.there, "surplus": items.extra, "done": is_agreed})
        raise typer.Exit(OK if dry_run or is_agreed else ATTENTION)
