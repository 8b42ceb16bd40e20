"""Why an article is in no sitemap, or not in the news sitemap, and the warnings about this in the answer to a sender.

These reasons come from the event. The site's own rules (`model/entries.py`) apply later, when a file is rendered.
"""

import re
from collections.abc import Mapping
from datetime import datetime
from urllib.parse import urlsplit

from stoppress.model.entries import excluding_rule
from stoppress.model.event import CLOCK_SKEW_MAX, CMS_RANK, ArticleEvent, rank_of
from stoppress.model.news_window import is_current
from stoppress.model.site import Site
from stoppress.primitives.instants import iso
from stoppress.primitives.text import TITLE_CHARACTERS_MAX, clean_html
from stoppress.primitives.urls import host_of, identity

# Why an article is not in the news sitemap. The table stores these texts, and later decisions compare them.
EXPIRED = "published more than 48 hours ago"
NO_DATE = "no publication date"
NOT_NEWS = "its source keeps it out of the news sitemap"
PAGE = "a page, not an article"
HOME_PAGE = "the home page is no article"
NO_TITLE = "no title"

# The beginning of the reason for a page of another host.
FOREIGN_HOST = "foreign host"


def excluded_because(event: ArticleEvent, site: Site) -> str:
    """Return the first reason that excludes a publication from all sitemaps of the site; empty if there is none."""
    assert event.url
    if host_of(event.url) != site.host:
        return f"{FOREIGN_HOST}: {host_of(event.url)} is not {site.host}"
    if event.noindex:
        return "noindex: the page asks not to be indexed"
    if event.access == "protected":
        return "protected: the page asks for a password"
    if event.canonical_url and identity(event.canonical_url) != identity(event.url):
        return f"canonical elsewhere: {event.canonical_url}"
    return ""


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

    A date up to five minutes in the future holds only a CMS's article, and not if the sender's timestamp has reached the date,
    because then the sender's clock is ahead. A feed's article is public already. An event that is recorded again at its
    `release` no longer holds the article.
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


# The least ratio of difflib for a misspelt published_at. `pubDate` reaches this ratio, and `createdAt` does not.
_ALIKE = 0.65
_LETTERS = re.compile("[^a-z]")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def warnings_of(event: ArticleEvent, site: Site, now: datetime, unknown: Mapping[str, object]) -> list[str]:
    """Return the warnings about an event. `unknown` has the fields that are not part of our contract, with their values."""
    if event.action != "publish" or event.url is None:
        return []
    warnings = _reasons_not_listed(event, event.url, site, now, unknown)
    warnings += [f"left out: {reason}" for reason in event.dropped]
    if len(event.title) >= TITLE_CHARACTERS_MAX - 1:  # a space before the cut is removed as well
        warnings.append(f"title: at most {TITLE_CHARACTERS_MAX:,} characters are kept, so its end may be missing")
    if event.title != clean_html(event.title):
        warnings.append("title: readers will see the HTML in it: send plain text")
    return warnings


def _reasons_not_listed(
    event: ArticleEvent, url: str, site: Site, now: datetime, unknown: Mapping[str, object]
) -> list[str]:
    """Return why the page will be in no sitemap, not yet in one, or not in the news sitemap."""
    if excluded := excluded_because(event, site):
        return [f"it will be in no sitemap: {excluded}"]
    not_yet = []
    if event.published_at and is_embargo(event, now):
        not_yet = [f"it will be in no sitemap before published_at, {iso(event.published_at)}"]
    if rule := excluding_rule(site.rules, "general", url, event.traits):
        not_yet.append(f"it will not be in the general sitemap: {rule}")
    return not_yet + _not_news(event, url, site, now, unknown)


def _not_news(event: ArticleEvent, url: str, site: Site, now: datetime, unknown: Mapping[str, object]) -> list[str]:
    if event.page or not event.news:  # the sender wants no news
        return []
    reason = not_news_because(event, url, event.published_at, now)
    reason = reason or excluding_rule(site.rules, "news", url, event.traits)
    if reason == NO_DATE:
        meant = _meant_date(unknown)
        if event.verb == "updated" and not meant:  # most likely the publication had the date
            return []
        question = f"; did you mean it by {meant}?" if meant else ""
        return [f"no published_at: it will not be in the news sitemap, unless another event has the date{question}"]
    if reason == EXPIRED:
        reason = "published_at is more than 48 hours ago"
    return [f"it will not be in the news sitemap: {reason}"] if reason else []


def _meant_date(unknown: Mapping[str, object]) -> str:
    """Return the unknown field whose name is like published_at and whose value is like a date; empty if there is none."""
    dated = (name for name, value in unknown.items() if isinstance(value, str) and _YEAR.search(value[:100]))
    spelled = {_LETTERS.sub("", name.lower()): name for name in dated}
    if not spelled:
        return ""
    from difflib import get_close_matches  # imported here: only a misspelt field needs it

    return next((spelled[like] for like in get_close_matches("publishedat", spelled, n=1, cutoff=_ALIKE)), "")
