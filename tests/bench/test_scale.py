"""A small run of `make scale`."""

import pytest

from bench import scale
from stoppress.aws import due, sites

pytestmark = pytest.mark.moto

# Five busy sites publish a story each five minutes.
STORIES = 60


def test_idle_sites_add_nothing_to_the_cost_of_an_hour() -> None:
    hour = scale.play(200, 5, 0)

    del hour["functions"]["PollFeeds"]  # reads its list of sites each minute
    assert hour["functions"] == {
        "RecordArticle": {
            "invocations": 60,
            "calls": 8 * STORIES,
            "read_units": 3.5 * STORIES,
            "write_units": 11 * STORIES,
        },
        "RollWindow": {"invocations": 60, "calls": 660, "read_units": 270.0, "write_units": 360.0},
        "RewriteSitemaps": {"invocations": 120, "calls": 1085, "read_units": 480.0, "write_units": 125.0},
    }
    assert (hour["idle_calls"], hour["left"], hour["late"]) == (0, STORIES, 0)
    assert hour["recovery_minutes"] == 0  # of an outage


def test_calls_for_idle_sites_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    every = due.every
    monkeypatch.setattr(due, "every", lambda kind, until=None: sites.hosts() and every(kind, until))

    assert scale.play(10, 5, 0)["idle_calls"]
