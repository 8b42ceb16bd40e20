"""docs/how-to/why-is-a-story-missing.md: the commands print what the page shows."""

import re
import shlex
from pathlib import Path
from typing import get_args

from stoppress.show.reasons import Kind
from stoppress_cli.commands.explain import as_lines
from tests.cli.test_explain import answer, event
from tests.docs.pages import DOCS, table_rows
from tests.support.operated import HOST
from tests.support.printed import as_text

PAGE = DOCS / "how-to/why-is-a-story-missing.md"
MADE = [
    event(1, "1", "news/harbour", published_at="2026-11-21T05:00:00Z"),
    event(2, "2", "news/bridge"),
    event(3, "3", "news/market", title=""),
    event(4, "3", "news/market", published_at=None),
]


def shown() -> list[tuple[list[str], str]]:
    """Return the arguments of each `stoppress explain` in the page, and its output."""
    blocks = re.findall(r"^```console\n(.*?)^```$", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    commands = [part for block in blocks for part in re.split(r"^\$ stoppress explain ", block, flags=re.MULTILINE)[1:]]
    return [(shlex.split(line), output) for line, output in (command.split("\n", 1) for command in commands)]


def test_each_command_prints_what_the_page_shows(tmp_path: Path) -> None:
    for (target, *options), output in shown():
        assert options in ([], ["--site", HOST])
        assert as_text(as_lines(answer(MADE, target, tmp_path))) == output


def test_every_kind_of_reason_has_a_row() -> None:
    rows = table_rows(PAGE.read_text(encoding="utf-8"), "| kind | the story appears when |")

    assert [kind for kind, _ in rows] == list(get_args(Kind))
