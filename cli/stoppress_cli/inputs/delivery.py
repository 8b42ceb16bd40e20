"""A request of a CMS, recorded or as it arrives: whether its signature is valid, and what an adapter makes of it."""

import base64
import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import MappingProxyType
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus, urlencode

from stoppress.cms.engine import read_delivery
from stoppress.cms.envelopes import BadDelivery
from stoppress.cms.mapping import BadMapping, MappingFile, load, read_file
from stoppress.cms.verdicts import Verdict
from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import BadScheme, check_settings
from stoppress.model.site import BadConfiguration, Site, read_site
from stoppress.primitives.instants import exact, parse
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, verify

# What `reader_of` raises for options that cannot be used.
UNUSABLE = (OSError, ValueError, TypeError, BadMapping, BadConfiguration)
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
    """Return a file's JSON, or its bytes where they are no JSON."""
    try:
        return json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return raw


def recorded_in(document: Any) -> Recorded:
    """Return the delivery of a document: {"request": as `request_in` reads it, "config", "now"}, or a bare body. Raises ValueError.

    A recorded path does not choose a source: the adapter is known.
    """
    if isinstance(document, bytes):
        return Recorded(Request(body=document), {})
    outer = document if isinstance(document, dict) else {}
    request = outer.get("request")
    if not isinstance(request, dict):
        if not ("body" in outer and "headers" in outer):
            return Recorded(Request(body=json.dumps(document).encode()), {})
        request = outer
    settings: Mapping[str, Any] = next(
        (outer[key] for key in ("config", "settings") if isinstance(outer.get(key), dict)), {}
    )
    now = outer.get("now")
    instant = parse(now) if isinstance(now, str) else None
    return Recorded(replace(request_in(request), path=""), settings, instant, outer.get("expected"))


def request_in(record: Mapping[str, Any]) -> Request:
    """Return a recorded request, which may also be an event of API Gateway. Raises ValueError with the key and what it must have.

    `headers`: an object, or a list of pairs or of {"name", "value"}. `query`: a text or an object. `body`: the posted text, or its
    JSON; `body_base64`: the exact bytes.
    """
    headers: dict[str, str] = {}
    for key, value in _header_pairs(record.get("headers")):
        name = str(key).strip().lower()
        text = ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        # As API Gateway's HTTP APIs join them.
        headers[name] = f"{headers[name]},{text}" if name in headers else text
    path, _, query = str(record.get("path") or "").partition("?")
    more = next((record[key] for key in ("query", "queryStringParameters", "rawQueryString") if record.get(key)), "")
    more = urlencode(more, doseq=True) if isinstance(more, dict) else str(more).removeprefix("?")
    query = "&".join(filter(None, (query, more)))
    return Request(headers, _body(record, headers), str(record.get("method") or "POST"), path, query)


def record_of(request: Request, settings: Mapping[str, Any], now: datetime) -> dict[str, Any]:
    """Return the document of a delivery that arrived at `now`; `recorded_in` reads it."""
    try:
        body = {"body": request.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(request.body).decode()}
    sent = {"method": request.method, "path": request.path, "query": request.query, "headers": dict(request.headers)}
    return {"request": sent | body, "config": dict(settings), "now": exact(now)}


def without_secrets(request: Request, secrets: Iterable[str] = ()) -> Request:
    """Return the request with REPLACED for each secret: each value whose name _SECRET_NAME matches, and the given texts anywhere.

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


def _header_pairs(recorded: Any) -> Iterable[tuple[Any, Any]]:
    if isinstance(recorded, dict):
        return recorded.items()
    rows = [] if recorded is None else recorded
    if isinstance(rows, list):
        pairs = [(row.get("name"), row.get("value")) if isinstance(row, dict) else row for row in rows]
        if all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
            return pairs
    raise ValueError("headers: give an object of names and values")


def _body(record: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
    """Return the exact bytes: a text as UTF-8, or base64; an object becomes a form, or compact JSON."""
    body = record.get("body")
    is_encoded = any(record.get(flag) is True for flag in ("isBase64Encoded", "body_is_base64", "base64"))
    is_encoded |= "base64" in (record.get("body_encoding"), record.get("encoding"))
    names = [name for name in ("body_base64", "body_b64", "bodyBase64") if name in record]
    if names or is_encoded:
        try:
            return base64.b64decode(str(record[names[0]] if names else body), validate=True)
        except ValueError:
            raise ValueError("body: is marked as base64, but is not valid base64") from None
    if body is None:
        return b""
    if isinstance(body, str):
        return body.encode(errors="surrogatepass")
    if isinstance(body, dict) and "form" in headers.get("content-type", ""):
        return urlencode(body).encode()
    # A lone surrogate stays an escape.
    return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")


# ── requests with a signature ──


def read_requests(path: Path) -> list[dict[str, Any]]:
    """Return the requests of a file: a JSON list, an object that has it as `vectors`, or one request. Raises OSError, ValueError."""
    document = json.loads(path.read_bytes())
    records = document.get("vectors", [document]) if isinstance(document, dict) else document
    if not isinstance(records, list) or not records:
        raise ValueError("give a JSON list of recorded requests")
    if not all(isinstance(record, dict) for record in records):
        raise ValueError(
            'a recorded request is a JSON object: {"id": …, "scheme": …, "secrets": …, "headers": …, "body": …}'
        )
    return records


def invalid_because(record: Mapping[str, Any]) -> str:
    """Return why the signature of a recorded request is not valid; empty if it is. A request that cannot be read is invalid."""
    try:
        verify(*_signed_parts(record), _instant(record), _tolerance(record))
    except (ValueError, BadSignature, BadSecret, BadScheme) as error:
        return str(error)
    return ""


def _signed_parts(record: Mapping[str, Any]) -> tuple[str | dict[str, Any], Request, list[str]]:
    scheme, request = record.get("scheme"), record.get("request", record)
    if not isinstance(scheme, str | dict):
        raise ValueError("scheme: give the name of a signature, or a table that describes one")
    if not isinstance(request, dict):
        raise ValueError("request: give an object")
    secrets = record.get("secrets", record.get("secret"))
    secrets = [secrets] if isinstance(secrets, str) else secrets
    if not isinstance(secrets, list) or not all(isinstance(secret, str) for secret in secrets):
        raise ValueError("secrets: give a list of texts")
    return scheme, request_in(request), secrets


def _instant(record: Mapping[str, Any]) -> datetime:
    for name, per_second in (("now_ms", 1_000), ("now_s", 1)):
        if (number := record.get(name)) is not None:
            # Whole milliseconds, so that a tolerance in seconds is exact.
            milliseconds = _number(name, number) * 1_000 / per_second
            try:
                return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=round(milliseconds))
            except OverflowError:
                raise ValueError(f"{name}: {number} is no time that a calendar has") from None
    if not isinstance(text := record.get("now"), str):
        return datetime.now(UTC)
    try:
        return parse(text)
    except ValueError as error:
        raise ValueError(f"now: {error}") from None


def _tolerance(record: Mapping[str, Any]) -> timedelta:
    seconds = record.get("tolerance_s")
    if seconds is None:
        return TOLERANCE
    if _number("tolerance_s", seconds) < 0:
        raise ValueError("tolerance_s: give a number of seconds")
    try:
        return timedelta(seconds=seconds)
    except OverflowError:
        raise ValueError("tolerance_s: give a number of seconds") from None


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise ValueError(f"{name}: give a number")
    return value
