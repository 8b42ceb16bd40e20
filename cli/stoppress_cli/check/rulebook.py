"""The rules of `stoppress check` from rules.csv, each with its source and its fix, and the namespaces and limits that they are about.

An id such as R1.4 refers to a rule in docs/reference/check-rules.md. Several named checks may belong to one id.
"""

import csv
import tomllib
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Literal

from pydantic import TypeAdapter

# The checker has its own namespaces and limits, because it also checks Stoppress's files.
SITEMAP = "http://www.sitemaps.org/schemas/sitemap/0.9"
NEWS = "http://www.google.com/schemas/sitemap-news/0.9"
IMAGE = "http://www.google.com/schemas/sitemap-image/1.1"
VIDEO = "http://www.google.com/schemas/sitemap-video/1.1"
XHTML = "http://www.w3.org/1999/xhtml"
ATOM = "http://www.w3.org/2005/Atom"

URLS_MAX = 50_000  # R1.10; sitemaps of an index: R1.11
BYTES_MAX = 52_428_800  # R1.10
LOC_CHARACTERS_MAX = 2_047  # R1.4: fewer than 2,048
NEWS_ENTRIES_MAX = 1_000  # R2.4
NEWS_HOURS = 48  # R2.5
NEWS_WINDOW = timedelta(hours=NEWS_HOURS)
IMAGES_MAX = 1_000  # R3.1, of a page

VIDEO_TITLE_MAX = 100  # characters
VIDEO_DESCRIPTION_MAX = 2_048  # characters, R4.1
VIDEO_UPLOADER_MAX = 255  # characters, R4.2, as the next two
VIDEO_TAGS_MAX = 32
VIDEO_PLATFORMS = {"web", "mobile", "tv"}
FRESH_AGE_SECONDS_MAX = 300  # R9.3: caches must not keep articles that expire

Severity = Literal["error", "warning"]


@dataclass(frozen=True, slots=True)
class Rule:
    """A named check. An error breaks the protocol, a schema or an engine's documentation. A warning is advice, or disturbs no reader."""

    name: str
    id: str
    severity: Severity
    text: str
    source: str
    fix: str
    doctor: str  # the check of `stoppress doctor` that reports it; empty: none, because the check `crawlers` covers it


@dataclass(frozen=True, slots=True)
class Value:
    """What the text of an element must be; extensions.toml describes the fields."""

    pattern: str
    fault: str
    least: float = 0
    most: float | None = None


@dataclass(frozen=True, slots=True)
class Extension:
    """An extension of the protocol; extensions.toml describes the fields."""

    prefix: str
    element: str
    word: str
    rule: str
    retired: frozenset[str] = frozenset()
    elements: frozenset[str] = frozenset()
    attributes: dict[str, frozenset[str]] | None = None
    values: dict[str, Value] = field(default_factory=dict)


_EXTENSIONS_FILE = Path(__file__).with_name("extensions.toml")
EXTENSIONS = TypeAdapter(dict[str, Extension]).validate_python(tomllib.loads(_EXTENSIONS_FILE.read_text("utf-8")))
with Path(__file__).with_name("rules.csv").open(encoding="utf-8", newline="") as _file:
    RULES = {rule.name: rule for rule in TypeAdapter(list[Rule]).validate_python(list(csv.DictReader(_file)))}
