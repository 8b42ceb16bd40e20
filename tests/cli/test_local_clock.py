"""Commands run at the time of the local stack, also after its form has moved the clock."""

import json
import re
import urllib.request
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from urllib.parse import urlencode

import pytest
import urllib3
from typer.testing import CliRunner
from urllib3.exceptions import MaxRetryError

from stoppress_cli.app import app
from stoppress_cli.connect import local
from tests.cli.test_commands_as_typed import HOST, serving


@pytest.mark.parametrize(
    ("headers", "hours_ahead"),
    [
        ({"date": f"{datetime.now(UTC) + timedelta(hours=48):%a, %d %b %Y %H:%M:%S GMT}"}, 48),
        ({"date": f"{datetime.now(UTC):%a, %d %b %Y %H:%M:%S GMT}"}, 0),
        ({"date": "soon"}, 0),
        ({}, 0),
        (None, 0),
    ],
)
def test_a_command_for_a_local_stack_runs_at_its_time(
    monkeypatch: pytest.MonkeyPatch, headers: dict[str, str] | None, hours_ahead: int
) -> None:
    def head(*_: object, **__: object) -> SimpleNamespace:
        if headers is None:
            raise MaxRetryError(None, "")  # type: ignore[arg-type]  # nobody answers
        return SimpleNamespace(headers=headers)

    monkeypatch.setattr(urllib3, "request", head)
    before = datetime.now(UTC)
    with local("http://127.0.0.1:8000"):
        inside = datetime.now(UTC)
    assert round((inside - before) / timedelta(hours=1)) == hours_ahead
    assert round((datetime.now(UTC) - before) / timedelta(hours=1)) == 0


@pytest.mark.moto
def test_after_a_change_of_the_clock_no_age_is_negative_and_a_test_article_accepted(tmp_path: Path) -> None:
    with serving("demo", "--port", 0, cwd=tmp_path) as served:

        def run(*words: str) -> str:
            done = CliRunner().invoke(app, [*words, "--local", served.url])
            assert done.exit_code == 0, done.output
            return done.stdout

        form = urllib.request.Request(  # noqa: S310 - our own server
            f"{served.url}clock", urlencode({"hours": 48}).encode(), {"origin": served.url[:-1]}
        )
        urllib.request.urlopen(form).read()  # noqa: S310
        run("send", HOST, "cms")
        report = json.loads(run("status", HOST, "--json"))
        ahead = datetime.fromisoformat(report["at"]) - datetime.now(UTC)
        assert round(ahead / timedelta(hours=1)) == 48
        assert not re.findall(r"-\d+ \w+ (?:ago|old)", run("status", HOST))
