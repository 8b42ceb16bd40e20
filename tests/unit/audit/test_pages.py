"""Listings are read completely from any server: invalid items are problems with their place, and nothing loops."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from itertools import count
from typing import Any

import pytest

from stoppress.audit.pages import BACKWARD_MAX, FAILED_PAGES_MAX, RETRY_AFTER_MAX_S, WAITS_S
from stoppress.cms.listing import Query
from stoppress.cms.mapping import Listing
from stoppress.http import client
from stoppress.http.client import Response
from stoppress.http.errors import Refused, TooLarge, TooSlow
from stoppress.model.event import ListingError, Page
from stoppress.primitives.instants import Deadline
from tests.support.apis import (
    DAY,
    HOST,
    Api,
    Contentful,
    Ghost,
    Sanity,
    Strapi,
    WordPress,
    pages,
    problems,
    query,
    reply,
    slugs,
    stories,
)

BY_NUMBER = (WordPress, Ghost, Contentful, Strapi)
by_number = pytest.mark.parametrize("kind", BY_NUMBER, ids=lambda kind: kind.__name__)
TRIES = len(WAITS_S) + 1


def names(*numbers: int) -> list[str]:
    return [f"story-{n}" for n in numbers]


@pytest.fixture(autouse=True)
def waits(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Return the list of waits in seconds, which grows."""
    waited: list[float] = []
    monkeypatch.setattr("time.sleep", waited.append)
    return waited


@pytest.fixture
def serve(monkeypatch: pytest.MonkeyPatch) -> Any:
    def serve(api: Any) -> Any:
        monkeypatch.setattr(client, "fetch", api.fetch)
        return api

    return serve


def read(listing: Query, cursor: str | None = None) -> tuple[list[Page], str]:
    """Return the pages that were read, and the text of the error that ended the listing."""
    read_pages: list[Page] = []
    try:
        for page in pages(listing, cursor):
            read_pages.append(page)  # noqa: PERF402 - pages before an error count
    except ListingError as error:
        return read_pages, str(error)
    return read_pages, ""


def small(listing: Query, size: int) -> Query:
    mapping = listing.mapping
    assert mapping.listing
    shorter = mapping.listing.model_copy(update={"size": size})
    return replace(listing, mapping=mapping.model_copy(update={"listing": shorter}))


# ── pages that fail ──


class Numbered:
    """A server of numbered pages with two posts each; `failed` are the answers to some pages, by number."""

    def __init__(self, total: int, failed: dict[int, Response | Exception] | None = None) -> None:
        self.blog = WordPress(stories(2))
        self.total, self.failed = total, failed or {}
        self.requested: list[int] = []

    def fetch(self, url: str, headers: Any = None) -> Response:
        page = int(url.partition("&page=")[2].partition("&")[0])
        self.requested.append(page)
        if isinstance(answer := self.failed.get(page), Exception):
            raise answer
        if answer:
            return answer
        items = [self.blog.item(story) for story in stories(min(2, self.total - 2 * page + 2), 2 * page - 1)]
        return reply(items, x_wp_total=str(self.total))


SERVER_DOWN = Response(500, {}, b"", "")
HTML = Response(200, {"content-type": "text/html"}, b"<!doctype html><title>Maintenance</title>", "")
BAD_PAGES = {
    "500": (SERVER_DOWN, "the server answers 500"),
    "html": (HTML, "the answer is not JSON but begins with 'Maintenance'"),
    "another shape": (reply({"posts": {}}), "the answer has no list of items at 'body'"),
    "null": (reply(None), "the answer has no list of items at 'body'"),
    "cut off": (Response(200, {}, b'[{"id": 1, "li', ""), "the answer is not JSON"),
    "too deep": (Response(200, {}, b"[" * 100_000, ""), "the answer is not JSON"),
    "empty": (reply([], x_wp_total="22"), "has no items, although the listing has 22"),
    "too slow": (TooSlow("the request took too long"), "the request took too long"),
    "too large": (TooLarge("the body is larger than 10,000,000 bytes"), "the body is larger than 10,000,000 bytes"),
}


@pytest.mark.parametrize(("response", "reason"), BAD_PAGES.values(), ids=BAD_PAGES)
def test_a_page_that_cannot_be_read_is_a_problem_and_the_rest_is_read(serve: Any, response: Any, reason: str) -> None:
    serve(Numbered(22, {10: response}))

    every_page = list(pages(query(WordPress())))

    assert slugs(every_page) == names(*range(1, 19), 21, 22)
    [(place, text)] = problems(every_page)
    assert place == "page 10"
    assert text.startswith(reason)


@pytest.mark.parametrize("response", [SERVER_DOWN, HTML], ids=["500", "html"])
def test_a_page_that_fails_once_is_read_in_the_next_attempt(serve: Any, waits: list[float], response: Any) -> None:
    api = serve(WordPress(stories(25)))
    api.answers = {1: response, 2: response}

    every_page = list(pages(small(query(api), 10)))

    assert slugs(every_page) == names(*range(1, 26))
    assert problems(every_page) == []
    assert waits == [*WAITS_S[:2]]


def test_a_permanent_error_is_not_retried(serve: Any, waits: list[float]) -> None:
    api = serve(
        Numbered(10, {2: TooLarge("the body is larger than 10,000,000 bytes"), 4: Refused("10.0.0.1 is not public")})
    )

    every_page = list(pages(query(WordPress())))

    assert [place for place, _ in problems(every_page)] == ["page 2", "page 4"]
    assert (api.requested, waits) == ([1, 2, 3, 4, 5], [])


def test_consecutive_failed_pages_end_the_listing(serve: Any) -> None:
    serve(Numbered(100, dict.fromkeys(range(2, 50, 2), SERVER_DOWN)))  # with good ones between
    every_page = list(pages(query(WordPress())))
    assert (len(slugs(every_page)), len(problems(every_page))) == (52, 24)

    api = serve(Numbered(100, dict.fromkeys(range(4, 60), SERVER_DOWN)))
    read_pages, error = read(query(WordPress()))
    assert slugs(read_pages) == names(*range(1, 7))
    assert error == f"page {3 + FAILED_PAGES_MAX}: the server answers 500"
    assert len(api.requested) == 3 + FAILED_PAGES_MAX * TRIES


def test_a_failed_page_in_a_listing_by_cursor_ends_it_with_its_number(serve: Any) -> None:
    api = serve(Sanity(stories(25)))
    api.answers = dict.fromkeys(range(1, 1 + TRIES), SERVER_DOWN)
    listing = small(query(api), 10)

    read_pages, error = read(listing)

    assert error == "the page after the cursor a00000010: the server answers 500"
    assert slugs([*read_pages, *pages(listing, read_pages[-1].cursor)]) == names(*range(1, 26))


@pytest.mark.parametrize(
    ("status", "hint"),
    [
        *((status, "give the API's key in the secret of list.secret") for status in (401, 403)),
        *((status, "check list.url") for status in (400, 404, 204, 301)),
    ],
)
def test_a_permanent_error_of_the_server_ends_the_listing_with_a_hint(
    serve: Any, waits: list[float], status: int, hint: str
) -> None:
    api = serve(WordPress(stories(1)))
    api.answers[0] = Response(status, {}, b"", "")

    read_pages, error = read(query(api))

    assert read_pages == []
    assert error.startswith(f"page 1: the server answers {status}: {hint}")
    assert (len(api.requests), waits) == (1, [])


# ── Retry-After ──


@pytest.mark.parametrize(("status", "text", "waited"), [(429, "90", 90), (503, "0", 0), (429, "soon", 1)])
def test_the_wait_follows_retry_after(serve: Any, waits: list[float], status: int, text: str, waited: float) -> None:
    api = serve(WordPress(stories(1)))
    api.answers[0] = Response(status, {"retry-after": text}, b"", "")

    assert slugs(pages(query(api))) == ["story-1"]
    assert waits == [waited]


@pytest.mark.parametrize("text", ["601", "9" * 400, "Fri, 31 Dec 2100 23:59:59 GMT"])
def test_a_long_retry_after_ends_the_run_and_the_listing_can_continue(
    serve: Any, waits: list[float], text: str
) -> None:
    api = serve(WordPress(stories(25)))
    api.answers[1] = Response(429, {"retry-after": text}, b"", "")
    listing = small(query(api), 10)

    read_pages, error = read(listing)

    assert slugs(read_pages) == names(*range(1, 11))
    assert error.startswith("page 2: the server answers 429 and asks to wait ")
    assert (len(api.requests), waits) == (2, [])
    assert slugs(pages(listing, read_pages[-1].cursor)) == names(*range(11, 26))
    assert RETRY_AFTER_MAX_S == 600


# ── deadline and continuation ──


def one_look() -> Deadline:
    """Return a deadline that has passed at its second check; there is a check before each page."""
    looks = count()
    return Deadline(lambda: 0 if next(looks) else 1_000)


def test_at_the_deadline_the_listing_ends_and_can_continue(serve: Any) -> None:
    for kind in (*BY_NUMBER, Sanity):
        api = serve(kind(stories(45)))
        listing, cursor, read_pages = small(query(api), 10), None, list[Page]()
        for _ in range(20):
            part = list(pages(listing, cursor, one_look()))
            read_pages += part
            cursor = part[-1].cursor
            if cursor is None:
                break
        assert slugs(read_pages) == names(*range(1, 46)), kind
        assert len(api.requests) <= 6


@pytest.mark.parametrize(("left_ms", "pages_read", "requests"), [(0, 0, 0), (60_000, 1, 2)])
def test_a_deadline_before_a_request_or_a_wait_leaves_a_cursor(
    serve: Any, waits: list[float], left_ms: int, pages_read: int, requests: int
) -> None:
    api = serve(WordPress(stories(25)))
    api.answers[1] = Response(503, {"retry-after": "300"}, b"", "")
    listing = small(query(api), 10)

    read_pages = list(pages(listing, None, Deadline(lambda: left_ms)))

    assert slugs(read_pages) == names(*range(1, 10 * pages_read + 1))
    assert (problems(read_pages), waits, len(api.requests)) == ([], [], requests)
    api.answers.clear()
    assert slugs(pages(listing, read_pages[-1].cursor)) == names(*range(10 * pages_read + 1, 26))


# ── a listing that changes while it is read ──


@by_number
@pytest.mark.parametrize(("deleted", "at"), [(1, 1), (5, 2), (30, 3), (30, 4)])
def test_articles_that_are_removed_during_a_listing_hide_no_other(
    serve: Any, kind: type[Api], deleted: int, at: int
) -> None:
    api = serve(kind(stories(50)))

    def leave(number: int) -> None:
        if number == at:
            api.stories = api.stories[deleted:]

    api.before = leave

    assert {*names(*range(deleted + 1, 51))} <= {*slugs(pages(small(query(api), 10)))}


@by_number
def test_an_edited_article_leaves_the_period_and_a_new_one_is_appended(serve: Any, kind: type[Api]) -> None:
    api = serve(kind(stories(50)))
    until = DAY + timedelta(days=1)

    def edit(number: int) -> None:
        if number == 2:
            api.stories[:3] = [replace(story, updated_at=until + timedelta(hours=1)) for story in api.stories[:3]]

    api.before = edit
    assert {*slugs(pages(small(query(api, DAY, until), 10)))} == {*names(*range(1, 51))}

    api = serve(kind(stories(25)))
    api.before = lambda number: api.stories.extend(stories(3, 26)) if number == 1 else None
    assert slugs(pages(small(query(api), 10))) == names(*range(1, 29))


def test_a_listing_that_loses_articles_on_every_page_ends(serve: Any) -> None:
    api = serve(WordPress(stories(400)))
    api.before = lambda number: api.stories.pop(0) if number > 20 else None

    read_pages, error = read(small(query(api), 1))

    assert "the number of articles keeps changing: list again when fewer of them change" in error
    assert len(read_pages) < 20 + 3 * BACKWARD_MAX


# ── servers that return short or repeated pages ──


class Odd(WordPress):
    """Returns fewer posts a page than requested (`shy`), omits posts that it counts, as a plugin for members does
    (`secretive`), returns no total (`silent`), or always the first page (`deaf`).
    """

    manner = ""

    def answer(self, query: dict[str, str], headers: Any) -> Response:
        query |= {"shy": {"per_page": "40"}, "deaf": {"page": "1"}}.get(self.manner, {})
        response = super().answer(query, headers)
        posts = json.loads(response.body)
        if self.manner == "secretive" and isinstance(posts, list):
            posts = [post for post in posts if post["id"] % 7]
        if self.manner == "silent":
            response.headers.pop("x-wp-total", None)
        return replace(response, body=json.dumps(posts).encode())


@pytest.mark.parametrize(
    ("manner", "posts", "requests", "end"),
    [
        ("shy", 250, 7, ""),
        ("secretive", 300, 7, ""),
        ("silent", 200, 5, ""),  # page 3 is a 400, and page 2 has not changed
        ("deaf", 250, 2, "page 2: repeats a page that was read before: take a page number out of list.url"),
    ],
)
def test_a_server_that_returns_short_pages_is_read_to_the_end(
    serve: Any, manner: str, posts: int, requests: int, end: str
) -> None:
    api = serve(Odd(stories(posts)))
    api.manner = manner
    read_pages, error = read(query(api))

    expected = range(1, 101 if end else posts + 1)
    assert {*slugs(read_pages)} == {*names(*(n for n in expected if manner != "secretive" or n % 7))}
    assert (problems(read_pages), error) == ([], end)
    assert len(api.requests) <= requests


@pytest.mark.parametrize("kind", [*BY_NUMBER, Sanity], ids=lambda kind: kind.__name__)
def test_an_empty_listing_has_one_empty_page(serve: Any, kind: type[Api]) -> None:
    api = serve(kind([]))
    [page] = pages(query(api))

    assert (page.items, page.problems, page.cursor, len(api.requests)) == ((), (), None, 1)


class Linked:
    """A blog whose pages follow one another by `Link` headers, as in `links`: from each path to the next."""

    def __init__(self, links: dict[str, str]) -> None:
        self.links, self.requests = links, list[tuple[str, Any]]()

    def fetch(self, url: str, headers: Any = None) -> Response:
        self.requests.append((url, headers))
        path = url.partition(HOST)[2].partition("?")[0]
        number = sum(map(ord, path))
        target = self.links.get(path)
        link = f'<{target}>; rel="next"' if target else ""
        return reply([WordPress().item(story) for story in stories(1, number)], link=link)

    def query(self) -> Query:
        listing = query(WordPress(), url=f"https://{HOST}/a")
        assert listing.mapping.listing
        by_link = Listing.model_validate(listing.mapping.listing.model_dump() | {"next": "link", "total": None})
        return replace(listing, mapping=listing.mapping.model_copy(update={"listing": by_link}))


def test_pages_follow_the_link_header_to_the_end(serve: Any) -> None:
    api = serve(Linked({"/a": "/b", "/b": f"https://{HOST}/c"}))

    assert slugs(pages(api.query())) == names(ord("/") + ord("a"), ord("/") + ord("b"), ord("/") + ord("c"))
    assert all("authorization" in headers for _, headers in api.requests)


@pytest.mark.parametrize(("lead", "length"), [(0, 1), (1, 2), (40, 3), (0, 50)])
def test_a_loop_of_link_headers_ends(serve: Any, lead: int, length: int) -> None:
    paths = [f"/{'x' * n}" for n in range(1, lead + length + 1)]
    links = {"/a": paths[0], **dict(zip(paths, [*paths[1:], paths[lead]], strict=True))}
    api = serve(Linked(links))

    read_pages, error = read(api.query())

    assert "that was read before" in error
    assert {*slugs(read_pages)} >= {*names(*(sum(map(ord, path)) for path in paths))}
    assert len(api.requests) < 5 * (lead + length + 2)


@pytest.mark.parametrize(
    "target",
    ["https://evil.example.net/b", "//evil.example.net/b", f"http://{HOST}/b", f"https://{HOST}:8443/b", f"https://{HOST}@evil.example.net/"],
)  # fmt: skip
def test_the_key_is_sent_to_no_other_server_and_the_page_before_is_kept(serve: Any, target: str) -> None:
    api = serve(Linked({"/a": target}))

    read_pages, error = read(api.query())

    assert len(slugs(read_pages)) == 1
    assert error.startswith("the first page: the next page is at ")
    assert error.endswith("on another server than list.url: give that server in list.url")
    assert [url.startswith(f"https://{HOST}/a?") for url, _ in api.requests] == [True]


def test_a_cursor_for_another_server_is_refused(serve: Any) -> None:
    api = serve(Linked({}))

    assert "another server" in read(api.query(), '{"url": "https://evil.example.net/b"}')[1]
    assert api.requests == []


# ── items ──


def test_a_rejected_item_has_its_place_and_reason(serve: Any) -> None:
    class Mixed(WordPress):
        def item(self, story: Any) -> dict[str, Any]:
            others: dict[int, dict[str, Any]] = {102: {"type": "page"}, 117: {"title": None}}
            return super().item(story) | others.get(story.number, {})

    every_page = list(pages(query(serve(Mixed(stories(120))))))

    assert problems(every_page) == [("page 2, item 17", "title: is missing")]
    ignored = [(each.place, each.reason) for page in every_page for each in page.ignored]
    assert ignored == [("page 2, item 2", "of a post type that is no article")]
    assert slugs(every_page) == names(*(n for n in range(1, 121) if n not in (102, 117)))


def test_an_article_is_received_at_the_request_of_its_page(serve: Any) -> None:
    before = datetime.now(UTC)
    api = serve(WordPress(stories(1)))
    requested: list[datetime] = []
    api.before = lambda number: requested.append(datetime.now(UTC))

    [page] = pages(query(api))

    [item] = page.items
    assert item.event.received_at
    assert before <= item.event.received_at <= requested[0]


def test_an_error_does_not_show_the_key(serve: Any) -> None:
    class Moved(Ghost):
        def fetch(self, url: str, headers: Any = None, **_: Any) -> Response:
            raise Refused(f"{url} redirects from https to http://{HOST}/")

    read_pages, error = read(query(serve(Moved(stories(1))), key="se/cret"))

    assert read_pages == []
    assert "redirects from https" in error
    assert "cret" not in error
