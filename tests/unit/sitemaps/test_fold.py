"""Folding a change into a file returns the bytes of a full rendering, or reports that it cannot fold."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings, strategies as st

from stoppress.model.entries import Alternate, GeneralEntry, Mark, NewsEntry, Traits
from stoppress.model.news_window import window_end
from stoppress.model.site import Edition, Page, Rule, Site, Voice
from stoppress.model.site_parts import Outputs
from stoppress.primitives.instants import iso
from stoppress.sitemaps import fold, render
from stoppress.sitemaps.fold import fold_general, fold_index, fold_news
from stoppress.sitemaps.render import Rendered, render_general, render_index, render_news
from stoppress.sitemaps.tags import RENDERER, general_line, index_line, news_line
from tests.support.article_events import HOST, MORNING, SITE, page

HOUR, SECOND = timedelta(hours=1), timedelta(seconds=1)
PATHS = ["", "a", "a?b=1&c=2", "a'b", "a&b", "a%26b", "a&amp;b", "sponsored/a", "fr/a", "zoo", "%E2%98%83", "about"]
LOCS = st.sampled_from([page(path) for path in PATHS])
MOMENTS = st.integers(-50, 60).map(lambda hours: MORNING + hours * HOUR)
TRAITS = st.builds(Traits, section=st.sampled_from([None, "sport", "horoscope"]), keywords=st.just(("a & b",)))
VIDEO = (
    ("thumbnail_loc", "https://img.example.com/v.jpg"),
    ("title", "<v>"),
    ("description", "of & about"),
    ("content_loc", "https://img.example.com/v.mp4"),
)
GENERAL = st.builds(
    GeneralEntry,
    LOCS,
    st.none() | MOMENTS,
    TRAITS,
    images=st.sampled_from([(), ("https://img.example.com/1.jpg?a=1&b=2",)]),
    videos=st.sampled_from([(), (VIDEO,)]),
    # Rare, so that most files can be folded into for a while.
    alternates=st.sampled_from([(), (), (), (), (), (Alternate("fr", page("fr/a")),)]),
    changefreq=st.sampled_from([None, "daily"]),
)
NEWS = st.builds(
    NewsEntry,
    LOCS,
    st.sampled_from(["Flood", "Fish & <chips>", "雪 \U0001f30a"]),
    MOMENTS,
    st.none() | MOMENTS,
    st.sampled_from([None, "Other & News"]),
    st.sampled_from([None, "fr"]),
    TRAITS,
)
SITES = st.sampled_from(
    [
        SITE,
        SITE.model_copy(update={"scheme": "http"}),
        Site(
            host=HOST,
            publication="Example News",
            rules=(Rule(path="/sponsored/*"), Rule(exclude="news", section="horoscope")),
            sections={"sport": Voice(publication="Example Sport")},
            editions=(Edition(prefix="/fr", language="fr", news="fr"),),
            pages=(Page(url="/about"),),
            write=("keywords", "changefreq"),
            outputs=Outputs(gzip=True),
        ),
    ]
)
# The changes in a batch of the stream: present entries, and keys of deleted ones.
Changes = list[tuple[Any, bool]]


def some(entries: st.SearchStrategy[Any]) -> st.SearchStrategy[list[Changes]]:
    return st.lists(st.lists(st.tuples(entries, st.booleans()), min_size=1, max_size=4), min_size=2, max_size=12)


def agree(folded: Rendered | None, whole: Rendered) -> None:
    if folded is not None:
        assert folded.body.decode() == whole.body.decode()
        assert (folded.urls, folded.by_line) == (whole.urls, whole.by_line)


@pytest.mark.matrix
@settings(max_examples=100)
@given(SITES, some(GENERAL))
def test_a_folded_shard_equals_the_shard_of_all_its_entries(site: Site, batches: list[Changes]) -> None:
    entries: dict[str, GeneralEntry] = {}
    stored = render_general([], site)
    for batch in batches:
        for entry, there in batch:
            entries.pop(entry.loc, None)
            if there:
                entries[entry.loc] = entry
        changed = {entry.loc: entries.get(entry.loc) for entry, _ in batch}
        whole = render_general(entries.values(), site)
        if stored.by_line:
            agree(fold_general(stored.body, changed, site), whole)
        stored = whole


@pytest.mark.matrix
@settings(max_examples=100)
@given(SITES, some(NEWS), st.lists(st.integers(0, 30), min_size=12, max_size=12))
def test_a_folded_news_sitemap_equals_the_one_of_all_its_entries(
    site: Site, batches: list[Changes], hours: list[int]
) -> None:
    entries: dict[str, NewsEntry] = {}
    now = MORNING - 48 * HOUR
    stored = render_news([], site, now)
    for batch, passed in zip(batches, hours, strict=False):
        now += passed * HOUR
        changed: dict[tuple[str, str], NewsEntry | None] = {}
        for entry, there in batch:
            # A page has one entry. A new date makes another entry, and the changes contain both.
            if before := entries.pop(entry.loc, None):
                changed[iso(before.published), entry.loc] = None
            changed[iso(entry.published), entry.loc] = None
            if there:
                entries[entry.loc] = entry
                changed[iso(entry.published), entry.loc] = entry
        whole = render_news(entries.values(), site, now)
        if stored.by_line:
            agree(fold_news(stored.body, changed, site, now), whole)
        stored = whole


FILES = [
    "sitemap-news.xml",
    "sitemap-2026-11.xml",
    "sitemap-2026-11-2.xml",
    "sitemap-2026-11-20.xml",
    "sitemap-pages.xml",
]
MARKS = st.builds(
    lambda file, changed, urls, packed: Mark(file, changed, urls, 1, "", (f"{file}.gz",) if packed else ()),
    st.sampled_from(FILES),
    MOMENTS,
    st.integers(0, 2),
    st.booleans(),
)


@settings(max_examples=100)
@given(SITES, some(MARKS))
def test_a_folded_index_equals_the_index_of_all_marks(site: Site, batches: list[Changes]) -> None:
    marks: dict[str, Mark] = {}
    stored = render_index([], site)
    for batch in batches:
        for mark, there in batch:
            marks.pop(mark.file, None)
            if there:
                marks[mark.file] = mark
        whole = render_index(marks.values(), site)
        if stored.by_line:
            agree(fold_index(stored.body, {mark.file: marks.get(mark.file) for mark, _ in batch}, site), whole)
        stored = whole


def test_only_the_changed_line_is_rendered_again() -> None:
    stored = render_general([GeneralEntry(page(path)) for path in "abc"], SITE)
    folded = fold_general(stored.body, {page("b"): GeneralEntry(page("b"), MORNING), page("c"): None}, SITE)

    assert folded
    assert folded.urls == 2
    assert folded.newest == MORNING
    assert folded.fresh == render_general([GeneralEntry(page("b"), MORNING)], SITE).body


@pytest.mark.parametrize(("before", "after"), [("a", "%61"), ("%61", "a"), ("%c3%a9", "%C3%A9")])
def test_a_page_with_a_new_spelling_is_listed_once(before: str, after: str) -> None:
    stored = render_general([GeneralEntry(page(before)), GeneralEntry(page("b"))], SITE)
    now = GeneralEntry(page(after))

    agree(fold_general(stored.body, {now.loc: now}, SITE), render_general([now, GeneralEntry(page("b"))], SITE))


@pytest.mark.parametrize("added", [0, 1])
def test_a_full_index_is_not_folded(monkeypatch: pytest.MonkeyPatch, added: int) -> None:
    marks = [Mark(file, MORNING, 1, 1, "") for file in FILES[:3]]
    monkeypatch.setattr(fold, "INDEX_FILES_URGENT", 2 - added)
    body = render_index(marks[: 3 - added], SITE).body

    assert fold_index(body, {marks[2].file: marks[2]}, SITE) is None


@pytest.mark.parametrize(("limit", "value"), [("NEWS_ENTRIES_MAX", 2), ("BYTES_MAX", 800)])
def test_a_file_that_would_be_too_large_is_not_folded(monkeypatch: pytest.MonkeyPatch, limit: str, value: int) -> None:
    """A changed URL is two records, and the deletion may be in another batch."""
    entries = {name: NewsEntry(page(name), f"Story {name}", MORNING) for name in "abc"}
    body = render_news([entries["a"], entries["b"]], SITE, MORNING + HOUR).body
    added = {(iso(MORNING), page("c")): entries["c"]}
    whole = fold_news(body, added, SITE, MORNING + HOUR)
    assert whole
    assert len(body) < 800 < len(whole.body)

    for module in (render, fold):
        monkeypatch.setattr(module, limit, value, raising=False)
    assert fold_news(body, added, SITE, MORNING + HOUR) is None
    assert fold_news(body, added | {(iso(MORNING), page("a")): None}, SITE, MORNING + HOUR)


def test_an_entry_that_leaves_the_window_is_dropped_at_the_next_change() -> None:
    old, new = NewsEntry(page("a"), "Flood", MORNING), NewsEntry(page("b"), "Storm", MORNING + HOUR)
    stored = render_news([old, new], SITE, MORNING + HOUR).body
    expiry = window_end(old.published)
    for now, listed in ((expiry - SECOND / 2, 2), (expiry, 1), (expiry + SECOND / 2, 1)):
        folded = fold_news(stored, {(iso(new.published), new.loc): new}, SITE, now)
        assert folded
        assert folded.urls == listed == render_news([old, new], SITE, now).urls


def test_a_changed_line_format_needs_a_new_renderer_version() -> None:
    """A failure means a new line format: raise RENDERER, so that no file mixes both formats."""
    rich = GeneralEntry(page("a?b=1&c=2"), MORNING, images=("https://img.example.com/1.jpg",), videos=(VIDEO,))
    article = NewsEntry(page("a"), "Fish & <chips>", MORNING, MORNING, "Other", "fr")
    lines = [
        general_line(rich, SITE),
        news_line(article, SITE),
        index_line(Mark("sitemap-2026-11.xml", MORNING, 1, 1, ""), SITE),
    ]
    golden = Path(__file__).parents[3] / "tests/fixtures/golden" / f"lines-of-renderer-{RENDERER}.txt"

    assert "\n".join([*lines, ""]) == golden.read_text(encoding="utf-8")
