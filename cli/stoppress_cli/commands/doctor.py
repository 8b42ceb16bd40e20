"""`stoppress doctor`: checks from outside what a host serves to search engines."""

from contextlib import nullcontext
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Annotated
from urllib.parse import urlsplit

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import LOCAL, Json, Template
from stoppress_cli.printing import console, errors, print_json


def doctor(
    host: Annotated[str, typer.Argument(help="Host as readers see it, including `www.`.")],
    connect: Annotated[
        str | None,
        typer.Option(
            help="Server to connect to instead of the host's, such as 127.0.0.1:8443.",
            metavar="ADDRESS:PORT",
            show_default=False,
        ),
    ] = None,
    webhook: Annotated[
        str | None,
        typer.Option(
            help="URL of a webhook of the site; default: with a stack, one of its webhooks.", show_default=False
        ),
    ] = None,
    stack: Annotated[
        str | None,
        typer.Option("--stack", help="Name of the site's deployed stack; default: none.", show_default=False),
    ] = None,
    local: Annotated[
        str | None,
        typer.Option("--local", help="URL at which `stoppress up` or the demo serves.", show_default=False),
    ] = None,
    template: Template = None,
    as_json: Json = False,
) -> None:
    """Check from outside what a host serves to search engines: robots.txt, sitemaps, listed pages, certificate, webhook.

    Each fault comes with its fix. Exit code 0: no fault; 1: faults; 2: the stack cannot be reached, or an argument is not valid.
    """
    from stoppress.model.site import HOST

    if not HOST.fullmatch(host):
        errors.print(f"stoppress: {host!r} is not a host: give a name in small letters, such as www.example.com")
        raise typer.Exit(FAILED)
    server = _server(connect)
    with open_stack(stack, local or LOCAL, template) if stack or local else nullcontext():
        from stoppress_cli.stack.doctor import Doctor, known

        facts = known(host) if stack or local else None
        webhook = webhook or (facts.webhook if facts else None)
        made = []
        for check in Doctor(host, datetime.now(UTC), facts, server, webhook).checks():
            made.append(check)
            if not as_json:
                fix = f"; {check.fix}" if check.fix else ""
                console.print(f"{check.outcome:<6} {check.check}: {check.text}{fix}", soft_wrap=True)
        if as_json:
            print_json([asdict(check) for check in made])
        raise typer.Exit(ATTENTION if any(check.outcome == "fault" for check in made) else OK)


def _server(connect: str | None) -> tuple[str, int] | None:
    if connect is None:
        return None
    try:
        parts = urlsplit(f"//{connect}")
        if parts.hostname and parts.port and parts.netloc == connect and "@" not in connect:
            return parts.hostname, parts.port
    except ValueError:
        pass
    errors.print(f"stoppress: --connect {connect!r}: give an address and a port, such as 127.0.0.1:8443")
    raise typer.Exit(FAILED)
