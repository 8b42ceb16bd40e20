"""A delivery of a CMS, recorded or as it arrives: whether its signature is valid, and what an adapter makes of it."""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, unquote_plus, urlencode, urlsplit

from stoppress.cms.engine import read_delivery
from stoppress.cms.envelopes import BadDelivery
from stoppress.cms.mapping import BadMapping, MappingFile, UnknownAdapter, load, read_file
from stoppress.cms.verdicts import Verdict
from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import BadScheme, check_settings
from stoppress.model.site import BadConfiguration, Site, read_site
from stoppress.primitives.instants import exact, parse
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, verify

# What `reader_of` raises for options that cannot be used.
UNUSABLE = (OSError, ValueError, TypeError, UnknownAdapter, BadMapping, BadConfiguration)
# Stands for a secret in a recorded delivery.
REPLACED = "replaced-by-stoppress"
# Names of headers, query parameters and fields of a body whose values are secrets. An HMAC signature is no secret.
_SECRET_NAME = re.compile(r"authorization|cookie|token|secret|passw|api[-_]?key", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A delivery as it was posted, with what was recorded with it: settings, instant, and the result that a test expects."""

    received: Request
    settings: Mapping[str, Any]
    now: datetime | None = None
    expected: Any = None


@dataclass(frozen=True)
class ReadAs:
    """How one delivery is read: the mapping and the settings of its source."""

    mapping: MappingFile
    settings: Mapping[str, Any]


@dataclass(frozen=True)
class Reader:
    """How deliveries are read: by one mapping, or by the mapping of the site's source that the end of the path names.

    `settings` override the source's. Without `secrets` no signature is checked.
    """

    mapping: MappingFile | None = None
    site: Site | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    secrets: Sequence[str] = ()

    def source_of(self, request: Request) -> ReadAs | None:
        """Return how to read a delivery. None if there is no `mapping` and the end of the path names no source of the site."""
        source = self.site.sources.get(request.path.rpartition("/")[2]) if self.site else None
        settings = {**(source.settings if source else {}), **self.settings}
        if self.mapping is not None:
            return ReadAs(self.mapping, settings)
        return ReadAs(load(source.adapter), settings) if source else None

    def signature(self, request: Request, source: ReadAs, now: datetime) -> str:
        """Return `valid`, or `invalid` and why."""
        settings = source.settings
        path = settings.get("signed_path", request.path)
        signed = Request(request.headers, request.body, request.method, path, request.query)
        try:
            check_settings(settings)
            tolerance = timedelta(seconds=settings["tolerance_s"]) if "tolerance_s" in settings else TOLERANCE
            verify(settings.get("signature", source.mapping.signature), signed, self.secrets, now, tolerance)
        except (BadSignature, BadSecret, BadScheme) as error:
            return f"invalid: {error}"
        return "valid"

    def verdicts(self, request: Request, source: ReadAs, now: datetime) -> list[Verdict]:
        """Return a verdict for each item of a delivery; an incomplete one for a body to which the webhook answers 400."""
        try:
            return read_delivery(source.mapping, request, source.settings, self.site, now)
        except BadDelivery as error:
            return [Verdict(disposition="incomplete", missing=("body",), reason=str(error))]


def reader_of(
    adapter: str | None,
    settings: str | None,
    site: Path | None,
    recorded: Mapping[str, Any] = MappingProxyType({}),
    secrets: Sequence[str] = (),
) -> Reader:
    """Return the reader that options describe: an adapter's name or a .toml file, settings as JSON, and a site's document.

    The given settings override the `recorded` ones. Raises UNUSABLE.
    """
    given = json.loads(settings) if settings else {}
    if not isinstance(given, dict):
        raise ValueError("--settings: give a JSON object")
    mapping = read_file(Path(adapter)) if adapter and adapter.endswith(".toml") else load(adapter) if adapter else None
    return Reader(
        mapping, read_site(site.read_text(encoding="utf-8"), 0) if site else None, {**recorded, **given}, secrets
    )


def json_or_bytes(raw: bytes) -> Any:
    """A file's JSON, or its bytes where they are no JSON."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return raw


def recorded_in(document: Any) -> Recorded:
    """The delivery of a document: {"request": {"headers", "query", "body"}, "config", "now"}, or a bare body.

    The body is the posted text, or its JSON. `body_base64` holds the exact bytes.
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


def record_of(request: Request, settings: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """The document of a delivery that arrived at `now`; `recorded_in` reads it."""
    try:
        body = {"body": request.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(request.body).decode()}
    sent = {"method": request.method, "path": request.path, "query": request.query, "headers": dict(request.headers)}
    return {"request": sent | body, "config": dict(settings), "now": exact(now)}


def without_secrets(request: Request, secrets: Iterable[str] = ()) -> Request:
    """The request with REPLACED for each secret: each value whose name _SECRET_NAME matches, and the given texts anywhere.

    In a body the names are those of a form's fields or of texts in JSON. A JSON body with such a text is encoded again.
    """
    texts = [form for text in secrets for form in (text, quote(text, safe=""), quote_plus(text), _base64(text)) if text]

    def cleaned(value: str) -> str:
        for text in texts:
            value = value.replace(text, REPLACED)
        return value

    headers = {
        name: REPLACED if _SECRET_NAME.search(name) else cleaned(value) for name, value in request.headers.items()
    }
    body = _body_without_secrets(request)
    for text in texts:
        body = body.replace(text.encode(errors="surrogatepass"), REPLACED.encode())
    query = cleaned(_form_without_secrets(request.query))
    return replace(request, headers=headers, body=body, path=cleaned(request.path), query=query)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode(errors="surrogatepass")).decode()


def _body_without_secrets(request: Request) -> bytes:
    replaced = []

    def cleaned(fields: dict[str, Any]) -> dict[str, Any]:
        names = [
            name for name, value in fields.items() if value and isinstance(value, str) and _SECRET_NAME.search(name)
        ]
        replaced.extend(names)
        return fields | dict.fromkeys(names, REPLACED)

    try:
        document = json.loads(request.body.decode("utf-8-sig"), object_hook=cleaned)
    except (ValueError, RecursionError):
        if "form-urlencoded" not in request.headers.get("content-type", ""):
            return request.body
        return _form_without_secrets(request.body.decode(errors="surrogateescape")).encode(errors="surrogateescape")
    return json.dumps(document).encode() if replaced else request.body


def _form_without_secrets(text: str) -> str:
    pairs = (part.partition("=") for part in text.split("&"))
    return "&".join(
        f"{name}{equals}{REPLACED if value and _SECRET_NAME.search(unquote_plus(name)) else value}"
        for name, equals, value in pairs
    )


def _pairs(value: Any) -> Iterable[tuple[Any, Any]]:
    """Names and values of headers: an object, a list of pairs, or a list of {"name", "value"}."""
    if isinstance(value, dict):
        return value.items()
    pairs = [(row.get("name"), row.get("value")) if isinstance(row, dict) else tuple(row)[:2] for row in value or []]
    return [(pair[0], pair[1]) for pair in pairs if len(pair) == 2]


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
