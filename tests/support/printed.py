"""What a command prints with --json."""

import json
from typing import Any

from stoppress_cli.output import json_form


def as_json(answer: object) -> Any:
    """Return the JSON of an answer, read again."""
    return json.loads(json.dumps(answer, default=json_form))
