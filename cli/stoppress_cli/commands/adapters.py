"""`stoppress adapters`: lists the adapters, and reads recorded deliveries with them."""

import json
import sys
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten
from typing import Annotated

import typer
from rich.text import Text

from stoppress.cms.engine import read_delivery
from stoppress.cms.mapping import BadMapping, load, read_file
from stoppress.cms.verdicts import Verdict, field_origins
from stoppress.model.adapters import names
from stoppress.model.http_request import BadDelivery
from stoppress.model.site import BadConfiguration, Site, read_site
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import host_of
from stoppress_cli.inputs.delivery import invalid_because, read_requests, recorded_in
from stoppress_cli.options import HERE, Commands, Json, Now, Settings, SiteConfig
from stoppress_cli.output import Part, Table, end, errors, fail, fields_of, print_answer, printing_json

# The mapping file has the rest of a longer expression.
EXPRESSION_CHARACTERS_MAX = 60
_LISTED = {"name", "title", "reads", "verified", "lacks", "signature", "settings"}

app = Commands(no_args_is_help=False)


@app.callback(invoke_without_command=True)
def list_adapters(context: typer.Context, as_json: Json = False) -> None:
    """List the adapters, which read the deliveries of CMSs."""
    if context.invoked_subcommand is not None:
        return
    mappings = [load(name) for name in names()]
    about = {
        mapping.name: f"{mapping.title}: {mapping.reads}; signature {mapping.signature}; verified by {mapping.verified}"
        for mapping in mappings
    }
    with printing_json(as_json=as_json):
        print_answer([mapping.model_dump(include=_LISTED) for mapping in mappings], [fields_of(about, indent=0)])


@app.command("try", effect=HERE, example="stoppress adapters try ghost delivery.json")
def try_delivery(
    name: Annotated[str, typer.Argument(help="Name of an adapter, or path of a mapping file (…/example.toml).")],
    delivery: Annotated[str, typer.Argument(help="File with a recorded delivery, or only with its body; - for stdin.")],
    site_config: SiteConfig = None,
    settings: Settings = None,
    now: Now = None,
) -> None:
    """Read a recorded delivery with an adapter. Show the value and origin of each field, and why other fields were left out."""
    try:
        raw = sys.stdin.buffer.read() if delivery == "-" else Path(delivery).read_bytes()
        recorded = recorded_in(raw)
        overrides = json.loads(settings) if settings else {}
        if not isinstance(overrides, dict):
            fail("--settings: give a JSON object")
        values = {**recorded.settings, **overrides}
        mapping = read_file(Path(name)) if name.endswith(".toml") else load(name)
        site = read_site(site_config.read_text(encoding="utf-8"), 0) if site_config else None
        instant = parse(now) if now else recorded.now or datetime.now(UTC)
        verdicts = read_delivery(mapping, recorded.received, values, site, instant)
    except BadDelivery as error:  # the webhook answers 400
        verdicts = [Verdict(disposition="incomplete", missing=("body",), reason=str(error))]
    except (OSError, ValueError, TypeError, BadMapping, BadConfiguration) as error:
        fail(error)
    if unknown := [setting for setting in values if setting not in mapping.settings]:
        allowed = ", ".join(mapping.settings)
        errors.print(f"{mapping.name} has no setting {', '.join(unknown)}: its settings are {allowed}")
    report = [verdict.shown(instant, site) for verdict in verdicts]
    print_answer(report, verdict_lines(verdicts, instant, site))


def verdict_lines(verdicts: Sequence[Verdict], now: datetime, site: Site | None) -> Iterator[Part]:
    """Yield the lines about each item of a delivery, as an adapter reads it."""
    for number, verdict in enumerate(verdicts, 1):
        shown = verdict.shown(now, site)
        title = " ".join(filter(None, (verdict.disposition, verdict.action)))
        yield Text(f"{number}. {title}" if len(verdicts) > 1 else title, "bold")
        if verdict.reason:
            yield f"   {verdict.reason}"
        origins = (
            (name, f"{value}  from {shorten(expression, EXPRESSION_CHARACTERS_MAX, placeholder=' …')}")
            for name, value, expression in field_origins(verdict)
        )
        yield Table(("", ""), origins, indent=1)
        host = host_of(shown["url"]) if shown.get("url") else None
        if site and host not in (None, site.host) and verdict.disposition != "ignore":
            yield f"   its host is {host}, not {site.host}: the article goes to that site, or into quarantine"
        yield from (f"   left out: {reason}" for reason in shown["dropped"])


@app.command("verify", effect=HERE, example="stoppress adapters verify requests.json")
def verify_requests(
    file: Annotated[
        Path,
        typer.Argument(help="JSON list of requests with their schemes and secrets (docs/reference/deliveries.md)."),
    ],
) -> None:
    """Verify the signatures of recorded requests.

    Exit code 1: a signature is not valid.
    """
    try:
        requests = read_requests(file)
    except (OSError, ValueError) as error:
        fail(f"{file}: {error}")
    ids = [str(request.get("id", f"#{number}")) for number, request in enumerate(requests, 1)]
    reasons = [invalid_because(request) for request in requests]
    words = ["invalid" if reason else "valid" for reason in reasons]
    lines = [f"{word:<7}  {id_}  {reason}".rstrip() for word, id_, reason in zip(words, ids, reasons, strict=True)]
    end(dict(zip(ids, words, strict=True)), lines, is_ok=not any(reasons))
