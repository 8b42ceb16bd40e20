"""Read a listing page by page, with one page in memory.

A page that fails is asked for again. If it keeps failing and pages have numbers, it becomes a problem and the next page is read.
Nothing is asked for without end: a page that repeats the one before, and positions that go round in a circle, end the listing.
"""

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from hashlib import sha256
from typing import Any

from stoppress.cms.listing import Answer, Ignored, Position, Query, after_failure, next_position, position_of
from stoppress.http import client
from stoppress.http.errors import FetchError
from stoppress.model.listed import Listed, ListingError, Page, Problem
from stoppress.primitives.deadline import NEVER, Deadline

# The waits between the attempts to get a page, in seconds. A `Retry-After` of the server overrides them.
WAITS_S = (1.0, 4.0, 16.0)
# A longer `Retry-After` means that the server does not want to be asked now.
RETRY_AFTER_MAX_S = 600.0
# After so many failed pages one after the other the server is down, not the page broken.
FAILED_PAGES_MAX = 3
# How often a listing goes back to an earlier page because articles were deleted meanwhile.
BACKWARD_MAX = 100
_PASSING = {408, 425, 429, 500, 502, 503, 504}


class Unavailable(Exception):
    """No attempt to fetch a page had an answer that is worth reading. The text is the reason."""


def fetch_patiently(url: str, headers: Mapping[str, str], deadline: Deadline = NEVER, **limits: Any) -> client.Response:
    """Fetch a page in several attempts, if the server is overloaded or cannot be reached. Raises Unavailable.

    `limits` are those of `client.fetch`.
    """
    reason = ""
    for planned_s in (*WAITS_S, None):
        asked_s: float | None = None
        try:
            response = client.fetch(url, headers, **limits)
        except FetchError as error:
            reason = str(error)
        else:
            if response.status not in _PASSING:
                return response
            reason = f"the server answers {response.status}"
            asked_s = _retry_after_s(response.headers.get("retry-after", ""), datetime.now(UTC))
        wait_s = planned_s if asked_s is None else asked_s
        if planned_s is None or wait_s is None or wait_s > min(RETRY_AFTER_MAX_S, deadline.seconds_left):
            break
        time.sleep(wait_s)
    raise Unavailable(reason)


@dataclass
class _Circle:
    """Notices positions or pages that come again, with a memory of two of them (Brent's algorithm)."""

    steps: int = 0
    power: int = 1
    marks: list[str] = field(default_factory=list)

    def closes_at(self, mark: str) -> bool:
        if self.marks and mark in self.marks:
            return True
        self.steps += 1
        if not self.marks or self.steps == self.power:
            self.marks, self.steps, self.power = [mark], 0, self.power * 2
        return False


@dataclass
class Reader:
    """Asks a source for the pages of a listing. `by` is the beginning of the events' delivery ids: who lists."""

    query: Query
    by: str
    deadline: Deadline = NEVER

    def pages(self, cursor: str | None = None) -> Iterator[Page]:
        """The pages from the cursor on; without one, all. Raises ListingError.

        If the deadline ends the reading, the last page has a cursor.
        """
        at: Position | None = position_of(cursor)
        circle, failed, backward = _Circle(), 0, 0
        before = ""
        while at is not None and not self.deadline.is_over():
            asked_at = datetime.now(UTC)
            place = _place(self.query, at)
            try:
                answer = self._answer(at, place)
            except Unavailable as error:
                failed += 1
                following = after_failure(self.query, at) if failed < FAILED_PAGES_MAX else None
                if following is None:
                    raise ListingError(f"{place}: {error}") from None
                yield Page(problems=(Problem(place, str(error)),), cursor=following.text(), total=at.total)
                at = following
                continue
            failed = 0
            digest = sha256(repr(answer.items).encode()).hexdigest()
            if answer.items and digest == before:
                raise ListingError(f"{place}: repeats the page before it")
            before = digest
            following = next_position(self.query, at, answer)
            if following and following.page == 1 and circle.closes_at(following.text()):
                raise ListingError(f"{place}: names a page that was read before as the next")
            if following and following.page <= at.page > 1:
                backward += 1
                if backward > BACKWARD_MAX:
                    raise ListingError(f"{place}: the number of articles keeps changing: list again at a quieter time")
            yield self._page(answer, place, asked_at, following)
            at = following

    def _answer(self, at: Position, place: str) -> Answer:
        """Raises ListingError, and Unavailable if the page may be skipped."""
        url, headers = self.query.request(at)
        headers["User-Agent"] = client.user_agent(self.query.site.home)
        response = fetch_patiently(url, headers, self.deadline)
        if response.status != 200:
            raise ListingError(f"{place}: the server answers {response.status}: {_hint(response.status)}")
        try:
            return self.query.answer(response.body, response.headers)
        except ListingError as error:
            raise ListingError(f"{place}: {error}") from None

    def _page(self, answer: Answer, place: str, asked_at: datetime, following: Position | None) -> Page:
        items: list[Listed] = []
        problems: list[Problem] = []
        ignored: list[Problem] = []
        for number, item in enumerate(answer.items, 1):
            where = f"{place}, item {number}"
            try:
                taken = self.query.item(answer, item, where, asked_at, self.by)
            except Ignored as reason:
                ignored.append(Problem(where, str(reason)))
            else:
                if isinstance(taken, Listed):
                    items.append(taken)
                else:
                    problems.append(taken)
        cursor = following.text() if following else None
        return Page(tuple(items), tuple(problems), tuple(ignored), cursor, answer.total)


def _place(query: Query, at: Position) -> str:
    match query.listing.next:
        case "link":
            return at.url or "the first page"
        case "cursor":
            return f"the page behind {at.cursor}" if at.cursor else "the first page"
    return f"page {at.page}"


def _hint(status: int) -> str:
    if status in (401, 403):
        return "give the API's key in the secret that list.secret names"
    return "compare list.url with the adapter's part of the reference"


def _retry_after_s(text: str, now: datetime) -> float | None:
    """The seconds that a `Retry-After` header asks to wait: a number or a date; None if it asks nothing readable."""
    if text.strip().isdigit():
        return float(text)
    try:
        return max(0.0, (parsedate_to_datetime(text) - now).total_seconds())
    except (ValueError, TypeError):
        return None
