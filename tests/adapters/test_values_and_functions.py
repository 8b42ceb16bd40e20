"""The values that CMSs write, and the functions that mapping files have for them."""

from datetime import UTC, datetime
from typing import Any
from zoneinfo import ZoneInfo

import jmespath
import pytest

from stoppress.adapters import values
from stoppress.adapters.functions import OPTIONS

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
    ],
)
def test_dates_of_every_kind_are_read(value: Any, instant: str) -> None:
    assert values.date_of(value, values.Where(None, ZoneInfo("Europe/Paris"))).isoformat() == instant


@pytest.mark.parametrize(
    "value",
    ["2026-11-20 09:00:00", "2026-11-20T09:00", "soon", "", True, 0, -5, float("nan"), 1e300, 10**400, "9" * 15_000],
)
def test_what_is_no_date_or_has_no_zone_is_refused(value: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        values.date_of(value, values.Where())


@pytest.mark.parametrize(
    ("expression", "given", "result"),
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
        ("of_type(@, ['a'])", [{"@type": t} for t in ("https://example.org/a", "schema:b", None, 7, {"a": 1})], []),
    ],
)  # fmt: skip
def test_the_functions_of_mappings(expression: str, given: Any, result: Any) -> None:
    assert jmespath.search(expression, given, options=OPTIONS) == result


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
    assert values.read("keywords", tags, values.Where()) == ["a", "b", "c", "d", "e"]
    assert values.read("section", [{"title": "Coast"}, "Sea"], values.Where()) == "Coast"
    assert values.read("section", {"id": 1}, values.Where()) == {"id": 1}


@pytest.mark.parametrize("said", ["und", "zxx", "mul"])
def test_what_says_that_there_is_no_language_names_none(said: str) -> None:
    with pytest.raises(ValueError, match="is no language code"):
        values.read("language", said, values.Where())


def test_a_day_without_a_zone_is_that_of_greenwich() -> None:
    assert values.date_of("2026-11-20", values.Where()) == datetime(2026, 11, 20, tzinfo=UTC)
