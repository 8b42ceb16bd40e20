"""How the commands print and end: text as it is, as wide as the terminal or COLUMNS says, and three exit codes."""

import json
import os
import sys
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal, NoReturn

import typer
from rich.console import Console, RenderableType
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
    """Return a console that prints text of other people as it is: brackets are no markup, `:word:` is no emoji."""
    is_known = (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ
    width = None if is_known else WIDTH_PIPED_COLUMNS
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


console = text_console()
errors = text_console(stderr=True)


# Whether the running command has the option --json.
_as_json: ContextVar[bool] = ContextVar("as_json", default=False)


@contextmanager
def printing_json(*, as_json: bool) -> Iterator[None]:
    """Print the answers in the block as JSON, if `as_json`. Other lines then go to standard error."""
    token = _as_json.set(as_json)
    try:
        yield
    finally:
        _as_json.reset(token)


def is_json() -> bool:
    """Return True if the running command prints JSON."""
    return _as_json.get()


def print_answer(value: object, lines: Iterable[RenderableType]) -> None:
    """Print the answer of a command: with --json the value, else lines and tables."""
    as_wide_as_now = text_console()
    for line in [json_of(value)] if _as_json.get() else lines:
        as_wide_as_now.print(line, soft_wrap=not isinstance(line, Table))


def json_of(value: object) -> str:
    """Return a value as JSON that can be printed. A lone surrogate has no UTF-8 form and becomes `?`."""
    return encodable(json.dumps(value, ensure_ascii=False, indent=2, default=json_form))


def json_form(value: Any) -> Any:
    """Return the form of an instant, or of a dataclass, in JSON."""
    if isinstance(value, datetime):
        return iso(value)
    return {part.name: getattr(value, part.name) for part in fields(value)}


def end(value: object, lines: Iterable[RenderableType] = (), *, is_ok: bool) -> NoReturn:
    """End a command: print its answer, and exit with OK or ATTENTION."""
    print_answer(value, lines)
    raise typer.Exit(OK if is_ok else ATTENTION)


def show(line: str) -> None:
    """Print a line of text on the way to an answer; with --json to standard error."""
    (errors if _as_json.get() else console).print(line)


def agrees(question: str, *, yes: bool, dry_run: bool = False) -> bool:
    """Return True if the user agrees. The user is not asked with `yes`, or in a dry run. With --json standard error has the question."""
    return not dry_run and (yes or typer.confirm(question, err=_as_json.get()))


def table_of(headings: Iterable[str], rows: Iterable[Iterable[object]]) -> Table:
    """Return a table for `print_answer`, as wide as the terminal. None is an empty cell."""
    names = tuple(headings)
    table = Table(box=None, padding=(0, 2, 0, 0), show_header=any(names))
    for name in names:
        table.add_column(name, overflow="fold")
    for row in rows:
        table.add_row(*("" if cell is None else str(cell) for cell in row))
    return table


def fail(reason: object) -> NoReturn:
    """Print why the command cannot do its work, and exit with FAILED."""
    errors.print(f"stoppress: {reason}")
    raise typer.Exit(FAILED)


@dataclass(frozen=True)
class Check:
    """The result of one check. `fix` shows how to mend a fault. A hint is advice, or may be intended."""

    check: str
    outcome: Literal["ok", "hint", "fault", "not checked", "unknown"]
    text: str
    fix: str = ""


def print_checks(checks: Iterable[Check]) -> set[str]:
    """Print checks as they are made, or together as JSON. Return their outcomes."""
    results = []
    for check in checks:
        results.append(check)
        if not _as_json.get():
            fix = f"; {check.fix}" if check.fix else ""
            console.print(f"{check.outcome:<8} {check.check}: {check.text}{fix}")
    if _as_json.get():
        print_answer(results, [])
    return {check.outcome for check in results}


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 file`, `2 files`, `1,000 entries`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def iso_or_none(instant: datetime | None) -> str | None:
    """Return an instant in ISO 8601 and UTC; None without one."""
    return iso(instant) if instant else None


def at(instant: datetime | None) -> str:
    """Return an instant for people, in UTC; `at once` for None."""
    return f"{instant:%Y-%m-%d %H:%M:%S} UTC" if instant else "at once"


def ago(instant: datetime | None, now: datetime) -> str:
    """Return an instant for people, and how long ago it was; `never` for None."""
    return f"{at(instant)} ({age(instant, now)} ago)" if instant else "never"


def age(instant: datetime, now: datetime) -> str:
    """Return the time since an instant: `3 minutes`, `2 hours`, `5 days`. An instant that another clock set ahead is 0 minutes old."""
    since, hour, day = max(now - instant, timedelta()), timedelta(hours=1), timedelta(days=1)
    unit, name = (day, "day") if since >= 2 * day else (hour, "hour") if since >= 2 * hour else (hour / 60, "minute")
    return counted(since // unit, name)
