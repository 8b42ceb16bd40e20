"""The way of a story from its publication to the search engines, each stop with its delay. Pure."""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime
from itertools import pairwise

from stoppress.tell.state import PageState


@dataclass(frozen=True)
class Stop:
    """A stop on the way: what happened, when, and how many seconds after the stop before."""

    what: str
    at: datetime
    after_seconds: int | None = None


def way(published: datetime | None, heard: datetime | None, page: PageState | None) -> tuple[Stop, ...]:
    """The stops that a story has passed, the earliest first.

    `heard` is when we first received an event; `page` is what engines were told, and what Google made of it.
    """
    stops = sorted(_stops(published, heard, page), key=lambda stop: stop.at)  # Google may crawl before it is told
    delays = [round((later.at - earlier.at).total_seconds()) for earlier, later in pairwise(stops)]
    return tuple(Stop(stop.what, stop.at, delay) for stop, delay in zip(stops, [None, *delays], strict=True))


def _stops(published: datetime | None, heard: datetime | None, page: PageState | None) -> Iterator[Stop]:
    if published:
        yield Stop("published", published)
    if heard:
        yield Stop("heard", heard)
    if page:
        yield Stop("left the files" if page.gone else "listed", page.changed)
        if page.checked_at and page.checked_at >= page.changed and not page.checks:
            yield Stop("page checked", page.checked_at)
        if page.told_at and page.is_told:
            yield Stop("engines told", page.told_at)
        if page.crawled_at:
            yield Stop("crawled by Google", page.crawled_at)
        if page.indexed_at:
            yield Stop("found in Google's index", page.indexed_at)
