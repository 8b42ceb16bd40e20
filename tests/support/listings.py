"""Listings of the APIs in memory: what to list, and the pages that come."""

from collections.abc import Iterable
from datetime import UTC, datetime, timedelta

from stoppress.audit.pages import Reader
from stoppress.cms.listing import Query
from stoppress.cms.mapping import load
from stoppress.model.event import ArticleEvent, Page
from stoppress.model.site import Site
from stoppress.primitives.deadline import NEVER, Deadline
from tests.support.apis import HOST, KEY, Api, Story

DAY = datetime(2026, 11, 20, tzinfo=UTC)


def stories(count: int, first: int = 1) -> list[Story]:
    """Stories that were published on one day and edited ten minutes apart from noon on."""
    return [
        Story(n, DAY + timedelta(seconds=n), DAY + timedelta(hours=12, minutes=10 * n))
        for n in range(first, first + count)
    ]


def query(
    api: Api, since: datetime | None = None, until: datetime | None = None, url: str = "", key: str | None = KEY
) -> Query:
    """What to list of an API: a source of a site, whose `list.url` is the API's."""
    source = {"adapter": api.adapter, "settings": api.settings, "list": {"url": url or api.url, "secret": "key"}}
    site = Site.model_validate({"host": HOST, "publication": "News", "sources": {"cms": source}})
    secrets = (key,) if key else ()
    return Query(site, "cms", site.sources["cms"], load(api.adapter), secrets, since, until)


def pages(query: Query, cursor: str | None = None, deadline: Deadline = NEVER) -> Iterable[Page]:
    return Reader(query, "audit", deadline).pages(cursor)


def events(pages: Iterable[Page]) -> list[ArticleEvent]:
    return [item.event for page in pages for item in page.items]


def slugs(pages: Iterable[Page]) -> list[str]:
    """The last part of each URL, in the order of the list."""
    return [str(event.url).rsplit("/", 1)[-1] for event in events(pages)]


def problems(pages: Iterable[Page]) -> list[tuple[str, str]]:
    return [(problem.place, problem.reason) for page in pages for problem in page.problems]
