"""Why an article is in no sitemap, or not in the news sitemap.

These reasons come from the event. The site's own rules (`model/rules.py`) apply later, when a file is rendered.
"""

from dataclasses import dataclass
from typing import Literal, TypeAlias

from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from stoppress.primitives.urls import host_of, identity

# Why an article is not in the news sitemap. The table stores these texts, and later decisions compare them.
EXPIRED = "published more than 48 hours ago"
NO_DATE = "no publication date"
NOT_NEWS = "its source keeps it out of the news sitemap"

ExclusionKind: TypeAlias = Literal["foreign host", "noindex", "protected", "canonical elsewhere"]


@dataclass(frozen=True, slots=True)
class Excluded:
    """Why an article can be in no sitemap of the site."""

    kind: ExclusionKind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def excluded_because(event: ArticleEvent, site: Site) -> Excluded | None:
    """The first reason that excludes a publication, or None."""
    assert event.url
    if host_of(event.url) != site.host:
        return Excluded("foreign host", f"{host_of(event.url)} is not {site.host}")
    if event.noindex:
        return Excluded("noindex", "the page asks not to be indexed")
    if event.access == "protected":
        return Excluded("protected", "the page asks for a password")
    if event.canonical_url and identity(event.canonical_url) != identity(event.url):
        return Excluded("canonical elsewhere", event.canonical_url)
    return None
