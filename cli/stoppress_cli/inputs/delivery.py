"""A request of a CMS, recorded or as it arrives, and whether its signature is valid."""

import base64
import binascii
import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any
from urllib.parse import quote, quote_plus, unquote_plus, urlencode

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, TypeAdapter, ValidationError, field_validator

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import BadScheme
from stoppress.model.validation import explain
from stoppress.primitives.instants import exact, parse
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, verify

# The placeholder for a secret in a recorded delivery.
REPLACED = "replaced-by-stoppress"
# Names of headers, query parameters and fields of a body whose values are secrets. An HMAC signature is no secret.
_SECRET_NAME = re.compile(r"authorization|cookie|token|secret|passw|api[-_]?key", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Recorded:
    """A delivery as it was posted, with its recorded settings, instant, and the result that a test expects."""

    received: Request
    settings: Mapping[str, Any]
    now: datetime | None = None
    expected: Any = None


def recorded_in(raw: bytes) -> Recorded:
    """Return the delivery of a file: {"request": as `request_in` reads it, "config", "now"}, or a bare body. Raises ValueError.

    A recorded path does not choose a source: the adapter is known.
    """
    try:
        outer = json.loads(raw.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        outer = None
    outer = outer if isinstance(outer, dict) else {}
    request = outer if {"headers", "body"} <= outer.keys() else outer.get("request")
    if not isinstance(request, dict):
        return Recorded(Request(body=raw), {})
    settings: dict[str, Any] = next(
        (outer[key] for key in ("config", "settings") if isinstance(outer.get(key), dict)), {}
    )
    now = outer.get("now")
    instant = parse(now) if isinstance(now, str) else None
    return Recorded(replace(request_in(request), path=""), settings, instant, outer.get("expected"))


class _Request(BaseModel):
    """A recorded request. `body`: the posted text, or its JSON; `body_base64`: the exact bytes."""

    method: str = "POST"
    path: str = ""
    query: str | dict[str, Any] = ""
    headers: dict[str, str] = {}
    body: Any = None
    body_base64: str | None = None

    @field_validator("headers")
    @classmethod
    def _lower_names(cls, headers: dict[str, str]) -> dict[str, str]:
        return {name.strip().lower(): value for name, value in headers.items()}

    def body_bytes(self) -> bytes:
        """Return the exact bytes: a text as UTF-8, or base64; an object becomes a form, or compact JSON. Raises ValueError."""
        if self.body_base64 is not None:
            return base64.b64decode(self.body_base64, validate=True)
        if self.body is None or isinstance(self.body, str):
            return (self.body or "").encode(errors="surrogatepass")
        if isinstance(self.body, dict) and "form" in self.headers.get("content-type", ""):
            return urlencode(self.body).encode()
        # A lone surrogate stays an escape.
        return json.dumps(self.body, ensure_ascii=False, separators=(",", ":")).encode(errors="backslashreplace")


def request_in(record: Any) -> Request:
    """Return a recorded request. Raises ValueError with the key and the reason."""
    try:
        recorded = _Request.model_validate(record)
        body = recorded.body_bytes()
    except ValidationError as error:
        raise ValueError(explain(error)) from None
    except binascii.Error:
        raise ValueError("body_base64: is not valid base64") from None
    path, _, query = recorded.path.partition("?")
    more = (
        recorded.query.removeprefix("?") if isinstance(recorded.query, str) else urlencode(recorded.query, doseq=True)
    )
    return Request(recorded.headers, body, recorded.method, path, "&".join(filter(None, (query, more))))


def record_of(request: Request, now: datetime) -> dict[str, Any]:
    """Return the document of a delivery that arrived at `now`; `recorded_in` reads it."""
    try:
        body = {"body": request.body.decode()}
    except UnicodeDecodeError:
        body = {"body_base64": base64.b64encode(request.body).decode()}
    sent = {"method": request.method, "path": request.path, "query": request.query, "headers": dict(request.headers)}
    return {"request": sent | body, "now": exact(now)}


def without_secrets(request: Request, secrets: Iterable[str] = ()) -> Request:
    """Return the request with REPLACED for each secret: each value whose name _SECRET_NAME matches, and the given texts anywhere.

    In a body the names are those of a form's fields or of texts in JSON. A JSON body with such a text is encoded again.
    """
    texts = [form for text in secrets for form in (text, quote(text, safe=""), quote_plus(text), _base64(text)) if text]

    def clean(value: str) -> str:
        for text in texts:
            value = value.replace(text, REPLACED)
        return value

    headers = {name: REPLACED if _SECRET_NAME.search(name) else clean(value) for name, value in request.headers.items()}
    body = _body_without_secrets(request)
    for text in texts:
        body = body.replace(text.encode(errors="surrogatepass"), REPLACED.encode())
    query = clean(_form_without_secrets(request.query))
    return replace(request, headers=headers, body=body, path=clean(request.path), query=query)


def _base64(text: str) -> str:
    return base64.b64encode(text.encode(errors="surrogatepass")).decode()


def _body_without_secrets(request: Request) -> bytes:
    replaced = []

    def clean(fields: dict[str, Any]) -> dict[str, Any]:
        names = [
            name for name, value in fields.items() if value and isinstance(value, str) and _SECRET_NAME.search(name)
        ]
        replaced.extend(names)
        return fields | dict.fromkeys(names, REPLACED)

    try:
        document = json.loads(request.body.decode("utf-8-sig"), object_hook=clean)
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


# ── requests with a signature ──


def read_requests(path: Path) -> list[dict[str, Any]]:
    """Return the requests of a file, which is a JSON list. Raises OSError, ValueError."""
    try:
        return _REQUESTS.validate_json(path.read_bytes())
    except ValidationError as error:
        raise ValueError(f"give a JSON list of recorded requests, which are objects ({explain(error)})") from None


_REQUESTS: TypeAdapter[list[dict[str, Any]]] = TypeAdapter(Annotated[list[dict[str, Any]], Field(min_length=1)])


class _Signed(BaseModel):
    """How the signature of a recorded request is verified: the scheme, the secrets, the instant and the tolerance."""

    scheme: str | dict[str, Any]
    secrets: Annotated[list[str], BeforeValidator(lambda value: [value] if isinstance(value, str) else value)] = Field(
        validation_alias=AliasChoices("secrets", "secret")
    )
    now_ms: float | None = Field(None, strict=True)
    now_s: float | None = Field(None, strict=True)
    now: str | None = None
    tolerance_s: float = Field(TOLERANCE.total_seconds(), strict=True, ge=0)

    def instant(self) -> datetime:
        """Return the instant of the verification. Raises ValueError and OverflowError."""
        if self.now_ms is None and self.now_s is None:
            return parse(self.now) if self.now else datetime.now(UTC)
        # Whole milliseconds, so that a tolerance in seconds is exact.
        milliseconds = self.now_ms if self.now_ms is not None else (self.now_s or 0) * 1_000
        return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=round(milliseconds))


def invalid_because(record: Mapping[str, Any]) -> str:
    """Return why the signature of a recorded request is not valid; empty if it is. A request that cannot be read is invalid."""
    try:
        signed = _Signed.model_validate(record)
        request = request_in(record.get("request", record))
        verify(signed.scheme, request, signed.secrets, signed.instant(), timedelta(seconds=signed.tolerance_s))
    except ValidationError as error:
        return explain(error)
    except (ValueError, OverflowError, BadSignature, BadSecret, BadScheme) as error:
        return str(error)
    return ""
