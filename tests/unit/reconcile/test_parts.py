"""A night's work in parts: each is an invocation, which Lambda repeats twice if it fails."""

import time
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from typing import Any
from unittest.mock import Mock

import pytest

from stoppress.aws import due, sites, table
from stoppress.aws.queues import read_request
from stoppress.primitives.instants import Deadline
from stoppress.reconcile import sites as parts
from stoppress.reconcile.drift import Finding, read_suspects
from stoppress.reconcile.look import Look
from tests.support import moto_aws
from tests.support.article_events import HOST, MORNING
from tests.support.killing import Killed
from tests.support.moto_aws import MotoAws
from tests.support.partitions import NEWS, put_news, put_page

pytestmark = pytest.mark.moto

NIGHT = MORNING + timedelta(hours=19)
OTHER = "a.example.com"
SHARDS = [f"sitemap-2025-{month:02}.xml" for month in range(1, 13)]
UNITS = {"*orphans", "*places", "sitemap.xml", NEWS, *SHARDS}


class Night:
    """Runs of reconcile_sites. Each look at a unit takes `look_s` seconds; `act` may fail before it."""

    def __init__(self, aws: MotoAws, patch: pytest.MonkeyPatch) -> None:
        self.aws, self.look_s, self.seconds = aws, 0.0, 0.0
        self.looks: Counter[tuple[str, str]] = Counter()
        self.act: Callable[[str, str], None] = lambda host, unit: None
        self.given_up: list[dict[str, Any]] = []
        at = Look.at

        def slowly(look: Look, unit: str, now: datetime) -> list[Finding]:
            self.seconds += self.look_s
            self.act(look.site.host, unit)
            self.looks[look.site.host, unit] += 1
            return at(look, unit, now)

        patch.setattr(Look, "at", slowly)
        patch.setattr(time, "sleep", lambda seconds: None)

    def run(self, minutes: int = 0) -> int:
        """Run the schedule `minutes` after the night began, and its announced parts. Return the number of invocations."""
        self.aws.clock.move_to(NIGHT + timedelta(minutes=minutes))
        events: list[dict[str, Any]] = [{"detail-type": "Scheduled Event", "detail": "{}"}]
        for count in range(1, 1_000):
            event = events.pop(0)
            if not any(self._succeeds(event) for _ in range(3)):
                self.given_up.append(event["detail"])
            events += [event for event in self.aws.announced if event["detail-type"] == parts.PART]
            self.aws.announced.clear()
            if not events:
                return count
        raise AssertionError("the parts have no end")

    def repaired(self) -> set[str]:
        return {read_request(message).file for message in self.aws.taken("rewrites")}

    def _succeeds(self, event: dict[str, Any]) -> bool:
        self.seconds = 0.0
        context = Mock(get_remaining_time_in_millis=lambda: 1_000 * (900 - self.seconds))
        try:
            self.aws.call("reconcile_sites", event, context)
        except (Exception, Killed):  # noqa: BLE001 - as Lambda does
            self.aws.clock.shift(timedelta(minutes=1))
            return False
        return True


@pytest.fixture
def night(monkeypatch: pytest.MonkeyPatch) -> Iterator[Night]:
    with moto_aws.opened(NIGHT) as aws:
        aws.site()
        for shard in SHARDS:
            put_page(file=shard)
            table.put({"pk": f"places#{HOST}", "sk": shard[8:15], "files": [[1, 400]]}, None)
        yield Night(aws, monkeypatch)


def all_units(host: str = HOST) -> dict[tuple[str, str], int]:
    return {(host, unit): 1 for unit in UNITS}


def test_all_files_are_compared_and_repaired_in_one_night_in_as_many_parts_as_needed(night: Night) -> None:
    night.look_s = 200
    assert night.run() == 1 + 4  # 16 units, four of them in an invocation
    assert night.looks == all_units()
    assert night.repaired() == set()
    night.run(30)
    assert night.repaired() == {"sitemap.xml", NEWS, *SHARDS}
    night.looks.clear()
    night.run(60)
    assert not night.looks
    assert read_suspects(HOST) == {}


def test_a_failing_site_stops_no_other_and_fails_after_three_attempts(night: Night) -> None:
    night.aws.site(OTHER)

    def fail(host: str, unit: str) -> None:
        if (host, unit) == (OTHER, "sitemap.xml"):
            raise TimeoutError

    night.act = fail
    night.run()
    assert [detail["site"] for detail in night.given_up] == [OTHER]
    assert night.looks[OTHER, "*places"] == 3
    assert all_units().items() <= night.looks.items()


def test_a_part_that_announced_its_remaining_work_is_not_repeated(night: Night) -> None:
    """Each attempt would announce the remaining work again."""

    def fail(_host: str, unit: str) -> None:
        if unit in SHARDS[:6]:
            raise TimeoutError

    night.act, night.look_s = fail, 200
    assert night.run() == 1 + 4
    assert (night.aws.metrics["NeedsAttention"], night.given_up) == (6, [])


def test_a_killed_part_is_repeated_and_confirms_no_finding_of_its_own(night: Night) -> None:
    kills = [1]

    def kill(_host: str, unit: str) -> None:
        if unit == SHARDS[5] and kills:
            kills.pop()
            raise Killed

    night.act = kill
    night.run()
    assert night.looks == all_units() | {(HOST, "*orphans"): 2, (HOST, "*places"): 2}
    assert night.repaired() == set()
    night.run(30)
    assert night.repaired() == {"sitemap.xml", NEWS, *SHARDS}


def test_a_part_without_time_for_one_file_fails(night: Night) -> None:
    with pytest.raises(TimeoutError):
        parts.reconcile_part(parts.Part(HOST), Deadline(lambda: 0))
    assert night.aws.announced == []


def test_a_run_without_time_for_all_sites_continues_after_the_last_one(night: Night) -> None:
    for number in range(24):
        night.aws.site(f"site{number:02}.example.com")
    night.aws.announced.clear()
    remaining_ms = iter([0, 1_000, 0])
    parts.announce_sites(parts.Part(), Deadline(lambda: next(remaining_ms, 1_000)))
    *announced, rest = [parts.Part(**event["detail"]) for event in night.aws.announced]
    parts.announce_sites(rest, Deadline(lambda: 1_000))
    announced += [parts.Part(**event["detail"]) for event in night.aws.announced[len(announced) + 1 :]]
    assert announced == [parts.Part(host) for host in sites.hosts()]


def test_an_expiry_that_was_lost_is_written_again(night: Night) -> None:
    put_news("a", NIGHT - timedelta(hours=2))
    put_news("b", NIGHT - timedelta(hours=1))
    night.run()
    [record] = due.every(due.EXPIRIES)
    assert (record.name, record.at) == (f"{HOST}/{NEWS}", NIGHT + timedelta(hours=46))
