"""Recorded deliveries with their expected verdicts: the project's own, and other people's beside the repository."""

import json
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from stoppress.cms.engine import read_delivery
from stoppress.cms.mapping import load
from stoppress.cms.verdicts import Verdict
from stoppress.model.site import Site
from stoppress.primitives.instants import parse
from stoppress_cli.inputs.delivery import Recorded, recorded_in
from tests.support.adjacent_paths import SHARED

OWN = Path(__file__).parents[2] / "tests/fixtures/deliveries"
OF_OTHERS = SHARED / "deliveries"
# For readers: why a delivery has its expected verdict.
NOT_COMPARED = {"why"}
INSTANTS = {"published_at", "updated_at", "hold_until", "timestamp"}


@dataclass(frozen=True)
class Case:
    name: str
    path: Path

    @property
    def document(self) -> dict[str, Any]:
        document: dict[str, Any] = json.loads(self.path.read_text(encoding="utf-8"))
        return document

    @property
    def recorded(self) -> Recorded:
        return recorded_in(self.path.read_bytes())


def cases(folder: Path) -> list[Case]:
    """Return the recorded deliveries of a folder, without the files of signatures."""
    all_cases = [Case(path.relative_to(folder).as_posix(), path) for path in sorted(folder.glob("*/*.json"))]
    return [case for case in all_cases if "mapping" in case.document]


def verdicts(mapping: str, recorded: Recorded, site: Site | None = None) -> list[Verdict]:
    return read_delivery(load(mapping), recorded.received, recorded.settings, site, now_of(recorded))


def now_of(recorded: Recorded) -> datetime:
    assert recorded.now
    return recorded.now


def differences(shown: list[dict[str, Any]], expected: list[dict[str, Any]]) -> list[str]:
    """Return the fields that differ from their expected values; instants are compared as instants."""
    differing = [] if len(shown) == len(expected) else [f"{len(shown)} items, expected {len(expected)}"]
    for number, (actual, fields) in enumerate(zip(shown, expected, strict=False)):
        for name in fields.keys() - NOT_COMPARED:
            field, value = actual.get(name), fields[name]
            same = parse(field) == parse(value) if name in INSTANTS and field and value else field == value
            if not same:
                differing.append(f"{number}.{name}: {field!r}, expected {value!r}")
    return differing
