from datetime import UTC, datetime
from typing import Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, Endpoint, Stack, Template
from stoppress_cli.printing import console


def explain(
    url: Annotated[str, typer.Argument(help="The page, as readers see its URL.")],
    site: Annotated[
        str | None, typer.Option("--site", help="Host of the site to look in; default: the URL's.", show_default=False)
    ] = None,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None,
) -> None:  # fmt: skip
    """Tell a page's story: which files list it, which event or rule decided that, and when.

    Exit code 0: a file lists the page; 1: no file does; 2: the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress_cli.stack import explain as story

        facts = story.gather(url, site)
        for line in story.explain(facts, datetime.now(UTC)):
            console.print(line)
        raise typer.Exit(OK if facts.listings else ATTENTION)
