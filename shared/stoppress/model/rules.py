"""The site's rules: whether a page stands in the general sitemap, and in the news sitemap.

They hold when a file is rendered, not when an article is heard of: a changed rule needs no second telling.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase
from typing import Literal
from urllib.parse import unquote, urlsplit

from stoppress.model.site import Rule
from stoppress.primitives.urls import identity, plain_escapes


@dataclass(frozen=True, slots=True)
class Traits:
    """What rules can ask of a page beside its URL."""

    section: str | None = None
    keywords: tuple[str, ...] = ()
    type: str | None = None
    flags: tuple[str, ...] = ()


NO_TRAITS = Traits()


def excluding_rule(rules: Iterable[Rule], target: Literal["general", "news"], url: str, traits: Traits) -> str:
    """Why a page is not in a sitemap: the rule, by its number; empty where none keeps it out.

    The first rule that speaks of the sitemap and whose conditions all hold decides.
    """
    for number, rule in enumerate(rules, 1):
        if rule.target in ("all", target) and _holds(rule, url, traits):
            return f"rule {number} of the site: {rule.model_dump_json(exclude_none=True)}" if rule.exclude else ""
    return ""


def _holds(rule: Rule, url: str, traits: Traits) -> bool:
    met = {
        "path": rule.path is not None and _fits(urlsplit(identity(url)).path, plain_escapes(rule.path)),
        "section": rule.section == traits.section,
        "keyword": rule.keyword in traits.keywords,
        "type": rule.type == traits.type,
        "flag": rule.flag in traits.flags,
    }
    return all(met[name] for name in rule.conditions)


def _fits(path: str, pattern: str) -> bool:
    """Whether a path is of the pattern, as the URL has it (`/%C3%A9t%C3%A9`) or as people read it (`/été`)."""
    return fnmatchcase(path, pattern) or ("%" in path and fnmatchcase(unquote(path), pattern))
