"""`stoppress adapters`: what there is, and what a delivery comes to, field by field."""

import base64
import json
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from textwrap import shorten
from typing import Any
from urllib.parse import parse_qsl, urlencode, urlsplit

import typer
from rich.table import Table

from stoppress.cms.engine import read_delivery
from stoppress.cms.envelopes import BadDelivery
from stoppress.cms.mapping import BadMapping, MappingFile, UnknownAdapter, load, read_file
from stoppress.cms.verdicts import Verdict, field_origins
from stoppress.model.adapters import names
from stoppress.model.http_request import Request
from stoppress.model.site import BadConfiguration, Site, read_site
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import host_of
from stoppress_cli.printing import text_console

UNUSABLE = 2
# The mapping file has the rest of an expression.
EXPRESSION_CHARACTERS_MAX = 60


@dataclass(frozen=True, slots=True)
class Recorded:
    """A delivery from a file: as it was posted, with the settings and the instant it was recorded under."""

    received: Request
    settings: Mapping[str, Any]
    now: datetime | None = None
    expected: Any = None


def list_adapters(*, as_json: bool) -> int:
    """Print every adapter: what it reads, and what its mapping is held by."""
    mappings = [load(name) for name in names()]
    if as_json:
        kept = ("name", "title", "reads", "verified", "lacks", "signature", "settings")
        _print_json([mapping.model_dump(include=set(kept)) for mapping in mappings])
        return 0
    table = Table("adapter", "reads", "held by", box=None, padding=(0, 2, 0, 0))
    for mapping in mappings:
        table.add_row(mapping.name, f"{mapping.title}: {mapping.reads}", mapping.verified)
    text_console().print(table, soft_wrap=False)
    return 0


def try_delivery(
    name: str, file: str, site: Path | None, settings: str | None, now: str | None, *, as_json: bool
) -> int:
    """Print what a delivery comes to with an adapter: the name of one, or a mapping file of your own."""
    try:
        mapping = mapping_of(name)
        recorded = recorded_in(json_or_bytes(sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()))
        given = {**recorded.settings, **(json.loads(settings) if settings else {})}
        instant = parse(now) if now else recorded.now or datetime.now(UTC)
        of_site = read_site(site.read_text(), 0) if site else None
        verdicts = _read(mapping, recorded.received, given, of_site, instant)
    except (OSError, ValueError, TypeError, UnknownAdapter, BadMapping, BadConfiguration) as error:
        typer.echo(f"{error}", err=True)
        return UNUSABLE
    unknown = [setting for setting in given if setting not in mapping.settings]
    if unknown:
        typer.echo(
            f"{mapping.name} knows no setting {', '.join(unknown)}; it knows {', '.join(mapping.settings)}", err=True
        )
    if as_json:
        _print_json([verdict.shown(instant, of_site) for verdict in verdicts])
    else:
        _tell(verdicts, of_site, instant)
    return 0


def _read(
    mapping: MappingFile, received: Request, settings: Mapping[str, Any], site: Site | None, now: datetime
) -> list[Verdict]:
    try:
        return read_delivery(mapping, received, settings, site, now)
    except BadDelivery as error:  # what posts it hears 400 with these words
        return [Verdict(disposition="incomplete", missing=("body",), reason=str(error))]


def _print_json(value: Any) -> None:
    text = json.dumps(value, ensure_ascii=False, indent=1)
    typer.echo(text.encode(errors="replace").decode())  # half a character cannot be printed


def mapping_of(name: str) -> MappingFile:
    """The mapping of a name, or of a file. Raises UnknownAdapter, BadMapping, OSError."""
    return read_file(Path(name)) if name.endswith(".toml") else load(name)


def json_or_bytes(raw: bytes) -> Any:
    """What a file holds: its JSON, or its bytes where it is none."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return raw


def recorded_in(document: Any) -> Recorded:
    """A recorded delivery: {"request": {"headers", "query", "body"}, "config", "now"}, or a bare body.

    The body is the text that was posted, or its JSON; `body_base64` has the very bytes.
    """
    if isinstance(document, bytes):
        return Recorded(Request(body=document), {})
    outer = document if isinstance(document, dict) else {}
    request = outer.get("request")
    if not isinstance(request, dict):
        if not ("body" in outer and "headers" in outer):
            return Recorded(Request(body=json.dumps(document).encode()), {})
        request = outer
    headers = {str(key).lower(): _text(value) for key, value in _pairs(request.get("headers"))}
    settings: Mapping[str, Any] = next(
        (outer[key] for key in ("config", "settings") if isinstance(outer.get(key), dict)), {}
    )
    now = outer.get("now")
    return Recorded(
        Request(headers, _body(request, headers), query=_query(request)),
        settings,
        parse(now) if isinstance(now, str) else None,
        outer.get("expected"),
    )


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Headers as an object, as a list of pairs, or of {"name", "value"}."""
    if isinstance(value, dict):
        return value.items()
    found = [(one.get("name"), one.get("value")) if isinstance(one, dict) else tuple(one)[:2] for one in value or []]
    return [(one[0], one[1]) for one in found if len(one) == 2]


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, list) else str(value)


def _body(request: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
    if isinstance(encoded := request.get("body_base64"), str):
        return base64.b64decode(encoded)
    body = request.get("body")
    if isinstance(body, str):
        if request.get("isBase64Encoded") or request.get("base64"):
            return base64.b64decode(body)
        return body.encode(errors="surrogatepass")
    if body is None:
        return b""
    if isinstance(body, dict) and "form" in headers.get("content-type", ""):
        return urlencode(body).encode()
    return json.dumps(body).encode()


def _query(request: Mapping[str, Any]) -> str:
    query = next(
        (request[key] for key in ("query", "queryStringParameters", "rawQueryString") if request.get(key)), None
    )
    of_path = dict(parse_qsl(urlsplit(str(request.get("path") or "")).query))
    if isinstance(query, str):
        return urlencode(of_path | dict(parse_qsl(query.removeprefix("?"), keep_blank_values=True)))
    return urlencode(of_path | {str(key): _text(value) for key, value in (query or {}).items()})


def _other_host(url: str | None, site: Site) -> str:
    host = host_of(url) if url else site.host
    return host if host != site.host else ""


def _tell(verdicts: list[Verdict], site: Site | None, now: datetime) -> None:
    console = text_console()
    for number, verdict in enumerate(verdicts, 1):
        shown = verdict.shown(now, site)
        what = " ".join(filter(None, (verdict.disposition, verdict.action)))
        console.print(f"{number}. {what}" if len(verdicts) > 1 else what, style="bold")
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
        if site and verdict.disposition != "ignore" and (host := _other_host(shown.get("url"), site)):
            console.print(f"   its host is {host}, not {site.host}: it goes there, or into quarantine")
        for dropped in shown["dropped"]:
            console.print(f"   left out: {dropped}")
