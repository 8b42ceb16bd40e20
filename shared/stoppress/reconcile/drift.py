"""The findings of a look at a site, and the suspects that it stores for the next look."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from stoppress.aws import table
from stoppress.primitives.instants import exact, parse

# Each kind of drift, and the metric that counts it.
KINDS: Mapping[str, str] = {
    "missing": "ObjectsMissing",
    "edited": "ObjectsEdited",
    "stale": "ObjectsStale",
    "unmarked": "MarksWrong",
    "orphan": "ObjectsOrphaned",
    "ownerless": "EntriesOwnerless",
    "miscounted": "PlacesMiscounted",
}
DRIFT = "DriftFound"

# The partition of the suspects of all sites.
SUSPECTS = "suspects"
# The number of suspects of a unit that fit into one item.
SUSPECTS_MAX = 1_000


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between table, index and bucket.

    `unit`: the part of the site to which it belongs. `name`: the object, entry or series. `seen`: its state; a second look
    confirms the finding if it sees the same. `reason` is for people.
    """

    kind: str
    unit: str
    name: str
    seen: str
    reason: str = field(compare=False)


@dataclass(slots=True)
class Report:
    """The result of a look: findings confirmed and repaired, findings seen for the first time, and errors.

    `units`: the number of parts of the site that were examined. `has_rest`: the rest was announced, so this part must not be repeated.
    """

    repaired: list[Finding] = field(default_factory=list)
    suspected: list[Finding] = field(default_factory=list)
    failed: list[Exception] = field(default_factory=list)
    units: int = 0
    has_rest: bool = False


def counts_of(report: Report) -> Counter[str]:
    """Return the counts of a report by metric."""
    kinds = Counter(KINDS[finding.kind] for finding in report.repaired)
    attention = len(report.repaired) + len(report.failed) * report.has_rest
    return kinds + Counter({DRIFT: len(report.repaired), "FilesCompared": report.units, "NeedsAttention": attention})


@dataclass(frozen=True, slots=True)
class Suspects:
    """The findings that a look saw for the first time in a unit, and when."""

    findings: tuple[Finding, ...]
    seen_at: datetime


def read_suspects(host: str) -> dict[str, Suspects]:
    """Read the suspects of a site, by unit."""
    suspects = {}
    for item in table.query(SUSPECTS, prefix=f"{host}/"):
        unit = item["sk"].removeprefix(f"{host}/")
        findings = tuple(Finding(kind, unit, name, seen, "seen before") for kind, name, seen in item["findings"])
        suspects[unit] = Suspects(findings, parse(item["seen_at"]))
    return suspects


def keep_suspects(host: str, unit: str, findings: Sequence[Finding], now: datetime) -> None:
    """Store the suspects of a unit for the next look, or delete those of an earlier look if there are none."""
    if not findings:
        table.delete(SUSPECTS, f"{host}/{unit}")
        return
    seen = [[finding.kind, finding.name, finding.seen] for finding in findings[:SUSPECTS_MAX]]
    table.put_if({"pk": SUSPECTS, "sk": f"{host}/{unit}", "seen_at": exact(now), "findings": seen})


def suspected_hosts() -> list[str]:
    return sorted({item["sk"].partition("/")[0] for item in table.query(SUSPECTS)})
