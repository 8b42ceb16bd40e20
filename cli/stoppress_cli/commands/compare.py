from datetime import UTC, datetime
from typing import Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import LOCAL, Endpoint, Json, Stack, Template
from stoppress_cli.printing import counted, errors, print_json, text_console


def compare(
    old: Annotated[str, typer.Argument(help="URL or file of the old sitemap, index or robots.txt.")],
    site: Annotated[str, typer.Option("--site", help="Host of the site.")],
    as_json: Json = False,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None,
) -> None:  # fmt: skip
    """Compare an old sitemap with a site's files: show which pages only one side lists, and why.

    Exit code 0: both list the same pages; 1: they differ, or a part of the old sitemap cannot be read; 2: the stack or the old
    sitemap cannot be read.
    """
    with open_stack(stack, local, template):
        from stoppress.aws import sites
        from stoppress.model.listed import ListingError
        from stoppress_cli.inputs.sitemap_pages import Sitemaps
        from stoppress_cli.stack.compare import compare as compared

        target = sites.load_usable(site.lower())
        try:
            result = compared(Sitemaps(old, target), target, datetime.now(UTC))
        except ListingError as error:
            errors.print(f"stoppress: {error}")
            raise typer.Exit(FAILED) from None
        if as_json:
            print_json(result.report())
        else:
            console = text_console()
            for problem in result.problems:
                console.print(f"not read   {problem.place}: {problem.reason}")
            for difference in result.differences:
                console.print(f"only {difference.listed:<5} {difference.url}: {difference.reason}")
            if left := result.only_old + result.only_here - len(result.differences):
                console.print(f"and {counted(left, 'more difference')}")
            console.print(f"{result.both:,} in both, {result.only_old:,} only old, {result.only_here:,} only here")
        raise typer.Exit(OK if result.is_equal else ATTENTION)
