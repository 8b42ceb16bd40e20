"""Plants a fault in the product: another function stands in for one of its own while a block runs."""

import inspect
import pkgutil
import re
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from importlib import import_module
from typing import Any
from unittest import mock

import stoppress
from tests.simulation.world import APPS


@dataclass(frozen=True)
class Swap:
    """A function (`module:name` below stoppress) in whose place another one stands, which is made from it.

    Where the module only imports the function, or another module, the swap is for that module alone.
    """

    where: str
    by: Callable[[Any], Any]
    seed: int


def unless(function: Any, errors: Any, *arguments: Any, **options: Any) -> Any:
    """A call whose errors of these kinds nobody hears of."""
    with suppress(errors):
        function(*arguments, **options)


class With:
    """A module or client with other functions of these names."""

    def __init__(self, behind: Any, **functions: Any) -> None:
        self._behind = behind
        vars(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._behind, name)


@contextmanager
def planted(fault: Swap) -> Iterator[None]:
    """The fault is in the product while the block runs."""
    name = re.split("[:.]", fault.where)[-1]
    with ExitStack() as swaps:
        swaps.callback(APPS.forget)
        for holder in _holders(fault.where):
            swaps.enter_context(mock.patch.object(holder, name, fault.by(inspect.unwrap(getattr(holder, name)))))
        APPS.forget()
        yield


def named(where: str) -> Any:
    """What `module:name` below stoppress names."""
    path, _, name = where.partition(":")
    value: Any = import_module(f"stoppress.{path}")
    for part in name.split("."):
        assert hasattr(value, part), f"{where} is gone: plant the fault where its work is done now"
        value = getattr(value, part)
    return value


def _holders(where: str) -> list[Any]:
    """The class of a method, the module that only imports what is named, or all modules that have it.

    All are imported before: one that is imported while a fault is planted would keep it.
    """
    for module in pkgutil.walk_packages(stoppress.__path__, "stoppress."):
        import_module(module.name)
    path, _, name = where.partition(":")
    *parts, last = name.split(".")
    value = named(where)
    holder = named(f"{path}:{'.'.join(parts)}") if parts else import_module(f"stoppress.{path}")
    if parts or getattr(value, "__module__", holder.__name__) != holder.__name__ or inspect.ismodule(value):
        return [holder]
    modules = [module for name, module in sys.modules.items() if name.startswith("stoppress.")]
    return [module for module in modules if vars(module).get(last) is value]
