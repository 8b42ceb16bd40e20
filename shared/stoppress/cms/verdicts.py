"""What a delivery comes to: a verdict for each of its items, and how each field came about."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any, Literal, TypeAlias

from stoppress.cms.contract import read_article, read_field
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
# Fields of the event that say where it came from, and nothing of the article.
_OF_THE_EVENT = ("site", "source", "action", "verb", "heard_at", "delivery")
# What quarantine keeps of an item that was incomplete.
ITEM_CHARACTERS_MAX = 20_000
# No page can be judged by its host where no site is given.
NOWHERE = Site(host="stoppress.invalid", publication="none")
# All that it is said by counts, the latest of it: what must not be read yet is not listed because one of them cannot be read.
HELD = "hold_until"


@dataclass(frozen=True, slots=True)
class Reading:
    """How a field came about: the expression, what it gave, and what was made of that or why nothing was."""

    field: str
    expression: str
    found: Any
    value: Any = None
    fault: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What one item of a delivery comes to. `data` is in our own contract's names; `missing` are fields that are needed.

    `embargo` is the hour before which nobody could read it, past or not; `hold_until` the one it is held for.
    `site` is the CMS's own name of the site, `host` that site's, where the settings have one for it.
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
        """The article event of a verdict that applies or holds. Raises BadArticle where the site cannot have it."""
        data = dict(self.data)
        if hour := self.hold_until or self.embargo:
            # Nobody could read it before that hour: it was published then, and not before.
            data["published_at"] = max(exact(hour), data.get("published_at", ""))
        verb = _VERBS[self.action or "publish"]
        # A mapping says itself when an article was updated: our own contract's default is not for it.
        kind = f"{'page' if self.page else 'article'}.{'published' if verb == 'updated' else verb}"
        return replace(read_article(kind, data, site, source, self.timestamp, now)[0], verb=verb)

    def shown(self, now: datetime, site: Site | None = None) -> dict[str, Any]:
        """The verdict as JSON has it, its fields cleaned as they would be kept."""
        said: dict[str, Any] = {"disposition": self.disposition, "action": self.action}
        said |= {"missing": list(self.missing), "reason": self.reason or None, "dropped": list(self.dropped)}
        if self.disposition in ("apply", "hold"):
            said |= {"url": None} | ({} if self.action in REMOVALS else {"noindex": False})
            said |= _fields(self, site or NOWHERE, now, said)
        else:
            said |= {name: _plain(name, value) for name, value in self.data.items()}
        extra = {"hold_until": self.hold_until and exact(self.hold_until), "site": self.site}
        return said | {name: value for name, value in extra.items() if value}

    def kept(self) -> str:
        """The item itself, as far as quarantine keeps it."""
        try:
            return json.dumps(self.item, default=str)[:ITEM_CHARACTERS_MAX]
        except (RecursionError, ValueError):  # nested too deeply
            return ""


def _fields(verdict: Verdict, site: Site, now: datetime, said: dict[str, Any]) -> dict[str, Any]:
    event = replace(verdict, hold_until=None, embargo=None).event(site, "source", now)
    plain = json.loads(to_message(event, in_ascii=False))
    said["dropped"] += plain.pop("dropped", [])
    return {name: value for name, value in plain.items() if name not in _OF_THE_EVENT}


def _plain(name: str, value: object) -> object:
    try:
        cleaned = read_field(name, value)
    except ValueError:
        return value
    if isinstance(cleaned, datetime):
        return exact(cleaned)
    return list(cleaned) if isinstance(cleaned, tuple) else cleaned


def told(verdict: Verdict) -> Iterator[tuple[str, str, str]]:
    """Field by field where each value came from: the field, its value or its fault, the expression."""
    good = [reading for reading in verdict.readings if reading.value is not None]
    # Of each field the last one; of what it is held until the latest hour.
    chosen = {
        reading.field: reading for reading in sorted(good, key=lambda one: one.value if one.field == HELD else "")
    }
    for reading in verdict.readings:
        if reading.fault:
            yield reading.field, f"not used: {reading.fault}", reading.expression
        elif chosen.get(reading.field) is reading:
            yield reading.field, shortly_value(reading.value), reading.expression


def shortly_value(value: object) -> str:
    """A value as a line of a terminal has it."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return clean(text, 120)
