"""What one event changes. No I/O, no clock.

`decide` classifies events: repeats change nothing, late events go to `publication_date.py`, publications to `publication.py`. `claims.py`
decides which article owns a URL, and what a removal changes. Source and id identify an article, `urls.identity` a
page. `model/order.py` decides which of two events is newer, so events may come late and more than once.
"""

from dataclasses import replace
from datetime import datetime

from stoppress.model.article import Article, Decision, Known
from stoppress.model.event import ArticleEvent, digest_of, names_of, order_of, title_hash_of
from stoppress.model.order import Order, is_repeat, own_time, remembered
from stoppress.model.site import Site
from stoppress.primitives.urls import identity
from stoppress.record.claims import removed, url_removed, weaker_page_removed
from stoppress.record.publication import Publication
from stoppress.record.publication_date import first_received, late, released

REPEATED = Decision(outcome="duplicate", reason="this was received before")


def decide(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    """Return what an event changes. `known` must hold the claims of `claims.urls_of` and their owners.

    For a removal by URL alone `known.article` is the article that the removal means (`claims.aimed_at`).
    """
    # The clock of the function that sent a released event may be ahead of ours.
    now = max(now, event.release or now)
    by_url = event.action == "remove" and not event.id
    if by_url and known.article:
        event = replace(event, id=known.article.id)
    decision = _decide(event, known, site, now) if event.id else weaker_page_removed(event, event.name, known, now)
    if by_url and decision.outcome != "duplicate":
        decision = url_removed(event, known, decision)
    before, changed = known.article, [article for article in (decision.article, *decision.displaced) if article]
    after = next((article for article in changed if article.name == event.name), before)
    due_after = after.release_at if after else None
    due_before = {event.release, before.release_at if before else None} - {None, due_after}
    kept = {(returning.release, returning.name) for returning in decision.returns}
    no_longer_due = {(instant, event.name) for instant in due_before if instant} - kept
    return replace(
        decision,
        released=tuple(sorted(no_longer_due)),
        # A late event may date a held article, but the newest event stays the one to publish at the release.
        held=due_after if decision.outcome == "held" else None,
        no_longer_waits=_no_longer_waits(before, after),
    )


def _no_longer_waits(before: Article | None, after: Article | None) -> tuple[str, str] | None:
    """Return URL and name of the article if it waited for a URL before the event and no longer does."""
    if before is None or after is None or before.url is None or before.state != "displaced":
        return None
    still_waits = after.state == "displaced" and identity(after.url or "") == identity(before.url)
    return None if still_waits else (before.url, before.name)


def _decide(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    article, order = known.article, order_of(event)
    digest, names = digest_of(event), names_of(event)
    if article and event.release and order == article.order:
        # An event that is recorded again may have a date that its delivery lacked. So the article keeps the digest of the
        # delivery, because a repeat of the delivery lacks the date too.
        digest, names = article.digest, ()
    same = False
    if article:
        is_last = order == article.order and digest == article.digest
        repeats = is_repeat(names, article.deliveries) or _is_same_version(order, digest, article)
        if not event.release and not is_last and repeats:
            return REPEATED
        if order.is_before(article.order):
            return late(event, known, site, now)
        # A feed shows the article unchanged since its newest event.
        is_same_state = event.verb is None and digest == article.digest and article.order.removal == ""
        same = is_last or is_same_state
        if same and _is_settled(article, now):
            return REPEATED
    current = _current(event, article, now)
    deliveries = remembered(current.deliveries, names, removal=order.removal)
    current = replace(
        first_received(current, event),
        order=order,
        digest=digest,
        deliveries=deliveries,
        # An event that is recorded again may have lost its title: an article keeps no text outside the news.
        title_hash=title_hash_of(event) or current.title_hash,
        is_undated=event.action == "publish" and event.published_at is None,
    )
    if event.action == "remove":
        return removed(event, current, known, now)
    decision = Publication(event, current, known, site, now).decision()
    # The same content that stays out for the same reason is a repeat. If the reason is gone, the new decision counts.
    if (
        article
        and same
        and not event.release
        and (decision.outcome, decision.reason) == (article.state, article.reason)
    ):
        return REPEATED
    return decision


def _is_settled(article: Article, now: datetime) -> bool:
    """Return True if recording the article's newest event again can change nothing."""
    is_held = article.state == "held" and article.release_at is not None and article.release_at > now
    return article.has_entries or article.state == "removed" or is_held


def _is_same_version(order: Order, digest: str, article: Article) -> bool:
    """Return True if an event without a timestamp has the version and the content of the article's newest event."""
    last = article.order
    if order.version is None or order.timestamp is not None or last.timestamp is not None or digest != article.digest:
        return False
    return (order.version, order.sequence, order.removal) == (last.version, last.sequence, last.removal)


def _current(event: ArticleEvent, article: Article | None, now: datetime) -> Article:
    """Return the article before the event. A publication under the id of a deleted article begins a new article."""
    assert event.received_at
    order = order_of(event)
    fresh = Article(
        site=event.site,
        name=event.name,
        state="removed",
        order=order,
        digest="",
        received_at=event.received_at,
        is_unlisted=True,
    )
    if article is None:
        return fresh
    if article.release_at and not event.release:
        # An event without a date keeps the embargo until the release.
        is_over_at = now if event.published_at is None else event.received_at
        article = released(article) if article.release_at <= is_over_at else article
    if article.order.removal != "deleted" or event.action == "remove":
        return article
    reborn = own_time(article.order)
    fresh = replace(fresh, deliveries=article.deliveries, reborn=reborn, rev=article.rev)
    if article.dated_order is None or own_time(article.dated_order) <= reborn:
        return fresh
    # The date came after the deletion, with an event of the new article whose version is below that of the deletion.
    dated = article.first_published, article.dated_by, article.dated_order
    return replace(fresh, first_published=dated[0], dated_by=dated[1], dated_order=dated[2])
