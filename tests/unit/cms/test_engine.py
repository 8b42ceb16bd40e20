"""The engine reads a delivery by a mapping: fields, filters, actions, items."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from stoppress.cms import contract, engine, expressions
from stoppress.cms.contract import BadArticle
from stoppress.cms.engine import ITEMS_MAX, read_delivery
from stoppress.cms.mapping import MappingFile, load
from stoppress.cms.verdicts import Verdict, field_origins
from stoppress.model.event import order_of
from stoppress.model.http_request import BadDelivery, Request
from stoppress.model.order import Order
from stoppress.model.site import Site
from tests.support.own_mapping import GAZETTE, mapping, story
from tests.support.recorded import OWN, Case, cases, now_of, verdicts

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)


@pytest.fixture
def gazette(tmp_path: Path) -> MappingFile:
    return mapping(tmp_path, GAZETTE)


def read(
    made: MappingFile, body: Any, settings: dict[str, Any] | None = None, site: Site | None = None
) -> list[Verdict]:
    return read_delivery(made, Request(body=json.dumps(body).encode()), settings or {}, site, NOW)


SETTINGS = {"base_url": "https://www.example.com", "timezone": "Europe/Paris"}


def result(made: MappingFile, settings: dict[str, Any] = SETTINGS, **fields: Any) -> dict[str, Any]:
    [verdict] = read(made, {"stories": [story(**fields)]}, settings)
    return verdict.shown(NOW)


# ── fields ──


def test_each_field_is_read_by_itself_and_a_bad_one_costs_only_itself(gazette: MappingFile) -> None:
    shown = result(
        gazette, changed="yesterday", words=[1, "harbour", {"name": "ferry"}], section=4, pictures=["ftp://x", "/p.jpg"]
    )
    assert (shown["disposition"], shown["keywords"]) == ("apply", ["harbour", "ferry"])
    assert shown["images"] == ["https://www.example.com/p.jpg"]
    assert not {"updated_at", "section"} & shown.keys()
    assert [reason.partition(":")[0] for reason in shown["dropped"]] == ["updated_at", "section", "images[0]"]


@pytest.mark.parametrize(
    ("field", "value"), [("link", 7), ("heading", ["a"]), ("live_since", "soon"), ("number", True)]
)
def test_a_bad_required_field_makes_the_delivery_incomplete(gazette: MappingFile, field: str, value: Any) -> None:
    shown = result(gazette, **{field: value})
    named = {"link": "url", "heading": "title", "live_since": "published_at", "number": "id"}[field]
    assert (shown["disposition"], shown["missing"]) == ("incomplete", [named])
    assert shown["reason"].startswith(f"{named}: ")
    assert "is missing" not in shown["reason"]


@pytest.mark.parametrize(
    "case", [case for case in cases(OWN) if case.document["mapping"] == "standard"], ids=lambda case: case.name
)
def test_the_standard_mapping_and_the_contract_agree(case: Case) -> None:
    """`adapters try standard` uses the mapping file and a delivery the contract, with equal results."""
    site = Site(host="www.example.com", publication="A")
    recorded = case.recorded
    [verdict] = verdicts("standard", recorded, site)
    if verdict.disposition == "incomplete":
        with pytest.raises(BadArticle, match=verdict.missing[0]):
            contract.read_delivery(json.loads(recorded.received.body), site, "cms", now_of(recorded))
    else:
        read_by_contract = contract.read_delivery(json.loads(recorded.received.body), site, "cms", now_of(recorded))[0]
        assert verdict.event(site, "cms", now_of(recorded)) == read_by_contract


def test_the_first_valid_expression_counts(gazette: MappingFile) -> None:
    assert (
        result(gazette, link="javascript:alert(1)", section="sea side")["url"] == "https://www.example.com/sea%20side/7"
    )
    assert (
        result(gazette, live_since="", written="2026-11-19T08:00:00Z")["published_at"] == "2026-11-19T08:00:00.000000Z"
    )
    assert result(gazette, SETTINGS | {"language": "fr"}, tongue="Klingon")["language"] == "fr"
    assert result(gazette, SETTINGS | {"language": "fr"}, tongue="German")["language"] == "de"


def test_a_value_that_has_a_fallback_is_still_reported(gazette: MappingFile) -> None:
    shown = result(gazette, live_since="next week", written="2026-11-19T08:00:00Z")
    assert (shown["disposition"], shown["published_at"]) == ("apply", "2026-11-19T08:00:00.000000Z")
    assert [fault.partition(":")[0] for fault in shown["dropped"]] == ["published_at"]
    assert "next week" in shown["dropped"][0]


def test_a_removal_needs_only_its_id_and_contains_nothing_else(gazette: MappingFile) -> None:
    shown = result(
        gazette, event="story.gone", heading="Kill notice", link="https://elsewhere.example.net/", live_since="never"
    )
    assert {name: value for name, value in shown.items() if value} == {
        "disposition": "apply", "action": "delete", "id": "7",
    }  # fmt: skip
    assert shown["url"] is None
    assert result(gazette, event="story.gone", number=None)["missing"] == ["id"]


@pytest.mark.parametrize(
    ("filters", "disposition"),
    [
        (["starts_with(story.kind, 'advert')"], "incomplete"),
        (["starts_with(story.kind, 'advert')", "story.desk == 'adverts'"], "ignore"),
        (["story.desk && starts_with(story.kind, 'advert')"], "incomplete"),
        (["story.sponsor && starts_with(story.kind, 'advert')"], "apply"),
        (["is_advert"], "incomplete"),
        (["adverts && !is_advert"], "incomplete"),
    ],
)
def test_a_filter_that_fails_publishes_nothing(tmp_path: Path, filters: list[str], disposition: str) -> None:
    """An item that a working filter would exclude is not published because the filter failed."""
    written = "".join(f'[[when]]\nignore = "an advertisement"\nif = "{condition}"\n' for condition in filters)
    made = mapping(
        tmp_path,
        GAZETTE.replace('[[when]]\nignore = "an advertisement"\nif = "story.kind == \'advert\'"\n', written).replace(
            'story = "item.story"',
            'story = "item.story"\nis_advert = "starts_with(story.kind, \'advert\')"\nadverts = "story.desk"',
        ),
    )
    shown = result(made, kind=7, desk="adverts")
    assert shown["disposition"] == disposition
    if disposition == "incomplete":
        assert shown["missing"] == ["when"]
        assert shown["reason"].startswith('when: the filter "an advertisement" cannot be judged: ')
        assert "starts_with" in shown["reason"]


@pytest.mark.parametrize(
    ("place", "written", "missing"),
    [
        ('from = "item.event"', 'from = "is_event && item.event"', ("action",)),
        ('items = "body.stories"', 'items = "is_event && body.stories"', ()),
    ],
)
def test_an_action_or_items_from_a_failed_variable_are_an_error(
    tmp_path: Path, place: str, written: str, missing: tuple[str, ...]
) -> None:
    with_variable = GAZETTE.replace("[vars]", "[vars]\nis_event = \"starts_with(body.version, '1')\"")
    [verdict] = read(mapping(tmp_path, with_variable.replace(place, written)), {"stories": [story()], "version": 1})
    assert (verdict.disposition, verdict.missing) == ("incomplete", missing)
    assert "starts_with" in verdict.reason


def superdesk(**fields: object) -> Verdict:
    """Return the verdict on a ninjs text that was published at eight."""
    body = {"guid": "g", "type": "text", "headline": "A", "slugline": "a", "firstpublished": "2026-11-20T08:00:00Z"}
    settings = {"base_url": "https://www.example.com", "url_template": "/{slug}"}
    [verdict] = read(load("superdesk"), body | fields, settings)
    return verdict


@pytest.mark.parametrize(
    "embargo", ["2026-11-22T08:00:00", "when the minister has spoken", True, "9999-12-31T00:00:00Z"]
)
def test_an_embargo_that_cannot_be_read_publishes_nothing(embargo: object) -> None:
    verdict = superdesk(embargoed=embargo)
    assert (verdict.disposition, verdict.missing) == ("incomplete", ("hold_until",))
    assert verdict.reason.startswith("hold_until: ")
    killed = superdesk(embargoed=embargo, pubstatus="canceled")
    assert (killed.disposition, killed.action) == ("apply", "unpublish")


def test_an_embargo_that_reads_a_failed_variable_publishes_nothing(tmp_path: Path) -> None:
    text = GAZETTE.replace("[vars]", "[vars]\nembargo = \"join('T', [item.story.day, item.story.hour])\"")
    text = text.replace("[fields]", '[fields]\nhold_until = "embargo"')
    late = story(day="2026-11-22", hour=None, link="https://www.example.com/7")
    [verdict] = read(mapping(tmp_path, text), {"stories": [late]})
    assert (verdict.disposition, verdict.missing) == ("incomplete", ("hold_until",))


@pytest.mark.parametrize("embargo", ["0001-01-01T00:00:00Z", "0000-00-00 00:00:00", "", None])
def test_a_placeholder_date_is_no_embargo(embargo: object) -> None:
    assert superdesk(embargoed=embargo).disposition == "apply"


def test_the_later_of_embargo_and_planned_publication_counts() -> None:
    early, late = "2026-11-20T08:30:00+0000", "2026-11-22T08:00:00+0000"
    for embargo, planned in ((early, late), (late, early)):
        verdict = superdesk(embargoed=embargo, publish_schedule=planned)
        assert (verdict.disposition, verdict.hold_until) == ("hold", datetime(2026, 11, 22, 8, tzinfo=UTC))
        held = [value for field, value, _ in field_origins(verdict) if field == "hold_until"]
        assert held == ["2026-11-22T08:00:00.000000Z"]


def test_false_counts_as_missing_except_in_flags(gazette: MappingFile) -> None:
    assert "images" not in result(gazette, pictures=False)
    assert result(gazette, pictures=False)["dropped"] == []
    assert result(gazette, is_news=False)["news"] is False
    assert "news" not in result(gazette, is_news=None)


def test_a_delivery_without_a_time_uses_its_version_as_timestamp(gazette: MappingFile) -> None:
    ninjs = {
        "guid": "1",
        "type": "text",
        "pubstatus": "usable",
        "headline": "T",
        "versioncreated": "2026-11-20T08:30:00+0000",
    }
    [verdict] = read(load("superdesk"), ninjs, {"url_template": "/{guid}"})
    assert verdict.timestamp == datetime(2026, 11, 20, 8, 30, tzinfo=UTC)
    [verdict] = read(gazette, {"stories": [story(changed="2026-11-20T08:30:00Z")]}, SETTINGS)
    assert verdict.timestamp is None


@pytest.mark.parametrize("at", ["2026-11-20T08:{}:00Z", 1795163400])
def test_an_unpublishing_of_arc_without_a_date_is_ordered_by_its_sending(at: str | int) -> None:
    """Later deliveries of the same state are newer, because republishing changes no date; earlier deliveries are not."""
    site = Site(host="www.example.com", publication="A")

    def order(key: str, minute: int, **fields: Any) -> Order:
        ans = {"_id": "A", "type": "story", "headlines": {"basic": "T"}, "canonical_url": "/a/"} | fields
        event = {
            "key": f"story:{key}",
            "time": at.format(minute) if isinstance(at, str) else at + 60 * minute,
            "body": ans,
        }
        [verdict] = read(load("arc-ifx"), event, {"base_url": "https://www.example.com"})
        return order_of(verdict.event(site, "cms", NOW))

    dates = {"first_publish_date": "2026-11-20T07:00:00Z", "last_updated_date": "2026-11-20T08:10:00Z"}
    published, removed, again = order("update", 10, **dates), order("unpublish", 20), order("republish", 25, **dates)
    assert published.is_before(removed)
    assert removed.is_before(again)
    assert not again.is_before(removed)
    assert not removed.is_before(published)
    assert removed.is_before(order("unpublish", 28))


@pytest.mark.parametrize(
    ("signature", "signed"), [("ghost", True), (None, True), ("ghost-legacy", False), ("bearer", False)]
)
def test_the_timestamp_of_ghosts_signature_counts_only_if_it_is_signed(signature: str | None, signed: bool) -> None:
    """A repeated publication with a later, unsigned time does not restore a deleted article."""
    post = {"id": "1", "url": "https://a.example/b", "title": "T", "status": "published",
            "published_at": "2026-11-20T08:00:00Z", "updated_at": "2026-11-20T08:00:00Z"}  # fmt: skip
    deleted = {"post": {"current": {}, "previous": post}}
    published = {"post": {"current": post, "previous": {"status": "draft"}}}
    site = Site(host="a.example", publication="A")

    def order(body: Any, at_ms: int) -> Order:
        received = Request({"x-ghost-signature": f"sha256={'0' * 64}, t={at_ms}"}, json.dumps(body).encode())
        settings = {"signature": signature} if signature else {}
        [verdict] = read_delivery(load("ghost"), received, settings, site, NOW)
        return order_of(verdict.event(site, "cms", NOW))

    assert order(deleted, 1795163400000).is_before(order(published, 1795163460000)) is signed


# ── items and actions ──


def test_deliveries_that_come_in_a_list_are_read_one_by_one() -> None:
    entry = {"id": 3, "title": "T", "slug": "t", "publishedAt": "2026-11-20T08:00:00Z"}
    bodies = [{"event": "entry.publish", "entry": entry}, {"event": "entry.delete", "entry": {"id": 4}}, 7]
    verdicts = read(load("strapi"), bodies, {"base_url": "https://www.example.com"})
    results = [(verdict.disposition, verdict.action, verdict.data.get("id")) for verdict in verdicts]
    assert results == [("apply", "publish", "3"), ("apply", "delete", "4"), ("ignore", None, None)]
    assert verdicts[0].item == bodies[0]
    assert [verdict.disposition for verdict in read(load("strapi"), [])] == ["ignore"]
    many = read(load("strapi"), bodies * ITEMS_MAX)
    assert len(many) == ITEMS_MAX + 1
    assert (many[-1].disposition, "the last 400 were not looked at" in many[-1].reason) == ("incomplete", True)


def test_deliveries_of_several_articles_may_come_in_a_list_too(gazette: MappingFile) -> None:
    removals = {"stories": [story("story.gone", number=1), story("story.gone", number=2)]}
    verdicts = read(gazette, [removals, {"stories": [story("story.gone", number=3)]}, {}], SETTINGS)
    assert [verdict.data.get("id") for verdict in verdicts] == ["1", "2", "3", None]
    assert verdicts[-1].disposition == "ignore"
    full = {"stories": [story("story.gone")] * ITEMS_MAX}
    many = read(gazette, [removals, full, removals], SETTINGS)
    assert [verdict.disposition for verdict in many] == ["apply"] * ITEMS_MAX + ["incomplete"] * 2
    assert ["the last 2 were" in many[-2].reason, "the last 1 were" in many[-1].reason] == [True, True]
    assert [verdict.disposition for verdict in read(gazette, [full, full], SETTINGS)[ITEMS_MAX:]] == ["incomplete"]


@pytest.mark.parametrize("name", ["strapi", "cloudevents"])
@pytest.mark.parametrize("body", ["entry.delete", '{"event": "entry.delete"}', 7, 1.5, True])
def test_a_body_that_is_a_json_text_or_number_is_refused(name: str, body: object) -> None:
    with pytest.raises(BadDelivery, match="JSON text or number"):
        read(load(name), body)


def test_a_form_is_read_without_its_content_type() -> None:
    [verdict] = read_delivery(load("wordpress-com"), Request(body=b"hook=publish_post&ID=42"), {}, None, NOW)
    assert verdict.data["id"] == "42"


def test_values_shared_by_all_items_are_evaluated_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A story of thousands of sites took ten seconds when each item evaluated the values of all."""
    variables = 'events = "body.stories[].event"\nall = "@"\nmine = "story.number"\nfirst = "events[0]"\n'
    text = GAZETTE.replace('story = "item.story"\n', f'story = "item.story"\n{variables}')
    text = text.replace('section = "story.section"', """section = "to_string([mine, all.item.story.number, first])" """)
    evaluated: list[str] = []

    def search(expression: str, *scope: Any) -> Any:
        evaluated.append(expression)
        return expressions.search(expression, *scope)

    monkeypatch.setattr(engine, "search", search)
    body = {"stories": [story(number=number) for number in (7, 8, 9)]}
    sections = [verdict.data["section"] for verdict in read(mapping(tmp_path, text), body, SETTINGS)]

    assert sections == [f'[{number},{number},"story.live"]' for number in (7, 8, 9)]
    # Once to find the items, and once for all of them.
    assert (evaluated.count("body.stories[].event"), evaluated.count("events[0]")) == (2, 2)


@pytest.mark.parametrize(
    ("kind", "action"),
    [
        ("com.example.article.update", "update"),
        ("com.example.v2.article.changed", "update"),
        ("com.example.article.republished", "publish"),
        ("com.example.PostCreated", "publish"),
        ("com.example.articles.withdrawn", "unpublish"),
        ("com.example.article.expired", "unpublish"),
        ("com.example.article.removed", "delete"),
        ("com.example.article.delete.v1", "delete"),
        ("com.example.article.scheduled", None),
        ("com.example.article.draft.saved", None),
        ("com.example.article.image.deleted", None),
        ("com.example.history.deleted", None),
    ],
)
def test_the_last_two_words_of_an_event_type_are_object_and_action(kind: str, action: str | None) -> None:
    article = {"id": "7", "url": "https://www.example.com/tide", "title": "Tide tables"}
    event = {"specversion": "1.0", "id": "1", "type": kind, "data": article}
    assert [verdict.action for verdict in read(load("cloudevents"), event)] == [action]
    assert [verdict.action for verdict in read(load("eventbridge"), {"detail-type": kind, "detail": article})] == [
        action
    ]


@pytest.mark.parametrize(
    ("kind", "end", "action"),
    [
        ("com.acme.story.gone", "story.gone", "delete"),
        ("com.acme.history.gone", "story.gone", None),
        ("AcmeStoryGone", "StoryGone", "delete"),
        ("acme.story.gone", ".gone", "delete"),
        ("story.gone", "story.gone", "delete"),
        ("story.gone", "", None),
    ],
)
def test_the_suffix_of_an_event_is_a_whole_word(tmp_path: Path, kind: str, end: str, action: str | None) -> None:
    listed = [line for line in GAZETTE.splitlines() if not line.startswith("map = ")]
    text = "\n".join(listed).replace(
        'from = "item.event"', f'from = "item.event"\nsuffix = true\nmap = {{ "{end}" = "delete" }}'
    )
    [verdict] = read(mapping(tmp_path, text), {"stories": [story(kind)]}, SETTINGS)
    assert verdict.action == action


def test_the_site_supplies_settings_that_its_source_omits() -> None:
    body = {"id": 1, "title": "T", "url": "/a", "date": {"raw": "2026-11-20 09:00:00"}}
    site = Site(host="www.example.com", publication="A", timezone="Europe/Paris")
    [verdict] = read(load("wedevs"), body, {}, site)
    assert verdict.data["url"] == "https://www.example.com/a"
    assert verdict.data["published_at"] == datetime(2026, 11, 20, 8, tzinfo=UTC)
    [without] = read(load("wedevs"), body)
    assert without.missing == ("url", "published_at")
