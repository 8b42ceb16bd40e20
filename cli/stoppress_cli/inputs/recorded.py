"""Recorded requests: read in the forms in which people and tools record them, and written without secrets."""

import base64
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import quote, quote_plus, unquote_plus, urlencode

from stoppress.model.http_request import Request
from stoppress.primitives.instants import exact, parse

# Keys of the query, if it is not in the path.
_QUERIES = ("query", "queryStringParameters", "rawQueryString")
# Stands for a secret in a recorded delivery.
REPLACED = "replaced-by-stoppress"
# Names of headers, query parameters and fields of a body whose values are secrets. An HMAC signature is no secret.
_SECRET_NAME = re.compile(r"authorization|cookie|token|secret|passw|api[-_]?key", re.IGNORECASE)


class BadRecord(ValueError):
    """A recorded request that cannot be read; the text names the key and what it must hold."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """A delivery as it was posted, with what was recorded with it: settings, instant, and the result that a test expects."""

    received: Request
    settings: Mapping[str, Any]
    now: datetime | None = None
    expected: Any = None


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
    if not isinstance(outer.get("request"), dict) and not {"body", "headers"} <= outer.keys():
        return Recorded(Request(body=json.dumps(document).encode()), {})
    settings: Mapping[str, Any] = next(
        (outer[key] for key in ("config", "settings") if isinstance(outer.get(key), dict)), {}
    )
    now = outer.get("now")
    instant = parse(now) if isinstance(now, str) else None
    return Recorded(read_request(outer), settings, instant, outer.get("expected"))


def read_request(record: Mapping[str, Any]) -> Request:
    """Return the request of a record: the record itself, or its `request`. Raises BadRecord."""
    request = record.get("request", record)
    if not isinstance(request, dict):
        raise BadRecord("request: give an object")
    path, _, query = str(request.get("path") or "").partition("?")
    more = next((request[key] for key in _QUERIES if request.get(key)), "")
    if isinstance(more, dict):
        more = urlencode(more, doseq=True)
    query = "&".join(part for part in (query, str(more).removeprefix("?")) if part)
    headers = _read_headers(request.get("headers"))
    return Request(headers, _read_body(request, headers), str(request.get("method") or "POST"), path, query)


def _read_headers(recorded: object) -> dict[str, str]:
    """Return headers by lower-case name; values of one name are joined by commas, as API Gateway's HTTP APIs join them.

    They may be recorded as an object, a list of pairs, or a list of {"name", "value"}.
    """
    pairs = list(recorded.items()) if isinstance(recorded, dict) else recorded or []
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple | dict) for pair in pairs):
        raise BadRecord("headers: give an object of names and values")
    headers: dict[str, str] = {}
    for pair in pairs:
        key, value = (pair.get("name"), pair.get("value")) if isinstance(pair, dict) else (*pair, None, None)[:2]
        name = str(key).strip().lower()
        text = ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        headers[name] = f"{headers[name]},{text}" if name in headers else text
    return headers


def _read_body(request: Mapping[str, Any], headers: Mapping[str, str]) -> bytes:
    """Return the exact bytes: a text as UTF-8, or base64; an object becomes a form or compact JSON."""
    body = request.get("body")
    encoded = body if request.get("isBase64Encoded") is True else request.get("body_base64")
    if encoded is not None:
        try:
            return base64.b64decode(str(encoded), validate=True)
        except ValueError:
            raise BadRecord("body: is marked as base64, but is not valid base64") from None
    if body is None:
        return b""
    if isinstance(body, dict) and "form" in headers.get("content-type", ""):
        body = urlencode(body)
    elif not isinstance(body, str):
        body = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return body.encode(errors="surrogatepass")


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
