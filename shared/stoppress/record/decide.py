"""What one event changes. No I/O, no clock.

`decide` classifies events: repeats change nothing, and late events change only dates. `publication.py` decides about publications,
`claims.py` about the owners of URLs and about removals. Source and id identify an article, `urls.identity` a page. `model/order.py`
decides which of two events is newer, so events may arrive late and repeatedly.
"""

from dataclasses import replace
from datetime import datetime

from stoppress.model.article import FORGOTTEN, Article, Claim, Decision, Known
from stoppress.model.event import ArticleEvent, digest_of, names_of, order_of, title_hash_of
from stoppress.model.exclusion_reasons import excluded_because, is_embargo
from stoppress.model.order import Order, is_repeat, newest, own_time, remember_deliveries
from stoppress.model.site import Site
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import identity
from stoppress.record.claims import leave, removed, store_url_removal, with_weaker_page_removed, without_entries
from stoppress.record.publication import Publication, date_by_another
from stoppress.record.publication_date import as_released, first_received, is_of_deleted, with_date, with_date_order
from stoppress.record.versions import link_versions

REPEATED = Decision(outcome="duplicate", reason="this was received before")


def decide(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    """Return what an event changes. `known` must hold the claims of `transaction.urls_of` and their owners.

    For a removal by URL alone `known.article` is the article to which it applies (`claims.aimed_at`).
    """
    if event.action == "again":
        return _list_again(event, known, site, now)
    # The clock of the function that sent a released event may be ahead of this function's clock.
    now = max(now, event.release or now)
    by_url = event.action == "remove" and not event.id
    if by_url and known.article:
        event = replace(event, id=known.article.id)
    if event.id:
        decision = _decide(event, known, site, now)
    else:
        decision = with_weaker_page_removed(Decision(outcome="removed"), event, event.name, known, now)
    if by_url and decision.outcome != "duplicate":
        decision = store_url_removal(event, known, decision)
    before, changed = known.article, [article for article in (decision.article, *decision.displaced) if article]
    after = next((article for article in changed if article.name == event.name), before)
    due_after = after.release_at if after else None
    due_before = {event.release, before.release_at if before else None} - {None, due_after}
    kept = {(returning.release, returning.name) for returning in decision.returns}
    no_longer_due = {(instant, event.name) for instant in due_before if instant} - kept
    decision = replace(
        decision,
        released=tuple(sorted(no_longer_due)),
        # A late event may date a held article, but the newest event stays the one to publish at the release.
        held=due_after if decision.outcome == "held" else None,
        no_longer_waits=_no_longer_waits(before, after),
    )
    return link_versions(decision, event, known, site)


def _list_again(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    """List the page of an event again if its alternates change.

    If not, its claim is written alone, so that a concurrent decision by older claims gets a conflict.
    """
    settled = replace(REPEATED, released=((event.release, event.name),) if event.release else ())
    claim = known.claims.get(identity(event.url or ""))
    if claim and claim.lists and not claim.live:  # the transaction that removed the page had no room for its links
        return link_versions(replace(settled, claims=(claim,)), event, known, site)
    owner = known.owners.get(claim.owner) if claim and claim.live else None
    newest = known.again.get(owner.name) if owner and owner.has_entries else None
    if claim is None or owner is None or newest is None:
        return settled
    decision = link_versions(Publication(newest, owner, known, site, now).list_page(owner), newest, known, site)
    stored = {**known.versions, **known.claims}
    is_same = all(changed == stored.get(identity(changed.url)) for changed in decision.claims)
    if is_same and decision.general and decision.general.alternates == known.shown:
        return replace(settled, claims=(claim,))
    return replace(decision, outcome="duplicate", reason="its language versions changed", released=settled.released)


def _no_longer_waits(before: Article | None, after: Article | None) -> tuple[str, str] | None:
    """Return URL and name of the article if it waited for a URL before the event and no longer does."""
    if before is None or after is None or before.url is None or before.state != "displaced":
        return None
    still_waits = after.state == "displaced" and identity(after.url or "") == identity(before.url)
    return None if still_waits else (before.url, before.name)


def _decide(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    article, order = known.article, order_of(event)
    digest = digest_of(event)
    names = names_of(event, digest)
    if article and event.release and order == article.order:
        # An event that is recorded again may have a date that its delivery lacked. The article keeps the digest of the
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
    deliveries = remember_deliveries(current.deliveries, names, removal=order.removal)
    current = replace(
        first_received(current, event),
        order=order,
        digest=digest,
        deliveries=deliveries,
        # An event that is recorded again may lack its title, because an article outside the news keeps no text.
        title_hash=title_hash_of(event) or current.title_hash,
        is_undated=event.action == "publish" and event.published_at is None,
    )
    if event.action == "remove":
        return removed(event, current, known, now)
    decision = Publication(event, current, known, site, now).decision()
    # The same content that is kept out for the same reason is a repeat. If the reason has ended, the new decision counts.
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
        article = as_released(article) if article.release_at <= is_over_at else article
    if article.order.removal != "deleted" or event.action == "remove":
        return article
    reborn = own_time(article.order)
    fresh = replace(fresh, deliveries=article.deliveries, reborn=reborn, rev=article.rev)
    if article.dated_order is None or own_time(article.dated_order) <= reborn:
        return fresh
    # The date arrived after the deletion, with an event of the new article whose version is below that of the deletion.
    fresh = replace(fresh, first_published=article.first_published, dated_by=article.dated_by)
    return replace(fresh, dated_order=article.dated_order)


# States of an article that another reason keeps out of all files.
_WITHOUT_PAGE = ("excluded", "displaced")


def late(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    """Return what a late event changes. `known.article` must not be None."""
    article = known.article
    assert article
    if article.reason == FORGOTTEN:
        return Decision(outcome="late", reason=FORGOTTEN)
    decision = _date_late(event, article, known, site, now)
    if article.is_unlisted and _was_listed(event, article, known, site, now):
        return replace(decision, article=replace(decision.article or article, is_unlisted=False))
    return decision


def _was_listed(event: ArticleEvent, article: Article, known: Known, site: Site, now: datetime) -> bool:
    """Return True if a late event would have put its article into a file if it had arrived in order.

    An embargo that was not over when the article's newest event was sent has listed nothing, because that event may have ended it.
    """
    date = event.published_at or article.release_at
    if event.action == "remove" or (date and own_time(article.order) < exact(date)):
        return False
    if excluded_because(event, site) or is_of_deleted(article, event):
        return False
    listed = Publication(event, article, known, site, now).list_page(article).article
    return listed is not None and not listed.is_unlisted


def _date_late(event: ArticleEvent, article: Article, known: Known, site: Site, now: datetime) -> Decision:
    """Return how the date of a late event changes its article, and remember the event's delivery."""
    names = names_of(event, digest_of(event))
    if names:  # repeats of the event may look newer: received later, or if the sender's clock is ahead
        deliveries = remember_deliveries(article.deliveries, names, removal=article.order.removal)
        article = first_received(replace(article, deliveries=deliveries), event)
    if embargo := _late_embargo(event, article, known, site, now):
        return embargo
    article = with_date_order(article, event)
    decision = date_by_another(event, article, known, site, now)
    order = article.order
    version = "" if order.version is None else f", version {order.version}"
    newer = f"{'the removal' if order.removal else 'the event'} of {order.timestamp or order.received}{version}"
    reason = f"a newer event was received before: {newer}"
    return decision or Decision(outcome="late", reason=reason, article=None if article == known.article else article)


def _late_embargo(event: ArticleEvent, article: Article, known: Known, site: Site, now: datetime) -> Decision | None:
    """Hold an article by the date of a late event, or move or end its embargo, if no newer event has a date. A removal ends it.

    The article's newest event has no date, so it keeps the embargo. It is recorded again at the release, or immediately if the embargo
    has ended. Repeats and edits without a date may arrive before that, so the article takes the late date now. An article without a page
    keeps the embargo for its next events.
    """
    order, date_order = order_of(event), newest(article.dated_order, article.held_order)
    is_newest_date = date_order is None or not order.is_before(date_order)
    is_undated = event.published_at is None and event.action == "publish"
    if is_undated or not article.is_undated or not is_newest_date or is_of_deleted(article, event):
        return None
    is_without_page = article.state in _WITHOUT_PAGE
    newest_event = known.again.get(article.name)
    claims: tuple[Claim, ...] = ()
    returns: tuple[ArticleEvent, ...] = ()
    release_at = None
    if event.published_at and is_embargo(event, now) and (newest_event or is_without_page):
        release_at = event.published_at
        reason = f"to be published at {exact(release_at)}"
        after = replace(article, release_at=release_at, held_order=order)
        if not is_without_page:
            after = without_entries(after, state="held", reason=reason, release_at=release_at)
            claims, returns = leave(article.url, article, known)
    elif article.release_at and not is_embargo(event, now) and (is_without_page or newest_event):
        reason = "it ends the embargo"
        in_order = with_date(replace(article, order=order), event, site)
        after = replace(in_order, order=article.order, release_at=None, held_order=order)
    else:
        return None
    if newest_event:
        returns = (*returns, replace(newest_event, published_at=release_at, release=release_at))
    return Decision(
        outcome="late",
        reason=f"a newer event was received before; {reason}",
        article=after,
        claims=claims,
        out=tuple(article.list_entries(now)),
        returns=returns,
    )
