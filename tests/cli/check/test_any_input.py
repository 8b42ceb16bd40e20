"""The check of any file ends, reports sensible findings, and uses bounded memory."""

import gzip
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.primitives.text import clean
from stoppress.sitemaps.render import render_general, render_news
from stoppress_cli.check import checker
from stoppress_cli.check.findings import Finding, Findings
from stoppress_cli.check.input import Source
from stoppress_cli.check.rulebook import RULES
from stoppress_cli.check.value_rules import check_plain_text, is_spaced
from tests.cli.check.test_planted import AT
from tests.support.article_events import SITE
from tests.support.check_good_site import (
    ARTICLE,
    BASE,
    FLOOD,
    HARBOUR,
    IMAGE,
    IMAGE_SPACE,
    INDEX,
    MEDIA,
    NEWS,
    NEWS_SPACE,
    PAGES,
    ROBOTS,
    RSS,
    SHARD,
    SITEMAP_SPACE,
    good,
    index,
    url,
    urlset,
)
from tests.support.check_planted import MANY

pytestmark = pytest.mark.matrix

GOOD = good().files
DOCUMENTS = [GOOD[name] for name in (INDEX, NEWS, SHARD, MEDIA, PAGES, RSS, ROBOTS)]
PIECES = st.sampled_from(
    [b"<", b">", b"&", b"<!--", b"<![CDATA[", b"]]>", b"\xff", b"\0", b"<!DOCTYPE x [", b"xmlns:x=''", b"%"]
)
MEMORY_BYTES_MAX = 64_000_000
HEAD = b'<?xml version="1.0" encoding="UTF-8"?>\n<urlset xmlns="http://www.sitemaps.org/schemas/sitemap/0.9">\n'


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("any") / "sitemap.xml"


def findings(path: Path, body: bytes, url: str = f"{BASE}sitemap.xml") -> list[Finding]:
    path.write_bytes(body)
    report = Findings(each_max=20)
    checker.check([Source(path.name, url, path)], report, AT, is_all=False)
    return list(report)


@settings(max_examples=300)
@given(body=st.binary(max_size=400))
def test_any_bytes_can_be_checked(body: bytes, path: Path) -> None:
    assert all(finding.rule is RULES[finding.rule.name] for finding in findings(path, body))


@settings(max_examples=300)
@given(
    body=st.sampled_from(DOCUMENTS),
    start=st.integers(0, 2_000),
    length=st.integers(0, 60),
    new=st.one_of(PIECES, st.binary(max_size=8)),
)
def test_any_damaged_file_can_be_checked(body: bytes, start: int, length: int, new: bytes, path: Path) -> None:
    at = start % len(body)

    findings(path, body[:at] + new + body[at + length :])


@settings(max_examples=200)
@given(body=st.sampled_from(DOCUMENTS), start=st.integers(0, 1_000), new=st.binary(max_size=4))
def test_any_damaged_compressed_file_can_be_checked(body: bytes, start: int, new: bytes, path: Path) -> None:
    packed = gzip.compress(body, mtime=0)
    at = start % len(packed)

    findings(path, packed[:at] + new + packed[at + len(new) :])


@settings(max_examples=300)
@given(text=st.text())
def test_a_title_of_plain_text_has_no_finding(text: str, path: Path) -> None:
    title = clean(text)
    if not title or check_plain_text(title) or is_spaced(title):
        return
    body = render_news([NewsEntry(FLOOD, title, AT)], SITE, AT).body

    assert [str(finding) for finding in findings(path, body)] == []


@pytest.mark.parametrize(
    "title",
    ["AT&T; R&D; 5 < 6 > 4", "if a<b and c>d", "I <3 you", "L'\u00e9t\u00e9 \u00ab ici \u00bb", "\U0001f30a \u05e9\u05dc\u05d5\u05dd", "C&A", "Voil\u00e0\u00a0: \u00ab\u202fici\u202f\u00bb", "<Untitled> at the Tate", "]]>", "&c; &c"],
)  # fmt: skip
def test_single_markup_characters_in_a_title_have_no_finding(title: str, path: Path) -> None:
    assert findings(path, render_news([NewsEntry(FLOOD, title, AT)], SITE, AT).body) == []


@settings(max_examples=200)
@given(path_of_page=st.text(st.sampled_from("abcXYZ019-._~/!$&'()*+,;=:@%20?")))
def test_the_normalised_form_of_any_url_has_no_finding(path_of_page: str, path: Path) -> None:
    from stoppress.primitives.urls import canonical

    try:
        loc = canonical(f"{BASE}{path_of_page}")
    except ValueError:
        return
    names = {finding.rule.name for finding in findings(path, render_general([GeneralEntry(loc)], SITE).body)}

    assert names <= {"loc-session"}


SHAPES: dict[str, bytes] = {
    "other white space, quotes and comments": HEAD.replace(b'"', b"'").replace(b"\n", b"\r\n")
    + b"<!-- made by hand -->\r\n\t<url >\r\n\t\t<loc>https://www.example.com/a</loc>\r\n\t</url>\r\n</urlset>\r\n\r\n",
    "a schema's location, a style sheet, extensions that are not used": HEAD.replace(
        b"?>\n<urlset",
        b'?>\n<?xml-stylesheet type="text/xsl" href="/main.xsl"?>\n<urlset xmlns:xsi="http://www.w3.org/2001/XMLSchema-instance"'
        b' xsi:schemaLocation="http://www.sitemaps.org/schemas/sitemap/0.9 http://www.sitemaps.org/schemas/sitemap/0.9/sitemap.xsd"'
        b' xmlns:image="http://www.google.com/schemas/sitemap-image/1.1" xmlns:xhtml="http://www.w3.org/1999/xhtml"',
    )
    + b"<url><loc>https://www.example.com/</loc><lastmod>2026-11-20</lastmod></url></urlset>",
    "fractions and zones": HEAD
    + b"<url><loc>https://www.example.com/a</loc><lastmod>2026-11-20T13:30:00.123456789+05:30</lastmod></url>"
    + b"<url><loc>https://www.example.com/b</loc><lastmod>1997-07-16T19:20:30.45-08:00</lastmod></url></urlset>",
    "URLs that look odd": HEAD
    + b"<url><loc>https://www.example.com/a;v=1/(b)/c,d?e[]=1&amp;f=%C3%BC&amp;g=a+b&amp;h=http://x.example/</loc></url>"
    + b"<url><loc>https://WWW.example.com/~me/@you/!x/*</loc></url><url><loc>https://www.example.com?q=1</loc></url></urlset>",
    "no line breaks": HEAD.replace(b"\n", b"") + b"<url><loc>https://www.example.com/a</loc></url></urlset>",
    "an encoding in small letters": HEAD.replace(b"UTF-8", b"utf-8")
    + b"<url><loc>https://www.example.com/</loc></url></urlset>",
    "mobile alternates and pages for other screens": HEAD
    + b'<url xmlns:xhtml="http://www.w3.org/1999/xhtml"><loc>https://www.example.com/a</loc><xhtml:link rel="alternate"'
    + b' media="only screen and (max-width: 640px)" href="https://m.example.com/a"/><m:mobile'
    + b' xmlns:m="http://www.google.com/schemas/sitemap-mobile/1.0"/></url></urlset>',
    "a list with line breaks of Windows and none at its end": b"https://www.example.com/a\r\n\r\nhttps://www.example.com/b?x=1&y=2",
}


@pytest.mark.parametrize("shape", SHAPES)
def test_valid_files_of_other_layouts_have_no_findings(shape: str, path: Path) -> None:
    assert findings(path, SHAPES[shape]) == []


@pytest.mark.parametrize(
    "body",
    [
        urlset(url(HARBOUR.ljust(2_047, "x"), lastmod="2026-11-20T09:00:00Z")),
        urlset(*(url(path) for path in MANY[:50_000])),
        urlset(
            url(FLOOD, ARTICLE.replace("2026-11-20T07:58:00Z", "2026-11-18T09:00:00Z")),
            spaces=f"{SITEMAP_SPACE} {NEWS_SPACE}",
        ),
        urlset(*(url(path, ARTICLE) for path in MANY[:1_000]), spaces=f"{SITEMAP_SPACE} {NEWS_SPACE}"),
        urlset(url(FLOOD, IMAGE * 1_000), spaces=f"{SITEMAP_SPACE} {IMAGE_SPACE}"),
        urlset(url(FLOOD)).replace(b"</urlset>", b"</urlset>".rjust(52_428_800 - len(urlset(url(FLOOD))) + 9)),
        index(*(f"{number}.xml" for number in range(50_000))),
    ],
    ids=[
        "2,047 characters, changed now",
        "50,000 pages",
        "48 hours",
        "1,000 articles",
        "1,000 images",
        "50 MiB",
        "50,000 sitemaps",
    ],
)
def test_files_at_the_limits_have_no_findings(body: bytes, path: Path) -> None:
    assert findings(path, body) == []


# ── size ──────────────────────────────────────────────────────────────────────────────────────────────────────────────────


def pages() -> Iterator[bytes]:
    for number in range(50_000):
        yield f"<url><loc>{BASE}2026/11/{number}-{'x' * 150}</loc><lastmod>2026-11-20T08:00:00Z</lastmod></url>\n".encode()


HUGE: dict[str, tuple[Callable[[], bytes], set[str]]] = {
    "fifty thousand pages": (lambda: HEAD + b"".join(pages()) + b"</urlset>", set()),
    "a bomb of gzip": (lambda: gzip.compress(HEAD + b" " * 200_000_000, 1), {"too-large", "compressed-name"}),
    "a tag without end": (lambda: HEAD + b'<url a="' + b"x" * 50_000_000, {"hostile"}),
    "a comment without end": (lambda: HEAD + b"<!--" + b"x" * 50_000_000, {"hostile"}),
    "a text without end": (lambda: HEAD + b"<url><loc>" + b"x" * 50_000_000, {"not-well-formed"}),
    "an entry without end": (lambda: HEAD + b"<url>" + b"<a/>" * 2_000_000, {"hostile"}),
    "elements without end": (lambda: HEAD + b"<a>" * 3_000_000, {"hostile"}),
    "a line without end": (lambda: b"https://www.example.com/" + b"x" * 50_000_000, {"loc-too-long"}),
    "comments that seem to tell a time": (
        lambda: (
            HEAD
            + b"<!-- "
            + b"made at " * 2_000
            + b"-->"
            + (b"<!-- " + b"made at " * 2_000 + b"-->") * 1_000
            + b"</urlset>"
        ),
        {"empty"},
    ),
    "hosts of storage, each another": (
        lambda: (
            HEAD
            + b"".join(f"<url><loc>https://d{n}.cloudfront.net/</loc></url>".encode() for n in range(40_000))
            + b"</urlset>"
        ),
        {"other-host", "storage-host"},
    ),
    "namespaces, each another": (
        lambda: (
            HEAD
            + b"<url><loc>https://www.example.com/</loc>"
            + b"".join(f'<x xmlns="urn:{n}"/>'.encode() for n in range(40_000))
            + b"</url></urlset>"
        ),
        {"unknown-extension"},
    ),
    "sitemaps, a hundred thousand": (
        lambda: (
            HEAD.replace(b"urlset", b"sitemapindex")
            + b"".join(f"<sitemap><loc>{BASE}{n}</loc></sitemap>".encode() for n in range(100_000))
            + b"</sitemapindex>"
        ),
        {"too-many-sitemaps"},
    ),
    "a billion laughs": (
        lambda: (
            b"<!DOCTYPE x [<!ENTITY a 'ha'>"
            + b"".join(f"<!ENTITY a{n} '{f'&a{n - 1};' * 10}'>".replace("&a-1;", "&a;").encode() for n in range(12))
            + b"]>"
            + HEAD[39:]
            + b"<url><loc>&a11;</loc></url></urlset>"
        ),
        {"entities", "document-type"},
    ),
}


@pytest.mark.parametrize("shape", HUGE)
def test_memory_is_bounded_for_any_file(shape: str, tmp_path: Path) -> None:
    make, expected = HUGE[shape]
    path = tmp_path / "sitemap.xml"
    path.write_bytes(make())
    limit = (
        f"import resource, sys; resource.setrlimit(resource.RLIMIT_DATA, ({MEMORY_BYTES_MAX}, {MEMORY_BYTES_MAX}));"
        "from stoppress_cli.app import app; sys.argv = ['stoppress', 'check', sys.argv[1], '--json',"
        f" '--base-url', '{BASE}', '--now', '{AT.isoformat()}']; app()"
    )
    root = Path(__file__).parents[3]
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", limit, str(path)],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": f"{root / 'shared'}:{root / 'cli'}"},
    )

    assert {name for name in RULES if f'"name": "{name}"' in done.stdout} == expected, done.stderr
    assert done.returncode == (1 if expected else 0)
