"""From the request to the table, for other CMSs: the answer, the queued messages, and their outcomes."""

import json
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest

from stoppress.aws import refusals, site_versions, table
from stoppress.model.http_request import Request
from stoppress.record import article as recording
from stoppress.record.article import MessageOutcome, record
from stoppress.record.message import Message
from stoppress_cli.scenario import signing
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING, page
from tests.support.moto_aws import MotoAws, failing, put_site

pytestmark = pytest.mark.moto

NOW = MORNING + timedelta(hours=1)
SECRET = "a-secret-that-is-long-enough"
CURRENT = {
    "id": "65f0", "uuid": "u", "title": "Ferry sails again", "slug": "ferry", "url": page("ferry/"), "status": "published",
    "published_at": "2026-11-20T08:00:00Z", "updated_at": "2026-11-20T08:30:00Z",
}  # fmt: skip
KONTENT: dict[str, Any] = {
    "data": {"system": {"id": "k1", "name": "Tides", "codename": "tides", "language": "en", "last_modified": "2026-11-20T08:00:00Z"}},
    "message": {"action": "published", "delivery_slot": "published"},
}  # fmt: skip


@pytest.fixture(scope="module")
def opened() -> Iterator[MotoAws]:
    with moto_aws.opened(NOW) as aws:
        yield aws


@pytest.fixture
def aws(opened: MotoAws, monkeypatch: pytest.MonkeyPatch) -> MotoAws:
    monkeypatch.setattr(table, "back_off", lambda attempt: None)
    opened.site(sources={"ghost": {"adapter": "ghost", "secret": "cms"}, "arc": {"adapter": "arc-content-op"}})
    opened.secret(f"webhooks/{HOST}/cms", SECRET)
    opened.forget_secrets()
    opened.taken("articles")
    opened.metrics.clear()
    return opened


def ghost(aws: MotoAws, current: dict[str, Any]) -> tuple[int, Any]:
    """Post a publication by Ghost, and return the webhook's answer."""
    body = json.dumps({"post": {"current": current, "previous": {"status": "draft"}}}).encode()
    request = Request({"content-type": "application/json"}, body, path=f"/webhooks/{HOST}/ghost")
    signed = signing.signed(request, "ghost", SECRET, "m", NOW)
    event = {
        "rawPath": signed.path, "rawQueryString": "", "headers": dict(signed.headers),
        "pathParameters": {"site": HOST, "source": "ghost"}, "body": body.decode(),
    }  # fmt: skip
    answer = aws.call("receive_webhook", event)
    return answer["statusCode"], json.loads(answer["body"])


def record_queued(aws: MotoAws) -> list[MessageOutcome]:
    """Record all queued messages, and return their outcomes."""
    messages = [Message(f"m{number}", body, NOW) for number, body in enumerate(aws.taken("articles"))]
    outcomes = record(messages, NOW)
    return [outcomes[message.id] for message in messages]


def test_an_incomplete_delivery_is_answered_200_and_kept_with_what_is_missing(aws: MotoAws) -> None:
    status, reply = ghost(aws, CURRENT | {"title": None, "published_at": "soon"})
    assert (status, reply["status"], reply["missing"]) == (200, "incomplete", ["title", "published_at"])
    assert (
        reply["reason"].startswith("published_at: 'soon' is not an ISO 8601 instant")
        or "title: is missing" in reply["reason"]
    )
    assert aws.metrics["WebhooksIncomplete"] == 1

    [outcome] = record_queued(aws)
    assert outcome.outcome == "quarantined"
    assert outcome.about["article"] == "ghost#65f0"
    [kept] = [item for item in aws.items(f"quarantine#{HOST}") if "title: is missing" in item["reason"]]
    assert kept["reason"].startswith("incomplete: ")
    assert "ferry" in json.loads(json.loads(kept["event"])["item"])["post"]["current"]["slug"]


def test_an_unreadable_configuration_of_another_site_is_answered_503(aws: MotoAws) -> None:
    ghost(aws, CURRENT)  # so that its own site is cached
    aws.taken("articles")
    with failing("dynamodb", "GetItem"):
        status, reply = ghost(aws, CURRENT | {"url": "https://third.example.com/ferry/"})
    assert (status, reply["status"]) == (503, "failed")


# ── from the bus ──


def bus(source: str, detail: dict[str, Any], kind: str = "article.published") -> str:
    envelope = {"version": "0", "id": "1", "source": source, "detail-type": kind, "time": "2026-11-20T08:30:00Z"}
    return json.dumps(envelope | {"detail": {"site": HOST} | detail})


ANS = {
    "_id": "A", "type": "story", "headlines": {"basic": "Budget"}, "canonical_url": "/budget/",
    "first_publish_date": "2026-11-20T08:00:00Z", "last_updated_date": "2026-11-20T08:30:00Z",
}  # fmt: skip
OPERATION = {
    "operation": "insert-story",
    "published": True,
    "branch": "default",
    "date": "2026-11-20T08:30:00Z",
    "body": ANS,
}


def outcome_of(*bodies: str) -> list[MessageOutcome]:
    messages = [Message(f"m{number}", body, NOW) for number, body in enumerate(bodies)]
    outcomes = record(messages, NOW)
    assert list(outcomes) == [message.id for message in messages]
    return list(outcomes.values())


def test_a_bus_event_without_a_change_is_ignored_and_an_incomplete_one_is_kept(aws: MotoAws) -> None:
    [ignored, incomplete] = outcome_of(
        bus("arc", {"body": OPERATION | {"published": False}}),
        bus("arc", {"body": OPERATION | {"body": ANS | {"headlines": {}}}}),
    )
    assert ignored.outcome == "ignored"
    assert ignored.reason.startswith("the draft copy")
    assert [(kept.source, kept.reason) for _, kept in refusals.stored(HOST) if kept.source == "arc"] == [
        ("arc", ignored.reason)
    ]
    assert (incomplete.outcome, incomplete.reason) == ("quarantined", "incomplete: title: is missing")


def test_each_article_of_a_bus_event_is_recorded_and_the_worst_outcome_reported(aws: MotoAws) -> None:
    aws.site(sources={"kontent": {"adapter": "kontent", "settings": {"url_template": "/u/{codename}"}}})
    other = {**KONTENT, "data": {"system": {**KONTENT["data"]["system"], "id": "k2", "codename": "ebb"}}}
    nameless = {**KONTENT, "data": {"system": {**KONTENT["data"]["system"], "id": "k3", "name": ""}}}

    new = {**KONTENT, "data": {"system": {**KONTENT["data"]["system"], "id": "k4", "codename": "neap"}}}

    [well] = outcome_of(bus("kontent", {"body": {"notifications": [new, other]}}))
    assert well.outcome == "listed"
    assert {item["url"] for item in aws.items(f"article#{HOST}#kontent")} >= {page("u/neap"), page("u/ebb")}

    [worst] = outcome_of(bus("kontent", {"body": {"notifications": [other, nameless]}}))
    assert worst.outcome == "quarantined"

    with failing("dynamodb", "TransactWriteItems"):
        [again] = outcome_of(
            bus("kontent", {"body": {"notifications": [{**new, "message": {"action": "unpublished"}}]}})
        )
    assert again.outcome == "failed"


def test_another_sites_broken_configuration_costs_only_that_sites_article(aws: MotoAws) -> None:
    broken = "broken.example.com"
    version = put_site({"host": broken})
    settings = {"site_urls": {"daily": page(""), "weekly": f"https://{broken}"}}
    aws.site(sources={"arc": {"adapter": "arc-ifx", "settings": settings}})
    websites = {name: {"website_url": "/moored/"} for name in ("daily", "weekly")}
    [outcome] = outcome_of(
        bus("arc", {"body": {"key": "story:update", "body": ANS | {"_id": "B", "websites": websites}}})
    )
    site_versions.remove(broken, version, "a test", NOW, deletes_files=False)

    assert outcome.outcome == "quarantined"
    assert f"its host is {broken}, not {HOST}" in outcome.reason
    assert page("moored/") in {item["url"] for item in aws.items(f"article#{HOST}#arc")}


@pytest.mark.parametrize(
    ("parts", "worst"),
    [
        (["listed", "failed"], "failed"),
        (["listed", "quarantined"], "quarantined"),
        (["failed", "quarantined"], "failed"),
        (["quarantined", "listed"], "quarantined"),
        (["duplicate", "listed"], "duplicate"),
    ],
)
def test_the_worst_outcome_of_a_messages_parts_is_reported(parts: list[str], worst: str) -> None:
    """Otherwise a message whose second article failed would be deleted."""
    outcomes = [("m0", MessageOutcome(part, error=OSError() if part == "failed" else None)) for part in parts]
    assert {name: outcome.outcome for name, outcome in recording.worst_outcomes(outcomes).items()} == {"m0": worst}


def test_an_event_in_the_form_of_an_incomplete_delivery_is_quarantined(aws: MotoAws) -> None:
    [outcome] = outcome_of(json.dumps({"site": HOST, "incomplete": ["url"]}))
    assert (outcome.outcome, outcome.reason) == ("quarantined", "incomplete: no reason was given")
