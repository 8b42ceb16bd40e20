"""The values of CMSs, and the functions of mapping files for them."""

import json
from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import jmespath
import pytest

from stoppress.cms import values
from stoppress.cms.engine import read_delivery
from stoppress.cms.functions import OPTIONS
from stoppress.cms.mapping import load
from stoppress.model.http_request import BadDelivery, Request

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        ("2026-11-20T08:00:00+0000", "2026-11-20T08:00:00+00:00"),
        ("2026-11-20T08:00+01:00", "2026-11-20T07:00:00+00:00"),
        ("2026-11-20 09:00:00", "2026-11-20T08:00:00+00:00"),
        ("2026-11-20", "2026-11-19T23:00:00+00:00"),
        ("2026-07-20 09:00:00", "2026-07-20T07:00:00+00:00"),
        ("2026-11-20T08:00:00.1234567Z", "2026-11-20T08:00:00.123456+00:00"),
        (1795161600, "2026-11-20T08:00:00+00:00"),
        (1795161600000, "2026-11-20T08:00:00+00:00"),
        ("1795161600000", "2026-11-20T08:00:00+00:00"),
        (1795161600.5, "2026-11-20T08:00:00.500000+00:00"),
        ("1795161600.5", "2026-11-20T08:00:00.500000+00:00"),
        ("2026-11-20 08:00:00 UTC", "2026-11-20T08:00:00+00:00"),
        ("Fri, 20 Nov 2026 09:00:00 +0100", "2026-11-20T08:00:00+00:00"),
        ("Fri Nov 20 2026 03:00:00 GMT-0500 (Eastern Standard Time)", "2026-11-20T08:00:00+00:00"),
        ("2026-11-20T09:00+01:00[Europe/Paris]", "2026-11-20T08:00:00+00:00"),
        ("20261120", "2026-11-19T23:00:00+00:00"),
        ("2026-11-5 9:05:00", "2026-11-05T08:05:00+00:00"),
        ("2026-7-5T9:05:00", "2026-07-05T07:05:00+00:00"),
        ("20.11.2026 09:00", "2026-11-20T08:00:00+00:00"),
    ],
)
def test_dates_of_every_kind_are_read(value: Any, instant: str) -> None:
    assert values.date_of(value, values.Context(None, ZoneInfo("Europe/Paris"))).isoformat() == instant


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-20 09:00:00", "2026-11-20T09:00", "soon", "", True, 0, -5, float("nan"), 1e300, 10**400, "9" * 15_000,
        "Fri, 20 Nov 2026 09:00:00", "2026-11-20 09:00:00 IST", "2026-11-5 9:05:00", "5/11/2026 09:00", "20 Nov 2026", "08:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT",
    ],
)  # fmt: skip
def test_a_value_that_is_no_date_or_has_no_zone_is_refused(value: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        values.date_of(value, values.Context())


@pytest.mark.parametrize(
    ("expression", "value", "result"),
    [
        ("slug(@)", "Climate-smart food", "climate-smart-food"),
        ("slug(@)", "  Größe & Maß – “Œuvre”  ", "grosse-mass-oeuvre"),
        ("slug(@)", "Ученые назвали", "ученые-назвали"),
        ("slug(@)", "!!!", None),
        ("slug(@)", 7, None),
        ("fill('/{a}/{b}', @)", {"a": "x y", "b": 7}, "/x%20y/7"),
        ("fill('/{a}', @)", {"a": "/news/tide/"}, "/news/tide"),
        ("fill('/{a}', @)", {"a": "é?#%41"}, "/%C3%A9%3F%23%41"),
        ("fill('/{a}/{b}', @)", {"a": "x"}, None),
        ("fill('/{a}', @)", {"a": True}, None),
        ("fill('/{a}', @)", {"a": " "}, None),
        ("fill(@, @)", None, None),
        ("fill('/{a}', @)", {"a": {"name": "Coast", "slug": "coast"}}, "/coast"),
        ("fill('/{a}', @)", {"a": {"slug": {"current": "coast"}}}, "/coast"),
        ("fill('/{a}', @)", {"a": {"name": "Coast"}}, None),
        ("fill('/{a}', @)", {"a": [{"slug": "coast"}]}, None),
        ("sibling(url, slug, was)", {"url": "https://a.example/x/b/?c=d", "slug": "b", "was": "e"}, "https://a.example/x/e/?c=d"),
        ("sibling(url, slug, was)", {"url": "https://a.example/x/b", "slug": "x", "was": "e"}, None),
        ("sibling(url, slug, was)", {"url": "https://[", "slug": "x", "was": "e"}, None),
        ("words(@)", "com.example.ArticlePublished", "com example article published"),
        ("words(@)", "XMLArticle-deleted", "xml article deleted"),
        ("words(@)", None, None),
        ("utc(@)", "2026-11-20 08:00:00", "2026-11-20 08:00:00Z"),
        ("utc(@)", "2026-11-20 08:00:00+01:00", "2026-11-20 08:00:00+01:00"),
        ("utc(@)", None, None),
        ("split(@, '=')[1]", "t=5", "5"),
        ("split(@, '=')", None, []),
        ("localized(@, ['de', 'en'])", {"a": {"en": 1, "de": None}, "b": "c", "d": {"fr": 2}}, {"a": 1, "b": "c", "d": None}),
        ("localized(@, null)", {"a": {"fr": 2}}, {"a": 2}),
        ("localized(@, null)", [], {}),
        ("entries(@)[].value.name", {"x": {"name": "X"}}, ["X"]),
        ("entries(@)[].value.name", [], []),
        ("lookup(@, 'a')", {"a": 1}, 1),
        ("lookup(@, 'a')", ["a"], None),
        ("lower(@)", "PUBLISHED", "published"),
        ("is_in('a', @)", None, True),
        ("is_in('a', @)", ["b"], False),
        ("of_type(@, ['a'])", [{"@type": "a"}, {"@type": ["c", "a"]}, {"@type": "b"}, 7], [{"@type": "a"}, {"@type": ["c", "a"]}]),
        ("of_type(@, ['a'])[]|length(@)", [{"@type": t} for t in ("schema:a", "http://schema.org/a", "https://schema.org/a")], 3),
        ("of_type(@, ['aB'])", [{"@type": "ab"}, {"@type": "schema:AB"}], [{"@type": "ab"}, {"@type": "schema:AB"}]),
        ("of_type(@, ['a'])", [{"@type": t} for t in ("https://example.org/a", "schema:b", None, 7, {"a": 1})], []),
    ],
)  # fmt: skip
def test_the_functions_of_mappings(expression: str, value: Any, result: Any) -> None:
    assert jmespath.search(expression, value, options=OPTIONS) == result


def test_a_tag_and_a_section_may_be_objects_with_a_name_of_their_own() -> None:
    tags = [
        {"name": "a"},
        {"title": "b"},
        {"label": "c", "value": "v"},
        {"text": "d"},
        {"name": " ", "value": "e"},
        {"id": 1},
        7,
    ]
    assert values.READERS["keywords"](tags, values.Context()) == ["a", "b", "c", "d", "e"]
    assert values.READERS["section"]([{"title": "Coast"}, "Sea"], values.Context()) == "Coast"
    assert values.READERS["section"]({"id": 1}, values.Context()) == {"id": 1}


@pytest.mark.parametrize(
    ("raw", "hidden"),
    [
        (True, True), ("1", True), ("noindex", True), ("noindex, nofollow", True), ("nofollow,NoIndex", True),
        (["nofollow", "noindex"], True), (["noindex"], True), (0, False), ("index, follow", False), (["index", "nofollow"], False),
        ("all", False), ("max-image-preview:large", False),
    ],
)  # fmt: skip
def test_directives_for_robots_decide_whether_a_page_is_kept_from_search(raw: object, hidden: bool) -> None:
    assert values.READERS["noindex"](raw, values.Context()) is hidden


@pytest.mark.parametrize("raw", ["perhaps", "none", {"a": 1}, [7.5], [["noindex"]], 3])
def test_a_value_that_is_no_robots_directive_is_refused(raw: object) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        values.READERS["noindex"](raw, values.Context())


@pytest.mark.parametrize("raw", ["und", "zxx", "mul"])
def test_a_code_for_no_language_is_no_language(raw: str) -> None:
    with pytest.raises(ValueError, match="is no language code"):
        values.READERS["language"](raw, values.Context())


def test_a_day_without_a_zone_is_in_utc() -> None:
    assert values.date_of("2026-11-20", values.Context()) == datetime(2026, 11, 20, tzinfo=UTC)
    assert values.date_of("20261120", values.Context()) == datetime(2026, 11, 20, tzinfo=UTC)


def test_an_ambiguous_zone_name_is_refused() -> None:
    central = values.date_of("2026-11-20 08:00:00 CST", values.Context(None, ZoneInfo("America/Chicago")))
    assert central == datetime(2026, 11, 20, 14, tzinfo=UTC)
    with pytest.raises(ValueError, match="is not an ISO 8601 instant"):
        values.date_of("2026-11-20 08:00:00 CST", values.Context(None, ZoneInfo("Asia/Shanghai")))
    for unclear in ("2026-11-20 08:00:00 IST", "5/11/2026 09:00"):
        with pytest.raises(ValueError, match="is not an ISO 8601 instant"):
            values.date_of(unclear, values.Context(None, ZoneInfo("Europe/Paris")))


@pytest.mark.parametrize(
    ("adapter", "advice"),
    [("jsonld", "give the source the setting timezone"), ("cloudevents", "add Z, or an offset such as +01:00")],
)
def test_a_date_without_a_zone_is_reported_with_the_setting_if_there_is_one(adapter: str, advice: str) -> None:
    article = {"@type": "NewsArticle", "id": "1", "headline": "T", "url": "https://www.example.com/a"}
    article["datePublished"] = "2026-11-5 9:05:00"
    event = {"specversion": "1.0", "type": "article.published", "data": article}
    body = json.dumps(article if adapter == "jsonld" else event).encode()
    [verdict] = read_delivery(load(adapter), Request({}, body), {}, None, NOW)
    assert f"published_at: '2026-11-5 9:05:00' has no zone: {advice}" in json.dumps(verdict.shown(NOW))


@pytest.mark.parametrize(
    ("content_type", "body", "words"),
    [
        ("application/x-www-form-urlencoded; charset=utf-8", b"post_id=12", "is application/x-www-form-urlencoded: post JSON"),
        ("multipart/form-data; boundary=x", b"--x", "is multipart/form-data: post JSON"),
        ("text/xml", b"<post/>", "is text/xml: post JSON"),
        ("application/json", b"post_id=12", "is not JSON: Expecting value"),
        ("", b"post_id=12", "is not JSON: Expecting value"),
    ],
)  # fmt: skip
def test_a_body_of_another_kind_is_refused_with_its_name(content_type: str, body: bytes, words: str) -> None:
    with pytest.raises(BadDelivery, match=words):
        read_delivery(load("wordpress"), Request({"content-type": content_type}, body), {}, None, NOW)
    form = Request({"content-type": content_type, "x-wp-webhook-name": "post_delete"}, b'{"post_id": 12}')
    assert [verdict.action for verdict in read_delivery(load("wordpress"), form, {}, None, NOW)] == ["delete"]


def test_a_line_break_inside_a_json_string_is_accepted() -> None:
    body = b"""{"@type": "NewsArticle", "headline": "Flood\n\tcloses the harbour", "url": "https://www.example.com/flood",
    "datePublished": "2026-11-20T08:00:00Z"}"""
    [verdict] = read_delivery(load("jsonld"), Request(body=body), {}, None, NOW)
    assert verdict.shown(NOW)["title"] == "Flood closes the harbour"
