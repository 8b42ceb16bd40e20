"""The verdicts of the page check on the pages in tests/fixtures/pages/."""

import tomllib
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, strategies as st

from stoppress.http.client import Response
from stoppress.notify.page_readiness import PAGE_BYTES_MAX, PageVerdict, judge, site_name

FIXTURES = Path(__file__).parents[2] / "fixtures/pages"
READY = (FIXTURES / "ready.html").read_text()
CASES = tomllib.loads((FIXTURES / "cases.toml").read_text())["case"]
URL = "https://www.example.com/harbour/bridge"
PUBLISHED = datetime(2026, 11, 20, 8, tzinfo=UTC)
HTML = {"content-type": "text/html; charset=utf-8"}


def verdict(
    body: bytes | str = READY, status: int = 200, published: datetime | None = PUBLISHED, **headers: str
) -> PageVerdict:
    body = body.encode() if isinstance(body, str) else body
    names = {name.replace("_", "-"): value for name, value in headers.items()}
    return judge(URL, published, Response(status, HTML | names, body, URL))


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_a_page_is_ready_or_not_for_one_reason(case: dict[str, Any]) -> None:
    html = case.get("html", READY)
    if "replace" in case:
        old, new = case["replace"]
        assert html.count(old), "else the case is that of the page as it is"
        html = html.replace(old, new)
    published = PUBLISHED if case.get("published", True) else None
    result = verdict(html, case.get("status", 200), published, **case.get("headers", {}))

    assert (result.kind, result.reason) == (case.get("kind", ""), case.get("reason", ""))
    assert result.ready is (not result.reason)
    assert result.is_gone is (case.get("status") in (404, 410))


def test_of_several_articles_any_may_have_the_date() -> None:
    other = '<script type="application/ld+json">{"@type": "Article", "datePublished": "2020-01-01T00:00:00Z"}</script>'

    assert verdict(READY.replace("<link", f"{other}<link", 1)).ready
    assert verdict(READY.replace("<link", f"{other}<link", 1), published=PUBLISHED + timedelta(hours=1)).kind == "date"


@pytest.mark.parametrize(
    ("html", "name"),
    [
        ('<script type="application/ld+json">[{"@type": "WebSite", "name": " The Gazette "}]</script>', "The Gazette"),
        ('<script type="application/ld+json">{"@type": "WebSite", "name": " "}</script>', ""),
        ('<script type="application/ld+json">{"@type": "Organization", "name": "Gazette Media"}</script>', ""),
        ('<meta property="og:site_name" content="The Gazette">', "The Gazette"),
        (
            '<meta property="og:site_name" content="g"><script type="application/ld+json">{"@graph": [{"@type": "WebSite", "name": "The Gazette"}]}</script>',
            "The Gazette",
        ),
        ("<title>The Gazette</title>", ""),
    ],
)
def test_the_name_of_a_site_is_that_of_its_home_page(html: str, name: str) -> None:
    assert site_name(Response(200, HTML, html.encode(), "https://www.example.com/")) == name


@pytest.mark.parametrize(
    ("encoding", "content_type"),
    [
        ("utf-16", "text/html; charset=UTF-16"),
        ("windows-1251", "text/html; charset=windows-1251"),
        ("koi8-r", "text/html"),
    ],
)
def test_a_name_is_read_in_the_encoding_of_the_page(encoding: str, content_type: str) -> None:
    body = f'<meta charset="{encoding}"><meta property="og:site_name" content="Мост">'.encode(encoding)

    assert site_name(Response(200, {"content-type": content_type}, body, URL)) == "Мост"


@pytest.mark.parametrize("charset", ["no-such", "hex", "idna"])
def test_an_unknown_encoding_is_read_as_utf_8(charset: str) -> None:
    body = '<meta property="og:site_name" content="Brücke">'.encode()

    assert site_name(Response(200, {"content-type": f"text/html; charset={charset}"}, body, URL)) == "Brücke"


PIECES = [*'< > <! <![ <!-- </ <title> <svg [ { " = & # a'.split(), " ", "<script type='application/ld+json'>"]


@given(st.lists(st.sampled_from(PIECES)))
def test_no_page_is_an_error(pieces: list[str]) -> None:
    assert verdict("".join(pieces)).kind in {"", "title"}


@pytest.mark.matrix
@pytest.mark.parametrize("piece", ["<", "<a ", "<!--", "<a b='", "<![CDATA[", '<script type="application/ld+json">['])
def test_no_page_takes_long(piece: str) -> None:
    verdict(piece * (PAGE_BYTES_MAX // len(piece)))  # quadratic time would be hours
