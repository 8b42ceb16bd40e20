"""Event patterns of EventBridge rules and of Lambda's event filters, evaluated by moto's matcher."""

import json
from typing import Any

from moto.events.models import EventPattern

from stoppress_cli.local.template import Json, TemplateError

_OPERATORS = {"prefix", "suffix", "anything-but", "exists", "numeric", "equals-ignore-case", "wildcard", "cidr"}


class Pattern:
    """An event pattern, from its JSON text or object. Raises TemplateError for an operator that the matcher does not know."""

    def __init__(self, pattern: str | Json, where: str) -> None:
        try:
            parsed: Any = json.loads(pattern) if isinstance(pattern, str) else pattern
        except ValueError as error:
            raise TemplateError(f"{where}: the event pattern is not JSON ({error})") from error
        _check(parsed, where)
        self._pattern = EventPattern(None, parsed)

    def matches(self, event: Json) -> bool:
        """Whether the event matches the pattern."""
        return self._pattern.matches_event(event)  # type: ignore[arg-type]


def filters(criteria: Json | None, where: str) -> list[Pattern]:
    """The patterns of a mapping's FilterCriteria; an event passes if one matches, or if there are none."""
    return [Pattern(part["Pattern"], where) for part in (criteria or {}).get("Filters", [])]


def passes(event: Json, patterns: list[Pattern]) -> bool:
    """Whether an event passes a mapping's filters."""
    return not patterns or any(pattern.matches(event) for pattern in patterns)


def _check(node: Any, where: str) -> None:
    if isinstance(node, dict):
        parts = [part for key, value in node.items() for part in (value if key == "$or" else [value])]
        for part in parts:
            _check(part, where)
    elif not isinstance(node, list) or not node:
        raise TemplateError(f"{where}: a value of an event pattern must be a list or an object, not {node!r}")
    elif unknown := [test for test in node if isinstance(test, dict) and set(test) - _OPERATORS]:
        raise TemplateError(f"{where}: the local stack does not know the filter {next(iter(unknown[0]))!r}")
