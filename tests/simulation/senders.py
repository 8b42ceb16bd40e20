"""How newsrooms send: their clocks, timestamps, versions and habits, drawn by a seed for each source of a site."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.oracle import Act

Z_OFFSETS = (timedelta(hours=1), timedelta(hours=5, minutes=30), -timedelta(hours=5))
WRONG_BY = (timedelta(seconds=30), timedelta(minutes=3), timedelta(hours=2))
CLOCKS = ("good", "good", "good", "ahead", "behind", "ahead, then right", "behind, then right", "local time marked Z")
VERSIONS = ("none", "none", "counter", "counter on publications", "instant", "instant on publications", "constant")
REPEATED_AFTER = (timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))
# A sender's clock that is right is never ahead of the clock of whoever hears it, which may be wrong by less than this.
ON_ITS_WAY = timedelta(seconds=6)

# The keyword of pages below `sponsored/`, for rules.
SPONSORED = "sponsored"


@dataclass(frozen=True)
class Sender:
    """One source of a site: `wrong_by` is added to the true time until `right_from`."""

    site: str
    source: str
    wrong_by: timedelta
    right_from: datetime | None
    dates_by_its_clock: bool  # published_at and updated_at are wrong as well
    stamps: bool
    fractions: bool  # timestamps have milliseconds
    versions: str
    counts_anew: bool  # after a deletion
    updated_at: str  # never, of the text, always
    dates_edits: bool
    names: str  # what a removal names: id, url, both
    by: tuple[str, ...]
    bus_time_is_its_own: bool
    has_delivery_ids: bool  # signs its webhooks by Standard Webhooks; else the sender's scheme has no ids
    hurries: bool  # acts follow each other within seconds
    habit: str  # prompt, repeats, disorder

    @staticmethod
    def of(chance: random.Random, site: str, source: str, begin: datetime, length: timedelta) -> "Sender":
        clock, wrong_by, right_from = chance.choice(CLOCKS), timedelta(), None
        if clock == "local time marked Z":
            wrong_by = chance.choice(Z_OFFSETS)
        elif clock != "good":
            wrong_by = chance.choice(WRONG_BY) * (1 if clock.startswith("ahead") else -1)
        if clock.endswith("then right"):
            right_from = begin + chance.random() * length
        by = chance.choice((("webhook",), ("webhook",), ("bus",), ("webhook", "bus")))
        return Sender(
            site, source, wrong_by, right_from,
            dates_by_its_clock=chance.random() < 0.4,
            stamps=chance.random() < 0.8,
            fractions=by == ("webhook",) and chance.random() < 0.4,
            versions=chance.choice(VERSIONS),
            counts_anew=chance.random() < 0.3,
            updated_at=chance.choice(("never", "of the text", "always", "always")),
            dates_edits=chance.random() < 0.8,
            names=chance.choice(("id", "id", "both", "both", "url")),
            by=by,
            # EventBridge's clock is right: beside a wrong one of its own a source would have two.
            bus_time_is_its_own=len(by) == 2 or chance.random() < 0.5,
            has_delivery_ids=chance.random() < 0.5,
            hurries=chance.random() < 0.4,
            habit=chance.choice(("prompt", "repeats", "repeats", "disorder")),
        )  # fmt: skip

    def clock(self, at: datetime) -> datetime:
        """What its clock shows."""
        is_right = self.right_from is not None and at >= self.right_from
        return at if is_right else at + self.wrong_by

    def date(self, at: datetime, now: datetime) -> datetime:
        """An instant of an article, as it is written at `now`."""
        return (at + (self.clock(now) - now) if self.dates_by_its_clock else at).replace(microsecond=0)

    def stamp(self, at: datetime, by: str) -> datetime | None:
        """The timestamp of an event. Whatever is put on the bus has one, EventBridge's own where the sender gives none."""
        if by == "bus" and not (self.stamps and self.bus_time_is_its_own):
            return (at + ON_ITS_WAY).replace(microsecond=0)
        if not self.stamps:
            return None
        return self._to_its_resolution(self.clock(at))

    def version(self, at: datetime, count: int, *, removal: bool) -> int | datetime | None:
        """The version of an event, of which `count` came before."""
        if removal and self.versions.endswith("on publications"):
            return None
        kind = self.versions.removesuffix(" on publications")
        if kind == "instant":
            return self._to_its_resolution(self.clock(at))
        return {"counter": count + 1, "constant": 1}.get(kind)

    def _to_its_resolution(self, at: datetime) -> datetime:
        return at.replace(microsecond=at.microsecond // 1000 * 1000 if self.fractions else 0)

    def attempts(self, chance: random.Random, act: Act, length: timedelta) -> list[datetime]:
        """When it tries to deliver an act."""
        delay = timedelta(seconds=chance.choice((0, 0, 2)))
        if self.habit == "disorder":
            delay = chance.random() * chance.choice((timedelta(), timedelta(minutes=10), length / 2))
        first = act.at + ON_ITS_WAY + delay
        if self.habit == "prompt":
            return [first]
        return [first, *(first + after for after in REPEATED_AFTER if chance.random() < 0.2)]


def document(act: Act) -> dict[str, Any]:
    """What the CMS posts: the fields that the sender has."""
    data: dict[str, Any] = {"id": act.id, "url": act.written}
    if act.removal:
        data = {name: value for name, value in data.items() if act.names in (name, "both")}
    else:
        data |= {"title": act.title, "noindex": act.noindex, "news": act.news}
        data["published_at"] = act.published_at and text(act.published_at)
        data["language"] = act.language or None
        data["alternates"] = dict(act.alternates) or None
        data["keywords"] = keywords(act) or None
    version = act.version
    data["version"] = text(version) if isinstance(version, datetime) else version
    data["updated_at"] = act.updated_at and text(act.updated_at)
    found = {
        "type": f"article.{_TYPES[act.verb]}",
        "data": {name: said for name, said in data.items() if said is not None},
    }
    return found | ({"timestamp": text(act.stamp)} if act.stamp else {})


def keywords(act: Act) -> list[str]:
    """The keywords of a page: that of its folder, if rules know it."""
    return [SPONSORED] if f"/{SPONSORED}/" in act.url else []


_TYPES = {"publish": "published", "update": "updated", "unpublish": "unpublished", "delete": "deleted"}


def text(instant: datetime) -> str:
    """An instant as CMSs write it."""
    return instant.isoformat(timespec="milliseconds" if instant.microsecond else "seconds").replace("+00:00", "Z")
