"""The listings that `stoppress import` reads: a source's API, a sitemap, or a file of rows."""

import json
import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, Literal

from stoppress.audit.list_differences import changed_at
from stoppress.audit.pages import Reader
from stoppress.aws import secrets
from stoppress.cms.listing import Query
from stoppress.cms.mapping import load
from stoppress.model.event import ArticleEvent, Page
from stoppress.model.site import Site
from stoppress.model.site_parts import Source, secret_path
from stoppress.primitives.instants import exact, parse
from stoppress_cli.check.input import peek
from stoppress_cli.check.robots_rules import is_robots
from stoppress_cli.connect import BadRequest
from stoppress_cli.inputs.rows import COLUMNS, Rows
from stoppress_cli.inputs.sitemap_pages import BY_IMPORT, Sitemaps, is_url

# The second walk begins earlier by the greatest offset of a time zone. Some APIs read an instant in their own zone.
ZONE_MAX = timedelta(hours=14)
# How far the CMS's clock may be behind this machine's.
CLOCKS_APART = timedelta(hours=1)


@dataclass
class Api:
    """The articles that a CMS lists by its API, for a source of the site.

    An article that changes while the list is read may move to a page that was read before. So a second walk lists what changed
    since the first began.
    """

    site: Site
    name: str
    source: Source
    secrets: tuple[str, ...] = ()

    def pages(self, cursor: str | None = None) -> Iterator[Page]:
        """Yield the pages from the cursor on, or all pages. Raises ListingError."""
        at: dict[str, Any] = (
            json.loads(cursor) if cursor else {"began": exact(datetime.now(UTC)), "again": False, "at": None}
        )
        if not at["again"]:
            for page in self._walk(None, at["at"]):
                reached = {**at, "at": page.cursor, "again": page.cursor is None}
                yield Page(page.items, page.problems, page.ignored, json.dumps(reached), page.total)
            at = {**at, "again": True, "at": None}
        began = parse(at["began"])
        for page in self._walk(began - ZONE_MAX, at["at"]):
            after = json.dumps({**at, "at": page.cursor}) if page.cursor else None
            # The first walk listed all others.
            items = tuple(item for item in page.items if _may_be_new(item.event, began))
            yield Page(items, tuple(problem for problem in page.problems if not problem.article), cursor=after)

    def _walk(self, since: datetime | None, cursor: str | None) -> Iterator[Page]:
        query = Query(self.site, self.name, self.source, load(self.source.list_adapter), self.secrets, since)
        return Reader(query, BY_IMPORT).pages(cursor)


def _may_be_new(event: ArticleEvent, began: datetime) -> bool:
    """Return True if an article may have changed or appeared since `began`. True without dates."""
    dates = [date for date in (changed_at(event), event.published_at) if date]
    return not dates or max(dates) >= began - CLOCKS_APART


Listing = Api | Rows | Sitemaps


def listing_of(source: str, site: Site, name: str | None) -> Listing:
    """Return the listing of a source: a name of the site's configuration, a URL, or a file. Raises BadRequest."""
    if source in site.sources:
        if name:
            raise BadRequest(f"{source} is a source of {site.host}: leave --as out")
        return _api(site, source)
    if name and name not in site.sources:
        raise BadRequest(f"{site.host} has no source {name!r}: it has {', '.join(site.sources) or 'none'}")
    kind = "sitemap" if is_url(source) else _format(source, site)
    if kind != "sitemap":
        return Rows(Path(source), site, name, kind == "JSON")
    if name:
        raise BadRequest("--as is for CSV and JSON Lines: leave it out, because a sitemap does not have the CMS's ids")
    return Sitemaps(source, site)


def _api(site: Site, name: str) -> Api:
    source = site.sources[name]
    if source.list is None:
        raise BadRequest(
            f"the source {name} of {site.host} cannot be listed: give it `list` in the site's configuration"
        )
    key = source.list.secret
    try:
        return Api(site, name, source, tuple(secrets.load(secret_path("lists", site.host, key))) if key else ())
    except secrets.NoSecret as error:
        raise BadRequest(str(error)) from None


def _format(source: str, site: Site) -> Literal["sitemap", "JSON", "CSV"]:
    """Return the format of a file. Raises BadRequest."""
    try:
        head = peek(Path(source)).lstrip("\ufeff").strip()
    except OSError as error:
        names = ", ".join(site.sources) or "none"
        raise BadRequest(
            f"{source!r} is neither a source of {site.host} (it has {names}) nor a URL nor a readable file:"
            f" {error.strerror or error}"
        ) from None
    if head.startswith("["):
        raise BadRequest(f"{source} is a JSON list: write one JSON object on each line")
    if head.startswith("<") or is_robots(head) or (is_url(head) and not re.search(r"[,;\t]", head)):
        return "sitemap"
    if head.startswith("{"):
        return "JSON"
    if not re.search(r"\burl\b", head.splitlines()[0] if head else "", re.IGNORECASE):
        raise BadRequest(
            f"{source} is {'neither a sitemap nor JSON Lines nor CSV' if head else 'empty'}: begin a CSV file with the names of"
            f" its columns, such as {COLUMNS}"
        )
    return "CSV"
