"""What cannot be known of an order is not judged, and nothing else escapes the judgement."""

import random
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from tests.simulation import story as stories
from tests.simulation.knowing import Hearing
from tests.simulation.oracle import FEED, Act, histories
from tests.simulation.story import START

AHEAD = timedelta(minutes=3)
PUBLISH = Act("www.example.com", "cms", "1", 1, START, "publish", "https://www.example.com/a")
UNPUBLISH = replace(PUBLISH, number=2, at=START + timedelta(seconds=40), verb="unpublish")


def is_known(*received: tuple[Act, float], repeated: tuple[Act, float] | None = None, has_ids: bool = True) -> bool:
    """Whether the last act is known, each received so many seconds after it was done."""
    hearing = Hearing(timedelta(seconds=5))
    for act, delay_s in (*received, *([repeated] if repeated else [])):
        at = act.at + timedelta(seconds=delay_s)
        hearing.note(act, at, at, f"{act.number}" if has_ids else "")
    return hearing.last_word_is_known([act for act, _ in received])


def both(**said: Any) -> tuple[Act, Act]:
    """A publication and a removal whose fields are the results of functions of their instants."""
    found = [replace(act, **{name: value(act) for name, value in said.items()}) for act in (PUBLISH, UNPUBLISH)]
    return found[0], found[1]


def test_timestamps_and_versions_show_any_order() -> None:
    for said in ({"stamp": lambda act: act.at}, {"version": lambda act: act.number}):
        publish, unpublish = both(**said)
        assert is_known((publish, 3_600), (unpublish, 6))


def test_without_either_only_the_order_of_hearing_is_known() -> None:
    assert is_known((PUBLISH, 6), (UNPUBLISH, 6))
    assert not is_known((PUBLISH, 60), (UNPUBLISH, 6))
    assert not is_known((PUBLISH, 6), (UNPUBLISH, -30))


def test_a_clock_that_is_ahead_is_known_by_itself() -> None:
    publish, unpublish = both(stamp=lambda act: act.at + AHEAD)
    assert is_known((publish, 6), (unpublish, 6))
    assert not is_known((publish, 600), (unpublish, 6))


def test_a_clock_that_was_set_right_in_between_is_known_where_all_came_at_once() -> None:
    publish, unpublish = both(stamp=lambda act: act.at + (AHEAD if act.number == 1 else timedelta()))
    assert is_known((publish, 6), (unpublish, 6))
    assert not is_known((publish, 600), (unpublish, 6))


def test_timestamps_by_a_right_clock_show_the_order_of_versions_by_one_that_is_ahead() -> None:
    publish, unpublish = both(version=lambda act: act.at + AHEAD, stamp=lambda act: act.at)
    assert is_known((publish, 600), (unpublish, 6))
    set_right = replace(unpublish, version=unpublish.at)
    assert is_known((publish, 6), (set_right, 6))
    assert not is_known((publish, 600), (set_right, 6))


def test_a_removal_of_the_same_second_is_known_to_be_the_last_where_it_came_later() -> None:
    publish, unpublish = both(stamp=lambda _: START)
    assert is_known((publish, 6), (unpublish, 6))
    assert not is_known((publish, 60), (unpublish, 6))


@pytest.mark.parametrize("has_ids", [True, False])
def test_a_repeat_is_known_by_its_id(*, has_ids: bool) -> None:
    again = replace(PUBLISH, number=3, verb="update", title="again", at=START + timedelta(seconds=80))
    acts = (UNPUBLISH, 6), (again, 6)
    assert is_known(*acts, repeated=(UNPUBLISH, 86_400), has_ids=has_ids) is has_ids


def test_a_repeat_is_known_until_its_first_delivery_is_forgotten() -> None:
    acts = [replace(PUBLISH, number=n, verb="update", title=f"{n}", at=START + n * AHEAD) for n in range(12)]
    assert is_known(*((act, 6) for act in acts[-4:]), repeated=(acts[-4], 86_400))
    assert not is_known(*((act, 6) for act in acts), repeated=(acts[0], 86_400))


def test_nine_of_ten_articles_are_judged() -> None:
    judged = []
    for seed in range(150):
        story, hearing = stories.tell(random.Random(f"story {seed}")), Hearing(timedelta(seconds=5))
        for delivery in story.deliveries:
            if delivery.act:
                hearing.note(delivery.act, delivery.at, delivery.at, delivery.id)
        for host in story.hosts:
            of_cms = [acts for acts in histories(story.acts, host).values() if acts[0].source != FEED]
            judged += [hearing.last_word_is_known(acts) for acts in of_cms]

    assert sum(judged) > 0.88 * len(judged)
