"""When an article was published: embargoes, the first publication, corrected dates, and what a late event changes.

The rule:

1. A date in the future is an embargo (`exclusion_reasons.is_embargo`) and holds the article, listed or not. At the release it becomes
   the publication date.
2. Else the first date stays. A later event may change it to an earlier date, or to a date up to five minutes after the
   article was first received. If the event has a timestamp that is not before its date, the earliest timestamp of the article's
   events counts instead of the time of receipt.
3. Any later date is re-dating. It is ignored once an event has put the article into a file, unless the site's `republish`
   allows it. So re-dating cannot keep an article in the news for longer than 48 hours after it was first listed.
4. A date from a source of higher rank replaces one from a source of lower rank.
5. An event is late if a newer event of its article was recorded before it. It changes only dates: its date counts as if the event had
   arrived in order. That date may hold the article, end or move an embargo, or correct the first publication. A late removal may end an
   embargo. If the event would have listed the article in order, later dates are ignored (rule 3).

A sender's clock may be ahead. So a future date that is not an embargo counts as the time when the event was received.
"""

from dataclasses import replace
from datetime import datetime

from stoppress.model.article import Article
from stoppress.model.event import CLOCK_SKEW_MAX, ArticleEvent, order_of, rank_of
from stoppress.model.exclusion_reasons import is_embargo
from stoppress.model.order import Order, newest, own_time
from stoppress.model.site import Site
from stoppress.primitives.instants import exact, whole


def changed_at(event: ArticleEvent) -> datetime | None:
    """Return when the article last changed according to its source, but not after the event was received."""
    assert event.received_at
    return whole(min(event.updated_at, event.received_at)) if event.updated_at else None


def first_received(article: Article, event: ArticleEvent) -> Article:
    """Set the time when the article was first received to this event's, if that is earlier."""
    assert event.received_at
    if is_of_deleted(article, event):
        return article
    received_at = min(article.received_at, event.received_at)
    known_since = min(article.known_since or received_at, event.timestamp or received_at)
    return replace(article, received_at=received_at, known_since=known_since if known_since < received_at else None)


def with_date(article: Article, event: ArticleEvent, site: Site) -> Article:
    """Return the article with the date of its newest event, which must not be an embargo."""
    date, rank = _date(event), rank_of(event.source)
    if date is None or not _takes(article, event, date, rank, site):
        return article
    return replace(article, first_published=date, dated_by=rank, dated_order=article.order)


def with_late_date(article: Article, event: ArticleEvent, now: datetime) -> Article | None:
    """Return the article with the first publication that it would have if a late event had arrived in order; None if unchanged."""
    order, date, rank = order_of(event), _date(event), rank_of(event.source)
    if date is None or is_embargo(event, now) or rank < article.dated_by or is_of_deleted(article, event):
        return None
    before = article.first_published
    if before is not None and rank == article.dated_by:
        if article.dated_order is None or date == before:
            return None
        since = first_received(article, event)
        if order.is_before(article.dated_order):
            was_embargo = exact(before) > article.dated_order.received
            stays = was_embargo or before < date or before <= _corrected_max(since, before, article.dated_order)
        else:
            stays = not _replaces(since, event, date)
        if stays:
            return None
    after = replace(first_received(article, event), first_published=date, dated_by=rank, dated_order=order)
    return with_date_order(replace(after, held_order=newest(article.dated_order, article.held_order)), event)


def as_released(article: Article) -> Article:
    """Return a held article as it is after its release, while the release is not recorded yet."""
    assert article.release_at
    return replace(
        article,
        first_published=whole(article.release_at),
        dated_by=article.rank,
        dated_order=article.held_order,
        release_at=None,
        is_unlisted=False,
    )


def with_date_order(article: Article, event: ArticleEvent) -> Article:
    """Set `held_order` by the newest removal or event with a date, so that an older late embargo does not hold the article."""
    order = order_of(event) if event.action == "remove" or event.published_at else None
    latest = newest(article.dated_order, article.held_order, order)
    return replace(article, held_order=None if latest == article.dated_order else latest)


def is_of_deleted(article: Article, event: ArticleEvent) -> bool:
    """Return True if the event belongs to the deleted article that had the article's id before."""
    return article.reborn is not None and own_time(order_of(event)) <= article.reborn


def _takes(article: Article, event: ArticleEvent, date: datetime, rank: int, site: Site) -> bool:
    if article.first_published is None or article.dated_by < rank or site.republish == "new-date":
        return True
    return _replaces(article, event, date)


def _replaces(article: Article, event: ArticleEvent, date: datetime) -> bool:
    """Return True if the date of a newer event replaces the article's date, which is of the same rank (rules 1 to 3 above)."""
    assert article.first_published
    if article.is_unlisted or _was_embargo(event) or date < article.first_published:
        return True
    return date <= _corrected_max(article, date, order_of(event))


def _date(event: ArticleEvent) -> datetime | None:
    """Return the event's date: an embargo as given, any other date not after the event was received."""
    assert event.received_at
    if event.published_at is None:
        return None
    return whole(event.published_at if _was_embargo(event) else min(event.published_at, event.received_at))


def _was_embargo(event: ArticleEvent) -> bool:
    """Return True if the event is recorded at the end of its embargo, or its date was an embargo when the event was received."""
    assert event.received_at
    is_released = event.release is not None and event.release == event.published_at
    return is_released or is_embargo(replace(event, release=None), event.received_at)


def _corrected_max(article: Article, date: datetime, order: Order) -> datetime:
    """Return the latest date that counts as a correction (rule 2 above)."""
    is_behind = order.timestamp is None or exact(date) > order.timestamp
    since = article.received_at if is_behind else article.known_since or article.received_at
    return since + CLOCK_SKEW_MAX
