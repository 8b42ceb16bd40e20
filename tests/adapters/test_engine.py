"""What the engine makes of a mapping: fields one by one, filters, actions, items; and a CMS that a file alone adds."""

import json
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any
from zoneinfo import ZoneInfo

import jmespath
import pytest

from stoppress import adapters, contract
from stoppress.adapters import BadDelivery, Received, reading, values
from stoppress.adapters.functions import OPTIONS
from stoppress.adapters.mapping import BadMapping, MappingFile, load, read_file
from stoppress.adapters.reading import ITEMS_MAX, Verdict, read_delivery, told
from stoppress.adapters.taking import OTHER_SITES_MAX, Taker
from stoppress.article import ArticleEvent, Incomplete, Order, order_of
from stoppress.contract import BadArticle
from stoppress.site import Site, read_site
from tests.adapters.recorded import OWN, Case, cases, now_of, verdicts
from tests.beside import SHARED

NOW = datetime(2026, 11, 20, 9, tzinfo=UTC)
ROOT = Path(__file__).parents[2]

# A CMS that nobody has heard of, as a newsroom would write its file.
GAZETTE = """
name = "gazette"
title = "The Gazette's own system"
reads = "story.live and story.gone"
verified = "its developer's word"
signature = "github"
items = "body.stories"

[settings]
base_url = "the site's own URL"
timezone = "of its dates"
language = "of its stories"

[vars]
story = "item.story"

[[when]]
ignore = "an advertisement"
if = "story.kind == 'advert'"

[action]
from = "item.event"
map = { "story.live" = "publish", "story.changed" = "update", "story.gone" = "delete" }

[fields]
id = "story.number"
url = ["story.link", "fill('/{section}/{number}', story)"]
title = "story.heading"
published_at = ["story.live_since", "story.written"]
updated_at = "story.changed"
language = ["story.tongue", "settings.language"]
section = "story.section"
keywords = "story.words"
news = "story.is_news"
images = "story.pictures"
"""


@pytest.fixture
def gazette(tmp_path: Path) -> MappingFile:
    return mapping(tmp_path, GAZETTE)


def mapping(folder: Path, text: str) -> MappingFile:
    (folder / "gazette.toml").write_text(text)
    return read_file(folder / "gazette.toml")


def read(
    made: MappingFile, body: Any, settings: dict[str, Any] | None = None, site: Site | None = None
) -> list[Verdict]:
    return read_delivery(made, Received(json.dumps(body).encode()), settings or {}, site, NOW)


def story(event: str = "story.live", **said: Any) -> dict[str, Any]:
    live = {"number": 7, "link": "/local/7", "heading": "Harbour &amp; ferry", "live_since": "2026-11-20T08:00:00Z"}
    return {"event": event, "story": live | said}


SETTINGS = {"base_url": "https://www.example.com", "timezone": "Europe/Paris"}


def one(made: MappingFile, settings: dict[str, Any] = SETTINGS, **said: Any) -> dict[str, Any]:
    [verdict] = read(made, {"stories": [story(**said)]}, settings)
    return verdict.shown(NOW)


# ── a CMS by a file alone ──


def test_a_cms_is_added_by_a_mapping_file_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is then good in a site's configuration, its settings are checked, and its deliveries become articles."""
    for path in adapters.MAPPINGS.glob("*.toml"):
        (tmp_path / path.name).write_bytes(path.read_bytes())
    (tmp_path / "gazette.toml").write_text(GAZETTE)
    monkeypatch.setattr(adapters, "MAPPINGS", tmp_path)
    said = {"adapter": "gazette", "secret": "cms", "settings": {"timezone": "Europe/Paris"}}
    site = read_site(json.dumps({"host": "www.example.com", "publication": "Gazette", "sources": {"cms": said}}), 1)

    body = {"stories": [story(), story("story.gone", number=8), story(kind="advert")]}
    verdicts = adapters.read("gazette", Received(json.dumps(body).encode()), site.sources["cms"].settings, site, NOW)
    taken = Taker(site, "cms", NOW, lambda host: site).take(verdicts)

    assert "gazette" in adapters.names()
    assert [one.answer["status"] for one in taken] == ["queued", "queued", "ignored"]
    event = taken[0].message
    assert isinstance(event, ArticleEvent)
    assert (event.id, event.url, event.title) == ("7", "https://www.example.com/local/7", "Harbour & ferry")


def test_only_our_own_contract_costs_nothing_of_the_engine() -> None:
    """What a cold start of a site with `standard` loads has no mapping, no TOML and no engine in it."""
    script = """
import json, sys
sys.path[:0] = ["shared", "."]
import functions.receive_webhook.app
from stoppress.site import read_site
read_site(json.dumps({"host": "www.example.com", "publication": "A", "sources": {"cms": {"adapter": "standard", "secret": "cms"}}}), 1)
print([name for name in sys.modules if name.startswith("stoppress.adapters") or name == "tomllib"])
"""
    environment = {"POWERTOOLS_METRICS_NAMESPACE": "x", "POWERTOOLS_SERVICE_NAME": "x", "PATH": "/usr/bin"}
    ran = subprocess.run(  # noqa: S603
        [sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True, env=environment
    )
    assert ran.stdout.strip() == "[]"


def test_a_misspelt_adapter_and_a_setting_it_does_not_have_are_named() -> None:
    with pytest.raises(ValueError, match=r"'gohst' is no adapter: give one of arc-content-op, .*, ghost, "):
        adapters.check_name("gohst")
    with pytest.raises(ValueError, match=r"settings\.site_urls: is not known here"):
        adapters.check_settings("ghost", {"site_urls": {"a": "https://www.example.com"}})
    for name, value in {
        "base_url": "/news", "timezone": "Mars/Phobos", "language": "klingon", "types": "post", "url_template": "/{slug", "map": [],
        "site_urls": {"a": "b"},
    }.items():  # fmt: skip
        adapter = "arc-ifx" if name == "site_urls" else "wordpress" if name in ("types", "timezone") else "sanity"
        with pytest.raises(ValueError, match=rf"^settings\.{name}: "):
            adapters.check_settings(adapter, {name: value})
    adapters.check_settings(
        "contentful", {"base_url": "https://www.example.com", "map": {"title": "headline"}, "locales": ["de"]}
    )


# ── fields ──


def test_each_field_is_read_by_itself_and_a_bad_one_costs_only_itself(gazette: MappingFile) -> None:
    shown = one(
        gazette, changed="yesterday", words=[1, "harbour", {"name": "ferry"}], section=4, pictures=["ftp://x", "/p.jpg"]
    )
    assert (shown["disposition"], shown["keywords"]) == ("apply", ["harbour", "ferry"])
    assert shown["images"] == ["https://www.example.com/p.jpg"]
    assert not {"updated_at", "section"} & shown.keys()
    assert [reason.partition(":")[0] for reason in shown["dropped"]] == ["updated_at", "section", "images[0]"]


@pytest.mark.parametrize(
    ("field", "value"), [("link", 7), ("heading", ["a"]), ("live_since", "soon"), ("number", True)]
)
def test_a_bad_field_that_is_needed_makes_the_delivery_incomplete(gazette: MappingFile, field: str, value: Any) -> None:
    shown = one(gazette, **{field: value})
    named = {"link": "url", "heading": "title", "live_since": "published_at", "number": "id"}[field]
    assert (shown["disposition"], shown["missing"]) == ("incomplete", [named])
    assert shown["reason"].startswith(f"{named}: ")
    assert "is missing" not in shown["reason"]


def test_what_speaks_our_own_contract_may_have_no_bad_field() -> None:
    data = {
        "id": "1",
        "url": "https://www.example.com/a",
        "title": "T",
        "published_at": "yesterday",
        "language": "klingon",
    }
    [verdict] = read(load("standard"), {"type": "article.published", "data": data})
    assert (verdict.disposition, verdict.missing) == ("incomplete", ("published_at", "language"))


@pytest.mark.parametrize(
    "case", [case for case in cases(OWN) if case.document["mapping"] == "standard"], ids=lambda case: case.name
)
def test_our_own_contract_is_tried_as_it_is_read(case: Case) -> None:
    """`adapters try standard` goes by a mapping file, a delivery by the contract: both say the same."""
    site = Site(host="www.example.com", publication="A")
    recorded = case.recorded
    [verdict] = verdicts("standard", recorded, site)
    if verdict.disposition == "incomplete":
        with pytest.raises(BadArticle, match=verdict.missing[0]):
            contract.read_delivery(json.loads(recorded.received.body), site, "cms", now_of(recorded))
    else:
        read_by_contract = contract.read_delivery(json.loads(recorded.received.body), site, "cms", now_of(recorded))[0]
        assert verdict.event(site, "cms", now_of(recorded)) == read_by_contract


def test_of_several_expressions_the_first_good_one_counts(gazette: MappingFile) -> None:
    assert one(gazette, link="javascript:alert(1)", section="sea side")["url"] == "https://www.example.com/sea%20side/7"
    assert one(gazette, live_since="", written="2026-11-19T08:00:00Z")["published_at"] == "2026-11-19T08:00:00.000000Z"
    assert one(gazette, SETTINGS | {"language": "fr"}, tongue="Klingon")["language"] == "fr"
    assert one(gazette, SETTINGS | {"language": "fr"}, tongue="Deutsch")["language"] == "de"


def test_a_value_that_another_one_stands_in_for_is_named_all_the_same(gazette: MappingFile) -> None:
    shown = one(gazette, live_since="next week", written="2026-11-19T08:00:00Z")
    assert (shown["disposition"], shown["published_at"]) == ("apply", "2026-11-19T08:00:00.000000Z")
    assert [fault.partition(":")[0] for fault in shown["dropped"]] == ["published_at"]
    assert "next week" in shown["dropped"][0]


def test_a_removal_needs_its_id_alone_and_says_nothing_else(gazette: MappingFile) -> None:
    shown = one(
        gazette, event="story.gone", heading="Kill notice", link="https://elsewhere.example.net/", live_since="never"
    )
    assert {name: value for name, value in shown.items() if value} == {
        "disposition": "apply", "action": "delete", "id": "7", "timestamp": "2026-11-20T09:00:00.000000Z",
    }  # fmt: skip
    assert shown["url"] is None
    assert one(gazette, event="story.gone", number=None)["missing"] == ["id"]


def test_what_is_to_be_published_later_is_held(gazette: MappingFile) -> None:
    shown = one(gazette, live_since="2026-11-21T08:00:00Z")
    assert (shown["disposition"], shown["hold_until"]) == ("hold", "2026-11-21T08:00:00.000000Z")
    assert one(gazette, live_since="2026-11-20T09:04:00Z")["disposition"] == "apply"


def test_an_embargoed_article_is_published_when_its_embargo_ends() -> None:
    body = {
        "guid": "g", "type": "text", "headline": "A", "slugline": "a", "firstpublished": "2026-11-20T08:00:00+0000",
        "embargoed": "2026-11-22T08:00:00+0000",
    }  # fmt: skip
    site = Site(host="www.example.com", publication="A")
    [verdict] = read(load("superdesk"), body, {"url_template": "/{slug}"}, site)
    assert verdict.event(site, "cms", NOW).published_at == datetime(2026, 11, 22, 8, tzinfo=UTC)


@pytest.mark.parametrize(
    "embargo", ["2026-11-22T08:00:00", "when the minister has spoken", True, "9999-12-31T00:00:00Z"]
)
def test_an_embargo_that_cannot_be_read_publishes_nothing(embargo: object) -> None:
    body = {"guid": "g", "type": "text", "headline": "A", "slugline": "a", "firstpublished": "2026-11-20T08:00:00Z"}
    settings = {"base_url": "https://www.example.com", "url_template": "/{slug}"}
    [verdict] = read(load("superdesk"), body | {"embargoed": embargo}, settings)
    assert (verdict.disposition, verdict.missing) == ("incomplete", ("hold_until",))
    assert verdict.reason.startswith("hold_until: ")
    [killed] = read(load("superdesk"), body | {"embargoed": embargo, "pubstatus": "canceled"}, settings)
    assert (killed.disposition, killed.action) == ("apply", "unpublish")


@pytest.mark.parametrize("embargo", ["0001-01-01T00:00:00Z", "0000-00-00 00:00:00", "", None])
def test_a_date_that_programs_write_for_none_is_no_embargo(embargo: object) -> None:
    body = {"guid": "g", "type": "text", "headline": "A", "slugline": "a", "firstpublished": "2026-11-20T08:00:00Z"}
    settings = {"base_url": "https://www.example.com", "url_template": "/{slug}"}
    [verdict] = read(load("superdesk"), body | {"embargoed": embargo}, settings)
    assert verdict.disposition == "apply"


def test_of_an_embargo_and_a_publication_that_is_planned_the_later_counts() -> None:
    body = {
        "guid": "g", "type": "text", "headline": "A", "slugline": "a", "firstpublished": "2026-11-20T08:00:00Z",
        "embargoed": "2026-11-20T08:30:00+0000", "publish_schedule": "2026-11-22T08:00:00+0000",
    }  # fmt: skip
    settings = {"base_url": "https://www.example.com", "url_template": "/{slug}"}
    for swapped in (body, body | {"embargoed": body["publish_schedule"], "publish_schedule": body["embargoed"]}):
        [verdict] = read(load("superdesk"), swapped, settings)
        assert (verdict.disposition, verdict.hold_until) == ("hold", datetime(2026, 11, 22, 8, tzinfo=UTC))
        assert [value for field, value, _ in told(verdict) if field == "hold_until"] == ["2026-11-22T08:00:00.000000Z"]


def test_false_is_no_value_but_for_what_is_true_or_false(gazette: MappingFile) -> None:
    assert "images" not in one(gazette, pictures=False)
    assert one(gazette, pictures=False)["dropped"] == []
    assert one(gazette, is_news=False)["news"] is False
    assert "news" not in one(gazette, is_news=None)


def test_a_version_of_the_future_does_not_make_later_changes_look_old() -> None:
    body = {"post": {"current": {"id": "1", "url": "https://a.example/b", "title": "T", "status": "published",
            "published_at": "2026-11-20T08:00:00Z", "updated_at": "2036-11-20T08:00:00Z"}, "previous": {"status": "draft"}}}  # fmt: skip
    [shown] = [verdict.shown(NOW) for verdict in read(load("ghost"), body)]
    assert shown["disposition"] == "apply"
    assert "version" not in shown
    assert shown["dropped"] == [
        "version: 2036-11-20T08:00:00.000000Z lies in the future: every later change would look old"
    ]


def test_the_time_of_a_delivery_that_has_none_is_its_version_so_that_late_is_not_newer(gazette: MappingFile) -> None:
    [verdict] = read(gazette, {"stories": [story(changed="2026-11-20T08:30:00Z")]}, SETTINGS)
    assert verdict.timestamp == datetime(2026, 11, 20, 8, 30, tzinfo=UTC)


@pytest.mark.parametrize("at", ["2026-11-20T08:{}:00Z", 1795163400])
def test_an_unpublishing_of_arc_without_a_date_is_ordered_by_when_it_was_told(at: str | int) -> None:
    """What comes after it in the same state (republishing changes no date) is newer, and what was told before it is not."""
    site = Site(host="www.example.com", publication="A")

    def order(key: str, minute: int, **said: Any) -> Order:
        ans = {"_id": "A", "type": "story", "headlines": {"basic": "T"}, "canonical_url": "/a/"} | said
        told = {
            "key": f"story:{key}",
            "time": at.format(minute) if isinstance(at, str) else at + 60 * minute,
            "body": ans,
        }
        [verdict] = read(load("arc-ifx"), told, {"base_url": "https://www.example.com"})
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
def test_the_time_beside_ghosts_signature_counts_where_it_is_signed(signature: str | None, signed: bool) -> None:
    """Whoever repeats a publication with a later time that nobody signed does not revive what was deleted."""
    post = {"id": "1", "url": "https://a.example/b", "title": "T", "status": "published",
            "published_at": "2026-11-20T08:00:00Z", "updated_at": "2026-11-20T08:00:00Z"}  # fmt: skip
    deleted = {"post": {"current": {}, "previous": post}}
    published = {"post": {"current": post, "previous": {"status": "draft"}}}
    site = Site(host="a.example", publication="A")

    def order(body: Any, at_ms: int) -> Order:
        received = Received(json.dumps(body).encode(), {"x-ghost-signature": f"sha256={'0' * 64}, t={at_ms}"})
        settings = {"signature": signature} if signature else {}
        [verdict] = read_delivery(load("ghost"), received, settings, site, NOW)
        return order_of(verdict.event(site, "cms", NOW))

    assert order(deleted, 1795163400000).is_before(order(published, 1795163460000)) is signed


# ── items and actions ──


def test_a_delivery_of_too_many_items_is_looked_at_as_far_as_there_is_time(gazette: MappingFile) -> None:
    verdicts = read(gazette, {"stories": [story("story.gone")] * (ITEMS_MAX + 3)}, SETTINGS)
    assert len(verdicts) == ITEMS_MAX + 1
    assert verdicts[-1].disposition == "incomplete"
    assert "the last 3 were not looked at" in verdicts[-1].reason


def test_deliveries_that_come_in_a_list_are_read_one_by_one() -> None:
    entry = {"id": 3, "title": "T", "slug": "t", "publishedAt": "2026-11-20T08:00:00Z"}
    bodies = [{"event": "entry.publish", "entry": entry}, {"event": "entry.delete", "entry": {"id": 4}}, 7]
    verdicts = read(load("strapi"), bodies, {"base_url": "https://www.example.com"})
    said = [(verdict.disposition, verdict.action, verdict.data.get("id")) for verdict in verdicts]
    assert said == [("apply", "publish", 3), ("apply", "delete", 4), ("ignore", None, None)]
    assert verdicts[0].item == bodies[0]
    assert [verdict.disposition for verdict in read(load("strapi"), [])] == ["ignore"]
    many = read(load("strapi"), bodies * ITEMS_MAX)
    assert len(many) == ITEMS_MAX + 1
    assert (many[-1].disposition, "the last 400 were not looked at" in many[-1].reason) == ("incomplete", True)


def test_deliveries_of_several_articles_may_come_in_a_list_too(gazette: MappingFile) -> None:
    gone = {"stories": [story("story.gone", number=1), story("story.gone", number=2)]}
    verdicts = read(gazette, [gone, {"stories": [story("story.gone", number=3)]}, {}], SETTINGS)
    assert [verdict.data.get("id") for verdict in verdicts] == [1, 2, 3, None]
    assert verdicts[-1].disposition == "ignore"
    full = {"stories": [story("story.gone")] * ITEMS_MAX}
    assert [verdict.disposition for verdict in read(gazette, [full, full], SETTINGS)[ITEMS_MAX:]] == ["incomplete"]


def test_a_delivery_that_is_json_in_a_text_is_read_and_another_text_refused() -> None:
    body = {"event": "entry.delete", "entry": {"id": 4}}
    [verdict] = read(load("strapi"), json.dumps(body))
    assert (verdict.disposition, verdict.action) == ("apply", "delete")
    for other in ("entry.delete", 7, 1.5, True):
        with pytest.raises(BadDelivery, match="JSON"):
            read(load("strapi"), other)
    assert [verdict.disposition for verdict in read(load("strapi"), None)] == ["ignore"]


def test_what_is_the_same_for_all_items_is_looked_for_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A story of thousands of sites took ten seconds, where each of its items went through all of them."""
    given = 'events = "body.stories[].event"\nall = "@"\nmine = "story.number"\nfirst = "events[0]"\n'
    text = GAZETTE.replace('story = "item.story"\n', f'story = "item.story"\n{given}')
    text = text.replace('section = "story.section"', """section = "to_string([mine, all.item.story.number, first])" """)
    asked: list[str] = []

    def search(expression: str, root: Any) -> Any:
        asked.append(expression)
        return found(expression, root)

    found = reading._search
    monkeypatch.setattr(reading, "_search", search)
    body = {"stories": [story(number=number) for number in (7, 8, 9)]}
    sections = [verdict.data["section"] for verdict in read(mapping(tmp_path, text), body, SETTINGS)]

    assert sections == [f'[{number},{number},"story.live"]' for number in (7, 8, 9)]
    # Once to find the items, and once for all of them.
    assert (asked.count("body.stories[].event"), asked.count("events[0]")) == (2, 2)


def test_nothing_in_it_and_an_event_that_is_not_known_are_ignored_with_their_reason(gazette: MappingFile) -> None:
    [empty] = read(gazette, {"stories": []}, SETTINGS)
    assert (empty.disposition, empty.reason) == ("ignore", "there is no item in it")
    [other] = read(gazette, {"stories": [story("story.liked")]}, SETTINGS)
    assert (other.disposition, other.reason) == ("ignore", "story.liked is no event that changes an article's page")


def test_the_end_of_an_event_counts_where_the_mapping_says_so() -> None:
    event = {"specversion": "1.0", "id": "1", "subject": "7", "type": "org.example.news.StoryDeletedTwice"}
    assert [verdict.disposition for verdict in read(load("cloudevents"), event)] == ["ignore"]
    [verdict] = read(load("cloudevents"), event | {"type": "org.example.news.StoryDeleted.v1"})
    assert (verdict.disposition, verdict.action, verdict.data["id"]) == ("apply", "delete", "7")


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
def test_of_an_event_its_last_two_words_say_what_happened_to_what(kind: str, action: str | None) -> None:
    article = {"id": "7", "url": "https://www.example.com/tide", "title": "Tide tables"}
    event = {"specversion": "1.0", "id": "1", "type": kind, "data": article}
    assert [verdict.action for verdict in read(load("cloudevents"), event)] == [action]
    assert [verdict.action for verdict in read(load("eventbridge"), {"detail-type": kind, "detail": article})] == [
        action
    ]


@pytest.mark.parametrize(
    ("said", "end", "action"),
    [
        ("com.acme.story.gone", "story.gone", "delete"),
        ("com.acme.history.gone", "story.gone", None),
        ("AcmeStoryGone", "StoryGone", "delete"),
        ("acme.story.gone", ".gone", "delete"),
        ("story.gone", "story.gone", "delete"),
        ("story.gone", "", None),
    ],
)
def test_the_end_of_an_event_is_a_word_of_its_own(tmp_path: Path, said: str, end: str, action: str | None) -> None:
    listed = [line for line in GAZETTE.splitlines() if not line.startswith("map = ")]
    text = "\n".join(listed).replace(
        'from = "item.event"', f'from = "item.event"\nsuffix = true\nmap = {{ "{end}" = "delete" }}'
    )
    [verdict] = read(mapping(tmp_path, text), {"stories": [story(said)]}, SETTINGS)
    assert verdict.action == action


def test_a_site_gives_what_its_source_leaves_out() -> None:
    body = {"id": 1, "title": "T", "url": "/a", "date": {"raw": "2026-11-20 09:00:00"}}
    site = Site(host="www.example.com", publication="A", timezone="Europe/Paris")
    [verdict] = read(load("wedevs"), body, {}, site)
    assert verdict.data["url"] == "https://www.example.com/a"
    assert verdict.data["published_at"] == "2026-11-20T08:00:00.000000Z"
    [without] = read(load("wedevs"), body)
    assert without.missing == ("url", "published_at")


# ── hosts ──


def two_sites(**other: Any) -> tuple[Site, Site]:
    settings = {"site_urls": {"daily": "https://www.example.com", "weekly": "https://weekly.example.com"}}
    source = {"adapter": "arc-ifx", "secret": "arc", "settings": settings}
    first = {"host": "www.example.com", "publication": "Daily", "sources": {"cms": source}}
    second = {"host": "weekly.example.com", "publication": "Weekly", "sources": {"cms": source | other}}
    return Site.model_validate(first), Site.model_validate(second)


def arc(key: str, **said: Any) -> dict[str, Any]:
    ans = {
        "_id": "A", "type": "story", "headlines": {"basic": "T"}, "first_publish_date": "2026-11-20T08:00:00Z",
        "websites": {name: {"website_url": "/a/"} for name in ("daily", "weekly")},
    }  # fmt: skip
    return {"key": key, "time": 1795163400, "body": ans | said}


def taken(body: Any, site: Site, other: Site | None) -> list[Any]:
    def load_site(host: str) -> Site:
        if other is None or host != other.host:
            raise LookupError(host)
        return other

    settings = site.sources["cms"].settings
    verdicts = adapters.read("arc-ifx", Received(json.dumps(body).encode()), settings, site, NOW)
    return [one.message for one in Taker(site, "cms", NOW, load_site).take(verdicts)]


def test_an_article_of_another_host_goes_to_the_site_that_names_the_same_source() -> None:
    messages = taken(arc("story:first-publish"), *two_sites())
    assert [(message.site, message.id, message.url) for message in messages] == [
        ("www.example.com", "A@daily", "https://www.example.com/a/"),
        ("weekly.example.com", "A@weekly", "https://weekly.example.com/a/"),
    ]
    messages = taken(arc("story:delete", websites=None), *two_sites())
    assert [(message.site, message.id, message.action) for message in messages] == [
        ("www.example.com", "A@daily", "remove"), ("weekly.example.com", "A@weekly", "remove"),
    ]  # fmt: skip


@pytest.mark.parametrize("other", [{"secret": "theirs"}, {"adapter": "arc-content-op"}, None])
def test_nothing_goes_to_a_site_that_does_not_name_the_same_source(other: dict[str, str] | None) -> None:
    first, second = two_sites(**(other or {}))
    [own, foreign] = taken(arc("story:first-publish"), first, second if other else None)
    assert isinstance(own, ArticleEvent)
    assert isinstance(foreign, Incomplete)
    assert (foreign.site, foreign.missing) == ("www.example.com", ("url",))
    assert foreign.reason.startswith("url: its host is weekly.example.com, not www.example.com")


def test_a_delivery_of_many_hosts_does_not_look_all_of_them_up() -> None:
    site = Site.model_validate(
        {"host": "www.example.com", "publication": "A", "sources": {"cms": {"adapter": "jsonld"}}}
    )
    page = {"@type": "NewsArticle", "headline": "T", "datePublished": "2026-11-20T08:00:00Z"}
    body = [page | {"url": f"https://host-{number}.example.net/a"} for number in range(20)]
    asked: list[str] = []

    def load_site(host: str) -> Site:
        asked.append(host)
        raise LookupError(host)

    verdicts = adapters.read("jsonld", Received(json.dumps(body * 2).encode()), {}, site, NOW)
    messages = [one.message for one in Taker(site, "cms", NOW, load_site).take(verdicts)]
    assert len(asked) == OTHER_SITES_MAX
    assert len(messages) == 40
    assert all(isinstance(message, Incomplete) for message in messages)


# ── files ──


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (('title = "The', 'titel = "The'), "gazette.toml: title: is missing: it has to be given\ntitel: is not known here"),
        (('"story.number"', '"story..number"'), "fields.id.0: 'story..number' is no JMESPath"),
        (('"story.heading"', '"!story.heading"'), "'!story.heading' means (!a).b: write !(a.b)"),
        (("id = ", "ident = "), "fields: ident: there are id, url"),
        (("base_url = ", "base = "), "settings: base: there are base_url"),
        (('"delete"', '"destroy"'), "give one of these: 'publish', 'update', 'unpublish' or 'delete'"),
        (('name = "gazette"', 'name = "gazettes"'), "gazette.toml: name: is gazettes; a file is called by its mapping's name"),
        (("[vars]", "[vars"), "gazette.toml: is no TOML"),
    ],
)  # fmt: skip
def test_a_wrong_mapping_file_is_refused_with_what_to_change(
    tmp_path: Path, wrong: tuple[str, str], words: str
) -> None:
    assert wrong[0] in GAZETTE
    with pytest.raises(BadMapping) as caught:
        mapping(tmp_path, GAZETTE.replace(*wrong, 1))
    assert words in str(caught.value)


@pytest.mark.parametrize("name", adapters.names())
def test_every_mapping_file_can_be_used_and_says_what_it_is_held_by(name: str) -> None:
    made = load(name)
    assert made.title
    assert made.reads
    assert made.verified
    adapters.check_settings(name, {**made.defaults})
    names = {expression for expressions in made.fields.values() for expression in expressions}
    said = " ".join(
        [*names, *made.variables.values(), made.items or "", *(when.condition for when in made.when), made.base]
    )
    asked = {setting for setting in made.settings if f"settings.{setting}" in said}
    untold = {"types", "content_types", "models"} if "types" in said else set()
    # A zone is asked for by the dates, a base by the URLs.
    assert made.settings.keys() - asked - untold <= {"timezone", "base_url"}


@pytest.mark.skipif(
    not (SHARED / "deliveries").is_dir(), reason="the recorded deliveries are not beside the repository"
)
def test_the_adapters_are_those_that_deliveries_were_recorded_of() -> None:
    recorded = {json.loads(path.read_text())["mapping"] for path in (SHARED / "deliveries").glob("*/*.json")}
    assert recorded <= set(adapters.names())


# ── values and functions ──


@pytest.mark.parametrize(
    ("value", "instant"),
    [
        ("2026-11-20T08:00:00+0000", "2026-11-20T08:00:00+00:00"),
        ("2026-11-20T08:00+01:00", "2026-11-20T07:00:00+00:00"),
        ("2026-11-20 09:00:00", "2026-11-20T08:00:00+00:00"),
        ("2026-11-20", "2026-11-19T23:00:00+00:00"),
        ("2026-07-20 09:00:00", "2026-07-20T07:00:00+00:00"),
        ("2026-11-20T08:00:00.1234567Z", "2026-11-20T08:00:00.123456+00:00"),
        (1795161600, "2026-11-20T08:00:00+00:00"),
        (1795161600000, "2026-11-20T08:00:00+00:00"),
        ("1795161600000", "2026-11-20T08:00:00+00:00"),
        (1795161600.5, "2026-11-20T08:00:00.500000+00:00"),
        ("1795161600.5", "2026-11-20T08:00:00.500000+00:00"),
        ("2026-11-20 08:00:00 UTC", "2026-11-20T08:00:00+00:00"),
        ("Fri, 20 Nov 2026 09:00:00 +0100", "2026-11-20T08:00:00+00:00"),
        ("Fri Nov 20 2026 03:00:00 GMT-0500 (Eastern Standard Time)", "2026-11-20T08:00:00+00:00"),
        ("2026-11-20T09:00+01:00[Europe/Paris]", "2026-11-20T08:00:00+00:00"),
        ("20261120", "2026-11-19T23:00:00+00:00"),
        ("2026-11-5 9:05:00", "2026-11-05T08:05:00+00:00"),
        ("2026-7-5T9:05:00", "2026-07-05T07:05:00+00:00"),
        ("20.11.2026 09:00", "2026-11-20T08:00:00+00:00"),
    ],
)
def test_dates_of_every_kind_are_read(value: Any, instant: str) -> None:
    assert values.date_of(value, values.Where(None, ZoneInfo("Europe/Paris"))).isoformat() == instant


@pytest.mark.parametrize(
    "value",
    [
        "2026-11-20 09:00:00", "2026-11-20T09:00", "soon", "", True, 0, -5, float("nan"), 1e300, 10**400, "9" * 15_000,
        "Fri, 20 Nov 2026 09:00:00", "2026-11-20 09:00:00 IST", "2026-11-5 9:05:00", "5/11/2026 09:00", "20 Nov 2026", "08:00 GMT", "Thu, 01 Jan 1970 00:00:00 GMT",
    ],
)  # fmt: skip
def test_what_is_no_date_or_has_no_zone_is_refused(value: Any) -> None:
    with pytest.raises((ValueError, OverflowError)):
        values.date_of(value, values.Where())


@pytest.mark.parametrize(
    ("expression", "given", "result"),
    [
        ("slug(@)", "Climate-smart food", "climate-smart-food"),
        ("slug(@)", "  Größe & Maß – “Œuvre”  ", "grosse-mass-oeuvre"),
        ("slug(@)", "Ученые назвали", "ученые-назвали"),
        ("slug(@)", "!!!", None),
        ("slug(@)", 7, None),
        ("fill('/{a}/{b}', @)", {"a": "x y", "b": 7}, "/x%20y/7"),
        ("fill('/{a}', @)", {"a": "/news/tide/"}, "/news/tide"),
        ("fill('/{a}', @)", {"a": "é?#%41"}, "/%C3%A9%3F%23%41"),
        ("fill('/{a}/{b}', @)", {"a": "x"}, None),
        ("fill('/{a}', @)", {"a": True}, None),
        ("fill('/{a}', @)", {"a": " "}, None),
        ("fill(@, @)", None, None),
        ("fill('/{a}', @)", {"a": {"name": "Coast", "slug": "coast"}}, "/coast"),
        ("fill('/{a}', @)", {"a": {"slug": {"current": "coast"}}}, "/coast"),
        ("fill('/{a}', @)", {"a": {"name": "Coast"}}, None),
        ("fill('/{a}', @)", {"a": [{"slug": "coast"}]}, None),
        ("sibling(url, slug, was)", {"url": "https://a.example/x/b/?c=d", "slug": "b", "was": "e"}, "https://a.example/x/e/?c=d"),
        ("sibling(url, slug, was)", {"url": "https://a.example/x/b", "slug": "x", "was": "e"}, None),
        ("sibling(url, slug, was)", {"url": "https://[", "slug": "x", "was": "e"}, None),
        ("words(@)", "com.example.ArticlePublished", "com example article published"),
        ("words(@)", "XMLArticle-deleted", "xml article deleted"),
        ("words(@)", None, None),
        ("utc(@)", "2026-11-20 08:00:00", "2026-11-20 08:00:00Z"),
        ("utc(@)", "2026-11-20 08:00:00+01:00", "2026-11-20 08:00:00+01:00"),
        ("utc(@)", None, None),
        ("split(@, '=')[1]", "t=5", "5"),
        ("split(@, '=')", None, []),
        ("localized(@, ['de', 'en'])", {"a": {"en": 1, "de": None}, "b": "c", "d": {"fr": 2}}, {"a": 1, "b": "c", "d": None}),
        ("localized(@, null)", {"a": {"fr": 2}}, {"a": 2}),
        ("localized(@, null)", [], {}),
        ("entries(@)[].value.name", {"x": {"name": "X"}}, ["X"]),
        ("entries(@)[].value.name", [], []),
        ("lookup(@, 'a')", {"a": 1}, 1),
        ("lookup(@, 'a')", ["a"], None),
        ("lower(@)", "PUBLISHED", "published"),
        ("is_in('a', @)", None, True),
        ("is_in('a', @)", ["b"], False),
        ("of_type(@, ['a'])", [{"@type": "a"}, {"@type": ["c", "a"]}, {"@type": "b"}, 7], [{"@type": "a"}, {"@type": ["c", "a"]}]),
        ("of_type(@, ['a'])[]|length(@)", [{"@type": t} for t in ("schema:a", "http://schema.org/a", "https://schema.org/a")], 3),
        ("of_type(@, ['aB'])", [{"@type": "ab"}, {"@type": "schema:AB"}], [{"@type": "ab"}, {"@type": "schema:AB"}]),
        ("of_type(@, ['a'])", [{"@type": t} for t in ("https://example.org/a", "schema:b", None, 7, {"a": 1})], []),
    ],
)  # fmt: skip
def test_the_functions_of_mappings(expression: str, given: Any, result: Any) -> None:
    assert jmespath.search(expression, given, options=OPTIONS) == result


def test_a_tag_and_a_section_may_be_objects_with_a_name_of_their_own() -> None:
    tags = [
        {"name": "a"},
        {"title": "b"},
        {"label": "c", "value": "v"},
        {"text": "d"},
        {"name": " ", "value": "e"},
        {"id": 1},
        7,
    ]
    assert values.read("keywords", tags, values.Where()) == ["a", "b", "c", "d", "e"]
    assert values.read("section", [{"title": "Coast"}, "Sea"], values.Where()) == "Coast"
    assert values.read("section", {"id": 1}, values.Where()) == {"id": 1}


@pytest.mark.parametrize(
    ("said", "hidden"),
    [
        (True, True), ("1", True), ("noindex", True), ("noindex, nofollow", True), ("nofollow,NoIndex", True),
        (["nofollow", "noindex"], True), (["noindex"], True), (0, False), ("index, follow", False), (["index", "nofollow"], False),
        ("all", False), ("max-image-preview:large", False),
    ],
)  # fmt: skip
def test_what_robots_are_told_says_whether_a_page_is_kept_from_search(said: object, hidden: bool) -> None:
    assert values.read("noindex", said, values.Where()) is hidden


@pytest.mark.parametrize("said", ["perhaps", "none", {"a": 1}, [7.5], [["noindex"]], 3])
def test_what_is_no_word_of_robots_is_refused(said: object) -> None:
    with pytest.raises(ValueError, match="neither true nor false"):
        values.read("noindex", said, values.Where())


@pytest.mark.parametrize("said", ["und", "zxx", "mul"])
def test_what_says_that_there_is_no_language_names_none(said: str) -> None:
    with pytest.raises(ValueError, match="is no language code"):
        values.read("language", said, values.Where())


def test_a_day_without_a_zone_is_that_of_greenwich() -> None:
    assert values.date_of("2026-11-20", values.Where()) == datetime(2026, 11, 20, tzinfo=UTC)
    assert values.date_of("20261120", values.Where()) == datetime(2026, 11, 20, tzinfo=UTC)


def test_a_name_that_is_of_two_zones_is_of_neither() -> None:
    central = values.date_of("2026-11-20 08:00:00 CST", values.Where(None, ZoneInfo("America/Chicago")))
    assert central == datetime(2026, 11, 20, 14, tzinfo=UTC)
    with pytest.raises(ValueError, match="is not an ISO 8601 instant"):
        values.date_of("2026-11-20 08:00:00 CST", values.Where(None, ZoneInfo("Asia/Shanghai")))
    for unclear in ("2026-11-20 08:00:00 IST", "5/11/2026 09:00"):
        with pytest.raises(ValueError, match="is not an ISO 8601 instant"):
            values.date_of(unclear, values.Where(None, ZoneInfo("Europe/Paris")))


def test_a_date_without_a_zone_asks_for_the_setting_however_it_is_written() -> None:
    with pytest.raises(values.NoZone, match="give the source the setting timezone"):
        values.date_of("2026-11-5 9:05:00", values.Where())


@pytest.mark.parametrize(
    ("content_type", "body", "words"),
    [
        ("application/x-www-form-urlencoded; charset=utf-8", b"post_id=12", "is application/x-www-form-urlencoded: have it post JSON"),
        ("multipart/form-data; boundary=x", b"--x", "is multipart/form-data: have it post JSON"),
        ("text/xml", b"<post/>", "is text/xml: have it post JSON"),
        ("application/json", b"post_id=12", "is not JSON: Expecting value"),
        ("", b"post_id=12", "is not JSON: Expecting value"),
    ],
)  # fmt: skip
def test_a_body_of_another_kind_is_refused_by_its_name(content_type: str, body: bytes, words: str) -> None:
    with pytest.raises(BadDelivery, match=words):
        read_delivery(load("wordpress"), Received(body, {"content-type": content_type}), {}, None, NOW)
    form = Received(b'{"post_id": 12}', {"content-type": content_type, "x-wp-webhook-name": "post_delete"})
    assert [verdict.action for verdict in read_delivery(load("wordpress"), form, {}, None, NOW)] == ["delete"]


def test_a_line_that_ends_inside_a_text_is_seen_through_as_it_stands_in_many_pages() -> None:
    body = b"""{"@type": "NewsArticle", "headline": "Flood\n\tcloses the harbour", "url": "https://www.example.com/flood",
    "datePublished": "2026-11-20T08:00:00Z"}"""
    [verdict] = read_delivery(load("jsonld"), Received(body), {}, None, NOW)
    assert verdict.shown(NOW)["title"] == "Flood closes the harbour"


def test_a_body_that_cannot_be_read_says_why() -> None:
    bodies = {
        b"\xff": "not UTF-8",
        b"{": "not JSON",
        b"[" * 100_000: "nested too deeply",
        b"9" * 5_000: "thousands of digits",
    }
    for body, words in bodies.items():
        with pytest.raises(BadDelivery, match=words):
            read_delivery(load("ghost"), Received(body), {}, None, NOW)
