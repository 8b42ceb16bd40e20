"""The output of long and endless commands: a bar only on a terminal, and a line of JSON for each answer."""

from io import StringIO

import pytest
from rich.console import Console

from stoppress_cli import output
from stoppress_cli.output import print_answer, printing_json, track


@pytest.mark.parametrize("is_terminal", [True, False])
def test_a_bar_with_numbers_is_on_standard_error_and_only_on_a_terminal(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], *, is_terminal: bool
) -> None:
    printed = StringIO()
    monkeypatch.setattr(output, "errors", Console(file=printed, force_terminal=is_terminal, width=80))
    assert list(track("abc", "files")) == ["a", "b", "c"]
    assert ("files" in printed.getvalue()) == is_terminal
    assert capsys.readouterr().out == ""


def test_an_endless_answer_in_json_has_a_line_for_each_value(capsys: pytest.CaptureFixture[str]) -> None:
    with printing_json(as_json=True):
        print_answer({"title": "Zoë\ud800"}, ["a"], indent=None)
    assert capsys.readouterr().out == '{"title": "Zoë?"}\n'
