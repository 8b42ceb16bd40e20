"""The page of metrics and alarms has what the template and the functions have, and no more."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.deployment.test_deployment import STACK
from tests.docs.pages import ROOT, table_rows, text_of

PAGE = text_of("docs/reference/metrics-and-alarms.md")
ALARMS = {name: each for name, each in STACK.resources.items() if each["Type"] == "AWS::CloudWatch::Alarm"}
FUNCTIONS = sorted(path.parent.name for path in (ROOT / "functions").glob("*/app.py"))
METRIC = re.compile(
    r"(?:Webhooks|Hubs|Pushes|Feeds|Entries|Events|Files|Articles|Sites|Objects|Marks|Places|Drift)(?:[A-Z][a-z]+)+"
)


def names_in(cell: str) -> list[str]:
    return re.findall(r"`(\w+)`", cell)


def first_cells(heading: str) -> list[str]:
    return [name for row in table_rows(PAGE, heading) for name in names_in(row[0])]


METRICS = set(first_cells("| metric | function | counts |"))


def nodes_of(function: str) -> Iterator[ast.AST]:
    """The code of a function's handler and of the modules of ours that it imports."""
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
        if path.is_file():
            yield from ast.walk(ast.parse(path.read_text(encoding="utf-8")))


def counted(function: str) -> tuple[set[str], set[str]]:
    """The metrics that a function counts, and the beginnings of those whose names end in an outcome."""
    names: set[str] = set()
    beginnings: set[str] = set()
    for node in nodes_of(function):
        match node:
            case ast.Constant(value=str(text)) | ast.keyword(arg=str(text)) if METRIC.fullmatch(text):
                names.add(text)
            case ast.Call(
                func=ast.Attribute(attr="add_metric"),
                args=[ast.JoinedStr(values=[ast.Constant(value=str(text)), *_]), *_],
            ):
                beginnings.add(text)
    return names, beginnings


def outcomes(function: str) -> set[str]:
    """The outcomes that a function's code names as it makes one."""
    found = set()
    for node in nodes_of(function):
        match node:
            case ast.Call(func=ast.Name(id=str(name)), args=[ast.Constant(value=str(word)), *_]) if name.endswith(
                "Outcome"
            ):
                found.add(word)
    return found


def test_every_alarm_has_a_row_and_every_row_is_an_alarm() -> None:
    assert sorted(first_cells("| alarm | meaning | what to do |")) == sorted(ALARMS)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_metrics_of_a_function_are_those_that_it_counts(function: str) -> None:
    rows = [row for row in table_rows(PAGE, "| metric | function | counts |") if function in row[1].split(", ")]
    listed = {name for row in rows for name in names_in(row[0])}
    names, beginnings = counted(function)
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


def test_an_alarm_on_a_metric_of_ours_names_one_that_is_counted() -> None:
    properties = [alarm["Properties"] for alarm in ALARMS.values()]
    watched = {each["MetricName"] for each in properties if "Stoppress" in str(each["Namespace"])}

    assert watched
    assert watched <= METRICS
