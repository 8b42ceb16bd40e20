"""A command's output, with --json and as text."""

import json
from collections.abc import Iterable
from typing import Any

from stoppress_cli.output import WIDTH_PIPED_COLUMNS, Part, json_form, lay_out


def as_json(answer: object) -> Any:
    """Return the JSON of an answer, read again."""
    return json.loads(json.dumps(answer, default=json_form))


def as_text(lines: Iterable[Part], width: int = WIDTH_PIPED_COLUMNS) -> str:
    """Return the lines of an answer for people."""
    return "".join(f"{line}\n" for line in lay_out(lines, width))
