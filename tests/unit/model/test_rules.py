"""The site's rules: which pages a path, section, keyword, type or flag excludes."""

from typing import Literal

import pytest

from stoppress.model.entries import NO_TRAITS, Traits, excluding_rule
from stoppress.model.site import Rule
from stoppress.primitives.urls import canonical
from tests.support.article_events import MORNING, DecidedTable, page, publish


def kept_out(
    rules: list[Rule], path: str, traits: Traits = NO_TRAITS, target: Literal["general", "news"] = "general"
) -> str:
    return excluding_rule(rules, target, canonical(f"https://www.example.com{path}"), traits)


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("/sponsored/*", "/sponsored/boats", True),
        ("/sponsored/*", "/sponsored", False),
        ("/é*", "/été", True),
        ("/é*", "/ete", False),
        ("/petites annonces/*", "/petites%20annonces/1", True),
        ("/a%2Fb", "/a%2fb", True),
        ("/a%2fb", "/a%2Fb", True),
        ("/%7Ejoe/*", "/~joe/1", True),
        ("/*", "/%FF", True),
        ("/a", "/a?b=/c", True),
        ("*c*", "/a?b=/c", False),
    ],
)
def test_a_path_matches_encoded_and_decoded(pattern: str, path: str, matches: bool) -> None:
    assert bool(kept_out([Rule(exclude="all", path=pattern)], path)) is matches


TRAITS = Traits("sport", ("boats", "rain"), "opinion", ("paid",))


@pytest.mark.parametrize(
    ("conditions", "matches"),
    [
        ({"section": "sport"}, True),
        ({"keyword": "rain"}, True),
        ({"type": "opinion"}, True),
        ({"flag": "paid"}, True),
        ({"section": "sport", "flag": "free"}, False),
        ({"section": "sport", "path": "/b*"}, False),
    ],
)
def test_all_conditions_of_a_rule_must_hold(conditions: dict[str, str], matches: bool) -> None:
    assert bool(kept_out([Rule.model_validate(conditions)], "/a", TRAITS)) is matches


def test_the_first_rule_of_the_sitemap_that_matches_decides() -> None:
    rules = [Rule(exclude="news", path="/a*"), Rule(include="all", path="/ab"), Rule(exclude="all", path="/a*")]

    assert kept_out(rules, "/ab") == ""
    assert kept_out(rules, "/ab", target="news").startswith("rule 1 of the site (")
    assert kept_out(rules, "/ac").startswith("rule 3 of the site (")


@pytest.mark.parametrize(
    ("path", "is_news"), [("", False), ("?ns_source=mail", False), ("?story=7", True), ("fr/", True), ("flood", True)]
)
def test_the_home_page_is_no_news_even_if_its_source_sets_it(path: str, is_news: bool) -> None:
    ledger = DecidedTable()
    event = publish(path=path, url=canonical(page(path)))
    ledger.apply(event)

    assert list(ledger.news_at(MORNING)) == ([event.url] if is_news else [])
    assert ledger.articles[event.name].state == "listed"
    assert ledger.articles[event.name].news_reason == ("" if is_news else "the home page is no article")
