"""A WordPress REST API in memory: pages, totals and filters as its handbook says."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any
from urllib.parse import parse_qs, urlsplit

from stoppress.http.client import Response

PER_PAGE_MAX = 100


@dataclass
class Blog:
    """The posts of a blog by id. `status` other than 200 is answered to every request; `requests` are their URLs.

    `cached` are the posts that the API lists instead, if it answers from a cache.
    """

    host: str
    posts: dict[int, dict[str, Any]] = field(default_factory=dict)
    cached: dict[int, dict[str, Any]] | None = None
    status: int = 200
    requests: list[str] = field(default_factory=list)

    def publish(self, id_: int, at: datetime, slug: str = "") -> None:
        """Adds a post, or changes it at an instant. Its date stays the first one."""
        before = self.posts.get(id_, {})
        slug = slug or before.get("slug") or f"story-{id_}"
        self.posts[id_] = {
            "id": id_,
            "date_gmt": before.get("date_gmt") or f"{at:%Y-%m-%dT%H:%M:%S}",
            "modified_gmt": f"{at:%Y-%m-%dT%H:%M:%S}",
            "slug": slug,
            "status": "publish",
            "type": "post",
            "link": f"https://{self.host}/{slug}",
            "title": {"rendered": f"Story {id_} &amp; more"},
            "content": {"protected": False},
        }

    def webhook(self, id_: int) -> dict[str, Any]:
        """What the plugin WP Webhooks sends of a post."""
        post = self.posts[id_]
        return {
            "post_id": id_,
            "post_permalink": post["link"],
            "post": {
                "ID": id_,
                "post_status": "publish",
                "post_type": "post",
                "post_name": post["slug"],
                "post_title": f"Story {id_} & more",
                "post_date_gmt": post["date_gmt"].replace("T", " "),
                "post_modified_gmt": post["modified_gmt"].replace("T", " "),
            },
        }

    def fetch(self, url: str, headers: Mapping[str, str] | None = None) -> Response:
        """Answers like the API: only posts in the asked period, in pages; 400 for a page size or page that it does not have."""
        self.requests.append(url)
        if self.status != 200:
            return Response(self.status, {}, b"{}", url)
        query = {name: values[-1] for name, values in parse_qs(urlsplit(url).query).items()}
        posts = self.posts if self.cached is None else self.cached
        size, page = int(query.get("per_page", 10)), int(query.get("page", 1))
        after, before = query.get("modified_after", ""), query.get("modified_before", "9999")
        found = [post for _, post in sorted(posts.items()) if after <= f"{post['modified_gmt']}Z" < before]
        pages = max(1, -(-len(found) // size))
        if size > PER_PAGE_MAX or page > pages:
            return Response(400, {}, b'{"code": "rest_invalid_param"}', url)
        body = json.dumps(found[(page - 1) * size : page * size]).encode()
        return Response(200, {"x-wp-total": str(len(found)), "x-wp-totalpages": str(pages)}, body, url)
