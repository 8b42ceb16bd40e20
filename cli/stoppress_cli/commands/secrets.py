import sys
from typing import TYPE_CHECKING, Annotated

import typer

from stoppress_cli.commands.access import open_stack
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, WRITES, Commands, Endpoint, Json, Stack, Template, Yes
from stoppress_cli.printing import confirmed, console, counted, print_json, printer

if TYPE_CHECKING:
    from stoppress_cli.stack.secrets import SourceSecret

Site = Annotated[str, typer.Argument(metavar="SITE", help="Host of the site.")]
Source = Annotated[str, typer.Argument(metavar="SOURCE", help="Name of the source in the site's configuration.")]
Stdin = Annotated[bool, typer.Option("--stdin", help="Read the value from standard input; default: generate one.")]

secrets = Commands(help="Secrets with which sources sign their webhooks: make one, rotate one.")


@secrets.command("put", effect=WRITES, example="stoppress secrets put www.example.com cms --stack stoppress")
def put(
    site: Site, source: Source, stdin: Stdin = False, stack: Stack = None, local: Endpoint = LOCAL, template: Template = None,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Make a source's secret, and say what to set in the CMS. A generated value is shown only now.

    Exit code 0: done; 2: the secret exists, there is no such site or source, or the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress_cli.stack import secrets as stored

        secret = stored.of_source(site, source)
        # The address is read first: a generated value is shown only once, so nothing may fail after it is stored.
        address = stored.webhook_url(secret, stack, local)
        value = _read() if stdin else secret.generate()
        stored.create(secret, value)
        if not as_json:
            console.print(f"made {secret.name}")
        _print_settings(secret, None if stdin else value, address, as_json=as_json)


@secrets.command("rotate", effect=WRITES, example="stoppress secrets rotate www.example.com cms --stack stoppress")
def rotate(
    site: Site,
    source: Source,
    stdin: Stdin = False,
    finish: Annotated[bool, typer.Option("--finish", help="End the rotation: only the newest value stays valid.")] = False,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, yes: Yes = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """Give a source a new secret beside the old one. Both are valid until --finish takes the old one out.

    Exit code 0: done; 1: you said no; 2: there is no such secret, site or source, or the stack cannot be reached.
    """
    with open_stack(stack, local, template):
        from stoppress.show.site import Access
        from stoppress_cli.stack import secrets as stored

        access = Access(stack, None if local == LOCAL else local)
        secret = stored.of_source(site, source)
        if finish:
            question = f"Does {source} of {site} sign with the new secret?"
            is_agreed = confirmed(question, yes=yes, as_json=as_json)
            removed = stored.finish(secret) if is_agreed else 0
            if is_agreed:
                printer(as_json=as_json)(
                    f"{counted(removed, 'old value')} taken out of {secret.name}; one value is valid"
                )
            if as_json:
                print_json({"secret": secret.name, "removed": removed, "done": is_agreed})
            raise typer.Exit(OK if is_agreed else ATTENTION)
        address = stored.webhook_url(secret, stack, local)
        value = _read() if stdin else secret.generate()
        stored.rotate(secret, value)
        if not as_json:
            console.print(f"{secret.name} has a new value; the old one stays valid")
        _print_settings(secret, None if stdin else value, address, as_json=as_json)
        if not as_json:
            console.print(
                f"When the CMS uses the new value: {access.command(f'secrets rotate {site} {source} --finish')}"
            )


def _read() -> str:
    """The value that the operator brings; typed at a terminal, it is not shown."""
    text = typer.prompt("Secret", hide_input=True, err=True) if sys.stdin.isatty() else sys.stdin.read()
    return str(text).strip()


def _print_settings(secret: "SourceSecret", generated: str | None, address: str, *, as_json: bool) -> None:
    """What to set in the CMS. `generated` is shown; a value that the operator brought is not."""
    if as_json:
        print_json({"secret": secret.name, "address": address, "value": generated, "sent_as": secret.how()})
        return
    console.print("Set in the CMS:")
    console.print(f"  address  {address}")
    console.print(f"  secret   {generated or 'the value that you gave'}")
    console.print(f"  sent as  {secret.how()}")
