"""docs/how-to/health.md and docs/reference/status.md: their commands, and the keys of the JSON."""

import json
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_commands_as_typed import serving, typed
from tests.docs.pages import blocks, commands, table_rows, text_of
from tests.support.printed import as_json
from tests.unit.show.test_site import a_full_answer

HOW_TO, REFERENCE = "docs/how-to/health.md", "docs/reference/status.md"


@pytest.mark.moto
def test_the_commands_of_the_page_print_what_it_shows(tmp_path: Path) -> None:
    [shown] = blocks(text_of(HOW_TO), "console")
    lines = dict.fromkeys(
        line for page, line, _ in commands("stoppress") if page == HOW_TO and line.startswith("status")
    )
    assert len(lines) >= 3
    with serving("demo", "--port", 0, cwd=tmp_path) as served:
        for line in lines:
            answer = typed(*shlex.split(line), "--local", served.url, cwd=tmp_path)

            assert (answer.code, answer.err) == (0, ""), line
            if line == "status":
                assert _without_numbers(f"$ stoppress status\n{answer.out}") == _without_numbers(shown)
            elif "--json" in line:
                assert json.loads(answer.out)["verdict"] == "well"


def _without_numbers(text: str) -> str:
    return re.sub(r"[0-9]+", "0", text).replace("minutes", "minute")


def test_the_reference_has_every_key_of_the_json() -> None:
    documented = [key for keys, _ in table_rows(text_of(REFERENCE), "| key |") for key in re.findall(r"`(.*?)`", keys)]

    assert documented == list(dict.fromkeys(_keys(as_json(a_full_answer()))))


def _keys(value: Any, path: str = "") -> Iterator[str]:
    if path == "sites[].feeds[]" or not isinstance(value, dict | list):
        yield path
    elif isinstance(value, list):
        assert value, f"the answer has no {path}"
        yield from (key for item in value for key in _keys(item, f"{path}[]"))
    else:
        yield from (key for name, item in value.items() for key in _keys(item, f"{path}.{name}".lstrip(".")))
