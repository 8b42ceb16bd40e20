"""docs/how-to/give-the-editors-a-page.md: its command prints the address of a page."""

import shlex
import urllib.request
from pathlib import Path

import pytest

from tests.cli.test_commands_as_typed import serving, typed
from tests.docs.pages import commands

HOW_TO = "docs/how-to/give-the-editors-a-page.md"


@pytest.mark.moto
def test_the_command_of_the_page_prints_an_address_that_is_served(tmp_path: Path) -> None:
    [line] = [line for page, line, _ in commands("stoppress") if page == HOW_TO and line.startswith("sites page")]
    with serving("demo", "--port", 0, cwd=tmp_path) as served:
        answer = typed(*shlex.split(line.replace("--stack NAME", f"--local {served.url}")), cwd=tmp_path)
        with urllib.request.urlopen(answer.out.strip()) as page:  # noqa: S310 - loopback
            assert "www.example.com" in page.read().decode()

        unknown = typed("sites", "page", "other.example.com", "--local", served.url, cwd=tmp_path)
        assert (unknown.code, unknown.out) == (2, "")
