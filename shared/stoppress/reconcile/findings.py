"""What a look at a site finds, and what it stores for the next look."""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stoppress.aws import table
from stoppress.aws.items import places_pk
from stoppress.model.site import Site
from stoppress.primitives.instants import exact, parse

# A finished pass is followed by a new one on the next night, not half an hour later.
PASS_EVERY = timedelta(hours=12)

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

# Sorts after every unit: a pass that stopped here is complete.
END = "~"


@dataclass(frozen=True, slots=True)
class Finding:
    """One difference between table, index and bucket.

    `unit`: the part of the site where a look finds it. `name`: the object, entry or series. `seen`: its state; a second look
    confirms the finding if it sees the same. `reason` is for people.
    """

    kind: str
    unit: str
    name: str
    seen: str
    reason: str = field(compare=False)


@dataclass(frozen=True, slots=True)
class Report:
    """The result of a look: findings confirmed and repaired, findings seen for the first time, and errors.

    `units`: how many parts of the site were looked at. `whole`: this look completed the pass that earlier looks began.
    """

    repaired: tuple[Finding, ...] = ()
    suspected: tuple[Finding, ...] = ()
    failed: tuple[Exception, ...] = ()
    units: int = 0
    whole: bool = False

    @property
    def counts(self) -> Counter[str]:
        """Counts by metric."""
        kinds = Counter(KINDS[finding.kind] for finding in self.repaired)
        return kinds + Counter({DRIFT: len(self.repaired), "FilesCompared": self.units})


@dataclass(frozen=True, slots=True)
class Past:
    """What earlier looks stored: the start of the last pass, the unit after which it continues, and its suspects.

    `seen_at`: when the last look saw the suspects.
    """

    began: datetime | None = None
    stopped_after: str = ""
    suspects: tuple[Finding, ...] = ()
    seen_at: datetime | None = None

    def continued(self, now: datetime, *, anew: bool) -> tuple[datetime, str]:
        """The start of the current pass, and the unit after which it continues.

        After a complete pass, a new one begins if it is due, or if `anew`.
        """
        if self.began is None or (self.stopped_after == END and (anew or self.began + PASS_EVERY <= now)):
            return now, ""
        return self.began, self.stopped_after


def read_past(site: Site) -> Past:
    """Read what earlier looks at a site stored."""
    item = table.get(places_pk(site.host), "reconciliation")
    if item is None:
        return Past()
    suspects = tuple(Finding(kind, unit, name, seen, "seen before") for kind, unit, name, seen in item["suspects"])
    return Past(parse(item["began"]), item["stopped_after"], suspects, parse(item["seen_at"]))


def keep_past(site: Site, began: datetime, stopped_after: str, suspects: list[Finding], now: datetime) -> None:
    """Store the result of a look at `now` for the next one."""
    key = {"pk": places_pk(site.host), "sk": "reconciliation"}
    seen = [[suspect.kind, suspect.unit, suspect.name, suspect.seen] for suspect in suspects]
    times = {"began": exact(began), "seen_at": exact(now)}
    table.put_if(key | times | {"stopped_after": stopped_after, "suspects": seen})
