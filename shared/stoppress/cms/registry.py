"""Adapters: what each CMS sends, as data. A mapping file a CMS, and one engine that reads them all.

A CMS is added by adding a file to `mappings/`. What is here costs nothing to import; the engine is loaded where a source
names an adapter other than our own contract, and of the mappings only the one that is named.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from datetime import datetime

    from stoppress.cms.verdicts import Verdict
    from stoppress.model.site import Site

MAPPINGS = Path(__file__).with_name("mappings")


class UnknownAdapter(LookupError):
    """No mapping file has this name."""


class BadDelivery(ValueError):
    """A body that cannot be read at all; the text says what to change."""


@dataclass(frozen=True, slots=True)
class Received:
    """What a CMS sent: headers with names in small letters, the query, the raw bytes."""

    body: bytes
    headers: Mapping[str, str] = field(default_factory=dict)
    query: Mapping[str, str] = field(default_factory=dict)


def names(folder: Path | None = None) -> list[str]:
    """Every adapter that there is a mapping file of."""
    return sorted(path.stem for path in (folder or MAPPINGS).glob("*.toml"))


def check_name(name: str) -> None:
    """Raises ValueError, with the names there are, where no mapping file has this one."""
    if name not in names():
        raise ValueError(f"{name[:80]!r} is no adapter: give one of {', '.join(names())}")


def check_settings(name: str, settings: Mapping[str, Any]) -> None:
    """Raises ValueError, a line for each setting of a source that cannot be used.

    Of the mapping only the names of its settings are read.
    """
    from stoppress.cms.settings import check

    check(settings, _declared(MAPPINGS / f"{name}.toml"))


@cache
def _declared(path: Path) -> dict[str, str]:
    import tomllib

    return {str(name): str(use) for name, use in tomllib.loads(path.read_text("utf-8")).get("settings", {}).items()}


def read(
    name: str, received: Received, settings: Mapping[str, Any], site: "Site | None", now: "datetime"
) -> "list[Verdict]":
    """What a delivery says, an item each: to be applied, held, ignored or incomplete. No I/O but the mapping's file, once.

    Raises BadDelivery for a body that cannot be read, and UnknownAdapter.
    """
    from stoppress.cms.engine import read_delivery
    from stoppress.cms.mapping import load

    return read_delivery(load(name, MAPPINGS), received, settings, site, now)
