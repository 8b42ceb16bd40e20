"""Compare what a source lists with what was recorded. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timedelta

from stoppress.model.article import Article, Claim
from stoppress.model.entries import NewsEntry
from stoppress.model.event import ArticleEvent, order_of
from stoppress.model.site import FEED_SOURCE, SITEMAP_SOURCE, Site
from stoppress.primitives.instants import parse

# How many stories must have come by a feed, and none by webhook, before a CMS counts as silent. One or two may be pages that the
# CMS never sends, such as a liveblog of another system.
SILENT_STORIES_MIN = 3
# A webhook and a poll of the feed may be on their way for so long.
SILENT_GRACE = timedelta(hours=1)


def changed_at(event: ArticleEvent) -> datetime | None:
    """When the source changed the article, by its own clock; None if it does not say."""
    version = event.version if isinstance(event.version, datetime) else None
    return version or event.timestamp or event.updated_at


def is_missed(event: ArticleEvent, article: Article | None) -> bool:
    """Whether no webhook told of what the list says: the article is unknown, or its recorded version is older.

    Without versions, timestamps decide. Without both, a known article counts as told: the list cannot be older or newer.
    """
    if article is None:
        return True
    listed, recorded = order_of(event), article.order
    if listed.version is not None and type(listed.version) is type(recorded.version):
        return _is_older(recorded.version, listed.version)
    if listed.timestamp and recorded.timestamp:
        return recorded.timestamp < listed.timestamp
    return False


def _is_older(version: int | str | None, other: int | str | None) -> bool:
    return version < other  # type: ignore[operator]  # of one type, and not None


def unlisted(
    news: Iterable[NewsEntry],
    claims: Mapping[str, Claim],
    source: str,
    listed: frozenset[str],
    since: datetime,
    until: datetime,
) -> dict[str, str]:
    """The names, by URL, of a source's articles in the news sitemap that its list lacks.

    `claims` are by the URL of the entry, `listed` are names of articles: a listed article may have moved. An article that last
    changed before `since`, or was recorded after `until`, is left out: the list need not have it.
    """
    names = {}
    for entry in news:
        claim = claims.get(entry.loc)
        is_its_own = claim is not None and claim.live and claim.source == source
        changed = parse(claim.order.timestamp) if claim and claim.order.timestamp else None
        is_due = claim and changed and changed >= since and parse(claim.order.heard) < until
        if claim and is_due and is_its_own and claim.owner not in listed:
            names[entry.loc] = claim.owner
    return names


def silent_sources(site: Site, news: Iterable[NewsEntry], claims: Mapping[str, Claim], now: datetime) -> dict[str, int]:
    """The CMSs that told of no story in the site's news sitemap, while its feeds did, each with the number of these stories."""
    counts: Counter[str] = Counter()
    for entry in news:
        claim = claims.get(entry.loc)
        if claim and claim.live and entry.published <= now - SILENT_GRACE:
            counts[claim.source] += 1
    by_feed = counts[FEED_SOURCE] + counts[SITEMAP_SOURCE]
    if by_feed < SILENT_STORIES_MIN or any(counts[name] for name in site.sources):
        return {}
    return dict.fromkeys(_that_post(site), by_feed)


def _that_post(site: Site) -> Sequence[str]:
    return [name for name, source in site.sources.items() if source.secret]
