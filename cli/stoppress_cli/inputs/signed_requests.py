"""Recorded requests with their schemes and secrets, and whether their signatures are valid."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import BadScheme
from stoppress.primitives.instants import parse
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, verify


class BadRecord(ValueError):
    """A recorded request that cannot be read; the text names the key and what it must hold."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request's signature is valid; if not, why."""

    id: str
    valid: bool
    reason: str = ""

    @property
    def word(self) -> str:
        """`valid` or `invalid`."""
        return "valid" if self.valid else "invalid"


def read(path: Path) -> list[dict[str, Any]]:
    """The requests of a file: a JSON list, an object that has it as `vectors`, or one request. Raises OSError, ValueError."""
    document = json.loads(path.read_bytes())
    records = document.get("vectors", [document]) if isinstance(document, dict) else document
    if not isinstance(records, list) or not records:
        raise ValueError("give a JSON list of recorded requests")
    if not all(isinstance(record, dict) for record in records):
        raise ValueError(
            'a recorded request is a JSON object: {"id": …, "scheme": …, "secrets": …, "headers": …, "body": …}'
        )
    return records


def verdict_of(record: Mapping[str, Any], name: str) -> Verdict:
    """The verdict on a request; `name` stands for a missing id. A request that cannot be read is invalid."""
    name = str(record.get("id", name))
    try:
        verify(_scheme(record), _request(record), _secrets(record), _now(record), _tolerance(record))
    except (BadRecord, BadSignature, BadSecret, BadScheme) as error:
        return Verdict(name, valid=False, reason=str(error))
    return Verdict(name, valid=True)


def _scheme(record: Mapping[str, Any]) -> str | dict[str, Any]:
    scheme = record.get("scheme")
    if not isinstance(scheme, str | dict):
        raise BadRecord("scheme: give the name of a signature, or a table that describes one")
    return scheme


def _secrets(record: Mapping[str, Any]) -> list[str]:
    secrets = record.get("secrets", record.get("secret"))
    listed = [secrets] if isinstance(secrets, str) else secrets
    if not isinstance(listed, list) or not all(isinstance(secret, str) for secret in listed):
        raise BadRecord("secrets: give a list of texts")
    return listed


def _request(record: Mapping[str, Any]) -> Request:
    """The request itself: the record, or its `request` as recorded deliveries have it."""
    request = record.get("request", record)
    if not isinstance(request, dict):
        raise BadRecord("request: give an object")
    path, _, query = str(request.get("path") or "").partition("?")
    more = request.get("query") or ""
    if not isinstance(more, str):
        more = urlencode(more, doseq=True) if isinstance(more, dict) else ""
    query = "&".join(part for part in (query, more) if part)
    method = str(request.get("method") or "POST")
    return Request(_headers(request.get("headers")), _body(request), method, path, query)


def _headers(recorded: object) -> dict[str, str]:
    """Headers by lower-case name; values of one name are joined by commas, as API Gateway's HTTP APIs join them."""
    if recorded is None:
        return {}
    pairs = list(recorded.items()) if isinstance(recorded, dict) else recorded
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise BadRecord("headers: give an object of names and values")
    headers: dict[str, str] = {}
    for key, value in pairs:
        name = str(key).strip().lower()
        text = ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        headers[name] = f"{headers[name]},{text}" if name in headers else text
    return headers


def _body(request: Mapping[str, Any]) -> bytes:
    """The exact bytes: a text as UTF-8, or base64; an object becomes compact JSON."""
    body = request.get("body", "")
    encoded = next((request[name] for name in ("body_base64", "body_b64", "bodyBase64") if name in request), None)
    if encoded is None and (
        request.get("isBase64Encoded") is True
        or request.get("body_is_base64") is True
        or "base64" in (request.get("body_encoding"), request.get("encoding"))
    ):
        encoded = body
    if encoded is not None:
        try:
            return base64.b64decode(str(encoded), validate=True)
        except ValueError:
            raise BadRecord("body: is marked as base64, but is not valid base64") from None
    if body is None:
        return b""
    if not isinstance(body, str):
        body = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return body.encode(errors="surrogatepass")


def _now(record: Mapping[str, Any]) -> datetime:
    for name, per_second in (("now_ms", 1_000), ("now_s", 1)):
        if (number := record.get(name)) is not None:
            if isinstance(number, bool) or not isinstance(number, int | float):
                raise BadRecord(f"{name}: give a number")
            try:
                # Whole milliseconds, so that a tolerance in seconds is exact.
                return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=round(number * 1_000 / per_second))
            except (OverflowError, ValueError):
                raise BadRecord(f"{name}: {number} is no time that a calendar has") from None
    if isinstance(text := record.get("now"), str):
        try:
            return parse(text)
        except ValueError as error:
            raise BadRecord(f"now: {error}") from None
    return datetime.now(UTC)


def _tolerance(record: Mapping[str, Any]) -> timedelta:
    seconds = record.get("tolerance_s")
    if seconds is None:
        return TOLERANCE
    if isinstance(seconds, bool) or not isinstance(seconds, int | float) or seconds < 0:
        raise BadRecord("tolerance_s: give a number of seconds")
    try:
        return timedelta(seconds=seconds)
    except (OverflowError, ValueError):
        raise BadRecord("tolerance_s: give a number of seconds") from None
