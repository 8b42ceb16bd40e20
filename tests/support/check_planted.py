"""Faults to plant in a site whose files keep every rule: at least one for every named rule.

Faults that replace one text by another are in check_planted.toml.
"""

import gzip
import io
import tomllib
import zipfile
from collections.abc import Callable
from pathlib import Path

from tests.support import check_good_site
from tests.support.check_good_site import (
    ALTERNATES,
    ARTICLE,
    BASE,
    CONCERT,
    FLOOD,
    HARBOUR,
    HOST,
    IMAGE,
    INDEX,
    MEDIA,
    NEWS,
    NEWS_SPACE,
    OLD,
    PAGES,
    ROBOTS,
    SERVED,
    SHARD,
    SITEMAP_SPACE,
    TITLE,
    Site,
    good,
    index,
    url,
    urlset,
)

Fault = Callable[[Site], object]


def swap(name: str, old: str, new: str) -> Fault:
    """Return a fault that replaces a correct text of one file."""

    def plant(site: Site) -> None:
        assert old.encode() in site.files[name], f"{old} is not in {name}"
        site.files[name] = site.files[name].replace(old.encode(), new.encode("utf-8", "surrogatepass"), 1)

    return plant


def loc(new: str) -> Fault:
    return swap(SHARD, HARBOUR, new)


def put(name: str, body: bytes) -> Fault:
    return lambda site: site.files.update({name: body})


def remove(*names: str) -> Fault:
    return lambda site: [site.files.pop(name) for name in names]


def minified(name: str) -> Fault:
    return lambda site: site.files.update({name: site.files[name].replace(b"\n", b"")})


def served(name: str, **headers: str | None) -> Fault:
    return lambda site: site.headers.update({name: {**SERVED, **headers}})


def listed(name: str, body: bytes) -> Fault:
    """Return a fault that adds a file, correctly listed in the index."""
    return lambda site: site.files.update({name: body, INDEX: index(SHARD, OLD, MEDIA, NEWS, name)})


def both(*faults: Fault) -> Fault:
    return lambda site: [fault(site) for fault in faults]


def zipped() -> bytes:
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr(SHARD, good().files[SHARD])
    return archive.getvalue()


SHARD_BODY, NEWS_BODY = good().files[SHARD], good().files[NEWS]
MANY = [f"{BASE}{number}" for number in range(50_001)]
HARBOUR_DATE = "<lastmod>2026-11-12T10:00:00Z</lastmod>"
NEWS_DATE = "2026-11-20T07:58:00Z"
ENTITIES = '<!DOCTYPE urlset [<!ENTITY a "ha"><!ENTITY b "&a;&a;&a;&a;&a;&a;&a;&a;&a;&a;">]>\n<urlset'


def read_swaps() -> list[tuple[str, str, Fault]]:
    constants = {name: value for name, value in (vars(check_good_site) | globals()).items() if name.isupper()}
    rows = tomllib.loads(Path(__file__).with_suffix(".toml").read_text("utf-8"))["swaps"]
    return [
        (rule, what, swap(constants[file], *(text.format_map(constants) for text in texts)))
        for rule, what, file, *texts in rows
    ]


# name of the rule, what is planted, and the fault
CASES: list[tuple[str, str, Fault]] = [
    *read_swaps(),
    ("not-utf-8", "latin-1", put(SHARD, urlset(url(HARBOUR), url(f"{BASE}\u00fc")).decode().encode("latin-1"))),
    ("not-utf-8", "UTF-16", put(SHARD, SHARD_BODY.decode().encode("utf-16"))),
    ("not-utf-8", "UTF-16 without a mark", put(SHARD, SHARD_BODY.decode().encode("utf-16-be"))),
    ("not-utf-8", "half a character at the end", swap(SHARD, "</urlset>\n", "</urlset>\n\ud83c")),
    ("not-utf-8", "latin-1 in a list", put(PAGES, f"{BASE}\u00fc\n".encode("latin-1"))),
    ("root-element", "another", put(SHARD, SHARD_BODY.replace(b"urlset", b"sitemaps"))),
    ("root-element", "a page", put(SHARD, b"<!DOCTYPE html>\n<html><body><p>Not found<br></body></html>")),
    ("root-element", "a page that is no XML", put(SHARD, b"\n<!doctype html><html><head><title>x</title></head></html>")),
    ("root-element", "no XML", put(SHARD, b"Not Found")),
    ("root-prefix", "a prefix", put(SHARD, SHARD_BODY.replace(b"<", b"<s:").replace(b"<s:/", b"</s:").replace(b"<s:?", b"<?").replace(b"xmlns=", b"xmlns:s="))),
    ("not-well-formed", "cut off", put(SHARD, SHARD_BODY[:-20])),
    ("not-well-formed", "two root elements", put(SHARD, SHARD_BODY + b"<urlset/>")),
    ("not-well-formed", "empty", put(SHARD, b"")),
    ("loc-too-long", "2,048 characters", loc(HARBOUR.ljust(2_048, "x"))),
    ("loc-too-long", "in a list", put(PAGES, HARBOUR.ljust(2_048, "x").encode())),
    ("out-of-scope", "beside its folder", listed("news/sitemap.xml", urlset(url(f"{BASE}sport/1")))),
    ("out-of-scope", "a folder of a like name", listed("news/sitemap.xml", urlset(url(f"{BASE}newspaper/1")))),
    ("storage-host", "all of them", put(SHARD, SHARD_BODY.replace(HOST.encode(), b"d111.cloudfront.net"))),
    ("too-many-urls", "50,001", put(SHARD, urlset(*(url(path) for path in MANY), url(FLOOD)))),
    ("too-many-urls", "in a list", put(PAGES, "\n".join(MANY).encode())),
    ("too-large", "more than 50 MiB", swap(SHARD, "</urlset>", " " * 52_428_800 + "</urlset>")),
    ("too-large", "unpacked", put(OLD, gzip.compress(SHARD_BODY + b" " * 52_428_800, 1))),
    ("child-count", "two lastmods", swap(SHARD, HARBOUR_DATE, HARBOUR_DATE * 2)),
    ("too-many-sitemaps", "50,001", put(INDEX, index(SHARD, OLD, MEDIA, NEWS, *(f"{number}.xml" for number in range(50_000))))),
    ("text-line", "a heading", put(PAGES, f"Our pages\n{CONCERT}\n".encode())),
    ("gzip-damaged", "cut off", put(OLD, gzip.compress(SHARD_BODY)[:-20])),
    ("gzip-damaged", "another checksum", put(OLD, gzip.compress(SHARD_BODY)[:-8] + bytes(8))),
    ("gzip-trailing", "a comment", put(OLD, gzip.compress(good().files[MEDIA].replace(BASE.encode(), f"{BASE}x/".encode())) + b"<!-- cached -->")),
    ("forms-differ", "a gzip of yesterday", put(f"{SHARD}.gz", gzip.compress(SHARD_BODY.replace(b"T10", b"T09")))),
    ("forms-differ", "a text that lists less", put(SHARD.replace("xml", "txt"), f"{HARBOUR}\n".encode())),
    ("zip", "an archive", put(OLD, zipped())),
    ("byte-order-mark", "in a list", put(PAGES, b"\xef\xbb\xbf" + CONCERT.encode())),
    ("news-prefix", "of ElementTree", put(NEWS, NEWS_BODY.replace(b"news:", b"ns0:").replace(b":news=", b":ns0="))),
    ("news-child-count", "two titles", swap(NEWS, TITLE, TITLE * 2)),
    ("news-twice", "two", swap(NEWS, ARTICLE, ARTICLE * 2)),
    ("news-mixed", "a page without", swap(NEWS, "</urlset>", f"{url(CONCERT)}</urlset>")),
    ("too-many-news", "1,001", put(NEWS, urlset(*(url(path, ARTICLE) for path in MANY[:1_001]), spaces=f"{SITEMAP_SPACE} {NEWS_SPACE}"))),
    ("news-duplicate", "in a file", swap(NEWS, "</urlset>", f"{url(FLOOD, ARTICLE)}</urlset>")),
    ("news-duplicate", "on one line", both(swap(NEWS, "</urlset>", f"{url(FLOOD, ARTICLE)}</urlset>"), minified(NEWS))),
    ("news-duplicate", "in two files", listed("sitemap-news-2.xml", NEWS_BODY)),
    ("news-only", "in no shard", put(SHARD, urlset(url(HARBOUR)))),
    ("empty", "no url", put(NEWS, urlset())),
    ("empty", "no sitemap", put(INDEX, index())),
    ("too-many-images", "1,001", swap(MEDIA, IMAGE, IMAGE * 1_001)),
    ("video-description", "2,049 characters", swap(MEDIA, "The harbour under water.", "x" * 2_049)),
    ("video-title", "101 characters", swap(MEDIA, ">Flood</video:title>", f">{'x' * 101}</video:title>")),
    ("video-value", "uploader", swap(MEDIA, "News desk", "x" * 256)),
    ("video-child-count", "33 tags", swap(MEDIA, "<video:tag>flood</video:tag>", "<video:tag>x</video:tag>" * 32)),
    ("alternate-not-mutual", "one side only", swap(MEDIA, url(f"{BASE}fr/about", ALTERNATES), url(f"{BASE}fr/about"))),
    ("alternate-not-mutual", "no such page", swap(MEDIA, url(f"{BASE}fr/about", ALTERNATES), "")),
    ("index-scope", "above its directory", put("news/sitemap.xml", index(SHARD))),
    ("nested-index", "itself", put(INDEX, index(SHARD, OLD, MEDIA, NEWS, INDEX))),
    ("nested-index", "another", listed("sitemap-more.xml", index(SHARD))),
    ("child-missing", "a shard", put(INDEX, index(SHARD, OLD, MEDIA, NEWS, "sitemap-2026-09.xml"))),
    ("no-entry", "neither sitemap.xml nor robots.txt", remove(INDEX, ROBOTS)),
    ("no-entry", "robots.txt names the news only", both(remove(INDEX), put(ROBOTS, f"Sitemap: {BASE}{NEWS}\n".encode()))),
    ("no-entry", "robots.txt names none", both(remove(INDEX), put(ROBOTS, b"User-agent: *\nDisallow: /search\n"))),
    ("not-in-index", "a shard", put("sitemap-2026-09.xml", urlset(url(f"{BASE}2026/09/01/rain", lastmod="2026-09-01")))),
    ("duplicate", "in a file", swap(SHARD, "</urlset>", f"{url(HARBOUR)}</urlset>")),
    ("duplicate", "on one line", both(swap(SHARD, "</urlset>", f"{url(HARBOUR)}</urlset>"), minified(SHARD))),
    ("duplicate", "in two files", listed("sitemap-2026-09.xml", urlset(url(HARBOUR)))),
    ("duplicate", "in an index", put(INDEX, index(SHARD, SHARD, OLD, MEDIA, NEWS))),
    ("duplicate", "by its gzip too", both(put(INDEX, index(SHARD, f"{SHARD}.gz", OLD, MEDIA, NEWS)), put(f"{SHARD}.gz", gzip.compress(SHARD_BODY)))),
    ("duplicate", "in two indexes", put("sitemap-index-2.xml", index(SHARD))),
    ("robots-disallowed", "all for Google", put(ROBOTS, f"User-agent: Googlebot\nUser-agent: x\nDisallow: /\nAllow: /p\n\nSitemap: {BASE}{INDEX}\nSitemap: {BASE}{PAGES}".encode())),
    ("crawler-shut-out", "everybody, where no sitemap is named", put(ROBOTS, b"User-agent: *\nDisallow: /\n")),
    ("crawler-shut-out", "everybody, by an asterisk", put(ROBOTS, b"User-agent: *\nDisallow: *\n")),
    ("crawler-shut-out", "Google News", put(ROBOTS, b"User-agent: *\nDisallow:\n\nUser-agent: Googlebot-News\nDisallow: /\n")),
    ("crawler-shut-out", "Bing, among others", put(ROBOTS, b"User-agent: GPTBot\nUser-agent: BingBot/2.0\nUser-agent: CCBot\nDisallow: /\n")),
    ("news-in-general", "an article among pages", swap(MEDIA, url(f"{BASE}gallery", IMAGE), url(FLOOD, ARTICLE.replace("<news:news>", f"<news:news {NEWS_SPACE}>")))),
    ("content-type", "S3's default", served(SHARD, ContentType="binary/octet-stream")),
    ("content-type", "none", served(SHARD, ContentType=None)),
    ("content-type", "no charset", served(SHARD, ContentType="text/xml")),
    ("content-type", "another charset", served(SHARD, ContentType="text/xml; charset=ISO-8859-1")),
    ("content-type", "XML under gz", served(OLD, ContentType="application/xml")),
    ("compressed-name", "under .xml", put(SHARD, gzip.compress(SHARD_BODY))),
    ("compressed-name", "plain under .gz", put(OLD, urlset(url(f"{BASE}fog", lastmod="2026-10-01")))),
    ("compressed-name", "twice", put(OLD, gzip.compress(good().files[OLD]))),
    ("content-encoding", "of a plain file", served(SHARD, ContentEncoding="gzip")),
    ("content-encoding", "of a compressed file", served(OLD, ContentType="application/gzip", ContentEncoding="gzip")),
    ("cache-control", "none", served(NEWS, CacheControl=None)),
    ("cache-control", "a day", served(NEWS, CacheControl="public, max-age=86400")),
    ("cache-control", "of an index", served(INDEX, CacheControl="public")),
    ("hostile", "nested", swap(SHARD, HARBOUR_DATE, "<a>" * 40 + "</a>" * 40)),
    ("hostile", "a tag of two megabytes", swap(SHARD, "<loc>", f'<loc a="{"x" * 2_097_152}">')),
]  # fmt: skip

# Planted where files are fetched: test_fetching.py.
FETCHED = {"redirected", "not-served"}
