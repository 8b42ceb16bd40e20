from datetime import UTC, datetime
from typing import Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, DryRun, Endpoint, Site, Stack, Template, Yes
from stoppress_cli.printing import console

OUT_OF_REACH = (
    "Out of reach: point-in-time recovery keeps the old table for 35 days, the logs keep URLs for LogRetentionDays"
    " (30 days), CDNs and browsers keep the old files for five minutes. Make sure that the CMS and its feed do not send"
    " the article again. Name earlier URLs of the article to this command too."
)


def forget(
    target: Annotated[str, typer.Argument(metavar="URL|ID", help="The page, or the article's id in its source.")],
    site: Site = None,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, yes: Yes = False,
) -> None:  # fmt: skip
    """Remove a page and erase what is known of it: table, quarantine, dead letters, older versions of its files.

    Exit code 0: only a tombstone without content is left; 1: more is left, run it again; 2: the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress_cli.stack import forget as erasure

        traces = erasure.gather(target, site)
        if not traces.anything:
            console.print("nothing is known of it")
            raise typer.Exit(OK)
        if dry_run:
            left = traces
        else:
            if not yes and not typer.confirm(f"Forget {', '.join(traces.urls) or target} for good?"):
                raise typer.Exit(ATTENTION)
            left = erasure.forget(target, site, datetime.now(UTC), show=console.print)
            if left.anything:
                console.print("left, run it again:")
        for line in left.lines():
            console.print(line)
        console.print(OUT_OF_REACH)
        raise typer.Exit(ATTENTION if left.anything else OK)
