"""`stoppress play`: plays a scenario on a local stack."""

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from stoppress_cli.local.process import environment, no_aws_settings
from stoppress_cli.options import HERE, Commands, Log, Template
from stoppress_cli.output import ATTENTION, OK, console, errors, fail

if TYPE_CHECKING:
    from stoppress_cli.scenario.file import Line
    from stoppress_cli.scenario.player import Player

app = Commands()


@app.command(effect=HERE, has_json=False, example="stoppress play tests/scenarios/publish.jsonl")
def play(
    scenario: Annotated[Path, typer.Argument(help="Scenario file in JSON Lines, with one step per line.")],
    out: Annotated[Path, typer.Option(file_okay=False, help="Folder that `save` steps write into.")] = Path("out"),
    log: Log = None,
    template: Template = None,
) -> None:
    """Play a scenario on a new local stack with the scenario's clock, and print a report.

    Exit code 1: an expectation of the scenario was not met.
    """
    began = time.perf_counter()
    try:
        with open_player(scenario, log, template, out) as (player, lines):
            player.play(lines)
            print_report(player, time.perf_counter() - began)
    except OSError as error:
        fail(f"{error}; name another place with --log or --out")
    print_failures(player.failures)
    raise typer.Exit(ATTENTION if player.failures else OK)


@contextlib.contextmanager
def open_player(
    scenario: Path | None,
    log: Path | None,
    template: Path | None,
    out: Path = Path("out"),
    read_lines: "Callable[[Path], list[Line]] | None" = None,
) -> "Iterator[tuple[Player, list[Line]]]":
    """Start a local stack. Yield its player, and the scenario's lines; without a scenario, the stack has the template's first site.

    The user's AWS settings, which moto reads when it is imported, are hidden meanwhile. An error of the local stack is printed, and
    the command exits with FAILED.
    """
    with environment(no_aws_settings()):
        from stoppress_cli.local.event_sources import EndlessLoopError
        from stoppress_cli.local.stack import Stack
        from stoppress_cli.local.template import TemplateError, find
        from stoppress_cli.scenario.file import ScenarioError, read
        from stoppress_cli.scenario.player import playing
        from stoppress_cli.serving import PortInUse

        show = _print_step if read_lines is None else lambda line, text: None
        try:
            lines = (read_lines or read)(scenario) if scenario else []
            with (
                contextlib.nullcontext() if log is None else log.open("w", encoding="utf-8") as file,
                Stack(
                    find(template), first_site=scenario is None, log=file, start=lines[0].at if lines else None
                ) as stack,
                playing(stack, scenario or Path.cwd(), out, show) as player,
            ):
                yield player, lines
        except (ScenarioError, TemplateError, EndlessLoopError, PortInUse) as error:
            fail(error)


def _print_step(line: "Line", text: str) -> None:
    console.print(f"{line.number:>5}  {line.at:%Y-%m-%d %H:%M:%S}  {line.kind:<6}  {text}")


def print_report(player: "Player", seconds: float) -> None:
    console.print()
    for name, text in player.rows(seconds).items():
        console.print(f"{name:<10} {text}")


def print_failures(failures: list[str]) -> None:
    for failure in failures:
        errors.print(failure, style="red")
