"""Pages list each other as language versions, in any order of the events."""

from collections.abc import Mapping
from dataclasses import replace
from datetime import timedelta
from itertools import permutations

import pytest

from stoppress.model.alternates import ALTERNATES_MAX
from stoppress.model.article import FORGOTTEN, Known
from stoppress.model.entries import Alternate
from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from stoppress.primitives.text import LANGUAGES
from stoppress.record.decide import decide
from stoppress.record.versions import is_version, mutual_hosts
from tests.support.article_events import HOST, MORNING, SITE, DecidedTable, page, publish, remove

MINUTE = timedelta(minutes=1)


def version(path: str, lists: str = "", minute: int = 0, language: str = "", **changes: object) -> ArticleEvent:
    """Return the event of a page that lists other pages, such as `fr de=de-2`. Its default language is its name."""
    named = [pair.partition("=") for pair in lists.split()]
    alternates = tuple(Alternate(code, page(other or code)) for code, _, other in named)
    at = MORNING + minute * MINUTE
    values = {"article": path, "path": path, "timestamp": at, "received_at": at, "alternates": alternates}
    return publish(**(values | {"language": language or path[:2]} | changes))  # type: ignore[arg-type]


def listed(table: DecidedTable) -> dict[str, str]:
    """Return the links of each page, as codes and paths: `de=de-2 fr`."""
    links = {}
    for entry in table.general.values():
        codes = {link.hreflang: link.href.removeprefix(page("")) for link in entry.alternates}
        shown = " ".join(code if code == path else f"{code}={path}" for code, path in codes.items())
        links[entry.loc.removeprefix(page(""))] = shown
    for (_, url, _), news in table.news.items():
        [general] = [entry for (_, other), entry in table.general.items() if other == url]
        assert news.alternates == general.alternates
    return dict(sorted(links.items()))


EN, FR, DE = version("en", "fr de"), version("fr", "en de"), version("de", "en fr")
ALL = {"de": "de en fr", "en": "de en fr", "fr": "de en fr"}
CASES: dict[str, tuple[list[ArticleEvent], Mapping[str, str]]] = {
    "each lists the others": ([EN, FR, DE], ALL),
    "one lists the others": ([EN, version("fr"), version("de")], {"de": "de en", "en": "de en fr", "fr": "en fr"}),
    "a page that was never seen stays listed": ([EN, FR], {"en": "de en fr", "fr": "de en fr"}),
    "a page of another host stays listed": (
        [version("en", alternates=(Alternate("fr", "https://a.example.org/fr"),))],
        {"en": "en fr=https://a.example.org/fr"},
    ),
    "a page that was removed leaves": ([EN, FR, DE, remove("de", url=page("de"))], {"en": "en fr", "fr": "en fr"}),
    "a page that is not to be indexed leaves": (
        [EN, FR, DE, version("de", minute=1, noindex=True)],
        {"en": "en fr", "fr": "en fr"},
    ),
    "a page that comes back is listed again": (
        [EN, FR, DE, remove("de", url=page("de")), version("de", "en fr", minute=2)],
        ALL,
    ),
    "a page no longer lists another": (
        [version("en", "fr"), version("fr"), version("en", minute=1)],
        {"en": "", "fr": ""},
    ),
    "its own page counts": (
        [version("en", "fr=fr-1"), version("fr-1"), version("fr-2", "en")],
        {"en": "en fr=fr-1", "fr-1": "en fr=fr-1", "fr-2": ""},
    ),
    "of two pages of one language the first by its URL counts": (
        [version("en"), version("fr-2", "en"), version("fr-1", "en")],
        {"en": "en fr=fr-1", "fr-1": "en fr=fr-1", "fr-2": ""},
    ),
    "the next page takes the place of one that left": (
        [version("en"), version("fr-2", "en"), version("fr-1", "en"), remove("fr-1", url=page("fr-1"))],
        {"en": "en fr=fr-2", "fr-2": "en fr=fr-2"},
    ),
    "a page in its own language is no version": (
        [version("en", "fr en=en-2"), version("en-2"), version("fr")],
        {"en": "en fr", "en-2": "", "fr": "en fr"},
    ),
    "a page keeps the code that it gives itself": (
        [version("en", "en-GB=en en-US=en-2"), version("en-2", "en-US=en-2 en-GB=en")],
        {"en": "en-GB=en en-US=en-2", "en-2": "en-GB=en en-US=en-2"},
    ),
    "one page in two languages": (
        [version("en", "en en-GB=en fr"), version("fr")],
        {"en": "en en-GB=en fr", "fr": "en fr"},
    ),
    "the default is last": ([version("en", "x-default=en fr")], {"en": "en fr x-default=en"}),
    "another page's language": (
        [version("en", "fr"), version("fr", language="de")],
        {"en": "en fr", "fr": "de=fr en"},
    ),
    "a language without a code": ([version("en", "fr"), version("fr", language="haw")], {"en": "", "fr": ""}),
    "a page alone": ([version("en", "en x-default=en")], {"en": ""}),
    "a language by the code of the news": (
        [version("zh", "en", language="zh-tw"), version("en")],
        {"en": "en zh-Hant=zh", "zh": "en zh-Hant=zh"},
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", CASES)
def test_alternates_are_mutual_in_every_order(case: str) -> None:
    events, expected = CASES[case]
    for order in permutations(events):
        table = DecidedTable()
        for event in order:
            table.apply(event, max(MORNING, event.timestamp or MORNING) + 5 * MINUTE)
        assert listed(table) == expected, [event.name for event in order]


def test_pages_that_list_each_other_are_not_recorded_again() -> None:
    table = DecidedTable()
    for event in (EN, FR, DE, version("en", "fr de", minute=1, title="Another headline")):
        assert table.apply(event).returns == ()
    [again] = table.apply(remove("de")).returns
    assert again.previous_urls == (page("en"), page("fr"))


def test_a_page_that_moves_keeps_its_links() -> None:
    table = DecidedTable()
    for event in (EN, FR, DE, version("de-2", "en fr", minute=1, article="de")):
        table.apply(event)
    assert listed(table) == {"de-2": "de=de-2 en fr", "en": "de=de-2 en fr", "fr": "de=de-2 en fr"}
    table.apply(version("de", minute=2, article="de-3"))
    assert listed(table) == {"de": "de en fr", "de-2": "", "en": "de en fr", "fr": "de en fr"}


def test_a_page_with_too_many_links_keeps_as_many_as_fit() -> None:
    table = DecidedTable()
    for number in range(ALTERNATES_MAX + 2):
        table.apply(version(f"fr-{number:02}", "en"))
    assert len(table.claims[page("en")].links) == ALTERNATES_MAX
    assert listed(table)[f"fr-{ALTERNATES_MAX + 1:02}"]


def test_a_publication_without_alternates_writes_only_its_own_claim() -> None:
    decision = decide(version("en"), Known(), SITE, MORNING)
    assert ([claim.url for claim in decision.claims], decision.returns) == ([page("en")], ())


OTHER = "fr.example.org"


@pytest.mark.parametrize(
    ("lists", "listed_by", "schemes", "expected"),
    [
        ((OTHER,), (HOST,), ("https", "https"), True),
        ((), (HOST,), ("https", "https"), False),
        ((OTHER,), (), ("https", "https"), False),
        ((OTHER,), (HOST,), ("http", "https"), False),
        ((OTHER,), (HOST,), ("https", "http"), False),
    ],
)
def test_another_site_counts_if_both_list_each_other(
    lists: tuple[str, ...], listed_by: tuple[str, ...], schemes: tuple[str, str], expected: bool
) -> None:
    site = Site.model_validate(SITE.model_dump() | {"alternate_hosts": lists, "scheme": schemes[0]})
    other = Site.model_validate(
        {"host": OTHER, "publication": "Exemple", "alternate_hosts": listed_by, "scheme": schemes[1]}
    )
    hosts = mutual_hosts(site, [other])
    assert is_version(f"https://{OTHER}/a", hosts) is expected
    assert [is_version(url, hosts) for url in (page("a"), page(""), "http://www.example.com/a")] == [True, False, False]


def test_a_page_that_takes_over_many_urls_changes_few_claims_at_a_time() -> None:
    table, codes = DecidedTable(), sorted(LANGUAGES)[:ALTERNATES_MAX]
    lists = {path: " ".join(f"{code}={path}-{code}" for code in codes) for path in ("old-1", "old-2", "new")}
    for path in ("old-1", "old-2"):
        table.apply(version(path, lists[path], source="feed", language="en"))
    moved = version("new", lists["new"], minute=1, language="en", previous_urls=(page("old-1"), page("old-2")))
    assert len(table.apply(moved).claims) < 2 * ALTERNATES_MAX
    linked = {path for path in lists for code in codes if table.claims[page(f"{path}-{code}")].links}
    assert linked == {"new"}


def test_a_page_lists_a_home_page_that_it_has_left() -> None:
    home = (Alternate("en", page("")),)
    table = DecidedTable()
    table.apply(version("", language="en", article="1"))
    table.apply(version("fr", minute=1, article="1", alternates=home))
    assert listed(table) == {"fr": "en= fr"}


def test_a_home_page_keeps_no_link_of_a_page_that_is_removed() -> None:
    home = (Alternate("en", page("")),)
    table = DecidedTable()
    table.apply(version("", "fr", language="en", article="1"))
    table.apply(version("fr", minute=1, alternates=home, previous_urls=(page(""),), source="wire"))
    table.apply(remove("fr", source="wire", timestamp=MORNING + 2 * MINUTE))
    assert listed(table) == {"": ""}


def test_a_late_event_of_a_forgotten_article_leaves_no_url() -> None:
    erased = replace(DecidedTable().apply(version("en", minute=1)).article, state="removed", reason=FORGOTTEN)  # type: ignore[type-var]
    late = replace(version("en-2", article="en"), received_at=MORNING)
    assert decide(late, Known(erased), SITE, MORNING).claims == ()
