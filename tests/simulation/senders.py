"""Senders of events: random clocks, timestamps, versions and delivery habits for each source of a site."""

import random
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from tests.simulation.oracle import Act

Z_OFFSETS = (timedelta(hours=1), timedelta(hours=5, minutes=30), -timedelta(hours=5))
CLOCK_ERRORS = (timedelta(seconds=30), timedelta(minutes=3), timedelta(hours=2))
CLOCKS = ("good", "good", "good", "ahead", "behind", "ahead, then right", "behind, then right", "local time with Z")
VERSIONS = ("none", "none", "counter", "counter on publications", "instant", "instant on publications", "constant")
REPEATED_AFTER = (timedelta(seconds=1), timedelta(minutes=1), timedelta(hours=1), timedelta(days=1))
# Delivery takes longer than the functions' clock skew, so that a correct timestamp is never in the future on receipt.
DELIVERY_DELAY = timedelta(seconds=6)

# The keyword of pages below `sponsored/`, which rules can exclude.
SPONSORED = "sponsored"


@dataclass(frozen=True)
class Sender:
    """One source of a site. Its clock has an error of `clock_error` until `corrected_at`."""

    site: str
    source: str
    clock_error: timedelta
    corrected_at: datetime | None
    dates_by_clock: bool  # published_at and updated_at have the same error
    has_timestamps: bool
    has_milliseconds: bool
    versions: str
    restarts_counter: bool  # after a deletion
    updated_at: str  # sent never, for text changes, always
    dates_edits: bool
    ref: str  # what a removal contains: id, url, both
    by: tuple[str, ...]
    sets_bus_time: bool
    has_delivery_ids: bool  # Standard Webhooks signatures; otherwise a scheme without ids
    is_fast: bool  # acts follow within seconds
    habit: str  # prompt, repeats, disorder

    @staticmethod
    def draw(rng: random.Random, site: str, source: str, begin: datetime, length: timedelta) -> "Sender":
        clock, clock_error, corrected_at = rng.choice(CLOCKS), timedelta(), None
        if clock == "local time with Z":
            clock_error = rng.choice(Z_OFFSETS)
        elif clock != "good":
            clock_error = rng.choice(CLOCK_ERRORS) * (1 if clock.startswith("ahead") else -1)
        if clock.endswith("then right"):
            corrected_at = begin + rng.random() * length
        by = rng.choice((("webhook",), ("webhook",), ("bus",), ("webhook", "bus")))
        return Sender(
            site, source, clock_error, corrected_at,
            dates_by_clock=rng.random() < 0.4,
            has_timestamps=rng.random() < 0.8,
            has_milliseconds=by == ("webhook",) and rng.random() < 0.4,
            versions=rng.choice(VERSIONS),
            restarts_counter=rng.random() < 0.3,
            updated_at=rng.choice(("never", "for text changes", "always", "always")),
            dates_edits=rng.random() < 0.8,
            ref=rng.choice(("id", "id", "both", "both", "url")),
            by=by,
            # EventBridge's clock is correct: a source with both transports would otherwise have two clocks.
            sets_bus_time=len(by) == 2 or rng.random() < 0.5,
            has_delivery_ids=rng.random() < 0.5,
            is_fast=rng.random() < 0.4,
            habit=rng.choice(("prompt", "repeats", "repeats", "disorder")),
        )  # fmt: skip

    def clock(self, at: datetime) -> datetime:
        """Return the time that the sender's clock shows."""
        is_correct = self.corrected_at is not None and at >= self.corrected_at
        return at if is_correct else at + self.clock_error

    def date(self, at: datetime, now: datetime) -> datetime:
        """Return an article's date as the sender writes it at `now`."""
        return (at + (self.clock(now) - now) if self.dates_by_clock else at).replace(microsecond=0)

    def stamp(self, at: datetime, by: str) -> datetime | None:
        """Return an event's timestamp. Events on the bus always have one: EventBridge adds it if the sender sets none."""
        if by == "bus" and not (self.has_timestamps and self.sets_bus_time):
            return (at + DELIVERY_DELAY).replace(microsecond=0)
        if not self.has_timestamps:
            return None
        return self._truncate(self.clock(at))

    def version(self, at: datetime, count: int, *, removal: bool) -> int | datetime | None:
        """Return an event's version, after `count` earlier events."""
        if removal and self.versions.endswith("on publications"):
            return None
        kind = self.versions.removesuffix(" on publications")
        if kind == "instant":
            return self._truncate(self.clock(at))
        return {"counter": count + 1, "constant": 1}.get(kind)

    def _truncate(self, at: datetime) -> datetime:
        return at.replace(microsecond=at.microsecond // 1000 * 1000 if self.has_milliseconds else 0)

    def attempts(self, rng: random.Random, act: Act, length: timedelta) -> list[datetime]:
        """Return the instants of the attempts to deliver an act."""
        delay = timedelta(seconds=rng.choice((0, 0, 2)))
        if self.habit == "disorder":
            delay = rng.random() * rng.choice((timedelta(), timedelta(minutes=10), length / 2))
        first = act.at + DELIVERY_DELAY + delay
        if self.habit == "prompt":
            return [first]
        return [first, *(first + after for after in REPEATED_AFTER if rng.random() < 0.2)]


def document(act: Act) -> dict[str, Any]:
    """Return the event that the CMS sends, with the sender's fields."""
    data: dict[str, Any] = {"id": act.id, "url": act.written}
    if act.removal:
        data = {name: value for name, value in data.items() if act.ref in (name, "both")}
    else:
        data |= {"title": act.title, "noindex": act.noindex, "news": act.news}
        data["published_at"] = act.published_at and text(act.published_at)
        data["language"] = act.language or None
        data["alternates"] = dict(act.alternates) or None
        data["keywords"] = keywords(act) or None
    version = act.version
    data["version"] = text(version) if isinstance(version, datetime) else version
    data["updated_at"] = act.updated_at and text(act.updated_at)
    fields = {name: value for name, value in data.items() if value is not None}
    event = {"type": f"article.{_TYPES[act.verb]}", "data": fields}
    return event | ({"timestamp": text(act.stamp)} if act.stamp else {})


def keywords(act: Act) -> list[str]:
    """Return the keywords of a page: SPONSORED in that folder."""
    return [SPONSORED] if f"/{SPONSORED}/" in act.url else []


_TYPES = {"publish": "published", "update": "updated", "unpublish": "unpublished", "delete": "deleted"}


def text(instant: datetime) -> str:
    """Format an instant as CMSs do."""
    return instant.isoformat(timespec="milliseconds" if instant.microsecond else "seconds").replace("+00:00", "Z")
