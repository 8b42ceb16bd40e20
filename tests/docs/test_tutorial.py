"""docs/tutorial.md: the commands in the order of the page, and the files that it shows."""

import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from typer.testing import CliRunner

from stoppress_cli.app import app
from tests.cli.test_commands_as_typed import BARE_ENVIRONMENT, Serving, _get, serving
from tests.docs.pages import ROOT, blocks, text_of
from tests.support import playing

TUTORIAL = text_of("docs/tutorial.md")
[SCENARIO] = blocks(TUTORIAL, "json")
# Values that differ from run to run: the id of a test article, milliseconds, instants, and dates.
VARIES = (r"stoppress-test-\w+", r" +[\d,]+ ms", r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d", r"\d{4}-\d\d\.xml")


def shown(command: str) -> str:
    """Return the text that the page shows below a command, up to the next one."""
    [block] = [code for code in blocks(TUTORIAL, "console") if f"$ {command}\n" in code]
    return re.split(r"^\$ ", block.partition(f"$ {command}\n")[2], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_scenario_plays_as_it_expects_and_saves_the_files_that_are_shown(tmp_path: Path) -> None:
    played = playing.play(playing.written(map(json.loads, SCENARIO.splitlines())), tmp_path)

    assert played.failures == []
    [name] = re.findall(r"^\$ cat out/sunday/(\S+)$", TUTORIAL, re.MULTILINE)
    assert played.files("sunday")[name].decode() == shown(f"cat out/sunday/{name}")
    for path, body in played.files("sunday").items():
        (tmp_path / "out/sunday" / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "out/sunday" / path).write_bytes(body)
    [check] = re.findall(r"^\$ stoppress (check .*)$", TUTORIAL, re.MULTILINE)
    words = check.replace("out/", f"{tmp_path}/out/").split()
    assert CliRunner().invoke(app, words).stdout == shown(f"stoppress {check}")


def test_the_file_that_a_reader_saves_does_not_fail_the_checks(tmp_path: Path) -> None:
    ignored = {line.strip("/") for line in text_of(".gitignore").splitlines()}
    [path] = map(Path, re.findall(r"Save it as `([^`]+)`", TUTORIAL))
    assert path.parts[0] in ignored  # nothing else is created at the top
    (tmp_path / path).parent.mkdir()
    (tmp_path / path).write_text(SCENARIO, encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [sys.executable, "-m", "ruff", "check", "--no-cache"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0  # noqa: S603 - our own tool


@pytest.mark.moto
def test_the_commands_for_the_demo_print_what_the_page_shows(tmp_path: Path) -> None:
    steps = TUTORIAL[TUTORIAL.index("\n## 2. ") : TUTORIAL.index("\n## 5. ")]
    typed = "".join(blocks(steps, "console"))
    with serving("demo", "--port", 0, cwd=tmp_path) as served:
        lines = re.findall(r"^\$ (?!export PATH)(.*)$", typed, re.MULTILINE)
        script = "\n".join(line.replace("http://127.0.0.1:8000", served.url.rstrip("/")) for line in lines)
        function = f'stoppress() {{ "{sys.executable}" -m stoppress_cli "$@" --local {served.url}; }}\n'
        command = ["bash", "-euc", function + script]
        environment = BARE_ENVIRONMENT | {"PATH": "/usr/bin:/bin"}
        ran = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300, check=False)  # noqa: S603 - the page's
    assert ran.returncode == 0, ran.stderr
    printed = ran.stdout
    for pattern in VARIES:
        typed, printed = re.sub(pattern, "…", typed), re.sub(pattern, "…", printed)
    expected = [line for line in typed.splitlines() if line.strip("…") and not line.startswith("$")]
    assert expected
    assert [line for line in expected if line not in printed] == []


@pytest.mark.moto
def test_the_demo_serves_the_files_of_the_page(demo: Serving) -> None:
    rows = re.findall(r"^ +(\S+) .* (yes|no) +\S+ *$", demo.printed, re.MULTILINE)
    assert {slug for slug, answer in rows if answer == "no"} == {"flood-closes-the-harbour", "concert-called-off"}
    news = _get(f"{demo.url}sitemap-news.xml")
    listed = {slug for slug, _ in rows if f"/{slug}<" in news}
    assert listed == {"market-hall-reopens", "council-passes-the-budget", "ferry-sails-again"}
