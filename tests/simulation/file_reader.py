"""Reads sitemaps independently of the product, and checks the rules that each file must keep."""

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
class Listing:
    """The content of the files that a site's index lists: pages with lastmod, news, files, and pages listed twice.

    `written` is each page's URL as spelled in the file. `twice` also contains pages whose entries have different links.
    """

    pages: dict[str, datetime | None] = field(default_factory=dict)
    news: dict[str, tuple[str, datetime, str]] = field(default_factory=dict)  # title, date, publication
    news_of: dict[str, set[str]] = field(default_factory=dict)  # by series of files
    files: set[str] = field(default_factory=set)
    twice: set[str] = field(default_factory=set)
    written: dict[str, str] = field(default_factory=dict)
    links: dict[str, dict[str, str]] = field(default_factory=dict)  # of each page, by language; equal in all files


def file_errors(host: str, name: str, body: bytes, *, news_max: int, shard_max: int) -> list[str]:
    """Return the errors of one file."""
    if name.endswith(".gz"):
        name, body = name.removesuffix(".gz"), gzip.decompress(body)
    if not name.endswith(".xml"):
        return [] if body.decode() else [f"{name} is empty"]
    root = ET.fromstring(body)
    locs = [str(loc.text) for loc in root.iter(f"{SITEMAP}loc")]
    pages = [page(loc) for loc in locs]
    errors = [f"{name}: {loc} is not of {host}" for loc in pages if not loc.startswith(f"https://{host}/")]
    if len({loc.partition(":")[0] for loc in locs}) > 1:
        errors.append(f"{name} has URLs of both schemes")
    errors += [f"{name} lists {loc} twice" for loc in set(pages) if pages.count(loc) > 1]
    if root.tag == f"{SITEMAP}sitemapindex":
        return errors + ([] if _INDEX.fullmatch(name) else [f"{name} is an index"])
    if root.tag != f"{SITEMAP}urlset" or not locs:
        errors.append(f"{name} is empty, or is not a sitemap")
    is_news = name.startswith("sitemap-news")
    most = news_max if is_news else shard_max
    errors += [f"{name} has {len(locs)} URLs, at most {most}"] if len(locs) > most else []
    for url in root.iter(f"{SITEMAP}url"):
        entry = url.find(f"{NEWS}news")
        home = page(str(url.findtext(f"{SITEMAP}loc"))) == f"https://{host}/"
        if (entry is None) != (home or not is_news):
            errors.append(f"{name}: {url.findtext(f'{SITEMAP}loc')} has unexpected news tags, or lacks news tags")
        if entry is not None and not all(
            entry.findtext(f"{NEWS}{part}") for part in ("publication/" + NEWS + "name", "publication_date", "title")
        ):
            errors.append(f"{name}: an entry without name, date or title")
    return errors


def page(url: str) -> str:
    """Normalize a URL's spelling and scheme."""
    return quote(unquote(secure(url)), safe=":/")


def secure(text: str) -> str:
    """Replace http by https in all URLs of a text."""
    return text.replace("http://", "https://")


def escaped(url: str) -> str:
    """Return a URL escaped to ASCII, as in a file."""
    return quote(url, safe=":/%")


def urls(name: str, body: bytes) -> set[str]:
    """Return all pages whose URLs are in a file or a message."""
    plain = gzip.decompress(body) if name.endswith(".gz") else body
    return {page(url) for url in re.findall(r"https?://[^\s<>\"&]+", plain.decode())}


def in_index(objects: Mapping[str, bytes], host: str) -> list[str]:
    roots = [ET.fromstring(objects[f"{host}/{name}"]) for name in indexes(objects, host)]
    locs = [loc for root in roots for loc in root.findall(f"{SITEMAP}sitemap/{SITEMAP}loc")]
    return [page(str(loc.text)).removeprefix(f"https://{host}/") for loc in locs]


def indexes(objects: Mapping[str, bytes], host: str) -> list[str]:
    """Return the names of a site's indexes. An index may list only the home page."""
    names = (key.removeprefix(f"{host}/") for key in objects)
    return [name for name in names if _INDEX.fullmatch(name)]


def read_listing(objects: Mapping[str, bytes], host: str) -> Listing:
    """Read the files that the index lists. The home page, listed in empty files, is left out."""
    listing = Listing()
    names = in_index(objects, host)
    listing.twice = {name for name in names if names.count(name) > 1}
    for name in names:
        body = objects[f"{host}/{name}"]
        plain = name.removesuffix(".gz")
        if plain != name:
            body = gzip.decompress(body)
        listing.files.add(plain)
        for url in ET.fromstring(body).iter(f"{SITEMAP}url"):
            written, lastmod = str(url.findtext(f"{SITEMAP}loc")), url.findtext(f"{SITEMAP}lastmod")
            loc = page(written)
            entry = url.find(f"{NEWS}news")
            if loc == f"https://{host}/":
                continue
            if loc in (listing.pages if entry is None else listing.news):
                listing.twice.add(loc)
            listing.written[loc] = secure(written)
            links = {str(link.get("hreflang")): page(str(link.get("href"))) for link in url.iter(f"{XHTML}link")}
            if listing.links.setdefault(loc, links) != links:
                listing.twice.add(loc)
            if entry is None:
                listing.pages[loc] = instant(lastmod) if lastmod else None
            else:
                name_ = str(entry.findtext(f"{NEWS}publication/{NEWS}name"))
                date = instant(str(entry.findtext(f"{NEWS}publication_date")))
                listing.news_of.setdefault(_series(plain), set()).add(loc)
                listing.news[loc] = (str(entry.findtext(f"{NEWS}title")), date, name_)
    return listing


def _series(name: str) -> str:
    """Return the common part of the names of a news sitemap and its overflow files."""
    return re.sub(r"(-\d+)?\.xml$", "", name)


def differing_forms(objects: Mapping[str, bytes], host: str) -> list[str]:
    """Return the gzip, text and Atom files whose content differs from their sitemap."""
    differing = []
    for key, body in objects.items():
        name = key.removeprefix(f"{host}/")
        if not key.startswith(f"{host}/"):
            continue
        if name.endswith(".xml.gz") and gzip.decompress(body) != objects.get(key.removesuffix(".gz")):
            differing.append(name)
        if name.endswith(".txt") and name != "robots.txt":
            xml = objects.get(key.removesuffix(".txt") + ".xml", b"<none/>")
            locs = sorted(str(loc.text) for loc in ET.fromstring(xml).iter(f"{SITEMAP}loc"))
            differing += [name] if body.decode().splitlines() != locs else []
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
            differing += [name] if entries != news else []
    return differing


def form_errors(objects: Mapping[str, bytes], host: str, outputs: Mapping[str, bool]) -> str:
    """Return the gzip, text and Atom files that are missing or not configured; empty if there are none."""
    names = {key.removeprefix(f"{host}/") for key in objects if key.startswith(f"{host}/")}
    files = {name for name in names if name.endswith(".xml")}
    shards = {name for name in files if re.match(r"sitemap-\d{4}", name)}
    expected = {f"{name}.gz" for name in files} if outputs.get("gzip") else set()
    expected |= {f"{name.removesuffix('.xml')}.txt" for name in shards} if outputs.get("text") else set()
    series = {_series(name) for name in files if name.startswith("sitemap-news")}
    expected |= {f"{name}.atom" for name in series} if outputs.get("atom") else set()
    forms = {name for name in names if name.endswith((".xml.gz", ".txt", ".atom"))} - {"robots.txt"}
    missing, unexpected = sorted(expected - forms), sorted(forms - expected)
    return f"without {missing}, with {unexpected}" if missing or unexpected else ""


def robots_errors(
    objects: Mapping[str, bytes], host: str, rules: str | None, editions: Sequence[Mapping[str, str]]
) -> str:
    """Return the error of a site's robots.txt; `rules` are its configured rules, None if robots.txt is not written."""
    body = objects.get(f"{host}/robots.txt")
    if rules is None or body is None:
        return f"robots.txt {'exists' if body else 'is missing'}" if (rules is None) != (body is None) else ""
    of_editions = [f"sitemap-news-{edition['news']}.xml" for edition in editions if "news" in edition]
    names = ["sitemap.xml", "sitemap-news.xml", *of_editions]
    expected = [*(f"Sitemap: https://{host}/{name}" for name in names), *rules.splitlines()]
    lines = [line for line in secure(body.decode()).splitlines() if line]
    others = {f"Sitemap: https://{host}/{name}" for name in indexes(objects, host)} - set(expected)
    if not others <= set(lines):
        return f"robots.txt lacks {sorted(others)}"
    lines = [line for line in lines if line not in others]
    return f"robots.txt contains {lines}, not {expected}" if lines != expected else ""


def files_of_other_scheme(objects: Mapping[str, bytes], host: str, scheme: str) -> list[str]:
    """Return the files of a site that list URLs of its host under another scheme."""
    other = {"http": "https", "https": "http"}[scheme]
    texts = {
        key: body for key, body in objects.items() if key.startswith(f"{host}/") and key.endswith((".xml", ".txt"))
    }
    return [key for key, body in texts.items() if f"{other}://{host}/".encode() in body]


def instant(text: str) -> datetime:
    """Parse a W3C datetime with a zone."""
    return datetime.fromisoformat(text)
