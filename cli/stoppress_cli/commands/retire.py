from datetime import UTC, datetime
from typing import Annotated

import typer

from stoppress_cli.commands.access import open_sites
from stoppress_cli.commands.exit_codes import ATTENTION, OK
from stoppress_cli.commands.options import LOCAL, DryRun, Endpoint, Json, Stack, Template, Yes
from stoppress_cli.printing import confirmed, console, print_json, printer


def retire(
    host: Annotated[
        str | None,
        typer.Argument(help="Site to retire; default: list the sites without a parameter.", show_default=False),
    ] = None,
    stack: Stack = None, local: Endpoint = LOCAL, template: Template = None, dry_run: DryRun = False, yes: Yes = False,
    as_json: Json = False,
) -> None:  # fmt: skip
    """List the sites whose parameter is gone, or retire one of them.

    The stories of a retired site do not expire any more, and its files stay as they are. Exit code 0: every site has its
    parameter, or the site is retired; 1: a site has none, or you said no; 2: the site must not be retired, the stack
    cannot be reached, or a site's parameter cannot be used.
    """
    with open_sites(host, stack, local, template):
        if host is None:
            _list(as_json=as_json)
        else:
            _retire(host, dry_run=dry_run, yes=yes, as_json=as_json)


def _list(*, as_json: bool) -> None:
    from stoppress.aws.sites import parameter_name
    from stoppress_cli.stack.retire import without_parameter

    hosts = without_parameter()
    if as_json:
        print_json({"sites_without_parameter": hosts})
        raise typer.Exit(ATTENTION if hosts else OK)
    for host in hosts:
        console.print(
            f"{host}  has no parameter. Put {parameter_name(host)} again, or give the site up: stoppress retire {host}"
        )
    if not hosts:
        console.print("every site has its parameter")
        raise typer.Exit(OK)
    console.print(
        "Until then their stories still expire, by the configuration that was last applied. Their webhooks are answered 404."
    )
    raise typer.Exit(ATTENTION)


def _retire(host: str, *, dry_run: bool, yes: bool, as_json: bool) -> None:
    from stoppress_cli.stack import retire as sites

    show = printer(as_json=as_json)
    files = sites.files_left(host)
    for file in files:
        show(file)
    show(f"{len(files)} files of {host} stay in the bucket, and nothing changes them any more")
    is_agreed = not dry_run and confirmed(f"Retire {host}?", yes=yes, as_json=as_json)
    if is_agreed:
        sites.retire(host, datetime.now(UTC))
        show(f"{host} is retired")
        if files:
            folder = files[0].rpartition("/")[0]
            show(f"Delete its files when nobody fetches them any more: aws s3 rm --recursive {folder}/")
    if as_json:
        print_json({"site": host, "files": files, "done": is_agreed})
    raise typer.Exit(OK if dry_run or is_agreed else ATTENTION)
