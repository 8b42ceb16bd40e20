"""Every page has valid links, existing commands, up-to-date generated parts and working examples."""

import importlib.util
import json
import os
import re
import shlex
import shutil
import subprocess
import sys
import tomllib
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import typer.main
from typer.exceptions import TyperException

from stoppress_cli.app import app
from tests.docs.generated import PARTS, with_parts
from tests.docs.pages import DOCS, PAGES, ROOT, anchors, blocks, commands, links, text_of
from tests.support import playing

by_page = pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())


@by_page
def test_links_lead_to_files_and_headings(page: Path) -> None:
    broken = []
    for link in links(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        is_page = target.suffix == ".md" and target.is_file()
        if "://" in link or link.startswith("mailto:"):
            continue
        # The site has only the pages of docs/.
        is_on_the_site = target.is_relative_to(DOCS) or not page.is_relative_to(DOCS)
        if not (target.exists() and is_on_the_site) or (
            anchor and not (is_page and anchor in anchors(target.read_text(encoding="utf-8")))
        ):
            broken.append(link)

    assert not broken


@pytest.mark.parametrize("page", sorted(DOCS.rglob("*.md")), ids=lambda page: page.relative_to(DOCS).as_posix())
def test_lists_and_tables_render_on_the_site_as_on_github(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    outside = re.sub(r"^( *)```.*?^ *```$", r"\1```", text, flags=re.MULTILINE | re.DOTALL)

    # The site needs four spaces below an item of a list, and an empty line above a list or a table.
    assert not re.findall(r"^ {1,3}\S.*", outside, re.MULTILINE)
    assert not re.findall(r"^(?![-|]|\d+\. |\s*$| {4}).*\n(?:- |1\. |\|).*", outside, re.MULTILINE)


@by_page
def test_generated_parts_are_up_to_date(page: Path) -> None:
    text = page.read_text(encoding="utf-8")

    assert text == with_parts(text), "run: .venv/bin/python -m tests.docs.generated"


def test_every_part_that_can_be_generated_is_in_one_page() -> None:
    parts = re.findall(r"<!-- generated: ([\w ]+) -->", "".join(page.read_text(encoding="utf-8") for page in PAGES))

    assert sorted(parts) == sorted(PARTS)


COMMAND: Any = typer.main.get_command(app)


def parse(words: list[str]) -> None:
    """Parse a command line of `stoppress` without running it. Raise TyperException if it is invalid."""
    command = COMMAND
    context = command.make_context("stoppress", words)
    while hasattr(command, "commands") and (rest := [*context._protected_args, *context.args]):
        name, command, rest = command.resolve_command(context, rest)
        context = command.make_context(name, rest, parent=context)


@pytest.mark.parametrize(
    ("page", "line", "in_sentence"), [command for command in commands("stoppress") if "…" not in command[1]]
)
def test_a_command_in_a_page_can_be_typed(page: str, line: str, *, in_sentence: bool) -> None:
    words = shlex.split(re.sub(r"<[\w ]+>", "placeholder", line), comments=True)
    words = words[: words.index(">")] if ">" in words else words
    try:
        with suppress(typer.Exit):  # of --help
            parse(words)
    except TyperException as error:
        # A sentence may mention a command without its arguments.
        if not (in_sentence and type(error).__name__ in ("MissingParameter", "NoArgsIsHelpError")):
            pytest.fail(f"{page}: stoppress {line}: {error}")


def test_make_targets_and_their_variables_exist() -> None:
    makefile = text_of("Makefile")
    targets = set(re.findall(r"^([a-z-]+):.*##", makefile, re.MULTILINE))
    words = [(page, word) for page, line, _ in commands("make") for word in line.partition("#")[0].split()]

    assert words
    for page, word in words:
        name, is_variable, _ = word.partition("=")
        assert f"$({name})" in makefile if is_variable else name in targets, f"{page}: make {word}"


def test_the_scenario_of_its_page_plays_as_it_expects(tmp_path: Path) -> None:
    [scenario] = blocks(text_of("docs/contributing/local-stack.md"), "json")

    played = playing.play(playing.written(map(json.loads, scenario.splitlines())), tmp_path)

    assert played.failures == []


def test_readme_and_docs_have_at_most_40_000_words() -> None:
    pages = [ROOT / "README.md", *DOCS.rglob("*.md")]

    assert sum(len(page.read_text(encoding="utf-8").split()) for page in pages) <= 40_000


def test_every_page_is_once_in_the_navigation() -> None:
    def paths(items: list[Any]) -> list[str]:
        values = [value for item in items for value in (item.values() if isinstance(item, dict) else [item])]
        return [path for value in values for path in (paths(value) if isinstance(value, list) else [value])]

    navigation = paths(tomllib.loads(text_of("zensical.toml"))["project"]["nav"])

    assert sorted(navigation) == sorted(path.relative_to(DOCS).as_posix() for path in DOCS.rglob("*.md"))


def test_every_picture_is_in_a_page_and_needs_no_other_host() -> None:
    shown = {(page.parent / link).resolve() for page in PAGES for link in links(page.read_text(encoding="utf-8"))}
    pictures = {path for suffix in ("svg", "png") for path in DOCS.rglob(f"*.{suffix}")}

    assert pictures - shown == {DOCS / "images/logo.svg"}
    for path in pictures:
        if path.suffix == ".svg":
            drawn = re.sub(r"<text.*?</text>", "", path.read_text(encoding="utf-8"))
            assert set(re.findall(r"https?://[^\s\"']+", drawn)) == {"http://www.w3.org/2000/svg"}


@pytest.mark.artifact
@pytest.mark.skipif(
    not importlib.util.find_spec("zensical"), reason="zensical is not installed: make .venv/installed-dev"
)
def test_the_site_builds_without_a_broken_link_or_anchor(tmp_path: Path) -> None:
    shutil.copytree(DOCS, tmp_path / "docs")
    shutil.copy(ROOT / "zensical.toml", tmp_path)
    built = subprocess.run(
        [sys.executable, "-m", "zensical", "build", "--strict"],
        cwd=tmp_path, env=os.environ | {"NO_COLOR": "1"}, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip

    assert built.returncode == 0, built.stdout + built.stderr
    # Pages need nothing from other hosts.
    html = "".join(path.read_text(encoding="utf-8") for path in (tmp_path / "site").rglob("*.html"))
    assert not re.findall(r'<(?:script|link|img|iframe)[^>]+(?:src|href)="https?://[^"]*', html)
