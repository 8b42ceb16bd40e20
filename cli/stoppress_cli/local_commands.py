"""`stoppress play` and `stoppress up`: what they do, and what they print."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TextIO

from botocore.exceptions import EndpointConnectionError

from stoppress_cli.commands import DIFFERENT, UNREADABLE, WELL, console, errors, find_template
from stoppress_cli.local import making, queues
from stoppress_cli.local.serving import PortInUse, Server
from stoppress_cli.local.sources import EndlessLoopError
from stoppress_cli.local.stack import Stack
from stoppress_cli.local.template import TemplateError
from stoppress_cli.scenario import player as playing
from stoppress_cli.scenario.file import Line, ScenarioError, read
from stoppress_cli.wording import counted


@contextlib.contextmanager
def opened(log: Path | None) -> Iterator[TextIO | None]:
    """The log file, if one is wanted."""
    if log is None:
        yield None
        return
    with log.open("w", encoding="utf-8") as file:
        yield file


def say_step(line: Line, text: str) -> None:
    """One line a step."""
    console.print(f"{line.number:>5}  {line.at:%Y-%m-%d %H:%M:%S}  {line.kind:<6}  {text}", markup=False)


def play_scenario(scenario: Path, out: Path, log: Path | None, dynamodb: str | None, template: Path | None) -> int:
    """Plays a scenario and prints the report. Returns the exit code."""
    began = time.perf_counter()
    if dynamodb is not None and not dynamodb.startswith(("http://", "https://")):
        errors.print(
            f"stoppress: --dynamodb {dynamodb!r} is no URL; give one such as http://127.0.0.1:8001", markup=False
        )
        return UNREADABLE
    try:
        lines = read(scenario)
        with opened(log) as file, Stack(
            find_template(template), dynamodb_url=dynamodb, log=file, start=lines[0].at
        ) as stack, playing.playing(stack, scenario, out, say_step) as player:  # fmt: skip
            player.play(lines)
            playing.count(stack, player.report)
            print_report(stack, player.report, time.perf_counter() - began)
    except (ScenarioError, TemplateError, EndlessLoopError) as error:
        errors.print(f"stoppress: {error}", markup=False)
        return UNREADABLE
    except OSError as error:  # a log or an output folder that cannot be written
        errors.print(f"stoppress: {error}; name another place with --log or --out", markup=False)
        return UNREADABLE
    except EndpointConnectionError as error:
        errors.print(f"stoppress: {error}; start it, or play without --dynamodb", markup=False)
        return UNREADABLE
    for failure in player.report.failures:
        errors.print(failure, style="red", markup=False)
    return DIFFERENT if player.report.failures else WELL


def print_report(stack: Stack, report: playing.Report, seconds: float) -> None:
    """The counts at the end of a run."""
    meter = stack.wire.meter
    operations = ", ".join(f"{name} {count:,}" for name, count in sorted(meter.operations().items()))
    metrics = ", ".join(f"{name} {value:,g}" for name, value in sorted(stack.metrics.items()))
    rows = {
        "steps": f"{report.steps:,} in {seconds:.1f} s, {counted(len(report.failures), 'difference')}",
        "articles": ", ".join(f"{state} {number:,}" for state, number in sorted(report.articles.items())) or "none",
        "files": ", ".join(f"{host} {number:,}" for host, number in sorted(report.files.items())) or "none",
        "API calls": f"{sum(meter.calls.values()):,}: {operations}" if meter.calls else "none",
        "capacity": f"{meter.write_units:,g} write units, {meter.read_units:,g} read units",
        "S3": f"{meter.s3_bytes_put:,} bytes put, {meter.s3_bytes_got:,} bytes got",
        "metrics": metrics or "none",
    }
    if failed := {name: function.errors for name, function in stack.functions.items() if function.errors}:
        rows["failed"] = ", ".join(f"{name} {counted(number, 'time')}" for name, number in failed.items())
    if reported := {mapping.name: mapping.reported for mapping in stack.sources.mappings() if mapping.reported}:
        rows["retried"] = ", ".join(f"{name} {counted(number, 'record')}" for name, number in reported.items())
    if refused := stack.wire.guard.refused:
        rows["refused"] = f"{counted(len(refused), 'call')}; the first: {refused[0]}"
    if left := [fault for fault in stack.wire.faults if fault.times > 0]:
        rows["faults"] = ", ".join(f"{fault.service}.{fault.operation} {fault.times:,} not met" for fault in left)
    if waiting := waiting_messages(stack):
        rows["queues"] = ", ".join(f"{name} {number:,}" for name, number in waiting.items())
    console.print()
    for name, text in rows.items():
        console.print(f"{name:<10} {text}", markup=False)


def waiting_messages(stack: Stack) -> dict[str, int]:
    """Messages that wait in the queues, by logical name: to be retried, delayed, or dead."""
    found = {
        name: len(queues.queue(resource.arn)._messages)
        for name, resource in stack.resources.items()
        if resource.type == "AWS::SQS::Queue"
    }
    return {name: number for name, number in found.items() if number}


def serve_stack(scenario: Path | None, host: str, port: int, log: Path | None, template: Path | None) -> int:
    """Plays a scenario, if any, and serves until Ctrl-C. Returns the exit code."""
    try:
        lines = read(scenario) if scenario is not None else []
        with opened(log) as file, Stack(
            find_template(template), first_site=scenario is None, log=file, start=lines[0].at if lines else None
        ) as stack, playing.playing(stack, scenario or Path.cwd(), Path("out"), say_step) as player:  # fmt: skip
            server = Server(stack, host, port)
            player.play(lines)
            for failure in player.report.failures:
                errors.print(failure, style="red", markup=False)
            if scenario is None:
                console.print(_first_secret(stack), markup=False)
            console.print(f"serving on {server.url} (files, webhook, AWS endpoint); Ctrl-C ends it", markup=False)
            server.serve()
    except (ScenarioError, TemplateError, EndlessLoopError, PortInUse) as error:
        errors.print(f"stoppress: {error}", markup=False)
        return UNREADABLE
    return WELL


def _first_secret(stack: Stack) -> str:
    [name] = [
        resource.properties["Name"]
        for resource in stack.resources.values()
        if resource.type == "AWS::SecretsManager::Secret" and making.is_given(resource)
    ]
    value = stack.client("secretsmanager").get_secret_value(SecretId=name)["SecretString"]
    return f"webhooks of the first site are signed with {value} (the secret {name})"
