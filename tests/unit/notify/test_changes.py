"""The changes between two versions of a file."""

from datetime import UTC, datetime, timedelta

import pytest

from stoppress.notify.changed_files import find_changes
from stoppress.notify.page_state import GONE, PageState

NOW = datetime(2026, 11, 20, 8, tzinfo=UTC)
HOUR = timedelta(hours=1)
LONG_AGO = NOW - 1_000 * HOUR
HOME = "https://www.example.com/"


def page(name: str, lastmod: datetime | None = None, published: datetime | None = None) -> str:
    date = f"<lastmod>{lastmod:%Y-%m-%dT%H:%M:%SZ}</lastmod>" if lastmod else ""
    news = (
        f"<news:news><news:publication_date>{published:%Y-%m-%dT%H:%M:%SZ}</news:publication_date></news:news>"
        if published
        else ""
    )
    return f"<url><loc>{HOME}{name}</loc>{date}{news}</url>"


def file(*pages: str) -> bytes:
    return "\n".join(["<urlset>", *pages, "</urlset>"]).encode()


def versions(before: bytes | None, after: bytes, began: datetime = LONG_AGO) -> list[tuple[str, str]]:
    return [(change.url.removeprefix(HOME), change.version) for change in find_changes(before, after, HOME, began, NOW)]


# By case: the pages of a version, the pages of the next one, and the changes.
CASES: dict[str, tuple[list[str], list[str], list[tuple[str, str]]]] = {
    "a new page and one with a new lastmod": (
        [page("same", NOW - HOUR), page("edited", NOW - 2 * HOUR)],
        [page("same", NOW - HOUR), page("edited", NOW - HOUR), page("new", NOW)],
        [("edited", "2026-11-20T07:00:00Z"), ("new", "2026-11-20T08:00:00Z")],
    ),
    "an archive that is imported or edited in old times": (
        [page("edited", NOW - 100 * HOUR)],
        [page("edited", NOW - 90 * HOUR), page("imported", NOW - 49 * HOUR), page("late", NOW - 47 * HOUR)],
        [("late", "2026-11-18T09:00:00Z")],
    ),
    "pages that left, one of them after its two days": (
        [page("removed", NOW, NOW - HOUR), page("expired", NOW - 48 * HOUR, NOW - 48 * HOUR)], [], [("removed", GONE)],
    ),
    "the home page, which an empty file lists": ([page("a", NOW)], [page("")], [("a", GONE)]),
    "a page in a file that was empty": ([page("")], [page("a", NOW)], [("a", "2026-11-20T08:00:00Z")]),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_these_pages_have_changed_between_two_versions(case: str) -> None:
    before, after, changed = CASES[case]
    assert versions(file(*before), file(*after)) == changed


def test_a_url_has_the_form_of_a_browsers_request_and_keeps_its_date() -> None:
    [change] = find_changes(file(), file(page("a?b=1&amp;c=%C3%A9", NOW, NOW - HOUR)), HOME, LONG_AGO, NOW)
    assert change == PageState(f"{HOME}a?b=1&c=%C3%A9", "2026-11-20T08:00:00Z", NOW, NOW - HOUR)


def test_without_an_earlier_version_only_pages_newer_than_the_start_count() -> None:
    after = file(page("before", NOW - 2 * HOUR), page("since", NOW), page("undated"))
    assert versions(None, after, began=NOW - HOUR) == [("since", "2026-11-20T08:00:00Z")]


def test_a_page_without_dates_counts_as_new_once() -> None:
    [(name, version)] = versions(file(), file(page("undated")))
    assert name == "undated"
    assert len(version) == 16
    assert versions(file(page("undated")), file(page("undated"))) == []
