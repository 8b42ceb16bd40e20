"""What long and endless commands print: a bar only on a terminal, and lines that break between words."""

from io import StringIO

import pytest
from rich.console import Console
from rich.text import Text

from stoppress_cli import output
from stoppress_cli.output import print_line, printing_json, track

LINE = "2026-11-20 12:00:00 +01:00  cms  valid  listed  Flood closes the harbour  https://www.example.com/" + "a" * 90


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_with_numbers_is_on_standard_error_and_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_terminal: bool
) -> None:
    printed = StringIO()
    monkeypatch.setattr(output, "errors", Console(file=printed, force_terminal=is_terminal, width=80))
    assert list(track("abc", "files")) == ["a", "b", "c"]
    assert ("files" in printed.getvalue()) == is_terminal
    assert capsys.readouterr().out == ""


@pytest.mark.parametrize("columns", [80, 120, None])
def test_a_line_is_broken_between_words_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], columns: int | None
) -> None:
    printed = StringIO()
    if columns:
        terminal = Console(file=printed, force_terminal=True, width=columns, soft_wrap=True, highlight=False)
        monkeypatch.setattr(output, "text_console", lambda: terminal)
    print_line({}, Text(LINE))
    rows = (printed.getvalue() or capsys.readouterr().out).splitlines()
    assert " ".join(" ".join(rows).split()) == " ".join(LINE.split())
    assert (len(rows) > 1) == (columns is not None)
    assert all(len(row) <= columns or " " not in row.strip() for row in rows if columns)


def test_an_endless_answer_in_json_has_a_line_for_each_value(capsys: pytest.CaptureFixture[str]) -> None:
    with printing_json(as_json=True):
        print_line({"title": "Zoë\ud800"}, Text("a"))
    assert capsys.readouterr().out == '{"title": "Zoë?"}\n'
