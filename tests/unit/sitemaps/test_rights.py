"""A robots.txt made of rights: what each crawler may read, as another parser reads it."""

import pytest
from protego import Protego

from stoppress.model.site import Site
from stoppress.sitemaps.robots import (
    AI_SEARCH_CRAWLERS,
    AI_TRAINING_CRAWLERS,
    SEARCH_CRAWLERS,
    robots_txt,
    rules_of,
)

KINDS = {"search": SEARCH_CRAWLERS, "ai_search": AI_SEARCH_CRAWLERS, "ai_training": AI_TRAINING_CRAWLERS}
# Some parsers take the group of Applebot for it too. Apple trains on nothing that Applebot may not read.
NOT_ALONE = "Applebot-Extended"
PAGE, SEARCH = "https://www.example.com/flood", "https://www.example.com/search?q=flood"


def text_of(rights: dict[str, object]) -> str:
    site = Site.model_validate({"host": "www.example.com", "publication": "Example News", "robots": rights})
    return robots_txt(site, ["sitemap.xml"], rules_of(site) or "").decode()


@pytest.mark.parametrize("closed", [(), ("search",), ("ai_search",), ("ai_training",), ("ai_search", "ai_training")])
def test_crawlers_without_a_right_are_shut_out_and_no_others(closed: tuple[str, ...]) -> None:
    rules = Protego.parse(text_of(dict.fromkeys(closed, False)))
    for kind, crawlers in KINDS.items():
        for crawler in set(crawlers) - {NOT_ALONE} if "search" in closed else crawlers:
            assert rules.can_fetch(PAGE, crawler) is (kind not in closed), crawler
    assert rules.can_fetch(PAGE, "SomeOtherBot")


def test_what_all_may_not_read_holds_for_every_crawler() -> None:
    rules = Protego.parse(text_of({"ai_training": False, "disallow": ["/search", "/*.pdf$"]}))
    for crawler in ("SomeOtherBot", *SEARCH_CRAWLERS, *AI_SEARCH_CRAWLERS, *AI_TRAINING_CRAWLERS):
        assert not rules.can_fetch(SEARCH, crawler), crawler
        assert not rules.can_fetch("https://www.example.com/a.pdf", crawler), crawler


def test_only_lines_of_the_standard_are_written_unless_the_signal_is_asked_for() -> None:
    fields = {line.partition(":")[0] for line in text_of({"ai_training": False}).splitlines() if line}
    assert fields == {"Sitemap", "User-agent", "Allow", "Disallow"}
    signal = "Content-Signal: search=yes, ai-input=yes, ai-train=no"
    assert signal in text_of({"ai_training": False, "content_signal": True}).splitlines()


@pytest.mark.parametrize("path", ["search", "/a b", "/a\nAllow: /", ""])
def test_a_path_that_would_break_the_file_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="disallow"):
        text_of({"disallow": [path]})
