"""Warnings in the answer to a sender: an accepted article will not be listed, or not yet, or parts of it were left out.

The event and the site's configuration alone decide. The table may have a date that the event lacks.
"""

import re
from collections.abc import Mapping
from datetime import datetime

from stoppress.model.event import ArticleEvent
from stoppress.model.exclusion_reasons import EXPIRED, NO_DATE, excluded_because, is_embargo, not_news_because
from stoppress.model.rules import excluding_rule
from stoppress.model.site import Site
from stoppress.primitives.instants import iso
from stoppress.primitives.text import TITLE_CHARACTERS_MAX, clean_html

# The least ratio of difflib for a misspelt published_at. `pubDate` reaches this ratio, and `createdAt` does not.
_ALIKE = 0.65
_LETTERS = re.compile("[^a-z]")
_YEAR = re.compile(r"\b(?:19|20)\d\d\b")


def warnings_of(event: ArticleEvent, site: Site, now: datetime, unknown: Mapping[str, object]) -> list[str]:
    """The warnings about an event. `unknown` has the fields that our contract does not know, with their values."""
    if event.action != "publish" or event.url is None:
        return []
    warnings = _reasons_not_listed(event, event.url, site, now, unknown)
    warnings += [f"left out: {reason}" for reason in event.dropped]
    if len(event.title) >= TITLE_CHARACTERS_MAX - 1:  # a space at the place of the cut is removed as well
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
    """The unknown field whose name is like published_at and whose value is like a date; empty if there is none."""
    dated = [name for name, value in unknown.items() if isinstance(value, str) and _YEAR.search(value[:100])]
    if not dated:
        return ""
    from difflib import SequenceMatcher  # imported here: only a misspelt field needs it

    ratios = {name: SequenceMatcher(None, "publishedat", _LETTERS.sub("", name.lower())).ratio() for name in dated}
    likely = [name for name in dated if ratios[name] >= _ALIKE]
    return max(likely, key=ratios.__getitem__, default="")
