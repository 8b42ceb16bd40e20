"""Listings by `[list]` in the mapping files: requests, items that become the webhook's event, and positions."""

import json
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import pytest

from stoppress.cms.engine import read_delivery
from stoppress.cms.listing import Answer, Ignored, Position, Query, after_failure, next_position, position_of
from stoppress.cms.mapping import Listing, load
from stoppress.http import client
from stoppress.model.adapters import names
from stoppress.model.event import Listed, ListingError, Problem, digest_of
from stoppress.model.http_request import Request
from tests.support.apis import (
    APIS,
    DAY,
    KEY,
    Api,
    Contentful,
    Ghost,
    Sanity,
    Storyblok,
    Strapi,
    Strapi4,
    WordPress,
    events,
    pages,
    query,
    slugs,
    stories,
)

NOW = datetime(2026, 11, 22, tzinfo=UTC)
by_api = pytest.mark.parametrize("kind", APIS, ids=lambda kind: kind.__name__)


def of_item(listing: Query, item: Any) -> Listed | Problem:
    return listing.item(Answer([item], None, "", "", {"settings": {}, "types": None}), item, "item 1", NOW, "audit")


def test_every_listing_that_is_shipped_has_an_api_here() -> None:
    assert {name for name in names() if load(name).listing} == {kind.adapter for kind in APIS}


@by_api
def test_an_item_becomes_the_event_of_its_webhook(monkeypatch: pytest.MonkeyPatch, kind: type[Api]) -> None:
    api = kind(stories(1))
    monkeypatch.setattr(client, "fetch", api.fetch)

    [listed] = events(pages(query(api)))

    assert (listed.title, listed.url) == ("Story 1 & more", "https://www.example.com/story-1")
    assert listed.published_at == DAY + timedelta(seconds=0 if kind is Contentful else 1)  # publishDate has no seconds
    assert listed.updated_at == DAY + timedelta(hours=12, minutes=10)
    listing, (headers, body) = query(api), api.webhook(api.stories[0])
    request = Request({"content-type": "application/json", **headers}, json.dumps(body).encode())
    [verdict] = read_delivery(listing.mapping, request, listing.source.settings, listing.site, NOW)
    if kind is Storyblok:  # its webhook has neither a title nor dates
        assert (verdict.shown(NOW)["id"], verdict.shown(NOW)["url"]) == (listed.id, listed.url)
        return
    from_webhook = verdict.event(listing.site, listing.name, NOW)
    assert digest_of(listed) == digest_of(from_webhook)
    assert (listed.source, listed.id, listed.version) == (from_webhook.source, from_webhook.id, from_webhook.version)
    assert listed.timestamp == from_webhook.timestamp


@by_api
def test_only_articles_that_changed_in_the_period_are_listed(monkeypatch: pytest.MonkeyPatch, kind: type[Api]) -> None:
    api = kind(stories(20))  # edited at 12:10, 12:20 … 15:20
    monkeypatch.setattr(client, "fetch", api.fetch)
    start, end = DAY + timedelta(hours=13), DAY + timedelta(hours=14)

    assert slugs(pages(query(api, start, end))) == [f"story-{n}" for n in range(6, 12)]
    assert slugs(pages(query(api, until=end))) == [f"story-{n}" for n in range(1, 12)]
    assert slugs(pages(query(api, since=start))) == [f"story-{n}" for n in range(6, 21)]


@by_api
def test_a_listing_of_several_pages_is_read_whole(monkeypatch: pytest.MonkeyPatch, kind: type[Api]) -> None:
    api = kind(stories(250))
    monkeypatch.setattr(client, "fetch", api.fetch)

    every_page = list(pages(query(api)))

    assert slugs(every_page) == [f"story-{n}" for n in range(1, 251)]
    assert len(every_page) == {Contentful: 2, Sanity: 4}.get(kind, 3)  # Sanity's last page is empty
    assert every_page[-1].cursor is None
    if kind is not Sanity:
        assert {page.total for page in every_page} == {250}


@by_api
def test_the_key_is_sent_where_the_api_expects_it(kind: type[Api]) -> None:
    """WordPress: an application password, as `user:password` in Base64. Ghost and Storyblok have the key in the URL."""
    url, headers = query(kind()).request(Position())
    in_url = {name for name, value in parse_qsl(urlsplit(url).query) if value == KEY}
    scheme = "Basic" if kind is WordPress else "Bearer"

    assert in_url == {Ghost: {"key"}, Storyblok: {"token"}}.get(kind, set())
    assert headers.get("authorization") == (None if in_url else f"{scheme} {KEY}")


def test_without_a_key_a_blog_is_listed_without_a_header() -> None:
    assert "authorization" not in query(WordPress(), key=None).request(Position())[1]


def test_parameters_of_the_configured_url_override_the_defaults() -> None:
    url, _ = query(WordPress(), url=f"{WordPress.url}?per_page=20&categories=7&lang=#top").request(Position(page=2))
    parameters = parse_qsl(urlsplit(url).query, keep_blank_values=True)

    assert [value for name, value in parameters if name == "per_page"] == ["20"]
    assert {("categories", "7"), ("lang", ""), ("page", "2")} <= {*parameters}
    assert "#" not in url


def test_a_protected_post_keeps_its_mark() -> None:
    item = WordPress().item(stories(1)[0])
    listed = of_item(query(WordPress()), item | {"content": {"protected": True}})

    assert isinstance(listed, Listed)
    assert listed.event.access == "protected"


@pytest.mark.parametrize(
    ("head", "noindex", "canonical"),
    [
        (None, False, None),
        ({"robots": {"index": "index"}, "canonical": "https://www.example.com/story-1"}, False, None),
        ({"robots": {"index": "noindex"}}, True, None),
        ({"robots": {"index": "index"}, "canonical": "https://agency.example.net/7"}, False,
         "https://agency.example.net/7"),
        ({"robots": []}, False, None),
    ],
)  # fmt: skip
def test_noindex_of_yoast_is_read_in_a_listing(
    monkeypatch: pytest.MonkeyPatch, head: Any, noindex: bool, canonical: str | None
) -> None:
    class Yoast(WordPress):
        def item(self, story: Any) -> dict[str, Any]:
            return super().item(story) | ({"yoast_head_json": head} if head else {})

    monkeypatch.setattr(client, "fetch", Yoast(stories(1)).fetch)
    [listed] = events(pages(query(Yoast())))

    assert (listed.noindex, listed.canonical_url) == (noindex, canonical)


def test_a_model_without_drafts_in_strapi_4_is_listed_where_the_settings_name_it() -> None:
    api = Strapi4()
    fields = api.item(stories(1)[0])
    del fields["publishedAt"], fields["documentId"]
    item = {"id": 1, "attributes": fields}
    listing = query(api)
    answer = Answer([item], None, "", "", {"settings": {}, "types": ["article"]})

    listed = listing.item(answer, item, "item 1", NOW, "audit")
    assert isinstance(listed, Listed)
    assert listed.event.published_at == DAY + timedelta(seconds=1)


@pytest.mark.parametrize("kind", [Contentful, Strapi, Sanity])
def test_types_that_are_no_articles_are_not_listed(monkeypatch: pytest.MonkeyPatch, kind: type[Api]) -> None:
    api = kind(stories(2))
    name = {Contentful: "content_types", Strapi: "models", Sanity: "types"}[kind]
    settings = api.settings | {name: ["advert"]}
    monkeypatch.setattr(kind, "settings", settings)
    monkeypatch.setattr(client, "fetch", api.fetch)

    # Strapi has a list for each model, so `list.url` contains the model.
    assert slugs(pages(query(api))) == (["story-1", "story-2"] if kind is Strapi else [])


def test_without_types_sanity_and_contentful_list_every_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Sanity, "settings", {"url_template": "/{slug}"})
    monkeypatch.setattr(Contentful, "settings", {"url_template": "/{slug}"})

    assert ("$types", "null") in parse_qsl(urlsplit(query(Sanity()).request(Position())[0]).query)
    assert "contentType" not in query(Contentful()).request(Position())[0]


@pytest.mark.parametrize("item", ["text", 7, None, [], {}, {"id": None}], ids=repr)
@by_api
def test_an_item_that_is_no_article_is_a_problem_or_is_ignored(kind: type[Api], item: Any) -> None:
    try:
        outcome = of_item(query(kind()), item)
    except Ignored as reason:
        outcome = Problem("item 1", str(reason))

    assert isinstance(outcome, Problem)
    assert outcome.place == "item 1"
    assert outcome.reason


def test_the_delivery_id_depends_on_the_content_and_the_version_alone() -> None:
    listing, story = query(Ghost()), stories(1)[0]

    def delivery(story: Any, at: datetime) -> str | None:
        listed = listing.item(Answer([], None, "", "", {}), Ghost().item(story), "", at, "import")
        assert isinstance(listed, Listed)
        assert listed.event.received_at == at
        return listed.event.delivery

    again = delivery(story, NOW)
    assert again == delivery(story, NOW + timedelta(hours=1))
    assert str(again).startswith("import:")
    assert again != delivery(replace(story, updated_at=story.updated_at + timedelta(seconds=1)), NOW)


@pytest.mark.parametrize(
    "at",
    [
        Position(),
        Position(page=7, offset=600, page_items=100, total=950),
        Position(cursor="a'b\"c"),
        Position(url="https://a/b?c=d"),
    ],
)
def test_a_position_can_be_parsed_from_its_text(at: Position) -> None:
    assert position_of(at.text()) == at


@pytest.mark.parametrize(
    "text",
    ["7", "{", "[]", '"page"', "null", '{"page": "7"}', '{"page": null}', '{"cursor": 7}', "[" * 100_000],
    ids=lambda text: text[:20],
)
def test_a_broken_position_is_refused_with_what_to_do(text: str) -> None:
    with pytest.raises(ListingError, match=r"is not a position in a listing .*: delete the checkpoint to start again"):
        position_of(text)


LINKS = {"items": "body", "next": "link", "size": 100, "url": "…", "delivery": "item"}


@pytest.mark.parametrize(
    ("header", "path"),
    [
        ('<https://www.example.com/b?page=2>; rel="next"', "/b?page=2"),
        ("</b?page=2>; rel=next", "/b?page=2"),
        ('<?page=1>; rel="prev", <?page=3>; rel="next"', "/wp-json/wp/v2/posts?page=3"),
        ('<?ids=1,2;3&page=3>; title="a, b"; rel="next last"', "/wp-json/wp/v2/posts?ids=1,2;3&page=3"),
        ('<?page=3>; REL="Next"', "/wp-json/wp/v2/posts?page=3"),
        (r'<?page=2>; title="the \"next\" page"; rel="next"', "/wp-json/wp/v2/posts?page=2"),
        ('<?page=1>; rel="prev"', None),
        ('<?page=1>; rel="nextish"', None),
        ("", None),
        ("nonsense", None),
    ],
)
def test_the_next_page_is_the_one_of_the_link_header(header: str, path: str | None) -> None:
    wordpress = query(WordPress())
    mapping = wordpress.mapping.model_copy(update={"listing": Listing.model_validate(LINKS)})
    listing = replace(wordpress, mapping=mapping)
    following = next_position(listing, Position(), listing.answer(b"[{}]", {"link": header}))

    assert (following and following.url) == (path and f"https://www.example.com{path}")


@pytest.mark.parametrize("total", ["²", "-1", "1.5", "9" * 5_000, "many", "", None])
def test_a_total_that_is_no_number_counts_as_unknown(total: str | None) -> None:
    headers = {} if total is None else {"x-wp-total": total}
    assert query(WordPress()).answer(b"[]", headers).total is None


def test_after_a_failed_page_the_next_is_read_only_if_pages_are_numbered() -> None:
    at = Position(page=3, offset=200, page_items=100, total=350)

    assert after_failure(query(WordPress()), at) == replace(at, page=4, offset=300)
    assert after_failure(query(WordPress()), replace(at, total=300)) is None
    assert after_failure(query(WordPress()), Position()) is None
    assert after_failure(query(Sanity()), replace(at, cursor="a")) is None
