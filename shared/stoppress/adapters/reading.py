"""The engine: a delivery and a mapping in, verdicts out. Pure; each field is read by itself, so that a bad one costs only itself."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import cache
from typing import Any, Literal, TypeAlias
from zoneinfo import ZoneInfo

import jmespath

from stoppress.adapters import Received, values
from stoppress.adapters.envelopes import document_of, unpacked
from stoppress.adapters.functions import OPTIONS
from stoppress.adapters.mapping import OF_ARTICLES, OF_DELIVERIES, OF_REMOVALS, REMOVALS, Action, MappingFile
from stoppress.article import CLOCK_SKEW_MAX, ArticleEvent, to_message
from stoppress.contract import BadArticle, read_article, read_field
from stoppress.instants import exact, parse
from stoppress.media.values import shown as shortly
from stoppress.site import Site
from stoppress.text import clean
from stoppress.urls import host_of

Disposition: TypeAlias = Literal["apply", "hold", "ignore", "incomplete"]

# What the kinds of content that are articles are called: each CMS has its own word.
OF_TYPES = ("types", "content_types", "models")
# Items of one delivery that are looked at: an item takes a millisecond or two, and a sender waits for two seconds.
ITEMS_MAX = 200
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
    site: str | None = None
    host: str | None = None
    page: bool = False
    item: Any = None
    readings: tuple[Reading, ...] = ()

    def event(self, site: Site, source: str, now: datetime) -> ArticleEvent:
        """The article event of a verdict that applies or holds. Raises BadArticle where the site cannot have it."""
        data = dict(self.data)
        if self.hold_until:
            # Nobody can read it before that hour: it is then that it is published.
            data["published_at"] = max(exact(self.hold_until), data.get("published_at", ""))
        kind = f"{'page' if self.page else 'article'}.{'deleted' if self.action in REMOVALS else 'published'}"
        return read_article(kind, data, site, source, self.timestamp, now)[0]

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
    event = replace(verdict, hold_until=None).event(site, "source", now)
    plain = json.loads(to_message(event, in_ascii=False))
    said["dropped"] += plain.pop("dropped", [])
    return {name: value for name, value in plain.items() if name not in ("site", "source", "action")}


def _plain(name: str, value: object) -> object:
    try:
        cleaned = read_field(name, value)
    except ValueError:
        return value
    if isinstance(cleaned, datetime):
        return exact(cleaned)
    return list(cleaned) if isinstance(cleaned, tuple) else cleaned


def read_delivery(
    mapping: MappingFile, received: Received, settings: Mapping[str, Any], site: Site | None, now: datetime
) -> list[Verdict]:
    """What a delivery says, one verdict an item. Raises BadDelivery for a body that cannot be read at all."""
    body = document_of(received, mapping.envelope)
    if not mapping.strict:
        body = unpacked(body)
    used = _settings(mapping, settings, site)
    root: dict[str, Any] = {
        "body": body,
        "headers": {name.lower().replace("-", "_"): value for name, value in received.headers.items()},
        "query": dict(received.query),
        "settings": used,
        "types": next((said[name] for said in (settings, used) for name in OF_TYPES if said.get(name)), None),
        "item": None,
    }
    zone = _zone(used.get("timezone"))
    if not isinstance(body, list) or mapping.whole_lists:
        return _read_one(mapping, root, zone, now)
    if not body:
        return [Verdict(disposition="ignore", reason=mapping.without_items, item=body)]
    verdicts: list[Verdict] = []
    for number, one in enumerate(body):
        if len(verdicts) >= ITEMS_MAX:
            return [*verdicts, _left_over(body[number:])]
        verdicts += _read_one(mapping, root | {"body": one}, zone, now)
    return verdicts


def _read_one(mapping: MappingFile, root: Mapping[str, Any], zone: ZoneInfo | None, now: datetime) -> list[Verdict]:
    """What one delivery says; a relay may have put several into a list."""
    body = root["body"]
    if mapping.items is None:
        items = body if mapping.envelope == "cloudevents" and isinstance(body, list) else [None]
    else:
        found, fault = _search(mapping.items, {**root, **_variables(mapping, root, {})})
        items = found if isinstance(found, list) else [found] if found else []
        if fault:
            return [Verdict(disposition="incomplete", reason=f"its items cannot be found: {fault}", item=body)]
    if not items:
        return [Verdict(disposition="ignore", reason=mapping.without_items, item=body)]
    common = _common(mapping, root) if len(items) > 1 else {}
    verdicts = [_verdict(mapping, {**root, "item": item}, common, zone, now) for item in items[:ITEMS_MAX]]
    return verdicts if len(items) <= ITEMS_MAX else [*verdicts, _left_over(items[ITEMS_MAX:])]


def _left_over(items: list[Any]) -> Verdict:
    reason = f"a delivery takes {ITEMS_MAX} items; the last {len(items):,} were not looked at"
    return Verdict(disposition="incomplete", reason=reason, item=items)


def _settings(mapping: MappingFile, settings: Mapping[str, Any], site: Site | None) -> dict[str, Any]:
    """The source's settings; what they leave out is the mapping's default, then the site's own."""
    of_site = {"base_url": site.home, "timezone": site.timezone} if site else {}
    if settings.get("site_urls"):
        of_site.pop("base_url", None)
    given = {name: value for name, value in settings.items() if value is not None}
    return {name: value for name, value in of_site.items() if name in mapping.settings} | mapping.defaults | given


def _zone(name: object) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if isinstance(name, str) and name else None
    except (LookupError, ValueError, OSError):
        return None


def _variables(mapping: MappingFile, root: Mapping[str, Any], common: Mapping[str, Any]) -> dict[str, Any]:
    """Each variable sees those above it; one that cannot be had is null. Those in `common` are known already."""
    known: dict[str, Any] = {}
    for name, expression in mapping.variables.items():
        known[name] = common[name] if name in common else _search(expression, {**root, **known})[0]
    return known


def _common(mapping: MappingFile, root: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that are the same for all items of a delivery, so that a long list is gone through once."""
    of_item = {"item"}
    for name, expression in mapping.variables.items():
        if of_item & _names_in(expression):
            of_item.add(name)
    return {name: value for name, value in _variables(mapping, root, {}).items() if name not in of_item}


def _verdict(
    mapping: MappingFile, root: Mapping[str, Any], common: Mapping[str, Any], zone: ZoneInfo | None, now: datetime
) -> Verdict:
    root = {**root, **_variables(mapping, root, common)}
    item = root["body"] if root["item"] is None else root["item"]
    for when in mapping.when:
        if _holds(_search(when.condition, root)[0]):
            return Verdict(disposition="ignore", reason=when.ignore, item=item)
    said, fault = _search(mapping.action.source, root)
    if fault:
        return Verdict(disposition="incomplete", missing=("action",), reason=f"action: {fault}", item=item)
    if mapping.strict and not isinstance(said, str):
        return Verdict(disposition="incomplete", missing=("type",), reason="type: is missing, or no text", item=item)
    action = _action(mapping, said)
    if action is None:
        what = clean(said, 100) if isinstance(said, str) and said else "what it says"
        return Verdict(disposition="ignore", reason=f"{what} {mapping.action.otherwise}", item=item)
    base = _search(mapping.base, root)[0]
    where = values.Where(base if isinstance(base, str) else None, zone)
    return _judged(mapping, action, _Fields(mapping, root, where, now, action), item, now)


def _action(mapping: MappingFile, said: object) -> Action | None:
    if not isinstance(said, str):
        return None
    if said in mapping.action.map:
        return mapping.action.map[said]
    fitting = [end for end in mapping.action.map if _ends_in(said, end)] if mapping.action.suffix else []
    return mapping.action.map[max(fitting, key=len)] if fitting else None


def _ends_in(said: str, end: str) -> bool:
    """Whether a longer text ends in it as a word of its own: `history deleted` is no `story deleted`."""
    if not end or not said.endswith(end):
        return False
    before, first = said[-len(end) - 1], end[0]
    return not (before.isalnum() and first.isalnum()) or (before.islower() and first.isupper())


def _holds(value: object) -> bool:
    """JMESPath's own idea of what is true: 0 is, an empty text is not."""
    return not (value is None or value is False or value in ("", [], {}))


class _Fields:
    """The fields of one item that could be read, and what is to be said of the others."""

    def __init__(
        self, mapping: MappingFile, root: Mapping[str, Any], where: values.Where, now: datetime, action: Action
    ) -> None:
        self.readings: list[Reading] = []
        self.data: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        # Those of a text or a number, of which it is told even where another expression gave something good. A CMS that has
        # an object there has another expression for it.
        self.misread: set[str] = set()
        self._mapping, self._root, self._where, self._now = mapping, root, where, now
        wanted = OF_REMOVALS if action in REMOVALS else OF_ARTICLES + OF_DELIVERIES
        for name in wanted:
            for expression in mapping.expressions(name):
                if self._read(name, expression):
                    break

    def _read(self, name: str, expression: str) -> bool:
        """Whether no other expression is to be looked at."""
        found, fault = _search(expression, self._root)
        if not fault and (values.is_absent(name, found) or values.is_no_date(name, found)):
            self.readings.append(Reading(name, expression, found))
            return False
        value: Any = None
        final = False
        if not fault:
            try:
                value = self._good(name, found)
            except values.NoZone as error:
                # Another date in its place would hide that a setting is missing.
                fault, final = str(error), name in self._mapping.required
            except ValueError as error:
                fault = str(error)
            except (TypeError, OverflowError, RecursionError) as error:  # a value that nobody has thought of
                fault = f"{shortly(found)} cannot be read: {type(error).__name__}"
        self.readings.append(Reading(name, expression, found, value, fault))
        if fault:
            self.faults.setdefault(name, clean(fault, 300))
            if isinstance(found, str | int | float):
                self.misread.add(name)
            return final
        if name == HELD:  # a text of one length, so that the later instant is the greater one
            self.data[name] = max(value, self.data.get(name, ""))
            return False
        self.data[name] = value
        return True

    def _good(self, name: str, found: Any) -> Any:
        # What stands under a name of our own contract is read by that alone, where a mapping is as strict as it is.
        own = self._mapping.strict and name not in self._mapping.fields
        value = found if own else values.read(name, found, self._where)
        if name in OF_ARTICLES:
            read_field(name, value)
        if (
            not self._mapping.strict
            and name in ("version", "timestamp")
            and isinstance(value, str)
            and not value.isdigit()
        ):
            instant = parse(value)
            if instant > self._now + CLOCK_SKEW_MAX:
                raise ValueError(f"{value} lies in the future: every later change would look old")
        if name == "site" and not isinstance(value, str):
            raise ValueError(f"{shortly(value)} is no text")
        return value


def _judged(mapping: MappingFile, action: Action, fields: _Fields, item: Any, now: datetime) -> Verdict:
    data = dict(fields.data)
    delivery = {name: data.pop(name, None) for name in OF_DELIVERIES}
    page = bool(delivery["page"])
    needed = ("id",) if action in REMOVALS else ("id", "url") if page else mapping.required
    missing = tuple(name for name in needed if name not in data)
    if HELD in fields.faults:
        missing += (HELD,)
    if mapping.strict:
        missing += tuple(name for name in fields.faults if name not in data and name not in missing)
    hold_until = None
    if action not in REMOVALS:
        hours = [parse(hour) for hour in (delivery[HELD], data.get("published_at")) if hour]
        hold_until = max((hour for hour in hours if hour > now + CLOCK_SKEW_MAX), default=None)
    faults = [f"{name}: {fields.faults[name]}" for name in missing if name in fields.faults]
    faults += [f"{name}: is missing" for name in missing if name not in fields.faults]
    untold = data.keys() - fields.misread
    dropped = [f"{name}: {fault}" for name, fault in fields.faults.items() if name not in {*untold, *missing}]
    verdict = Verdict(
        disposition="incomplete" if missing else "hold" if hold_until else "apply",
        action=action,
        reason="; ".join(faults) if missing else f"to be published at {exact(hold_until)}" if hold_until else "",
        missing=missing,
        dropped=tuple(fault for fault in dropped if fault.partition(":")[0] not in OF_DELIVERIES or missing == ()),
        data=data,
        timestamp=_said_at(delivery["timestamp"], data, now),
        hold_until=hold_until,
        site=delivery["site"],
        host=_host(fields),
        page=page,
        item=item,
        readings=tuple(fields.readings),
    )
    if missing:
        return verdict
    try:
        verdict.event(NOWHERE, "source", now)
    except BadArticle as error:
        place = str(error).partition(":")[0]
        return _incomplete(verdict, place, str(error))
    return verdict


def _incomplete(verdict: Verdict, place: str, reason: str) -> Verdict:
    return replace(verdict, disposition="incomplete", missing=(place,), reason=clean(reason, 500), hold_until=None)


def _said_at(timestamp: str | None, data: Mapping[str, Any], now: datetime) -> datetime | None:
    """When it was said; a CMS that does not tell says it by its version, so that arriving late makes nothing newer."""
    for said in (timestamp, data.get("version"), data.get("updated_at")):
        if isinstance(said, str) and not said.isdigit():
            return min(parse(said), now)
    return None


def _host(fields: _Fields) -> str | None:
    base = fields._where.base  # noqa: SLF001 - of this module
    if not base or "site" not in fields.data:
        return None
    try:
        return host_of(str(values.read("url", base, values.Where())))
    except ValueError:
        return None


def _search(expression: str, root: Mapping[str, Any]) -> tuple[Any, str]:
    """What an expression gives, or why it gives nothing."""
    try:
        return _compiled(expression).search(root, options=OPTIONS), ""
    except Exception as error:  # noqa: BLE001 - whatever a payload makes of an expression, the other fields go on
        return None, clean(f"{expression[:80]} gives nothing: {' '.join(str(error).split())}", 300)


@cache
def _compiled(expression: str) -> Any:
    return jmespath.compile(expression)


@cache
def _names_in(expression: str) -> frozenset[str]:
    """Every name in an expression, of a variable or of a field; `item` too where it may be meant without being named."""
    names, nodes = set(), [_compiled(expression).parsed]
    while nodes:
        node = nodes.pop()
        if node["type"] == "field":
            names.add(node["value"])
        elif node["type"] in ("current", "value_projection"):
            names.add("item")
        nodes += [child for child in node["children"] if isinstance(child, dict)]
    return frozenset(names)


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
