"""How the commands print and end: text as it is, as wide as the terminal or COLUMNS says, and three exit codes."""

import json
import os
import sys
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal, NoReturn

import typer
from rich.console import Console
from rich.table import Table

from stoppress.primitives.instants import iso
from stoppress.primitives.text import encodable

# Exit codes. Each command's help says what OK and ATTENTION mean there.
OK = 0
# The command worked, and its result asks for attention: a difference, a finding, an item that stays.
ATTENTION = 1
# The command could not do its work.
FAILED = 2
# Width of tables where neither a terminal nor COLUMNS gives one.
WIDTH_PIPED_COLUMNS = 200


def text_console(*, stderr: bool = False) -> Console:
    """A console that prints text of other people as it is: brackets are no markup, `:word:` is no emoji."""
    is_known = (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ
    width = None if is_known else WIDTH_PIPED_COLUMNS
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


console = text_console()
errors = text_console(stderr=True)


def print_json(value: object, indent: int = 2) -> None:
    """Prints a value as JSON. A lone surrogate has no UTF-8 form and is printed as `?`."""
    text = json.dumps(value, ensure_ascii=False, indent=indent, default=json_form)
    console.print(encodable(text))


def json_form(value: Any) -> Any:
    """Return the form of an instant, or of a dataclass, in JSON."""
    return (
        iso(value) if isinstance(value, datetime) else {part.name: getattr(value, part.name) for part in fields(value)}
    )


def print_answer(value: object, lines: Iterable[str], *, as_json: bool) -> None:
    """Print the answer of a command: with --json the value, else the lines."""
    if as_json:
        print_json(value)
        return
    for line in lines:
        console.print(line)


def print_rows(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> None:
    """Print a table as wide as the terminal. None is an empty cell."""
    table = Table(*headings, box=None, padding=(0, 2, 0, 0))
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    text_console().print(table, soft_wrap=False)


def fail(reason: object) -> NoReturn:
    """Print why the command cannot do its work, and exit with FAILED."""
    errors.print(f"stoppress: {reason}")
    raise typer.Exit(FAILED)


@dataclass(frozen=True)
class Check:
    """The result of one check. `fix` says how to mend a fault. A note may be intended, and has no fix."""

    check: str
    outcome: Literal["ok", "note", "fault", "unknown"]
    text: str
    fix: str = ""


def print_checks(checks: Iterable[Check], *, as_json: bool) -> set[str]:
    """Print checks as they are made, or together as JSON. Return their outcomes."""
    results = []
    for check in checks:
        results.append(check)
        if not as_json:
            fix = f"; {check.fix}" if check.fix else ""
            console.print(f"{check.outcome:<8} {check.check}: {check.text}{fix}")
    if as_json:
        print_json([asdict(check) for check in results])
    return {check.outcome for check in results}


def printer(*, as_json: bool) -> Callable[[str], None]:
    """A function that prints a line of text. With --json it prints to standard error: standard output is for the JSON."""
    return errors.print if as_json else console.print


def confirmed(question: str, *, yes: bool, as_json: bool) -> bool:
    """Whether the user agrees. With `yes` the user is not asked. With --json the question goes to standard error."""
    return yes or typer.confirm(question, err=as_json)


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 file`, `2 files`, `1,000 entries`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def iso_or_none(instant: datetime | None) -> str | None:
    """An instant in ISO 8601 and UTC; None without one."""
    return iso(instant) if instant else None


def at(instant: datetime | None) -> str:
    """An instant for people, in UTC; `at once` for None."""
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC" if instant else "at once"


def ago(instant: datetime | None, now: datetime) -> str:
    """An instant for people, and how long ago it was; `never` for None."""
    return f"{at(instant)} ({age(instant, now)} ago)" if instant else "never"


def age(instant: datetime, now: datetime) -> str:
    """The time since an instant: `3 minutes`, `2 hours`, `5 days`. An instant that another clock set ahead is 0 minutes old."""
    since, hour, day = max(now - instant, timedelta()), timedelta(hours=1), timedelta(days=1)
    unit, name = (day, "day") if since >= 2 * day else (hour, "hour") if since >= 2 * hour else (hour / 60, "minute")
    return counted(since // unit, name)
