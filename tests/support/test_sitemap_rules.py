"""The judge is judged: it finds nothing in files that are right, and each planted fault under its rule."""

import gzip
from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests.support import sitemap_rules
from tests.support.beside import SHARED, needs_shared
from tests.support.sitemap_rules import changes, findings

HOST = "www.example.com"
NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
DECLARATION = '<?xml version="1.0" encoding="UTF-8"?>\n'
SITEMAP = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
NEWS = 'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
INDEX = "sitemap.xml"
NEWS_FILE = "sitemap-news.xml"
SHARD = "sitemap-2026-11.xml"
FLOOD = "https://www.example.com/2026/11/20/flood"
HARBOUR = "https://www.example.com/2026/11/12/harbour"
NEWEST = "2026-11-20T08:00:01Z"
LATER = "2026-11-20T08:30:00Z"

Files = dict[str, bytes]
Fault = Callable[[Files], object]


def url(loc: str, lastmod: str = "2026-11-20T08:00:00Z", more: str = "") -> str:
    return f"<url><loc>{loc}</loc><lastmod>{lastmod}</lastmod>{more}</url>\n"


def news(
    title: str = "Flood closes the harbour", date: str = "2026-11-20T07:58:00Z", name: str = "Example News"
) -> str:
    publication = f"<news:publication><news:name>{name}</news:name><news:language>en</news:language></news:publication>"
    return (
        f"<news:news>{publication}<news:publication_date>{date}</news:publication_date>"
        f"<news:title>{title}</news:title></news:news>"
    )


def urlset(*urls: str, spaces: str = SITEMAP) -> bytes:
    return f"{DECLARATION}<urlset {spaces}>\n{''.join(urls)}</urlset>\n".encode()


def index(*names: str, changed: Collection[str] = ()) -> bytes:
    entries = [
        f"<sitemap><loc>https://{HOST}/{name}</loc><lastmod>{LATER if name in changed else NEWEST}</lastmod></sitemap>\n"
        for name in names
    ]
    return f"{DECLARATION}<sitemapindex {SITEMAP}>\n{''.join(entries)}</sitemapindex>\n".encode()


def good() -> Files:
    return {
        INDEX: index(SHARD, NEWS_FILE),
        NEWS_FILE: urlset(url(FLOOD, more=news()), spaces=f"{SITEMAP} {NEWS}"),
        SHARD: urlset(url(HARBOUR, "2026-11-12T10:00:00Z"), url(FLOOD)),
    }


def empty_window() -> Files:
    return good() | {NEWS_FILE: urlset(f"<url><loc>https://{HOST}/</loc></url>\n")}


def emptied_shard() -> Files:
    return good() | {"sitemap-2026-10.xml": urlset(f"<url><loc>https://{HOST}/</loc></url>\n")}


def odd_but_right() -> Files:
    loc = "https://www.example.com/%C3%BCber?a=1&amp;b=%27x%27"
    title = "&lt; 5 &amp; &gt; 3: &quot;L&apos;été&quot; 🌊 5 &lt; 6"
    return good() | {
        NEWS_FILE: urlset(url(loc, "2026-11-20", more=news(title)), spaces=f"{SITEMAP} {NEWS}"),
        SHARD: urlset(url(loc, "2026-11-20")),
    }


ORAGE = "https://www.example.com/fr/orage"
STORM = "https://www.example.com/2026/11/20/storm"
MEDIA = (
    'xmlns:xhtml="http://www.w3.org/1999/xhtml" xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" '
    'xmlns:video="http://www.google.com/schemas/sitemap-video/1.1"'
)
VERSIONS = f'<xhtml:link rel="alternate" hreflang="en" href="{STORM}"/><xhtml:link rel="alternate" hreflang="fr" href="{ORAGE}"/>'
IMAGE = "<image:image><image:loc>https://img.example.com/1.jpg?w=1&amp;h=2</image:loc></image:image>"
VIDEO = (
    "<video:video><video:thumbnail_loc>https://img.example.com/v.jpg</video:thumbnail_loc><video:title>The storm</video:title>"
    "<video:description>Wind over the harbour</video:description>"
    "<video:content_loc>https://img.example.com/v.mp4</video:content_loc><video:duration>28800</video:duration>"
    "<video:rating>4.5</video:rating><video:publication_date>2026-11-20</video:publication_date><video:tag>wind</video:tag>"
    '<video:restriction relationship="allow">GB IE</video:restriction>'
    f'<video:uploader info="https://{HOST}/crew">The crew</video:uploader>'
    '<video:platform relationship="deny">tv</video:platform><video:live>no</video:live></video:video>'
)
ATOM, EDITION = "sitemap-news.atom", "sitemap-news-fr.xml"
TEXT, PACKED, ROBOTS = "sitemap-2026-11.txt", "sitemap-2026-11.xml.gz", "robots.txt"


def atom(*locs: str) -> bytes:
    entries = "".join(
        f'<entry><id>{loc}</id><title>Flood</title><link rel="alternate" href="{loc}"/>'
        "<updated>2026-11-20T08:00:00Z</updated></entry>\n"
        for loc in locs
    )
    return (
        f'{DECLARATION}<feed xmlns="http://www.w3.org/2005/Atom"><id>https://{HOST}/{ATOM}</id><title>Example News</title>'
        f"<updated>2026-11-20T08:00:00Z</updated>\n{entries}</feed>\n"
    ).encode()


def every_form() -> Files:
    """Images, videos, versions, an edition's news, and each other form of a file."""
    orage = url(ORAGE, more=VERSIONS)
    shard = urlset(
        url(HARBOUR), url(FLOOD), url(STORM, more=VERSIONS + IMAGE + VIDEO), orage, spaces=f"{SITEMAP} {MEDIA}"
    )
    lines = [f"Sitemap: https://{HOST}/{name}\n" for name in (INDEX, NEWS_FILE, EDITION)]
    return good() | {
        INDEX: index(PACKED, NEWS_FILE, EDITION),
        EDITION: urlset(url(ORAGE, more=news("L&apos;orage")), spaces=f"{SITEMAP} {NEWS}"),
        SHARD: shard,
        PACKED: gzip.compress(shard),
        TEXT: "".join(f"{loc}\n" for loc in (FLOOD, HARBOUR, STORM, ORAGE)).encode(),
        ATOM: atom(FLOOD),
        "sitemap-news-fr.atom": atom(ORAGE),
        ROBOTS: ("".join(lines) + "\nUser-agent: *\nDisallow: /search\n").encode(),
    }


def save(folder: Path, files: Files) -> Path:
    site = folder / HOST
    for name, body in files.items():
        (site / name).parent.mkdir(parents=True, exist_ok=True)
        (site / name).write_bytes(body)
    return site


def swap(name: str, old: str, new: str) -> Fault:
    """A fault that stands in one file in place of what was right."""

    def plant(files: Files) -> None:
        assert old.encode() in files[name]
        files[name] = files[name].replace(old.encode(), new.encode("utf-8", "surrogatepass"))

    return plant


def loc(new: str) -> Fault:
    return swap(SHARD, HARBOUR, new)


def put(name: str, body: bytes) -> Fault:
    return lambda files: files.update({name: body})


def drop(name: str) -> Fault:
    return lambda files: files.pop(name)


def listed(name: str, body: bytes) -> Fault:
    """A further file, listed in the index as it should be."""
    return lambda files: files.update({name: body, INDEX: index(SHARD, NEWS_FILE, name)})


def many_news(count: int) -> Fault:
    urls = [f"https://{HOST}/{number}" for number in range(count)]

    def plant(files: Files) -> None:
        files[SHARD] = urlset(*(url(loc) for loc in urls))
        files[NEWS_FILE] = urlset(*(url(loc, more=news()) for loc in urls), spaces=f"{SITEMAP} {NEWS}")

    return plant


NAMED, OTHER = "<news:name>Example News</news:name>", "sitemap-2026-10.xml"
PUBLICATION = f"<news:publication>{NAMED}<news:language>en</news:language></news:publication>"
DATE = "<news:publication_date>2026-11-20T07:58:00Z</news:publication_date>"
TITLE = "<news:title>Flood closes the harbour</news:title>"
HARBOUR_DATE = "<lastmod>2026-11-12T10:00:00Z</lastmod>"

LARGE_FILES = {"50,001 URLs", "too many bytes"}  # seconds each

FAULTS: list[tuple[str, str, Fault]] = [
    ("R1.1", "latin-1 bytes", put(SHARD, urlset(url(f"{HARBOUR}-\u00fc")).decode().encode("latin-1"))),
    ("R1.1", "another encoding declared", swap(SHARD, 'encoding="UTF-8"', 'encoding="ISO-8859-1"')),
    ("R1.1", "namespace with https", swap(SHARD, "http://www.sitemaps", "https://www.sitemaps")),
    ("R1.1", "namespace with a slash at its end", swap(SHARD, 'sitemap/0.9"', 'sitemap/0.9/"')),
    (
        "R1.1",
        "a namespace declared and not used",
        swap(SHARD, SITEMAP, f'{SITEMAP} xmlns:xhtml="http://www.w3.org/1999/xhtml"'),
    ),
    ("R1.1", "another root element", swap(SHARD, "urlset", "sitemaps")),
    ("R1.2", "a bare ampersand", loc(f"{HARBOUR}?a=1&b=2")),
    ("R1.2", "an apostrophe left as it is", loc(f"{HARBOUR}?it's")),
    ("R1.2", "escaped twice", loc(f"{HARBOUR}?a=1&amp;amp;b=2")),
    ("R1.2", "cut off", put(SHARD, urlset(url(FLOOD))[:-20])),
    ("R1.3", "CDATA", swap(NEWS_FILE, NAMED, "<news:name><![CDATA[Example News]]></news:name>")),
    ("R1.4", "a relative URL", loc("/2026/11/12/harbour")),
    ("R1.4", "another scheme", loc("ftp://www.example.com/harbour")),
    ("R1.4", "2,048 characters", loc(HARBOUR.ljust(2048, "x"))),
    ("R1.4", "white space around", loc(f" {HARBOUR}\n")),
    ("R1.5", "a letter that is not ASCII", loc("https://www.example.com/\u00fcber")),
    ("R1.5", "a space", loc("https://www.example.com/a b")),
    ("R1.5", "a lone percent sign", loc("https://www.example.com/100%")),
    ("R1.6", "a fragment", loc(f"{HARBOUR}#comments")),
    ("R1.6", "user information", loc("https://me:secret@www.example.com/harbour")),
    ("R1.6", "a tracking parameter", loc(f"{HARBOUR}?id=1&amp;utm_source=feed")),
    ("R1.6", "a session", loc(f"{HARBOUR};jsessionid=1F")),
    ("R1.7", "another host", loc("https://example.com/harbour")),
    ("R1.7", "another port", loc("https://www.example.com:8443/harbour")),
    ("R1.7", "two protocols in a file", loc("http://www.example.com/harbour")),
    ("R1.8", "outside its folder", listed("news/sitemap.xml", urlset(url("https://www.example.com/sport/1")))),
    (
        "R1.10",
        "50,001 URLs",
        put(SHARD, urlset(*(url(f"https://{HOST}/{number}") for number in range(50_001)), url(FLOOD))),
    ),
    ("R1.10", "too many bytes", swap(SHARD, "</urlset>", " " * 52_428_800 + "</urlset>")),
    ("R1.11", "no index", drop(INDEX)),
    ("R1.11", "an index of URLs", put(INDEX, urlset(url(FLOOD)))),
    ("R1.11", "more in an index than belongs there", swap(INDEX, "</lastmod>", "</lastmod><priority>1</priority>")),
    ("R1.11", "two lastmods", swap(SHARD, HARBOUR_DATE, HARBOUR_DATE * 2)),
    ("R1.11", "an element nobody knows", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<title>Harbour</title>")),
    ("R1.11", "text straight in url", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}12 November")),
    ("R1.13", "changefreq", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<changefreq>daily</changefreq>")),
    ("R1.13", "priority", swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<priority>0.5</priority>")),
    ("R1.16", "a byte order mark", swap(SHARD, "<?xml", "\ufeff<?xml")),
    ("R1.16", "a line break before the declaration", swap(SHARD, "<?xml", "\n<?xml")),
    ("R1.16", "no declaration", swap(SHARD, DECLARATION, "")),
    ("R1.16", "a document type", swap(SHARD, "<urlset", "<!DOCTYPE urlset>\n<urlset")),
    ("R1.16", "a control character", swap(NEWS_FILE, "Flood closes", "Flood\x0bcloses")),
    ("R1.16", "a C1 control character", swap(NEWS_FILE, "Flood closes", "Flood\x85closes")),
    ("R1.16", "a C1 control character by its number", swap(NEWS_FILE, "Flood closes", "Flood&#x85;closes")),
    ("R1.16", "a noncharacter", swap(NEWS_FILE, "Flood closes", "Flood\uffffcloses")),
    ("R1.1", "a lone surrogate", swap(NEWS_FILE, "Flood closes", "Flood\ud800closes")),
    ("R1.17", "a time without seconds", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00Z")),
    ("R1.17", "a time without a zone", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00")),
    ("R1.17", "a zone without a colon", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-12T10:00:00+0000")),
    ("R1.17", "a date of mail", swap(SHARD, "2026-11-12T10:00:00Z", "Thu, 12 Nov 2026 10:00:00 GMT")),
    ("R1.17", "a day that does not exist", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-31")),
    ("R1.17", "the future", swap(SHARD, "2026-11-12T10:00:00Z", "2026-11-20T09:00:01Z")),
    ("R1.17", "the future in an index", swap(INDEX, NEWEST, "2026-11-21T08:00:00Z")),
    ("R2.1", "the namespace of news declared and not used", swap(SHARD, SITEMAP, f"{SITEMAP} {NEWS}")),
    (
        "R2.1",
        "another prefix",
        put(NEWS_FILE, good()[NEWS_FILE].replace(b"news:", b"ns0:").replace(b":news=", b":ns0=")),
    ),
    ("R2.1", "another namespace of news", swap(NEWS_FILE, "sitemap-news/0.9", "sitemap-news/1.0")),
    ("R2.2", "no title", swap(NEWS_FILE, TITLE, "")),
    ("R2.2", "no date", swap(NEWS_FILE, DATE, "")),
    ("R2.2", "no language", swap(NEWS_FILE, "<news:language>en</news:language>", "")),
    ("R2.2", "two titles", swap(NEWS_FILE, TITLE, TITLE * 2)),
    ("R2.2", "metadata twice", swap(NEWS_FILE, news(), news() * 2)),
    ("R2.2", "no metadata", swap(NEWS_FILE, "</urlset>", f"{url(HARBOUR)}</urlset>")),
    ("R2.3", "the title before the date", swap(NEWS_FILE, DATE + TITLE, TITLE + DATE)),
    ("R2.3", "the date before the publication", swap(NEWS_FILE, PUBLICATION + DATE, DATE + PUBLICATION)),
    (
        "R2.3",
        "metadata before lastmod",
        put(
            NEWS_FILE,
            urlset(
                f"<url><loc>{FLOOD}</loc>{news()}<lastmod>2026-11-20T08:00:00Z</lastmod></url>",
                spaces=f"{SITEMAP} {NEWS}",
            ),
        ),
    ),
    ("R2.4", "1,001 articles", many_news(1_001)),
    ("R2.4", "a URL twice in the news", swap(NEWS_FILE, "</urlset>", f"{url(FLOOD, more=news())}</urlset>")),
    ("R2.4", "a URL in two news files", listed("sitemap-news-2.xml", good()[NEWS_FILE])),
    ("R2.5", "older than 48 hours", swap(NEWS_FILE, "2026-11-20T07:58:00Z", "2026-11-18T08:59:59Z")),
    ("R2.6", "in the news only", put(SHARD, urlset(url(HARBOUR)))),
    ("R2.7", "no news sitemap", drop(NEWS_FILE)),
    ("R2.8", "an empty list", put(NEWS_FILE, urlset())),
    ("R2.9", "a name with parentheses", swap(NEWS_FILE, NAMED, "<news:name>Example News (subscription)</news:name>")),
    ("R2.9", "a padded name", swap(NEWS_FILE, NAMED, "<news:name> Example News</news:name>")),
    ("R2.9", "an empty name", swap(NEWS_FILE, NAMED, "<news:name/>")),
    ("R2.10", "a language with a country", swap(NEWS_FILE, ">en<", ">en-US<")),
    ("R2.10", "a language in capitals", swap(NEWS_FILE, ">en<", ">EN<")),
    ("R2.11", "a date without a time", swap(NEWS_FILE, "2026-11-20T07:58:00Z", "2026-11-20")),
    ("R2.11", "a time without a zone", swap(NEWS_FILE, "2026-11-20T07:58:00Z", "2026-11-20T07:58:00")),
    ("R2.11", "published in the future", swap(NEWS_FILE, "2026-11-20T07:58:00Z", "2026-11-20T09:00:01Z")),
    ("R2.12", "an empty title", swap(NEWS_FILE, TITLE, "<news:title></news:title>")),
    ("R2.12", "a title with a tag", swap(NEWS_FILE, "Flood closes", "&lt;b&gt;Flood&lt;/b&gt; closes")),
    ("R2.12", "a title with an entity", swap(NEWS_FILE, "Flood closes", "Flood &amp;amp; storm close")),
    ("R2.12", "a title over two lines", swap(NEWS_FILE, "Flood closes", "Flood\n  closes")),
    ("R2.12", "a title with the publication", swap(NEWS_FILE, TITLE, "<news:title>Flood - Example News</news:title>")),
    ("R2.13", "keywords", swap(NEWS_FILE, TITLE, f"{TITLE}<news:keywords>flood</news:keywords>")),
    ("R2.13", "genres", swap(NEWS_FILE, DATE, f"<news:genres>Blog</news:genres>{DATE}")),
    (
        "R2.16",
        "the home page as an article",
        put(NEWS_FILE, urlset(url("https://www.example.com/", more=news()), spaces=f"{SITEMAP} {NEWS}")),
    ),
    ("R6.1", "an index of another protocol", put(INDEX, index(SHARD, NEWS_FILE).replace(b"https:", b"http:"))),
    ("R6.3", "an index that lists itself", put(INDEX, index(SHARD, NEWS_FILE, INDEX))),
    ("R6.3", "an index in an index", listed(OTHER, index(SHARD))),
    ("R6.4", "no lastmod in the index", swap(INDEX, f"<lastmod>{NEWEST}</lastmod>", "")),
    ("R6.4", "an index older than what it lists", swap(INDEX, NEWEST, "2026-11-20T07:59:59Z")),
    ("R6.4", "a comment", swap(SHARD, "</urlset>", "<!-- written at 9 --></urlset>")),
    ("R6.5", "a file that is not there", put(INDEX, index(SHARD, NEWS_FILE, OTHER))),
    ("R6.5", "a shard that no index lists", put(OTHER, urlset(url(f"https://{HOST}/old", "2026-10-01")))),
    ("R6.5", "news that no index lists", put(INDEX, index(SHARD))),
    ("R6.6", "a URL twice in a shard", swap(SHARD, "</urlset>", f"{url(HARBOUR)}</urlset>")),
    ("R6.6", "a URL in two shards", listed(OTHER, urlset(url(HARBOUR)))),
    ("R8.7", "news metadata in a shard", put(SHARD, urlset(url(FLOOD, more=news()), spaces=f"{SITEMAP} {NEWS}"))),
    ("R9.2", "compressed bytes", put(SHARD, b"\x1f\x8b\x08\x00" + bytes(20))),
]


def unpack(fault: Fault) -> Fault:
    """A fault of the shard, in its gzip too."""

    def plant(files: Files) -> None:
        fault(files)
        files[PACKED] = gzip.compress(files[SHARD])

    return plant


def shard(old: str, new: str) -> Fault:
    return unpack(swap(SHARD, old, new))


FORM_FAULTS: list[tuple[str, str, Fault]] = [
    ("R3.1", "an image without a URL", shard(IMAGE, "<image:image/>")),
    ("R3.1", "a relative image", shard("https://img.example.com/1.jpg", "/1.jpg")),
    ("R3.1", "the page as its own image", shard("https://img.example.com/1.jpg?w=1&amp;h=2", STORM)),
    ("R3.1", "1,001 images", shard(IMAGE, IMAGE * 1_001)),
    ("R3.2", "a caption", shard("</image:loc>", "</image:loc><image:caption>A wave</image:caption>")),
    ("R4.1", "no thumbnail", shard("<video:thumbnail_loc>https://img.example.com/v.jpg</video:thumbnail_loc>", "")),
    (
        "R4.1",
        "neither file nor player",
        shard("<video:content_loc>https://img.example.com/v.mp4</video:content_loc>", ""),
    ),
    ("R4.1", "the page as its own file", shard("https://img.example.com/v.mp4", STORM)),
    ("R4.1", "a title of 101 characters", shard("The storm", "s" * 101)),
    ("R4.1", "a description of 2,049 characters", shard("Wind over the harbour", "w" * 2_049)),
    ("R4.2", "28,801 seconds", shard("28800", "28801")),
    ("R4.2", "no time at all", shard("28800", "0")),
    ("R4.2", "a rating over five", shard(">4.5<", ">5.1<")),
    ("R4.2", "a date in words", shard("<video:publication_date>2026-11-20", "<video:publication_date>20 November")),
    ("R4.2", "33 tags", shard("<video:tag>wind</video:tag>", "<video:tag>wind</video:tag>" * 33)),
    ("R4.2", "two durations", shard("<video:rating>4.5</video:rating>", "<video:duration>1</video:duration>")),
    ("R4.2", "another order", shard("<video:live>no</video:live>", "<video:view_count>3</video:view_count>")),
    ("R4.2", "countries in words", shard("GB IE", "Ireland")),
    ("R4.2", "neither allowed nor denied", shard('relationship="allow"', 'relationship="only"')),
    ("R4.2", "an uploader elsewhere", shard(f'info="https://{HOST}/crew"', 'info="https://example.org/crew"')),
    ("R4.3", "a category", shard("<video:live>", "<video:category>News</video:category><video:live>")),
    ("R4.3", "a player that may be embedded", shard("<video:content_loc>", '<video:content_loc allow_embed="yes">')),
    ("R5.1", "a version without a language", shard('hreflang="fr" ', "")),
    ("R5.1", "a relative version", shard(f'href="{ORAGE}"', 'href="/fr/orage"')),
    ("R5.1", "not among its own versions", shard(f'href="{STORM}"', 'href="https://www.example.com/storm"')),
    ("R5.1", "a language twice", shard('hreflang="fr"', 'hreflang="en"')),
    ("R5.1", "a version that does not answer", shard(url(ORAGE, more=VERSIONS), url(ORAGE))),
    ("R5.2", "a language with an underscore", shard('hreflang="fr"', 'hreflang="fr_FR"')),
    ("R9.2", "no gzip", put(PACKED, every_form()[SHARD])),
    ("R9.2", "a gzip that is cut off", put(PACKED, every_form()[PACKED][:-9])),
    ("R1.15", "a gzip of yesterday", put(PACKED, gzip.compress(good()[SHARD]))),
    ("R1.15", "a gzip of a file that is gone", drop(SHARD)),
    ("R6.5", "a gzip that is not there", drop(PACKED)),
    ("R6.5", "a file listed twice", put(INDEX, index(PACKED, SHARD, NEWS_FILE, EDITION))),
    ("R6.5", "a file in two indexes", put("sitemap-index-2.xml", index(SHARD))),
    ("R6.3", "an index in a further index", put("sitemap-index-2.xml", index(INDEX))),
    ("R1.14", "a text that lists less", swap(TEXT, f"{FLOOD}\n", "")),
    ("R1.14", "a text without an end", swap(TEXT, f"{ORAGE}\n", ORAGE)),
    ("R1.14", "a text that is not UTF-8", put(TEXT, b"\xff\n")),
    ("R1.14", "a file of another kind", put("sitemap-2026-11.json", b"[]")),
    ("R1.5", "a space in a text", swap(TEXT, FLOOD, "https://www.example.com/a b")),
    ("R1.14", "a byte order mark in a text", swap(TEXT, FLOOD, f"\ufeff{FLOOD}")),
    ("R8.5", "a feed that is cut off", put(ATOM, atom(FLOOD)[:-5])),
    ("R8.5", "another root element", swap(ATOM, "feed", "rss")),
    ("R8.5", "no id", swap(ATOM, f"<entry><id>{FLOOD}</id>", "<entry>")),
    (
        "R8.5",
        "a date of mail",
        swap(ATOM, "2026-11-20T08:00:00Z</updated></entry>", "Fri, 20 Nov 2026</updated></entry>"),
    ),
    ("R8.5", "an article twice", put(ATOM, atom(FLOOD, FLOOD))),
    ("R8.5", "an article that is not in the news", put(ATOM, atom(FLOOD, HARBOUR))),
    ("R8.5", "an article missing", put("sitemap-news-fr.atom", atom())),
    ("R8.2", "a relative sitemap", swap(ROBOTS, f"https://{HOST}/{INDEX}", f"/{INDEX}")),
    ("R8.2", "a sitemap that is not there", swap(ROBOTS, EDITION, "sitemap-news-de.xml")),
    ("R8.2", "a sitemap twice", swap(ROBOTS, EDITION, INDEX)),
    ("R8.2", "an edition that is not named", swap(ROBOTS, f"Sitemap: https://{HOST}/{EDITION}\n", "")),
    ("R8.2", "a further index that is not named", put("sitemap-index-2.xml", index(SHARD))),
    ("R8.2", "more than crawlers read", swap(ROBOTS, "Disallow: /search", f"Disallow: /{'x' * 512_000}")),
    ("R8.2", "robots.txt that is not UTF-8", put(ROBOTS, b"\xff\n")),
    ("R2.4", "a URL in the news of two editions", put(EDITION, good()[NEWS_FILE])),
]

GOOD = [good, empty_window, emptied_shard, odd_but_right, every_form]


@pytest.mark.parametrize("files", GOOD, ids=lambda files: files.__name__)
def test_files_that_keep_the_rules_have_no_findings(files: Callable[[], Files], tmp_path: Path) -> None:
    assert findings(save(tmp_path, files()), now=NOW) == []


@needs_shared
@pytest.mark.parametrize("files", GOOD, ids=lambda files: files.__name__)
def test_files_that_keep_the_rules_are_valid_by_the_official_schemas(
    files: Callable[[], Files], tmp_path: Path
) -> None:
    assert findings(save(tmp_path, files()), now=NOW, schemas=SHARED / "schemas") == []


@needs_shared
def test_what_only_the_schemas_forbid_is_found(tmp_path: Path) -> None:
    files = good()
    swap(SHARD, "<urlset ", '<urlset generator="x" ')(files)

    assert {finding.rule for finding in findings(save(tmp_path, files), now=NOW, schemas=SHARED / "schemas")} == {"XSD"}


@pytest.mark.parametrize(
    ("rule", "fault"),
    [
        pytest.param(rule, fault, id=f"{rule} {name}", marks=pytest.mark.matrix if name in LARGE_FILES else ())
        for rule, name, fault in FAULTS
    ],
)
def test_a_planted_fault_is_found_under_its_rule(rule: str, fault: Fault, tmp_path: Path) -> None:
    files = good()
    fault(files)

    assert rule in {finding.rule for finding in findings(save(tmp_path, files), now=NOW)}


@pytest.mark.parametrize(
    ("rule", "fault"), [(r, f) for r, _, f in FORM_FAULTS], ids=[f"{r} {name}" for r, name, _ in FORM_FAULTS]
)
def test_a_fault_in_tags_of_extensions_or_in_another_form_is_found(rule: str, fault: Fault, tmp_path: Path) -> None:
    files = every_form()
    fault(files)

    assert rule in {finding.rule for finding in findings(save(tmp_path, files), now=NOW)}


@pytest.mark.parametrize(
    ("rule", "tag", "text"),
    [
        (None, "changefreq", "daily"),
        (None, "priority", "0.8"),
        ("R1.13", "changefreq", "often"),
        ("R1.13", "priority", "1.1"),
    ],
)
def test_tags_that_nobody_reads_are_taken_where_they_are_asked_for(
    rule: str | None, tag: str, text: str, tmp_path: Path
) -> None:
    files = good()
    swap(SHARD, HARBOUR_DATE, f"{HARBOUR_DATE}<{tag}>{text}</{tag}>")(files)
    found = {finding.rule for finding in findings(save(tmp_path, files), now=NOW, asked=[tag])}

    assert found == ({rule} if rule else set())


def test_keywords_of_the_news_are_taken_where_they_are_asked_for_and_stand_last(tmp_path: Path) -> None:
    keywords = "<news:keywords>flood</news:keywords>"
    files = good()
    swap(NEWS_FILE, TITLE, TITLE + keywords)(files)
    assert findings(save(tmp_path, files), now=NOW, asked=["keywords"]) == []
    swap(NEWS_FILE, TITLE + keywords, keywords + TITLE)(files)
    assert [finding.rule for finding in findings(save(tmp_path, files), now=NOW, asked=["keywords"])] == ["R2.3"]


SERVED = {"ContentType": "application/xml", "CacheControl": "public, max-age=60"}


@pytest.mark.parametrize(
    ("rule", "headers"),
    [
        (None, SERVED),
        (None, SERVED | {"ContentEncoding": None}),
        ("R9.1", SERVED | {"ContentType": "binary/octet-stream"}),
        ("R9.1", {"CacheControl": "public, max-age=60"}),
        ("R9.2", SERVED | {"ContentEncoding": "gzip"}),
        ("R9.3", {"ContentType": "application/xml"}),
        ("R9.3", SERVED | {"CacheControl": "public, max-age=86400"}),
        ("R9.3", SERVED | {"CacheControl": "public"}),
    ],
)
def test_a_header_that_harms_is_found(rule: str | None, headers: dict[str, str], tmp_path: Path) -> None:
    meta = {f"{HOST}/{name}": SERVED for name in good()} | {f"{HOST}/{NEWS_FILE}": headers}

    assert {finding.rule for finding in findings(save(tmp_path, good()), now=NOW, meta=meta)} == (
        {rule} if rule else set()
    )


@pytest.mark.parametrize(
    ("name", "headers"),
    [
        (PACKED, SERVED),
        (PACKED, SERVED | {"ContentType": "application/gzip", "ContentEncoding": "gzip"}),
        (TEXT, SERVED),
        (ATOM, SERVED),
        (ATOM, {"ContentType": "application/atom+xml", "CacheControl": "public, max-age=301"}),
        (ROBOTS, {"ContentType": "text/plain; charset=utf-8", "CacheControl": "public"}),
    ],
)
def test_a_header_of_another_form_that_harms_is_found(name: str, headers: dict[str, str], tmp_path: Path) -> None:
    kinds = {"gz": "application/gzip", "txt": "text/plain; charset=utf-8", "atom": "application/atom+xml"}
    meta = {
        f"{HOST}/{file}": SERVED | {"ContentType": kinds.get(file.rpartition(".")[2], "application/xml")}
        for file in every_form()
    }
    folder = save(tmp_path, every_form())

    assert findings(folder, now=NOW, meta=meta) == []
    assert {finding.file for finding in findings(folder, now=NOW, meta=meta | {f"{HOST}/{name}": headers})} == {name}


NEXT = "https://www.example.com/2026/11/20/storm"


def edited(files: Files) -> None:
    files[SHARD] = urlset(url(HARBOUR, "2026-11-12T10:00:00Z"), url(FLOOD, LATER))
    files[NEWS_FILE] = urlset(url(FLOOD, LATER, more=news()), spaces=f"{SITEMAP} {NEWS}")
    files[INDEX] = index(SHARD, NEWS_FILE, changed=[SHARD, NEWS_FILE])


def moved(files: Files) -> None:
    listed(OTHER, urlset(url(HARBOUR, "2026-11-12T10:00:00Z")))(files)
    files[SHARD] = urlset(url(FLOOD), url(NEXT))
    files[INDEX] = index(SHARD, NEWS_FILE, OTHER, changed=[SHARD, OTHER])


def redated(files: Files) -> None:
    swap(NEWS_FILE, "2026-11-20T07:58:00Z", "2026-11-20T08:20:00Z")(files)
    files[INDEX] = index(SHARD, NEWS_FILE, changed=[NEWS_FILE])


def rebuilt(files: Files) -> None:
    files[SHARD] = urlset(url(HARBOUR, LATER), url(FLOOD, LATER))
    files[INDEX] = index(SHARD, NEWS_FILE, changed=[SHARD])


@pytest.mark.parametrize(
    ("rules", "change"),
    [
        (set(), Files.copy),
        (set(), edited),
        ({"R6.4"}, put(INDEX, index(SHARD, NEWS_FILE, changed=[SHARD]))),
        ({"R6.4"}, put(SHARD, urlset(url(HARBOUR, "2026-11-12T10:00:00Z"), url(FLOOD), url(NEXT)))),
        ({"R6.6"}, moved),
        ({"R2.11"}, redated),
        ({"R7.2"}, rebuilt),
    ],
    ids=[
        "nothing",
        "an edit",
        "lastmod without bytes",
        "bytes without lastmod",
        "a move",
        "another date",
        "a build's lastmod",
    ],
)
def test_between_two_saves_only_what_changed_has_changed(rules: set[str], change: Fault, tmp_path: Path) -> None:
    files = good()
    before = save(tmp_path / "before", files)
    change(files)
    after = save(tmp_path / "after", files)

    assert {finding.rule for finding in changes(before, after)} - rules == set()
    assert rules <= {finding.rule for finding in changes(before, after)}


def test_a_move_that_is_meant_is_no_finding(tmp_path: Path) -> None:
    files = good()
    before = save(tmp_path / "before", files)
    moved(files)
    after = save(tmp_path / "after", files)

    assert changes(before, after, moved=[HARBOUR]) == []


def test_the_judge_knows_nothing_of_the_product() -> None:
    assert "import stoppress" not in (source := Path(sitemap_rules.__file__).read_text(encoding="utf-8"))
    assert "from stoppress" not in source
