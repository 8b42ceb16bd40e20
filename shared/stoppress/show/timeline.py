"""The timeline of a story from its publication to the search engines, with the delay of each stop. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from stoppress.model.article import Article
from stoppress.model.news_window import is_current
from stoppress.notify.page_state import PageState
from stoppress.notify.sitemap_reports import DAY
from stoppress.primitives.instants import parse

READ_BY_GOOGLE = "Google read the news sitemap (first time after the story was listed)"


@dataclass(frozen=True)
class Stop:
    """A stop of the timeline: the event, its instant, and the seconds since the previous stop."""

    what: str
    at: datetime
    after_seconds: int | None = None


def list_stops(
    published: datetime | None, received: datetime | None, page: PageState | None, read: datetime | None = None
) -> tuple[Stop, ...]:
    """Return the stops that a story has passed, the earliest first.

    `received` is when the first event was received; `page` is the state of the engines' notifications and Google's reports. `read` is
    Google's first read of the listed story.
    """
    instants = {"published": published, "received": received}
    if page:
        instants |= {
            "left the files" if page.gone else "listed": page.changed,
            "page checked": page.ready_at,
            "engines notified": page.notified_at if page.is_notified else None,
            READ_BY_GOOGLE: read,
            "crawled by Google": page.crawled_at,
            "found in Google's index": page.indexed_at,
        }
    # Sorted, because Google may crawl a page before it is notified.
    stops = sorted((Stop(what, at) for what, at in instants.items() if at), key=lambda stop: stop.at)
    delays = [round((stop.at - before.at).total_seconds()) for before, stop in pairwise(stops)]
    return (*stops[:1], *(replace(stop, after_seconds=delay) for stop, delay in zip(stops[1:], delays, strict=True)))


# The delays in the medians of a day. `received`: from publication. `listed`: from the newest event, or from a later publication.
# `page_ready`: from the listing. `notified`: from the check that found the page ready.
DELAYS = ("received_s", "listed_s", "page_ready_s", "notified_s")


def median_delays(pages: Sequence[tuple[PageState, Article | None]], now: datetime) -> dict[str, float | None]:
    """Return the median DELAYS, in seconds, of pages that changed in the last day, each with its article. None: no page shows the delay."""
    periods = [_delays(page, article, now) for page, article in pages]
    medians = [_median_s(of_pages[number] for of_pages in periods) for number in range(len(DELAYS))]
    return {"pages": len(periods), **dict(zip(DELAYS, medians, strict=True))}


def _delays(page: PageState, article: Article | None, now: datetime) -> tuple[timedelta | None, ...]:
    """Return the four delays of a page. None: the delay is unknown, or it is not of this day."""
    received = listed = None
    if article:
        published = article.first_published
        if published and is_current(published, now) and article.received_at > now - DAY:
            received = article.received_at - published
        # An article may be received before its publication, and held until then.
        listed = page.changed - max(filter(None, [parse(article.order.received), published]))
    ready = page.ready_at
    notified = page.notified_at if page.is_notified else None
    checked = ready - page.changed if ready else None
    return received, listed, checked, notified - ready if notified and ready else None


def _median_s(periods: Iterable[timedelta | None]) -> float | None:
    """Return the median of the known periods. A negative period is left out, because its later stop belongs to an earlier event."""
    seconds = [period.total_seconds() for period in periods if period is not None and period >= timedelta()]
    return median(seconds) if seconds else None
