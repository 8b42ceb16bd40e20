"""The standard contract: the fields that are read, and the errors and warnings for a newsroom's developer."""

import json
import re
from datetime import timedelta
from typing import Any

import pytest

from stoppress.cms.contract import BadArticle, UnknownType, read_bus_event, read_delivery
from stoppress.model.entries import Alternate
from stoppress.model.event import ArticleEvent, from_message, to_message
from tests.support.article_events import HOST, MORNING, SITE, page

ARTICLE = {"id": "1042", "url": page("flood"), "title": "Flood closes the harbour"}


def read(kind: str = "article.published", now: Any = MORNING, **data: Any) -> ArticleEvent:
    document = {"type": kind, "timestamp": "2026-11-20T08:00:00Z", "data": ARTICLE | data}
    return read_delivery(document, SITE, "cms", now)[0]


def test_every_field_of_the_contract_is_read() -> None:
    event = read(
        published_at="2026-11-20T08:58:00+01:00",
        updated_at="2026-11-20T08:00:00Z",
        version="2026-11-20T08:00:00Z",
        language="en-GB",
        publication="Example News (subscription)",
        section="local",
        keywords=["flood", "harbour "],
        access="subscription",
        canonical_url=None,
        previous_urls=["/old-flood"],
        images=[{"url": "https://img.example.com/1.jpg"}],
        videos=[],
        alternates=[{"hreflang": "fr", "url": page("fr/inondation")}],
    )

    assert event == ArticleEvent(
        site=HOST,
        source="cms",
        id="1042",
        action="publish",
        timestamp=MORNING,
        received_at=MORNING,
        verb="published",
        version=MORNING,
        url=page("flood"),
        title="Flood closes the harbour",
        published_at=MORNING - timedelta(minutes=2),
        updated_at=MORNING,
        language="en",
        publication="Example News",
        section="local",
        keywords=("flood", "harbour"),
        access="subscription",
        previous_urls=(page("old-flood"),),
        images=("https://img.example.com/1.jpg",),
        alternates=(Alternate("fr", page("fr/inondation")),),
    )
    assert from_message(to_message(event)) == event


@pytest.mark.parametrize("kind", ["article.unpublished", "article.deleted"])
def test_a_removal_needs_only_the_id_and_ignores_other_fields(kind: str) -> None:
    document = {"type": kind, "data": {"id": 1042, "url": "javascript:alert(1)", "title": 7, "published_at": "soon"}}
    event, unknown = read_delivery(document, SITE, "cms", MORNING)

    assert (event.action, event.id, event.url, event.title, unknown) == ("remove", "1042", None, "", [])


def test_an_update_without_a_change_date_changed_at_its_timestamp() -> None:
    assert read("article.updated", now=MORNING + timedelta(hours=1)).updated_at == MORNING
    assert read("article.published", now=MORNING + timedelta(hours=1)).updated_at is None


def test_a_removal_may_name_its_page_by_the_url_alone() -> None:
    event, _ = read_delivery({"type": "article.unpublished", "data": {"url": page("a")}}, SITE, "cms", MORNING)
    assert (event.id, event.url) == ("", page("a"))
    assert from_message(to_message(event)) == event
    for data, reason in (
        ({}, "id: is missing"),
        ({"url": "https://www.example.org/a"}, "url: its host is"),
        ({"url": "a"}, "url: "),
    ):
        with pytest.raises(BadArticle, match=reason):
            read_delivery({"type": "article.unpublished", "data": data}, SITE, "cms", MORNING)


def test_unknown_fields_are_reported_to_the_sender() -> None:
    document = {"type": "article.published", "data": ARTICLE | {"publishedAt": "2026-11-20T08:00:00Z"}}

    assert read_delivery(document, SITE, "cms", MORNING)[1] == ["publishedAt"]


@pytest.mark.parametrize(
    ("fields", "flags", "type_", "dropped"),
    [
        ({"flags": "noindex"}, ("noindex",), None, ()),
        ({"flags": ["paid", " paid ", " ", "live"]}, ("paid", "live"), None, ()),
        ({"flags": {"paid": True, "live": False, "free": None}}, ("paid",), None, ()),
        ({"flags": "", "type": " "}, (), None, ()),
        ({"type": " Opinion "}, (), "Opinion", ()),
        ({"flags": [1]}, (), None, ("flags[0]: 1 is no text: give it in quotation marks",)),
        ({"flags": ["paid", ["x"], "live"]}, ("paid", "live"), None, ("flags[1]: a list is no text",)),
        ({"flags": 5}, (), None, ("flags: 5 is no text",)),
        ({"flags": {"paid": "yes", "live": True}}, ("live",), None,
         ("flags['paid']: 'yes' is neither true nor false",)),
        ({"flags": [f"f{number}" for number in range(102)]}, tuple(f"f{number}" for number in range(100)), None,
         ("flags: an article takes 100; the last 2 were left out",)),
        ({"type": 5}, (), None, ("type: 5 is no text",)),
        ({"type": ["Opinion"]}, (), "Opinion", ()),
        ({"type": [7, "Opinion", "Analysis"]}, (), "Opinion",
         ("type[0]: 7 is no text", "type: an article takes 1; the last 1 were left out")),
    ],
)  # fmt: skip
def test_a_malformed_flag_or_type_excludes_no_article(
    fields: dict[str, Any], flags: tuple[str, ...], type_: str | None, dropped: tuple[str, ...]
) -> None:
    event = read(**fields)

    assert (event.flags, event.type, len(event.dropped)) == (flags, type_, len(dropped)), event.dropped
    assert all(reason.startswith(words) for reason, words in zip(event.dropped, dropped, strict=True)), event.dropped
    assert from_message(to_message(event)) == event


@pytest.mark.parametrize(
    ("data", "words"),
    [
        ({"id": None}, "id: give it as text, in quotation marks"),
        ({"id": " "}, "id: is empty: give the article's id in the CMS"),
        ({"id": "x" * 513}, "id: is longer than 512 bytes"),
        ({"id": "half \ud800"}, "id: has half a character in it"),
        ({"url": None}, "url: give it as text, in quotation marks"),
        ({"url": "/flood"}, "url: '/flood' is not an absolute http or https URL"),
        ({"url": "https://www.example.com/a\r\nb"}, "url: 'https://www.example.com/a\\r\\nb' has a line break"),
        ({"title": ""}, "title: is empty: give the headline as readers see it"),
        ({"title": "\u200b "}, "title: is empty"),
        ({"title": ["Flood"]}, "title: give it as text, in quotation marks"),
        ({"published_at": "yesterday"}, "published_at: 'yesterday' is not an ISO 8601 instant"),
        ({"published_at": "2026-11-20T08:00:00"}, "has no zone: add Z, or an offset such as +01:00"),
        ({"published_at": 1763625600}, "published_at: give an ISO 8601 text"),
        ({"version": -1}, "version: give an instant"),
        ({"version": 2**63}, "version: give an instant"),
        ({"version": "rev-9"}, "version: 'rev-9' is not an ISO 8601 instant"),
        ({"language": "English"}, "language: 'English' is no language code: give one such as en, fr or zh-tw"),
        ({"access": "vip"}, "access: give one of these: 'public', 'registration', 'subscription' or 'protected'"),
        ({"keywords": 7}, "keywords: give a list, in square brackets"),
        ({"noindex": "perhaps"}, "noindex: give true or false, without quotation marks"),
        ({"canonical_url": "javascript:alert(1)"}, "canonical_url: 'javascript:alert(1)' is not an absolute"),
    ],
)
def test_a_wrong_field_is_reported_with_the_correction(data: dict[str, Any], words: str) -> None:
    with pytest.raises(BadArticle) as refusal:
        read(**data)

    assert words in str(refusal.value)


def test_all_faults_are_reported_together() -> None:
    with pytest.raises(BadArticle) as refusal:
        read_delivery({"type": "article.published", "data": {"language": "!"}}, SITE, "cms", MORNING)

    assert [line.partition(":")[0] for line in str(refusal.value).splitlines()] == ["id", "url", "title", "language"]


@pytest.mark.parametrize(
    ("document", "words"),
    [
        ([], "the body is not a JSON object"),
        ({"data": ARTICLE}, "type: is missing"),
        ({"type": "article.published"}, "data: send the object"),
        ({"type": "article.published", "timestamp": "now", "data": ARTICLE}, "timestamp: 'now' is not"),
        ({"type": "article.published", "timestamp": 7, "data": ARTICLE}, "timestamp: "),
    ],
)
def test_a_document_that_is_no_event_is_refused(document: object, words: str) -> None:
    with pytest.raises(BadArticle, match=words.replace("(", r"\(")):
        read_delivery(document, SITE, "cms", MORNING)


@pytest.mark.parametrize(
    "kind",
    ["contact.created", "article.archived", "article.comment.deleted", "article.depublished", "sitemap rewritten", ""],
)
def test_an_event_of_another_type_is_unknown(kind: str) -> None:
    with pytest.raises(UnknownType, match=rf"^{re.escape(repr(kind))} is not one of article\.published"):
        read_delivery({"type": kind, "data": {}}, SITE, "cms", MORNING)


@pytest.mark.parametrize(
    ("kind", "meant"),
    [
        ("article.publish", "article.published"),
        ("articlePublished", "article.published"),
        ("artcile.published", "article.published"),
        ("article.unpublish", "article.unpublished"),
        ("pages.updated", "page.updated"),
        ("com.example.article.published.v1", "article.published"),
    ],
)
def test_a_misspelt_type_is_refused_with_a_suggestion(kind: str, meant: str) -> None:
    document = {"type": kind, "data": ARTICLE}
    with pytest.raises(BadArticle, match=rf"^type: {re.escape(repr(kind))} is not known: did you mean {meant}\?$"):
        read_delivery(document, SITE, "cms", MORNING)


def test_an_unknown_source_is_reported_with_the_known_ones() -> None:
    with pytest.raises(BadArticle, match=r"source: 'blog' is not among the sources of www\.example\.com \(cms, wire\)"):
        read_bus_event({"detail-type": "article.published", "source": "blog", "detail": ARTICLE}, SITE, MORNING)


@pytest.mark.parametrize(
    "text", ["", "7", "[]", "{}", '{"site": "x"}', json.dumps({"timestamp": 7}), '{"surprise": 1}']
)
def test_a_message_that_is_no_article_event_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="the message is no article event"):
        from_message(text)
