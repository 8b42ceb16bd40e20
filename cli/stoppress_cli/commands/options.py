"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

import typer

LOCAL = "http://127.0.0.1:8000"

Stack = Annotated[
    str | None,
    typer.Option("--stack", help="Name of a deployed stack; default: the stack on this machine.", show_default=False),
]
Endpoint = Annotated[str, typer.Option("--local", help="URL at which `stoppress up` or the demo serves.")]
Template = Annotated[
    Path | None, typer.Option("--template", help="Another template.yaml than this checkout's.", show_default=False)
]
Site = Annotated[str | None, typer.Option("--site", help="Host of the site; default: all sites.", show_default=False)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Show what would be done, and change nothing.")]
Yes = Annotated[bool, typer.Option("--yes", help="Do not ask for confirmation.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
Log = Annotated[
    Path | None, typer.Option("--log", help="File for everything that the functions print.", show_default=False)
]
Port = Annotated[int, typer.Option(help="Port to serve on.", min=0, max=65_535)]
Host = Annotated[str, typer.Option(help="Address to serve on.")]
