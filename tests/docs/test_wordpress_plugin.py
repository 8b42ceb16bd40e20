"""The plugin for WordPress sends signed events of the standard contract."""

import json
import re
import shutil
import subprocess
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress.cms.contract import read_delivery
from stoppress.model.event import ArticleEvent
from stoppress.model.http_request import Request
from stoppress.model.site import Site
from stoppress.signatures.verify import verify

PLUGIN = Path(__file__).parents[2] / "docs/wordpress/stoppress.php"
WORDPRESS = Path(__file__).parents[1] / "fixtures/wordpress/wordpress.php"
SECRET = "whsec_c3RvcHByZXNzLXNlY3JldC0yNGJ5dGU="
URL = "https://api.example.com/webhooks/www.example.com/cms"
SITE = Site(host="www.example.com", publication="Example News")

pytestmark = pytest.mark.skipif(not shutil.which("php"), reason="PHP is not there (the Debian package php-cli)")


def play(*steps: tuple[str, Any], status: int = 200, **constants: Any) -> dict[str, Any]:
    """Run one request of WordPress, and return its requests, retries and log."""
    constants = {"STOPPRESS_URL": URL, "STOPPRESS_SECRET": SECRET, **constants}
    defined = {name: value for name, value in constants.items() if value is not None}
    request = {"status": status, "constants": defined, "steps": steps}
    command = [str(shutil.which("php")), "-n", str(WORDPRESS), str(PLUGIN)]
    ran = subprocess.run(command, input=json.dumps(request), capture_output=True, text=True, check=False)  # noqa: S603 - our own
    assert (ran.returncode, ran.stderr) == (0, ""), ran.stdout
    outcome: dict[str, Any] = json.loads(ran.stdout)
    return outcome


def bodies_of(*steps: tuple[str, Any], **constants: Any) -> list[dict[str, Any]]:
    bodies = []
    for request in play(*steps, **constants)["requests"]:
        assert request["url"] == URL
        verify("standard", Request(request["headers"], request["body"].encode()), [SECRET], datetime.now(UTC))
        bodies.append(json.loads(request["body"]))
    return bodies


def event(body: dict[str, Any]) -> ArticleEvent:
    """Return the event of a body, after checking that the contract has every field."""
    read, unknown = read_delivery(body, SITE, "cms", datetime.now(UTC))
    assert unknown == []
    return read


def test_a_published_post_is_an_article_with_all_the_data_of_wordpress() -> None:
    post = {
        "ID": 7,
        "post_title": "Flood &amp; <em>storm</em>",
        "terms": {"category": ["Local", "Sport"], "post_tag": ["flood", "sea"]},
        "thumbnail": "https://www.example.com/flood.jpg",
    }

    (body,) = bodies_of(("insert", post))
    article = event(body)

    assert body["type"] == "article.published"
    assert article.action == "publish"
    assert (article.id, article.url, article.title) == ("7", "https://www.example.com/flood/", "Flood & storm")
    assert article.published_at == datetime(2026, 11, 20, 8, tzinfo=UTC)
    assert article.updated_at == datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
    assert (article.section, article.keywords) == ("Local", ("flood", "sea"))
    assert article.images == ("https://www.example.com/flood.jpg",)
    assert not article.noindex
    assert abs(article.version - datetime.now(UTC)) < timedelta(minutes=1)  # type: ignore[operator]


def test_a_new_slug_is_sent_with_its_former_url_and_each_change_has_a_higher_version() -> None:
    there = ("there_is", {"ID": 7})
    (edited,) = bodies_of(there, ("update", {"ID": 7, "post_title": "Flood closes two harbours"}))
    (moved,) = bodies_of(
        there, ("update", {"ID": 7, "post_name": "flood-two"}), ("update", {"ID": 7, "post_name": "flood-3"})
    )

    assert (edited["type"], edited["data"]["previous_urls"]) == ("article.updated", [])
    assert moved["type"] == "article.updated"
    assert event(moved).url == "https://www.example.com/flood-3/"
    assert event(moved).previous_urls == ("https://www.example.com/flood/",)
    assert moved["data"]["version"] > edited["data"]["version"] > "2026-11-20T08:30:00Z"


@pytest.mark.parametrize(
    ("step", "kind"),
    [
        (("update", {"ID": 7, "post_status": "private"}), "article.unpublished"),
        (("update", {"ID": 7, "post_status": "trash", "post_name": "flood__trashed"}), "article.unpublished"),
        (("delete", 7), "article.deleted"),
    ],
)
def test_a_post_that_is_no_longer_public_is_removed_by_its_id(step: tuple[str, Any], kind: str) -> None:
    (body,) = bodies_of(("there_is", {"ID": 7}), step)

    assert body["type"] == kind
    assert body["data"].keys() == {"id", "version"}
    assert (event(body).action, event(body).id) == ("remove", "7")


@pytest.mark.parametrize(
    "steps",
    [
        [("insert", {"ID": 7, "post_status": "draft"})],
        [("insert", {"ID": 7, "post_status": "future"})],
        [("there_is", {"ID": 7, "post_status": "draft"}), ("update", {"ID": 7, "post_title": "Flood?"})],
        [("there_is", {"ID": 7, "post_status": "draft"}), ("delete", 7)],
        [("insert", {"ID": 7, "post_type": "revision"})],
        [("insert", {"ID": 7, "post_type": "page"})],
        [("leave_out", "Internal"), ("insert", {"ID": 7, "terms": {"category": ["Internal"]}})],
    ],
    ids=str,
)
def test_a_post_that_readers_cannot_see_is_not_sent(steps: list[tuple[str, Any]]) -> None:
    assert bodies_of(*steps) == []


def test_a_scheduled_post_is_sent_at_its_publication() -> None:
    scheduled = ("there_is", {"ID": 7, "post_status": "future", "post_name": "not-yet"})
    (body,) = bodies_of(scheduled, ("update", {"ID": 7, "post_status": "publish", "post_name": "flood"}))

    assert body["type"] == "article.published"
    assert body["data"]["previous_urls"] == []


def test_the_last_change_of_a_request_is_sent_and_a_publication_stays_one() -> None:
    (body,) = bodies_of(("insert", {"ID": 7}), ("update", {"ID": 7, "post_title": "Flood, edited"}))
    assert (body["type"], body["data"]["title"]) == ("article.published", "Flood, edited")

    (body,) = bodies_of(("insert", {"ID": 7}), ("delete", 7))
    assert body["type"] == "article.deleted"

    assert len(bodies_of(("insert", {"ID": 7}), ("insert", {"ID": 8}))) == 2


@pytest.mark.parametrize(
    ("again", "step", "expected"),
    [
        ({"post_status": "draft"}, ("update", {"ID": 7, "post_title": "Flood, edited"}), ("article.unpublished", None)),
        ({"post_name": "flood-2"}, ("update", {"ID": 7}), ("article.updated", "https://www.example.com/flood-2/")),
        ({"post_name": "flood-2"}, ("insert", {"ID": 7}), ("article.published", "https://www.example.com/flood-2/")),
        ({"post_title": "Flood"}, ("update", {"ID": 7, "post_status": "future"}), ("article.unpublished", None)),
    ],
    ids=str,
)
def test_a_nested_save_of_a_post_sends_the_later_state(
    again: dict[str, Any], step: tuple[str, Any], expected: tuple[str, str | None]
) -> None:
    *_, body = bodies_of(("there_is", {"ID": 7}), ("save_again", {"ID": 7, **again}), step)

    assert (body["type"], body["data"].get("url")) == expected


@pytest.mark.parametrize(
    ("changed", "field", "value"),
    [
        ({"meta": {"_yoast_wpseo_meta-robots-noindex": "1"}}, "noindex", True),
        ({"meta": {"_yoast_wpseo_meta-robots-noindex": "2"}}, "noindex", False),
        ({"meta": {"rank_math_robots": ["nofollow", "noindex"]}}, "noindex", True),
        ({"meta": {"rank_math_robots": ["index", "nofollow"]}}, "noindex", False),
        ({"meta": {"_seopress_robots_index": "yes"}}, "noindex", True),
        ({"post_password": "secret"}, "access", "protected"),
        ({"meta": {"_yoast_wpseo_canonical": "https://agency.example/a"}}, "canonical_url", "https://agency.example/a"),
        (
            {"meta": {"rank_math_canonical_url": "https://agency.example/b"}},
            "canonical_url",
            "https://agency.example/b",
        ),
        ({"post_modified_gmt": "0000-00-00 00:00:00"}, "updated_at", None),
        ({"post_date_gmt": "0000-00-00 00:00:00"}, "published_at", datetime(2026, 11, 20, 8, tzinfo=UTC)),
    ],
    ids=str,
)
def test_the_reason_that_excludes_a_post_is_sent(changed: dict[str, Any], field: str, value: object) -> None:
    (body,) = bodies_of(("insert", {"ID": 7, **changed}))

    assert getattr(event(body), field) == value


def test_a_post_that_becomes_a_page_leaves_and_returns_as_a_post() -> None:
    (removal,) = bodies_of(("there_is", {"ID": 7}), ("update", {"ID": 7, "post_type": "page"}))
    (back,) = bodies_of(("there_is", {"ID": 7, "post_type": "page"}), ("update", {"ID": 7, "post_type": "post"}))

    assert (removal["type"], back["type"]) == ("article.unpublished", "article.published")


def test_other_types_are_sent_where_the_configuration_lists_them() -> None:
    page, story = bodies_of(
        ("insert", {"ID": 7, "post_type": "page"}),
        ("insert", {"ID": 8, "post_type": "story"}),
        ("insert", {"ID": 9}),
        STOPPRESS_TYPES="page, story",
    )

    assert (page["type"], story["type"]) == ("page.published", "article.published")
    assert event(page).page


def test_sites_of_a_network_do_not_share_ids() -> None:
    (body,) = bodies_of(("insert", {"ID": 7}), BLOG=3)

    assert event(body).id == "3-7"


@pytest.mark.parametrize(
    ("status", "tried_again"), [(0, True), (503, True), (429, True), (200, False), (400, False), (401, False)]
)
def test_a_temporarily_refused_post_is_retried_with_a_new_signature(status: int, tried_again: bool) -> None:
    outcome = play(("insert", {"ID": 7}), status=status)

    assert bool(outcome["log"]) == (status != 200)
    if not tried_again:
        assert outcome["retries"] == []
        return
    (retry,) = outcome["retries"]
    (request,) = outcome["requests"]
    assert 59 <= retry["in_s"] <= 60
    assert retry["arguments"] == [request["headers"]["webhook-id"], request["body"], 1]
    second = play(("again", retry["arguments"]), status=status)
    assert second["requests"][0]["body"] == request["body"]
    assert second["requests"][0]["headers"]["webhook-id"] == request["headers"]["webhook-id"]
    assert 299 <= second["retries"][0]["in_s"] <= 300
    assert play(("again", [*retry["arguments"][:2], 6]), status=status)["retries"] == []


@pytest.mark.parametrize("name", ["STOPPRESS_URL", "STOPPRESS_SECRET"])
def test_without_the_constants_a_post_is_saved_and_nothing_is_sent(name: str) -> None:
    missing: dict[str, Any] = {name: None}
    outcome = play(("insert", {"ID": 7}), **missing)

    assert outcome["requests"] == outcome["retries"] == []
    assert outcome["log"]


def test_the_plugins_head_lists_every_constant_and_filter_it_reads() -> None:
    head, _, code = PLUGIN.read_text(encoding="utf-8").partition("*/")
    own = set(re.findall(r"const (STOPPRESS_\w+)", code))
    read = {*re.findall(r"\bSTOPPRESS_\w+", code), *re.findall(r"apply_filters\( '(\w+)'", code)} - own

    assert read == {"STOPPRESS_URL", "STOPPRESS_SECRET", "STOPPRESS_TYPES", "stoppress_data"}
    assert all(name in head for name in read)
