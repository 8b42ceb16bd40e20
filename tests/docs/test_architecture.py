"""docs/explanation/architecture.md lists every room of the packages."""

import re
import sys
from pathlib import Path
from types import FrameType

import pytest

from tests.support import playing

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs/explanation/architecture.md").read_text(encoding="utf-8")
PACKAGES = ("shared/stoppress", "cli/stoppress_cli")


def listed() -> dict[str, str]:
    """Return the purpose of each path in the page's list of rooms; each line has a path, spaces and a purpose."""
    [block] = re.findall(r"^```text\n(.*?)^```$", PAGE.partition("\n## The rooms\n")[2], re.DOTALL | re.MULTILINE)
    lines = [re.fullmatch(r"(\S+) {2,}(\S.*)", line) for line in block.splitlines() if line]
    assert all(lines), block
    return {line[1]: line[2] for line in lines if line}


def rooms(package: str) -> set[str]:
    """Return the directories below a package that contain files."""
    folder = ROOT / package
    files = (path for path in folder.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    return {f"{path.parent.relative_to(ROOT).as_posix()}/" for path in files} - {f"{package}/"}


@pytest.mark.parametrize("package", PACKAGES)
def test_the_page_lists_every_room_of_a_package(package: str) -> None:
    assert {path for path in listed() if path.startswith(f"{package}/")} == rooms(package)


def test_the_modules_where_a_change_goes_exist() -> None:
    table = PAGE.partition("\n## Where a change goes\n")[2].partition("\n## ")[0]
    modules = re.findall(r"`(\w+/\w+\.py)`", table)

    assert modules
    assert [module for module in modules if not (ROOT / "shared/stoppress" / module).is_file()] == []


def test_the_page_counts_the_modules_that_one_article_passes(tmp_path: Path) -> None:
    handlers = {
        str(ROOT / f"functions/{name}/app.py") for name in ("receive_webhook", "record_article", "rewrite_sitemaps")
    }
    running: list[FrameType] = []
    files: set[str] = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        code = frame.f_code
        if event == "return" and running and frame is running[-1]:
            running.pop()
        elif event == "call" and code.co_name == "lambda_handler" and code.co_filename in handlers:
            running.append(frame)
        if event == "call" and running and code.co_name != "<module>":
            files.add(code.co_filename)

    path = playing.SCENARIOS / "publish.jsonl"
    sys.setprofile(note)
    try:
        playing.play(playing.read(path), tmp_path, path=path)
    finally:
        sys.setprofile(None)
    passed = sorted(
        file.removeprefix(f"{ROOT}/shared/stoppress/") for file in files if file.startswith(f"{ROOT}/shared/stoppress/")
    )

    assert f"passes through {len(passed) + len(handlers)} modules" in PAGE, passed
