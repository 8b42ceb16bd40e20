"""The way of a story from its publication to the search engines, each stop with its delay. Pure."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import pairwise
from statistics import median

from stoppress.model.article import Article
from stoppress.model.news_window import is_current
from stoppress.notify.state import PageState
from stoppress.primitives.instants import parse

DAY = timedelta(days=1)


@dataclass(frozen=True)
class Stop:
    """A stop on the way: what happened, when, and how many seconds after the stop before."""

    what: str
    at: datetime
    after_seconds: int | None = None


def way(published: datetime | None, received: datetime | None, page: PageState | None) -> tuple[Stop, ...]:
    """The stops that a story has passed, the earliest first.

    `received` is when we first received an event; `page` is what engines were notified of, and what Google made of it.
    """
    stops = sorted(
        _stops(published, received, page), key=lambda stop: stop.at
    )  # Google may crawl before it is notified
    delays = [round((later.at - earlier.at).total_seconds()) for earlier, later in pairwise(stops)]
    return tuple(Stop(stop.what, stop.at, delay) for stop, delay in zip(stops, [None, *delays], strict=True))


def _stops(published: datetime | None, received: datetime | None, page: PageState | None) -> Iterator[Stop]:
    if published:
        yield Stop("published", published)
    if received:
        yield Stop("received", received)
    if page:
        yield Stop("left the files" if page.gone else "listed", page.changed)
        if page.checked_at and page.checked_at >= page.changed and not page.checks:
            yield Stop("page checked", page.checked_at)
        if page.notified_at and page.is_notified:
            yield Stop("engines notified", page.notified_at)
        if page.crawled_at:
            yield Stop("crawled by Google", page.crawled_at)
        if page.indexed_at:
            yield Stop("found in Google's index", page.indexed_at)


@dataclass(frozen=True)
class Delays:
    """Median delays of the pages that changed in a day, in seconds. None: no page shows the delay.

    `received`: from publication. `listed`: from the newest event, or from a later publication. `page_ready`: from the listing.
    `notified`: from the check that found the page ready.
    """

    pages: int
    received_s: float | None = None
    listed_s: float | None = None
    page_ready_s: float | None = None
    notified_s: float | None = None


def delays(pages: Iterable[tuple[PageState, Article | None]], now: datetime) -> Delays:
    """The median delays of pages, each with its article."""
    of_day = [(page, article) for page, article in pages if not page.gone and now - DAY < page.changed <= now]
    periods = [_delays(page, article, now) for page, article in of_day]
    columns = zip(*periods, strict=True) if periods else [()] * 4
    return Delays(len(of_day), *(_median_s(column) for column in columns))


def _delays(page: PageState, article: Article | None, now: datetime) -> tuple[timedelta | None, ...]:
    """The four delays of a page. None: the delay is unknown, or it is not of this day."""
    received = listed = None
    if article:
        published = article.first_published
        if published and is_current(published, now) and article.received_at > now - DAY:
            received = article.received_at - published
        # An article may be received before its publication, and held until then.
        listed = page.changed - max(filter(None, [parse(article.order.received), published]))
    is_ready = page.checked_at is not None and page.checked_at >= page.changed and not page.checks
    ready = page.checked_at - page.changed if is_ready and page.checked_at else None
    notified = (
        page.notified_at - page.checked_at
        if is_ready and page.checked_at and page.notified_at and page.is_notified
        else None
    )
    return received, listed, ready, notified


def _median_s(periods: Iterable[timedelta | None]) -> float | None:
    """The median of the periods that are known. A negative one is none: the later stop belongs to an earlier event."""
    seconds = [period.total_seconds() for period in periods if period is not None and period >= timedelta()]
    return median(seconds) if seconds else None
