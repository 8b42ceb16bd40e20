"""`stoppress play`: plays a scenario on a local stack."""

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from stoppress_cli.local.functions import environment, no_aws_settings
from stoppress_cli.options import HERE, Commands, Log, Template
from stoppress_cli.output import ATTENTION, OK, console, errors, fail

if TYPE_CHECKING:
    from stoppress_cli.local.stack import Stack
    from stoppress_cli.scenario.file import Line
    from stoppress_cli.scenario.report import Report

app = Commands()


@app.command(effect=HERE, example="stoppress play tests/scenarios/publish.jsonl")
def play(
    scenario: Annotated[Path, typer.Argument(help="Scenario file: JSON Lines, one step a line.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder that `save` steps write into.")] = Path("out"),
    log: Log = None,
    template: Template = None,
) -> None:
    """Play a scenario on a local stack of its own, and report.

    The clock is the scenario's. Nothing leaves this machine. Exit code 0: all expectations hold; 1: some do not; 2: the
    scenario cannot be read, or a step cannot be done.
    """
    began = time.perf_counter()
    with on_this_machine():
        from stoppress_cli.local.stack import Stack
        from stoppress_cli.local.template import find
        from stoppress_cli.scenario.file import read
        from stoppress_cli.scenario.player import playing

        try:
            lines = read(scenario)
            with (
                open_log(log) as file,
                Stack(find(template), log=file, start=lines[0].at) as stack,
                playing(stack, scenario, out, print_step) as player,
            ):
                player.play(lines)
                print_report(stack, player.report, time.perf_counter() - began)
        except OSError as error:
            fail(f"{error}; name another place with --log or --out")
    print_failures(player.report)
    raise typer.Exit(ATTENTION if player.report.failures else OK)


@contextlib.contextmanager
def on_this_machine() -> Iterator[None]:
    """Hide the user's AWS settings, which moto reads when it is imported. Print an error of the local stack, and exit with FAILED."""
    with environment(no_aws_settings()):
        from stoppress_cli.local.sources import EndlessLoopError
        from stoppress_cli.local.template import TemplateError
        from stoppress_cli.scenario.file import ScenarioError
        from stoppress_cli.serving import PortInUse

        try:
            yield
        except (ScenarioError, TemplateError, EndlessLoopError, PortInUse) as error:
            fail(error)


def open_log(log: Path | None) -> contextlib.AbstractContextManager[TextIO | None]:
    """Open the file of --log for writing; None without the option."""
    return contextlib.nullcontext() if log is None else log.open("w", encoding="utf-8")


def print_step(line: "Line", text: str) -> None:
    """Print a step of a scenario on one line."""
    console.print(f"{line.number:>5}  {line.at:%Y-%m-%d %H:%M:%S}  {line.kind:<6}  {text}")


def print_report(stack: "Stack", report: "Report", seconds: float) -> None:
    """Print the counts at the end of a run."""
    console.print()
    for name, text in report.rows(stack, seconds).items():
        console.print(f"{name:<10} {text}")


def print_failures(report: "Report") -> None:
    """Print the expectations that do not hold."""
    for failure in report.failures:
        errors.print(failure, style="red")
