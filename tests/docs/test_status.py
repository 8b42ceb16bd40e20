"""The commands of pages, typed at a demo: health, the editors' page, a test article, the webhook; and the JSON of `status`."""

import json
import re
import shlex
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from typer.testing import CliRunner

from stoppress.aws import clients
from stoppress_cli.app import app
from tests.cli.test_commands_as_typed import Serving
from tests.docs.pages import blocks, commands, table_rows, text_of
from tests.support.printed import as_json
from tests.unit.show.test_site import a_full_answer

HOW_TO, SEND = "docs/how-to/health.md", "docs/how-to/send.md"


def run_cli(line: str) -> Any:
    clients.forget()
    return CliRunner().invoke(app, shlex.split(line))


@pytest.mark.moto
def test_the_commands_of_the_page_print_what_it_shows(demo: Serving) -> None:
    [shown] = blocks(text_of(HOW_TO), "console")
    lines = dict.fromkeys(
        line for page, line, _ in commands("stoppress") if page == HOW_TO and line.startswith("status")
    )
    assert len(lines) >= 3
    for line in lines:
        answer = run_cli(f"{line} --local {demo.url}")

        assert (answer.exit_code, answer.stderr) == (0, ""), line
        if line == "status":
            assert _without_numbers(f"$ stoppress status\n{answer.stdout}") == _without_numbers(shown)
        elif "--json" in line:
            assert json.loads(answer.stdout)["verdict"] == "healthy"


@pytest.mark.moto
def test_the_command_for_the_editors_prints_an_address_that_is_served(demo: Serving) -> None:
    page = "docs/how-to/give-people-access.md"
    [line] = [line for name, line, _ in commands("stoppress") if name == page and line.startswith("sites page")]
    answer = run_cli(line.replace("--stack stoppress", f"--local {demo.url}"))
    with urllib.request.urlopen(answer.stdout.strip()) as served:  # noqa: S310 - loopback
        assert "www.example.com" in served.read().decode()

    unknown = run_cli(f"sites page other.example.com --local {demo.url}")
    assert (unknown.exit_code, unknown.stdout) == (2, "")


@pytest.mark.moto
def test_a_test_article_passes_the_stages_that_the_page_shows(demo: Serving) -> None:
    [shown] = blocks(text_of(SEND), "console")
    line = next(line for page, line, in_sentence in commands("stoppress") if page == SEND and not in_sentence)

    def stages(text: str) -> list[str]:
        return sorted(re.sub(r"\d{4}-\d\d", "<month>", name) for name in re.findall(r" ms  (.*)", text))

    answer = run_cli(line.replace("--stack stoppress", f"--local {demo.url}"))

    assert (answer.exit_code, answer.stderr) == (0, "")
    assert stages(answer.stdout) == stages(shown)


@pytest.mark.moto
def test_the_webhook_accepts_the_program_and_the_secret_of_its_page(demo: Serving) -> None:
    [(line, secret)] = re.findall(
        r"^stoppress (send .*) > send\.py\nSTOPPRESS_SECRET=(\S+) python3 send\.py$",
        text_of("docs/reference/webhook.md"),
        re.MULTILINE,
    )
    program = run_cli(f"{line} --local {demo.url}").stdout
    command, environment = [sys.executable, "-c", program], {"STOPPRESS_SECRET": secret}
    answer = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, timeout=60)  # noqa: S603 - ours

    assert '"status": "queued"' in answer.stdout


def _without_numbers(text: str) -> str:
    same = {"[0-9]+": "0", "(minute|hour|day)s?": "time", "[▁-█]+": "▁", " +": " "}
    for pattern, replacement in same.items():
        text = re.sub(pattern, replacement, text)
    return text


def test_the_reference_has_every_key_of_the_json() -> None:
    documented = [key for keys, _ in table_rows(text_of(HOW_TO), "| key |") for key in re.findall(r"`(.*?)`", keys)]

    assert documented == list(dict.fromkeys(_keys(as_json(a_full_answer()))))


def _keys(value: Any, path: str = "") -> Iterator[str]:
    if path == "sites[].feeds[]" or not isinstance(value, dict | list):
        yield path
    elif isinstance(value, list):
        assert value, f"the answer has no {path}"
        yield from (key for item in value for key in _keys(item, f"{path}[]"))
    else:
        yield from (key for name, item in value.items() for key in _keys(item, f"{path}.{name}".lstrip(".")))
