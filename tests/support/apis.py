"""The APIs of six CMSs in memory, as their vendors document them, each with its webhook for the same story."""

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cache
from pathlib import Path
from typing import Any, ClassVar
from urllib.parse import parse_qsl, urlsplit

from stoppress.audit.pages import Reader
from stoppress.cms.listing import Query
from stoppress.cms.mapping import load
from stoppress.http.client import Response
from stoppress.model.event import ArticleEvent, Page
from stoppress.model.site import Site
from stoppress.primitives.instants import NEVER, Deadline

HOST = "www.example.com"
KEY = "key-of-the-api"
APIS_FOLDER = Path(__file__).parents[1] / "fixtures/apis"


@dataclass(frozen=True)
class Story:
    """An article as every CMS has it."""

    number: int
    published_at: datetime
    updated_at: datetime
    other_slug: str = ""

    @property
    def slug(self) -> str:
        return self.other_slug or f"story-{self.number}"

    @property
    def title(self) -> str:
        return f"Story {self.number} & more"

    @property
    def url(self) -> str:
        return f"https://{HOST}/{self.slug}"

    @property
    def published(self) -> str:
        """When the story was published, in UTC and without the zone."""
        return f"{self.published_at:%Y-%m-%dT%H:%M:%S}"

    @property
    def updated(self) -> str:
        return f"{self.updated_at:%Y-%m-%dT%H:%M:%S}"


@dataclass
class Api:
    """A CMS with stories, in the order of their numbers.

    `answers` replaces the answers to requests, counted from 0. `before` runs before a request is answered.
    """

    stories: list[Story] = field(default_factory=list)
    answers: dict[int, Response | Exception] = field(default_factory=dict)
    before: Callable[[int], None] = lambda number: None
    requests: list[str] = field(default_factory=list)
    headers: list[Mapping[str, str]] = field(default_factory=list)
    _items: dict[Story, dict[str, Any]] = field(default_factory=dict)

    adapter = ""
    url = ""
    settings: ClassVar[dict[str, Any]] = {}
    # The header or parameter that must have the key, and those that must have one value.
    key = ("authorization", f"Bearer {KEY}")
    fixed: ClassVar[dict[str, str]] = {}
    # The parameters for the period, and for the size and number of a page.
    since, until, size, page = "", "", "", ""
    # The most items that a page may have.
    limit = 100

    def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Response:
        """Replace `stoppress.http.client.fetch`."""
        number = len(self.requests)
        self.requests.append(url)
        self.headers.append(headers or {})
        self.before(number)
        if isinstance(answer := self.answers.get(number), Exception):
            raise answer
        if answer:
            return answer
        assert url.partition("?")[0] == self.url
        return self.answer(dict(parse_qsl(urlsplit(url).query)), headers or {})

    def answer(self, query: dict[str, str], headers: Mapping[str, str]) -> Response:
        name, key = self.key
        if {"authorization": "", **headers, **query}.get(name) != key:
            return reply({"error": "unauthorized"}, 401)
        size, page = int(query[self.size]), int(query[self.page])
        if not 1 <= size <= self.limit or not self.fixed.items() <= query.items():
            return reply({"error": "invalid parameter"}, 400)
        items = self.items(query)
        return self.shown(items[(page - 1) * size : page * size], len(items), query)

    def items(self, query: dict[str, str]) -> list[dict[str, Any]]:
        """Return the items of the stories in the period of a request, by number."""
        start = datetime.fromisoformat(query.get(self.since, "0001-01-01T00:00:00Z"))
        end = datetime.fromisoformat(query.get(self.until, "9999-12-31T00:00:00Z"))
        stories = sorted(self.stories, key=lambda story: story.number)
        return [
            self._items.get(story) or self._items.setdefault(story, self.item(story))
            for story in stories
            if start <= story.updated_at < end
        ]

    def shown(self, items: list[dict[str, Any]], total: int, query: dict[str, str]) -> Response:
        raise NotImplementedError

    def item(self, story: Story) -> dict[str, Any]:
        """Return a story as the API's answer contains it."""
        document: dict[str, Any] = self._fill(documents(self.adapter)["item"], story)
        return document

    def webhook(self, story: Story) -> tuple[dict[str, str], Any]:
        """Return the headers and the body of a story's delivery."""
        headers, body = (self._fill(documents(self.adapter)[name], story) for name in ("headers", "webhook"))
        return headers, body

    def _fill(self, value: Any, story: Story) -> Any:
        match value:
            case dict():
                return {name: self._fill(child, story) for name, child in value.items()}
            case list():
                return [self._fill(child, story) for child in value]
            case "{item}":
                return self.item(story)
            case "{number}":
                return story.number
        return value.format(story=story) if isinstance(value, str) else value


@cache
def documents(adapter: str) -> dict[str, Any]:
    """Return an item of a CMS and its webhook; `{story.…}` is what changes from story to story."""
    document: dict[str, Any] = json.loads((APIS_FOLDER / f"{adapter}.json").read_text(encoding="utf-8"))
    return document


class WordPress(Api):
    """developer.wordpress.org/rest-api/reference/posts and /using-the-rest-api/pagination."""

    adapter = "wordpress"
    url = f"https://{HOST}/wp-json/wp/v2/posts"
    key = ("authorization", f"Basic {KEY}")
    fixed: ClassVar[dict[str, str]] = {"orderby": "id", "order": "asc", "status": "publish"}
    since, until, size, page = "modified_after", "modified_before", "per_page", "page"

    def answer(self, query: dict[str, str], headers: Mapping[str, str]) -> Response:
        return super().answer(query, {"authorization": f"Basic {KEY}", **headers})  # published posts need no key

    def shown(self, items: list[dict[str, Any]], total: int, query: dict[str, str]) -> Response:
        pages = -(-total // int(query["per_page"]))
        if int(query["page"]) > max(1, pages):
            return reply({"code": "rest_post_invalid_page_number"}, 400)
        # `_embed` embeds what `_links` has, and `_fields` leaves the links out unless it names them.
        fields = {name.partition(".")[0] for name in query["_fields"].split(",")}
        fields |= {"_embedded"} if "_links" in fields and query["_embed"] == "wp:featuredmedia,wp:term" else set()
        items = [{name: value for name, value in post.items() if name in fields} for post in items]
        return reply(items, x_wp_total=str(total), x_wp_totalpages=str(pages))


@dataclass
class Blog(WordPress):
    """A blog whose posts change, without pictures and sections. `status` other than 200 is answered to every request.

    `cached` are the posts that the API lists instead, if it answers from a cache.
    """

    posts: dict[int, dict[str, Any]] = field(default_factory=dict)
    cached: dict[int, dict[str, Any]] | None = None
    status: int = 200

    def publish(self, id_: int, at: datetime, slug: str = "") -> None:
        """Add a post, or change it at an instant. Its date stays the first one."""
        before = self.posts.get(id_)
        first = datetime.fromisoformat(before["date_gmt"]) if before else at
        story = Story(id_, first, at, slug or (before["slug"] if before else ""))
        self.posts[id_] = self.item(story) | {"_embedded": {}, "story": story}

    def delivery(self, id_: int) -> dict[str, Any]:
        """Return what the plugin WP Webhooks sends of a post."""
        _, body = self.webhook(self.posts[id_]["story"])
        body["post"]["post_modified_gmt"] = self.posts[id_]["modified_gmt"].replace("T", " ")
        return {name: body[name] for name in ("post_id", "post_permalink", "post")}

    def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Response:
        if self.status == 200:
            return super().fetch(url, headers)
        self.requests.append(url)
        return Response(self.status, {}, b"{}", url)

    def items(self, query: dict[str, str]) -> list[dict[str, Any]]:
        posts = self.posts if self.cached is None else self.cached
        start, end = query.get("modified_after", ""), query.get("modified_before", "9999")
        return [post for _, post in sorted(posts.items()) if start <= f"{post['modified_gmt']}Z" < end]


class Ghost(Api):
    """docs.ghost.org/content-api: posts, parameters, pagination. SQLite compares instants as texts (Ghost issue 13174)."""

    adapter = "ghost"
    url = f"https://{HOST}/ghost/api/content/posts/"
    key = ("key", KEY)
    fixed: ClassVar[dict[str, str]] = {"order": "id asc"}
    size, page = "limit", "page"
    _condition = re.compile(r"updated_at:(>=|<)'([^']*)'")

    def items(self, query: dict[str, str]) -> list[dict[str, Any]]:
        conditions = query["filter"].split("+updated_at") if "filter" in query else []
        limits = dict(self._condition.findall(query.get("filter", "")))
        assert len(limits) == len(conditions), query["filter"]
        start, end = limits.get(">=", ""), limits.get("<", "9999")
        return [post for post in super().items({}) if start <= post["updated_at"][:19].replace("T", " ") < end]

    def shown(self, items: list[dict[str, Any]], total: int, query: dict[str, str]) -> Response:
        # `tags` come with `include`; `fields` drops every other field that it does not name, primary_tag too.
        fields = {*query["fields"].split(","), *(["tags"] if query["include"] == "tags" else [])}
        posts = [{name: value for name, value in post.items() if name in fields} for post in items]
        return reply({"posts": posts, "meta": {"pagination": {"page": int(query["page"]), "total": total}}})


class Contentful(Api):
    """contentful.com/developers/docs/references/content-delivery-api: entries, skip and limit, operators of `sys.updatedAt`."""

    adapter = "contentful"
    url = "https://cdn.contentful.com/spaces/s/environments/master/entries"
    limit = 1_000
    settings: ClassVar[dict[str, Any]] = {"url_template": "/{slug}", "content_types": ["article"], "locales": ["en-GB"]}
    fixed: ClassVar[dict[str, str]] = {"locale": "*", "order": "sys.id"}
    since, until, size, page = "sys.updatedAt[gte]", "sys.updatedAt[lt]", "limit", "page"

    def answer(self, query: dict[str, str], headers: Mapping[str, str]) -> Response:
        page, rest = divmod(int(query["skip"]), int(query["limit"]))
        assert rest == 0
        return super().answer(query | {"page": str(page + 1)}, headers)

    def items(self, query: dict[str, str]) -> list[dict[str, Any]]:
        return super().items(query) if "article" in query["sys.contentType.sys.id[in]"].split(",") else []

    def shown(self, items: list[dict[str, Any]], total: int, query: dict[str, str]) -> Response:
        return reply({"total": total, "skip": int(query["skip"]), "limit": int(query["limit"]), "items": items})


class Strapi(Api):
    """docs.strapi.io/cms/api/rest (version 5): sort-pagination and filters."""

    adapter = "strapi"
    url = f"https://{HOST}/api/articles"
    settings: ClassVar[dict[str, Any]] = {"models": ["article"]}
    fixed: ClassVar[dict[str, str]] = {"sort": "id:asc"}
    since, until = "filters[updatedAt][$gte]", "filters[updatedAt][$lt]"
    size, page = "pagination[pageSize]", "pagination[page]"

    def shown(self, items: list[dict[str, Any]], total: int, query: dict[str, str]) -> Response:
        return reply({"data": items, "meta": {"pagination": {"page": int(query[self.page]), "total": total}}})


class Strapi4(Strapi):
    """docs-v4.strapi.io/dev-docs/api/rest: no `documentId`, and the fields are in `attributes`."""

    def shown(self, items: list[dict[str, Any]], total: int, query: dict[str, str]) -> Response:
        items = [{name: item[name] for name in item if name != "documentId"} for item in items]
        return super().shown([{"id": item.pop("id"), "attributes": item} for item in items], total, query)

    def webhook(self, story: Story) -> tuple[dict[str, str], Any]:
        headers, body = super().webhook(story)
        del body["entry"]["documentId"]
        return headers, body


class Storyblok(Api):
    """storyblok.com/docs/api/content-delivery/v2: stories/retrieve-multiple-stories, getting-started/pagination."""

    adapter = "storyblok"
    url = "https://api.storyblok.com/v2/cdn/stories"
    key = ("token", KEY)
    fixed: ClassVar[dict[str, str]] = {"sort_by": "created_at:asc", "version": "published"}
    since, until, size, page = "published_at_gt", "published_at_lt", "per_page", "page"

    def shown(self, items: list[dict[str, Any]], total: int, query: dict[str, str]) -> Response:
        return reply({"stories": items, "cv": 1}, total=str(total), per_page=query["per_page"])


class Sanity(Api):
    """sanity.io/docs/http-reference/query: GROQ, and its parameters as JSON. No engine: the conditions are matched as texts."""

    adapter = "sanity"
    url = "https://p.api.sanity.io/v2025-02-19/data/query/production"
    settings: ClassVar[dict[str, Any]] = {"url_template": "/{slug}", "types": ["article"]}
    _conditions = ("_id > $cursor", "_updatedAt >= $since", "_updatedAt < $until", "_type in $types", "order(_id)")

    def answer(self, query: dict[str, str], headers: Mapping[str, str]) -> Response:
        if headers.get("authorization") != f"Bearer {KEY}":
            return reply({"statusCode": 401, "error": "Unauthorized"}, 401)
        values = {name: json.loads(value) for name, value in query.items() if name.startswith("$")}
        groq = query["query"]
        assert {*re.findall(r"\$\w+", groq)} == values.keys(), groq
        assert all(condition in groq for condition in self._conditions), groq
        [size] = [int(end) for end in re.findall(r"\[0\.\.\.(\d+)\]$", groq)]
        documents = [
            document
            for document in self.items({})
            if document["_id"] > values["$cursor"] and values["$since"] <= document["_updatedAt"] < values["$until"]
            if values["$types"] is None or document["_type"] in values["$types"]
        ]
        return reply({"ms": 3, "query": groq, "result": documents[:size]})


APIS: tuple[type[Api], ...] = (WordPress, Ghost, Contentful, Strapi, Strapi4, Storyblok, Sanity)


def reply(document: Any, status: int = 200, **headers: str) -> Response:
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    return Response(status, {"content-type": "application/json", **named}, json.dumps(document).encode(), "")


# ── listings: the query, and the pages that it returns ──

DAY = datetime(2026, 11, 20, tzinfo=UTC)


def stories(count: int, first: int = 1) -> list[Story]:
    """Return stories that were published on one day and edited ten minutes apart from noon on."""
    return [
        Story(n, DAY + timedelta(seconds=n), DAY + timedelta(hours=12, minutes=10 * n))
        for n in range(first, first + count)
    ]


def query(
    api: Api, since: datetime | None = None, until: datetime | None = None, url: str = "", key: str | None = KEY
) -> Query:
    """Return the query for a site's source whose `list.url` is the API's."""
    source = {"adapter": api.adapter, "settings": api.settings, "list": {"url": url or api.url, "secret": "key"}}
    site = Site.model_validate({"host": HOST, "publication": "News", "sources": {"cms": source}})
    secrets = (key,) if key else ()
    return Query(site, "cms", site.sources["cms"], load(api.adapter), secrets, since, until)


def pages(query: Query, cursor: str | None = None, deadline: Deadline = NEVER) -> Iterable[Page]:
    return Reader(query, "audit", deadline).pages(cursor)


def events(pages: Iterable[Page]) -> list[ArticleEvent]:
    return [item.event for page in pages for item in page.items]


def slugs(pages: Iterable[Page]) -> list[str]:
    """Return the last part of each URL, in the order of the list."""
    return [str(event.url).rsplit("/", 1)[-1] for event in events(pages)]


def problems(pages: Iterable[Page]) -> list[tuple[str, str]]:
    return [(problem.place, problem.reason) for page in pages for problem in page.problems]
