"""Answers as plain values, for JSON."""

from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any

from stoppress.primitives.instants import iso


def plain(value: Any) -> Any:
    """Dataclasses as dicts, tuples as lists, instants as text in ISO 8601 and UTC. Other values are unchanged."""
    if is_dataclass(value):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, tuple):
        return [plain(item) for item in value]
    return iso(value) if isinstance(value, datetime) else value
