"""When an article was published: embargoes, the first publication, corrected dates, and what a late event changes.

The rule:

1. A date in the future is an embargo (`exclusion_reasons.is_embargo`) and holds the article, listed or not. At the release it becomes
   the publication date.
2. Else the first date stays. A later event may change it to an earlier date, or to a date up to five minutes after we first
   received the article. If the event has a timestamp that is not before its date, the earliest timestamp of the article's
   events counts instead of the moment when we first received.
3. Any later date is re-dating. It is ignored once an event has put the article into a file, unless the site's `republish`
   allows it. So re-dating cannot keep an article in the news for longer than 48 hours after it was first listed.
4. A date from a source of higher rank replaces one from a source of lower rank.
5. An event is late if a newer event of its article was recorded before it. It changes only dates: its date counts as if the event had
   come in order. That date may hold the article, end or move an embargo, or correct the first publication.

A sender's clock may be ahead of ours. So a future date that is no embargo counts as the moment when we received the event.
"""

from dataclasses import replace
from datetime import datetime

from stoppress.model.article import FORGOTTEN, Article, Decision, Entries, EntryKey, Known
from stoppress.model.entries import excluding_rule
from stoppress.model.event import CLOCK_SKEW_MAX, ArticleEvent, digest_of, names_of, order_of, rank_of
from stoppress.model.exclusion_reasons import EXPIRED, NO_DATE, excluded_because, is_embargo
from stoppress.model.file_names import Want, news_series
from stoppress.model.news_window import is_current
from stoppress.model.order import Order, dated_names, newest, own_time, remembered
from stoppress.model.site import Site
from stoppress.primitives.instants import exact, whole
from stoppress.primitives.urls import identity
from stoppress.record.claims import entries_of, event_again, leave, without_entries
from stoppress.sitemaps.tags import line_bytes, news_line


def changed_at(event: ArticleEvent) -> datetime | None:
    """When the article last changed according to its source, but not after the event was received."""
    assert event.received_at
    return whole(min(event.updated_at, event.received_at)) if event.updated_at else None


def first_received(article: Article, event: ArticleEvent) -> Article:
    """Set the moment we first seen the article to this event's, if that is earlier."""
    assert event.received_at
    if _is_of_deleted(article, event):
        return article
    received_at = min(article.received_at, event.received_at)
    known_since = min(article.known_since or received_at, event.timestamp or received_at)
    return replace(article, received_at=received_at, known_since=known_since if known_since < received_at else None)


def dated(article: Article, event: ArticleEvent, site: Site) -> Article:
    """Return the article with the date of its newest event, which must not be an embargo."""
    date, rank = _date(event), rank_of(event.source)
    if date is None or not _takes(article, event, date, rank, site):
        return article
    return replace(article, first_published=date, dated_by=rank, dated_order=article.order)


def dated_late(article: Article, event: ArticleEvent, now: datetime) -> Article | None:
    """Return the article with the first publication that it would have if a late event had come in order; None if unchanged."""
    order, date, rank = order_of(event), _date(event), rank_of(event.source)
    if date is None or is_embargo(event, now) or rank < article.dated_by or _is_of_deleted(article, event):
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
    return replace(first_received(article, event), first_published=date, dated_by=rank, dated_order=order)


def released(article: Article) -> Article:
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
    """Set `held_order` by the newest event with a date, so that an older late embargo does not hold the article."""
    order = order_of(event) if event.action == "publish" and event.published_at else None
    latest = newest(article.dated_order, article.held_order, order)
    return replace(article, held_order=None if latest == article.dated_order else latest)


def _is_of_deleted(article: Article, event: ArticleEvent) -> bool:
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
    is_exact = event.release is not None or _was_embargo(event)
    return whole(event.published_at if is_exact else min(event.published_at, event.received_at))


def _was_embargo(event: ArticleEvent) -> bool:
    """Return True if the event's date was an embargo when the event was received."""
    assert event.received_at
    return is_embargo(replace(event, release=None), event.received_at)


def _corrected_max(article: Article, date: datetime, order: Order) -> datetime:
    """Return the latest date that counts as a correction (rule 2 above)."""
    is_behind = order.timestamp is None or exact(date) > order.timestamp
    since = article.received_at if is_behind else article.known_since or article.received_at
    return since + CLOCK_SKEW_MAX


# States of a live article that another reason keeps out of all files.
_WITHOUT_PAGE = ("excluded", "displaced")


def late(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    """Return what a late event changes. `known.article` must not be None."""
    article = known.article
    assert article
    if article.reason == FORGOTTEN:
        return Decision(outcome="late", reason=FORGOTTEN)
    names = dated_names(names_of(event, digest_of(event)))
    if names:  # repeats of the event may look newer if the sender's clock is ahead
        article = first_received(replace(article, deliveries=remembered(article.deliveries, names, removal="")), event)
    embargo = _move_embargo(event, article, known, site, now) or _embargo_received_late(event, article, known, now)
    if embargo:
        return embargo
    if names and article.state != "held":
        article = with_date_order(article, event)
    decision = dated_by_another(event, article, known, site, now)
    order = article.order
    version = "" if order.version is None else f", version {order.version}"
    newer = f"{'the removal' if order.removal else 'the event'} of {order.timestamp or order.received}{version}"
    reason = f"a newer event was received before: {newer}"
    return decision or Decision(outcome="late", reason=reason, article=article if names else None)


def _move_embargo(event: ArticleEvent, article: Article, known: Known, site: Site, now: datetime) -> Decision | None:
    """Move or end an embargo by the date of a late event, if no newer event has a date.

    The article's newest event had no date, so it kept the embargo. It is recorded again at the new release, or at once if the
    embargo has ended. Repeats and edits without a date may come before that, so the article takes the late date now.
    """
    if event.action == "remove" or event.published_at is None or article.held_order is None:
        return None
    if known.due is None and not (article.release_at and article.state in _WITHOUT_PAGE):
        return None
    order = order_of(event)
    if order.is_before(article.held_order):
        return None
    if is_embargo(event, now):
        release_at = event.published_at
        reason = f"to be published at {exact(release_at)}" if known.due else article.reason
        after = replace(article, reason=reason, release_at=release_at, held_order=order)
    else:
        release_at = None
        in_order = dated(replace(article, order=order), event, site)
        after = replace(in_order, order=article.order, release_at=None, held_order=order)
    returns = (replace(known.due, published_at=release_at, release=release_at),) if known.due else ()
    return Decision(
        outcome="late", reason="a newer event was received before; its date counts", article=after, returns=returns
    )


def _embargo_received_late(event: ArticleEvent, article: Article, known: Known, now: datetime) -> Decision | None:
    """Hold a listed article by a late embargo. An article without a page keeps the embargo for its next events.

    The article's newest event has no date, so it would have kept an embargo that came before it.
    """
    if event.action == "remove" or not article.is_undated or not is_embargo(event, now):
        return None
    order, entries = order_of(event), known.entries.get(article.name, Entries())
    newest_event = event_again(article, entries)
    date_order = newest(article.dated_order, article.held_order)
    if date_order and order.is_before(date_order):
        return None
    assert event.published_at
    release_at = event.published_at
    reason = f"to be published at {exact(release_at)}"
    if article.state in _WITHOUT_PAGE:
        after = replace(article, release_at=release_at, held_order=order)
        return Decision(outcome="late", reason=f"a newer event was received before; {reason}", article=after)
    if newest_event is None:
        return None
    after = without_entries(article, state="held", reason=reason, release_at=release_at, held_order=order)
    claims, returns = leave(article.url, article, known)
    held = replace(newest_event, published_at=release_at, release=release_at)
    return Decision(
        outcome="late",
        reason=f"a newer event was received before; {reason}",
        article=after,
        claims=claims,
        out=tuple(entries_of(article, now)),
        returns=(*returns, held),
    )


def dated_by_another(event: ArticleEvent, article: Article, known: Known, site: Site, now: datetime) -> Decision | None:
    """Change an article's first publication and its entries by an event that is not its newest. None: no change.

    The event is late, or its source has no page at the URL.
    """
    if event.action == "remove" or site.republish != "keep-date" or excluded_because(event, site):
        return None
    after = dated_late(article, event, now)
    if after is None:
        return None
    decision = Decision(outcome="late", reason="a newer event was received before; its date counts", article=after)
    entries = known.entries.get(article.name, Entries())
    if not article.has_entries or not article.url or not entries.general:
        return decision
    decision = replace(decision, general=replace(entries.general, lastmod=after.lastmod))
    first = after.first_published
    assert first
    is_news = is_current(first, now)
    if article.news and entries.news and article.is_in_news(now):
        news = replace(entries.news, published=first, lastmod=after.lastmod)
        old = EntryKey(
            article.news.file, identity(article.url), article.first_published, None if is_news else article.news
        )
        if is_news:
            return replace(decision, news=news, out=(old,) if news.published != article.first_published else ())
        return replace(decision, article=replace(after, news=None, news_reason=EXPIRED), out=(old,))
    after = replace(after, news=None)  # expired: roll_window removes the entry and frees its place
    if not is_news or article.news_reason not in (NO_DATE, EXPIRED) or not article.title:
        return replace(decision, article=after)
    general = replace(entries.general, lastmod=after.lastmod)
    news = general.as_news(article.title, first, article.publication)
    ruled_out = excluding_rule(site.rules, "news", general.loc, general.traits)
    want = Want(news_series(site, general.loc), line_bytes(news_line(news, site)))
    after = replace(after, news_reason=ruled_out, title="", publication=None)
    return replace(decision, article=after, news=news, want_news=want)
