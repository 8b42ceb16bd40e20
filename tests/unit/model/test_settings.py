"""Every setting of a site changes the lines of the files that its golden file lists."""

import difflib
import gzip
import json
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import BaseModel

from stoppress.cms.contract import read_delivery
from stoppress.model.entries import Mark
from stoppress.model.file_names import INDEX_FILE, ROBOTS_FILE, atom_name, is_news, permanent_files, series_of
from stoppress.model.site import Site, read_site
from stoppress.primitives.instants import iso
from stoppress.sitemaps.other_forms import atom_feed, compressed, text_sitemap
from stoppress.sitemaps.render import render_general, render_index, render_news, render_pages
from stoppress.sitemaps.robots import robots_txt
from tests.support.article_events import HOST, MORNING, DecidedTable

GOLDEN = Path(__file__).parents[3] / "tests/fixtures/golden" / "settings"
HOUR, DAY = timedelta(hours=1), timedelta(days=1)
AT = MORNING + 6 * HOUR
Settings = Mapping[str, Any]

BOATS = {"path": "/sponsored/*"}
FRENCH = {"prefix": "/fr/", "publication": "Exemple", "language": "fr"}

# By setting: the configuration without it, and the changes of the setting.
CASES: dict[str, tuple[Settings, Settings]] = {
    "host": ({}, {"host": "news.example.org"}),
    "publication": ({}, {"publication": "The Example"}),
    "language": ({}, {"language": "de"}),
    "scheme": ({}, {"scheme": "http"}),
    "republish": ({}, {"republish": "new-date"}),
    "shards.by": ({}, {"shards": {"by": "year"}}),
    "shards.size": ({}, {"shards": {"size": 3}}),
    "shards.per_section": ({}, {"shards": {"per_section": True}}),
    "rules.exclude": ({"rules": [BOATS]}, {"rules": [{"exclude": "news", **BOATS}]}),
    "rules.include": ({"rules": [BOATS]}, {"rules": [{"include": "general", "path": "*/boats"}, BOATS]}),
    "rules.path": ({}, {"rules": [BOATS]}),
    "rules.section": ({}, {"rules": [{"section": "Sport"}]}),
    "rules.keyword": ({}, {"rules": [{"keyword": "harbour"}]}),
    "rules.type": ({}, {"rules": [{"type": "gallery"}]}),
    "rules.flag": ({}, {"rules": [{"flag": "advertisement"}]}),
    "sections.publication": ({}, {"sections": {"Sport": {"publication": "Example Sport"}}}),
    "sections.language": ({}, {"sections": {"Sport": {"language": "es"}}}),
    "editions.prefix": ({"editions": [FRENCH]}, {"editions": [FRENCH | {"prefix": "/sport/"}]}),
    "editions.publication": ({}, {"editions": [{"prefix": "/fr/", "publication": "Exemple"}]}),
    "editions.language": ({}, {"editions": [{"prefix": "/fr/", "language": "fr"}]}),
    "editions.news": ({"editions": [FRENCH]}, {"editions": [FRENCH | {"news": "fr"}]}),
    "pages.url": ({}, {"pages": ["/about"]}),
    "pages.changefreq": ({"pages": ["/about"], "write": ["changefreq"]},
        {"pages": [{"url": "/about", "changefreq": "monthly"}]}),
    "pages.priority": ({"pages": ["/about"], "write": ["priority"]}, {"pages": [{"url": "/about", "priority": 0.3}]}),
    "write": ({}, {"write": ["keywords", "changefreq", "priority"]}),
    "outputs.gzip": ({}, {"outputs": {"gzip": True}}),
    "outputs.text": ({}, {"outputs": {"text": True}}),
    "outputs.atom": ({}, {"outputs": {"atom": True}}),
    "outputs.hub": ({"outputs": {"atom": True}}, {"outputs": {"atom": True, "hub": "https://hub.example.net/"}}),
    "robots.search": ({"robots": "User-agent: *\nAllow: /"}, {"robots": {"search": False}}),
    "robots.ai_search": ({"robots": {}}, {"robots": {"ai_search": False}}),
    "robots.ai_training": ({"robots": {}}, {"robots": {"ai_training": False}}),
    "robots.disallow": ({"robots": {}}, {"robots": {"disallow": ["/search"]}}),
    "robots.content_signal": ({"robots": {}}, {"robots": {"content_signal": True}}),
}  # fmt: skip
# Settings that change no byte of a file by themselves, and why.
OF_NO_FILE = {
    "engines.indexnow.key": "which key engines read; it has its own file",
    "engines.indexnow.url": "which engine is notified, after the files are written",
    "engines.search_console.property": "the property in Search Console, after the files are written",
    "engines.search_console.secret": "how Search Console is opened",
    "alternate_hosts": "which other sites' pages may list this site's; entries have the outcome",
    "silent_after_hours": "an alarm: nothing came for so long",
    "timezone": "how a feed's times without a zone are read, before there is an event",
    "feeds.take": "what of a feed's entries is received at all",
    "feeds.url": "where articles come from; what they become is not the feed's",
    "feeds.interval_minutes": "when a feed is polled",
    "feeds.interval_max_minutes": "when a feed is polled",
    "feeds.websub": "whether a feed's hub pushes articles before they are polled",
    "feeds.own": "whether the waits that a feed requests are respected",
    "sources.adapter": "how a delivery is read",
    "sources.list.url": "where articles are listed; what they become is the adapter's",
    "sources.list.adapter": "how the list is read",
    "sources.list.secret": "how the list is opened",
    "sources.list.audit": "whether lost webhooks are found",
    "sources.secret": "which deliveries are believed",
    "sources.settings": "what an adapter makes of a delivery",
}


def keys(model: type[BaseModel], before: str = "") -> Iterator[str]:
    """Yield every key of a model and of its parts, such as `shards.by`."""
    for name, field in model.model_fields.items():
        parts = [] if field.exclude else list(models(field.annotation))
        for part in parts:
            yield from keys(part, f"{before}{name}.")
        if not parts and not field.exclude:
            yield f"{before}{name}"


def models(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    for part in get_args(annotation):
        yield from models(part)


def configured(settings: Settings) -> Site:
    plain: Settings = {"host": HOST, "publication": "Example News", "sources": {"cms": {"secret": "cms"}}}
    return read_site(json.dumps({**plain, **settings}), 1)


def ledger_of(site: Site) -> DecidedTable:
    """Return a newsroom's morning as a site with this configuration records it."""

    def deliver(article: str, path: str, published: datetime | None, sent_at: datetime, **fields: Any) -> None:
        data = {"id": article, "url": f"https://{site.host}{path}", "title": f"Story {article}", **fields}
        dates = {"published_at": iso(published)} if published else {}
        kind = "article.published" if published else "page.published"
        delivery = {"type": kind, "timestamp": iso(sent_at), "data": data | dates}
        event, unknown = read_delivery(delivery, site, "cms", sent_at)
        assert not unknown
        ledger.apply(event, sent_at)

    ledger = DecidedTable(site)
    flood = {"section": "Local", "keywords": ["flood", "harbour"], "changefreq": "hourly", "priority": 0.9}
    deliver("october", "/october", MORNING - 40 * DAY, MORNING)
    deliver("flood", "/flood", MORNING, MORNING + HOUR, updated_at=iso(MORNING + HOUR), **flood)
    deliver("derby", "/sport/derby", MORNING + HOUR, MORNING + HOUR, section="Sport", type="report")
    deliver(
        "boats", "/sponsored/boats", MORNING + 2 * HOUR, MORNING + 2 * HOUR, flags=["advertisement"], type="gallery"
    )
    deliver("inondation", "/fr/inondation", MORNING + 3 * HOUR, MORNING + 3 * HOUR)
    deliver("re-dated", "/again", MORNING - 3 * DAY, MORNING + 3 * HOUR)
    deliver("re-dated", "/again", MORNING + 4 * HOUR, MORNING + 4 * HOUR)
    deliver("contact", "/contact", None, MORNING + 4 * HOUR)
    return ledger


def site_files(settings: Settings) -> dict[str, str]:
    """Return the text of every file of a site after the morning, gzip unpacked."""
    site = configured(settings)
    ledger = ledger_of(site)
    general = {
        file: [entry for (name, _), entry in ledger.general.items() if name == file] for file, _ in ledger.general
    }
    news = {file: [entry for (name, *_), entry in ledger.news.items() if name == file] for file, *_ in ledger.news}
    empty: dict[str, list[Any]] = {file: [] for file in permanent_files(site)}
    bodies: dict[str, bytes] = {}
    marks = []
    for file, entries in (empty | general | news).items():
        if is_news(file):
            rendered = render_news(entries, site, AT)
            feed = atom_name(series_of(file))
            forms = {feed: atom_feed(entries, site, file=feed, hub=site.outputs.hub)} if site.outputs.atom else {}
        else:
            rendered = (render_pages if file == "sitemap-pages.xml" else render_general)(entries, site)
            text = f"{file.removesuffix('.xml')}.txt"
            forms = {text: text_sitemap(rendered.body)} if site.outputs.text else {}
        if site.outputs.gzip:
            forms[f"{file}.gz"] = compressed(rendered.body)
        bodies |= {file: rendered.body} | forms
        marks.append(Mark(file, rendered.newest or AT, rendered.urls, len(rendered.body), "", tuple(forms)))
    bodies[INDEX_FILE] = render_index(marks, site).body
    if site.outputs.gzip:
        bodies[f"{INDEX_FILE}.gz"] = compressed(bodies[INDEX_FILE])
    if site.robots is not None:
        bodies[ROBOTS_FILE] = robots_txt(site)
    return {
        name: (gzip.decompress(body) if name.endswith(".gz") else body).decode()
        for name, body in sorted(bodies.items())
    }


def changed_lines(before: Mapping[str, str], after: Mapping[str, str]) -> str:
    """Return the differences file by file: `-` for removed and `+` for added lines."""
    lines = []
    for name in sorted(before.keys() | after.keys()):
        old, new = (files.get(name, "").split("\n") for files in (before, after))
        changed = [line for line in difflib.ndiff(old, new, linejunk=None) if line[0] in "+-" and line[2:]]
        sort = "" if name in before and name in after else " (new)" if name in after else " (gone)"
        lines += [f"== {name}{sort}", *changed, ""] if changed else []
    return "\n".join(lines)


@pytest.mark.parametrize("key", CASES)
def test_a_setting_changes_these_lines_and_no_others(key: str) -> None:
    without, of_it = CASES[key]
    assert changed_lines(site_files(without), site_files({**without, **of_it})) == (GOLDEN / f"{key}.diff").read_text()


def test_every_setting_changes_something_in_its_golden_file() -> None:
    goldens = {path.stem: path.read_text() for path in GOLDEN.glob("*.diff")}
    assert goldens.keys() == CASES.keys()
    assert [key for key, text in goldens.items() if "== " not in text] == []


def test_every_setting_has_a_case_or_a_reason() -> None:
    settings = list(keys(Site))
    assert len(settings) == len(set(settings)) > 30
    assert sorted(settings) == sorted([*CASES, *OF_NO_FILE])


def test_settings_without_an_effect_on_files_change_no_file() -> None:
    settings: Settings = {
        "timezone": "Europe/Paris",
        "silent_after_hours": 24,
        "feeds": [{"url": "https://www.example.com/rss.xml", "interval_minutes": 5}],
        "sources": {"cms": {"secret": "another", "adapter": "standard", "settings": {"tolerance_s": 60}}},
    }
    assert site_files(settings) == site_files({})
