"""Random sites: a configuration, the stories that the site received, and its next configuration, all from one seed."""

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
# The probability that a setting is present.
PRESENT = 0.4


@dataclass
class Case:
    """A site. `before` is None for a new host."""

    host: str
    before: Document | None
    after: Document
    events: list[tuple[str, Document]] = field(default_factory=list)
    edited: list[str] = field(default_factory=list)  # files that are overwritten by hand


def _rule(rng: random.Random) -> Document:
    conditions: Document = {
        "path": rng.choice(["/fr/*", "*1*", "/news-?", "/"]),
        "section": rng.choice(SECTIONS),
        "keyword": rng.choice(KEYWORDS),
        "type": rng.choice(["live", "video"]),
        "flag": "sponsored",
    }
    chosen = rng.sample(sorted(conditions), rng.randint(1, 2))
    verdict = {rng.choice(["exclude", "include"]): rng.choice(["all", "general", "news"])}
    return {name: conditions[name] for name in chosen} | (verdict if rng.random() < 0.8 else {})


def _edition(rng: random.Random, prefix: str) -> Document:
    voice = {"publication": rng.choice(NAMES), "language": rng.choice(LANGUAGES)}
    own = {name: value for name, value in voice.items() if rng.random() < 0.5}
    name = prefix.strip("/").replace("/", "")
    return {"prefix": prefix.rstrip("/")} | own | ({"news": name} if rng.random() < 0.6 else {})


def _page(rng: random.Random) -> Any:
    path = rng.choice(["/", "/sport", "/about", "/fr/page-1", "/news-1"])
    hints = {"url": path, "changefreq": "daily", "priority": rng.choice([0.5, "1.0"])}
    return path if rng.random() < 0.5 else hints


def _some(rng: random.Random, values: list[Any]) -> list[Any]:
    return rng.sample(values, rng.randint(0, len(values)))


SETTINGS: dict[str, Callable[[random.Random], Any]] = {
    "publication": lambda rng: rng.choice(NAMES),
    "language": lambda rng: rng.choice(LANGUAGES),
    "scheme": lambda rng: rng.choice(["https", "http"]),
    "timezone": lambda rng: rng.choice(["UTC", "Europe/Paris", "America/New_York"]),
    "shards": lambda rng: {
        "by": rng.choice(["day", "month", "year"]),
        "size": rng.choice([2, 3, 2000]),
        "per_section": rng.random() < 0.5,
    },
    "rules": lambda rng: [_rule(rng) for _ in range(rng.randint(0, 3))],
    "sections": lambda rng: {name: _voice(rng) for name in _some(rng, SECTIONS)},
    "editions": lambda rng: [_edition(rng, prefix) for prefix in _some(rng, PATHS[1:])],
    "pages": lambda rng: [_page(rng) for _ in range(rng.randint(0, 3))],
    "write": lambda rng: _some(rng, ["keywords", "changefreq", "priority"]),
    "outputs": lambda rng: (
        dict.fromkeys(_some(rng, ["gzip", "text", "atom"]), True)
        | ({"hub": "https://hub.example.net/"} if rng.random() < 0.2 else {})
    ),
    "engines": lambda rng: {"indexnow": rng.choice([None, {"key": "0f4b1c2d3e4f5a6b"}])},
    "robots": lambda rng: rng.choice(["", "User-agent: *\nDisallow: /private/"]),
    "republish": lambda rng: rng.choice(["keep-date", "new-date"]),
    "alternate_hosts": lambda rng: _some(rng, ["fr.example.org", "de.example.net"]),
    "silent_after_hours": lambda rng: rng.randint(1, 720),
}


def _voice(rng: random.Random) -> Document:
    voice = {"publication": rng.choice(NAMES), "language": rng.choice(LANGUAGES)}
    return {name: value for name, value in voice.items() if rng.random() < 0.6}


def _document(rng: random.Random, host: str) -> Document:
    settings = {name: make(rng) for name, make in SETTINGS.items() if rng.random() < PRESENT}
    return {"host": host, "publication": "Example News", "sources": {"bus": {}}} | settings


def _changed(rng: random.Random, before: Document) -> Document:
    """Return the configuration with one to four settings changed, added or removed."""
    after = dict(before)
    for name in rng.sample(sorted(SETTINGS), rng.randint(1, 4)):
        if name in after and name != "publication" and rng.random() < 0.3:
            del after[name]
        else:
            after[name] = SETTINGS[name](rng)
    return after


def _event(rng: random.Random, host: str, number: int, now: datetime) -> tuple[str, Document]:
    """Return a story or a page at `now`. Stories leave the news window 40 seconds, or at least half an hour, after `now`."""
    path = f"{rng.choice(PATHS)}{rng.choice(['news', 'page', 'é'])}-{number}"
    hours = rng.choice([0, 1, 20, 47, 60, 24 * 20, 24 * 200])
    published = now - timedelta(hours=hours, minutes=rng.randint(0, 30))
    if rng.random() < 0.1:  # it expires in the minute of the change
        published = now - NEWS_WINDOW + timedelta(seconds=40)
    optional: Document = {
        "section": rng.choice(SECTIONS),
        "keywords": rng.sample(KEYWORDS, 2),
        "type": rng.choice(["live", "video", "text"]),
        "flags": ["sponsored"],
        "language": rng.choice(LANGUAGES),
        "publication": rng.choice(NAMES),
        "images": [f"https://{host}/images/{number}.jpg"],
        "alternates": {"fr": f"https://{host}/fr/news-{number}", "en": f"https://{host}{path}"},
        "changefreq": "hourly",
        "priority": 0.7,
        "updated_at": (published + timedelta(minutes=5)).isoformat(),
    }
    data = {name: value for name, value in optional.items() if rng.random() < 0.4}
    data |= {"id": str(number), "url": f"https://{host}{path}", "title": f"Story {number} & more"}
    if rng.random() < 0.15:
        return "page.published", data
    return "article.published", data | {"published_at": published.isoformat()}


def case(seed: int, now: datetime) -> Case:
    """Return the site of a seed. Its stories are received at `now`, and its configuration changes 50 seconds later."""
    rng = random.Random(f"configurations {seed}")
    host = f"site-{seed}.example.com"
    before = _document(rng, host)
    site_case = Case(host, before, _changed(rng, before) if rng.random() < 0.8 else _document(rng, host))
    if rng.random() < 0.05:
        site_case.before = None
        return site_case
    published = [_event(rng, host, number, now) for number in range(rng.randint(0, 12))]
    removed = [
        (f"{kind.partition('.')[0]}.deleted", {"id": data["id"]}) for kind, data in published if rng.random() < 0.25
    ]
    site_case.events = published + removed
    names = [
        "robots.txt",
        "sitemap-news.xml",
        "sitemap.xml",
        "sitemap-news.atom",
        "sitemap-news.xml.gz",
        "of-others.txt",
    ]
    site_case.edited = [name for name in names if rng.random() < (0.3 if name == "robots.txt" else 0.1)]
    return site_case
