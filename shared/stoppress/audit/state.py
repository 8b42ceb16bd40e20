"""The state of a source's audits, in the table under `audit#<site>`, one item for each source."""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws.items import Item
from stoppress.primitives.instants import exact, parse

# `stoppress status` shows the webhooks that were lost in a day.
HOURS_KEPT = timedelta(hours=24)
# How many URLs missing in the list the state keeps until the next audit. A list that lacks more is probably faulty.
UNLISTED_MAX = 200


@dataclass(frozen=True, slots=True)
class AuditState:
    """The last audit of a source.

    `until` is the end of the last period that was listed completely. `tried_at` is the last attempt, `failed` why it failed.
    With `cursor` the listing of the period from `since` until `open_until` is unfinished. `listed` counts the articles of the
    last complete listing. `missed` has the number of lost webhooks by hour, `problems` the listing's first problems.

    `unlisted` are URLs of the news sitemap that the list lacked, `confirmed` those that two audits in a row did not find. `removed`
    are names of articles that audits removed. `silent` is the number of stories that came by feed while no webhook came.
    """

    until: datetime | None = None
    tried_at: datetime | None = None
    failed: str = ""
    cursor: str = ""
    since: datetime | None = None
    open_until: datetime | None = None
    listed: int = 0
    missed: Mapping[str, int] = field(default_factory=dict)
    problems: tuple[str, ...] = ()
    unlisted: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    silent: int = 0

    @property
    def missed_in_a_day(self) -> int:
        """How many lost webhooks the last audit counted in 24 hours."""
        return sum(self.missed.values())


_INSTANTS = ("until", "tried_at", "since", "open_until")


def audit_pk(site: str) -> str:
    return f"audit#{site}"


def audit_key(site: str, source: str) -> tuple[str, str]:
    return audit_pk(site), source


def state_item(site: str, source: str, state: AuditState) -> Item:
    """The item of a state; empty values are left out."""
    pk, sk = audit_key(site, source)
    values = {each.name: getattr(state, each.name) for each in fields(state)}
    plain = {
        name: exact(value) if isinstance(value, datetime) else list(value) if isinstance(value, tuple) else value
        for name, value in values.items()
        if value
    }
    return {"pk": pk, "sk": sk, **plain}


def read_state(item: Mapping[str, Any] | None) -> AuditState:
    """The state in an item; without one, that of a source that was never audited."""
    known = {each.name for each in fields(AuditState)}
    values = {name: value for name, value in (item or {}).items() if name in known}
    for name, value in values.items():
        if name in _INSTANTS:
            values[name] = parse(value)
        elif isinstance(value, list):
            values[name] = tuple(value)
    values["missed"] = {hour: int(number) for hour, number in values.get("missed", {}).items()}
    return AuditState(**values | {name: int(values.get(name, 0)) for name in ("listed", "silent")})


def with_missed(missed: Mapping[str, int], number: int, now: datetime) -> dict[str, int]:
    """The counts of lost webhooks by hour with `number` more, without those older than a day."""
    hours = {hour: count for hour, count in missed.items() if parse(hour) > now - HOURS_KEPT}
    hour = exact(now.replace(minute=0, second=0, microsecond=0))
    return hours | ({hour: hours.get(hour, 0) + number} if number else {})
