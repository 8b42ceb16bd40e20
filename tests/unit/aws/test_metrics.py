"""A run prints one line in the embedded metric format for CloudWatch, and none if all counts are zero."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from stoppress.aws.metrics import VALUES_MAX, Value, publish

Publish = Callable[..., list[Any]]


@pytest.fixture
def printed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Publish:
    monkeypatch.setenv("METRICS_NAMESPACE", "Stoppress/news")
    monkeypatch.setenv("POWERTOOLS_SERVICE_NAME", "record_article")

    def printed_lines(values: dict[str, Value], dashboard: str = "yes") -> list[Any]:
        monkeypatch.setenv("DASHBOARD", dashboard)
        publish(values)
        return [json.loads(line) for line in capsys.readouterr().out.splitlines()]

    return printed_lines


def test_counts_of_zero_are_not_printed(printed: Publish) -> None:
    assert printed({"EventsListed": 0, "WorkFailed": 0, "RecordingSeconds": []}) == []

    [line] = printed({"EventsListed": 2, "EventsFailed": 0})
    assert "EventsFailed" not in line


def test_only_metrics_of_all_functions_together_have_no_dimension(printed: Publish) -> None:
    [line] = printed({"EventsFailed": 3, "WorkFailed": 3, "RecordingSeconds": [0.5, 1.5]})

    own, common = line["_aws"]["CloudWatchMetrics"]
    assert (own["Namespace"], own["Dimensions"]) == ("Stoppress/news", [["service"]])
    assert own["Metrics"] == [
        {"Name": "EventsFailed", "Unit": "Count"},
        {"Name": "RecordingSeconds", "Unit": "Seconds"},
    ]
    assert (common["Dimensions"], common["Metrics"]) == ([[]], [{"Name": "WorkFailed", "Unit": "Count"}])
    assert (line["service"], line["WorkFailed"], line["RecordingSeconds"]) == ("record_article", 3, [0.5, 1.5])


def test_a_line_has_no_more_values_than_the_format_allows(printed: Publish) -> None:
    [line] = printed({"WritingSeconds": [1.0] * (VALUES_MAX + 1)})

    assert len(line["WritingSeconds"]) == VALUES_MAX


def test_without_a_dashboard_only_metrics_of_alarms_are_reported(printed: Publish) -> None:
    counted: dict[str, Value] = {"EventsListed": 2, "EventsFailed": 3, "WorkFailed": 3}

    [line] = printed(counted, dashboard="no")
    [plain] = printed({"EventsListed": 2}, dashboard="no")

    groups = line["_aws"]["CloudWatchMetrics"]
    assert [metric["Name"] for group in groups for metric in group["Metrics"]] == ["WorkFailed"]
    assert counted.items() <= line.items()
    assert (plain["message"], plain["EventsListed"], "_aws" in plain) == ("counts", 2, False)
