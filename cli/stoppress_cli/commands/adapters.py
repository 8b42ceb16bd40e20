import json
import sys
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten
from typing import TYPE_CHECKING, Annotated, Any

import typer
from rich.table import Table

from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import HERE, Commands, Json
from stoppress_cli.printing import errors, print_json, text_console

if TYPE_CHECKING:
    from stoppress.cms.verdicts import Verdict
    from stoppress.model.site import Site

# The mapping file has the rest of a longer expression.
EXPRESSION_CHARACTERS_MAX = 60
_LISTED = {"name", "title", "reads", "verified", "lacks", "signature", "settings"}

adapters = Commands(no_args_is_help=False)


@adapters.callback(invoke_without_command=True)
def list_adapters(context: typer.Context, as_json: Json = False) -> None:
    """Adapters read the deliveries of CMSs. Without a command: list the adapters."""
    if context.invoked_subcommand is not None:
        return
    from stoppress.cms.mapping import load
    from stoppress.model.adapters import names

    mappings = [load(name) for name in names()]
    if as_json:
        print_json([mapping.model_dump(include=_LISTED) for mapping in mappings], indent=1)
        return
    table = Table("adapter", "reads", "held by", box=None, padding=(0, 2, 0, 0))
    for mapping in mappings:
        table.add_row(mapping.name, f"{mapping.title}: {mapping.reads}", mapping.verified)
    text_console().print(table, soft_wrap=False)


@adapters.command("try", effect=HERE, example="stoppress adapters try ghost delivery.json")
def try_delivery(
    name: Annotated[str, typer.Argument(help="An adapter, or a mapping file of your own (…/example.toml).")],
    delivery: Annotated[
        str,
        typer.Argument(
            help="Recorded delivery (JSON, as docs/reference/deliveries.md shows), or a bare body; - for stdin."
        ),
    ],
    site: Annotated[
        Path | None,
        typer.Option("--site", help="A site's configuration: gives its host, time zone, URL.", show_default=False),
    ] = None,
    settings: Annotated[
        str | None, typer.Option("--settings", help="The source's settings, as JSON.", show_default=False)
    ] = None,
    now: Annotated[
        str | None,
        typer.Option(help="The instant to judge by, ISO 8601; default: the recorded one.", show_default=False),
    ] = None,
    as_json: Json = False,
) -> None:
    """Read a recorded delivery with an adapter. Show each field's value and origin, and what was left out and why.

    Exit code 0: the delivery was tried, with any result; 2: file, adapter or options cannot be used. A body that the
    adapter cannot read at all, such as text that is not JSON, counts as incomplete here; the webhook would answer 400.
    """
    from stoppress.cms.mapping import BadMapping, UnknownAdapter
    from stoppress.model.site import BadConfiguration, read_site
    from stoppress.primitives.instants import parse
    from stoppress_cli.inputs.delivery import json_or_bytes, mapping_of, recorded_in, verdicts_of

    try:
        mapping = mapping_of(name)
        raw = sys.stdin.buffer.read() if delivery == "-" else Path(delivery).read_bytes()
        recorded = recorded_in(json_or_bytes(raw))
        values = {**recorded.settings, **(json.loads(settings) if settings else {})}
        instant = parse(now) if now else recorded.now or datetime.now(UTC)
        configuration = read_site(site.read_text(), 0) if site else None
        verdicts = verdicts_of(mapping, recorded.received, values, configuration, instant)
    except (OSError, ValueError, TypeError, UnknownAdapter, BadMapping, BadConfiguration) as error:
        errors.print(str(error))
        raise typer.Exit(FAILED) from None
    if unknown := [setting for setting in values if setting not in mapping.settings]:
        errors.print(f"{mapping.name} knows no setting {', '.join(unknown)}; it knows {', '.join(mapping.settings)}")
    if as_json:
        print_json([verdict.shown(instant, configuration) for verdict in verdicts], indent=1)
        return
    for number, verdict in enumerate(verdicts, 1):
        prefix = f"{number}. " if len(verdicts) > 1 else ""
        print_verdict(verdict, prefix, verdict.shown(instant, configuration), configuration)


def print_verdict(verdict: "Verdict", prefix: str, shown: dict[str, Any], site: "Site | None") -> None:
    from stoppress.cms.verdicts import field_origins
    from stoppress.primitives.urls import host_of

    console = text_console()
    console.print(prefix + " ".join(filter(None, (verdict.disposition, verdict.action))), style="bold")
    if verdict.reason:
        console.print(f"   {verdict.reason}")
    table = Table(box=None, padding=(0, 2, 0, 1), show_header=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    table.add_column(overflow="fold")
    for name, value, expression in field_origins(verdict):
        source = shorten(" ".join(expression.split()), EXPRESSION_CHARACTERS_MAX, placeholder=" …")
        table.add_row(name, value, f"from {source}")
    console.print(table, soft_wrap=False)
    host = host_of(shown["url"]) if shown.get("url") else None
    if site and host not in (None, site.host) and verdict.disposition != "ignore":
        console.print(f"   its host is {host}, not {site.host}: the article goes to that site, or into quarantine")
    for reason in shown["dropped"]:
        console.print(f"   left out: {reason}")


@adapters.command("verify", effect=HERE, example="stoppress adapters verify requests.json")
def verify_requests(
    file: Annotated[
        Path,
        typer.Argument(
            help="Recorded requests with their schemes and secrets, a JSON list; see docs/reference/deliveries.md."
        ),
    ],
    as_json: Json = False,
) -> None:
    """Verify the signatures of recorded requests.

    Exit code 0: all are valid; 1: at least one is not; 2: the file cannot be read.
    """
    from stoppress_cli.inputs.signed_requests import read, verdict_of

    try:
        requests = read(file)
    except (OSError, ValueError, RecursionError) as error:
        errors.print(f"{file}: {error}")
        raise typer.Exit(FAILED) from None
    verdicts = [verdict_of(request, f"#{number}") for number, request in enumerate(requests, 1)]
    if as_json:
        print_json({verdict.id: verdict.word for verdict in verdicts}, indent=1)
    else:
        for verdict in verdicts:
            text_console().print(f"{verdict.word:<7}  {verdict.id}" + (f"  {verdict.reason}" if verdict.reason else ""))
    raise typer.Exit(OK if all(verdict.valid for verdict in verdicts) else ATTENTION)
