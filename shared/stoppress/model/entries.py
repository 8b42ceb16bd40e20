"""Entries of sitemaps and of the index, as the table stores them, and the site's rules for them.

Rules apply when a file is rendered, not when an event is recorded. So a changed rule needs no new events.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Literal, TypeAlias
from urllib.parse import unquote, urlsplit

from stoppress.model.site import Rule
from stoppress.model.validation import ChangeFreq
from stoppress.primitives.urls import identity, plain_escapes


@dataclass(frozen=True, slots=True)
class Traits:
    """The properties of a page, beside its URL, that rules can match."""

    section: str | None = None
    keywords: tuple[str, ...] = ()
    type: str | None = None
    flags: tuple[str, ...] = ()


NO_TRAITS = Traits()
# The tags of a video of a page in the schema's order, each with its text. The text of `restriction` and of `platform` is a
# relationship and codes, such as `allow GB IE` or `deny tv`. `uploader_info` is the page of the uploader.
Video: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Alternate:
    """A version of the page: its URL, and `fr`, `en-GB`, `zh-Hant-TW` or `x-default`."""

    hreflang: str
    href: str


@dataclass(frozen=True, slots=True)
class GeneralEntry:
    """A page in a shard. `language` is set only if it differs from that of the page's section, edition or site.

    `alternates` are all that its line lists, with the page itself.
    """

    loc: str
    lastmod: datetime | None = None
    traits: Traits = NO_TRAITS
    images: tuple[str, ...] = ()
    videos: tuple[Video, ...] = ()
    alternates: tuple[Alternate, ...] = ()
    language: str | None = None
    changefreq: ChangeFreq | None = None
    priority: str | None = None

    def as_news(self, title: str, published: datetime, publication: str | None) -> "NewsEntry":
        """Return the page's entry in a news sitemap."""
        more = self.language, self.traits, self.alternates
        return NewsEntry(self.loc, title, published, self.lastmod, publication, *more)


@dataclass(frozen=True, slots=True)
class NewsEntry:
    """An article in a news sitemap. Publication and language default to those of its section, edition or site."""

    loc: str
    title: str
    published: datetime
    lastmod: datetime | None = None
    publication: str | None = None
    language: str | None = None
    traits: Traits = NO_TRAITS
    alternates: tuple[Alternate, ...] = ()


@dataclass(frozen=True, slots=True)
class Mark:
    """Commit mark: what the index records about the last rewrite of a file.

    `digest` is a hash of the file's bytes and of the settings of its other forms. `also` lists these forms (gzip, text, feed).
    `expires`: the next instant at which `roll_window` looks for expired entries of a news sitemap.
    `rev` counts the writes of the mark.
    """

    file: str
    changed: datetime
    urls: int
    size_bytes: int
    digest: str
    also: tuple[str, ...] = ()
    expires: datetime | None = None
    rev: int | None = field(default=None, compare=False)

    @property
    def served(self) -> str:
        """Return the name that the index lists: the gzip form if there is one."""
        packed = f"{self.file}.gz"
        return packed if packed in self.also else self.file


# The beginning of a reason that contains a rule. The table stores reasons.
_RULE = "rule "


def excluding_rule(rules: Iterable[Rule], target: Literal["general", "news"], url: str, traits: Traits | None) -> str:
    """Return the rule that excludes a page from a sitemap, as a reason with the rule's number; empty if no rule does.

    Among the rules for the sitemap, the first whose conditions all hold decides. Without traits: the rule that excludes the
    page with any traits.
    """
    for number, rule in enumerate(rules, 1):
        if rule.target in ("all", target) and _holds(rule, url, traits):
            conditions = ", ".join(f"{name} {value}" for name, value in rule.conditions.items())
            return f"{_RULE}{number} of the site ({conditions})" if rule.exclude else ""
    return ""


def contains_rule(reason: str) -> bool:
    """Return True if `excluding_rule` returned this reason."""
    return reason.startswith(_RULE)


def _holds(rule: Rule, url: str, traits: Traits | None) -> bool:
    if traits is None:
        return (rule.path is None or _fits_path(rule, url)) and bool(rule.include or rule.conditions.keys() == {"path"})
    conditions = {
        "path": _fits_path(rule, url),
        "section": rule.section == traits.section,
        "keyword": rule.keyword in traits.keywords,
        "type": rule.type == traits.type,
        "flag": rule.flag in traits.flags,
    }
    return all(conditions[name] for name in rule.conditions)


def _fits_path(rule: Rule, url: str) -> bool:
    """Return True if a path matches the rule's, escaped (`/%C3%A9t%C3%A9`) or as people read it (`/été`)."""
    if rule.path is None:
        return False
    path, pattern = urlsplit(identity(url)).path, plain_escapes(rule.path)
    return fnmatchcase(path, pattern) or ("%" in path and fnmatchcase(unquote(path), pattern))
