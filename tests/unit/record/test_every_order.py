"""Events of one article in every order lead to the same files as events in order."""

from collections.abc import Iterable
from datetime import timedelta
from itertools import permutations, product
from typing import Any

import pytest

from stoppress.model.event import ArticleEvent
from stoppress.model.site import Rule
from tests.support.article_events import MORNING, SITE, DecidedTable, publish, remove

HOUR = timedelta(hours=1)
ACTS = ["publish", "backdate", "schedule", "edit", "unpublish"]
# Further stories, each for another rule of late events.
STORIES = [("noindex", "edit"), ("publish", "noindex", "publish"), ("publish", "schedule", "publish", "edit")]


def event_of(act: str, hour: int) -> ArticleEvent:
    """Return the event of an act at an hour of the morning. An edit has no date."""
    sent = MORNING + hour * HOUR
    if act == "unpublish":
        return remove(timestamp=sent)
    dates = {
        "publish": sent - HOUR / 2,
        "backdate": MORNING - (5 + hour) * HOUR,
        "schedule": sent + 40 * HOUR,
        "noindex": sent - HOUR / 2,
    }
    return publish(timestamp=sent, title=f"{act} {hour}", published_at=dates.get(act), noindex=act == "noindex")


def files_after(events: Iterable[ArticleEvent]) -> list[Any]:
    """Return the entries after events that all arrive in the evening, and after their embargoes."""
    table, evening, files = DecidedTable(), MORNING + 10 * HOUR, []
    for number, event in enumerate(events):
        table.apply(event, evening + number * timedelta(seconds=10))
    for now in (evening + HOUR, evening + 50 * HOUR):
        table.release(now)
        files.append((list(table.general.values()), list(table.news_at(now).values())))
    return files


@pytest.mark.parametrize("acts", [*product(ACTS, repeat=3), *STORIES], ids=" ".join)
def test_a_story_ends_in_the_same_files_in_every_order(acts: tuple[str, ...]) -> None:
    events = [event_of(act, hour) for hour, act in enumerate(acts)]
    in_order = files_after(events)

    others = [
        order for order in permutations(range(len(acts))) if files_after(events[hour] for hour in order) != in_order
    ]
    assert others == []


def test_an_embargo_of_a_deleted_article_does_not_hold_the_next_one_with_its_id() -> None:
    scheduled, edited = event_of("schedule", 0), event_of("edit", 2)
    deleted = remove(timestamp=MORNING + HOUR, verb="deleted")

    assert files_after([deleted, edited, scheduled]) == files_after([scheduled, deleted, edited])


def test_a_late_page_that_the_rules_hide_does_not_set_the_next_date() -> None:
    table = DecidedTable(SITE.model_copy(update={"rules": (Rule(path="/sponsored/*"),)}))
    hidden = publish(path="sponsored/flood", timestamp=MORNING - HOUR, published_at=MORNING - HOUR)
    for event in (event_of("schedule", 0), hidden, event_of("publish", 2)):
        table.apply(event, MORNING + 3 * HOUR)

    assert [entry.published for entry in table.news.values()] == [event_of("publish", 2).published_at]


def test_a_late_embargo_that_a_removal_ended_does_not_set_the_next_date() -> None:
    table = DecidedTable()
    scheduled = publish(timestamp=MORNING, published_at=MORNING + 2 * HOUR)
    for event in (event_of("unpublish", 1), scheduled, event_of("publish", 4)):
        table.apply(event, MORNING + 5 * HOUR)

    assert [entry.published for entry in table.news.values()] == [event_of("publish", 4).published_at]


def test_an_excluded_pages_date_is_not_used_for_another_sources_article() -> None:
    undated = publish(published_at=None)
    excluded = publish("feed-7", source="feed", timestamp=MORNING + HOUR, noindex=True)

    assert files_after([undated, excluded]) == files_after([excluded, undated])


def test_the_publications_date_replaces_the_late_date_of_an_excluded_draft() -> None:
    draft = publish(published_at=MORNING - 72 * HOUR, noindex=True)
    published, edited = event_of("publish", 1), event_of("edit", 2)

    assert files_after([edited, draft, published]) == files_after([draft, published, edited])
