"""A few feeds over some hours, as `make soak` does with two hundred over a day."""

from datetime import UTC, datetime

import pytest

from bench.soak import soak

pytestmark = pytest.mark.matrix


def test_no_story_of_a_dozen_feeds_is_lost_and_few_requests_are_made() -> None:
    result = soak(feeds=12, hours=3, seed=1, start=datetime(2026, 11, 20, 13, 0, 10, tzinfo=UTC))

    assert result.wrong == []
    assert len(result.stories) > 20
    assert result.polls["failed"] > 0
    assert result.polls["unchanged"] > result.polls["changed"] > 0
    assert result.requests < 12 * 5 * 60 / 3
