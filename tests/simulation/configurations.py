"""Random sites: a configuration, the stories that the site received, and its next configuration. A seed decides everything."""

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from stoppress.model.news_window import NEWS_WINDOW

Document = dict[str, Any]

SECTIONS = ["sport", "politics", "horoscope", "Régional"]
KEYWORDS = ["floods", "weather", "élections"]
PATHS = ["/", "/fr/", "/fr/culture/", "/de/"]
NAMES = ["Example News", "L'Exemple & Cie", "The Example (UK)", "Éxample <b>"]
LANGUAGES = ["en", "fr", "de", "zh-cn"]
# How often a setting is given at all.
GIVEN = 0.4


@dataclass
class Case:
    """A site. `before` is None for a new host."""

    host: str
    before: Document | None
    after: Document
    events: list[tuple[str, Document]] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)  # files that somebody overwrites by hand


def _rule(chance: random.Random) -> Document:
    conditions: Document = {
        "path": chance.choice(["/fr/*", "*1*", "/news-?", "/"]),
        "section": chance.choice(SECTIONS),
        "keyword": chance.choice(KEYWORDS),
        "type": chance.choice(["live", "video"]),
        "flag": "sponsored",
    }
    some = chance.sample(sorted(conditions), chance.randint(1, 2))
    verdict = {chance.choice(["exclude", "include"]): chance.choice(["all", "general", "news"])}
    return {name: conditions[name] for name in some} | (verdict if chance.random() < 0.8 else {})


def _edition(chance: random.Random, prefix: str) -> Document:
    voice = {"publication": chance.choice(NAMES), "language": chance.choice(LANGUAGES)}
    own = {name: value for name, value in voice.items() if chance.random() < 0.5}
    name = prefix.strip("/").replace("/", "")
    return {"prefix": prefix.rstrip("/")} | own | ({"news": name} if chance.random() < 0.6 else {})


def _page(chance: random.Random) -> Any:
    path = chance.choice(["/", "/sport", "/about", "/fr/page-1", "/news-1"])
    hints = {"url": path, "changefreq": "daily", "priority": chance.choice([0.5, "1.0"])}
    return path if chance.random() < 0.5 else hints


def _some(chance: random.Random, values: list[Any]) -> list[Any]:
    return chance.sample(values, chance.randint(0, len(values)))


SETTINGS: dict[str, Callable[[random.Random], Any]] = {
    "publication": lambda chance: chance.choice(NAMES),
    "language": lambda chance: chance.choice(LANGUAGES),
    "scheme": lambda chance: chance.choice(["https", "http"]),
    "timezone": lambda chance: chance.choice(["UTC", "Europe/Paris", "America/New_York"]),
    "shards": lambda chance: {
        "by": chance.choice(["day", "month", "year"]),
        "size": chance.choice([2, 3, 2000]),
        "per_section": chance.random() < 0.5,
    },
    "rules": lambda chance: [_rule(chance) for _ in range(chance.randint(0, 3))],
    "sections": lambda chance: {name: _voice(chance) for name in _some(chance, SECTIONS)},
    "editions": lambda chance: [_edition(chance, prefix) for prefix in _some(chance, PATHS[1:])],
    "pages": lambda chance: [_page(chance) for _ in range(chance.randint(0, 3))],
    "write": lambda chance: _some(chance, ["keywords", "changefreq", "priority"]),
    "outputs": lambda chance: (
        dict.fromkeys(_some(chance, ["gzip", "text", "atom"]), True)
        | ({"hub": "https://hub.example.net/"} if chance.random() < 0.2 else {})
    ),
    "engines": lambda chance: {"indexnow": chance.choice([None, {"key": "0f4b1c2d3e4f5a6b"}])},
    "robots": lambda chance: chance.choice(["", "User-agent: *\nDisallow: /private/"]),
    "republish": lambda chance: chance.choice(["keep-date", "new-date"]),
    "alternate_hosts": lambda chance: _some(chance, ["fr.example.org", "de.example.net"]),
    "silent_after_hours": lambda chance: chance.randint(1, 720),
}


def _voice(chance: random.Random) -> Document:
    voice = {"publication": chance.choice(NAMES), "language": chance.choice(LANGUAGES)}
    return {name: value for name, value in voice.items() if chance.random() < 0.6}


def _document(chance: random.Random, host: str) -> Document:
    settings = {name: make(chance) for name, make in SETTINGS.items() if chance.random() < GIVEN}
    return {"host": host, "publication": "Example News", "sources": {"bus": {}}} | settings


def _changed(chance: random.Random, before: Document) -> Document:
    """The configuration with one to four settings changed, added or taken out."""
    after = dict(before)
    for name in chance.sample(sorted(SETTINGS), chance.randint(1, 4)):
        if name in after and name != "publication" and chance.random() < 0.3:
            del after[name]
        else:
            after[name] = SETTINGS[name](chance)
    return after


def _event(chance: random.Random, host: str, number: int, now: datetime) -> tuple[str, Document]:
    """A story or a page at `now`. Stories leave the news window 40 seconds after `now`, or half an hour later and more."""
    path = f"{chance.choice(PATHS)}{chance.choice(['news', 'page', 'é'])}-{number}"
    hours = chance.choice([0, 1, 20, 47, 60, 24 * 20, 24 * 200])
    published = now - timedelta(hours=hours, minutes=chance.randint(0, 30))
    if chance.random() < 0.1:  # it expires in the minute of the change
        published = now - NEWS_WINDOW + timedelta(seconds=40)
    given: Document = {
        "section": chance.choice(SECTIONS),
        "keywords": chance.sample(KEYWORDS, 2),
        "type": chance.choice(["live", "video", "text"]),
        "flags": ["sponsored"],
        "language": chance.choice(LANGUAGES),
        "publication": chance.choice(NAMES),
        "images": [f"https://{host}/images/{number}.jpg"],
        "alternates": {"fr": f"https://{host}/fr/news-{number}", "en": f"https://{host}{path}"},
        "changefreq": "hourly",
        "priority": 0.7,
        "updated_at": (published + timedelta(minutes=5)).isoformat(),
    }
    data = {name: value for name, value in given.items() if chance.random() < 0.4}
    data |= {"id": str(number), "url": f"https://{host}{path}", "title": f"Story {number} & more"}
    if chance.random() < 0.15:
        return "page.published", data
    return "article.published", data | {"published_at": published.isoformat()}


def case(seed: int, now: datetime) -> Case:
    """The site of a seed. Its stories are received at `now`, and its configuration changes 50 seconds later."""
    chance = random.Random(f"configurations {seed}")
    host = f"site-{seed}.example.com"
    before = _document(chance, host)
    made = Case(host, before, _changed(chance, before) if chance.random() < 0.8 else _document(chance, host))
    if chance.random() < 0.05:
        made.before = None
        return made
    published = [_event(chance, host, number, now) for number in range(chance.randint(0, 12))]
    gone = [
        (f"{kind.partition('.')[0]}.deleted", {"id": data["id"]}) for kind, data in published if chance.random() < 0.25
    ]
    made.events = published + gone
    names = [
        "robots.txt",
        "sitemap-news.xml",
        "sitemap.xml",
        "sitemap-news.atom",
        "sitemap-news.xml.gz",
        "of-others.txt",
    ]
    made.edited = [name for name in names if chance.random() < (0.3 if name == "robots.txt" else 0.1)]
    return made
