"""An independent judge of sitemap files: it knows the protocol and what the engines say, and nothing of Stoppress.

    findings(folder, now=…)       what is wrong with the files of one site, saved in a folder named like its host
    changes(before, after)        what is wrong between two saves of one site

The rules and their sources, by number:

R1.1-R1.17  sitemaps.org protocol 0.9 and its schemas: XML, URLs, scope, limits, index, W3C datetimes
R2.1-R2.16  Google's news sitemap
R6.1-R6.6   large sitemaps and their index
R7.2        lastmod is the page's, not the build's
R8.7        no tags of an extension where they are not known (Yandex)
R9.1-R9.3   how the files are served
"""

import re
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
XSI = "http://www.w3.org/2001/XMLSchema-instance"
PREFIXES = {
    SITEMAP: None,
    NEWS: "news",
    XSI: "xsi",
    "http://www.google.com/schemas/sitemap-image/1.1": "image",
    "http://www.google.com/schemas/sitemap-video/1.1": "video",
    "http://www.w3.org/1999/xhtml": "xhtml",
}
INDEX = "sitemap.xml"
ORDER = ["loc", "lastmod", "changefreq", "priority", "*"]  # of the children of url; * is any extension
URLS_MAX = 50_000  # R1.10, and sitemaps of an index: R1.11
BYTES_MAX = 52_428_800  # R1.10
LOC_CHARACTERS_MAX = 2_047  # R1.4: less than 2,048
NEWS_MAX = 1_000  # R2.4
WINDOW = timedelta(hours=48)  # R2.5
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
LEAF_TEXT = re.compile(r"<[^>]*>([^<]*)")


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
) -> list[Finding]:
    """Every rule that the files of one site break at `now`; `directory` is named like the host they stand on.

    `meta` has the headers each is served with, by "<host>/<file>"; `schemas` is a folder with the official XSDs.
    """
    site = read(directory)
    found = [finding for file in site.values() for finding in _file_findings(file, now)]
    found += _index_findings(site)
    found += _set_findings(site)
    if meta is not None:
        found += [finding for file in site.values() for finding in _serving_findings(file, meta)]
    if schemas is not None:
        found += [finding for file in site.values() for finding in _schema_findings(file, schemas)]
    return found


def changes(before: Path, after: Path, *, moved: Collection[str] = ()) -> list[Finding]:
    """Every rule broken between two saves of one site. `moved` are URLs meant to change their file or date."""
    then, since = read(before), read(after)
    both = sorted(then.keys() & since.keys())
    found = [finding for name in both for finding in _date_changes(then[name], since[name])]
    if INDEX in both:
        found += _index_changes(then, since)
    return found + [finding for finding in _url_changes(then, since) if finding.message.split()[0] not in moved]


def _index_changes(then: Mapping[str, Sitemap], since: Mapping[str, Sitemap]) -> Iterator[Finding]:
    old, new = then[INDEX].lastmods, since[INDEX].lastmods
    for loc in sorted(old.keys() & new.keys()):
        name = loc.rpartition("/")[2]
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
    """The files of a site by name, as far as they can be read."""
    paths = sorted(path for path in directory.rglob("*") if path.is_file())
    return {
        file.name: file
        for path in paths
        for file in [_read(path.relative_to(directory).as_posix(), directory.name, path.read_bytes())]
    }


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
    return file


def _file_findings(file: Sitemap, now: datetime) -> Iterator[Finding]:
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
        yield from _entry_findings(file, entry, now)
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


def _entry_findings(file: Sitemap, entry: Any, now: datetime) -> Iterator[Finding]:
    loc = _text(entry, SITEMAP, "loc")
    yield from _loc_findings(file, loc)
    yield from _structure_findings(file, loc, entry)
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
        yield from _news_findings(file, loc, element, now)


def _structure_findings(file: Sitemap, loc: str, entry: Any) -> Iterator[Finding]:
    children = list(entry.iterchildren(tag=etree.Element))
    names = [_local(child) if etree.QName(child).namespace == SITEMAP else "*" for child in children]
    for name in {"changefreq", "priority"} & set(names):
        yield file.says("R1.13", f"{loc} has {name}, which nobody reads")
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


def _news_findings(file: Sitemap, loc: str, news: Any, now: datetime) -> Iterator[Finding]:
    allowed = {"news": ["publication", "publication_date", "title"], "publication": ["name", "language"]}
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


def _index_findings(site: Mapping[str, Sitemap]) -> Iterator[Finding]:
    index = site.get(INDEX)
    if index is None or not index.is_index:
        yield Finding("R1.11", INDEX, "there is no index")
        return
    if "sitemap-news.xml" not in site:
        yield Finding("R2.7", "sitemap-news.xml", "there is no news sitemap at its fixed URL")
    listed = {urlsplit(loc).path.removeprefix("/"): loc for loc in index.locs}
    for name, loc in listed.items():
        if name == INDEX:
            yield index.says("R6.3", "lists itself")
        elif name not in site:
            yield index.says("R6.5", f"{loc} does not exist")
        elif site[name].is_index:
            yield index.says("R6.3", f"{loc} is an index, and an index must not be nested")
        if loc not in index.lastmods:
            yield index.says("R6.4", f"{loc} has no lastmod")
        elif name in site and (newest := site[name].newest) and index.lastmods[loc] < newest:
            yield index.says("R6.4", f"{loc}: lastmod {index.lastmods[loc]} is older than {newest} in it")
    protocols = {urlsplit(loc).scheme for file in site.values() for loc in file.locs}
    if len(protocols) > 1 and all(len({urlsplit(loc).scheme for loc in file.locs}) < 2 for file in site.values()):
        yield index.says("R6.1", f"index and sitemaps use several protocols: {', '.join(sorted(protocols))}")
    for name, file in site.items():
        # An emptied shard has left the index and stays a while, so that nobody who knows it meets a 404.
        if name not in {INDEX, *listed} and (file.name == "sitemap-news.xml" or not file.lists_only_home):
            yield file.says("R6.5", "is not in the index")


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


def _serving_findings(file: Sitemap, meta: Mapping[str, Mapping[str, Any]]) -> Iterator[Finding]:
    headers = meta.get(f"{file.host}/{file.name}", {})
    kind = str(headers.get("ContentType")).replace(" ", "").lower()
    if kind not in {"application/xml", "application/xml;charset=utf-8", "text/xml;charset=utf-8"}:
        yield file.says("R9.1", f"served as {headers.get('ContentType')}")
    if headers.get("ContentEncoding"):
        yield file.says("R9.2", f"served with Content-Encoding {headers['ContentEncoding']}, whoever asks")
    control = headers.get("CacheControl") or ""
    age = re.search(r"max-age=(\d+)", control)
    if not control:
        yield file.says("R9.3", "served without Cache-Control")
    elif (file.is_news or file.is_index) and (age is None or int(age[1]) > FRESH_AGE_MAX_S):
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
