"""The page of tags has every tag that the code writes, with rendered examples; the site's page has rules."""

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from functools import cache

import pytest

from stoppress.cms.contract import read_delivery
from stoppress.model.entries import Mark, Traits, excluding_rule
from stoppress.model.file_names import atom_name
from stoppress.model.site import Rule, Site, Voice
from stoppress.model.site_parts import Outputs, Source
from stoppress.sitemaps.other_forms import atom_feed, text_sitemap
from stoppress.sitemaps.render import render_general, render_index, render_news
from stoppress.sitemaps.robots import robots_txt
from tests.docs.pages import table_rows, text_of
from tests.support.article_events import HOST, MORNING, DecidedTable, page

PAGE = text_of("docs/reference/tags.md")
HOUR = timedelta(hours=1)
SITE = Site(
    host=HOST,
    publication="Example News",
    sources={"cms": Source(secret="cms")},
    sections={"sport": Voice(publication="Example Sport & Leisure")},
    write=("keywords", "changefreq", "priority"),
    outputs=Outputs(gzip=True, text=True, atom=True, hub="https://hub.example.net/"),
    robots="User-agent: *\nDisallow: /search\n",
)
FLOOD = {
    "id": "flood",
    "url": page("flood?id=1&page=2&utm_source=feed"),
    "title": 'Fish & "chips": it\'s cheap',
    "published_at": "2026-11-20T08:00:00Z",
    "updated_at": "2026-11-20T10:00:00+01:00",
    "keywords": ["flood", "harbour"],
    "changefreq": "hourly",
    "priority": 0.9,
    "images": ["https://img.example.com/1.jpg?w=1&h=2"],
    "alternates": {"fr-BE": "/fr/inondation"},
    "videos": [
        {
            "thumbnail_loc": "https://img.example.com/flood.jpg",
            "title": "The flood",
            "description": "Water in the harbour",
            "content_loc": "https://img.example.com/flood.mp4",
            "player_loc": "/player/7",
            "duration": "PT1M30S",
            "expiration_date": "2027-11-20",
            "rating": 4.5,
            "view_count": 1042,
            "publication_date": "2026-11-20T08:00:00+01:00",
            "tags": ["flood", "harbour"],
            "family_friendly": True,
            "restriction": {"allow": ["GB", "IE"]},
            "requires_subscription": False,
            "uploader": {"name": "The crew", "info": "/crew"},
            "platform": {"deny": ["tv"]},
            "live": False,
        }
    ],
}
OTHERS = [
    {
        "id": "derby",
        "url": page("derby"),
        "title": "The derby",
        "published_at": "2026-11-20T08:30:00Z",
        "section": "sport",
    },
    {"id": "storm", "url": page("storm"), "title": "The storm", "published_at": "2026-11-20T09:00:00Z"},
]


@cache
def rendered() -> dict[str, str]:
    """Return a site's files with every tag that the code writes, by their names in the page."""
    now = MORNING + 2 * HOUR
    ledger = DecidedTable(SITE)
    for data in (FLOOD, *OTHERS):
        event, _ = read_delivery(
            {"type": "article.published", "timestamp": "2026-11-20T10:00:00Z", "data": data}, SITE, "cms", now
        )
        assert not event.dropped
        ledger.apply(event, now)
    event, _ = read_delivery({"type": "page.published", "data": {"id": "p", "url": page("storm")}}, SITE, "cms", now)
    general, news = list(ledger.general.values()), list(ledger.news.values())
    shard = render_general(general, SITE)
    plain = DecidedTable(SITE)
    plain.apply(event, now)
    feed = atom_name("news")
    mark = Mark("sitemap-2026-11.xml", MORNING + HOUR, 3, len(shard.body), "", ("sitemap-2026-11.xml.gz",))
    bodies = {
        "shards": shard.body,
        "pages": render_general(plain.general.values(), SITE).body,
        "news": render_news(news, SITE, now).body,
        "index": render_index([mark], SITE).body,
        ".txt": text_sitemap(shard.body),
        ".atom": atom_feed(news, SITE, file=feed, hub=SITE.outputs.hub),
        "robots.txt": robots_txt(SITE),
    }
    return {name: body.decode() for name, body in bodies.items()}


@cache
def sections() -> dict[str, list[list[str]]]:
    """Return the rows of the page's tables by heading."""
    parts = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")[1:]}
    return {heading: table_rows(part, "| ") for heading, part in parts.items() if "\n| " in part}


def rows(*headings: str) -> Iterator[tuple[str, str, str]]:
    """Yield tag, files and example of each row. Only the first table has a column of files."""
    files = {"News": "news", "Images and language versions": "shards, pages", "Videos": "shards", "Atom feeds": ".atom"}
    for heading in headings:
        for row in sections()[heading]:
            yield row[0].strip("`"), files.get(heading) or row[2], row[-1].strip("`")


TABLES = ("Sitemaps and index", "News", "Images and language versions", "Videos", "Atom feeds")


@pytest.mark.parametrize(("tag", "where", "example"), list(rows(*TABLES)), ids=[f"{row[0]}" for row in rows(*TABLES)])
def test_the_code_writes_the_example(tag: str, where: str, example: str) -> None:
    named = [name for name in rendered() if re.search(rf"(?<![\w.]){re.escape(name)}(?!\w)", where)]
    files = [rendered()[name] for name in named or rendered()]
    assert any(example in text for text in files)


def test_every_tag_of_a_sitemap_has_a_row_and_every_row_is_a_tag() -> None:
    texts = [rendered()[name] for name in ("shards", "pages", "news", "index")]
    written = {tag for text in texts for tag in re.findall(r"<([A-Za-z:_]+)", text)}
    assert written == {tag for tag, _, _ in rows(*TABLES[:4])}


def test_every_tag_of_a_feed_has_a_row() -> None:
    written = set(re.findall(r"<([a-z]+)", rendered()[".atom"]))
    assert written - {"name"} == {tag for tag, _, _ in rows("Atom feeds")}


def test_tags_that_are_never_written_are_in_no_file() -> None:
    cells = [row[0] for row in sections()["What is never written"]]
    never = {
        tag
        for cell in cells
        if re.fullmatch(r"`[a-z:_]+`(?:, `[a-z:_]+`)*", cell)
        for tag in re.findall(r"`(.*?)`", cell)
    }

    assert len(never) > 15
    assert [tag for tag in never for text in rendered().values() if re.search(rf"<{tag}\b", text)] == []
    assert [name for name, text in rendered().items() if "<news:news>" in text] == ["news"]
    assert "<changefreq>" not in rendered()["news"]
    assert "<priority>" not in rendered()["news"]
    assert [text for text in rendered().values() if re.search(r"allow_embed|autoplay|<!--|<!DOCTYPE|CDATA", text)] == []


@pytest.mark.parametrize("row", table_rows(text_of("docs/reference/site.md"), "| rules |"), ids=lambda row: row[0])
def test_a_rule_has_the_effect_of_its_row(row: list[str]) -> None:
    rules_said, path_said, general, news = row
    rules = [Rule.model_validate(rule) for rule in json.loads(rules_said.strip("`"))]
    path = path_said.strip("`")
    for target, answer in (("general", general), ("news", news)):
        assert target in ("general", "news")
        kept_out = excluding_rule(
            rules, "general" if target == "general" else "news", f"https://{HOST}{path}", Traits()
        )
        assert ("no" if kept_out else "yes") == answer
