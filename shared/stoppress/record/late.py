"""What an event changes if a newer event of its article was recorded before it.

A late event changes only dates: its date counts as if the event had come in order. That date may hold the article, end or
move an embargo, or correct the first publication. The content of a late event is ignored.
"""

from dataclasses import replace
from datetime import datetime

from stoppress.model.article import FORGOTTEN, Article, Decision, Entries, EntryKey, Known
from stoppress.model.entries import NewsEntry
from stoppress.model.event import ArticleEvent, names_of, order_of
from stoppress.model.exclude import EXPIRED, NO_DATE, excluded_because, is_embargo
from stoppress.model.file_names import news_series
from stoppress.model.news_window import is_current
from stoppress.model.order import dated_names, remembered
from stoppress.model.places import Want
from stoppress.model.rules import excluding_rule
from stoppress.model.site import Site
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import identity
from stoppress.record.claims import entries_of, event_again, leave, without_entries
from stoppress.record.publication_date import dated_in_order, dated_late, first_received, newest, with_date_order
from stoppress.sitemaps.tags import line_bytes, news_line

# States of a live article that another reason keeps out of all files.
_WITHOUT_PAGE = ("excluded", "displaced")


def late(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    """Return what a late event changes. `known.article` must not be None."""
    article = known.article
    assert article
    if article.reason == FORGOTTEN:
        return Decision(outcome="late", reason=FORGOTTEN)
    names = dated_names(names_of(event))
    if names:  # repeats of the event may look newer if the sender's clock is ahead
        article = first_received(replace(article, deliveries=remembered(article.deliveries, names, removal="")), event)
    embargo = _move_embargo(event, article, known, site, now) or _embargo_received_late(event, article, known, now)
    if embargo:
        return embargo
    if names and article.state != "held":
        article = with_date_order(article, event)
    decision = dated_by_another(event, article, known, site, now)
    reason = f"a newer event was received before: {_place(article)}"
    return decision or Decision(outcome="late", reason=reason, article=article if names else None)


def _place(article: Article) -> str:
    """Return the article's newest event in words, for a reason."""
    order = article.order
    what = f"{'the removal' if order.removal else 'the event'} of {order.timestamp or order.received}"
    return what if order.version is None else f"{what}, version {order.version}"


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
        after = replace(dated_in_order(article, event, site), release_at=None, held_order=order)
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
    general = entries.general
    news = NewsEntry(
        general.loc, article.title, first, after.lastmod, article.publication, general.language, general.traits
    )
    ruled_out = excluding_rule(site.rules, "news", general.loc, general.traits)
    want = Want(news_series(site, general.loc), line_bytes(news_line(news, site)))
    after = replace(after, news_reason=ruled_out, title="", publication=None)
    return replace(decision, article=after, news=news, want_news=want)
