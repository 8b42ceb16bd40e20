"""How often Search Console was asked about pages, in the table under `notified#<property>`: sites may share a property."""

from datetime import datetime, timedelta

from stoppress.aws import table
from stoppress.notify.search_console import INSPECTIONS_A_DAY, INSPECTIONS_A_MINUTE
from stoppress.notify.state import notified_pk
from stoppress.notify.store import ATTEMPTS_MAX
from stoppress.primitives.instants import epoch_seconds

KEPT = timedelta(days=2)


def takes_one(property_: str, now: datetime) -> bool:
    """Count an inspection before it is made. False: the quota is used up."""
    for attempt in range(ATTEMPTS_MAX):
        day, in_minute, rev = _read(property_, now)
        if day >= INSPECTIONS_A_DAY or in_minute >= INSPECTIONS_A_MINUTE:
            return False
        pk, sk = _key(property_, now)
        counts = {"day": day + 1, "minute": f"{now:%H:%M}", "in_minute": in_minute + 1}
        try:
            table.put({"pk": pk, "sk": sk, "ttl": epoch_seconds(now + KEPT), **counts}, rev)
        except table.Conflict:
            table.back_off(attempt + 1)
            continue
        return True
    return False


def used(property_: str, now: datetime) -> int:
    """The inspections of the day, in UTC."""
    return _read(property_, now)[0]


def _read(property_: str, now: datetime) -> tuple[int, int, int | None]:
    """The inspections of the day and of the minute, and the revision of their item."""
    item = table.get(*_key(property_, now)) or {}
    in_minute = int(item["in_minute"]) if item.get("minute") == f"{now:%H:%M}" else 0
    return int(item.get("day", 0)), in_minute, int(item["rev"]) if item else None


def _key(property_: str, now: datetime) -> tuple[str, str]:
    return notified_pk(property_), f"quota#{now:%Y-%m-%d}"
