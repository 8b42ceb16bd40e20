"""The engine: a delivery and a mapping in, verdicts out. Pure."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from stoppress.cms import values
from stoppress.cms.contract import BadArticle, unknown_type
from stoppress.cms.envelopes import document_of, unpacked
from stoppress.cms.expressions import holds, names_in, root_names, search
from stoppress.cms.fields import Fields
from stoppress.cms.mapping import OF_DELIVERIES, OF_TYPES, REMOVALS, Action, MappingFile
from stoppress.cms.verdicts import HELD, NOWHERE, Verdict
from stoppress.model.event import CLOCK_SKEW_MAX
from stoppress.model.http_request import Request
from stoppress.model.site import Site
from stoppress.primitives.instants import exact, parse
from stoppress.primitives.text import clean
from stoppress.primitives.urls import host_of

# Items of one delivery that are looked at: an item takes a millisecond or two, and a sender waits for two seconds.
ITEMS_MAX = 200


def read_delivery(
    mapping: MappingFile, request: Request, settings: Mapping[str, Any], site: Site | None, now: datetime
) -> list[Verdict]:
    """What a delivery says, one verdict an item. Raises BadDelivery for a body that cannot be read at all."""
    body = document_of(request, mapping.envelope)
    if not mapping.strict:
        body = unpacked(body)
    used = _settings(mapping, settings, site)
    root: dict[str, Any] = {
        "body": body,
        "headers": {name.lower().replace("-", "_"): value for name, value in request.headers.items()},
        "query": request.query_parameters(),
        "settings": used,
        "types": next((said[name] for said in (settings, used) for name in OF_TYPES if said.get(name)), None),
        "item": None,
    }
    zone = _zone(used.get("timezone"))
    if not isinstance(body, list) or mapping.whole_lists:
        return _read_one(mapping, root, zone, now, ITEMS_MAX)
    if not body:
        return [Verdict(disposition="ignore", reason=mapping.without_items, item=body)]
    verdicts: list[Verdict] = []
    for number, one in enumerate(body):
        if len(verdicts) >= ITEMS_MAX:
            return [*verdicts, _left_over(body[number:])]
        verdicts += _read_one(mapping, root | {"body": one}, zone, now, ITEMS_MAX - len(verdicts))
    return verdicts


def _read_one(
    mapping: MappingFile, root: Mapping[str, Any], zone: ZoneInfo | None, now: datetime, items_max: int
) -> list[Verdict]:
    """What one delivery says, of whose items so many are looked at; a relay may have put several into a list."""
    body = root["body"]
    if mapping.items is None:
        items = body if mapping.envelope == "cloudevents" and isinstance(body, list) else [None]
    else:
        known, faults = _variables(mapping, root, {})
        found, fault = search(mapping.items, {**root, **known})
        fault = fault or _inherited(mapping.items, faults)
        items = found if isinstance(found, list) else [found] if found else []
        if fault:
            return [Verdict(disposition="incomplete", reason=f"its items cannot be found: {fault}", item=body)]
    if not items:
        return [Verdict(disposition="ignore", reason=mapping.without_items, item=body)]
    common = _common(mapping, root) if len(items) > 1 else {}
    verdicts = [_verdict(mapping, {**root, "item": item}, common, zone, now) for item in items[:items_max]]
    return verdicts if len(items) <= items_max else [*verdicts, _left_over(items[items_max:])]


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


def _variables(
    mapping: MappingFile, root: Mapping[str, Any], common: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """The variables, and why some of them failed. Each sees those above it; one that fails is null.

    Those in `common` are known already; none of them has failed.
    """
    known: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for name, expression in mapping.variables.items():
        if name in common:
            known[name] = common[name]
            continue
        known[name], fault = search(expression, {**root, **known})
        if fault or (fault := _inherited(expression, faults)):
            faults[name] = fault
    return known, faults


def _inherited(expression: str, faults: Mapping[str, str]) -> str:
    """Why one of the variables failed that an expression reads; empty where none did."""
    return next((faults[name] for name in root_names(expression) & faults.keys()), "")


def _common(mapping: MappingFile, root: Mapping[str, Any]) -> dict[str, Any]:
    """The variables that are the same for all items of a delivery, so that a long list is gone through once."""
    of_item = {"item"}
    for name, expression in mapping.variables.items():
        if of_item & names_in(expression):
            of_item.add(name)
    known, faults = _variables(mapping, root, {})
    return {name: value for name, value in known.items() if name not in of_item and name not in faults}


def _verdict(
    mapping: MappingFile, root: Mapping[str, Any], common: Mapping[str, Any], zone: ZoneInfo | None, now: datetime
) -> Verdict:
    known, faults = _variables(mapping, root, common)
    root = {**root, **known}
    item = root["body"] if root["item"] is None else root["item"]
    unjudged = ""
    for when in mapping.when:
        held, fault = search(when.condition, root)
        if fault := fault or _inherited(when.condition, faults):
            unjudged = unjudged or f'when: the filter "{when.ignore}" cannot be judged: {fault}'
        elif holds(held):
            return Verdict(disposition="ignore", reason=when.ignore, item=item)
    if unjudged:  # what a filter might have kept out does not come in because the filter failed
        return Verdict(disposition="incomplete", missing=("when",), reason=clean(unjudged, 500), item=item)
    said, fault = search(mapping.action.source, root)
    if fault := fault or _inherited(mapping.action.source, faults):
        return Verdict(disposition="incomplete", missing=("action",), reason=f"action: {fault}", item=item)
    if mapping.strict and not isinstance(said, str):
        return Verdict(disposition="incomplete", missing=("type",), reason="type: is missing, or no text", item=item)
    action = _action(mapping, said)
    if action is None and mapping.strict and isinstance(error := unknown_type(said), BadArticle):
        return Verdict(disposition="incomplete", missing=("type",), reason=str(error), item=item)
    if action is None:
        what = clean(said, 100) if isinstance(said, str) and said else "what it says"
        return Verdict(disposition="ignore", reason=f"{what} {mapping.action.otherwise}", item=item)
    base = search(mapping.base, root)[0]
    where = values.Where(base if isinstance(base, str) else None, zone)
    return _judged(mapping, action, Fields(mapping, root, where, now, action), item, now)


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


def _judged(mapping: MappingFile, action: Action, fields: Fields, item: Any, now: datetime) -> Verdict:
    data = dict(fields.data)
    delivery = {name: data.pop(name, None) for name in OF_DELIVERIES}
    page = bool(delivery["page"])
    missing = _missing(mapping, action, fields, page=page)
    hold_until = None if action in REMOVALS else _hold_until(delivery[HELD], data.get("published_at"), now)
    verdict = Verdict(
        disposition="incomplete" if missing else "hold" if hold_until else "apply",
        action=action,
        reason=_reason(fields, missing, hold_until),
        missing=missing,
        dropped=_dropped(fields, missing),
        data=data,
        timestamp=_sender_time(delivery["timestamp"], data),
        hold_until=hold_until,
        embargo=parse(delivery[HELD]) if delivery[HELD] and action not in REMOVALS else None,
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


def _missing(mapping: MappingFile, action: Action, fields: Fields, *, page: bool) -> tuple[str, ...]:
    """The fields without which nothing can be made of an item."""
    needed = ("id",) if action in REMOVALS else ("id", "url") if page else mapping.required
    missing = [name for name in needed if name not in fields.data]
    if HELD in fields.faults:
        missing.append(HELD)
    if mapping.strict:
        missing += [name for name in fields.faults if name not in {*fields.data, *missing}]
    return tuple(missing)


def _hold_until(held: str | None, published: str | None, now: datetime) -> datetime | None:
    """The hour before which nothing may be listed; None where it is over, or there is none."""
    embargo, date = (parse(hour) if hour else now for hour in (held, published))
    hour = max(embargo, date)
    return hour if embargo > now or date > now + CLOCK_SKEW_MAX else None


def _reason(fields: Fields, missing: tuple[str, ...], hold_until: datetime | None) -> str:
    if not missing:
        return f"to be published at {exact(hold_until)}" if hold_until else ""
    with_fault = [f"{name}: {fields.faults[name]}" for name in missing if name in fields.faults]
    return "; ".join(with_fault + [f"{name}: is missing" for name in missing if name not in fields.faults])


def _dropped(fields: Fields, missing: tuple[str, ...]) -> tuple[str, ...]:
    """What could not be read and is not needed, with the reason."""
    said = {name for name in fields.data if name not in OF_DELIVERIES} - fields.misread
    # Of a delivery that cannot be applied it is enough to say what would have to be there.
    untold = {*said, *missing, *(OF_DELIVERIES if missing else ())}
    return tuple(f"{name}: {fault}" for name, fault in fields.faults.items() if name not in untold)


def _incomplete(verdict: Verdict, place: str, reason: str) -> Verdict:
    return replace(verdict, disposition="incomplete", missing=(place,), reason=clean(reason, 500), hold_until=None)


def _sender_time(timestamp: str | None, data: Mapping[str, Any]) -> datetime | None:
    """When the sender says that it happened, as given; a version that is an instant says it too."""
    for instant in (timestamp, data.get("version")):
        if isinstance(instant, str) and not instant.isdigit():
            return parse(instant)
    return None


def _host(fields: Fields) -> str | None:
    base = fields.where.base
    if not base or "site" not in fields.data:
        return None
    try:
        return host_of(str(values.read("url", base, values.Where())))
    except ValueError:
        return None
