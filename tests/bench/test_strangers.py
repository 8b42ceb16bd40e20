"""A small flood of unsigned requests with made-up hosts, as `make strangers` pours a large one."""

import pytest

from bench.load.strangers import differences, flooded

pytestmark = [pytest.mark.moto, pytest.mark.matrix]


def test_a_flood_of_made_up_hosts_changes_neither_the_clock_nor_a_signed_webhook() -> None:
    quiet, flood = flooded(1, 0), flooded(1, 20)

    assert [status for status, _ in quiet.answers] == [200]
    assert quiet.runs == {"PollFeeds": 1, "RollWindow": 1}
    assert list(differences(quiet, flood)) == []
