"""A story's deliveries by each first-class sender: publish, edit, slug change, unpublish, republish, delete."""

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import urlencode

from stoppress.model.http_request import Request

STEPS = ("publish", "edit", "slug change", "unpublish", "republish", "delete")
# All within the five minutes that a signature is good for, so that every order of them can be posted.
PACE = timedelta(seconds=20)


@dataclass(frozen=True)
class Delivery:
    """One delivery: its step, instant and request."""

    step: str
    at: datetime
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    query: dict[str, str] = field(default_factory=dict)

    @property
    def received(self) -> Request:
        headers = {"content-type": "application/json"} | self.headers
        return Request(headers, json.dumps(self.body).encode(), query=urlencode(self.query))


@dataclass(frozen=True)
class Moment:
    """The state of the story at one step."""

    step: str
    host: str
    id: str
    published: datetime
    at: datetime

    @property
    def number(self) -> int:
        return STEPS.index(self.step)

    @property
    def title(self) -> str:
        return "Flood closes the harbour" if self.number == 0 else "Flood closes harbour and ferry"

    @property
    def slug(self) -> str:
        return f"{self.id}-flood" if self.number < 2 else f"{self.id}-flood-and-ferry"

    @property
    def slug_before(self) -> str | None:
        return f"{self.id}-flood" if self.number == 2 else None

    @property
    def is_public(self) -> bool:
        return self.step not in ("unpublish", "delete")


def iso(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%dT%H:%M:%SZ")


def naive(instant: datetime) -> str:
    return instant.strftime("%Y-%m-%d %H:%M:%S")


def standard(now: Moment) -> Delivery:
    kind = {"publish": "published", "edit": "updated", "slug change": "updated", "republish": "published"}
    data: dict[str, Any] = {"id": now.id, "version": iso(now.at)}
    if now.is_public:
        data |= {"url": f"https://{now.host}/{now.slug}", "title": now.title, "published_at": iso(now.published)}
        data |= {"updated_at": iso(now.at)}
    verb = kind.get(now.step, "unpublished" if now.step == "unpublish" else "deleted")
    return Delivery(now.step, now.at, {"type": f"article.{verb}", "timestamp": iso(now.at), "data": data})


def cloudevents(now: Moment) -> Delivery:
    body = standard(now).body
    event = {"specversion": "1.0", "id": f"{now.id}-{now.number}", "source": "/newsroom", "time": iso(now.at)}
    event |= {"type": f"com.example.{body['type']}", "data": body["data"]}
    return Delivery(now.step, now.at, event, {"content-type": "application/cloudevents+json"})


def eventbridge(now: Moment) -> Delivery:
    body = standard(now).body
    envelope = {"id": f"{now.id}-{now.number}", "source": "cms", "time": iso(now.at), "detail-type": body["type"]}
    return Delivery(now.step, now.at, envelope | {"detail": {"site": now.host, **body["data"]}})


def ghost(now: Moment) -> Delivery:
    post: dict[str, Any] = {
        "id": now.id, "uuid": f"uuid-{now.id}", "title": now.title, "slug": now.slug, "status": "published",
        "url": f"https://{now.host}/{now.slug}/", "published_at": iso(now.published), "updated_at": iso(now.at), "tags": [],
    }  # fmt: skip
    before: dict[str, Any] = {"status": "draft"}
    match now.step:
        case "edit":
            before = {"title": "Flood closes the harbour"}
        case "slug change":
            before = {"slug": now.slug_before}
        case "unpublish":
            post |= {"status": "draft", "url": f"https://{now.host}/p/uuid-{now.id}/"}
            before = {"status": "published"}
        case "delete":  # a deletion has only the time of its signature
            before = {key: value for key, value in post.items() if key != "url"} | {"updated_at": iso(now.at - PACE)}
            post = {}
    return Delivery(now.step, now.at, {"post": {"current": post, "previous": before}})


def wordpress(now: Moment) -> Delivery:
    status = "publish" if now.is_public else "draft" if now.step == "unpublish" else "trash"
    changed = now.at - PACE if now.step == "delete" else now.at  # deleting a post for good changes no date
    post = {
        "ID": 1, "post_type": "post", "post_title": now.title, "post_name": now.slug, "post_status": status,
        "post_date_gmt": naive(now.published), "post_modified_gmt": naive(changed), "post_password": "",
    }  # fmt: skip
    was = "draft" if now.step == "republish" else "publish"
    trigger = {"publish": "post_create", "delete": "post_delete"}.get(now.step, "post_update")
    body = {
        "post_id": now.id, "post": post,
        "post_permalink": f"https://{now.host}/{now.slug}/" if now.is_public else f"https://{now.host}/?p=1",
    }  # fmt: skip
    if trigger == "post_update":
        body["post_before"] = {"post_status": was, "post_name": now.slug_before or now.slug}
    return Delivery(now.step, now.at, body, {"x-wp-webhook-name": trigger})


def ans(now: Moment) -> dict[str, Any]:
    document: dict[str, Any] = {"_id": now.id, "type": "story", "last_updated_date": iso(now.at)}
    if now.is_public:
        document |= {
            "headlines": {"basic": now.title},
            "canonical_url": f"/{now.slug}/",
            "first_publish_date": iso(now.published),
        }
    return document


def arc_ifx(now: Moment) -> Delivery:
    keys = {"publish": "first-publish", "republish": "republish", "unpublish": "unpublish", "delete": "delete"}
    event = {"key": f"story:{keys.get(now.step, 'update')}", "time": int(now.at.timestamp()), "body": ans(now)}
    return Delivery(now.step, now.at, event)


def arc_content_op(now: Moment) -> Delivery:
    operation = "insert-story" if now.is_public else "delete-story"
    document = {"operation": operation, "published": True, "branch": "default", "date": iso(now.at), "body": ans(now)}
    return Delivery(now.step, now.at, document)


def superdesk(now: Moment) -> Delivery:
    item = {
        "guid": now.id, "type": "text", "version": str(now.number + 1), "versioncreated": now.at.strftime("%Y-%m-%dT%H:%M:%S+0000"),
        "firstpublished": now.published.strftime("%Y-%m-%dT%H:%M:%S+0000"), "slugline": now.slug,
        "headline": now.title if now.is_public else "Kill/Takedown notice",
        "pubstatus": "usable" if now.is_public else "recalled" if now.step == "unpublish" else "canceled",
    }  # fmt: skip
    return Delivery(now.step, now.at, item)


def superdesk_publisher(now: Moment) -> Delivery:
    event = {"edit": "updated", "slug change": "updated", "unpublish": "unpublished", "delete": "canceled"}
    article = {
        "id": now.id, "title": now.title, "published_at": iso(now.published), "updated_at": iso(now.at),
        "status": "published" if now.is_public else event[now.step], "_links": {"online": {"href": f"/{now.slug}"}},
        "previous_relative_urls": [{"relative_url": f"/{now.slug_before}"}] if now.slug_before else [],
    }  # fmt: skip
    return Delivery(now.step, now.at, article, {"x-webhook-event": f"article[{event.get(now.step, 'published')}]"})


def contentful(now: Moment) -> Delivery:
    revision = {"unpublish": 3, "republish": 4, "delete": 4}.get(now.step, now.number + 1)
    sys: dict[str, Any] = {"id": now.id, "type": "Entry", "revision": revision, "updatedAt": iso(now.at)}
    headers = _topic(f"ContentManagement.Entry.{'publish' if now.is_public else now.step}")
    if not now.is_public:
        return Delivery(now.step, now.at, {"sys": sys | {"type": "DeletedEntry", "deletedAt": iso(now.at)}}, headers)
    fields = {"title": now.title, "slug": now.slug, "publishDate": iso(now.published)}
    document = {"sys": sys, "fields": {name: {"en-US": value} for name, value in fields.items()}}
    return Delivery(now.step, now.at, document, headers)


def _topic(topic: str) -> dict[str, str]:
    return {"content-type": "application/vnd.contentful.management.v1+json", "x-contentful-topic": topic}


def sanity(now: Moment) -> Delivery:
    """Return a delivery; unpublishing deletes the published document, and its draft stays."""
    operation = "create" if now.step in ("publish", "republish") else "update" if now.is_public else "delete"
    document = {
        "_id": now.id, "_type": "article", "title": now.title, "slug": {"current": now.slug},
        "publishedAt": iso(now.published), "_updatedAt": iso(now.at),
    }  # fmt: skip
    headers = {"sanity-operation": operation, "sanity-transaction-time": iso(now.at), "sanity-document-id": now.id}
    return Delivery(now.step, now.at, document, headers)


TEMPLATED = {"url_template": "/{slug}"}
# Each first-class sender, the function for its deliveries, and the settings that it needs.
SENDERS: dict[str, tuple[Callable[[Moment], Delivery], dict[str, Any]]] = {
    "standard": (standard, {}),
    "cloudevents": (cloudevents, {}),
    "eventbridge": (eventbridge, {}),
    "ghost": (ghost, {}),
    "wordpress": (wordpress, {}),
    "arc-ifx": (arc_ifx, {}),
    "arc-content-op": (arc_content_op, {}),
    "superdesk": (superdesk, TEMPLATED),
    "superdesk-publisher": (superdesk_publisher, {}),
    "contentful": (contentful, TEMPLATED | {"locales": ["en-US"]}),
    "sanity": (sanity, TEMPLATED),
}


def story(sender: str, host: str, name: str, start: datetime) -> list[Delivery]:
    """Return all deliveries of an article, from `start` on at PACE."""
    deliver, _ = SENDERS[sender]
    return [deliver(Moment(step, host, name, start, start + number * PACE)) for number, step in enumerate(STEPS)]
