"""Compare what a source lists with what was recorded. Pure."""

from collections import Counter
from collections.abc import Container, Iterable, Mapping
from datetime import datetime, timedelta

from stoppress.model.article import Article, Claim
from stoppress.model.entries import NewsEntry
from stoppress.model.event import ArticleEvent, order_of
from stoppress.model.site import FEED_SOURCE, SITEMAP_SOURCE, Site
from stoppress.primitives.instants import parse

# A CMS is silent if feeds delivered at least this many stories and webhooks none. Fewer may be pages that the CMS never sends, such
# as a liveblog of another system.
SILENT_STORIES_MIN = 3
# A younger story is not counted: its webhook may still arrive.
SILENT_GRACE = timedelta(hours=1)


def changed_at(event: ArticleEvent) -> datetime | None:
    """Return when the source changed the article, by the source's clock; None if the event has no such instant."""
    version = event.version if isinstance(event.version, datetime) else None
    return version or event.timestamp or event.updated_at


def is_missed(event: ArticleEvent, article: Article | None) -> bool:
    """Return True if an event of a list was never recorded: the article is unknown, or the recorded version is older.

    If the versions are not of one type, timestamps decide. Without timestamps a known article is not missed.
    """
    if article is None:
        return True
    listed, recorded = order_of(event), article.order
    if listed.version is not None and type(listed.version) is type(recorded.version):
        return recorded.version < listed.version  # type: ignore[operator]  # of one type, and not None
    if listed.timestamp and recorded.timestamp:
        return recorded.timestamp < listed.timestamp
    return False


def unlisted(
    news: Iterable[NewsEntry],
    claims: Mapping[str, Claim],
    source: str,
    listed: Container[str],
    until: datetime,
) -> dict[str, str]:
    """Return the articles of `source` that the news sitemap has and the source's list lacks: article names by URL.

    `claims` has the claim of each entry by URL. `listed` has the names of the listed articles: their URLs may have changed.
    An article that was recorded after `until` is left out, because the list may lack it.
    """
    return {
        entry.loc: claim.owner
        for entry in news
        if (claim := claims.get(entry.loc))
        and claim.live
        and claim.source == source
        and claim.owner not in listed
        and parse(claim.order.received) < until
    }


def has_changed_since(article: Article, since: datetime) -> bool:
    """Return True if a list of the changes since then must have the article.

    WordPress filters its list by the version, which is the last edit. The timestamp is then the publication.
    """
    order = article.order
    changed = order.version if isinstance(order.version, str) else order.timestamp
    return changed is not None and parse(changed) >= since


def silent_sources(site: Site, news: Iterable[NewsEntry], claims: Mapping[str, Claim], now: datetime) -> dict[str, int]:
    """Return the sources with a secret if they are silent, each with the number of stories that feeds delivered.

    The sources are silent if feeds delivered SILENT_STORIES_MIN stories of the news sitemap, and webhooks none.
    """
    counts: Counter[str] = Counter()
    for entry in news:
        claim = claims.get(entry.loc)
        if claim and claim.live and entry.published <= now - SILENT_GRACE:
            counts[claim.source] += 1
    by_feed = counts[FEED_SOURCE] + counts[SITEMAP_SOURCE]
    if by_feed < SILENT_STORIES_MIN or any(counts[name] for name in site.sources):
        return {}
    return {name: by_feed for name, source in site.sources.items() if source.secret}
