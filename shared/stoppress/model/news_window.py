"""Whether a page is in the news now: its publication is less than 48 hours ago, and no rule of the site excludes it.

All comparisons with the 48 hours are in this module.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from operator import attrgetter

from stoppress.model.entries import NewsEntry, excluding_rule
from stoppress.model.site import Site

# Google: only articles of the last two days (R2.5).
NEWS_WINDOW = timedelta(hours=48)


def window_start(now: datetime) -> datetime:
    """Return the instant after which an article must have been published to be in the window at `now`."""
    return now - NEWS_WINDOW


def window_end(published: datetime) -> datetime:
    """Return the instant at which an article of this publication date leaves the window."""
    return published + NEWS_WINDOW


def is_current(published: datetime, now: datetime) -> bool:
    """Return True until the window of a publication ends."""
    return published > window_start(now)


def lists_in_news(entry: NewsEntry, site: Site, now: datetime) -> bool:
    """Return True if a news sitemap written at `now` lists the entry."""
    is_excluded = site.rules and excluding_rule(site.rules, "news", entry.loc, entry.traits)
    return is_current(entry.published, now) and not is_excluded


def select_news(entries: Iterable[NewsEntry], site: Site, now: datetime) -> list[NewsEntry]:
    """Return the entries that a news sitemap written at `now` lists, newest first."""
    listed = [entry for entry in entries if lists_in_news(entry, site, now)]
    return sorted(sorted(listed, key=attrgetter("loc")), key=attrgetter("published"), reverse=True)
