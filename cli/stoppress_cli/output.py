"""How the commands print and end: lines and tables as wide as the terminal or COLUMNS, colours for states, and three exit codes."""

import json
import os
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from datetime import datetime, timedelta
from typing import Any, Literal, NoReturn, TypeAlias, TypeVar
from zoneinfo import ZoneInfo

import typer
from rich.cells import cell_len
from rich.console import Console
from rich.text import Text

from stoppress.primitives.instants import iso, local_time
from stoppress.primitives.text import encodable

# Exit codes. Each command's help explains ATTENTION.
OK = 0
# The command worked, and its result needs attention: a difference, a finding, an item that stays.
ATTENTION = 1
# The command could not do its work.
FAILED = 2
# No line is broken where neither a terminal nor COLUMNS sets a width.
WIDTH_PIPED_COLUMNS = 100_000
# A line is broken between words. An instant is one word.
_WORD = re.compile(r"(\S*\d{4}-\d\d-\d\d \d\d:\d\d:\d\d )?\S+\s*")
GAP_COLUMNS = 2
# The colours of states. Nothing else has a colour.
COLOURS = {
    "green": {"healthy", "applied", "there", "listed", "yes", "ok"},
    "yellow": {"held", "hidden", "ignored", "late", "not polled yet", "not yet applied", "unknown"}
    | {"hint", "not checked", "warning"},
    "red": {"attention", "error", "failing", "fault", "gone", "missing", "no", "quarantined", "refused", "unreadable"},
}

_Item = TypeVar("_Item")


def text_console(*, stderr: bool = False) -> Console:
    """Return a console that prints text verbatim: brackets are no markup, `:word:` is no emoji."""
    has_width = (sys.stderr if stderr else sys.stdout).isatty() or "COLUMNS" in os.environ
    width = None if has_width else WIDTH_PIPED_COLUMNS
    return Console(stderr=stderr, width=width, markup=False, emoji=False, highlight=False, soft_wrap=True)


console = text_console()
errors = text_console(stderr=True)


# Whether the running command has the option --json.
is_json: ContextVar[bool] = ContextVar("is_json", default=False)


@contextmanager
def printing_json(*, as_json: bool) -> Iterator[None]:
    """Print the answers in the block as JSON, if `as_json`. Other lines then go to standard error."""
    token = is_json.set(as_json)
    try:
        yield
    finally:
        is_json.reset(token)


def print_answer(value: object, lines: Iterable["Part"], *, indent: int | None = 2) -> None:
    """Print the answer of a command: with --json the value, in one line if `indent` is None; else lines and tables."""
    out = text_console()
    parts = [verbatim(json_of(value, indent=indent))] if is_json.get() else lines
    for line in lay_out(parts, out.width):
        out.print(line, soft_wrap=True)


def json_of(value: object, *, indent: int | None = 2) -> str:
    """Return a value as JSON that can be printed. A lone surrogate has no UTF-8 form and becomes `?`."""
    return encodable(json.dumps(value, ensure_ascii=False, indent=indent, default=json_form))


def json_form(value: Any) -> Any:
    """Return the form of an instant, or of a dataclass, in JSON."""
    if isinstance(value, datetime):
        return iso(value)
    return {part.name: getattr(value, part.name) for part in fields(value)}


def end(value: object, lines: Iterable["Part"] = (), *, is_ok: bool, is_known: bool = True) -> NoReturn:
    """End a command: print its answer, and exit with OK or ATTENTION; with FAILED if the answer `is_known` in part only."""
    print_answer(value, lines)
    raise typer.Exit(FAILED if not is_known else OK if is_ok else ATTENTION)


def show(part: "Part") -> None:
    """Print a line or a table before the answer; with --json to standard error."""
    out = errors if is_json.get() else console
    for line in lay_out([part], out.width):
        out.print(line)


@contextmanager
def progress(noun: str) -> Iterator[Callable[[int, int | None], None]]:
    """Show a bar with rate and remaining time while the block runs, on standard error and only on a terminal.

    Yield a function that sets how many of `noun` are done, and how many there are; None: unknown.
    """
    from rich.progress import BarColumn, Progress, TextColumn, TimeRemainingColumn  # most commands need none

    texts = TextColumn("{task.completed:,.0f} {task.description}"), TextColumn("{task.fields[rate]}")
    with Progress(
        *texts, BarColumn(), TimeRemainingColumn(), console=errors, disable=not errors.is_terminal, transient=True
    ) as bar:
        task = bar.add_task(noun, total=None, rate="")

        def set_progress(completed: int, total: int | None) -> None:
            bar.update(task, completed=completed, total=total, rate=f"{bar.tasks[0].speed or 0:,.0f}/s")

        yield set_progress


def track(items: Sequence[_Item], noun: str) -> Iterator[_Item]:
    """Yield the items, and show with `progress` how many are done."""
    with progress(noun) as show_progress:
        for number, item in enumerate(items):
            show_progress(number, len(items))
            yield item


def agrees(question: str, *, yes: bool, dry_run: bool = False) -> bool:
    """Return True if the user agrees. The user is not asked with `yes`, or in a dry run. With --json, standard error has the question."""
    return not dry_run and (yes or typer.confirm(question, err=is_json.get()))


# A table's cell; None is empty. A row of cells, or a line of text below the row before.
Cell: TypeAlias = str | Text | int | None
Row: TypeAlias = Sequence[Cell] | Text


@dataclass(frozen=True)
class Table:
    """Rows of cells in columns. Columns of numbers are aligned on the right. Without headings, all of them are empty."""

    headings: Sequence[str]
    rows: Iterable[Row]
    indent: int = 0

    def lay_out(self, width: int) -> Iterator[Text]:
        """Yield the lines of the table. The last column is broken between words, where the table is wider than `width`."""
        rows = [row if isinstance(row, Text) else list(map(_cell, row)) for row in self.rows]
        if any(self.headings):
            rows.insert(0, [Text(name, "bold") for name in self.headings])
        _align_columns([row for row in rows if isinstance(row, list)])
        indent, gap = Text(" " * self.indent), Text(" " * GAP_COLUMNS)
        for row in rows:
            *cells, last = [Text(), row] if isinstance(row, Text) else row
            yield from _flow(indent + gap.join([*cells, Text()]), last, width)


def _align_columns(rows: list[list[Text]]) -> None:
    """Give the cells of each column one width: numbers on the right, and the last column of texts as it is."""
    columns = list(zip(*rows, strict=True))
    for cells in columns:
        is_number = any(cell.justify for cell in cells)
        for cell in cells if is_number or cells is not columns[-1] else ():
            cell.align("right" if is_number else "left", max(other.cell_len for other in cells))


# A part of an answer. A line that begins with blanks keeps them when it is broken.
Part: TypeAlias = str | Text | Table


def fields_of(rows: Mapping[str, Cell], *, indent: int = 2) -> Table:
    """Return names and values below each other, without those whose value is None or empty."""
    return Table(("", ""), [(name, value) for name, value in rows.items() if value or value == 0], indent)


def state(word: str) -> Text:
    """Return the word of a state in the state's colour."""
    return Text.assemble((word, next((colour for colour, words in COLOURS.items() if word in words), "")))


def verbatim(text: str) -> Text:
    """Return text whose lines are not broken, because users copy it or programs read it."""
    return Text(text, no_wrap=True)


def lay_out(parts: Iterable[Part], width: int) -> Iterator[Text]:
    """Yield the lines of an answer, broken between words. Only a word that is too long makes a line wider than `width`."""
    for part in parts:
        if isinstance(part, Table):
            yield from part.lay_out(width)
            continue
        text = _cell(part)
        indent = len(text.plain) - len(text.plain.lstrip(" "))
        yield from [text] if text.no_wrap else _flow(text[:indent], text[indent:], width)


def _cell(cell: Cell) -> Text:
    """Return a cell as text. A number is on the right."""
    if isinstance(cell, int):
        return Text(f"{cell:,}", justify="right")
    return cell.copy() if isinstance(cell, Text) else Text(cell or "")


def _flow(prefix: Text, text: Text, width: int) -> Iterator[Text]:
    """Yield the lines of a text: the first one after the prefix, the others below it. Rich would break or cut a word that is too long."""
    for paragraph in text.split("\n", allow_blank=True):
        breaks, used = [], prefix.cell_len
        for word in _WORD.finditer(paragraph.plain):
            if used > prefix.cell_len and used + cell_len(word[0].rstrip()) > width:
                breaks.append(word.start())
                used = prefix.cell_len
            used += cell_len(word[0])
        for part in paragraph.divide(breaks):
            line = prefix + part
            line.rstrip()
            yield line
            prefix = Text(" " * prefix.cell_len)


def fail(reason: object) -> NoReturn:
    """Print why the command cannot do its work, and exit with FAILED."""
    errors.print(f"stoppress: {reason}")
    raise typer.Exit(FAILED)


@dataclass(frozen=True)
class Check:
    """The result of one check. `fix` shows how to correct a fault. A hint is advice, or may be intended."""

    check: str
    outcome: Literal["ok", "hint", "fault", "not checked", "unknown"]
    text: str
    fix: str = ""


def counted(number: int, noun: str, plural: str = "") -> str:
    """Return `1 file`, `2 files`, `1,000 entries`."""
    return f"{number:,} {noun if number == 1 else plural or f'{noun}s'}"


def ago(instant: datetime | None, now: datetime, zone: ZoneInfo) -> str:
    """Return an instant for people, and how long ago it was; `never` for None."""
    return f"{local_time(instant, zone)} ({age(instant, now)} ago)" if instant else "never"


def age(instant: datetime, now: datetime) -> str:
    """Return the time since an instant: `3 minutes`, `2 hours`, `5 days`. An instant in the future is 0 minutes old."""
    since, hour, day = max(now - instant, timedelta()), timedelta(hours=1), timedelta(days=1)
    unit, name = (day, "day") if since >= 2 * day else (hour, "hour") if since >= 2 * hour else (hour / 60, "minute")
    return counted(since // unit, name)
