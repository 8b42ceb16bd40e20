"""The warnings to a sender, which depend only on the event and the configuration."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from stoppress.model.exclusion_reasons import warnings_of
from stoppress.model.site import Rule, Site
from tests.support.article_events import HOST, MORNING, publish, remove

SITE = Site(host=HOST, publication="Example News")
NO_NEWS = "it will not be in the news sitemap: "
UNDATED = "no published_at: it will not be in the news sitemap, unless another event has the date"
FRESH = replace(publish("1", "flood"), published_at=MORNING, timestamp=MORNING)


@pytest.mark.parametrize(
    ("fields", "warnings"),
    [
        ({}, []),
        ({"published_at": None, "verb": "published"}, [UNDATED]),
        ({"published_at": None, "verb": "updated"}, []),
        ({"published_at": MORNING - timedelta(hours=47, minutes=59)}, []),
        ({"published_at": MORNING - timedelta(hours=48)}, [f"{NO_NEWS}published_at is more than 48 hours ago"]),
        ({"published_at": MORNING + timedelta(hours=2)},
         ["it will be in no sitemap before published_at, 2026-11-20T10:00:00Z"]),
        ({"dropped": ("images[0]: is no URL",)}, ["left out: images[0]: is no URL"]),
        ({"title": "x" * 998}, []),
        ({"title": "x" * 1_000}, ["title: at most 1,000 characters are kept, so its end may be missing"]),
        ({"title": "Fish &amp; <b>chips</b>"}, ["title: readers will see the HTML in it: send plain text"]),
        ({"title": "I <3 R&D, 4 > 3"}, []),
        ({"noindex": True}, ["it will be in no sitemap: noindex: the page asks not to be indexed"]),
        ({"url": f"https://{HOST}/"}, [f"{NO_NEWS}the home page is no article"]),
        ({"news": False}, []),
        ({"page": True, "published_at": None}, []),
    ],
)  # fmt: skip
def test_a_publication_warns_of_each_reason_that_excludes_it(fields: dict[str, Any], warnings: list[str]) -> None:
    assert warnings_of(replace(FRESH, **fields), SITE, MORNING, {}) == warnings


def test_a_removal_warns_of_nothing() -> None:
    assert warnings_of(remove("1"), SITE, MORNING, {}) == []


def test_a_rule_of_the_site_warns_for_its_target() -> None:
    site = SITE.model_copy(
        update={"rules": [Rule(exclude="news", section="sport"), Rule(exclude="all", section="ads")]}
    )
    (of_sport,) = warnings_of(replace(FRESH, section="sport"), site, MORNING, {})
    of_ads = warnings_of(replace(FRESH, section="ads"), site, MORNING, {})

    assert of_sport.startswith(f"{NO_NEWS}rule 1 of the site")
    assert [warning.partition(": ")[0] for warning in of_ads] == [
        "it will not be in the general sitemap",
        "it will not be in the news sitemap",
    ]


@pytest.mark.parametrize(
    ("unknown", "meant"),
    [
        ({"publishedAt": "2026-11-20"}, "publishedAt"),
        ({"published": "2026-11-20T08:00:00Z"}, "published"),
        ({"pubDate": "Fri, 20 Nov 2026 08:00:00 GMT"}, "pubDate"),
        ({"publish_date": "2026-11-20", "publishedAt": "2026-11-20"}, "publishedAt"),
        ({"publisher": "Example News"}, ""),
        ({"createdAt": "2026-11-20"}, ""),
        ({"publishedAt": None}, ""),
    ],
)
def test_a_near_spelling_of_published_at_is_reported_if_it_contains_a_date(unknown: dict[str, Any], meant: str) -> None:
    undated = replace(FRESH, published_at=None)
    meant_warning = f"{UNDATED}; did you mean it by {meant}?"
    assert warnings_of(replace(undated, verb="published"), SITE, MORNING, unknown) == [
        meant_warning if meant else UNDATED
    ]
    assert warnings_of(replace(undated, verb="updated"), SITE, MORNING, unknown) == ([meant_warning] if meant else [])
