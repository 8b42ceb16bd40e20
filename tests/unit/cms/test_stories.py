"""A story's deliveries in every order lead to the same files."""

import random
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from stoppress.receive.queueing import take_delivery
from tests.support.article_events import HOST, DecidedTable
from tests.support.stories import SENDERS, STEPS, Delivery, story

START = datetime(2026, 11, 20, 8, tzinfo=UTC)
END = START + timedelta(minutes=10)
SHUFFLES = 5
by_sender = pytest.mark.parametrize("sender", SENDERS)


def site_of(sender: str, host: str = HOST) -> Site:
    source = {"adapter": sender, "secret": "cms", "settings": SENDERS[sender][1]}
    return Site.model_validate({"host": host, "publication": "Example News", "sources": {"cms": source}})


def events(sender: str, deliveries: Sequence[Delivery], now: datetime = END) -> list[ArticleEvent]:
    site = site_of(sender)
    messages = []
    for delivery in deliveries:
        [taken] = take_delivery(delivery.received, site, "cms", now, lambda host: site)
        assert isinstance(taken.message, ArticleEvent), f"{delivery.step}: {taken.answer}"
        messages.append(taken.message)
    return messages


def entries_after(sender: str, received: Sequence[ArticleEvent]) -> Any:
    """Return all entries of the files, after events were received in this order."""
    ledger = DecidedTable(site_of(sender))
    for event in received:
        ledger.apply(event, END)
    pages = {url: entry for (_, url), entry in ledger.general.items()}
    news = {url: entry for (_, url, _), entry in ledger.news.items()}
    return pages, news


@by_sender
@pytest.mark.parametrize("length", range(1, len(STEPS) + 1), ids=lambda length: f"until-{STEPS[length - 1]}")
def test_every_order_of_deliveries_leads_to_the_same_entries(sender: str, length: int) -> None:
    received = events(sender, story(sender, HOST, "a1", START)[:length])
    in_order = entries_after(sender, received)

    assert entries_after(sender, [event for event in received for _ in range(2)]) == in_order
    assert entries_after(sender, received + received) == in_order
    assert entries_after(sender, received[::-1]) == in_order
    seeded = random.Random(f"{sender} {length}")
    for _ in range(SHUFFLES):
        assert entries_after(sender, seeded.sample(received + received, 2 * length)) == in_order


@by_sender
def test_the_files_are_correct_after_each_step_of_a_story(sender: str) -> None:
    received = events(sender, story(sender, HOST, "a1", START))
    slugs = ["a1-flood", "a1-flood", "a1-flood-and-ferry", None, "a1-flood-and-ferry", None]
    for length, slug in enumerate(slugs, 1):
        pages, news = entries_after(sender, received[:length])
        urls = {url.rstrip("/") for url in pages}
        assert urls == ({f"https://{HOST}/{slug}"} if slug else set()), STEPS[length - 1]
        assert {url.rstrip("/") for url in news} == urls
