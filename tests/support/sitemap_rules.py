"""An independent judge of sitemap files: it knows the protocol and what the engines say, and nothing of Stoppress.

    findings(folder, now=…)       what is wrong with the files of one site, saved in a folder named like its host
    changes(before, after)        what is wrong between two saves of one site

The rules and their sources, by number:

R1.1-R1.17  sitemaps.org protocol 0.9 and its schemas: XML, URLs, scope, limits, index, W3C datetimes
R2.1-R2.16  Google's news sitemap
R3.1-R3.2   images, R4.1-R4.3 videos, R5.1-R5.2 language versions
R6.1-R6.6   large sitemaps and their index
R7.2        lastmod is the page's, not the build's
R8.2        robots.txt names the sitemaps
R8.5        Atom feeds (RFC 4287)
R8.7        no tags of an extension where they are not known (Yandex)
R9.1-R9.3   how the files are served
"""

import gzip
import re
import zlib
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, time, timedelta
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

from lxml import etree

SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
IMAGE = "http://www.google.com/schemas/sitemap-image/1.1"
VIDEO = "http://www.google.com/schemas/sitemap-video/1.1"
XHTML = "http://www.w3.org/1999/xhtml"
ATOM = "http://www.w3.org/2005/Atom"
XSI = "http://www.w3.org/2001/XMLSchema-instance"
PREFIXES = {
    SITEMAP: None,
    NEWS: "news",
    XSI: "xsi",
    IMAGE: "image",
    VIDEO: "video",
    XHTML: "xhtml",
}
INDEX = "sitemap.xml"
ROBOTS = "robots.txt"
ORDER = ["loc", "lastmod", "changefreq", "priority", "*"]  # of the children of url; * is any extension
URLS_MAX = 50_000  # R1.10, and sitemaps of an index: R1.11
BYTES_MAX = 52_428_800  # R1.10
LOC_CHARACTERS_MAX = 2_047  # R1.4: less than 2,048
NEWS_MAX = 1_000  # R2.4
WINDOW = timedelta(hours=48)  # R2.5
IMAGES_MAX = 1_000  # R3.1, in a url
ROBOTS_BYTES_MAX = 512_000  # RFC 9309, 2.5
FRESH_AGE_MAX_S = 300  # R9.3: what expires must not live on in a cache

# XML 1.0 Char, and the C1 controls, which are legal there but nothing a reader could see.
ILLEGAL = re.compile("[^\t\n\r\x20-\x7e\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
URI = re.compile(r"(?:[A-Za-z0-9._~:/?#\[\]@!$&'()*+,;=-]|%[0-9A-Fa-f]{2})*")
TRACKING = re.compile(r"utm_\w+|xtor|partner|emc|wt_mc", re.IGNORECASE)
SESSION = re.compile(r";jsessionid=|[?&](?:phpsessid|jsessionid|aspsessionid\w*)=", re.IGNORECASE)
DAY = re.compile(r"\d{4}-\d\d-\d\d")
SECOND = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:Z|[+-]\d\d:\d\d)")
ENTITY = re.compile(r"&(?:amp|lt|gt|quot|apos|nbsp|#\d+|#x[0-9a-fA-F]+);")
TAG = re.compile(r"</?[A-Za-z][^<>]*>")
LANGUAGE = re.compile(r"zh-cn|zh-tw|[a-z]{2,3}")  # R2.10
HREFLANG = re.compile(r"x-default|[a-z]{2}(?:-[A-Z][a-z]{3})?(?:-[A-Z]{2})?")  # R5.2
LEAF_TEXT = re.compile(r"<[^>]*>([^<]*)")
FREQUENCIES = ("always", "hourly", "daily", "weekly", "monthly", "yearly", "never")
PRIORITY = re.compile(r"0\.\d|1\.0")
# Of a video's tags, in the schema's order, what each may say (R4.1, R4.2); a tag that is not here is deprecated (R4.3).
URL_LIKE = r"https?://\S+"
DATE_LIKE = rf"{DAY.pattern}|{SECOND.pattern}"
VIDEO_TAGS = {
    "thumbnail_loc": URL_LIKE,
    "title": r".{1,100}",
    "description": r".{1,2048}",
    "content_loc": URL_LIKE,
    "player_loc": URL_LIKE,
    "duration": r"[1-9]\d{0,3}|1\d{4}|2[0-7]\d{3}|28[0-7]\d\d|28800",
    "expiration_date": DATE_LIKE,
    "rating": r"[0-4](?:\.\d+)?|5(?:\.0+)?",
    "view_count": r"\d+",
    "publication_date": DATE_LIKE,
    "tag": r".+",
    "family_friendly": "yes|no",
    "restriction": r"[A-Z]{2}(?: [A-Z]{2})*",
    "requires_subscription": "yes|no",
    "uploader": r".{1,255}",
    "platform": r"(?:web|mobile|tv)(?: (?:web|mobile|tv))*",
    "live": "yes|no",
}
VIDEO_TAGS_MAX = 32
# R9.1, R9.2; robots.txt: RFC 9309, 2.3
SERVED_AS = {
    "xml": ("application/xml", "application/xml;charset=utf-8", "text/xml;charset=utf-8"),
    "xml.gz": ("application/gzip", "application/x-gzip"),
    "txt": ("text/plain;charset=utf-8",),
    "atom": ("application/atom+xml", "application/atom+xml;charset=utf-8"),
}


@dataclass(frozen=True)
class Finding:
    """A rule that a file breaks."""

    rule: str
    file: str
    message: str

    def __str__(self) -> str:
        return f"{self.rule} {self.file}: {self.message}"


@dataclass
class Sitemap:
    """A file as far as it could be read: what each `<url>` or `<sitemap>` says, by loc, in order."""

    name: str
    host: str
    body: bytes
    root: Any = None
    locs: list[str] = field(default_factory=list)
    lastmods: dict[str, datetime] = field(default_factory=dict)
    published: dict[str, datetime] = field(default_factory=dict)
    # The pages that each names as its versions in other languages.
    versions: dict[str, list[str]] = field(default_factory=dict)

    @property
    def is_index(self) -> bool:
        return self.root is not None and _local(self.root) == "sitemapindex"

    @property
    def is_news(self) -> bool:
        return self.name.rpartition("/")[2].startswith("sitemap-news")

    @property
    def lists_only_home(self) -> bool:
        return len(self.locs) == 1 and _is_home(self.locs[0])

    @property
    def newest(self) -> datetime | None:
        return max([*self.lastmods.values(), *self.published.values()], default=None)

    def says(self, rule: str, message: str) -> Finding:
        return Finding(rule, self.name, message)


def findings(
    directory: Path,
    *,
    now: datetime,
    meta: Mapping[str, Mapping[str, Any]] | None = None,
    schemas: Path | None = None,
    asked: Collection[str] = (),
) -> list[Finding]:
    """Every rule that the files of one site break at `now`; `directory` is named like the host they stand on.

    `meta` has the headers each is served with, by "<host>/<file>"; `schemas` is a folder with the official XSDs; `asked` are
    tags that the site wants although nobody reads them: keywords, changefreq, priority.
    """
    site, others = read(directory), _others(directory)
    found = [finding for file in site.values() for finding in _file_findings(file, now, asked)]
    found += _index_findings(site, others)
    found += _set_findings(site)
    found += [finding for file in others.values() for finding in _other_findings(file, site, others)]
    if meta is not None:
        found += [finding for file in (site | others).values() for finding in _serving_findings(file, meta)]
    if schemas is not None:
        found += [finding for file in site.values() for finding in _schema_findings(file, schemas)]
    return found


def changes(before: Path, after: Path, *, moved: Collection[str] = ()) -> list[Finding]:
    """Every rule broken between two saves of one site. `moved` are URLs meant to change their file or date."""
    then, since = read(before), read(after)
    both = sorted(then.keys() & since.keys())
    found = [finding for name in both for finding in _date_changes(then[name], since[name])]
    for name in both:
        if then[name].is_index and since[name].is_index:
            found += _index_changes(name, then, since)
    return found + [finding for finding in _url_changes(then, since) if finding.message.split()[0] not in moved]


def _index_changes(index: str, then: Mapping[str, Sitemap], since: Mapping[str, Sitemap]) -> Iterator[Finding]:
    old, new = then[index].lastmods, since[index].lastmods
    for loc in sorted(old.keys() & new.keys()):
        name = loc.rpartition("/")[2].removesuffix(".gz")
        if name not in then or name not in since:
            continue
        same_bytes, same_date = then[name].body == since[name].body, old[loc] == new[loc]
        if same_bytes and not same_date:
            yield Finding("R6.4", name, "its lastmod in the index changed, its bytes did not")
        if not same_bytes and same_date:
            yield Finding("R6.4", name, "its bytes changed, its lastmod in the index did not")


def _url_changes(then: Mapping[str, Sitemap], since: Mapping[str, Sitemap]) -> Iterator[Finding]:
    """URLs that changed their shard or their first publication; each message begins with the URL."""
    for rule, what, of in (("R6.6", "shard", _shard_of_each), ("R2.11", "publication_date", _published_of_each)):
        old, new = of(then), of(since)
        for loc in sorted(old.keys() & new.keys()):
            if old[loc] != new[loc]:
                yield Finding(rule, "", f"{loc} changed its {what} from {old[loc]} to {new[loc]}")


def _date_changes(then: Sitemap, since: Sitemap) -> Iterator[Finding]:
    both = then.lastmods.keys() & since.lastmods.keys()
    together = len({since.lastmods[loc] for loc in both}) == 1 and len(both) > 1
    if together and not then.is_index and all(then.lastmods[loc] != since.lastmods[loc] for loc in both):
        yield since.says("R7.2", "all its lastmods became one new instant: that is a build's, not a page's")


def read(directory: Path) -> dict[str, Sitemap]:
    """The sitemaps of a site by name, as far as they can be read."""
    return {name: _read(name, directory.name, body) for name, body in _bodies(directory) if name.endswith(".xml")}


def _others(directory: Path) -> dict[str, Sitemap]:
    """What else is published: the sitemaps in other forms, and robots.txt."""
    return {name: Sitemap(name, directory.name, body) for name, body in _bodies(directory) if not name.endswith(".xml")}


def _bodies(directory: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(path for path in directory.rglob("*") if path.is_file()):
        yield path.relative_to(directory).as_posix(), path.read_bytes()


def _read(name: str, host: str, body: bytes) -> Sitemap:
    file = Sitemap(name, host, body)
    try:
        parser = etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False, huge_tree=True)
        file.root = etree.fromstring(body, parser)
    except etree.XMLSyntaxError:
        return file
    for entry in file.root.iterchildren(tag=etree.Element):
        loc = _text(entry, SITEMAP, "loc")
        file.locs.append(loc)
        for values, text in (
            (file.lastmods, _text(entry, SITEMAP, "lastmod")),
            (file.published, "".join(entry.itertext(f"{{{NEWS}}}publication_date"))),
        ):
            if instant := _instant(text):
                values[loc] = instant
        file.versions[loc] = [link.get("href", "") for link in entry.iterchildren(f"{{{XHTML}}}link")]
    return file


def _file_findings(file: Sitemap, now: datetime, asked: Collection[str]) -> Iterator[Finding]:
    yield from _byte_findings(file)
    if file.root is None:
        return
    yield from _namespace_findings(file)
    if not file.locs:
        yield file.says("R2.8", "an empty list: the schemas want one URL at least, and Search Console reports an error")
    entries, tag = ("sitemap", "sitemapindex") if file.is_index else ("url", "urlset")
    if _local(file.root) != tag:
        yield file.says("R1.1", f"root element {_local(file.root)}, not urlset or sitemapindex")
    for entry in file.root.iterchildren(tag=etree.Element):
        if entry.tag != f"{{{SITEMAP}}}{entries}":
            yield file.says("R1.11", f"{_local(entry)} in {tag}")
        yield from _entry_findings(file, entry, now, asked)
    for loc, times in Counter(file.locs).items():
        if times > 1:
            yield file.says("R2.4" if file.is_news else "R6.6", f"{loc} stands here {times} times")
    schemes = {urlsplit(loc).scheme for loc in file.locs}
    if len(schemes) > 1:
        yield file.says("R1.7", f"several protocols in one sitemap: {', '.join(sorted(schemes))}")
    if len(file.locs) > URLS_MAX:
        yield file.says("R1.11" if file.is_index else "R1.10", f"{len(file.locs)} entries, more than {URLS_MAX}")
    yield from _news_file_findings(file)


def _byte_findings(file: Sitemap) -> Iterator[Finding]:
    if len(file.body) > BYTES_MAX:
        yield file.says("R1.10", f"{len(file.body)} bytes, more than {BYTES_MAX}")
    if file.body.startswith(b"\x1f\x8b"):
        yield file.says("R9.2", "compressed bytes under the name of a plain file")
        return
    if file.body.startswith(b"\xef\xbb\xbf"):
        yield file.says("R1.16", "starts with a byte order mark")
    elif not file.body.startswith(b"<?xml "):
        yield file.says("R1.16", "does not start with the XML declaration")
    try:
        text = file.body.decode()
    except UnicodeDecodeError as error:
        yield file.says("R1.1", f"not UTF-8: {error}")
        return
    declared = re.match(r"\ufeff?\s*<\?xml[^>]*encoding=[\"']([^\"']+)", text)
    if declared and declared[1].lower() != "utf-8":
        yield file.says("R1.1", f"declares {declared[1]}, not UTF-8")
    for rule, start, what in (
        ("R1.3", "<![CDATA[", "a CDATA section"),
        ("R1.16", "<!DOCTYPE", "a document type"),
        ("R6.4", "<!--", "a comment"),
    ):
        if start in text:
            yield file.says(rule, f"has {what}")
    if illegal := ILLEGAL.search(text):
        yield file.says("R1.16", f"has U+{ord(illegal[0]):04X} in it")
    if any(re.search("[>\"']", leaf) for leaf in LEAF_TEXT.findall(text)):
        yield file.says("R1.2", "a quotation mark, an apostrophe or a > stands unescaped")
    if file.root is None:
        yield file.says("R1.2", "not well-formed XML")


def _namespace_findings(file: Sitemap) -> Iterator[Finding]:
    elements = list(file.root.iter(tag=etree.Element))
    used = {etree.QName(name).namespace for element in elements for name in (element.tag, *element.attrib)} - {None}
    declared = {(prefix, uri) for element in elements for prefix, uri in element.nsmap.items()}
    if etree.QName(file.root).namespace != SITEMAP:
        yield file.says("R1.1", f"root element in the namespace {etree.QName(file.root).namespace}, not {SITEMAP}")
    for prefix, uri in sorted(declared, key=str):
        rule = "R2.1" if prefix == "news" or "news" in uri else "R1.1"
        if uri not in used:
            yield file.says(rule, f"declares {uri} and does not use it")
        if uri not in PREFIXES:
            yield file.says(rule, f"unknown namespace {uri}")
        elif prefix != PREFIXES[uri]:
            yield file.says(rule, f"{uri} has the prefix {prefix}")


def _entry_findings(file: Sitemap, entry: Any, now: datetime, asked: Collection[str]) -> Iterator[Finding]:
    loc = _text(entry, SITEMAP, "loc")
    yield from _loc_findings(file, loc)
    yield from _structure_findings(file, loc, entry, asked)
    yield from _image_findings(file, loc, entry)
    yield from _version_findings(file, loc, entry)
    for video in entry.iterchildren(f"{{{VIDEO}}}video"):
        yield from _video_findings(file, loc, video)
    if entry.find(f"{{{SITEMAP}}}lastmod") is not None:
        yield from _date_findings(file, "R1.17", f"{loc}: lastmod", _text(entry, SITEMAP, "lastmod"), now)
    news = [child for child in entry.iterchildren(tag=etree.Element) if etree.QName(child).namespace == NEWS]
    if news and not file.is_news:
        yield file.says("R8.7", f"{loc} has news metadata outside the news sitemap")
    if news and _is_home(loc):
        yield file.says("R2.16", "the home page is no article, and has news metadata")
    if len(news) > 1:
        yield file.says("R2.2", f"{loc} has {len(news)} news:news")
    for element in news:
        yield from _news_findings(file, loc, element, now, asked)


def _structure_findings(file: Sitemap, loc: str, entry: Any, asked: Collection[str]) -> Iterator[Finding]:
    children = list(entry.iterchildren(tag=etree.Element))
    names = [_local(child) if etree.QName(child).namespace == SITEMAP else "*" for child in children]
    for name in sorted({"changefreq", "priority"} & set(names) - set(asked)):
        yield file.says("R1.13", f"{loc} has {name}, which nobody reads")
    if (often := _text(entry, SITEMAP, "changefreq")) and often not in FREQUENCIES:
        yield file.says("R1.13", f"{loc}: changefreq {often!r}")
    if (weight := _text(entry, SITEMAP, "priority")) and not PRIORITY.fullmatch(weight):
        yield file.says("R1.13", f"{loc}: priority {weight!r} is not 0.0 to 1.0")
    places = [ORDER.index(name) if name in ORDER else -1 for name in names]
    if -1 in places or names.count("loc") != 1 or names.count("lastmod") > 1:
        yield file.says("R1.11", f"{loc}: children {names}, not one loc and one lastmod at most")
    elif places != sorted(places):
        yield file.says("R2.3" if "*" in names else "R1.11", f"{loc}: children in the order {names}")
    if file.is_index and set(names) - {"loc", "lastmod"}:
        yield file.says("R1.11", f"{loc}: an index holds loc and lastmod only, not {names}")
    for element in entry.iter(tag=etree.Element):
        if len(element) and any((part or "").strip() for part in (element.text, *(child.tail for child in element))):
            yield file.says("R1.11", f"{loc}: text straight in {_local(element)}")
        elif illegal := ILLEGAL.search(element.text or ""):
            yield file.says("R1.16", f"{loc}: {_local(element)} has U+{ord(illegal[0]):04X} in it")


def _image_findings(file: Sitemap, loc: str, entry: Any) -> Iterator[Finding]:
    images = list(entry.iterchildren(f"{{{IMAGE}}}image"))
    if len(images) > IMAGES_MAX:
        yield file.says("R3.1", f"{loc} has {len(images)} images, more than {IMAGES_MAX}")
    for image in images:
        names = [_local(child) for child in image.iterchildren(tag=etree.Element)]
        if names.count("loc") != 1:
            yield file.says("R3.1", f"{loc}: an image with {names}, not one loc")
        if extra := sorted(set(names) - {"loc"}):
            yield file.says("R3.2", f"{loc}: an image has {', '.join(extra)}")
        yield from _media_url_findings(file, "R3.1", loc, _text(image, IMAGE, "loc"))


def _video_findings(file: Sitemap, loc: str, video: Any) -> Iterator[Finding]:
    tags = [(_local(child), child.text or "", dict(child.attrib)) for child in video.iterchildren(tag=etree.Element)]
    names = [name for name, _, _ in tags]
    known = [name for name in names if name in VIDEO_TAGS]
    if missing := {"thumbnail_loc", "title", "description"} - set(names):
        yield file.says("R4.1", f"{loc}: a video without {', '.join(sorted(missing))}")
    if not {"content_loc", "player_loc"} & set(names):
        yield file.says("R4.1", f"{loc}: a video without content_loc or player_loc")
    if twice := {name for name in known if name != "tag" and known.count(name) > 1}:
        yield file.says("R4.2", f"{loc}: a video with several {', '.join(sorted(twice))}")
    if known.count("tag") > VIDEO_TAGS_MAX:
        yield file.says("R4.2", f"{loc}: a video with {known.count('tag')} tags, more than {VIDEO_TAGS_MAX}")
    if known != sorted(known, key=list(VIDEO_TAGS).index):
        yield file.says("R4.2", f"{loc}: a video's tags in the order {known}")
    yield from _video_tag_findings(file, loc, tags)


def _video_tag_findings(file: Sitemap, loc: str, tags: list[tuple[str, str, dict[str, str]]]) -> Iterator[Finding]:
    for name, text, attributes in tags:
        if name not in VIDEO_TAGS:
            yield file.says("R4.3", f"{loc}: a video has {name}")
            continue
        required = name in ("thumbnail_loc", "title", "description", "content_loc", "player_loc")
        rule = "R4.1" if required else "R4.2"
        if not re.fullmatch(VIDEO_TAGS[name], text):
            yield file.says(rule, f"{loc}: {name} {text[:120]!r}")
        if name.endswith("_loc"):
            yield from _media_url_findings(file, rule, loc, text)
        if name in ("restriction", "platform") and attributes.get("relationship") not in ("allow", "deny"):
            yield file.says("R4.2", f"{loc}: {name} is neither allowed nor denied")
        if name == "uploader" and urlsplit(attributes.get("info", loc)).netloc != urlsplit(loc).netloc:
            yield file.says("R4.2", f"{loc}: the uploader's info is on another host")
        if extra := sorted(attributes.keys() - {"relationship", "info"}):
            yield file.says("R4.3", f"{loc}: {name} has {', '.join(extra)}")


def _media_url_findings(file: Sitemap, rule: str, loc: str, url: str) -> Iterator[Finding]:
    parts = urlsplit(url)
    if parts.scheme not in {"http", "https"} or not parts.netloc or not URI.fullmatch(url) or parts.fragment:
        yield file.says(rule, f"{loc}: {url[:120]!r} is not an absolute URL of a file")
    if url == loc:
        yield file.says(rule, f"{loc} is given as a file of its own")


def _version_findings(file: Sitemap, loc: str, entry: Any) -> Iterator[Finding]:
    links = [dict(link.attrib) for link in entry.iterchildren(f"{{{XHTML}}}link")]
    for link in links:
        if link.keys() != {"rel", "hreflang", "href"} or link["rel"] != "alternate":
            yield file.says("R5.1", f"{loc}: a link with {link}, not rel, hreflang and href")
        elif not HREFLANG.fullmatch(link["hreflang"]):
            yield file.says("R5.2", f"{loc}: hreflang {link['hreflang']!r}")
        elif urlsplit(link["href"]).scheme not in {"http", "https"} or not URI.fullmatch(link["href"]):
            yield file.says("R5.1", f"{loc}: {link['href'][:120]!r} is not an absolute URL")
    if links and loc not in (link.get("href") for link in links):
        yield file.says("R5.1", f"{loc} is not among its own versions")
    for code, times in Counter(link.get("hreflang") for link in links).items():
        if times > 1:
            yield file.says("R5.1", f"{loc} has {times} versions for {code}")


def _loc_findings(file: Sitemap, loc: str) -> Iterator[Finding]:
    shown = loc[:120]
    parts = urlsplit(loc)
    if not loc or loc != loc.strip():
        yield file.says("R1.4", f"loc {loc[:120]!r} is empty or has white space around it")
    if parts.scheme not in {"http", "https"} or not parts.netloc:
        yield file.says("R1.4", f"{shown} is not an absolute http or https URL")
        return
    if len(loc) > LOC_CHARACTERS_MAX:
        yield file.says("R1.4", f"{shown}… is {len(loc)} characters long, more than {LOC_CHARACTERS_MAX}")
    if not URI.fullmatch(loc):
        yield file.says("R1.5", f"{shown} has characters that a URI must percent-encode")
    if ENTITY.search(loc):
        yield file.says("R1.2", f"{shown} was escaped twice")
    if parts.fragment or loc.endswith("#"):
        yield file.says("R1.6", f"{shown} has a fragment")
    if "@" in parts.netloc:
        yield file.says("R1.6", f"{shown} has user information")
    if tracking := [name for name, _ in parse_qsl(parts.query, keep_blank_values=True) if TRACKING.fullmatch(name)]:
        yield file.says("R1.6", f"{shown} has tracking parameters: {', '.join(tracking)}")
    if SESSION.search(loc):
        yield file.says("R1.6", f"{shown} has a session id")
    if parts.netloc.rpartition("@")[2] != file.host:
        yield file.says("R1.7", f"{shown} is not on {file.host}")
    folder = "/" + file.name.rpartition("/")[0]
    if not (parts.path or "/").startswith(folder.rstrip("/") + "/"):
        yield file.says("R1.8", f"{shown} is outside {folder}, where this sitemap stands")


def _date_findings(file: Sitemap, rule: str, what: str, text: str, now: datetime) -> Iterator[Finding]:
    instant = _instant(text)
    if instant is None:
        yield file.says(rule, f"{what} {text!r} is neither a date nor a time with seconds and zone")
    elif instant > now:
        yield file.says(rule, f"{what} {text} is in the future")


def _news_findings(file: Sitemap, loc: str, news: Any, now: datetime, asked: Collection[str]) -> Iterator[Finding]:
    keywords = ["keywords"] if "keywords" in asked and news.find(f"{{{NEWS}}}keywords") is not None else []
    allowed = {"news": ["publication", "publication_date", "title", *keywords], "publication": ["name", "language"]}
    for element in [news, *news.iterchildren(f"{{{NEWS}}}publication")]:
        names = [_local(child) for child in element.iterchildren(tag=etree.Element)]
        wanted = allowed[_local(element)]
        if extra := set(names) - set(wanted):
            yield file.says("R2.13", f"{loc} has {', '.join(sorted(extra))}")
        kept = [name for name in names if name in wanted]
        if sorted(kept) != sorted(wanted):
            yield file.says("R2.2", f"{loc}: {_local(element)} has {kept}, not each of {wanted} once")
        elif kept != wanted:
            yield file.says("R2.3", f"{loc}: {kept}, not in the order {wanted}")
    name, language, title, date = (
        "".join(news.itertext(f"{{{NEWS}}}{tag}")) for tag in ("name", "language", "title", "publication_date")
    )
    if not name or name != " ".join(name.split()) or re.search(r"[()]", name):
        yield file.says("R2.9", f"{loc}: name {name!r} is empty, padded or has parentheses")
    if not LANGUAGE.fullmatch(language):
        yield file.says("R2.10", f"{loc}: language {language!r}")
    if not title or title != " ".join(title.split()) or TAG.search(title) or ENTITY.search(title):
        yield file.says("R2.12", f"{loc}: title {title!r} is empty, padded or no plain text")
    if name and re.search(rf"\s[-|\u2013\u2014]\s{re.escape(name)}$", title):
        yield file.says("R2.12", f"{loc}: title {title!r} has the publication's name in it")
    if DAY.fullmatch(date):
        yield file.says("R2.11", f"{loc}: publication_date {date} without a time cannot be held to 48 hours")
    yield from _date_findings(file, "R2.11", f"{loc}: publication_date", date, now)
    if (instant := _instant(date)) and now - instant > WINDOW:
        yield file.says("R2.5", f"{loc} was published at {date}, more than 48 hours ago")


def _news_file_findings(file: Sitemap) -> Iterator[Finding]:
    if not file.is_news:
        return
    entries = file.root.findall(f"{{{SITEMAP}}}url/{{{NEWS}}}news")
    if len(entries) > NEWS_MAX:
        yield file.says("R2.4", f"{len(entries)} articles, more than {NEWS_MAX}")
    for entry in file.root.iterchildren(f"{{{SITEMAP}}}url"):
        if entry.find(f"{{{NEWS}}}news") is None and not file.lists_only_home:
            yield file.says("R2.2", f"{_text(entry, SITEMAP, 'loc')} has no news metadata")


def _index_findings(site: Mapping[str, Sitemap], others: Mapping[str, Sitemap]) -> Iterator[Finding]:
    index = site.get(INDEX)
    if index is None or not index.is_index:
        yield Finding("R1.11", INDEX, "there is no index")
        return
    if "sitemap-news.xml" not in site:
        yield Finding("R2.7", "sitemap-news.xml", "there is no news sitemap at its fixed URL")
    listed = set()
    for one in (file for file in site.values() if file.is_index):
        # A sitemap may be listed by its gzip (R1.15), which is judged by what is in it.
        for name, loc in ((urlsplit(loc).path.removeprefix("/").removesuffix(".gz"), loc) for loc in one.locs):
            yield from _listed_findings(one, name, loc, site, others)
            if name in listed:
                yield one.says("R6.5", f"{name} is listed twice")
            listed.add(name)
    protocols = {urlsplit(loc).scheme for file in site.values() for loc in file.locs}
    if len(protocols) > 1 and all(len({urlsplit(loc).scheme for loc in file.locs}) < 2 for file in site.values()):
        yield index.says("R6.1", f"index and sitemaps use several protocols: {', '.join(sorted(protocols))}")
    for name, file in site.items():
        # An emptied shard has left the index and stays a while, so that nobody who knows it meets a 404.
        if name not in listed and not file.is_index and (name == "sitemap-news.xml" or not file.lists_only_home):
            yield file.says("R6.5", "is not in the index")


def _listed_findings(
    index: Sitemap, name: str, loc: str, site: Mapping[str, Sitemap], others: Mapping[str, Sitemap]
) -> Iterator[Finding]:
    if name == index.name:
        yield index.says("R6.3", "lists itself")
    elif name not in site or (loc.endswith(".gz") and f"{name}.gz" not in others):
        yield index.says("R6.5", f"{loc} does not exist")
    elif site[name].is_index:
        yield index.says("R6.3", f"{loc} is an index, and an index must not be nested")
    if loc not in index.lastmods:
        yield index.says("R6.4", f"{loc} has no lastmod")
    elif name in site and (newest := site[name].newest) and index.lastmods[loc] < newest:
        yield index.says("R6.4", f"{loc}: lastmod {index.lastmods[loc]} is older than {newest} in it")


def _set_findings(site: Mapping[str, Sitemap]) -> Iterator[Finding]:
    """What only shows across files: one place for each URL, and the general sitemap whole."""
    general: dict[str, str] = {}
    news: dict[str, str] = {}
    for name, file in site.items():
        if file.is_index or file.lists_only_home:
            continue
        places, rule = (news, "R2.4") if file.is_news else (general, "R6.6")
        for loc in dict.fromkeys(file.locs):
            if loc in places:
                yield file.says(rule, f"{loc} is also in {places[loc]}")
            places[loc] = name
    for loc in news.keys() - general.keys():
        yield Finding("R2.6", news[loc], f"{loc} is in no general sitemap")
    versions = {loc: hrefs for file in site.values() for loc, hrefs in file.versions.items() if not file.is_news}
    for loc, hrefs in versions.items():
        for href in hrefs:
            if href in versions and loc not in versions[href]:
                yield Finding("R5.1", general.get(loc, ""), f"{loc} names {href}, which does not name it")


# ── other forms ──


def _other_findings(file: Sitemap, site: Mapping[str, Sitemap], others: Mapping[str, Sitemap]) -> Iterator[Finding]:
    stem, _, form = file.name.partition(".")
    plain = site.get(f"{stem}.xml")
    if file.name == ROBOTS:
        yield from _robots_findings(file, site, others)
    elif form == "xml.gz":
        yield from _gzip_findings(file, plain)
    elif form == "txt":
        yield from _text_findings(file, plain)
    elif form == "atom":
        yield from _atom_findings(file, site, stem)
    else:
        yield file.says("R1.14", "is no sitemap in any form")


def _gzip_findings(file: Sitemap, plain: Sitemap | None) -> Iterator[Finding]:
    try:
        body = gzip.decompress(file.body)
    except (OSError, EOFError, zlib.error) as error:
        yield file.says("R9.2", f"is not gzip: {error}")
        return
    if plain is None or body != plain.body:
        yield file.says("R1.15", "has not the bytes of the plain file in it")


def _text_findings(file: Sitemap, plain: Sitemap | None) -> Iterator[Finding]:
    try:
        lines = file.body.decode().split("\n")
    except UnicodeDecodeError as error:
        yield file.says("R1.14", f"not UTF-8: {error}")
        return
    if lines.pop() != "":
        yield file.says("R1.14", "the last line has no end")
    if len(file.body) > BYTES_MAX or len(lines) > URLS_MAX:
        yield file.says("R1.10", f"{len(lines)} URLs in {len(file.body)} bytes, more than {URLS_MAX} or {BYTES_MAX}")
    for line in lines:
        yield from _loc_findings(file, line)
    if plain is None or sorted(lines) != sorted(plain.locs):
        yield file.says("R1.14", "does not list what the XML beside it lists")


def _atom_findings(file: Sitemap, site: Mapping[str, Sitemap], series: str) -> Iterator[Finding]:
    try:
        root = etree.fromstring(file.body, etree.XMLParser(resolve_entities=False, no_network=True, load_dtd=False))
    except etree.XMLSyntaxError as error:
        yield file.says("R8.5", f"not well-formed XML: {error}")
        return
    entries = root.findall(f"{{{ATOM}}}entry")
    if root.tag != f"{{{ATOM}}}feed":
        yield file.says("R8.5", f"root element {root.tag}, not an Atom feed")
    for element in (root, *entries):
        for name in ("id", "title", "updated"):
            if len(element.findall(f"{{{ATOM}}}{name}")) != 1 or not _text(element, ATOM, name):
                yield file.says("R8.5", f"{_local(element)}: not one {name}")
        if _instant(_text(element, ATOM, "updated")) is None:
            yield file.says("R8.5", f"{_local(element)}: updated {_text(element, ATOM, 'updated')!r}")
    links = {link.get("href") for entry in entries for link in entry.findall(f"{{{ATOM}}}link[@rel='alternate']")}
    ids = [_text(entry, ATOM, "id") for entry in entries]
    if len(set(ids)) < len(ids) or len(links) != len(entries):
        yield file.says("R8.5", "an article stands here twice, or without its URL")
    numbered = re.compile(rf"{re.escape(series)}(?:-\d+)?\.xml")
    current = {loc for name, one in site.items() if numbered.fullmatch(name) for loc in one.published}
    if links != current:
        yield file.says("R8.5", f"lists {sorted(map(str, links ^ current))[:3]} otherwise than the news sitemap")


def _robots_findings(file: Sitemap, site: Mapping[str, Sitemap], others: Mapping[str, Sitemap]) -> Iterator[Finding]:
    try:
        text = file.body.decode()
    except UnicodeDecodeError as error:
        yield file.says("R8.2", f"not UTF-8: {error}")
        return
    if len(file.body) > ROBOTS_BYTES_MAX:
        yield file.says("R8.2", f"{len(file.body)} bytes, more than crawlers read")
    named = [line.partition(":")[2].strip() for line in text.split("\n") if line.lower().startswith("sitemap:")]
    ours = [urlsplit(url).path.removeprefix("/") for url in named if urlsplit(url).netloc == file.host]
    for url in named:
        if urlsplit(url).scheme not in {"http", "https"} or not urlsplit(url).netloc:
            yield file.says("R8.2", f"{url!r} is not an absolute URL")
    for name in ours:
        if name not in {**site, **others}:
            yield file.says("R8.2", f"names {name}, which does not exist")
    if len(set(named)) < len(named):
        yield file.says("R8.2", "names a sitemap twice")
    for name, one in site.items():
        # Further news files are found by the index; an edition's that is emptied is on its way out.
        first_news = one.is_news and not re.search(r"-\d+\.xml$", name)
        emptied = one.lists_only_home and name != "sitemap-news.xml"
        if (one.is_index or first_news) and name not in ours and not emptied:
            yield file.says("R8.2", f"does not name {name}")


def _serving_findings(file: Sitemap, meta: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    headers = meta.get(f"{file.host}/{file.name}", {})
    kind = str(headers.get("ContentType")).replace(" ", "").lower()
    form = file.name.partition(".")[2]
    if kind not in SERVED_AS.get(form, ()):
        yield file.says("R9.1", f"served as {headers.get('ContentType')}")
    if headers.get("ContentEncoding"):
        yield file.says("R9.2", f"served with Content-Encoding {headers['ContentEncoding']}, whoever asks")
    control = headers.get("CacheControl") or ""
    age = re.search(r"max-age=(\d+)", control)
    if not control:
        yield file.says("R9.3", "served without Cache-Control")
    elif (file.is_news or file.is_index or file.name == ROBOTS or form == "atom") and (
        age is None or int(age[1]) > FRESH_AGE_MAX_S
    ):
        yield file.says("R9.3", f"Cache-Control {control!r} lets what has expired live longer than {FRESH_AGE_MAX_S} s")


def _schema_findings(file: Sitemap, schemas: Path) -> Iterator[Finding]:
    if file.root is None:
        return
    schema = _schema(schemas / ("siteindex.xsd" if file.is_index else "all.xsd"))
    if not schema.validate(file.root):
        yield from (file.says("XSD", f"line {error.line}: {error.message}") for error in list(schema.error_log)[:3])


@cache
def _schema(path: Path) -> Any:
    return etree.XMLSchema(etree.parse(path, etree.XMLParser(no_network=True)))


def _shard_of_each(site: Mapping[str, Sitemap]) -> dict[str, str]:
    shards = (file for file in site.values() if not (file.is_index or file.is_news or file.lists_only_home))
    return {loc: file.name for file in shards for loc in file.locs}


def _published_of_each(site: Mapping[str, Sitemap]) -> dict[str, str]:
    return {loc: instant.isoformat() for file in site.values() for loc, instant in file.published.items()}


def _instant(text: str) -> datetime | None:
    """A date or a time with seconds and zone (R1.17, R2.11); None for anything else."""
    try:
        if DAY.fullmatch(text):
            return datetime.combine(datetime.fromisoformat(text), time(), UTC)
        return datetime.fromisoformat(text) if SECOND.fullmatch(text) else None
    except ValueError:
        return None


def _text(entry: Any, namespace: str, name: str) -> str:
    return str(entry.findtext(f"{{{namespace}}}{name}", default="") or "")


def _local(element: Any) -> str:
    return str(etree.QName(element).localname)


def _is_home(loc: str) -> bool:
    parts = urlsplit(loc)
    return parts.path in {"", "/"} and not parts.query
