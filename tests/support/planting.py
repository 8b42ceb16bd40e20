"""The project's template with one thing changed, to see whether somebody notices."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from stoppress_cli.local.template import parse_yaml

ROOT = Path(__file__).parents[2]

Edit = Callable[[dict[str, Any]], object]  # changes the template's resources in place


def planted(folder: Path, edit: Edit) -> Path:
    """A template in `folder` that has the edit and the project's own functions and layer."""
    document = parse_yaml((ROOT / "template.yaml").read_text(encoding="utf-8"))
    before = json.dumps(document, default=str)
    edit(document["Resources"])
    after = json.dumps(document, default=str)
    assert after != before, "the edit changes nothing"
    for name in ("functions", "shared"):
        (folder / name).symlink_to(ROOT / name)
    path = folder / "template.yaml"
    path.write_text(after, encoding="utf-8")
    return path
