"""The page of metrics and alarms lists exactly those of the template and the functions."""

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from stoppress.aws.metrics import OF_THE_STACK, WATCHED
from stoppress_cli.local import template
from tests.docs.pages import ROOT, table_rows, text_of

PAGE = text_of("docs/reference/metrics-and-alarms.md")
STACK = template.load(ROOT / "template.yaml")
ALARMS = {name: item for name, item in STACK.resources.items() if item["Type"] == "AWS::CloudWatch::Alarm"}
FUNCTIONS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))
METRIC = re.compile(
    r"(?:Audits|Due|Engines|Webhooks|Hubs|Pages|Pushes|Feeds|Entries|Events|Files|Articles|Sites|Objects|Marks|Places|Drift|Work|Needs|Recording|Writing)"
    r"(?:[A-Z][a-z]+)+"
)
# Metrics that AWS documents, of the services that the stack uses.
OF_AWS = {
    "AWS/ApiGateway": {"4xx", "5xx"},
    "AWS/DynamoDB": {"ConsumedReadCapacityUnits", "ConsumedWriteCapacityUnits"},
    "AWS/Lambda": {"AsyncEventsReceived", "Errors", "Invocations", "IteratorAge"},
    "AWS/SQS": {
        "ApproximateAgeOfOldestMessage",
        "ApproximateNumberOfMessagesNotVisible",
        "ApproximateNumberOfMessagesVisible",
        "NumberOfMessagesSent",
    },
}
DIMENSION = {
    "AWS/ApiGateway": "ApiId",
    "AWS/DynamoDB": "TableName",
    "AWS/Lambda": "FunctionName",
    "AWS/SQS": "QueueName",
}


def names_in(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def first_cells(heading: str) -> list[str]:
    return [name for row in table_rows(PAGE, heading) for name in names_in(row[0])]


METRICS = set(first_cells("| metric | function | counts |"))


def nodes_of(function: str) -> Iterator[ast.AST]:
    """Yield the code of a function's handler and of the project's modules that it imports."""
    handler = ROOT / "functions" / function / "app.py"
    tree = ast.parse(handler.read_text(encoding="utf-8"))
    imported = [
        Path(*f"{node.module}.{name}".split(".")).with_suffix(".py")
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("stoppress")
        for name in ("", *(alias.name for alias in node.names))
    ]
    yield from ast.walk(tree)
    for path in {ROOT / "shared" / path for path in imported}:
        if path.is_file() and path.stem != "metrics":  # contains names of metrics, and counts none
            yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def counted_metrics(function: str) -> tuple[set[str], set[str]]:
    """Return the metrics that a function counts, and the prefixes of those whose names end in an outcome."""
    names: set[str] = set()
    beginnings: set[str] = set()
    for node in nodes_of(function):
        match node:
            case ast.Constant(value=str(text)) | ast.keyword(arg=str(text)) if METRIC.fullmatch(text):
                names.add(text)
            case ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]) if text in ("Webhooks", "Events", "Files"):
                beginnings.add(text)
    return names, beginnings


def outcomes(function: str) -> set[str]:
    """Return the outcomes that a function's code creates."""
    calls = [node for node in nodes_of(function) if isinstance(node, ast.Call) and isinstance(node.func, ast.Name)]
    words = [call.args[0] for call in calls if call.args and getattr(call.func, "id", "").endswith("Outcome")]
    return {str(word.value) for word in words if isinstance(word, ast.Constant)}


def test_every_alarm_has_a_row_and_every_row_is_an_alarm() -> None:
    assert sorted(first_cells("| alarm | meaning | what to do |")) == sorted(ALARMS)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_metrics_of_a_function_are_those_that_it_counts(function: str) -> None:
    rows = [row for row in table_rows(PAGE, "| metric | function | counts |") if function in row[1].split(", ")]
    listed = {name for row in rows for name in names_in(row[0])}
    names, beginnings = counted_metrics(function)
    by_outcome = {name for name in listed if any(name.startswith(begin) for begin in beginnings)} - names

    assert names | beginnings
    assert listed - by_outcome == names
    assert bool(by_outcome) == bool(beginnings)


def test_every_outcome_of_recording_is_explained_and_counted_under_its_name() -> None:
    explained = set(first_cells("| outcome | meaning |"))

    assert outcomes("record_article")
    assert outcomes("record_article") <= explained
    assert {f"Events{word.capitalize()}" for word in explained} | {"EventsReceived"} == {
        name for name in METRICS if name.startswith("Events")
    }


def alarm_metrics() -> Iterator[tuple[str, str, dict[str, str]]]:
    """Yield namespace, name and dimensions of each metric in an alarm."""
    for alarm in ALARMS.values():
        parts = [
            part["MetricStat"]["Metric"] for part in alarm["Properties"].get("Metrics", []) if "MetricStat" in part
        ]
        for metric in parts or [alarm["Properties"]]:
            namespace = metric["Namespace"]
            text = namespace if isinstance(namespace, str) else namespace["Fn::Sub"]
            yield text, metric["MetricName"], {item["Name"]: item["Value"] for item in metric.get("Dimensions", [])}


def dashboard_metrics() -> Iterator[tuple[str, str, dict[str, str]]]:
    body = STACK.resources["Overview"]["Properties"]["DashboardBody"]["Fn::Sub"]
    for widget in json.loads(body)["widgets"]:
        for metric in widget["properties"]["metrics"]:
            match [part for part in metric if isinstance(part, str)]:
                case [namespace, name, *dimensions]:
                    yield namespace, name, dict(zip(dimensions[::2], dimensions[1::2], strict=True))
                case _:
                    assert "expression" in metric[0]


WATCHED_BY_ALARMS = list(alarm_metrics())
SHOWN = [*WATCHED_BY_ALARMS, *dashboard_metrics()]


@pytest.mark.parametrize(("namespace", "name", "dimensions"), SHOWN)
def test_each_metric_of_an_alarm_or_dashboard_is_reported(
    namespace: str, name: str, dimensions: dict[str, str]
) -> None:
    if namespace == "Stoppress/${AWS::StackName}":
        [functions] = [
            row[1].split(", ") for row in table_rows(PAGE, "| metric | function | counts |") if name in names_in(row[0])
        ]
        assert dimensions == ({} if name in OF_THE_STACK else {"service": functions[0]})
    else:
        assert name in OF_AWS[namespace]
        assert list(dimensions) == [DIMENSION[namespace]]
        for resource in re.findall(r"\$\{(\w+)", str(dimensions)):
            assert resource in STACK.resources


def test_the_dashboard_shows_each_metric_that_an_alarm_watches() -> None:
    shown_of_ours = {name for namespace, name, _ in SHOWN if namespace.startswith("Stoppress")}
    assert shown_of_ours >= {*OF_THE_STACK, "FeedsFailing"}


def test_without_a_dashboard_the_metrics_are_those_of_the_alarms() -> None:
    assert {name for namespace, name, _ in WATCHED_BY_ALARMS if namespace.startswith("Stoppress")} == set(WATCHED)
