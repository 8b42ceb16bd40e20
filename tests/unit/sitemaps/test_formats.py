"""The other outputs of a site: their exact bytes, and the results of programs that read them."""

import gzip
import re
import urllib.robotparser
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from xml.etree import ElementTree as ET

import pytest
from hypothesis import given, settings, strategies as st
from lxml import etree
from protego import Protego

from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.site import Edition, Site
from stoppress.primitives.instants import iso
from stoppress.primitives.text import clean
from stoppress.primitives.urls import canonical
from stoppress.sitemaps.other_forms import atom_feed, compressed, text_sitemap
from stoppress.sitemaps.render import render_general
from stoppress.sitemaps.robots import (
    AI_SEARCH_CRAWLERS,
    AI_TRAINING_CRAWLERS,
    SEARCH_CRAWLERS,
    robots_lines,
    robots_txt,
)
from tests.support.article_events import MORNING, SITE, page

GOLDEN = Path(__file__).parents[3] / "tests/fixtures/golden" / "formats"
ATOM = "{http://www.w3.org/2005/Atom}"
LANG = "{http://www.w3.org/XML/1998/namespace}lang"
HOUR = timedelta(hours=1)
FEED = "feed.atom"
HUB = "https://hub.example.net/?a=1&b=2"
HTTP_SITE = SITE.model_copy(update={"scheme": "http"})

ENTRIES = [
    NewsEntry(page("2026/11/20/flood"), "Flood closes the harbour", MORNING, MORNING + 3 * HOUR),
    NewsEntry(page("2026/11/20/fish?a=1&b=2"), 'Fish & "chips" <cheap> &amp; cheerful', MORNING),
    NewsEntry(page("2026/11/20/wave"), "🌊 Überschwemmung – der Hafen ist zu", MORNING + HOUR),
    NewsEntry(page("2026/11/20/inondation"), "L'eau monte", MORNING - HOUR, MORNING, "Nouvelles d'Exemple", "fr"),
    NewsEntry(page("2026/11/20/embargo"), "Changed before it came out", MORNING - HOUR, MORNING - 2 * HOUR),
]
LOCS = [page("2026/11/20/flood"), page("2026/11/19/%C3%BCmlat?id=1&page=2"), page("2026/11/20/'quoted'")]
SITEMAPS = ["sitemap.xml", "sitemap-news.xml"]
RULES = (
    "# Kept by the newsroom\r\n"
    "User-agent: *\r\n"
    "Disallow: /drafts/ # not yet\r\n"
    "Sitemap: /sitemap-video.xml # of the video platform\r\n"
    "Allow: /drafts/öffentlich\r\n"
    "\r\n"
    "site-map : http://www.example.com/sitemap.xml\r\n"
    "User-agent: Examplebot\r\n"
    "Disallow: /\r\n"
    "SITEMAP:https://static.example.net/archive.xml\n\n\n"
)


def with_robots(robots: object) -> Site:
    return Site.model_validate({"host": SITE.host, "publication": SITE.publication, "robots": robots})


@pytest.mark.parametrize(
    ("name", "body"),
    [
        ("feed.atom", atom_feed(ENTRIES, SITE, file=FEED, hub=HUB)),
        ("empty-feed.atom", atom_feed([], SITE, file=FEED)),
        ("shard.txt", text_sitemap(render_general(map(GeneralEntry, LOCS), SITE).body)),
        ("emptied-shard.txt", text_sitemap(render_general([], SITE).body)),
        ("robots.txt", robots_txt(with_robots(RULES))),
    ],
)
def test_the_bytes_are_those_of_the_golden_file(name: str, body: bytes) -> None:
    assert body == (GOLDEN / name).read_bytes()


# ── gzip ──

SHARD = render_general([GeneralEntry(page(f"2026/11/20/{number:04}"), MORNING) for number in range(500)], SITE).body


def test_gzip_headers_contain_no_time_name_or_system() -> None:
    """RFC 1952: deflate, no flags (so no name and no comment), time 0, least effort, system unknown."""
    assert compressed(SHARD)[:10] == bytes.fromhex("1f8b 08 00 00000000 04 ff")
    assert gzip.decompress(compressed(SHARD)) == SHARD
    assert len(compressed(SHARD)) < len(SHARD) / 5


# ── text ──


@given(st.lists(st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=30), max_size=8))
def test_each_line_is_one_valid_url_for_any_path(paths: list[str]) -> None:
    locs = [canonical(page(path)) for path in paths]
    body = text_sitemap(render_general(map(GeneralEntry, set(locs)), SITE).body)

    assert body.endswith(b"\n")
    lines = body.decode("ascii").splitlines()
    assert lines == (sorted(set(locs)) or [SITE.home])
    assert [canonical(line) for line in lines] == lines


# ── Atom ──


@pytest.mark.parametrize("entries", [ENTRIES, ENTRIES[:1], []])
@pytest.mark.parametrize("site", [SITE, HTTP_SITE])
def test_a_feed_conforms_to_rfc_4287(entries: list[NewsEntry], site: Site) -> None:
    feed = etree.fromstring(atom_feed(entries, site, file=FEED, hub=HUB))

    assert feed.tag == f"{ATOM}feed"
    for part in (feed, *feed.iterfind(f"{ATOM}entry")):
        # 4.1.1, 4.1.2: exactly one of each: always `updated`, and at most one `published`.
        assert [len(part.findall(f"{ATOM}{name}")) for name in ("id", "title", "updated")] == [1, 1, 1]
        assert len(part.findall(f"{ATOM}published")) <= 1
        # 4.2.6: absolute, and independent of the site's scheme.
        assert part.findtext(f"{ATOM}id").startswith("https://")
        # 3.1.1.1: plain text has no markup in it.
        title = part.find(f"{ATOM}title")
        assert (title.get("type"), len(title), bool(title.text)) == ("text", 0, True)
        # 3.3: RFC 3339 with a capital T and Z.
        for when in part.iterfind(f"{ATOM}updated"):
            assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", when.text)
        # 4.1.1: one alternate of a type and language, required without content.
        links = part.findall(f"{ATOM}link")
        assert [link.get("type") for link in links if link.get("rel") == "alternate"] == ["text/html"]
        assert all(urlsplit(link.get("href")).netloc for link in links)
        assert all(author.findtext(f"{ATOM}name") for author in part.iterfind(f"{ATOM}author"))
    # 4.1.1: the feed has an author, so that each entry has one.
    assert len(feed.findall(f"{ATOM}author")) == 1
    # 4.1.1: entries with one id would be one entry.
    ids = [entry.findtext(f"{ATOM}id") for entry in feed.iterfind(f"{ATOM}entry")]
    assert len(set(ids)) == len(ids) == len(entries)
    # 4.1.1, 4.1.2: only elements of Atom that are allowed there.
    assert {child.tag.removeprefix(ATOM) for child in feed} <= {"id", "title", "updated", "author", "link", "entry"}
    allowed = {"id", "title", "updated", "published", "author", "link"}
    assert {child.tag.removeprefix(ATOM) for entry in feed.iterfind(f"{ATOM}entry") for child in entry} <= allowed
    # WebSub 1.0, 4: self and hub.
    links = {link.get("rel"): link.get("href") for link in feed.iterfind(f"{ATOM}link")}
    assert links == {"self": f"{site.origin}/{FEED}", "alternate": site.home, "hub": HUB}


def test_the_order_of_entries_makes_no_difference() -> None:
    assert atom_feed(ENTRIES[::-1], SITE, file=FEED) == atom_feed(ENTRIES, SITE, file=FEED)


def test_the_feed_drops_its_oldest_entries_at_the_limit() -> None:
    many = [NewsEntry(page(str(number)), "A", MORNING + timedelta(minutes=number)) for number in range(101)]
    edited = [replace(many[0], lastmod=MORNING + 3 * HOUR), *many[1:]]

    assert _ids(atom_feed(many, SITE, file=FEED)) == [page(str(number)) for number in range(100, 0, -1)]
    assert _ids(atom_feed(edited, SITE, file=FEED))[:2] == [page("0"), page("100")]


def test_a_feed_has_the_last_change_of_its_entries_and_an_empty_one_always_the_same() -> None:
    assert _updated(atom_feed(ENTRIES[1:], SITE, file=FEED)) == iso(MORNING + HOUR)
    assert _updated(atom_feed([], SITE, file=FEED)) == "2005-12-01T00:00:00Z"


def test_ids_stay_when_the_site_goes_over_to_https() -> None:
    before, after = (atom_feed(ENTRIES, site, file=FEED) for site in (HTTP_SITE, SITE))

    assert _ids(before) == _ids(after)
    assert etree.fromstring(before).findtext(f"{ATOM}id") == etree.fromstring(after).findtext(f"{ATOM}id")
    assert b'href="http://www.example.com/2026/11/20/flood"' in before
    assert b'href="https://www.example.com/2026/11/20/flood"' in after
    assert before.replace(b'href="http:', b'href="https:') == after


def test_an_entry_has_the_language_and_name_of_its_edition() -> None:
    site = SITE.model_copy(update={"editions": (Edition(prefix="/fr/", publication="Exemple", language="fr"),)})
    entry = etree.fromstring(atom_feed([NewsEntry(page("fr/a"), "A", MORNING)], site, file=FEED)).find(f"{ATOM}entry")
    assert (entry.get(LANG), entry.findtext(f"{ATOM}author/{ATOM}name")) == ("fr", "Exemple")


TITLES = st.text(st.characters(exclude_categories=["Cs"]) | st.sampled_from("<>&\"'\u2028]🌊ü"), max_size=60)


@settings(max_examples=200)
@given(st.lists(TITLES.map(clean).filter(bool), max_size=5))
def test_a_feed_is_well_formed_and_keeps_any_title(titles: list[str]) -> None:
    entries = [NewsEntry(page(str(number)), title, MORNING, None, title) for number, title in enumerate(titles)]
    body = atom_feed(entries, SITE, file=FEED)
    feed = ET.fromstring(body)

    assert [entry.findtext(f"{ATOM}title") for entry in feed.iter(f"{ATOM}entry")] == titles
    authors = [entry.findtext(f"{ATOM}author/{ATOM}name") for entry in feed.iter(f"{ATOM}entry")]
    assert [author or SITE.publication for author in authors] == titles
    assert feed.findtext(f"{ATOM}title") == SITE.publication
    assert body.count(b"\n<entry") == len(titles)


def _ids(body: bytes) -> list[Any]:
    return [element.text for element in etree.fromstring(body).iterfind(f"{ATOM}entry/{ATOM}id")]


def _updated(body: bytes) -> Any:
    return etree.fromstring(body).findtext(f"{ATOM}updated")


# ── robots.txt ──


def test_sitemap_lines_are_absolute_and_unique() -> None:
    named = ["sitemap.xml", "/sitemap.xml", "https://WWW.example.com:443/sitemap.xml", "http://www.example.com/a.xml"]
    assert robots_lines(SITE, named) == [f"Sitemap: {page('sitemap.xml')}", "Sitemap: http://www.example.com/a.xml"]
    assert robots_lines(HTTP_SITE, SITEMAPS[:1]) == ["Sitemap: http://www.example.com/sitemap.xml"]


def test_a_sitemap_that_is_no_url_of_the_web_is_refused() -> None:
    with pytest.raises(ValueError, match=r"s\.xml' is not an absolute http or https URL"):
        robots_lines(SITE, ["ftp://files.example.com/s.xml"])


def test_a_rule_that_resembles_a_sitemap_line_stays() -> None:
    rules = "# Sitemap: /old.xml\nDisallow: /sitemap: \nSitemaps: /x.xml"
    assert robots_txt(with_robots(rules)).decode().endswith(f"\n\n{rules}\n")


@given(st.text(st.characters(exclude_categories=["Cs", "Cc"]) | st.sampled_from("\t\n\r:#"), max_size=80))
def test_sitemap_lines_are_found_for_any_rules(rules: str) -> None:
    try:
        body = robots_txt(with_robots(rules)).decode()
    except ValueError:
        return
    robots = urllib.robotparser.RobotFileParser()
    robots.parse(body.splitlines())
    assert (robots.site_maps() or [])[:2] == [page(name) for name in SITEMAPS]
    assert body == robots_txt(with_robots(body)).decode()


# ── robots.txt from permissions ──

KINDS = {"search": SEARCH_CRAWLERS, "ai_search": AI_SEARCH_CRAWLERS, "ai_training": AI_TRAINING_CRAWLERS}
# Some parsers apply the group of Applebot to it. Apple does not train on pages that Applebot may not read.
NOT_ALONE = "Applebot-Extended"
PAGE, SEARCHED = "https://www.example.com/flood", "https://www.example.com/search?q=flood"


def text_of(rights: dict[str, object]) -> str:
    return robots_txt(with_robots(rights)).decode()


@pytest.mark.parametrize("closed", [(), ("search",), ("ai_search",), ("ai_training",), ("ai_search", "ai_training")])
def test_only_crawlers_without_permission_are_disallowed(closed: tuple[str, ...]) -> None:
    rules = Protego.parse(text_of(dict.fromkeys(closed, False)))
    for kind, crawlers in KINDS.items():
        for crawler in set(crawlers) - {NOT_ALONE} if "search" in closed else crawlers:
            assert rules.can_fetch(PAGE, crawler) is (kind not in closed), crawler
    assert rules.can_fetch(PAGE, "SomeOtherBot")


def test_paths_disallowed_for_all_are_disallowed_for_every_crawler() -> None:
    rules = Protego.parse(text_of({"ai_training": False, "disallow": ["/search", "/*.pdf$"]}))
    for crawler in ("SomeOtherBot", *SEARCH_CRAWLERS, *AI_SEARCH_CRAWLERS, *AI_TRAINING_CRAWLERS):
        assert not rules.can_fetch(SEARCHED, crawler), crawler
        assert not rules.can_fetch("https://www.example.com/a.pdf", crawler), crawler


def test_only_standard_lines_are_written_unless_content_signals_are_on() -> None:
    fields = {line.partition(":")[0] for line in text_of({"ai_training": False}).splitlines() if line}
    assert fields == {"Sitemap", "User-agent", "Allow", "Disallow"}
    signal = "Content-Signal: search=yes, ai-input=yes, ai-train=no"
    assert signal in text_of({"ai_training": False, "content_signal": True}).splitlines()


@pytest.mark.parametrize("path", ["search", "/a b", "/a\nAllow: /", ""])
def test_a_path_that_would_break_the_file_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="disallow"):
        text_of({"disallow": [path]})
