"""DynamoDB's condition expressions, as far as the product uses them."""

import re
from collections.abc import Callable
from functools import cache
from typing import Any

from tests.simulation.doubles.errors import NotSupported

Item = dict[str, Any]  # in DynamoDB's JSON: {"pk": {"S": "…"}, …}
Condition = Callable[[Item, Item], bool]  # (the item, {} if absent; the expression's values)

_TOKEN = re.compile(r"\s*(\(|\)|,|<>|<=|>=|=|<|>|:\w+|#?\w+)")
_COMPARISONS: dict[str, Callable[[Any, Any], bool]] = {
    "=": lambda left, right: left == right,
    "<": lambda left, right: left < right,
    "<=": lambda left, right: left <= right,
    ">": lambda left, right: left > right,
    ">=": lambda left, right: left >= right,
}


@cache
def condition(expression: str) -> Condition:
    """Parse a condition with OR, AND, brackets, comparisons and three functions. Raises NotSupported."""
    parser = _Parser(expression)
    parsed = parser.alternatives()
    parser.end()
    return parsed


class _Parser:
    def __init__(self, text: str) -> None:
        self._text, self._tokens, position = text, [], 0
        while text[position:].strip():
            match = _TOKEN.match(text, position)
            if match is None:
                raise NotSupported(f"the double cannot read {text[position:]!r} of the expression {text!r}")
            self._tokens.append(match[1])
            position = match.end()

    def end(self) -> None:
        if self._tokens:
            raise NotSupported(f"the double cannot read {self._tokens!r} at the end of the expression {self._text!r}")

    def alternatives(self) -> Condition:
        parts = [self._conjunction()]
        while self._next_is("OR"):
            parts.append(self._conjunction())
        return parts[0] if len(parts) == 1 else lambda item, values: any(part(item, values) for part in parts)

    def _conjunction(self) -> Condition:
        parts = [self._operand()]
        while self._next_is("AND"):
            parts.append(self._operand())
        return parts[0] if len(parts) == 1 else lambda item, values: all(part(item, values) for part in parts)

    def _operand(self) -> Condition:
        if self._next_is("("):
            inner = self.alternatives()
            self._take(")")
            return inner
        name = self._tokens.pop(0)
        if self._next_is("("):
            return self._function(name)
        operator, value = self._tokens.pop(0), self._tokens.pop(0)
        if operator == "BETWEEN":
            self._take("AND")
            last = self._tokens.pop(0)
            return lambda item, values: values[value]["S"] <= item[name]["S"] <= values[last]["S"]
        if operator not in {"<>", *_COMPARISONS}:
            raise NotSupported(f"the double does not support {operator} of the expression {self._text!r}")
        if operator == "<>":
            return lambda item, values: item.get(name) != values[value]
        compare = _COMPARISONS[operator]

        def holds(item: Item, values: Item) -> bool:
            left, right = item.get(name), values[value]
            return left is not None and left.keys() == right.keys() and compare(_comparable(left), _comparable(right))

        return holds

    def _function(self, function: str) -> Condition:
        name = self._tokens.pop(0)
        if function == "begins_with":
            self._take(",")
            value = self._tokens.pop(0)
            self._take(")")
            return lambda item, values: item.get(name, {}).get("S", "").startswith(values[value]["S"])
        self._take(")")
        if function not in ("attribute_exists", "attribute_not_exists"):
            raise NotSupported(f"the double does not support the function {function} of the expression {self._text!r}")
        return lambda item, values: (name in item) == (function == "attribute_exists")

    def _next_is(self, token: str) -> bool:
        if self._tokens and self._tokens[0].upper() == token:
            self._tokens.pop(0)
            return True
        return False

    def _take(self, token: str) -> None:
        if not self._next_is(token):
            raise NotSupported(f"the double expects {token!r} in the expression {self._text!r}")


def _comparable(value: Item) -> Any:
    [(kind, content)] = value.items()
    return float(content) if kind == "N" else content
