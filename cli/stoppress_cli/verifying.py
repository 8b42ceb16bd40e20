"""`stoppress adapters verify`: recorded requests, each judged by its signature."""

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import typer

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import BadScheme
from stoppress.primitives.instants import parse
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, verify

WELL, INVALID, UNREADABLE = 0, 1, 2


class BadVector(ValueError):
    """A recorded request that cannot be read; the text says what is wrong with it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Whether a request was signed as it should be, and if not, why."""

    id: str
    valid: bool
    reason: str = ""


def verify_file(path: Path, *, as_json: bool) -> int:
    """Judges each request of a file and prints the verdicts. Returns the exit code: 0 where all are valid, 1, or 2 where it cannot be read."""
    try:
        document = json.loads(path.read_bytes())
        vectors = [_object(vector) for vector in _list(document)]
    except (OSError, ValueError, RecursionError) as error:
        typer.echo(f"{path}: {error}", err=True)
        return UNREADABLE
    verdicts = [judged(vector, f"#{number}") for number, vector in enumerate(vectors, 1)]
    if as_json:
        typer.echo(json.dumps({verdict.id: _word(verdict) for verdict in verdicts}, ensure_ascii=False, indent=1))
    else:
        for verdict in verdicts:
            typer.echo(f"{_word(verdict):<7}  {verdict.id}" + (f"  {verdict.reason}" if verdict.reason else ""))
    return WELL if all(verdict.valid for verdict in verdicts) else INVALID


def judged(vector: Mapping[str, Any], name: str) -> Verdict:
    """The verdict on one request. What cannot be read or is not known is invalid: nothing is let in for want of a rule."""
    name = str(vector.get("id", name))
    try:
        verify(_scheme(vector), _request(vector), _secrets(vector), _now(vector), _tolerance(vector))
    except (BadVector, BadSignature, BadSecret, BadScheme) as error:
        return Verdict(name, valid=False, reason=str(error))
    return Verdict(name, valid=True)


def _word(verdict: Verdict) -> str:
    return "valid" if verdict.valid else "invalid"


def _list(document: object) -> list[Any]:
    """A list of requests, an object that has one as `vectors`, or a single request."""
    vectors = document.get("vectors", [document]) if isinstance(document, dict) else document
    if not isinstance(vectors, list) or not vectors:
        raise ValueError("give a JSON list of recorded requests")
    return vectors


def _object(vector: object) -> dict[str, Any]:
    if not isinstance(vector, dict):
        raise ValueError(
            'a recorded request is a JSON object: {"id": …, "scheme": …, "secrets": …, "headers": …, "body": …}'
        )
    return vector


def _scheme(vector: Mapping[str, Any]) -> str | dict[str, Any]:
    scheme = vector.get("scheme")
    if not isinstance(scheme, str | dict):
        raise BadVector("scheme: give the name of a signature, or a table that describes one")
    return scheme


def _secrets(vector: Mapping[str, Any]) -> list[str]:
    secrets = vector.get("secrets", vector.get("secret"))
    listed = [secrets] if isinstance(secrets, str) else secrets
    if not isinstance(listed, list) or not all(isinstance(secret, str) for secret in listed):
        raise BadVector("secrets: give a list of texts")
    return listed


def _request(vector: Mapping[str, Any]) -> Request:
    """The request itself: beside the rest, or under `request` as recorded deliveries have it."""
    said = vector.get("request", vector)
    if not isinstance(said, dict):
        raise BadVector("request: give an object")
    path, _, query = str(said.get("path") or "").partition("?")
    more = said.get("query") or ""
    if not isinstance(more, str):
        more = urlencode(more, doseq=True) if isinstance(more, dict) else ""
    query = "&".join(part for part in (query, more) if part)
    return Request(_headers(said.get("headers")), _body(said), str(said.get("method") or "POST"), path, query)


def _headers(said: object) -> dict[str, str]:
    """Names in small letters; values of one name joined by commas, as an HTTP API does."""
    if said is None:
        return {}
    pairs = list(said.items()) if isinstance(said, dict) else said
    if not isinstance(pairs, list) or not all(isinstance(pair, list | tuple) and len(pair) == 2 for pair in pairs):
        raise BadVector("headers: give an object of names and values")
    headers: dict[str, str] = {}
    for said_name, value in pairs:
        name = str(said_name).strip().lower()
        text = ",".join(map(str, value)) if isinstance(value, list) else "" if value is None else str(value)
        headers[name] = f"{headers[name]},{text}" if name in headers else text
    return headers


def _body(said: Mapping[str, Any]) -> bytes:
    """The very bytes: a text as UTF-8, or base64; an object is taken as compact JSON."""
    body = said.get("body", "")
    encoded = next((said[name] for name in ("body_base64", "body_b64", "bodyBase64") if name in said), None)
    if encoded is None and (
        said.get("isBase64Encoded") is True
        or said.get("body_is_base64") is True
        or "base64" in (said.get("body_encoding"), said.get("encoding"))
    ):
        encoded = body
    if encoded is not None:
        try:
            return base64.b64decode(str(encoded), validate=True)
        except ValueError:
            raise BadVector("body: is marked as base64, and is none") from None
    if body is None:
        return b""
    if not isinstance(body, str):
        body = json.dumps(body, ensure_ascii=False, separators=(",", ":"))
    return body.encode(errors="surrogatepass")


def _now(vector: Mapping[str, Any]) -> datetime:
    for name, per_second in (("now_ms", 1_000), ("now_s", 1)):
        if (said := vector.get(name)) is not None:
            if isinstance(said, bool) or not isinstance(said, int | float):
                raise BadVector(f"{name}: give a number")
            try:
                # Whole milliseconds, so that a tolerance of so many seconds is exactly that.
                return datetime.fromtimestamp(0, UTC) + timedelta(milliseconds=round(said * 1_000 / per_second))
            except (OverflowError, ValueError):
                raise BadVector(f"{name}: {said} is no time that a calendar has") from None
    if isinstance(said := vector.get("now"), str):
        try:
            return parse(said)
        except ValueError as error:
            raise BadVector(f"now: {error}") from None
    return datetime.now(UTC)


def _tolerance(vector: Mapping[str, Any]) -> timedelta:
    said = vector.get("tolerance_s")
    if said is None:
        return TOLERANCE
    if isinstance(said, bool) or not isinstance(said, int | float) or said < 0:
        raise BadVector("tolerance_s: give a number of seconds")
    try:
        return timedelta(seconds=said)
    except (OverflowError, ValueError):
        raise BadVector("tolerance_s: give a number of seconds") from None
