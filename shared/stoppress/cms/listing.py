"""List a CMS's articles with its API, as `[list]` in its mapping file describes. Pure: requests and answers are values.

The expressions of a request see `settings`, `types`, `secret`, `since` and `until` (instants in UTC, or null), and `size`. They
also see the position: `page` (from 1), `offset` and `cursor`. The expressions of an answer see `settings`, `types`, `body` and
`headers`; `delivery` sees `item` too. `delivery` makes the body of the webhook that the CMS would send for the item. So an item
and a webhook become the same event.
"""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any
from urllib.parse import parse_qsl, quote, quote_plus, urlencode, urljoin, urlsplit

from pydantic import TypeAdapter, ValidationError

from stoppress.cms.contract import BadArticle
from stoppress.cms.engine import read_delivery, settings_of
from stoppress.cms.expressions import search
from stoppress.cms.mapping import REMOVALS, Listing, MappingFile
from stoppress.model.event import ArticleEvent, Listed, ListingError, Problem, StaleCheckpoint, article_name, digest_of
from stoppress.model.http_request import BadDelivery, Request
from stoppress.model.site import Site
from stoppress.model.site_parts import Source
from stoppress.model.validation import explain
from stoppress.primitives.instants import exact
from stoppress.primitives.text import clean, clean_html
from stoppress.primitives.urls import link_targets

# ISO 8601 with whole seconds, because every API accepts it.
_INSTANT = "%Y-%m-%dT%H:%M:%SZ"
_NUMBER = re.compile(r"[0-9]{1,15}")


@dataclass(frozen=True, slots=True)
class Position:
    """The position of a page in a listing. The mapping's `next` decides which fields are used.

    `offset` is how many items come before the page. `page_items` is how many items a page has: an API may return fewer than
    `size`. `total` is the listing's length when the page before was read.
    """

    page: int = 1
    offset: int = 0
    cursor: str = ""
    url: str = ""
    page_items: int = 0
    total: int | None = None

    def text(self) -> str:
        """Return the position as JSON, for a checkpoint."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__ if getattr(self, name)})


def position_of(text: str | None) -> Position:
    """Return the position that `Position.text` wrote; the first page if there is no text. Raises ListingError."""
    if not text:
        return Position()
    try:
        return _POSITION.validate_json(text, strict=True)
    except ValidationError as error:
        raise StaleCheckpoint(
            f"{text[:200]!r} is not a position in a listing ({explain(error)}): delete the checkpoint to start again"
        ) from None


_POSITION = TypeAdapter(Position)


@dataclass(frozen=True)
class Query:
    """A listing to read: a source's articles that changed from `since` until `until`. None: no limit.

    `mapping` must have a `[list]`. `secrets` are the API's keys, the newest first; empty if the API needs none. With `until`
    no article enters the listing while it is read. Articles only leave it, and its falling total shows that.
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

    def request(self, at: Position) -> tuple[str, dict[str, str]]:
        """Return URL and headers of the request for a page. Raises ListingError.

        A parameter in `list.url` replaces the mapping's parameter of the same name.
        """
        assert self.source.list
        root = settings_of(self.mapping, self.source.settings, self.site) | {
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
            self.check_server(at.url)
            return at.url, headers
        url = urlsplit(self.source.list.url)
        url_parameters = parse_qsl(url.query, keep_blank_values=True)
        names = {name for name, _ in url_parameters}
        mapped = [(name, value) for name, value in _values(self.listing.parameters, root).items() if name not in names]
        return url._replace(query=urlencode(url_parameters + mapped), fragment="").geturl(), headers

    def without_secrets(self, text: str) -> str:
        """Return the text with `***` in place of the API's keys, which may be in a quoted URL."""
        for secret in self.secrets:
            for spelling in {secret, quote(secret, safe=""), quote_plus(secret), quote(secret)}:
                text = text.replace(spelling, "***")
        return text

    def check_server(self, url: str) -> None:
        """Raise ListingError for a page on another server, which must not get the API's key."""
        assert self.source.list
        if _origin(url) != _origin(self.source.list.url):
            raise ListingError(
                f"the next page is at {url[:200]}, on another server than list.url: give that server in list.url"
            )

    def answer(self, body: bytes, headers: Mapping[str, str]) -> "Answer":
        """Read a page. Raises UnreadablePage."""
        try:
            document = json.loads(body)
        except (ValueError, RecursionError) as error:
            start = clean_html(body[:80].decode(errors="replace"), 80)
            raise UnreadablePage(f"the answer is not JSON but begins with {start!r}: {error}") from None
        root = settings_of(self.mapping, self.source.settings, self.site) | {
            "body": document,
            "headers": {name.lower().replace("-", "_"): value for name, value in headers.items()},
        }
        items, fault = search(self.listing.items, root)
        if not isinstance(items, list):
            raise UnreadablePage(f"the answer has no list of items at {self.listing.items!r}: {fault or 'null'}")
        total = search(self.listing.total, root)[0] if self.listing.total else None
        cursor = search(self.listing.cursor, root)[0] if self.listing.cursor else None
        number = int(str(total)) if _NUMBER.fullmatch(str(total)) else None
        link = next(link_targets("next", headers), "").strip()
        return Answer(items, number, str(cursor) if cursor else "", link, root)

    def item(self, answer: "Answer", item: Any, place: str, requested_at: datetime, by: str) -> Listed | Problem:
        """Return an item as an event, or the problem that prevents it. Raises Ignored for an item that is no article of the site.

        `by` is the prefix of the event's delivery id.
        """
        if not isinstance(item, dict):
            return Problem(place, f"is not a JSON object: {clean(str(item), 80)}")
        body, fault = search(self.listing.delivery, {**answer.root, "item": item})
        if fault or body is None:
            return Problem(place, f"list.delivery: {fault or 'returns nothing'}")
        headers = {"content-type": "application/json", **self.listing.delivery_headers}
        try:
            request = Request(headers, json.dumps(body).encode())
            verdicts = read_delivery(self.mapping, request, self.source.settings, self.site, requested_at)
        except (BadDelivery, RecursionError) as error:
            return Problem(place, str(error))
        if len(verdicts) != 1:
            return Problem(place, f"returns {len(verdicts)} articles instead of one")
        [verdict] = verdicts
        if verdict.disposition == "ignore" or verdict.action in REMOVALS:
            raise Ignored(verdict.reason or "is not published")
        id_ = verdict.data.get("id")
        name = article_name(self.name, str(id_)) if id_ else ""
        if verdict.disposition == "incomplete":
            return Problem(place, verdict.reason, name)
        try:
            event = verdict.event(self.site, self.name, requested_at)
        except BadArticle as error:
            return Problem(place, str(error), name)
        return Listed(place, marked(event, requested_at, by))


class UnreadablePage(ValueError):
    """An answer that is no page of a listing; the text is the reason."""


class Ignored(ValueError):
    """An item of a listing that is no article of the site; the text is the reason."""


@dataclass(frozen=True, slots=True)
class Answer:
    """A page as the API returned it: items, the listing's length, and the next page's cursor and URL.

    `total` is None and texts are empty if the API does not return them. `root` has the names that expressions see.
    """

    items: list[Any]
    total: int | None
    cursor: str
    link: str
    root: Mapping[str, Any]


def marked(event: ArticleEvent, requested_at: datetime, by: str) -> ArticleEvent:
    """Return the event with `received_at`, `verb` and `delivery` of a listing.

    `received_at` is when the listing was requested, so later events of the source are newer. The delivery id depends on the
    content alone, so an article that is listed twice is a repeat.
    """
    version = exact(event.version) if isinstance(event.version, datetime) else event.version
    return replace(event, verb="updated", received_at=requested_at, delivery=f"{by}:{digest_of(event)}:{version}")


def next_position(query: Query, at: Position, answer: Answer) -> Position | None:
    """Return the next position; None after the last page. Raises ListingError if its URL is not valid, or on another server."""
    match query.listing.next:
        case "link":
            assert query.source.list
            if not answer.link:
                return None
            try:
                url = urljoin(at.url or query.source.list.url, answer.link)
                query.check_server(url)
            except ValueError as error:
                raise ListingError(f"the next page has no valid URL: {answer.link[:200]!r}: {error}") from None
            return replace(at, url=url)
        case "cursor":
            return replace(at, cursor=answer.cursor) if answer.cursor and answer.items else None
    return _by_number(query, at, answer)


def after_failure(query: Query, at: Position) -> Position | None:
    """Return the page after one that cannot be read; None if only that page has its URL, or if it was the last."""
    if query.listing.next not in ("page", "offset"):
        return None
    offset = at.offset + (at.page_items or query.listing.size)
    return replace(at, page=at.page + 1, offset=offset) if at.total and offset < at.total else None


def back(query: Query, at: Position, pages: int = 1) -> Position | None:
    """Return the page that is `pages` before this one, or the first page; None if this is the first, or if pages have no numbers."""
    if query.listing.next not in ("page", "offset") or at.page == 1:
        return None
    pages = min(pages, at.page - 1)
    return replace(at, page=at.page - pages, offset=max(0, at.offset - pages * (at.page_items or query.listing.size)))


def _by_number(query: Query, at: Position, answer: Answer) -> Position | None:
    total, items = answer.total, max(at.page_items, len(answer.items))
    if total is not None and at.total is not None and total < at.total and at.page > 1:
        # Articles have left the listing. Later articles moved forward, perhaps to pages that were already read.
        pages = math.ceil((at.total - total) / (items or query.listing.size))
        return back(query, replace(at, page_items=items, total=total), pages)
    # An API may leave items out of a page. By page number they count all the same.
    offset = at.page * items if query.listing.next == "page" else at.offset + len(answer.items)
    if offset >= total if total is not None else not answer.items:
        return None
    return replace(at, page=at.page + 1, offset=offset, page_items=items, total=total)


def _values(expressions: Mapping[str, str], root: Mapping[str, Any]) -> dict[str, str]:
    """Return the values of parameters or headers. Leaves out nulls. Raises ListingError for an expression that fails."""
    values = {}
    for name, expression in expressions.items():
        value, fault = search(expression, root)
        if fault:
            raise ListingError(f"list: {name}: {fault}")
        if value is not None:
            values[name] = value if isinstance(value, str) else json.dumps(value)
    return values


def _origin(url: str) -> tuple[str, str]:
    parts = urlsplit(url)
    return parts.scheme, parts.netloc.lower()
