"""Why an article is in no sitemap, or not in the news sitemap.

These reasons come from the event. The site's own rules (`model/rules.py`) apply later, when a file is rendered.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Literal, TypeAlias
from urllib.parse import urlsplit

from stoppress.model.event import CLOCK_SKEW_MAX, CMS_RANK, ArticleEvent, rank_of
from stoppress.model.news_window import is_current
from stoppress.model.site import Site
from stoppress.primitives.urls import host_of, identity

# Why an article is not in the news sitemap. The table stores these texts, and later decisions compare them.
EXPIRED = "published more than 48 hours ago"
NO_DATE = "no publication date"
NOT_NEWS = "its source keeps it out of the news sitemap"
PAGE = "a page, not an article"
HOME_PAGE = "the home page is no article"
NO_TITLE = "no title"

ExclusionKind: TypeAlias = Literal["foreign host", "noindex", "protected", "canonical elsewhere"]


@dataclass(frozen=True, slots=True)
class Excluded:
    """Why an article can be in no sitemap of the site."""

    kind: ExclusionKind
    text: str

    def __str__(self) -> str:
        return f"{self.kind}: {self.text}"


def excluded_because(event: ArticleEvent, site: Site) -> Excluded | None:
    """Return the first reason that excludes a publication, or None."""
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


def not_news_because(event: ArticleEvent, url: str, first_published: datetime | None, now: datetime) -> str:
    """Return why a publication has no news entry; empty if it has one. `url` is the page on the site."""
    if event.page:
        return PAGE
    if is_home(url):
        return HOME_PAGE
    if not event.news:
        return NOT_NEWS
    if first_published is None:
        return NO_DATE
    if not is_current(first_published, now):
        return EXPIRED
    return "" if event.title else NO_TITLE


def is_embargo(event: ArticleEvent, now: datetime) -> bool:
    """Return True if the event's date holds the article.

    A date up to five minutes ahead of our clock holds only a CMS's article, and not if the sender's timestamp has reached the
    date: then the sender's clock is ahead. A feed's article is public already. An event that is recorded again at its
    `release` holds the article no more.
    """
    date = event.published_at
    if date is None or date <= now or (event.release is not None and event.release >= date):
        return False
    if date > now + CLOCK_SKEW_MAX:
        return True
    return rank_of(event.source) == CMS_RANK and (event.timestamp is None or event.timestamp < date)


def is_home(url: str) -> bool:
    """Return True if a URL is the home page, which changes owners too often to count as an article's earlier URL."""
    parts = urlsplit(url)
    return parts.path == "/" and not parts.query
