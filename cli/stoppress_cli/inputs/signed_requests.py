"""Recorded requests with their schemes and secrets, and whether their signatures are valid."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from stoppress.model.signature_schemes import BadScheme
from stoppress.primitives.instants import parse
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, verify
from stoppress_cli.inputs.recorded import BadRecord, read_request


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
        verify(_scheme(record), read_request(record), _secrets(record), _now(record), _tolerance(record))
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
    try:
        tolerance = timedelta(seconds=seconds)
    except (TypeError, OverflowError, ValueError):
        raise BadRecord("tolerance_s: give a number of seconds") from None
    if tolerance < timedelta():
        raise BadRecord("tolerance_s: give a number of seconds")
    return tolerance
