"""What the files must contain when all has come to rest: told from what the newsroom said, in a few lines.

It knows nothing of how that is done, and imports nothing of the product.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

WINDOW = timedelta(hours=48)


@dataclass(frozen=True)
class Said:
    """What a newsroom or a feed said of an article, `number` ordering what was said of it."""

    site: str
    source: str
    id: str
    number: int
    at: datetime
    removal: bool = False
    url: str = ""
    title: str = ""
    published_at: datetime | None = None
    updated_at: datetime | None = None
    noindex: bool = False
    news: bool = True
    # How it is told: by a webhook, on the bus, or not at all (a feed is read).
    told_by: str = "feed"
    dated_by_order: str = "version"


@dataclass
class Wanted:
    """What the files of a site list: pages with their lastmod, and news with title and publication."""

    pages: dict[str, datetime | None] = field(default_factory=dict)
    news: dict[str, tuple[str, datetime]] = field(default_factory=dict)


def wanted(said: Sequence[Said], site: str, kept_out: Sequence[str], now: datetime) -> Wanted:
    """What a site's files must list at `now`; `kept_out` are beginnings of paths that its rules keep out."""
    told: dict[tuple[str, str], list[Said]] = {}
    for one in sorted((one for one in said if one.site == site), key=lambda one: one.number):
        told.setdefault((one.source, one.id), []).append(one)
    # A page is whose who is believed more, else who spoke last; whoever was removed speaks for none, except against a feed.
    speaks: dict[str, tuple[bool, datetime, str]] = {}
    for (source, id_), all_of_it in told.items():
        last = all_of_it[-1]
        url = last.url if not last.removal else ""
        if url:
            claim = (source != "feed", last.updated_at or last.at, f"{source}#{id_}")
            speaks[url] = max(speaks.get(url, claim), claim)
    found = Wanted()
    for (source, id_), all_of_it in told.items():
        last = all_of_it[-1]
        dates = [one.published_at for one in all_of_it if one.published_at and not one.removal and not one.noindex]
        first = dates[0] if dates else None
        if last.removal or last.noindex or speaks[last.url][2] != f"{source}#{id_}" or (first and first > now):
            continue
        path = last.url.split("/", 3)[3]
        if any(path.startswith(beginning) for beginning in kept_out):
            continue
        found.pages[last.url] = max((at for at in (last.updated_at, first) if at), default=None)
        if first and first + WINDOW > now and last.news:
            found.news[last.url] = (last.title, first)
    return found


def edition(url: str, editions: Sequence[Mapping[str, str]]) -> Mapping[str, str]:
    """The edition that a page belongs to; an empty one where it is the site's alone."""
    path = "/" + url.split("/", 3)[3]
    return next((one for one in editions if path.startswith(f"{one['prefix']}/")), {})
