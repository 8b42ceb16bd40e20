"""Reads the fields of one item, each by itself, so that a bad field does not harm the others."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stoppress.cms import values
from stoppress.cms.contract_fields import read_field
from stoppress.cms.expressions import search
from stoppress.cms.mapping import OF_ARTICLES, OF_DELIVERIES, OF_REMOVALS, REMOVALS, Action, MappingFile
from stoppress.cms.verdicts import HELD, Reading
from stoppress.model.media_values import shown as shortly
from stoppress.primitives.text import clean


class Fields:
    """The fields of one item: the values in `data`, the faults in `faults`, each attempt in `readings`."""

    def __init__(
        self, mapping: MappingFile, root: Mapping[str, Any], where: values.Where, now: datetime, action: Action
    ) -> None:
        self.readings: list[Reading] = []
        self.data: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        # Fields where a text or a number was unreadable, reported even if another expression gave a value. An unreadable
        # object is not reported: the mapping has another expression for it.
        self.misread: set[str] = set()
        self.where = where
        self._mapping, self._root, self._now = mapping, root, now
        wanted = OF_REMOVALS if action in REMOVALS else OF_ARTICLES + OF_DELIVERIES
        for name in wanted:
            for expression in mapping.expressions(name):
                if self._read(name, expression):
                    break

    def _read(self, name: str, expression: str) -> bool:
        """Read one expression of a field. True if the field's other expressions are not needed."""
        given, fault = search(expression, self._root)
        if not fault and values.is_absent(name, given):
            self.readings.append(Reading(name, expression, given))
            return False
        value: Any = None
        final = False
        if not fault:
            try:
                value = self._good(name, given)
            except values.NoZone as error:
                # A date of another expression would hide that the setting `timezone` is missing.
                fault, final = str(error), name in self._mapping.required
            except ValueError as error:
                fault = str(error)
            except (TypeError, OverflowError, RecursionError) as error:  # a value that no reader foresees
                fault = f"{shortly(given)} cannot be read: {type(error).__name__}"
        self.readings.append(Reading(name, expression, given, value, fault))
        if fault:
            self.faults.setdefault(name, clean(fault, 300))
            if isinstance(given, str | int | float):
                self.misread.add(name)
            return final
        if name == HELD:  # the latest instant counts
            self.data[name] = max(value, self.data.get(name, value))
            return False
        self.data[name] = value
        return True

    def _good(self, name: str, given: Any) -> Any:
        """Return the value as an event keeps it. Raises ValueError."""
        # A strict mapping takes the fields of our own contract exactly as the contract does.
        own = self._mapping.strict and name not in self._mapping.fields
        value = given if own else values.read(name, given, self.where)
        if name in OF_ARTICLES:
            return read_field(name, value)
        if name == "site" and not isinstance(value, str):
            raise ValueError(f"{shortly(value)} is no text")
        return value
