"""What readers of the files see, read without anything of the product: and what no file may ever be."""

import gzip
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from urllib.parse import quote, unquote
from xml.etree import ElementTree as ET

SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
XHTML = "{http://www.w3.org/1999/xhtml}"
NEWS = "{http://www.google.com/schemas/sitemap-news/0.9}"

_INDEX = re.compile(r"sitemap(-index-\d+)?\.xml")


@dataclass
class Listed:
    """What the files of a site list, by the index: pages and their lastmod, news, the files, and pages listed twice.

    `written` is how the URL of a page is spelled. `twice` has also the pages whose lines list other links.
    """

    pages: dict[str, datetime | None] = field(default_factory=dict)
    news: dict[str, tuple[str, datetime, str]] = field(default_factory=dict)  # title, date, publication
    news_of: dict[str, set[str]] = field(default_factory=dict)  # by the series of its file
    files: set[str] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)
    written: dict[str, str] = field(default_factory=dict)
    links: dict[str, dict[str, str]] = field(default_factory=dict)  # of each page, by language; of the news the same


def faults(host: str, name: str, body: bytes, *, news_max: int, shard_max: int) -> list[str]:
    """What is wrong with the bytes of one file by itself."""
    if name.endswith(".gz"):
        name, body = name.removesuffix(".gz"), gzip.decompress(body)
    if not name.endswith(".xml"):
        return [] if body.decode() else [f"{name} is empty"]
    root = ET.fromstring(body)
    locs = [str(loc.text) for loc in root.iter(f"{SITEMAP}loc")]
    pages = [page(loc) for loc in locs]
    found = [f"{name}: {loc} is not of {host}" for loc in pages if not loc.startswith(f"https://{host}/")]
    if len({loc.partition(":")[0] for loc in locs}) > 1:
        found.append(f"{name} has URLs of both schemes")
    found += [f"{name}: {loc} stands in it twice" for loc in set(pages) if pages.count(loc) > 1]
    if root.tag == f"{SITEMAP}sitemapindex":
        return found + ([] if _INDEX.fullmatch(name) else [f"{name} is an index"])
    if root.tag != f"{SITEMAP}urlset" or not locs:
        found.append(f"{name} lists nothing, or is no sitemap")
    is_news = name.startswith("sitemap-news")
    most = news_max if is_news else shard_max
    found += [f"{name} has {len(locs)} URLs, at most {most}"] if len(locs) > most else []
    for url in root.iter(f"{SITEMAP}url"):
        entry = url.find(f"{NEWS}news")
        home = page(str(url.findtext(f"{SITEMAP}loc"))) == f"https://{host}/"
        if (entry is None) != (home or not is_news):
            found.append(
                f"{name}: {url.findtext(f'{SITEMAP}loc')} has news tags where none belong, or none where they do"
            )
        if entry is not None and not all(
            entry.findtext(f"{NEWS}{part}") for part in ("publication/" + NEWS + "name", "publication_date", "title")
        ):
            found.append(f"{name}: an entry without name, date or title")
    return found


def page(url: str) -> str:
    """The page that a URL names, whatever its spelling and its scheme."""
    return quote(unquote(secure(url)), safe=":/")


def secure(text: str) -> str:
    """A text with its URLs under https."""
    return text.replace("http://", "https://")


def escaped(url: str) -> str:
    """A URL as it may stand in a file: nothing but ASCII."""
    return quote(url, safe=":/%")


def urls(name: str, body: bytes) -> set[str]:
    """Every page whose URL stands in a file or in a message."""
    plain = gzip.decompress(body) if name.endswith(".gz") else body
    return {page(url) for url in re.findall(r"https?://[^\s<>\"&]+", plain.decode())}


def in_index(objects: Mapping[str, bytes], host: str) -> list[str]:
    roots = [ET.fromstring(objects[f"{host}/{name}"]) for name in indexes(objects, host)]
    locs = [loc for root in roots for loc in root.findall(f"{SITEMAP}sitemap/{SITEMAP}loc")]
    return [page(str(loc.text)).removeprefix(f"https://{host}/") for loc in locs]


def indexes(objects: Mapping[str, bytes], host: str) -> list[str]:
    """The indexes of a site. One may list the home page alone."""
    names = (key.removeprefix(f"{host}/") for key in objects)
    return [name for name in names if _INDEX.fullmatch(name)]


def listed(objects: Mapping[str, bytes], host: str) -> Listed:
    """What the files that the index names list. The home page stands for nothing."""
    found = Listed()
    names = in_index(objects, host)
    found.twice = {name for name in names if names.count(name) > 1}
    for name in names:
        body = objects[f"{host}/{name}"]
        plain = name.removesuffix(".gz")
        if plain != name:
            body = gzip.decompress(body)
        found.files.add(plain)
        for url in ET.fromstring(body).iter(f"{SITEMAP}url"):
            written, lastmod = str(url.findtext(f"{SITEMAP}loc")), url.findtext(f"{SITEMAP}lastmod")
            loc = page(written)
            entry = url.find(f"{NEWS}news")
            if loc == f"https://{host}/":
                continue
            if loc in (found.pages if entry is None else found.news):
                found.twice.add(loc)
            found.written[loc] = secure(written)
            links = {str(link.get("hreflang")): page(str(link.get("href"))) for link in url.iter(f"{XHTML}link")}
            if found.links.setdefault(loc, links) != links:
                found.twice.add(loc)
            if entry is None:
                found.pages[loc] = instant(lastmod) if lastmod else None
            else:
                name_ = str(entry.findtext(f"{NEWS}publication/{NEWS}name"))
                date = instant(str(entry.findtext(f"{NEWS}publication_date")))
                found.news_of.setdefault(_series(plain), set()).add(loc)
                found.news[loc] = (str(entry.findtext(f"{NEWS}title")), date, name_)
    return found


def _series(name: str) -> str:
    """What the names of a news sitemap and of its overflow have in common."""
    return re.sub(r"(-\d+)?\.xml$", "", name)


def forms_that_differ(objects: Mapping[str, bytes], host: str) -> list[str]:
    """Gzip and text files that do not say what their sitemap says."""
    found = []
    for key, body in objects.items():
        name = key.removeprefix(f"{host}/")
        if not key.startswith(f"{host}/"):
            continue
        if name.endswith(".xml.gz") and gzip.decompress(body) != objects.get(key.removesuffix(".gz")):
            found.append(name)
        if name.endswith(".txt") and name != "robots.txt":
            xml = objects.get(key.removesuffix(".txt") + ".xml", b"<none/>")
            locs = sorted(str(loc.text) for loc in ET.fromstring(xml).iter(f"{SITEMAP}loc"))
            found += [name] if body.decode().splitlines() != locs else []
        if name.endswith(".atom"):
            series = name.removesuffix(".atom")
            entries = set(re.findall(rb"<entry[^>]*><id>([^<]*)", body))
            news = {
                secure(str(loc.text)).encode()
                for other, xml in objects.items()
                if re.fullmatch(rf"{re.escape(host)}/{series}(-\d+)?\.xml", other)
                for url in ET.fromstring(xml).iter(f"{SITEMAP}url")
                if url.find(f"{NEWS}news") is not None and (loc := url.find(f"{SITEMAP}loc")) is not None
            }
            found += [name] if entries != news else []
    return found


def forms_that_are_not_as_wanted(objects: Mapping[str, bytes], host: str, outputs: Mapping[str, bool]) -> str:
    """Which gzip, text and feed is missing of the files that stand, and which is there that nobody wants."""
    here = {key.removeprefix(f"{host}/") for key in objects if key.startswith(f"{host}/")}
    files = {name for name in here if name.endswith(".xml")}
    shards = {name for name in files if re.match(r"sitemap-\d{4}", name)}
    wanted = {f"{name}.gz" for name in files} if outputs.get("gzip") else set()
    wanted |= {f"{name.removesuffix('.xml')}.txt" for name in shards} if outputs.get("text") else set()
    series = {_series(name) for name in files if name.startswith("sitemap-news")}
    wanted |= {f"{name}.atom" for name in series} if outputs.get("atom") else set()
    found = {name for name in here if name.endswith((".xml.gz", ".txt", ".atom"))} - {"robots.txt"}
    missing, unwanted = sorted(wanted - found), sorted(found - wanted)
    return f"without {missing}, with {unwanted}" if missing or unwanted else ""


def robots_that_is_not_as_wanted(
    objects: Mapping[str, bytes], host: str, rules: str | None, editions: Sequence[Mapping[str, str]]
) -> str:
    """What is wrong with a site's robots.txt; `rules` are those that it is to have, None where none is kept."""
    body = objects.get(f"{host}/robots.txt")
    if rules is None or body is None:
        return f"robots.txt is {'there' if body else 'not there'}" if (rules is None) != (body is None) else ""
    names = [
        "sitemap.xml",
        "sitemap-news.xml",
        *(f"sitemap-news-{one['news']}.xml" for one in editions if "news" in one),
    ]
    wanted = [*(f"Sitemap: https://{host}/{name}" for name in names), *rules.splitlines()]
    found = [line for line in secure(body.decode()).splitlines() if line]
    others = {f"Sitemap: https://{host}/{name}" for name in indexes(objects, host)} - set(wanted)
    if not others <= set(found):
        return f"robots.txt lacks {sorted(others)}"
    found = [line for line in found if line not in others]
    return f"robots.txt says {found}, not {wanted}" if found != wanted else ""


def of_another_scheme(objects: Mapping[str, bytes], host: str, scheme: str) -> list[str]:
    """The files of a site that list URLs of its host under another scheme."""
    other = {"http": "https", "https": "http"}[scheme]
    texts = {
        key: body for key, body in objects.items() if key.startswith(f"{host}/") and key.endswith((".xml", ".txt"))
    }
    return [key for key, body in texts.items() if f"{other}://{host}/".encode() in body]


def instant(text: str) -> datetime:
    """A W3C datetime with a zone."""
    return datetime.fromisoformat(text)
