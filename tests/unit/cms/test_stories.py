"""A story's life in every order: however its deliveries come, the same files stand at the end."""

import random
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.cms.mapping import load
from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from stoppress.receive.queueing import take_delivery
from stoppress_cli.local.gateway import Request
from stoppress_cli.scenario import signing
from tests.support.article_events import HOST, DecidedTable
from tests.support.playing import Played, play, written
from tests.support.stories import PACE, REPUBLISHED, SENDERS, STEPS, Told, story

START = datetime(2026, 11, 20, 8, tzinfo=UTC)
END = START + timedelta(minutes=10)
# What a signature is made with, where any text will not do.
SECRETS = {"standard": "whsec_c3RvcHByZXNz"}
LONG = "a-secret-that-is-long-enough"
SHUFFLES = 5
by_sender = pytest.mark.parametrize("sender", SENDERS)


def site_of(sender: str, host: str = HOST) -> Site:
    source = {"adapter": sender, "secret": "cms", "settings": SENDERS[sender][1]}
    return Site.model_validate({"host": host, "publication": "Example News", "sources": {"cms": source}})


def events(sender: str, deliveries: Sequence[Told], now: datetime = END) -> list[ArticleEvent]:
    site = site_of(sender)
    messages = []
    for delivery in deliveries:
        [taken] = take_delivery(delivery.received, site, "cms", now, lambda host: site)
        assert isinstance(taken.message, ArticleEvent), f"{delivery.step}: {taken.answer}"
        messages.append(taken.message)
    return messages


def left_by(sender: str, received: Sequence[ArticleEvent]) -> Any:
    """Everything that a file would show, after events were received in this order."""
    ledger = DecidedTable(site_of(sender))
    for event in received:
        ledger.hear(event, END)
    pages = {url: entry for (_, url), entry in ledger.general.items()}
    news = {url: entry for (_, url, _), entry in ledger.news.items()}
    return pages, news


@by_sender
def test_each_step_is_what_the_newsroom_did(sender: str) -> None:
    deliveries = story(sender, HOST, "a1", START)
    received = events(sender, deliveries)

    assert [event.action for event in received] == ["publish", "publish", "publish", "remove", "publish", "remove"]
    assert {event.id for event in received} == {"a1"}
    assert {event.published_at for event in received if event.action == "publish"} == {START}
    assert all(event.url is None and not event.title for event in received if event.action == "remove")


@by_sender
@pytest.mark.parametrize("length", range(1, len(STEPS) + 1), ids=lambda length: f"until-{STEPS[length - 1]}")
def test_every_order_of_a_story_ends_in_the_same_entries(sender: str, length: int) -> None:
    received = events(sender, story(sender, HOST, "a1", START)[:length])
    in_order = left_by(sender, received)

    assert left_by(sender, [event for event in received for _ in range(2)]) == in_order
    assert left_by(sender, received + received) == in_order
    assert left_by(sender, received[::-1]) == in_order
    seeded = random.Random(f"{sender} {length}")
    for _ in range(SHUFFLES):
        assert left_by(sender, seeded.sample(received + received, 2 * length)) == in_order


@by_sender
def test_the_story_stands_where_it_should_after_each_step(sender: str) -> None:
    received = events(sender, story(sender, HOST, "a1", START))
    slugs = ["a1-flood", "a1-flood", "a1-flood-and-ferry", None, "a1-flood-and-ferry", None]
    for length, slug in enumerate(slugs, 1):
        pages, news = left_by(sender, received[:length])
        urls = {url.rstrip("/") for url in pages}
        assert urls == ({f"https://{HOST}/{slug}"} if slug else set()), STEPS[length - 1]
        assert {url.rstrip("/") for url in news} == urls


ORDERS: dict[str, Callable[[list[Told]], list[Told]]] = {
    "in-order": lambda deliveries: deliveries,
    "twice": lambda deliveries: [delivery for delivery in deliveries for _ in range(2)],
    "backwards": lambda deliveries: deliveries[::-1],
}
# Two ways of one system are enough once on the whole stack.
ON_THE_STACK = [sender for sender in SENDERS if sender not in ("arc-content-op", "superdesk-publisher")]


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    """Every sender in every order on one stack, each on a host of its own: an article that is deleted, one that ends republished."""
    first: list[dict[str, Any]] = []
    posts: list[dict[str, Any]] = []  # one burst: what counts is the order, not the time between
    for sender in ON_THE_STACK:
        scheme = str(load(sender).signature)
        secret = SECRETS.get(scheme, LONG)
        first.append({"secret": {"name": sender, "value": secret}})
        for order, arranged in ORDERS.items():
            host = f"{order}.{sender}.example.com"
            site = site_of(sender, host).model_dump(mode="json", exclude_none=True)
            site["sources"]["cms"]["secret"] = sender
            first.append({"site": site})
            deliveries = story(sender, host, "a1", START) + story(sender, host, "b2", START)[:REPUBLISHED]
            posts += [post(delivery, host, scheme, secret) for delivery in arranged(deliveries)]
            posts.append({"expect": {"site": host} | ({} if sender == "eventbridge" else {"status": 200})})
    first[0]["at"] = START.isoformat()
    posts[0]["at"] = (START + len(STEPS) * PACE).isoformat()
    return play(written(first + posts), tmp_path_factory.mktemp("stories"))


def post(delivery: Told, host: str, scheme: str, secret: str) -> dict[str, Any]:
    """A delivery signed when it was told, and posted when the order says; or put on the bus."""
    if scheme == "none":
        return {"event": {name: delivery.body[name] for name in ("source", "detail-type", "detail")}}
    received, path = delivery.received, f"/webhooks/{host}/cms"
    request = Request("POST", path, "", dict(received.headers), received.body)
    signed = signing.signed(request, scheme, secret, f"msg-{delivery.step}".replace(" ", "-"), delivery.at)
    return {"post": path, "query": signed.query, "headers": dict(signed.headers), "body": signed.body.decode()}


@pytest.mark.moto
def test_on_the_whole_stack_nothing_is_left_over(played: Played) -> None:
    assert played.failures == []
    assert not any(played.waiting.values())
    assert not played.refused


@pytest.mark.moto
@pytest.mark.parametrize("sender", ON_THE_STACK)
def test_on_the_whole_stack_every_order_ends_in_the_same_files(sender: str, played: Played) -> None:
    files: dict[str, dict[str, bytes]] = {order: {} for order in ORDERS}
    for name, content in played.files("end").items():
        host, _, file = name.partition("/")
        order, _, rest = host.partition(".")
        # The index has the instants at which its files were written, which differ.
        if rest == f"{sender}.example.com" and file != "sitemap.xml":
            files[order][file] = content.replace(host.encode(), b"HOST")

    assert b"https://HOST/b2-flood-and-ferry" in files["in-order"]["sitemap-news.xml"]
    assert b"a1-flood" not in b"".join(files["in-order"].values())
    assert files["twice"] == files["in-order"]
    assert files["backwards"] == files["in-order"]
