"""What the engines were told of each page, in the table under `told#<site>`.

An item is marked when the page changes in a file. Engines know of the change when `told_at` has reached `changed`. So work may be
repeated, reordered or lost: whoever reads the item sees what is left to do.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from stoppress.aws.items import Item
from stoppress.primitives.instants import epoch_seconds, exact, parse
from stoppress.primitives.urls import key_of
from stoppress.tell.indexnow import PAUSE_SECONDS

if TYPE_CHECKING:  # show_site reads states, and checks no pages
    from stoppress.tell.page import PageVerdict

# indexnow.org: leave ten minutes between two requests for one URL.
PAUSE = timedelta(seconds=PAUSE_SECONDS)
# How long after the check of a page that is not ready the page is checked again. Together ten minutes. Contentful's pages may be
# 20 seconds late (contentful/contentful.js#245).
CHECK_DELAYS_SECONDS = (10, 20, 40, 80, 160, 290)
# After ten minutes the page counts as not ready, and is checked so often.
SLOW_CHECK_SECONDS = 900
# After this time only the hourly sweep tries again.
CHECKED_FOR = timedelta(hours=2)
# After this time a page is given up. It is no news any more.
TRIED_FOR = timedelta(hours=48)
STATE_KEPT = timedelta(days=14)
# Sort key of the instant at which telling began at a site.
BEGAN = "began"
# Beginnings of sort keys: of pages, of copies of those that were not ready for ten minutes, and of what the engines answer.
_PAGE = "page#"
FAILING = "failing#"
ENGINE = "engine#"


@dataclass(frozen=True, slots=True)
class PageState:
    """A page that engines are told of.

    `changed`: the page's newest change in a file; `gone`: it left the file then. `told_at`: when a check began after which engines
    were told. `tried_at`: the same of the last request that may have reached an engine. `checked_at`: the last check of the
    page. `checks` counts the failed ones since the change, `failing_since` is the first of these, and `reason` continues "the page …".
    """

    url: str
    changed: datetime
    gone: bool = False
    published: datetime | None = None
    told_at: datetime | None = None
    tried_at: datetime | None = None
    checked_at: datetime | None = None
    checks: int = 0
    failing_since: datetime | None = None
    reason: str = ""
    rev: int | None = None

    @property
    def is_told(self) -> bool:
        """Whether nothing is left to tell."""
        return self.told_at is not None and self.told_at >= self.changed


_INSTANTS = {each.name for each in fields(PageState)} & {
    "changed", "published", "told_at", "tried_at", "checked_at", "failing_since",
}  # fmt: skip


def told_pk(site: str) -> str:
    return f"told#{site}"


def page_key(site: str, url: str) -> tuple[str, str]:
    return told_pk(site), f"{_PAGE}{key_of(url)}"


def failing_key(site: str, url: str) -> tuple[str, str]:
    return told_pk(site), f"{FAILING}{key_of(url)}"


def page_item(site: str, state: PageState) -> Item:
    """The item of a page's state; empty values are left out."""
    pk, sk = page_key(site, state.url)
    values = {each.name: getattr(state, each.name) for each in fields(state) if each.name != "rev"}
    plain = {name: exact(value) if isinstance(value, datetime) else value for name, value in values.items() if value}
    return {"pk": pk, "sk": sk, "ttl": epoch_seconds(state.changed + STATE_KEPT), **plain}


def read_page(item: Mapping[str, Any]) -> PageState:
    """The state in an item."""
    known = {each.name for each in fields(PageState)}
    values: dict[str, Any] = {
        name: parse(value) if name in _INSTANTS else value for name, value in item.items() if name in known
    }
    return PageState(**values | {name: int(values[name]) for name in ("checks", "rev") if name in values})


def pages_in(items: Iterable[Item]) -> list[PageState]:
    """The states of pages among the items of a site's partition."""
    return [read_page(item) for item in items if item["sk"].startswith(_PAGE)]


@dataclass(frozen=True, slots=True)
class Step:
    """What to do about a page now: nothing (`done`), to wait so many seconds, or to check it."""

    action: str
    seconds: int = 0


def next_step(state: PageState | None, now: datetime) -> Step:
    """What to do about a page."""
    if state is None or state.is_told or now >= state.changed + TRIED_FOR:
        return Step("done")
    if state.tried_at and now < state.tried_at + PAUSE:
        return Step("wait", _seconds(state.tried_at + PAUSE - now))
    if state.checks and state.checked_at and now < (due := state.checked_at + timedelta(seconds=delay(state))):
        return Step("wait", _seconds(due - now))
    return Step("check")


def delay(state: PageState) -> int:
    """The seconds after a failed check until the next one."""
    return CHECK_DELAYS_SECONDS[state.checks - 1] if state.checks <= len(CHECK_DELAYS_SECONDS) else SLOW_CHECK_SECONDS


def is_failing(state: PageState) -> bool:
    """Whether a listed page was not ready for ten minutes."""
    return state.checks > len(CHECK_DELAYS_SECONDS) and not state.gone


def is_ready(state: PageState, verdict: "PageVerdict") -> bool:
    """Whether engines may be told: the page can be indexed, or it is gone and says so by anything but a page."""
    if not state.gone:
        return verdict.ready
    return verdict.kind == "robots" or (not verdict.ready and verdict.kind != "unreachable")


def _seconds(period: timedelta) -> int:
    return max(1, -(-period // timedelta(seconds=1)))
