"""`stoppress adapters`: lists the adapters, and reads recorded deliveries with them."""

import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer
from rich.table import Table

from stoppress.cms.mapping import load
from stoppress.cms.verdicts import Verdict, field_origins
from stoppress.model.adapters import names
from stoppress.model.site import Site
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import host_of
from stoppress_cli.inputs import signed_requests
from stoppress_cli.inputs.delivery import UNUSABLE, reader_of
from stoppress_cli.inputs.recorded import json_or_bytes, recorded_in
from stoppress_cli.options import HERE, Commands, Json, Settings, SiteConfig
from stoppress_cli.output import ATTENTION, OK, errors, fail, print_answer, print_json, print_rows, text_console

# The mapping file has the rest of a longer expression.
EXPRESSION_CHARACTERS_MAX = 60
_LISTED = {"name", "title", "reads", "verified", "lacks", "signature", "settings"}

app = Commands(no_args_is_help=False)


@app.callback(invoke_without_command=True)
def list_adapters(context: typer.Context, as_json: Json = False) -> None:
    """Adapters read the deliveries of CMSs. Without a command: list the adapters."""
    if context.invoked_subcommand is not None:
        return
    mappings = [load(name) for name in names()]
    if as_json:
        print_json([mapping.model_dump(include=_LISTED) for mapping in mappings], indent=1)
        return
    rows = [(each.name, f"{each.title}: {each.reads}", each.verified) for each in mappings]
    print_rows(("adapter", "reads", "verified by"), rows)


@app.command("try", effect=HERE, example="stoppress adapters try ghost delivery.json")
def try_delivery(
    name: Annotated[str, typer.Argument(help="An adapter, or a mapping file of your own (…/example.toml).")],
    delivery: Annotated[
        str,
        typer.Argument(
            help="Recorded delivery (JSON, as docs/reference/deliveries.md shows), or a bare body; - for stdin."
        ),
    ],
    site_config: SiteConfig = None,
    settings: Settings = None,
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
    try:
        raw = sys.stdin.buffer.read() if delivery == "-" else Path(delivery).read_bytes()
        recorded = recorded_in(json_or_bytes(raw))
        reader = reader_of(name, settings, site_config, recorded.settings)
        source = reader.source_of(recorded.received)
        assert source
        instant = parse(now) if now else recorded.now or datetime.now(UTC)
        verdicts = reader.verdicts(recorded.received, source, instant)
    except UNUSABLE as error:
        fail(error)
    if unknown := [setting for setting in source.settings if setting not in source.mapping.settings]:
        allowed = ", ".join(source.mapping.settings)
        errors.print(f"{source.mapping.name} has no setting {', '.join(unknown)}: its settings are {allowed}")
    if as_json:
        print_json([verdict.shown(instant, reader.site) for verdict in verdicts], indent=1)
    else:
        print_verdicts(verdicts, instant, reader.site)


def print_verdicts(verdicts: Sequence[Verdict], now: datetime, site: Site | None, indent: str = "") -> None:
    """Print what an adapter makes of each item of a delivery."""
    for number, verdict in enumerate(verdicts, 1):
        _print_verdict(verdict, f"{indent}{f'{number}. ' if len(verdicts) > 1 else ''}", now, site)


def _print_verdict(verdict: Verdict, prefix: str, now: datetime, site: Site | None) -> None:
    shown = verdict.shown(now, site)
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


@app.command("verify", effect=HERE, example="stoppress adapters verify requests.json")
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
    try:
        requests = signed_requests.read(file)
    except (OSError, ValueError, RecursionError) as error:
        fail(f"{file}: {error}")
    verdicts = [signed_requests.verdict_of(request, f"#{number}") for number, request in enumerate(requests, 1)]
    lines = [f"{each.word:<7}  {each.id}" + (f"  {each.reason}" if each.reason else "") for each in verdicts]
    print_answer({verdict.id: verdict.word for verdict in verdicts}, lines, as_json=as_json)
    raise typer.Exit(OK if all(verdict.valid for verdict in verdicts) else ATTENTION)
