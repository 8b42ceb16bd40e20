import os
from typing import Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.options import LOCAL, Endpoint, Json, Stack, Template
from stoppress_cli.printing import console, print_json


def page(
    host: Annotated[str, typer.Argument(help="Host of the site.", show_default=False)],
    stack: Stack = None,
    local: Endpoint = LOCAL,
    template: Template = None,
    as_json: Json = False,
) -> None:
    """Print the address of a site's page for editors. Whoever has the address can read the page.

    Exit code 2: the stack was deployed without StatusPage=yes, has no such site, or cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress.aws import secrets, sites
        from stoppress.show.page_token import PAGE_SECRET, page_token
        from stoppress_cli.stack.find import BadRequest

        start = os.environ.get("PAGES_URL")
        if start is None:
            raise BadRequest("the stack has no pages: deploy it with the parameter StatusPage=yes")
        site = sites.load(host)
        try:
            secret = secrets.load(PAGE_SECRET)[0]
        except secrets.NoSecret as error:
            raise BadRequest(str(error)) from None
        address = f"{start}/{site.host}/{page_token(secret, site.host)}"
        if as_json:
            print_json({"site": site.host, "address": address})
        else:
            console.print(address)
