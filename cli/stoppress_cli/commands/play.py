import contextlib
import time
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, TextIO

import typer

from stoppress_cli.commands.exit_codes import ATTENTION, FAILED, OK
from stoppress_cli.commands.options import Log, Template
from stoppress_cli.local.functions import environment, no_aws_settings
from stoppress_cli.printing import console, errors

if TYPE_CHECKING:
    from stoppress_cli.local.stack import Stack
    from stoppress_cli.scenario.file import Line
    from stoppress_cli.scenario.report import Report


def play(
    scenario: Annotated[Path, typer.Argument(help="Scenario file: JSON Lines, one step a line.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder that `save` steps write into.")] = Path("out"),
    log: Log = None,
    dynamodb: Annotated[
        str | None,
        typer.Option("--dynamodb", help="URL of a DynamoDB endpoint, such as DynamoDB Local's.", show_default=False),
    ] = None,
    template: Template = None,
) -> None:
    """Play a scenario on a local stack of its own, and report.

    The clock is the scenario's. Nothing leaves this machine. Exit code 0: all expectations hold; 1: some do not; 2: the
    scenario cannot be read, or a step cannot be done.
    """
    began = time.perf_counter()
    if dynamodb is not None and not dynamodb.startswith(("http://", "https://")):
        errors.print(f"stoppress: --dynamodb {dynamodb!r} is no URL; give one such as http://127.0.0.1:8001")
        raise typer.Exit(FAILED)
    with environment(no_aws_settings()):  # moto reads the AWS settings when it is imported
        from botocore.exceptions import EndpointConnectionError

        from stoppress_cli.local.sources import EndlessLoopError
        from stoppress_cli.local.stack import Stack
        from stoppress_cli.local.template import TemplateError, find
        from stoppress_cli.scenario.file import ScenarioError, read
        from stoppress_cli.scenario.player import playing

        try:
            lines = read(scenario)
            with (
                open_log(log) as file,
                Stack(find(template), dynamodb_url=dynamodb, log=file, start=lines[0].at) as stack,
                playing(stack, scenario, out, print_step) as player,
            ):
                player.play(lines)
                print_report(stack, player.report, time.perf_counter() - began)
        except (ScenarioError, TemplateError, EndlessLoopError) as error:
            text = str(error)
        except OSError as error:
            text = f"{error}; name another place with --log or --out"
        except EndpointConnectionError as error:
            text = f"{error}; start it, or play without --dynamodb"
        else:
            print_failures(player.report)
            raise typer.Exit(ATTENTION if player.report.failures else OK)
    errors.print(f"stoppress: {text}")
    raise typer.Exit(FAILED)


def open_log(log: Path | None) -> contextlib.AbstractContextManager[TextIO | None]:
    """The file of --log, opened for writing; None without the option."""
    return contextlib.nullcontext() if log is None else log.open("w", encoding="utf-8")


def print_step(line: "Line", text: str) -> None:
    """Prints a step of a scenario on one line."""
    console.print(f"{line.number:>5}  {line.at:%Y-%m-%d %H:%M:%S}  {line.kind:<6}  {text}")


def print_report(stack: "Stack", report: "Report", seconds: float) -> None:
    """Prints the counts at the end of a run."""
    console.print()
    for name, text in report.rows(stack, seconds).items():
        console.print(f"{name:<10} {text}")


def print_failures(report: "Report") -> None:
    """Prints the expectations that do not hold."""
    for failure in report.failures:
        errors.print(failure, style="red")
