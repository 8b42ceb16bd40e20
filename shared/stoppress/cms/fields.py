"""The fields of one item: each is read by itself, so that a bad one costs only itself."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from stoppress.cms import values
from stoppress.cms.contract import read_field
from stoppress.cms.expressions import search
from stoppress.cms.mapping import OF_ARTICLES, OF_DELIVERIES, OF_REMOVALS, REMOVALS, Action, MappingFile
from stoppress.cms.verdicts import HELD, Reading
from stoppress.model.media_values import shown as shortly
from stoppress.primitives.text import clean


class Fields:
    """The fields of one item that could be read, and what is to be said of the others."""

    def __init__(
        self, mapping: MappingFile, root: Mapping[str, Any], where: values.Where, now: datetime, action: Action
    ) -> None:
        self.readings: list[Reading] = []
        self.data: dict[str, Any] = {}
        self.faults: dict[str, str] = {}
        # Those of a text or a number, of which it is told even where another expression gave something good. A CMS that has
        # an object there has another expression for it.
        self.misread: set[str] = set()
        self.where = where
        self._mapping, self._root, self._now = mapping, root, now
        wanted = OF_REMOVALS if action in REMOVALS else OF_ARTICLES + OF_DELIVERIES
        for name in wanted:
            for expression in mapping.expressions(name):
                if self._read(name, expression):
                    break

    def _read(self, name: str, expression: str) -> bool:
        """Whether no other expression is to be looked at."""
        found, fault = search(expression, self._root)
        if not fault and (values.is_absent(name, found) or values.is_no_date(name, found)):
            self.readings.append(Reading(name, expression, found))
            return False
        value: Any = None
        final = False
        if not fault:
            try:
                value = self._good(name, found)
            except values.NoZone as error:
                # Another date in its place would hide that a setting is missing.
                fault, final = str(error), name in self._mapping.required
            except ValueError as error:
                fault = str(error)
            except (TypeError, OverflowError, RecursionError) as error:  # a value that nobody has thought of
                fault = f"{shortly(found)} cannot be read: {type(error).__name__}"
        self.readings.append(Reading(name, expression, found, value, fault))
        if fault:
            self.faults.setdefault(name, clean(fault, 300))
            if isinstance(found, str | int | float):
                self.misread.add(name)
            return final
        if name == HELD:  # a text of one length, so that the later instant is the greater one
            self.data[name] = max(value, self.data.get(name, ""))
            return False
        self.data[name] = value
        return True

    def _good(self, name: str, found: Any) -> Any:
        # What stands under a name of our own contract is read by that alone, where a mapping is as strict as it is.
        own = self._mapping.strict and name not in self._mapping.fields
        value = found if own else values.read(name, found, self.where)
        if name in OF_ARTICLES:
            read_field(name, value)
        if name == "site" and not isinstance(value, str):
            raise ValueError(f"{shortly(value)} is no text")
        return value
