"""The site's rules: whether a page is in the general sitemap and in the news sitemap.

Rules apply when a file is rendered, not when an event is recorded. So a changed rule needs no new events.
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
    """The properties of a page, beside its URL, that rules can match."""

    section: str | None = None
    keywords: tuple[str, ...] = ()
    type: str | None = None
    flags: tuple[str, ...] = ()


NO_TRAITS = Traits()
# The beginning of a reason that names a rule. The table stores reasons.
_RULE = "rule "


def excluding_rule(rules: Iterable[Rule], target: Literal["general", "news"], url: str, traits: Traits) -> str:
    """Return the rule that excludes a page from a sitemap, as a reason with the rule's number; empty if no rule does.

    Among the rules for the sitemap, the first whose conditions all hold decides.
    """
    for number, rule in enumerate(rules, 1):
        if rule.target in ("all", target) and _holds(rule, url, traits):
            return f"{_RULE}{number} of the site: {rule.model_dump_json(exclude_none=True)}" if rule.exclude else ""
    return ""


def names_rule(reason: str) -> bool:
    """Return True if `excluding_rule` made this reason."""
    return reason.startswith(_RULE)


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
    """Return True if a path matches the pattern, escaped (`/%C3%A9t%C3%A9`) or as people read it (`/été`)."""
    return fnmatchcase(path, pattern) or ("%" in path and fnmatchcase(unquote(path), pattern))
