"""JMESPath: what an expression of a mapping file gives, and which names it speaks of."""

from collections.abc import Mapping
from functools import cache
from typing import Any

import jmespath

from stoppress.adapters.functions import OPTIONS
from stoppress.text import clean


def search(expression: str, root: Mapping[str, Any]) -> tuple[Any, str]:
    """What an expression gives, or why it gives nothing."""
    try:
        return _compiled(expression).search(root, options=OPTIONS), ""
    except Exception as error:  # noqa: BLE001 - whatever a payload makes of an expression, the other fields go on
        return None, clean(f"{expression[:80]} gives nothing: {' '.join(str(error).split())}", 300)


@cache
def _compiled(expression: str) -> Any:
    return jmespath.compile(expression)


@cache
def names_in(expression: str) -> frozenset[str]:
    """Every name in an expression, of a variable or of a field; `item` too where it may be meant without being named."""
    names, nodes = set(), [_compiled(expression).parsed]
    while nodes:
        node = nodes.pop()
        if node["type"] == "field":
            names.add(node["value"])
        elif node["type"] in ("current", "value_projection"):
            names.add("item")
        nodes += [child for child in node["children"] if isinstance(child, dict)]
    return frozenset(names)


def holds(value: object) -> bool:
    """JMESPath's own idea of what is true: 0 is, an empty text is not."""
    return not (value is None or value is False or value in ("", [], {}))
