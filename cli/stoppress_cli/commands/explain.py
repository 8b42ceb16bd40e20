from datetime import UTC, datetime
from typing import Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, Endpoint, Json, Stack, Template
from stoppress_cli.printing import console, print_json


def explain(
    what: Annotated[str, typer.Argument(help="URL of the page, an article as source#id, or a part of the URL's path.")],
    site: Annotated[
        str | None,
        typer.Option("--site", help="Host of the site; default: the URL's, or the only site.", show_default=False),
    ] = None,
    news: Annotated[bool, typer.Option("--news", help="Set the exit code by the news sitemap alone.")] = False,
    as_json: Json = False,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None,
) -> None:  # fmt: skip
    """Tell whether a page is in the news sitemap and in the general sitemap, until when, or why not.

    Exit code 0: a sitemap lists the page; 1: none does; with --news only the news sitemap counts; 2: the stack cannot be
    reached, or the page or site cannot be found.
    """
    with open_stack(stack, local, template):
        from stoppress.show.read_story import story_of
        from stoppress_cli.stack.explain import as_lines

        story = story_of(what, site, datetime.now(UTC))
        if as_json:
            print_json(story.report())
        else:
            for line in as_lines(story):
                console.print(line)
        raise typer.Exit(OK if (story.news.listed if news else story.is_listed) else ATTENTION)
