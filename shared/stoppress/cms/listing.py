"""List a CMS's articles by its API, as `[list]` in its mapping file says. Pure: requests and answers are values.

The expressions of a request see `settings`, `types`, `secret`, `since` and `until` (instants in UTC, or null), `size`, and its
position: `page` (from 1), `offset` or `cursor`. The expressions of an answer see `settings`, `types`, `body` and `headers`;
`delivery` sees `item` too. `delivery` gives the body of the webhook that would tell of the item, so that an item of the list
and a webhook become the same event.
"""

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, urlencode, urljoin, urlsplit

from stoppress.cms.contract import BadArticle
from stoppress.cms.engine import read_delivery, settings_of, types_of
from stoppress.cms.envelopes import BadDelivery
from stoppress.cms.expressions import search
from stoppress.cms.mapping import REMOVALS, Listing, MappingFile
from stoppress.model.event import ArticleEvent, digest_of
from stoppress.model.http_request import Request
from stoppress.model.listed import Listed, ListingError, Problem
from stoppress.model.site import Site, Source
from stoppress.primitives.instants import exact
from stoppress.primitives.text import clean

# ISO 8601 with whole seconds: every API takes it.
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"


@dataclass(frozen=True, slots=True)
class Position:
    """Where a page of a listing is. Only the part that the mapping's `next` names is used.

    `page_items` is how many items a page has: an API may give fewer than it was asked for. `total` is the listing's length when
    the page before was read.
    """

    page: int = 1
    offset: int = 0
    cursor: str = ""
    url: str = ""
    page_items: int = 0
    total: int | None = None

    def text(self) -> str:
        """The position as JSON, for a checkpoint."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__ if getattr(self, name)})


def position_of(text: str | None) -> Position:
    """The position that `Position.text` wrote; without a text, the first page. Raises ValueError."""
    try:
        return Position(**json.loads(text)) if text else Position()
    except TypeError as error:
        raise ValueError(f"{text!r} is no position in a listing: {error}") from None


@dataclass(frozen=True)
class Query:
    """What to list: a source's articles that changed from `since` until `until`. None stands for no limit.

    `mapping` must have a `[list]`. `secrets` are the API's key, the newest first; empty if it needs none.
    """

    site: Site
    name: str
    source: Source
    mapping: MappingFile
    secrets: tuple[str, ...] = ()
    since: datetime | None = None
    until: datetime | None = None

    @property
    def listing(self) -> Listing:
        assert self.mapping.listing
        return self.mapping.listing

    def _root(self) -> dict[str, Any]:
        settings = self.source.settings
        used = settings_of(self.mapping, settings, self.site)
        return {"settings": used, "types": types_of(settings, used)}

    def request(self, at: Position) -> tuple[str, dict[str, str]]:
        """URL and headers of the request for a page. Raises ListingError."""
        assert self.source.list
        root = self._root() | {
            "secret": self.secrets[0] if self.secrets else None,
            "since": f"{self.since:{_INSTANT}}" if self.since else None,
            "until": f"{self.until:{_INSTANT}}" if self.until else None,
            "size": self.listing.size,
            "page": at.page,
            "offset": at.offset,
            "cursor": at.cursor,
        }
        headers = {"accept": "application/json"} | _values(self.listing.headers, root)
        if at.url:
            return at.url, headers
        url = urlsplit(self.source.list.url)
        parameters = [*parse_qsl(url.query), *_values(self.listing.parameters, root).items()]
        return url._replace(query=urlencode(parameters), fragment="").geturl(), headers

    def answer(self, body: bytes, headers: Mapping[str, str]) -> "Answer":
        """Read a page. Raises ListingError."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as error:
            start = clean(body[:80].decode(errors="replace"), 80)
            raise ListingError(f"the answer is no JSON but begins with {start!r}: {error}") from None
        root = self._root() | {
            "body": document,
            "headers": {name.lower().replace("-", "_"): value for name, value in headers.items()},
        }
        items, fault = search(self.listing.items, root)
        if not isinstance(items, list):
            raise ListingError(f"the answer has no list of items at {self.listing.items!r}: {fault or 'null'}")
        total = search(self.listing.total, root)[0] if self.listing.total else None
        cursor = search(self.listing.cursor, root)[0] if self.listing.cursor else None
        number = str(total)
        return Answer(
            items, int(number) if number.isdigit() else None, str(cursor) if cursor else "", _next_link(headers), root
        )

    def item(self, answer: "Answer", item: Any, place: str, asked_at: datetime, by: str) -> Listed | Problem:
        """An item as an event, or the reason why it cannot be one. Raises Ignored for what is no article of the site.

        `by` is the beginning of the event's delivery id: who lists.
        """
        body, fault = search(self.listing.delivery, {**answer.root, "item": item})
        if fault or body is None:
            return Problem(place, f"list.delivery: {fault or 'gives nothing'}")
        headers = {"content-type": "application/json", **self.listing.delivery_headers}
        try:
            request = Request(headers, json.dumps(body).encode())
            verdicts = read_delivery(self.mapping, request, self.source.settings, self.site, asked_at)
        except (BadDelivery, RecursionError) as error:
            return Problem(place, str(error))
        if len(verdicts) != 1:
            return Problem(place, f"gives {len(verdicts)} articles instead of one")
        [verdict] = verdicts
        if verdict.disposition == "ignore" or verdict.action in REMOVALS:
            raise Ignored(verdict.reason or "is not published")
        if verdict.disposition == "incomplete":
            return Problem(place, verdict.reason)
        try:
            event = verdict.event(self.site, self.name, asked_at)
        except BadArticle as error:
            return Problem(place, str(error))
        return Listed(place, marked(event, asked_at, by))


class Ignored(ValueError):
    """An item of a listing that is no article of the site; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A page as the API gave it: its items, the listing's length, the cursor and the URL of the next page, if it names them."""

    items: list[Any]
    total: int | None
    cursor: str
    link: str
    root: Mapping[str, Any]


def marked(event: ArticleEvent, asked_at: datetime, by: str) -> ArticleEvent:
    """An event of a listing. It was heard when the listing was requested, so what a source sends afterwards is newer.

    The delivery id depends on the content alone: whoever lists the same article twice sends a repeat.
    """
    version = exact(event.version) if isinstance(event.version, datetime) else event.version
    return replace(event, verb="updated", heard_at=asked_at, delivery=f"{by}:{digest_of(event)}:{version}")


def next_position(query: Query, at: Position, answer: Answer) -> Position | None:
    """Where the next page is; None after the last. Raises ListingError if the API names a page of another host."""
    match query.listing.next:
        case "link":
            assert query.source.list
            url = urljoin(at.url or query.source.list.url, answer.link) if answer.link else ""
            if url and _origin(url) != _origin(query.source.list.url):
                raise ListingError(f"the next page is at {url[:200]}, which is another server than that of list.url")
            return replace(at, url=url) if url else None
        case "cursor":
            return replace(at, cursor=answer.cursor) if answer.cursor and answer.items else None
    return _by_number(query.listing, at, answer)


def after_failure(query: Query, at: Position) -> Position | None:
    """The page behind one that cannot be read; None if only that page could name it."""
    if query.listing.next not in ("page", "offset"):
        return None
    items = at.page_items or query.listing.size
    return (
        replace(at, page=at.page + 1, offset=at.offset + items) if at.total and at.offset + items < at.total else None
    )


def _by_number(listing: Listing, at: Position, answer: Answer) -> Position | None:
    total, offset = answer.total, at.offset + len(answer.items)
    items = at.page_items or len(answer.items) or listing.size
    if total is not None and at.total is not None and total < at.total and at.page > 1:
        # Articles were deleted meanwhile. The others moved forward, and some of them perhaps before this page.
        back = min(at.page - 1, math.ceil((at.total - total) / items))
        return replace(at, page=at.page - back, offset=at.offset - back * items, total=total)
    if not answer.items or (total is not None and offset >= total):
        return None
    return replace(at, page=at.page + 1, offset=offset, page_items=items, total=total)


def _values(expressions: Mapping[str, str], root: Mapping[str, Any]) -> dict[str, str]:
    """The values of parameters or headers, without those that are null. Raises ListingError."""
    values = {}
    for name, expression in expressions.items():
        value, fault = search(expression, root)
        if fault:
            raise ListingError(f"list: {name}: {fault}")
        if value is not None:
            values[name] = value if isinstance(value, str) else json.dumps(value)
    return values


def _next_link(headers: Mapping[str, str]) -> str:
    """The URL of the next page in a `Link` header (RFC 8288); empty if there is none."""
    for part in headers.get("link", "").split(","):
        target, _, parameters = part.partition(";")
        if any(each.strip().replace('"', "").lower() == "rel=next" for each in parameters.split(";")):
            return target.strip().strip("<>")
    return ""


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
