"""rewrite_sitemaps fails for a while, or for one file: the content of the files afterwards, and the alarms in the meantime."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from stoppress.aws.queues import RewriteRequest
from stoppress.rewrite import sitemaps
from stoppress_cli.local import mappings
from stoppress_cli.local.lambda_functions import Result
from tests.support import breakages
from tests.support.breakages import HOST, MINUTE, SITE, Breakage, Newsroom

# All files are correct within this time after the repair, and no file waits longer due to another file that crashes the function.
MINUTES_MAX = 10
# The stream keeps its records for 24 hours; stories of the first hour are almost lost.
A_DAY = 23 * 60 + 30
SLOW = pytest.mark.matrix


@pytest.fixture
def _a_minute_between_attempts(monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS does not document how long Lambda waits before it delivers a failed batch again."""
    monkeypatch.setattr(
        mappings._Batch, "ready", lambda batch, now: batch.instant is None or now - batch.instant >= MINUTE
    )


@contextmanager
def newsroom(out: Path) -> Iterator[Newsroom]:
    """Open a newsroom whose files are large enough for folding."""
    with breakages.newsroom(Breakage("", step_s=60), out) as opened:
        opened.each_minute.clear()
        for number in range(140):
            opened.publish(f"early-{number}")
        opened.minute()
        yield opened


def missing(newsroom: Newsroom, stories: list[str]) -> list[str]:
    """Return the stories that are missing from the news sitemap or the general sitemap."""
    objects = newsroom.stack.backend.objects()
    files = [objects[f"{HOST}/{file}"].decode() for file in ("sitemap-news.xml", "sitemap-2026-11.xml")]
    return [story for story in stories if any(f"https://{HOST}/{story}<" not in file for file in files)]


@pytest.mark.parametrize(
    ("fault", "minutes"),
    [
        pytest.param(lambda room: room.crash("RewriteSitemaps"), 12, id="crashes"),
        pytest.param(lambda room: room.crash("RewriteSitemaps"), A_DAY, id="crashes for a day", marks=SLOW),
        pytest.param(lambda room: room.crash("RewriteSitemaps", throttled=True), 60, id="throttled", marks=SLOW),
        pytest.param(lambda room: room.fail("s3", "PutObject", "AccessDenied"), 60, id="the bucket denies", marks=SLOW),
    ],
)
def test_every_file_is_right_ten_minutes_after_a_repair(fault: Any, minutes: int, tmp_path: Path) -> None:
    with newsroom(tmp_path) as broken:
        fault(broken)
        stories = [f"lost-{number}" for number in range(10)]
        without_alarm = []
        for minute in range(minutes):
            for story in stories[minute : minute + 1]:
                broken.publish(story)
            if minute % 60 < breakages.PLAYED or not 60 < minute < minutes - 60:
                broken.minute()
            else:
                broken.skip_minute()
            if minute > 20 and not broken.in_alarm():
                without_alarm.append(minute)
        assert len(missing(broken, stories)) == len(stories)
        assert without_alarm == []  # an alarm stays in ALARM

        broken.stack.wire.faults.clear()
        vars(broken.function("RewriteSitemaps")).pop("invoke", None)
        for _ in range(MINUTES_MAX):
            broken.minute()

        assert missing(broken, stories) == []
        assert broken.stack.waiting_messages() == {}


def crash_on(file: str, newsroom: Newsroom, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the function crash whenever it rewrites a file, as if the file used all memory."""
    rewrite, function = sitemaps.rewrite, newsroom.function("RewriteSitemaps")
    invoke = function.invoke

    def rewrite_or_crash(request: RewriteRequest, now: datetime) -> sitemaps.Result:
        if request.file == file:
            raise SystemExit
        return rewrite(request, now)

    def invoke_or_crash(event: Any) -> Result:
        try:
            return invoke(event)
        except SystemExit:
            function.errors += 1
            return Result(error={"errorType": "Runtime.ExitError", "errorMessage": "signal: killed"})

    monkeypatch.setattr(sitemaps, "rewrite", rewrite_or_crash)
    monkeypatch.setattr(function, "invoke", invoke_or_crash)


@SLOW
@pytest.mark.usefixtures("_a_minute_between_attempts")
def test_a_file_that_crashes_the_function_delays_no_other_by_ten_minutes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with newsroom(tmp_path) as broken:
        crash_on("sitemap-2020-02.xml", broken, monkeypatch)
        published_at: dict[str, datetime] = {}
        delays: dict[str, timedelta] = {}
        without_alarm = []
        for minute in range(90):
            now = broken.stack.clock.now()
            if minute % 5 == 0:  # the file changes again and again
                broken.publish(f"poison-{minute}", "2020-02-02T12:00:00Z")
            published_at[f"good-{minute}"] = now
            broken.publish(f"good-{minute}")
            if minute == 40:  # the queue has requests for all files of the site
                broken.do({"site": SITE | {"publication": "Renamed"}})
            broken.minute()
            waiting = missing(broken, [story for story in published_at if story not in delays])
            now = broken.stack.clock.now()
            delays |= {
                story: now - at for story, at in published_at.items() if story not in delays | dict.fromkeys(waiting)
            }
            if minute > 20 and not broken.in_alarm():
                without_alarm.append(minute)

    assert len(delays) > 75
    assert max(delays.values()) <= MINUTES_MAX * MINUTE
    assert without_alarm == []


@pytest.mark.usefixtures("_a_minute_between_attempts")
def test_an_alarm_stays_while_one_file_of_an_idle_newsroom_crashes_the_function(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with newsroom(tmp_path) as broken:
        crash_on("sitemap-2020-02.xml", broken, monkeypatch)
        broken.publish("poison", "2020-02-02T12:00:00Z")
        without_alarm = []
        for minute in range(120):
            broken.minute()
            if minute > 20 and not broken.in_alarm():
                without_alarm.append(minute)

    assert without_alarm == []
