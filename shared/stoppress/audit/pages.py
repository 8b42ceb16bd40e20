"""Read a listing page by page, with one page in memory.

A request that fails is repeated. If all attempts fail and pages have numbers, the page becomes a problem and the next one is read.
A repeated page or position ends the listing with ListingError, so that no listing is endless.
"""

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import sha256
from typing import Any

from stoppress.cms.listing import (
    Answer,
    Ignored,
    Position,
    Query,
    UnreadablePage,
    after_failure,
    back,
    next_position,
    position_of,
)
from stoppress.http import client
from stoppress.http.errors import FetchError, Refused, TooLarge, TooManyRedirects
from stoppress.model.event import Listed, ListingError, Page, Problem
from stoppress.primitives.instants import NEVER, Deadline

# The waits between the attempts to get a page, in seconds. A `Retry-After` of the server overrides them.
WAITS_S = (1.0, 4.0, 16.0)
# A longer `Retry-After` ends the listing.
RETRY_AFTER_MAX_S = 600.0
# This many consecutive failed pages end the listing, because the server is down.
FAILED_PAGES_MAX = 3
# The most times that the reader returns to an earlier page because articles left the listing.
BACKWARD_MAX = 100
_TRANSIENT = {408, 425, 429, 500, 502, 503, 504}
_NO_SUCH_PAGE = {400, 404, 410, 416}


class Unavailable(Exception):
    """All attempts to fetch a page failed. The text is the reason of the last failure."""


class _NoSuchPage(Exception):
    """The server has no page of this number. WordPress answers 400 after the last page."""


class OutOfTime(Exception):
    """The next attempt would come after the deadline."""


def fetch_with_retries(
    url: str,
    headers: Mapping[str, str],
    deadline: Deadline = NEVER,
    read: Callable[[client.Response], Any] = lambda response: response,
    **limits: Any,
) -> Any:
    """Fetch a page and return `read(response)`. Repeat the request if the server is overloaded or unreachable.

    If `read` raises UnreadablePage, the request is repeated too. `limits` are those of `client.fetch`. Raises Unavailable,
    OutOfTime, ListingError for a `Retry-After` of more than RETRY_AFTER_MAX_S, and any other error of `read`.
    """
    reason = ""
    for planned_s in (*WAITS_S, None):
        wait_s = planned_s or 0.0
        try:
            response = client.fetch(url, headers, **limits)
            if response.status not in _TRANSIENT:
                return read(response)
            reason = f"the server answers {response.status}"
            wait = client.retry_after(response.headers, datetime.now(UTC))
            wait_s = wait_s if wait is None else wait.total_seconds()
            if wait_s > RETRY_AFTER_MAX_S:
                raise ListingError(f"{reason} and asks to wait {wait_s:,.0f} seconds: list again after that")
        except (Refused, TooLarge, TooManyRedirects) as error:
            raise Unavailable(str(error)) from None
        except (FetchError, UnreadablePage) as error:
            reason = str(error)
        if planned_s is None:
            break
        if wait_s >= deadline.seconds_left:
            raise OutOfTime
        time.sleep(wait_s)
    raise Unavailable(reason)


@dataclass
class Reader:
    """A single reading of a listing. `by` is the prefix of the events' delivery ids: `audit` or `import`."""

    query: Query
    by: str
    deadline: Deadline = NEVER
    # Links and cursors, and the digests of pages. They are reset when the reader goes back.
    _seen: set[str] = field(default_factory=set)
    # The number of consecutive failed pages, and of returns to an earlier page.
    _failed: int = 0
    _backward: int = 0
    # The number of the last page that did not exist, and the listing's length at that time.
    _missing: tuple[int, int | None] | None = None

    def pages(self, cursor: str | None = None) -> Iterator[Page]:
        """Yield the pages from the cursor on, or all pages. Raises ListingError.

        If the deadline ends the reading, the last page has a cursor.
        """
        at: Position | None = position_of(cursor)
        while at is not None:
            place = _place(self.query, at)
            try:
                next_at = yield from self._step(at, place)
            except OutOfTime:
                yield Page(cursor=at.text(), total=at.total)
                return
            except ListingError as error:
                raise ListingError(f"{place}: {self.query.without_secrets(str(error))}") from None
            at = next_at

    def _step(self, at: Position, place: str) -> Generator[Page, None, Position | None]:
        """Yield the page at a position, and return the position of the next. Raises ListingError and OutOfTime."""
        if self.deadline.is_over():
            raise OutOfTime
        requested_at = datetime.now(UTC)
        url, headers = self.query.request(at)
        headers["User-Agent"] = client.user_agent(self.query.site.home)
        next_at: Position | None
        try:
            answer: Answer = fetch_with_retries(url, headers, self.deadline, lambda response: self._read(response, at))
        except Unavailable as error:
            reason = self.query.without_secrets(str(error))
            self._failed += 1
            next_at = after_failure(self.query, at) if self._failed < FAILED_PAGES_MAX else None
            if next_at is None:
                raise ListingError(reason) from None
            yield Page(problems=(Problem(place, reason),), cursor=next_at.text(), total=at.total)
            return next_at
        except _NoSuchPage as error:
            next_at = self._before_missing_page(at, str(error))
            yield Page(cursor=_text(next_at), total=at.total)
            return next_at
        digest = sha256(repr(answer.items).encode(errors="surrogatepass")).hexdigest()
        if answer.items and digest in self._seen:
            raise ListingError("repeats a page that was read before: take a page number out of list.url")
        self._seen.add(digest)
        self._failed = 0
        try:
            next_at = self._after(at, answer)
        except ListingError:
            yield self._page(answer, place, requested_at, at)
            raise
        yield self._page(answer, place, requested_at, next_at)
        return next_at

    def _after(self, at: Position, answer: Answer) -> Position | None:
        """Return the page after this one, or an earlier page if articles have left the listing. Raises ListingError."""
        next_at = next_position(self.query, at, answer)
        if next_at and self.query.listing.next in ("link", "cursor"):
            if next_at.text() in self._seen:
                raise ListingError("links as the next page one that was read before")
            self._seen.add(next_at.text())
        if next_at and next_at.page <= at.page > 1:
            self._count_backward()
        return next_at

    def _before_missing_page(self, at: Position, reason: str) -> Position | None:
        """Return the page before one that does not exist: articles may have left the listing since its length was read.

        None: the same page did not exist before, in a listing of the same length. Raises ListingError.
        """
        next_at = back(self.query, at)
        if next_at is None:
            raise ListingError(reason)
        if self._missing == (at.page, at.total):
            return None
        self._missing = at.page, at.total
        self._count_backward()
        return next_at

    def _count_backward(self) -> None:
        self._seen.clear()
        self._backward += 1
        if self._backward > BACKWARD_MAX:
            raise ListingError("the number of articles keeps changing: list again when fewer of them change")

    def _read(self, response: client.Response, at: Position) -> Answer:
        """Return the answer in a response. Raises UnreadablePage, _NoSuchPage and ListingError."""
        if response.status != 200:
            hint = "check list.url: docs/how-to/audit.md has the address for each CMS"
            if response.status in (401, 403):
                hint = "give the API's key in the secret of list.secret"
            reason = f"the server answers {response.status}: {hint}"
            raise _NoSuchPage(reason) if response.status in _NO_SUCH_PAGE else ListingError(reason)
        answer = self.query.answer(response.body, response.headers)
        if not answer.items and (answer.total or 0) > at.offset:
            raise UnreadablePage(f"has no items, although the listing has {answer.total:,}")
        return answer

    def _page(self, answer: Answer, place: str, requested_at: datetime, next_at: Position | None) -> Page:
        items: list[Listed] = []
        problems: list[Problem] = []
        ignored: list[Problem] = []
        for number, item in enumerate(answer.items, 1):
            where = f"{place}, item {number}"
            try:
                outcome = self.query.item(answer, item, where, requested_at, self.by)
            except Ignored as reason:
                ignored.append(Problem(where, str(reason)))
            else:
                if isinstance(outcome, Listed):
                    items.append(outcome)
                else:
                    problems.append(outcome)
        return Page(tuple(items), tuple(problems), tuple(ignored), _text(next_at), answer.total)


def _text(position: Position | None) -> str | None:
    return position.text() if position else None


def _place(query: Query, at: Position) -> str:
    match query.listing.next:
        case "link":
            return at.url or "the first page"
        case "cursor":
            return f"the page after the cursor {at.cursor}" if at.cursor else "the first page"
    return f"page {at.page}"
