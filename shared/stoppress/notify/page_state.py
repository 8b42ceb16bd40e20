"""The states of the pages that engines are notified of, in the table under `notified#<site>`.

A page's item has the version that the files list, and the version that the engines were notified of. So a message may be repeated,
reordered or lost: the item shows the remaining work.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from math import ceil
from typing import TYPE_CHECKING, Any

from stoppress.aws import sites, table
from stoppress.aws.codec import from_item, to_item
from stoppress.aws.items import Item
from stoppress.model.site import Site
from stoppress.primitives.instants import epoch_seconds, exact, parse
from stoppress.primitives.urls import key_of

if TYPE_CHECKING:  # show_site reads states, and sends no requests
    from stoppress.notify.indexnow import Meaning
    from stoppress.notify.page_readiness import PageVerdict

# IndexNow: leave ten minutes between two requests for one URL. One minute more, because the request follows the claim.
PAUSE = timedelta(minutes=11)
# Seconds from each failed check of a page to the next one, ten minutes in all. Contentful's pages may be 20 seconds late
# (contentful/contentful.js#245).
CHECK_DELAYS_SECONDS = (10, 20, 40, 80, 160, 290)
# Later a page counts as not ready, and is checked every quarter of an hour.
SLOW_CHECK_SECONDS = 900
# After this time only the hourly sweep checks the page.
CHECKED_FOR = timedelta(hours=2)
# After this time engines are no longer notified of a page, because it is no longer news.
TRIED_FOR = timedelta(hours=48)
STATE_KEPT = timedelta(days=14)
# A new story is inspected in Search Console this long after engines were notified of it, and again this long after its publication.
INSPECTED_AFTER = timedelta(minutes=15)
INSPECTED_AGAIN_AFTER = timedelta(hours=6)
# Sort key of the instant at which notifications began at a site.
BEGAN = "began"
# The version of a page that left its files.
GONE = "gone"
# Beginnings of sort keys: of pages, of copies of those that were not ready for ten minutes, and of what the engines answer.
PAGE = "page#"
FAILING = "failing#"
ENGINE = "engine#"
INDEXNOW = f"{ENGINE}IndexNow"
SEARCH_CONSOLE_NAME = "Search Console"
SEARCH_CONSOLE = f"{ENGINE}{SEARCH_CONSOLE_NAME}"

# An engine that rejects notifications for this long needs an operator's attention.
FAILING_MAX = timedelta(hours=1)
# developers.google.com/webmaster-tools/limits: inspections of one property in a day. The limit of a minute is its answer 429.
INSPECTIONS_A_DAY = 2_000
QUOTA_KEPT = timedelta(days=2)


@dataclass(frozen=True, slots=True)
class PageState:
    """A page that engines are notified of.

    `version`: the newest version that a file listed, or GONE; `changed`: when a run noticed it. `notified`: the version that engines were
    last notified of, at `notified_at` (None without IndexNow); empty while an answer is missing. `tried_at`: when a run last claimed
    the page to notify engines. `checked_at`: the last check. `checks` counts the failed checks since the change.
    `failing_since` is the first of these, and `reason` continues "the page …".

    `inspected_at`: the last inspection in Search Console. `verdict`, `coverage`, `google_canonical` and `robots_state` are
    its answer, in Google's words. `crawled_at` is Google's last crawl, `indexed_at` the first answer that the page is in the index.
    `listed_at`: when the news sitemap `news_file` was written that listed the page first.
    """

    url: str
    version: str
    changed: datetime
    published: datetime | None = None
    notified: str = ""
    notified_at: datetime | None = None
    tried_at: datetime | None = None
    checked_at: datetime | None = None
    checks: int = 0
    failing_since: datetime | None = None
    reason: str = ""
    inspected_at: datetime | None = None
    verdict: str = ""
    coverage: str = ""
    google_canonical: str = ""
    robots_state: str = ""
    crawled_at: datetime | None = None
    indexed_at: datetime | None = None
    listed_at: datetime | None = None
    news_file: str = ""
    rev: int | None = None

    @property
    def is_notified(self) -> bool:
        """Return True if engines were notified of the newest version."""
        return self.notified == self.version

    @property
    def ready_at(self) -> datetime | None:
        """Return when a check found the newest version ready; None: no check has."""
        is_ready = self.checked_at and self.checked_at >= self.changed and not self.checks
        return self.checked_at if is_ready else None

    @property
    def gone(self) -> bool:
        return self.version == GONE

    @property
    def is_failing(self) -> bool:
        """Return True if the page is listed and has not been ready for ten minutes."""
        return self.checks > len(CHECK_DELAYS_SECONDS) and not self.gone


# The fields of a page without failed checks.
NO_FAILED_CHECKS: dict[str, Any] = {"checks": 0, "failing_since": None, "reason": ""}


def notified_pk(site: str) -> str:
    return f"notified#{site}"


def page_key(site: str, url: str) -> tuple[str, str]:
    return notified_pk(site), f"{PAGE}{key_of(url)}"


def page_item(site: str, state: PageState) -> Item:
    return to_item(state, page_key(site, state.url), ttl=epoch_seconds(state.changed + STATE_KEPT))


def read_page(item: Mapping[str, Any]) -> PageState:
    return from_item(PageState, item)


def pages_in(items: Iterable[Item]) -> list[PageState]:
    """Return the states of pages among the items of a site's partition."""
    return [read_page(item) for item in items if item["sk"].startswith(PAGE)]


def message(host: str, **work: object) -> str:
    """Return a message of the engines queue: a `page` to check, a page to `inspect`, or `sitemaps` to submit and read reports of."""
    return json.dumps({"site": host, **work})


def notified_site(host: str) -> Site | None:
    """Return the site, if engines are notified of its pages."""
    try:
        site = sites.load(host)
    except sites.UnknownSite:
        return None
    return site if site.engines else None


def write_page(host: str, old: PageState | None, new: PageState) -> PageState | None:
    """Write a state over the one that was read. None: another run has changed the item.

    A failing page has a copy of its item, so that `stoppress status` reads no other pages. The copy is deleted before the state
    changes: after a crash in between, the next run deletes it.
    """
    copy_key = notified_pk(host), f"{FAILING}{key_of(new.url)}"
    if old and old.is_failing and not new.is_failing:
        table.delete(*copy_key)
    try:
        table.put(page_item(host, new), old.rev if old else None)
    except table.Conflict:
        return None
    if new.is_failing:
        table.put_if(to_item(new, copy_key, ttl=epoch_seconds(new.changed + TRIED_FOR)))
    return replace(new, rev=((old and old.rev) or 0) + 1)


def update_page(host: str, url: str, change: Callable[[PageState], PageState], first: PageState | None = None) -> None:
    """Change a page's state, despite concurrent writers. `first`: the state of a page that has none. Raises Conflict."""

    def change_item(item: Item | None) -> Item | None:
        new = change(read_page(item)) if item else first
        return page_item(host, new) if new else None

    table.update(page_key(host, url), change_item)


def paused_seconds(engine: Mapping[str, str], now: datetime) -> int:
    """Return the seconds until an engine that refused may get requests again; 0: now."""
    return max(0, int((parse(engine["until"]) - now).total_seconds())) if "until" in engine else 0


def note_answer(host: str, name: str, engine: Mapping[str, str], answer: "Meaning", now: datetime) -> str | None:
    """Store an engine's refusal for `stoppress status` and the end of its pause, or that it accepts requests again.

    `name` is the sort key of the engine's item, `engine` the item that was read. Return engine and reason if an operator must act.
    """
    key = {"pk": notified_pk(host), "sk": name, "at": exact(now)}
    if answer.result == "accepted":
        if engine.get("reason"):
            table.put_if(key)
        return None
    since = engine["since"] if engine.get("reason") else exact(now)
    until = now + timedelta(seconds=answer.after_seconds)
    pause = {"until": exact(until)} if answer.is_certain else {}
    table.put_if(key | {"since": since, "reason": answer.reason[:500]} | pause)
    is_lasting = answer.result == "wrong" or parse(since) + FAILING_MAX <= now
    return f"{name.removeprefix(ENGINE)}: {answer.reason}" if is_lasting else None


def count_inspection(property_: str, now: datetime) -> bool:
    """Count an inspection before its request. Return False if the day's quota is used up."""
    pk, sk = _quota_key(property_, now)

    def count(item: Item | None) -> Item | None:
        day = int(item["day"]) + 1 if item else 1
        ttl = epoch_seconds(now + QUOTA_KEPT)
        return {"pk": pk, "sk": sk, "ttl": ttl, "day": day} if day <= INSPECTIONS_A_DAY else None

    return table.update((pk, sk), count) is not None


def read_inspections(property_: str, now: datetime) -> int:
    """Return the inspections of the day, in UTC."""
    return int((table.get(*_quota_key(property_, now)) or {}).get("day", 0))


def _quota_key(property_: str, now: datetime) -> tuple[str, str]:
    return notified_pk(property_), f"quota#{now:%Y-%m-%d}"


def seconds_until_check(state: PageState, now: datetime) -> int | None:
    """Return the seconds until a page is checked next, 0 if it is now; None: no check is needed."""
    if state.is_notified or now >= state.changed + TRIED_FOR:
        return None
    if state.tried_at and now < state.tried_at + PAUSE:
        return ceil((state.tried_at + PAUSE - now).total_seconds())
    if state.checks and state.checked_at:
        return max(0, ceil((state.checked_at - now).total_seconds()) + delay(state))
    return 0


def delay(state: PageState) -> int:
    """Return the seconds after a failed check until the next one."""
    is_late = state.checks > len(CHECK_DELAYS_SECONDS)
    return SLOW_CHECK_SECONDS if is_late else CHECK_DELAYS_SECONDS[state.checks - 1]


def is_ready(state: PageState, verdict: "PageVerdict") -> bool:
    """Return True if engines may be notified: the page can be indexed. A page that left the files must answer 404 or 410."""
    return verdict.is_gone if state.gone else verdict.ready


def after_failed_check(state: PageState, verdict: "PageVerdict", at: datetime) -> PageState:
    """Return the state after a check that found the page not ready."""
    return replace(
        state,
        checked_at=at,
        checks=state.checks + 1,
        failing_since=state.failing_since or at,
        reason="is in no sitemap, and does not answer 404 or 410" if state.gone else verdict.reason[:500],
    )


def is_inspection_due(state: PageState, now: datetime) -> bool:
    """Return True if the inspection of a story is due. Pages that no news sitemap lists are no stories."""
    if state.gone or state.published is None or now >= state.published + TRIED_FOR:
        return False
    again = state.published + INSPECTED_AGAIN_AFTER
    if state.inspected_at is None:
        notified_at = state.notified_at or (state.checked_at if state.is_notified else None)
        return now >= (notified_at + INSPECTED_AFTER if notified_at else again)
    return state.inspected_at < again <= now
