"""The outcome of an audit, and the state of a source's audits, in the table under `audit#<site>`, one item for each source."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from stoppress.model.event import ArticleEvent
from stoppress.primitives.instants import exact, parse

# `stoppress status` shows the webhooks that were lost in a day.
HOURS_KEPT = timedelta(hours=24)
# The most URLs that the state keeps as missing from the list until the next audit. A list that lacks more is probably faulty.
UNLISTED_MAX = 200


@dataclass(frozen=True, slots=True)
class AuditState:
    """The last audit of a source.

    `until` is the end of the last period that was listed completely. `tried_at` is the last attempt, `failed` why it failed.
    With `cursor` the listing of the period from `since` until `open_until` is unfinished. `listed` counts the articles of the
    last complete listing. `missed` has the number of lost webhooks by hour.

    `unlisted` are URLs of the news sitemap that the list lacked, `confirmed` those that two consecutive audits did not find. `silent`
    is the number of stories that feeds delivered while no webhook arrived.
    """

    until: datetime | None = None
    tried_at: datetime | None = None
    failed: str = ""
    cursor: str = ""
    since: datetime | None = None
    open_until: datetime | None = None
    listed: int = 0
    missed: Mapping[str, int] = field(default_factory=dict)
    unlisted: tuple[str, ...] = ()
    confirmed: tuple[str, ...] = ()
    silent: int = 0

    @property
    def missed_in_a_day(self) -> int:
        """Return how many lost webhooks the last audit counted in 24 hours."""
        return sum(self.missed.values())


@dataclass(frozen=True, slots=True)
class AuditOutcome:
    """The audit of a source: `result` is audited, unfinished, failed, or not reached.

    `missed` has the events that were sent to the articles queue. `unlisted` has the URLs that two consecutive audits did not find
    in the list. `newly_silent`: the source is silent, and was not before.
    """

    site: str
    source: str
    result: str
    listed: int = 0
    missed: tuple[ArticleEvent, ...] = ()
    unlisted: tuple[str, ...] = ()
    reason: str = ""
    newly_silent: bool = False


def audit_pk(site: str) -> str:
    return f"audit#{site}"


def audit_key(site: str, source: str) -> tuple[str, str]:
    return audit_pk(site), source


def with_missed(missed: Mapping[str, int], number: int, now: datetime) -> dict[str, int]:
    """Return the counts of lost webhooks by hour with `number` more, without those older than a day."""
    hours = {hour: count for hour, count in missed.items() if parse(hour) > now - HOURS_KEPT}
    hour = exact(now.replace(minute=0, second=0, microsecond=0))
    return hours | ({hour: hours.get(hour, 0) + number} if number else {})
