"""Each alarm of the template fires when it should, and only then: the local stack has failures, and CloudWatch is simulated."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from stoppress.aws import metrics as reported
from stoppress_cli.local.template import load
from tests.support import breakages, cloudwatch
from tests.support.breakages import BREAKAGES, Breakage
from tests.support.playing import TEMPLATE

pytestmark = pytest.mark.moto


@pytest.mark.matrix
@pytest.mark.parametrize("breakage", [pytest.param(breakage, id=breakage.name) for breakage in BREAKAGES])
def test_a_breakage_makes_its_alarms_fire_after_its_number_of_minutes(breakage: Breakage, tmp_path: Path) -> None:
    assert breakages.alarms_of(breakage, tmp_path) == breakage.alarms


def test_every_alarm_fires_for_some_breakage() -> None:
    resources = load(TEMPLATE).resources.items()
    alarms = {name for name, resource in resources if resource["Type"] == "AWS::CloudWatch::Alarm"}

    assert {name for breakage in BREAKAGES for name in breakage.alarms} == alarms


def test_an_alarm_stays_while_an_article_is_retried(tmp_path: Path) -> None:
    [breakage] = [breakage for breakage in BREAKAGES if breakage.name == "one article always fails"]
    with breakages.newsroom(breakage, tmp_path) as newsroom:
        breakage.act(newsroom)
        without_alarm = []
        for minute in range(60):
            newsroom.minute()
            if minute > 5 and not newsroom.in_alarm():
                without_alarm.append(minute)

    assert without_alarm == []


@pytest.mark.parametrize("name", ["the table is down", "the rule of the bus may not send to the queue"])
def test_an_alarm_ends_some_minutes_after_its_cause(name: str, tmp_path: Path) -> None:
    [breakage] = [breakage for breakage in BREAKAGES if breakage.name == name]
    with breakages.newsroom(breakage, tmp_path) as newsroom:
        breakage.act(newsroom)
        for _ in range(6):
            newsroom.minute()
        assert newsroom.in_alarm() == set(breakage.alarms)
        newsroom.stack.wire.faults.clear()
        for _ in range(25):
            newsroom.minute()

        assert newsroom.in_alarm() == set()
        assert newsroom.stack.waiting_messages()["Failures"] > 0  # old messages there do not keep the alarm


def test_an_idle_minute_publishes_nothing(tmp_path: Path) -> None:
    with breakages.newsroom(BREAKAGES[0], tmp_path) as newsroom:
        newsroom.each_minute.clear()
        newsroom.minute()
        newsroom.metrics.values.clear()
        for _ in range(3):
            newsroom.minute()

    assert [name for namespace, name, _ in newsroom.metrics.values if namespace.startswith("Stoppress")] == []


# ── the alarms are evaluated as CloudWatch does ──

# AWS, Configuring how CloudWatch alarms treat missing data: three of three, X breaches, oldest first.
# The state with missing data as breaching, and as not breaching.
DOCUMENTED = {
    "0-X-X": (False, False),
    "0----": (False, False),
    "-----": (True, False),
    "0XX-X": (True, True),
    "--X--": (True, False),
}


def alarm(**properties: Any) -> cloudwatch.Alarm:
    """Return an alarm that fires above 0 in three of three minutes."""
    defaults = {
        "Namespace": "N", "MetricName": "M", "Statistic": "Maximum", "Period": 60, "EvaluationPeriods": 3, "Threshold": 0,
        "ComparisonOperator": "GreaterThanThreshold", "TreatMissingData": "notBreaching",
    }  # fmt: skip
    return cloudwatch.Alarm("A", defaults | properties)


def metrics(values: Mapping[int, float]) -> cloudwatch.Metrics:
    recorded = cloudwatch.Metrics()
    for minute, value in values.items():
        recorded.values["N", "M", frozenset()][minute].append(value)
    return recorded


@pytest.mark.parametrize("data", DOCUMENTED)
@pytest.mark.parametrize("missing", ["breaching", "notBreaching"])
def test_missing_data_count_as_aws_documents(data: str, missing: str) -> None:
    published = metrics({minute: float(datum == "X") for minute, datum in enumerate(data) if datum != "-"})

    is_alarmed = alarm(TreatMissingData=missing).is_in_alarm(published, len(data))

    assert is_alarmed == DOCUMENTED[data][missing == "notBreaching"]


def test_a_story_recorded_late_counts_the_seconds_that_it_waited(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(reported, "WATCHED", ("RecordingSeconds",))
    with breakages.newsroom(BREAKAGES[0], tmp_path) as newsroom:
        newsroom.fail("dynamodb", "TransactWriteItems", "InternalServerError", times=1)
        newsroom.metrics.values.clear()
        newsroom.minute()
        [recorded] = [values for (_, name, _), values in newsroom.metrics.values.items() if name == "RecordingSeconds"]

    assert [value for values in recorded.values() for value in values] == [10.0]
