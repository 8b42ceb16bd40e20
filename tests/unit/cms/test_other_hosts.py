"""A delivery about articles of several hosts: each goes to the site with the same source, or to none."""

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from stoppress.cms.engine import read_delivery
from stoppress.cms.mapping import load
from stoppress.model.event import ArticleEvent, Incomplete
from stoppress.model.http_request import Request
from stoppress.model.site import Site
from stoppress.receive.queueing import OTHER_SITES_MAX, Taker, take_delivery

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)


def two_sites(own: str = "shared/arc", **other: Any) -> tuple[Site, Site]:
    settings = {"site_urls": {"daily": "https://www.example.com", "weekly": "https://weekly.example.com"}}
    source = {"adapter": "arc-ifx", "secret": own, "settings": settings}
    first = {"host": "www.example.com", "publication": "Daily", "sources": {"cms": source}}
    second = {"host": "weekly.example.com", "publication": "Weekly", "sources": {"cms": source | other}}
    return Site.model_validate(first), Site.model_validate(second)


def arc(key: str, **changes: Any) -> dict[str, Any]:
    ans = {
        "_id": "A", "type": "story", "headlines": {"basic": "T"}, "first_publish_date": "2026-11-20T08:00:00Z",
        "websites": {name: {"website_url": "/a/"} for name in ("daily", "weekly")},
    }  # fmt: skip
    return {"key": key, "time": 1795163400, "body": ans | changes}


def taken(body: Any, site: Site, other: Site | None) -> list[Any]:
    def load_site(host: str) -> Site:
        if other is None or host != other.host:
            raise LookupError(host)
        return other

    request = Request(body=json.dumps(body).encode())
    return [result.message for result in take_delivery(request, site, "cms", NOW, load_site)]


def test_an_article_of_another_host_goes_to_the_site_with_the_same_source() -> None:
    messages = taken(arc("story:first-publish"), *two_sites())
    assert [(message.site, message.id, message.url) for message in messages] == [
        ("www.example.com", "A@daily", "https://www.example.com/a/"),
        ("weekly.example.com", "A@weekly", "https://weekly.example.com/a/"),
    ]
    messages = taken(arc("story:delete", websites=None), *two_sites())
    assert [(message.site, message.id, message.action) for message in messages] == [
        ("www.example.com", "A@daily", "remove"), ("weekly.example.com", "A@weekly", "remove"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    "other", [{"secret": "shared/theirs"}, {"adapter": "arc-content-op"}, {"own": "arc"}, None]
)  # fmt: skip - secrets of two sites are two, even under one name
def test_a_site_without_the_same_source_gets_no_article(other: dict[str, str] | None) -> None:
    first, second = two_sites(**(other or {}))
    [own, foreign] = taken(arc("story:first-publish"), first, second if other else None)
    assert isinstance(own, ArticleEvent)
    assert isinstance(foreign, Incomplete)
    assert (foreign.site, foreign.missing) == ("www.example.com", ("url",))
    assert foreign.reason.startswith("url: its host is weekly.example.com, not www.example.com")


def test_a_delivery_for_many_hosts_loads_a_bounded_number_of_sites() -> None:
    site = Site.model_validate(
        {"host": "www.example.com", "publication": "A", "sources": {"cms": {"adapter": "jsonld"}}}
    )
    page = {"@type": "NewsArticle", "headline": "T", "datePublished": "2026-11-20T08:00:00Z"}
    body = [page | {"url": f"https://host-{number}.example.net/a"} for number in range(20)]
    hosts: list[str] = []

    def load_site(host: str) -> Site:
        hosts.append(host)
        raise LookupError(host)

    verdicts = read_delivery(load("jsonld"), Request(body=json.dumps(body * 2).encode()), {}, site, NOW)
    messages = [result.message for result in map(Taker(site, "cms", NOW, load_site, {}).take, verdicts)]
    assert len(hosts) == OTHER_SITES_MAX
    assert len(messages) == 40
    assert all(isinstance(message, Incomplete) for message in messages)
