"""Plants a fault in the product: patches one of its functions while a block runs."""

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
class Patch:
    """A function (`module:name` below stoppress), how to wrap it, and a seed whose run then fails.

    If the module only imports the function, or another module, only that import is patched.
    """

    where: str
    wrap: Callable[[Any], Any]
    seed: int


def ignore(function: Any, errors: Any, *arguments: Any, **options: Any) -> Any:
    """Call a function, and ignore errors of these types."""
    with suppress(errors):
        function(*arguments, **options)


class Stub:
    """A module or client with some functions replaced."""

    def __init__(self, wrapped: Any, **functions: Any) -> None:
        self._wrapped = wrapped
        vars(self).update(functions)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._wrapped, name)


@contextmanager
def planted(fault: Patch) -> Iterator[None]:
    """Patch the product while the block runs."""
    name = re.split("[:.]", fault.where)[-1]
    with ExitStack() as patches:
        patches.callback(APPS.clear)
        for holder in _holders(fault.where):
            patches.enter_context(mock.patch.object(holder, name, fault.wrap(inspect.unwrap(getattr(holder, name)))))
        APPS.clear()
        yield


def resolve(where: str) -> Any:
    """Return the object at `module:name` below stoppress."""
    path, _, name = where.partition(":")
    value: Any = import_module(f"stoppress.{path}")
    for part in name.split("."):
        assert hasattr(value, part), f"{where} does not exist: plant the fault in the code that replaced it"
        value = getattr(value, part)
    return value


def _holders(where: str) -> list[Any]:
    """Return the class of a method, the module that only imports the object, or all modules that contain it.

    Import all modules first: a module that is imported while a fault is planted would keep the fault.
    """
    for module in pkgutil.walk_packages(stoppress.__path__, "stoppress."):
        import_module(module.name)
    path, _, name = where.partition(":")
    *parts, last = name.split(".")
    value = resolve(where)
    holder = resolve(f"{path}:{'.'.join(parts)}") if parts else import_module(f"stoppress.{path}")
    if parts or getattr(value, "__module__", holder.__name__) != holder.__name__ or inspect.ismodule(value):
        return [holder]
    modules = [module for name, module in sys.modules.items() if name.startswith("stoppress.")]
    return [module for module in modules if vars(module).get(last) is value]
