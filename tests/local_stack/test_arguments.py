"""What the command line answers to arguments that cannot be used: a sentence and exit code 2, never a traceback."""

from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoppress_cli.app import app

SCENARIO = '{"at": "2026-11-20T08:00:00Z", "secret": {"name": "newsroom", "value": "whsec_c3RvcHByZXNz"}}\n'


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--dynamodb", "nonsense"], "is no URL; give one such as http://127.0.0.1:8001"),
        (["--log", "nowhere/log"], "name another place with --log or --out"),
        (["--out", "one.jsonl"], "is a file"),
    ],
)
def test_an_argument_of_play_that_cannot_be_used_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str], arguments: list[str], said: str
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("one.jsonl").write_text(SCENARIO)
    answer = CliRunner().invoke(app, ["play", "one.jsonl", *arguments])

    assert (answer.exit_code, answer.exception.__class__) == (2, SystemExit)
    assert said in answer.output + capfd.readouterr().err


def test_a_port_that_cannot_be_is_refused() -> None:
    answer = CliRunner().invoke(app, ["demo", "--port", "99999"])

    assert answer.exit_code == 2
