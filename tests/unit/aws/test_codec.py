"""Each class that the table stores is written to an item and read back unchanged."""

from collections.abc import Callable
from dataclasses import MISSING, fields, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import partial
from typing import Any

import pytest
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer

from stoppress.audit.audit_state import AuditState, audit_key
from stoppress.aws import items, table
from stoppress.aws.codec import from_attribute, from_item, to_attribute, to_item
from stoppress.feeds.feed_hints import Freshness, Hints
from stoppress.feeds.feed_schedule import FeedState, Seen
from stoppress.feeds.subscription import EntryDigest, Subscription
from stoppress.model.article import Article, Claim
from stoppress.model.entries import Alternate, GeneralEntry, Mark, NewsEntry, Traits
from stoppress.model.file_names import Place, Series, Used
from stoppress.model.order import Order
from stoppress.notify.page_state import PageState, page_item, read_page
from stoppress.notify.sitemap_reports import SubmittedSitemap, submitted_in, submitted_item
from stoppress.poll.feed_items import feed_entries_key, feed_item, subscription_item
from stoppress.primitives.instants import exact

HOST, URL = "www.example.com", "https://www.example.com/flood"
T, LATER = datetime(2026, 11, 20, 8, tzinfo=UTC), datetime(2026, 11, 20, 8, 0, 1, 3, tzinfo=UTC)
ORDER = Order(2**63 - 1, 3, exact(T), exact(LATER), "deleted")
DATED = Order(exact(T), None, None, exact(LATER))
PLACE = Place("2026-11", 2, 123)
TRAITS = Traits("sport", ("cup", "final"), "live", ("breaking",))
VIDEO = (("thumbnail_loc", URL), ("title", "V"), ("tag", "a"), ("tag", "b"))

# Values with all fields set, and the functions that write and read their items.
CLASSES: list[tuple[Any, Callable[[Any], Any], Callable[[Any], Any]]] = [
    (
        Article(
            site=HOST, name="cms#10#42", state="listed", order=ORDER, digest="d", received_at=LATER, known_since=T, deliveries=("a", "~b"),
            reborn=exact(T), url=URL, first_published=T, dated_by=2, dated_order=DATED, held_order=DATED, changed_at=T, shard=PLACE, news=PLACE,
            release_at=T, reason="r", news_reason="n", dropped=("images",), title="T", title_hash="h", publication="P",
            is_undated=True, is_unlisted=True, rev=3,
        ),
        items.article_item,
        items.read_article,
    ),
    (Claim(HOST, URL, "cms#1", live=True, order=DATED, waiting=("cms#2",), removed={"wire": ORDER}, code="en",
           lists={"fr": URL}, gone=("fr",), links={URL: "fr"}, seen=True, rev=3),
     items.claim_item, lambda item: items.read_claim(item, URL)),
    (GeneralEntry(URL, T, TRAITS, (URL,), (VIDEO,), (Alternate("fr", URL),), "fr", "daily", "0.5"),
     partial(items.general_item, HOST, "sitemap-2026-11.xml"), items.read_general),
    (NewsEntry(URL, "T", T, LATER, "P", "fr", TRAITS, (Alternate("fr", URL),)), partial(items.news_item, HOST, PLACE), items.read_news),
    (Mark("f.xml", T, 3, 4, "d", ("f.xml.gz",), LATER, 3), partial(items.mark_item, HOST), items.read_mark),
    (Series("news", (Used(1, 2), Used()), 3), partial(items.series_item, HOST),
     lambda item: items.read_series("news", item)),
    (
        FeedState(
            next_poll_at=T, etag="e", last_modified="m", body_digest="b", config_version=3, hints=Hints(1, 2, (3,), (4,)),
            failures=2, failing_since=T, last_error="x", last_success=T, last_new=T, known_since=T, turnover_s=9, gone_by=2, moved_to=URL,
            moved_at=T, hub=URL, topic=URL, newest=Freshness(T, None, LATER), stale_since=T,
        ),
        partial(feed_item, HOST, URL),
        partial(from_item, FeedState),
    ),
    (Seen(("a", "b"), ("c",)), partial(to_item, key=feed_entries_key(HOST, URL)), partial(from_item, Seen)),
    (
        Subscription(
            hub=URL, topic=URL, asked_at=T, asks=2, next_ask_at=T, refused="r", verified_at=T, lease_until=T, last_push=T,
            trusted_since=T, pushed=(EntryDigest("a", "b"),), owed=(EntryDigest("c", "d", "e"),), owed_since=T, started="s",
        ),
        partial(subscription_item, HOST, URL),
        partial(from_item, Subscription),
    ),
    (AuditState(T, T, "f", "c", T, T, 3, {exact(T): 2}, ("u",), ("v",), 4), partial(to_item, key=audit_key(HOST, "cms")),
     partial(from_item, AuditState)),
    (PageState(URL, "v2", T, T, "v1", T, T, T, 2, T, "r", T, "PASS", "c", URL, "ALLOWED", T, LATER, T, "f", 3),
     partial(page_item, HOST), read_page),
    (SubmittedSitemap("sitemap.xml", T, T, LATER, errors=1, warnings=2, urls={"web": 5}, unread=(T, LATER)),
     lambda sitemap: submitted_item(HOST, sitemap, T), lambda item: submitted_in([item])[0]),
]  # fmt: skip


@pytest.mark.parametrize(("whole", "write", "read"), CLASSES, ids=lambda value: type(value).__name__)
def test_an_item_keeps_each_field_and_leaves_defaults_out(
    whole: Any, write: Callable[[Any], Any], read: Callable[[Any], Any]
) -> None:
    defaults = {
        field.name: field.default if field.default_factory is MISSING else field.default_factory()
        for field in fields(whole)
        if (field.default, field.default_factory) != (MISSING, MISSING)
    }
    bare = replace(whole, **defaults)

    assert [name for name, default in defaults.items() if getattr(whole, name) == default] == []
    for value in (whole, bare):
        item = table.read_item(table._write(write(value) | {"rev": 3}))  # through DynamoDB's types
        expected = replace(value, rev=3) if "rev" in defaults else value
        # Numbers are no Decimals, which `repr` shows.
        assert (read(item), repr(read(item))) == (expected, repr(expected))
    assert not write(bare).keys() & defaults.keys()


def test_a_field_that_the_next_version_adds_to_a_nested_class_is_ignored() -> None:
    assert from_item(FeedState, {"hints": [1, 2, [3], [4], "of the next version"]}).hints == Hints(1, 2, (3,), (4,))


def test_the_order_of_an_article_that_its_newest_event_dated_is_stored_once() -> None:
    article = replace(CLASSES[0][0], dated_order=ORDER)

    assert items.article_item(article)["dated_order"] is True
    assert items.read_article(items.article_item(article) | {"rev": 3}) == article


@pytest.mark.parametrize(
    "value", [None, True, False, "é", "", 0, -7, 2**63, ["a", 1, [None]], {"a": {"b": [True]}}, Decimal("1.5")]
)
def test_an_attribute_has_the_form_of_boto3(value: Any) -> None:
    attribute: Any = to_attribute(value)

    assert attribute == TypeSerializer().serialize(value)
    assert from_attribute(attribute) == TypeDeserializer().deserialize(attribute) == value


def test_a_type_that_no_item_has_is_refused() -> None:
    with pytest.raises(TypeError):
        to_attribute({"a": 1.5})
