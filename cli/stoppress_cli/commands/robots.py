from typing import Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.options import LOCAL, Endpoint, Json, Stack, Template
from stoppress_cli.printing import console, print_json


def robots(
    host: Annotated[str, typer.Argument(help="Host of the site.")],
    stack: Stack = None,
    local: Endpoint = LOCAL,
    template: Template = None,
    as_json: Json = False,
) -> None:
    """Print the `Sitemap:` lines for a site's robots.txt.

    Exit code 0: printed; 2: the site is unknown, or the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress.aws import sites
        from stoppress.sitemaps.robots import named_in_robots, robots_lines

        site = sites.load_usable(host)
        lines = robots_lines(site, named_in_robots(site))
        if as_json:
            print_json({"site": host, "lines": list(lines)})
            return
        for line in lines:
            console.print(line)
