"""Read a CMS's delivery by its mapping, with a verdict for each item."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import replace
from datetime import datetime
from typing import Any
from zoneinfo import ZoneInfo

from stoppress.cms import values
from stoppress.cms.contract import BadArticle, unknown_type
from stoppress.cms.expressions import holds, names_in, search
from stoppress.cms.mapping import OF_DELIVERIES, OF_TYPES, REMOVALS, Action, MappingFile
from stoppress.cms.values import Fields
from stoppress.cms.verdicts import HELD, NOWHERE, Verdict
from stoppress.model.event import CLOCK_SKEW_MAX
from stoppress.model.http_request import Request, check_container, document_of
from stoppress.model.site import Site
from stoppress.primitives.instants import exact
from stoppress.primitives.text import clean
from stoppress.primitives.urls import canonical, host_of

# How many items of a delivery are read. An item takes 1 to 2 ms, and a sender waits two seconds.
ITEMS_MAX = 200


def read_delivery(
    mapping: MappingFile, request: Request, settings: Mapping[str, Any], site: Site | None, now: datetime
) -> list[Verdict]:
    """Return one verdict for each item of a delivery. Raises BadDelivery for a body that cannot be read at all."""
    body = document_of(request, mapping.envelope)
    if not mapping.strict:
        check_container(body)
    root: dict[str, Any] = {
        "body": body,
        "headers": {name.lower().replace("-", "_"): value for name, value in request.headers.items()},
        "query": request.query_parameters(),
        "item": None,
        **settings_of(mapping, settings, site),
    }
    deliveries = body if isinstance(body, list) and not mapping.whole_lists else [body]
    verdicts: list[Verdict] = []
    for number, element in enumerate(deliveries):
        if len(verdicts) >= ITEMS_MAX:
            return [*verdicts, _reject_rest(deliveries[number:])]
        verdicts += _read_body(mapping, root | {"body": element}, now, ITEMS_MAX - len(verdicts))
    return verdicts or [Verdict(disposition="ignore", reason=mapping.without_items, item=body)]


def _read_body(mapping: MappingFile, root: Mapping[str, Any], now: datetime, items_max: int) -> list[Verdict]:
    """Return the verdicts of one delivery's first `items_max` items. A relay may have put several deliveries into a list."""
    body = root["body"]
    items, fault = _items(mapping, root)
    if fault:
        return [Verdict(disposition="incomplete", reason=f"its items cannot be found: {fault}", item=body)]
    if not items:
        return [Verdict(disposition="ignore", reason=mapping.without_items, item=body)]
    common = _common(mapping, root) if len(items) > 1 else {}
    verdicts = [_verdict(mapping, {**root, "item": item}, common, now) for item in items[:items_max]]
    return verdicts if len(items) <= items_max else [*verdicts, _reject_rest(items[items_max:])]


def _items(mapping: MappingFile, root: Mapping[str, Any]) -> tuple[list[Any], str]:
    """Return the items of a delivery, or the reason why they cannot be found. `[None]`: the whole body is the item."""
    body = root["body"]
    if mapping.items is None:
        return (body if mapping.envelope == "cloudevents" and isinstance(body, list) else [None]), ""
    variables, faults = _variables(mapping, root, {})
    items, fault = search(mapping.items, {**root, **variables}, faults)
    return (items if isinstance(items, list) else [items] if items else []), fault


def _reject_rest(items: list[Any]) -> Verdict:
    reason = f"a delivery takes {ITEMS_MAX} items; the last {len(items):,} were not looked at"
    return Verdict(disposition="incomplete", reason=reason, item=items)


def settings_of(mapping: MappingFile, source_settings: Mapping[str, Any], site: Site | None) -> dict[str, Any]:
    """Return the names that expressions see: `settings`, of a source, and `types`, the article types.

    The settings are completed by the mapping's defaults, then by the site's own URL and time zone.
    """
    of_site = {"base_url": site.home, "timezone": site.timezone} if site else {}
    if source_settings.get("site_urls"):
        of_site.pop("base_url", None)
    settings = {name: value for name, value in of_site.items() if name in mapping.settings} | mapping.defaults
    settings |= {name: value for name, value in source_settings.items() if value is not None}
    types = next((part[name] for part in (source_settings, settings) for name in OF_TYPES if part.get(name)), None)
    return {"settings": settings, "types": types}


def _zone(name: object) -> ZoneInfo | None:
    try:
        return ZoneInfo(name) if isinstance(name, str) and name else None
    except (LookupError, ValueError, OSError):
        return None


def _variables(
    mapping: MappingFile, root: Mapping[str, Any], common: Mapping[str, Any]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of the mapping's variables, and the faults of those that failed, which are null.

    Each variable sees those above it. `common` has values that were evaluated before.
    """
    variables: dict[str, Any] = {}
    faults: dict[str, str] = {}
    for name, expression in mapping.variables.items():
        if name in common:
            variables[name] = common[name]
            continue
        variables[name], fault = search(expression, {**root, **variables}, faults)
        if fault:
            faults[name] = fault
    return variables, faults


def _common(mapping: MappingFile, root: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables that are the same for all items of a delivery, evaluated once."""
    of_item = {"item"}
    for name, expression in mapping.variables.items():
        if of_item & names_in(expression):
            of_item.add(name)
    variables, faults = _variables(mapping, root, {})
    return {name: value for name, value in variables.items() if name not in of_item and name not in faults}


def _verdict(mapping: MappingFile, root: Mapping[str, Any], common: Mapping[str, Any], now: datetime) -> Verdict:
    variables, faults = _variables(mapping, root, common)
    root = {**root, **variables}
    item = root["body"] if root["item"] is None else root["item"]
    action = _apply_filter(mapping, root, faults, item) or _action(mapping, root, faults, item)
    if isinstance(action, Verdict):
        return action
    base = search(mapping.base, root)[0]
    zone = _zone(root["settings"].get("timezone"))
    context = values.Context(base if isinstance(base, str) else None, zone, mapping.html)
    return _judge(mapping, action, Fields(mapping, root, faults, context, now, action), item, now)


def _apply_filter(
    mapping: MappingFile, root: Mapping[str, Any], faults: Mapping[str, str], item: Any
) -> Verdict | None:
    """Return the verdict of a filter that applies or fails, else None."""
    failed = ""
    for when in mapping.when:
        result, fault = search(when.condition, root, faults)
        if fault:
            failed = failed or f'when: the filter "{when.ignore}" cannot be judged: {fault}'
        elif holds(result):
            return Verdict(disposition="ignore", reason=when.ignore, item=item)
    if not failed:
        return None
    # The filter might have kept the item out, so its failure must not let the item in.
    return Verdict(disposition="incomplete", missing=("when",), reason=clean(failed, 500), item=item)


def _action(mapping: MappingFile, root: Mapping[str, Any], faults: Mapping[str, str], item: Any) -> Action | Verdict:
    """Return the action that an item requires, or the verdict on an item that requires none."""
    kind, fault = search(mapping.action.source, root, faults)
    if fault:
        return Verdict(disposition="incomplete", missing=("action",), reason=f"action: {fault}", item=item)
    if mapping.strict and not isinstance(kind, str):
        return Verdict(disposition="incomplete", missing=("type",), reason="type: is missing, or no text", item=item)
    if action := _meaning(mapping, kind):
        return action
    if mapping.strict and isinstance(error := unknown_type(kind), BadArticle):
        return Verdict(disposition="incomplete", missing=("type",), reason=str(error), item=item)
    what = clean(kind, 100) if isinstance(kind, str) and kind else "the delivery"
    return Verdict(disposition="ignore", reason=f"{what} {mapping.action.otherwise}", item=item)


def _meaning(mapping: MappingFile, kind: object) -> Action | None:
    """Return the mapping's action for an event's type: by the whole text, or by its longest known ending."""
    if not isinstance(kind, str):
        return None
    if kind in mapping.action.map:
        return mapping.action.map[kind]
    endings = [end for end in mapping.action.map if _ends_in(kind, end)] if mapping.action.suffix else []
    return mapping.action.map[max(endings, key=len)] if endings else None


def _ends_in(kind: str, end: str) -> bool:
    """Return True if a longer text ends with the words of another: `history deleted` does not end with `story deleted`."""
    if not end or not kind.endswith(end):
        return False
    before, first = kind[-len(end) - 1], end[0]
    return not (before.isalnum() and first.isalnum()) or (before.islower() and first.isupper())


def _judge(mapping: MappingFile, action: Action, fields: Fields, item: Any, now: datetime) -> Verdict:
    data = dict(fields.data)
    delivery = {name: data.pop(name, None) for name in OF_DELIVERIES}
    page, version = bool(delivery["page"]), data.get("version")
    missing = _missing(mapping, action, fields, page=page)
    hold_until = None if action in REMOVALS else _hold_until(delivery[HELD], data.get("published_at"), now)
    verdict = Verdict(
        disposition="incomplete" if missing else "hold" if hold_until else "apply",
        action=action,
        reason=_reason(fields, missing, hold_until),
        missing=missing,
        dropped=_dropped_fields(fields, missing),
        data=data,
        # A deletion that repeats the version of its publication has the same time. If times are equal, a removal wins.
        timestamp=delivery["timestamp"] or (version if isinstance(version, datetime) else None),
        hold_until=hold_until,
        embargo=delivery[HELD] if action not in REMOVALS else None,
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
        reason = clean(str(error), 500)
        return replace(verdict, disposition="incomplete", missing=(error.field,), reason=reason, hold_until=None)
    return verdict


def _missing(mapping: MappingFile, action: Action, fields: Fields, *, page: bool) -> tuple[str, ...]:
    """Return the fields that an item needs and that could not be read."""
    needed = ("id",) if action in REMOVALS else ("id", "url") if page else ("id", "url", "title", *mapping.required)
    missing = [name for name in dict.fromkeys(needed) if name not in fields.data]
    if HELD in fields.faults:
        missing.append(HELD)
    if mapping.strict:
        missing += [name for name in fields.faults if name not in {*fields.data, *missing}]
    return tuple(missing)


def _hold_until(held: datetime | None, published: datetime | None, now: datetime) -> datetime | None:
    """Return the instant before which the page must not be listed; None if it has passed, or if none is given."""
    embargo, date = held or now, published or now
    return max(embargo, date) if embargo > now or date > now + CLOCK_SKEW_MAX else None


def _reason(fields: Fields, missing: tuple[str, ...], hold_until: datetime | None) -> str:
    if not missing:
        return f"to be published at {exact(hold_until)}" if hold_until else ""
    with_fault = [f"{name}: {fields.faults[name]}" for name in missing if name in fields.faults]
    return "; ".join(with_fault + [f"{name}: is missing" for name in missing if name not in fields.faults])


def _dropped_fields(fields: Fields, missing: tuple[str, ...]) -> tuple[str, ...]:
    """Return the faults of fields that are not needed."""
    good = {name for name in fields.data if name not in OF_DELIVERIES} - fields.misread
    # An incomplete delivery is not applied, so the faults of the fields about the delivery do not matter.
    unmentioned = {*good, *missing, *(OF_DELIVERIES if missing else ())}
    return tuple(f"{name}: {fault}" for name, fault in fields.faults.items() if name not in unmentioned)


def _host(fields: Fields) -> str | None:
    with suppress(ValueError):
        if fields.context.base and "site" in fields.data:
            return host_of(canonical(fields.context.base.strip()))
    return None
