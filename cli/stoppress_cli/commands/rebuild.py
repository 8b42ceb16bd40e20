from typing import Annotated

import typer

from stoppress_cli.commands.access import open_sites
from stoppress_cli.commands.options import LOCAL, DryRun, Endpoint, Json, Site, Stack, Template
from stoppress_cli.printing import console, counted, print_json


def rebuild(
    file: Annotated[
        str | None, typer.Argument(help="Name of a file; default: all files of a site.", show_default=False)
    ] = None,
    site: Site = None,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, as_json: Json = False,
) -> None:  # fmt: skip
    """Have files rendered again from the table. Their names go to the rewrites queue; a file whose bytes are equal is not written.

    Exit code 0: the files are on the rewrites queue; 2: there is no such file or site, the stack cannot be reached, or a
    site's parameter cannot be used.
    """
    with open_sites(site, stack, local, template):
        from stoppress.aws.queues import send_rewrites
        from stoppress_cli.stack.rebuild import requests as requests_for

        requests = requests_for(site, file)
        if not as_json:
            for request in requests:
                console.print(f"{request.site}/{request.file}")
        if not dry_run:
            send_rewrites(requests)
        if as_json:
            files = [{"site": request.site, "file": request.file} for request in requests]
            print_json({"files": files, "done": not dry_run})
            return
        console.print(f"{counted(len(requests), 'file')} {'would be ' if dry_run else ''}sent to the rewrites queue")
