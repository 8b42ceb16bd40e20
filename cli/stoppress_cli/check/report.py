"""The report of `check` and `doctor`: groups of findings, the most severe first, as text, JSON, CSV or a page of HTML."""

import csv
import io
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap
from typing import Literal

from rich.text import Text

from stoppress.primitives.text import encodable
from stoppress_cli.check.findings import Finding, Findings
from stoppress_cli.output import is_json, print_answer, printing_json, state, text_console

EXAMPLES_MAX = 3
_STATE_WIDTH = len("not checked ")
_PAGE = Path(__file__).with_name("report.html")
# HTML is one file without references to others.
Format = Literal["text", "json", "csv", "html"]
# The last line of a report, its JSON, and rows with the same keys: the lines of CSV and of the table in HTML.
Ending = tuple[str, object, Sequence[dict[str, object]]]


@dataclass(frozen=True)
class Group:
    """The findings of one kind. `examples` are some of the `count` sentences; `fix` applies to all."""

    state: str
    title: str
    examples: Sequence[str] = ()
    count: int = 1
    fix: str = ""

    @property
    def heading(self) -> str:
        return f"{self.count:,} × {self.title}" if self.examples else self.title

    @property
    def shown(self) -> list[str]:
        """Return the examples, and the number of others."""
        more = self.count - len(self.examples) if self.examples else 0
        return [*self.examples, *([f"and {more:,} more"] if more else [])]


def group_findings(findings: Findings) -> list[Group]:
    """Return a group for each rule that was broken: errors first, then the most frequent."""
    by_rule: defaultdict[str, list[Finding]] = defaultdict(list)
    for finding in findings:
        by_rule[finding.rule.name].append(finding)
    counts = sorted(findings.counts().items(), key=lambda item: (item[0].severity != "error", -item[1]))
    groups = []
    for rule, count in counts:
        examples = [f"{finding.where}: {finding.fault}" for finding in by_rule[rule.name][:EXAMPLES_MAX]]
        title = f"{rule.id} {rule.name}: {rule.text} ({rule.source})"
        groups.append(Group(rule.severity, title, examples, count, rule.fix))
    return groups


def print_report(title: str, groups: Iterable[Group], end: Callable[[], Ending], form: Format) -> None:
    """Print a report, as text group by group as they come; `end` is called after the last. The option --json turns text into JSON."""
    if form == "text" and not is_json.get():
        are_groups = False
        for group in groups:
            are_groups = True
            print_answer(None, lines_of(group))
        print_answer(None, [*([""] if are_groups else []), end()[0]])
        return
    groups = list(groups)
    summary, value, rows = end()
    table = [["" if cell is None else str(cell) for cell in cells] for cells in [*rows[:1], *map(dict.values, rows)]]
    if form == "csv":
        text_console().print(_csv(table), end="")
    elif form == "html":
        from jinja2 import Template  # the other forms need no template

        page = Template(_PAGE.read_text(encoding="utf-8"), autoescape=True, keep_trailing_newline=True)
        text_console().print(encodable(page.render(title=title, summary=summary, groups=groups, table=table)), end="")
    else:
        with printing_json(as_json=True):
            print_answer(value, ())


def lines_of(group: Group) -> Iterator[Text]:
    """Return the lines of a group, as wide as the terminal. Lines break only between words."""
    width, start = text_console().width - _STATE_WIDTH, state(group.state)
    fix = [f"fix: {group.fix}"] if group.fix else []
    for line in [group.heading, *(f"  {line}" for line in [*group.shown, *fix])]:
        printable = "".join(sign if sign.isprintable() else "?" for sign in line)
        for piece in wrap(printable, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False):
            start.pad_right(_STATE_WIDTH - len(start))
            yield start + piece
            start = Text()


def _csv(table: Iterable[Iterable[str]]) -> str:
    """Return rows as CSV. A cell that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    for row in table:
        writer.writerow(f"'{cell}" if cell[:1] in {"=", "+", "-", "@", "\t", "\r"} else cell for cell in row)
    return encodable(text.getvalue())
