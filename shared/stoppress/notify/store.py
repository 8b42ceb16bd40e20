"""The table's part of notifications: pages' states, what each engine answered last, and how many inspections were made."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime, timedelta

from stoppress.aws import sites, table
from stoppress.model.site import Site
from stoppress.notify.indexnow import Meaning
from stoppress.notify.page_state import PageState, notified_pk, page_item, page_key, read_page
from stoppress.primitives.instants import epoch_seconds, exact, parse

# An engine that rejects notifications for this long needs somebody's attention.
PATIENCE = timedelta(hours=1)
ATTEMPTS_MAX = 10
# developers.google.com/webmaster-tools/limits: inspections of one property in a day. The limit of a minute is its answer 429.
INSPECTIONS_A_DAY = 2_000
QUOTA_KEPT = timedelta(days=2)


def notified_site(host: str) -> Site | None:
    """The site, if engines are notified of its pages."""
    try:
        site = sites.load(host)
    except sites.UnknownSite:
        return None
    return site if site.engines else None


def write_page(host: str, state: PageState) -> PageState | None:
    """Write a state over the one that was read. None: another run was faster."""
    try:
        table.put(page_item(host, state), state.rev)
    except table.Conflict:
        return None
    return replace(state, rev=(state.rev or 0) + 1)


def update_page(host: str, url: str, change: Callable[[PageState | None], PageState | None]) -> None:
    """Change a page's state, however many others write it. None: the state stays. Raises Conflict after ATTEMPTS_MAX."""
    for attempt in range(ATTEMPTS_MAX):
        item = table.get(*page_key(host, url))
        new = change(read_page(item) if item else None)
        if new is None or write_page(host, new):
            return
        table.back_off(attempt + 1)
    raise table.Conflict(f"{url}: other runs were faster in all {ATTEMPTS_MAX} attempts")


def paused_seconds(engine: Mapping[str, str], now: datetime) -> int:
    """The seconds until an engine that refused may be asked again; 0: now."""
    return max(0, int((parse(engine["until"]) - now).total_seconds())) if "until" in engine else 0


def note_answer(host: str, name: str, engine: Mapping[str, str], answer: Meaning, now: datetime) -> str | None:
    """Note an engine's refusal for `stoppress status`, and until when it is left alone; or that it takes requests again.

    `name` is the sort key of the engine's item, `engine` the item that was read. Returns the reason if somebody must look at it.
    """
    key = {"pk": notified_pk(host), "sk": name, "at": exact(now)}
    if answer.result == "accepted":
        if engine.get("reason"):
            table.put_if(key)
        return None
    since = engine["since"] if engine.get("reason") else exact(now)
    until = now + timedelta(seconds=answer.after_seconds)
    table.put_if(
        key | {"since": since, "reason": answer.reason[:500]} | ({"until": exact(until)} if answer.is_certain else {})
    )
    return answer.reason if answer.result == "wrong" or parse(since) + PATIENCE <= now else None


def count_inspection(property_: str, now: datetime) -> bool:
    """Count an inspection before it is made. False: the day's quota is used up."""
    pk, sk = _quota_key(property_, now)
    for attempt in range(ATTEMPTS_MAX):
        item = table.get(pk, sk) or {}
        count = int(item.get("day", 0))
        if count >= INSPECTIONS_A_DAY:
            return False
        ttl = epoch_seconds(now + QUOTA_KEPT)
        try:
            table.put({"pk": pk, "sk": sk, "ttl": ttl, "day": count + 1}, int(item["rev"]) if item else None)
        except table.Conflict:
            table.back_off(attempt + 1)
            continue
        return True
    return False


def read_inspections(property_: str, now: datetime) -> int:
    """Return the inspections of the day, in UTC."""
    return int((table.get(*_quota_key(property_, now)) or {}).get("day", 0))


def _quota_key(property_: str, now: datetime) -> tuple[str, str]:
    return notified_pk(property_), f"quota#{now:%Y-%m-%d}"
