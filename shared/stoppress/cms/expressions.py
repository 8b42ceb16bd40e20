"""JMESPath expressions of mapping files: evaluate them, list the names that they read, and find mistakes in them."""

from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from stoppress.cms.functions import OPTIONS, Functions
from stoppress.primitives.text import clean, did_you_mean

_NONE: Mapping[str, str] = {}


def search(expression: str, root: Mapping[str, Any], faults: Mapping[str, str] = _NONE) -> tuple[Any, str]:
    """Return the value of an expression, or the reason why it has none. `faults`: by name, those of variables that failed."""
    failed = root_names(expression) & faults.keys() if faults else ()
    try:
        return _compile(expression).search(root, options=OPTIONS), next((faults[name] for name in failed), "")
    except Exception as error:  # noqa: BLE001 - one field that fails on a payload must not stop the others
        return None, clean(f"{expression[:80]} returns nothing: {' '.join(str(error).split())}", 300)


@cache
def _compile(expression: str) -> Any:
    return jmespath.compile(expression)


# The later parts of these nodes read the value of the first part, not the root.
_NARROWING = ("subexpression", "projection", "value_projection", "filter_projection", "pipe")


def _nodes(node: Mapping[str, Any], *, at_root: bool = True) -> Iterator[tuple[Mapping[str, Any], bool]]:
    """Return every node of an expression, and whether it reads the root."""
    yield node, at_root
    for place, child in enumerate(node["children"]):
        if isinstance(child, dict):
            narrowed = node["type"] == "expref" or (place > 0 and node["type"] in _NARROWING)
            yield from _nodes(child, at_root=at_root and not narrowed)


@cache
def names_in(expression: str) -> frozenset[str]:
    """Return every name in an expression, of variables and of fields; also `item` where `@` may refer to it."""
    nodes = [node for node, _ in _nodes(_compile(expression).parsed)]
    fields = [node["value"] for node in nodes if node["type"] == "field"]
    return frozenset(fields + ["item" for node in nodes if node["type"] in ("current", "value_projection")])


@cache
def root_names(expression: str) -> frozenset[str]:
    """Return the names that an expression reads from the root, such as `body` and variables."""
    nodes = _nodes(_compile(expression).parsed)
    return frozenset(node["value"] for node, at_root in nodes if at_root and node["type"] == "field")


def members(expression: str, name: str) -> list[str]:
    """Return the names that an expression reads below a root name: `locales` for `settings` in `settings.locales`."""
    return [
        node["children"][1]["value"]
        for node, at_root in _nodes(_compile(expression).parsed)
        if at_root and node["type"] == "subexpression"
        and [child["type"] for child in node["children"][:2]] == ["field", "field"]
        and node["children"][0]["value"] == name
    ]  # fmt: skip


def function_faults(expression: str) -> Iterator[str]:
    """Yield the mistakes in an expression's calls. JMESPath itself finds them only when a delivery reaches the call."""
    for node, _ in _nodes(_compile(expression).parsed):
        if node["type"] == "function_expression" and (fault := _call_fault(node["value"], node["children"])):
            yield fault


def _call_fault(name: str, arguments: list[Any]) -> str:
    """Return the mistake in a call of a function, whatever the delivery has; empty if there may be none."""
    functions = Functions()
    if name not in functions.FUNCTION_TABLE:
        hint = (
            did_you_mean(name, functions.FUNCTION_TABLE)
            or f": give one of {', '.join(sorted(functions.FUNCTION_TABLE))}"
        )
        return f"there is no function {name}{hint}"
    signature = functions.FUNCTION_TABLE[name]["signature"]
    try:
        functions._validate_arguments(arguments, [{**parameter, "types": []} for parameter in signature], name)  # noqa: SLF001
        for place, argument in enumerate(arguments):
            parameter = signature[min(place, len(signature) - 1)]
            types = parameter["types"] or parameter.get("constants", [])
            if types and (argument["type"] == "expref") != ("expref" in types):
                expected = "an expression that begins with &" if "expref" in types else "a value"
                return f"{name} takes {expected} as argument {place + 1}"
            if types and argument["type"] == "literal":
                functions._type_check_single(argument["value"], types, name)  # noqa: SLF001 - JMESPath's own check
    except JMESPathError as error:
        return str(error)
    return ""


def holds(value: object) -> bool:
    """Return True if JMESPath takes a value for true: 0 is true, an empty text is false."""
    return not (value is None or value is False or value in ("", [], {}))
