"""Verdicts: the outcome of each item of a delivery, and the origin of each field."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

from stoppress.cms.contract import event_of, model_of
from stoppress.cms.mapping import REMOVALS, Action
from stoppress.model.event import ArticleEvent, Verb, to_message
from stoppress.model.site import Site
from stoppress.primitives.instants import exact
from stoppress.primitives.text import clean

Disposition: TypeAlias = Literal["apply", "hold", "ignore", "incomplete"]

_VERBS: dict[Action, Verb] = {
    "publish": "published",
    "update": "updated",
    "unpublish": "unpublished",
    "delete": "deleted",
}
# Fields of the event that do not describe the article.
_OF_THE_EVENT = ("site", "source", "action", "verb", "received_at", "delivery")
# How much quarantine keeps of an incomplete item.
ITEM_CHARACTERS_MAX = 20_000
# The site of a verdict without a site. No page has its host.
NOWHERE = Site(host="stoppress.invalid", publication="none")
# All expressions of this field count: the latest embargo wins, and one unreadable embargo holds the article.
HELD = "hold_until"


@dataclass(frozen=True, slots=True)
class Reading:
    """One attempt to read a field: the expression, and the value read from its result, or the fault."""

    field: str
    expression: str
    value: Any = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The outcome of one item of a delivery. `data` has the contract's fields as an event keeps them, `missing` lists needed fields.

    `embargo` is the instant, past or future, before which nobody could read the page. `hold_until` is the instant until
    which the article is held. `site` is the CMS's name of the site, `host` the host that the settings have for that name.
    """

    disposition: Disposition
    action: Action | None = None
    reason: str = ""
    missing: tuple[str, ...] = ()
    dropped: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)
    timestamp: datetime | None = None
    hold_until: datetime | None = None
    embargo: datetime | None = None
    site: str | None = None
    host: str | None = None
    page: bool = False
    item: Any = None
    readings: tuple[Reading, ...] = ()

    def event(self, site: Site, source: str, now: datetime) -> ArticleEvent:
        """Return the article event of a verdict that applies or holds. Raises BadArticle if the site rejects it."""
        verb, data = _VERBS[self.action or "publish"], dict(self.data)
        if release := self.hold_until or self.embargo:
            # Nobody could read the page before that instant, so it is the date of publication.
            data["published_at"] = max(release, data.get("published_at", release))
        fields = model_of(verb, page=self.page).model_construct(**data)
        instants = {"timestamp": self.timestamp, "received_at": now}
        return event_of(fields, site, source, verb, page=self.page, **instants)

    def shown(self, now: datetime, site: Site | None = None) -> dict[str, Any]:
        """Return the verdict as JSON, with the fields cleaned as they would be kept."""
        plain: dict[str, Any] = {"disposition": self.disposition, "action": self.action}
        plain |= {"missing": list(self.missing), "reason": self.reason or None, "dropped": list(self.dropped)}
        if self.disposition in ("apply", "hold"):
            plain |= {"url": None} | ({} if self.action in REMOVALS else {"noindex": False})
            fields = _fields(self, site or NOWHERE, now)
            plain["dropped"] += fields.pop("dropped", [])
            plain |= fields
        else:
            plain |= {name: _plain(value) for name, value in self.data.items()}
        extra = {"hold_until": self.hold_until and exact(self.hold_until), "site": self.site}
        return plain | {name: value for name, value in extra.items() if value}

    def kept(self) -> str:
        """Return the item as JSON, cut to the length that quarantine keeps."""
        try:
            return json.dumps(self.item, default=str)[:ITEM_CHARACTERS_MAX]
        except (RecursionError, ValueError):  # nested too deeply
            return ""


def _fields(verdict: Verdict, site: Site, now: datetime) -> dict[str, Any]:
    event = replace(verdict, hold_until=None, embargo=None).event(site, "source", now)
    message = json.loads(to_message(event, in_ascii=False))
    return {name: value for name, value in message.items() if name not in _OF_THE_EVENT}


def _plain(value: object) -> object:
    """Return a value of a field as JSON."""
    if isinstance(value, datetime):
        return exact(value)
    return list(value) if isinstance(value, tuple) else value


def field_origins(verdict: Verdict) -> Iterator[tuple[str, str, str]]:
    """Yield for each field that was read its name, its value or fault, and the expression that returned it."""
    good = [reading for reading in verdict.readings if reading.value is not None]
    # The last reading of a field counts; of `hold_until` the latest instant.
    by_embargo = sorted(good, key=lambda reading: exact(reading.value) if reading.field == HELD else "")
    chosen = {reading.field: reading for reading in by_embargo}
    for reading in verdict.readings:
        if reading.fault:
            yield reading.field, f"not used: {reading.fault}", reading.expression
        elif chosen.get(reading.field) is reading:
            value = _plain(reading.value)
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
            yield reading.field, clean(text, 120), reading.expression
