"""The judge is judged: it finds nothing in files that are right, and each planted fault under its rule."""

from collections.abc import Callable, Collection
from datetime import UTC, datetime
from pathlib import Path

import pytest

from tests import sitemap_rules
from tests.beside import SHARED, needs_shared
from tests.sitemap_rules import changes, findings

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


@pytest.mark.parametrize("files", [good, empty_window, emptied_shard, odd_but_right], ids=lambda files: files.__name__)
def test_files_that_keep_the_rules_have_no_findings(files: Callable[[], Files], tmp_path: Path) -> None:
    assert findings(save(tmp_path, files()), now=NOW) == []


@needs_shared
@pytest.mark.parametrize("files", [good, empty_window, emptied_shard, odd_but_right], ids=lambda files: files.__name__)
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
    ("rule", "fault"), [(r, f) for r, _, f in FAULTS], ids=[f"{r} {name}" for r, name, _ in FAULTS]
)
def test_a_planted_fault_is_found_under_its_rule(rule: str, fault: Fault, tmp_path: Path) -> None:
    files = good()
    fault(files)

    assert rule in {finding.rule for finding in findings(save(tmp_path, files), now=NOW)}


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
