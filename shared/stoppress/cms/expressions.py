"""JMESPath: what an expression of a mapping file gives, which names it speaks of, and what in it can never work."""

import json
from collections.abc import Iterator, Mapping
from difflib import get_close_matches
from functools import cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathTypeError

from stoppress.cms.functions import OPTIONS, Functions
from stoppress.primitives.text import clean


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


# What comes after the first part of these looks at that part's value, no longer at what the expression was given.
_NARROWING = ("subexpression", "projection", "value_projection", "filter_projection", "pipe")
_KINDS = {
    "string": "a string",
    "number": "a number",
    "array": "an array",
    "object": "an object",
    "array-string": "an array of strings",
    "array-number": "an array of numbers",
    "expref": "an expression that begins with &",
}


def _nodes(node: Mapping[str, Any], *, at_root: bool = True) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Every node of an expression, and whether it looks at what the expression was given."""
    yield node, at_root
    for place, child in enumerate(node["children"]):
        if isinstance(child, dict):
            narrowed = node["type"] == "expref" or (place > 0 and node["type"] in _NARROWING)
            yield from _nodes(child, at_root=at_root and not narrowed)


@cache
def root_names(expression: str) -> frozenset[str]:
    """The names that an expression reads from what it was given, such as `body` and its variables."""
    nodes = _nodes(_compiled(expression).parsed)
    return frozenset(node["value"] for node, at_root in nodes if at_root and node["type"] == "field")


def members(expression: str, name: str) -> list[str]:
    """Which names an expression reads of a root name: of `settings` in `settings.locales`, `locales`."""
    return [
        node["children"][1]["value"]
        for node, at_root in _nodes(_compiled(expression).parsed)
        if at_root and node["type"] == "subexpression"
        and [child["type"] for child in node["children"][:2]] == ["field", "field"]
        and node["children"][0]["value"] == name
    ]  # fmt: skip


def function_faults(expression: str) -> Iterator[str]:
    """What is wrong with the calls in an expression: JMESPath notices it only once a delivery gets there."""
    for node, _ in _nodes(_compiled(expression).parsed):
        if node["type"] == "function_expression":
            yield from _call_faults(node["value"], node["children"])


def _call_faults(name: str, arguments: list[Any]) -> Iterator[str]:
    function = Functions.FUNCTION_TABLE.get(name)
    if function is None:
        meant = get_close_matches(name, Functions.FUNCTION_TABLE, n=1)
        known = f"did you mean {meant[0]}?" if meant else f"give one of {', '.join(sorted(Functions.FUNCTION_TABLE))}"
        yield f"there is no function {name}: {known}"
        return
    takes = function["signature"]
    is_variadic = bool(takes) and takes[-1].get("variadic", False)
    if len(arguments) < len(takes) or (len(arguments) > len(takes) and not is_variadic):
        number = f"{'at least ' if is_variadic else ''}{len(takes)} argument{'' if len(takes) == 1 else 's'}"
        yield f"{name} takes {number}, and is given {len(arguments)}"
        return
    for place, argument in enumerate(arguments):
        taken = takes[min(place, len(takes) - 1)]
        kinds = taken["types"] or taken.get("constants", [])
        if kinds and (given := _misfit(name, argument, kinds)):
            *others, last = (_KINDS[kind] for kind in kinds)
            wanted = f"{', '.join(others)} or {last}" if others else last
            yield f"{name} takes {wanted} as argument {place + 1}, and is given {given}"


def _misfit(function: str, argument: Mapping[str, Any], kinds: list[str]) -> str:
    """An argument that is of none of the kinds whatever is delivered; empty where it may fit."""
    if (argument["type"] == "expref") != ("expref" in kinds):
        return "an expression" if argument["type"] == "expref" else "a value"
    if argument["type"] != "literal":
        return ""
    value = argument["value"]
    try:
        Functions()._type_check_single(value, kinds, function)  # noqa: SLF001 - JMESPath's own check, as at run time
    except JMESPathTypeError:
        return repr(value) if isinstance(value, str) else f"`{json.dumps(value)}`"
    return ""


def holds(value: object) -> bool:
    """JMESPath's own idea of what is true: 0 is, an empty text is not."""
    return not (value is None or value is False or value in ("", [], {}))
