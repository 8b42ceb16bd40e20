"""The judge of a flood: whether the files that are served say what the senders remember."""

import re
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from xml.etree import ElementTree as ET

from bench.load.newsroom import HOST, Page, text
from bench.load.served import Served

WINDOW = timedelta(hours=48)

_SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
_NEWS = "{http://www.google.com/schemas/sitemap-news/0.9}"


def differences(stack: Served, pages: list[Page], now: datetime) -> list[str]:
    """What the files that are served say otherwise than the senders remember."""
    wrong: list[str] = []
    _, home = stack.get("/")
    there = set(re.findall(rf'"/{HOST}/([^"]+)"', home.decode()))
    indexed = [loc.removeprefix(f"https://{HOST}/") for loc in _texts(stack.get("/sitemap.xml")[1], "sitemap/", "loc")]
    wrong += [f"sitemap.xml names {name} twice" for name, times in Counter(indexed).items() if times > 1]
    wrong += [f"sitemap.xml names {name}, which is not there" for name in sorted(set(indexed) - there)]
    found: dict[str, list[tuple[str, str, str]]] = {}  # by series: URL, title (of news), lastmod
    for name in sorted(there - {"sitemap.xml"}):
        status, body = stack.get(f"/{name}")
        if status != 200:
            wrong.append(f"{name} is answered {status}")
            continue
        rows = list(_rows(body))
        series = re.sub(r"(?<=news)-\d+|(?<=-\d\d-\d\d)-\d+", "", name.removesuffix(".xml"))
        if name in indexed:
            found[series] = found.get(series, []) + [row for row in rows if row[0] != f"https://{HOST}/"]
        elif any(row[0] != f"https://{HOST}/" for row in rows):
            wrong.append(f"{name} has pages, and is not in sitemap.xml")
    wanted: dict[str, list[tuple[str, str, str]]] = {"sitemap-news": []}
    for page in pages:
        wanted.setdefault(f"sitemap-{page.first:%Y-%m}", []).append((page.url, "", text(page.changed)))
        if page.first + WINDOW > now:
            wanted["sitemap-news"].append((page.url, page.title, text(page.changed)))
    for series in sorted(wanted.keys() | found.keys()):
        want, have = Counter(wanted.get(series, [])), Counter(found.get(series, []))
        wrong += [f"{series}: lost, or in an older state: {row}" for row in sorted((want - have).elements())]
        wrong += [f"{series}: should not be there: {row}" for row in sorted((have - want).elements())]
    return wrong


def _texts(body: bytes, within: str, tag: str) -> list[str]:
    return [str(one.text) for one in ET.fromstring(body).iterfind(f"{_SITEMAP}{within}{_SITEMAP}{tag}")]


def _rows(body: bytes) -> Iterator[tuple[str, str, str]]:
    for url in ET.fromstring(body).iter(f"{_SITEMAP}url"):
        title = url.findtext(f"{_NEWS}news/{_NEWS}title", "")
        lastmod = url.findtext(f"{_SITEMAP}lastmod")
        changed = text(datetime.fromisoformat(lastmod).astimezone(UTC)) if lastmod else ""
        yield url.findtext(f"{_SITEMAP}loc", ""), title, changed
