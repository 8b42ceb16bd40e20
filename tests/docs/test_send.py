"""docs/how-to/send.md: each of its commands, on the stack that `stoppress up` serves, and the output that it shows."""

import os
import re
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.cli.test_commands_as_typed import Serving, serving, typed
from tests.docs.pages import blocks, commands, text_of

pytestmark = pytest.mark.moto

PAGE = "docs/how-to/send.md"
LINES = [line for page, line, in_sentence in commands("stoppress") if page == PAGE and not in_sentence]


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Serving]:
    with serving("up", "--port", 0, cwd=tmp_path_factory.mktemp("up")) as served:
        yield served


def words_of(line: str, up: Serving) -> list[str]:
    """The words of a command, for the stack on this machine."""
    return shlex.split(line.replace("--stack stoppress", f"--local {up.url}"))


def test_the_article_goes_the_way_that_is_shown(up: Serving, tmp_path: Path) -> None:
    [shown] = blocks(text_of(PAGE), "console")

    def stages(text: str) -> list[str]:
        return sorted(re.sub(r"\d{4}-\d\d", "<month>", name) for name in re.findall(r" ms  (.*)", text))

    answer = typed(*words_of(LINES[0], up), cwd=tmp_path)

    assert (answer.code, answer.err) == (0, "")
    assert stages(answer.out) == stages(shown)


def test_the_printed_program_is_run_as_the_page_runs_it(up: Serving, tmp_path: Path) -> None:
    *words, _, name = words_of(LINES[1], up)
    answer = typed(*words, cwd=tmp_path)
    (tmp_path / name).write_text(answer.out, encoding="utf-8")
    secret = re.search(r"signed with (\S+)", up.printed)
    assert secret, up.printed

    assert f"python3 {name}" in text_of(PAGE)
    ended = subprocess.run(  # noqa: S603 - our own program
        [sys.executable, name], cwd=tmp_path, env=os.environ | {"STOPPRESS_SECRET": secret[1]},
        capture_output=True, text=True, timeout=60, check=True,
    )  # fmt: skip
    assert ended.stdout.startswith("200 ")
