"""docs/tutorial.md: its script, its scenario and the file that it shows."""

import json
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.cli.test_commands_as_typed import WRITTEN_S_MAX, Serving, _get
from tests.support import playing

ROOT = Path(__file__).parents[2]
TUTORIAL = (ROOT / "docs/tutorial.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The page's only block in a language."""
    [code] = re.findall(rf"^```{language}\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)
    return str(code)


def test_the_scenario_plays_as_it_expects_and_saves_the_file_that_is_shown(tmp_path: Path) -> None:
    played = playing.play(playing.written(map(json.loads, block("json").splitlines())), tmp_path)

    assert played.failures == []
    [shown] = re.findall(r"^\$ cat out/sunday/(\S+)\n(.*?)^```$", TUTORIAL, re.MULTILINE | re.DOTALL)
    assert played.files("sunday")[shown[0]].decode() == shown[1]


def test_the_files_that_a_reader_saves_do_not_fail_the_checks(tmp_path: Path) -> None:
    ignored = {line.strip("/") for line in (ROOT / ".gitignore").read_text(encoding="utf-8").splitlines()}
    saved = [Path(name) for name in re.findall(r"Save this (?:program|scenario) as `([^`]+)`", TUTORIAL)]
    for path, text in zip(saved, (block("python"), block("json")), strict=True):
        assert path.parts[0] in ignored  # test_architecture.py compares what else is at the top
        (tmp_path / path).parent.mkdir(exist_ok=True)
        (tmp_path / path).write_text(text, encoding="utf-8")
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    command = [sys.executable, "-m", "ruff", "check", "--no-cache"]
    assert subprocess.run(command, cwd=tmp_path, capture_output=True, check=False).returncode == 0  # noqa: S603 - our own tool


@pytest.mark.moto
def test_the_script_publishes_edits_and_removes(demo: Serving) -> None:
    script = block("python").replace("http://127.0.0.1:8000/", demo.url)
    published = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
    for titles, *arguments in (
        (["Bridge opens"], "article.published", "title=Bridge opens", f"published_at={published}"),
        (["Bridge opens a day early"], "article.updated", "title=Bridge opens a day early"),
        ([], "article.unpublished"),
    ):
        command = [sys.executable, "-c", script, *arguments]
        answer = subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout  # noqa: S603 - the page's
        assert answer.strip() in TUTORIAL
        deadline = time.monotonic() + WRITTEN_S_MAX
        while re.findall("/news/tutorial<.*<news:title>(.*?)<", _get(f"{demo.url}sitemap-news.xml")) != titles:
            assert time.monotonic() < deadline, arguments
            time.sleep(0.2)


@pytest.mark.moto
def test_the_demo_serves_what_it_has_shown(demo: Serving) -> None:
    rows = [line.split() for line in demo.printed.splitlines() if line.split()[-1:] == ["ms"]]
    assert {row[0] for row in rows if "yes" not in row} == {"flood-closes-the-harbour", "concert-called-off"}
    news = _get(f"{demo.url}sitemap-news.xml")
    listed = {row[0] for row in rows if f"/{row[0]}<" in news}
    assert listed == {"market-hall-reopens", "council-passes-the-budget", "ferry-sails-again"}
