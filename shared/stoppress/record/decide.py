"""What one event changes. No I/O, no clock.

`decide` classifies events: repeats change nothing, late events go to `publication_date.py`. `claims.py` decides which article owns a
URL, and what a removal changes. Source and id identify an article, `urls.identity` a page. `model/order.py` decides which of two
events is newer, so events may come late and more than once.

A publication is checked in this order. An article of another host is excluded. An embargo holds the article. A newer removal of the
URL, then a stronger claim on it, keeps the article out. Then `model/exclusion_reasons.py` decides. What remains is listed: an entry in
a shard for life, and a news entry while the first publication is less than 48 hours ago.
"""

from dataclasses import replace
from datetime import datetime
from typing import Literal

from stoppress.model.article import Article, Decision, Known
from stoppress.model.entries import GeneralEntry, NewsEntry, excluding_rule
from stoppress.model.event import CMS_RANK, ArticleEvent, digest_of, names_of, order_of, title_hash_of
from stoppress.model.exclusion_reasons import (
    EXPIRED,
    FOREIGN_HOST,
    NO_DATE,
    excluded_because,
    is_embargo,
    not_news_because,
)
from stoppress.model.file_names import PAGES_SERIES, Want, news_series, shard_series
from stoppress.model.news_window import is_current
from stoppress.model.order import Order, is_repeat, own_time, remembered
from stoppress.model.site import Site
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import identity
from stoppress.record.claims import (
    WAITING_MAX,
    Claimant,
    entries_of,
    removed,
    url_removed,
    weaker_page_removed,
    with_page_removed,
    without_entries,
)
from stoppress.record.publication_date import (
    changed_at,
    dated,
    dated_by_another,
    first_received,
    late,
    released,
    with_date_order,
)
from stoppress.sitemaps.tags import general_line, line_bytes, news_line

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
    digest = digest_of(event)
    names = names_of(event, digest)
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
    fresh = replace(fresh, first_published=article.first_published, dated_by=article.dated_by)
    return replace(fresh, dated_order=article.dated_order)


class Publication(Claimant):
    """The decision about one event that publishes an article."""

    def decision(self) -> Decision:
        """Return what the event changes."""
        excluded = excluded_because(self.event, self.site)
        if excluded.startswith(FOREIGN_HOST):
            return self._without_page("excluded", excluded)
        if release_at := self._embargo():
            return self._held(release_at)
        if self._is_removed_since():
            return replace(self._without_page("excluded", "a newer event removed its URL"), outcome="late")
        stronger = self._stronger_claim()
        if stronger:
            return self._dating_its_owner(self._without_page("displaced", stronger))
        if excluded:
            # A source of lower rank cannot list a page that its event excludes; a source of equal rank can.
            page = weaker_page_removed(self.event, self.current.name, self.known, self.now)
            return with_page_removed(self._without_page("excluded", excluded), page)
        after = self._apply_date()
        if self._is_unchanged(after):
            return Decision(outcome="duplicate", reason="a newer event with the same content", article=self.current)
        return self._list_page(after)

    def _is_unchanged(self, after: Article) -> bool:
        """Return True if the article is listed already, with this content and these dates."""
        before, current = self.known.article, self.current
        if before is None or before.digest != current.digest or not current.has_entries:
            return False
        is_owner = self.claim is not None and self.claim.owner == current.name
        return is_owner and (after.changed_at, after.first_published) == (current.changed_at, current.first_published)

    def _embargo(self) -> datetime | None:
        """Return the instant until which the article is held, if any. An event without a date does not change the embargo."""
        if self.event.published_at is None:
            release_at = self.current.release_at
            return release_at if release_at and release_at > self.now else None
        return self.event.published_at if is_embargo(self.event, self.now) else None

    def _apply_date(self) -> Article:
        """Return the article with its first publication and the date of its last change."""
        current, before = self.current, self._previous_owner()
        if before and current.shard is None:
            current = replace(current, shard=before.shard)
        is_dateless = self.event.published_at is None and current.first_published is None
        if before and is_dateless and self._is_same_story(before):
            dated_by = min(before.dated_by, current.rank)
            current = replace(current, first_published=before.first_published, dated_by=dated_by)
        current = with_date_order(dated(current, self.event, self.site), self.event)
        return replace(current, url=self.url, release_at=None, changed_at=changed_at(self.event))

    def _held(self, release_at: datetime) -> Decision:
        """The article is held: its entries are deleted, and it claims no URL, so nothing shows it before its release."""
        reason = f"to be published at {exact(release_at)}"
        after = without_entries(self.current, state="held", reason=reason, url=self.url, release_at=release_at)
        if self.event.published_at:
            after = replace(after, held_order=self.current.order)
        out = tuple(entries_of(self.current, self.now))
        return self._leaving(Decision(outcome="held", reason=reason, article=after, out=out))

    def _list_page(self, after: Article) -> Decision:
        event = self.event
        general = GeneralEntry(
            self.url,
            after.lastmod,
            event.traits,
            event.images,
            event.videos,
            event.alternates,
            event.language,
            event.changefreq,
            event.priority,
        )
        first = after.first_published
        news_reason = not_news_because(event, self.url, first, self.now)
        news = general.as_news(event.title, first, event.publication) if first and not news_reason else None
        hidden = excluding_rule(self.site.rules, "general", self.url, event.traits)
        out_of_news = news_reason or excluding_rule(self.site.rules, "news", self.url, event.traits)
        want_shard = self._want_shard(after, line_bytes(general_line(general, self.site)))
        series = news_series(self.site, self.url)
        keeper = self._news_keeper(news, series) if news else None
        kept = keeper.news if keeper else None
        may_become_news = news_reason in (NO_DATE, EXPIRED) and is_current(after.received_at, self.now)
        is_hidden = bool(hidden and out_of_news)
        after = replace(
            after,
            state="hidden" if is_hidden else "listed",
            is_unlisted=after.is_unlisted and is_hidden,
            reason=hidden,
            news_reason=out_of_news,
            dropped=event.dropped,
            news=kept,
            title=event.title if may_become_news else "",
            publication=event.publication if may_become_news else None,
        )
        decision = self._with_claim(after, keeper)
        assert decision.article
        staying = {(entry.file, entry.url, entry.published) for entry in entries_of(decision.article, self.now)}
        return replace(
            decision,
            general=general,
            news=news,
            want_shard=want_shard,
            want_news=None if kept or not news else Want(series, line_bytes(news_line(news, self.site))),
            out=tuple(entry for entry in decision.out if (entry.file, entry.url, entry.published) not in staying),
        )

    def _want_shard(self, after: Article, size_bytes: int) -> Want | None:
        """Return the place for life that a page needs, or a larger one if it has outgrown its place."""
        if shard := after.shard:
            return Want(shard.series, size_bytes, held=shard) if size_bytes > shard.size_bytes else None
        published = after.first_published or after.received_at
        series = PAGES_SERIES if self.event.page else shard_series(self.site, published, self.event.section)
        return Want(series, size_bytes)

    def _news_keeper(self, news: NewsEntry, series: str) -> Article | None:
        """Return the article whose news place the new entry takes over, if any.

        First choice is an article whose entry has the same page and date, then this article, then the previous owner. Any
        other place is given back with its entry.
        """
        owners = [self.current, self._previous_owner()]
        keepers = [
            owner
            for owner in owners
            if owner and owner.news and owner.has_entries and owner.is_in_news(self.now) and owner.news.series == series
        ]
        same = (identity(news.loc), news.published)
        replaced = [owner for owner in keepers if (identity(owner.url or ""), owner.first_published) == same]
        return next(iter(replaced + keepers), None)

    def _without_page(self, state: Literal["excluded", "displaced"], reason: str) -> Decision:
        """The article has no page: its entries are deleted and its URL is given up. A displaced article may wait for the URL."""
        after = with_date_order(dated(self.current, self.event, self.site), self.event)
        after = without_entries(after, state=state, reason=reason, url=self.url)
        out = tuple(entries_of(self.current, self.now))
        decision = self._leaving(Decision(outcome=state, reason=reason, article=after, out=out))
        claim = self.claim
        if state == "excluded" or claim is None or not claim.rank == self.rank == CMS_RANK:
            return decision
        owner = self.known.owners.get(claim.owner)
        if owner and self._has_same_title(owner):
            return decision
        names = [name for name in claim.waiting if name != after.name]
        # Written even if the article waits already: an owner that leaves at this moment has read the older waiting event.
        waiting = replace(claim, waiting=tuple([after.name, *names][:WAITING_MAX]))
        return replace(decision, claims=(*decision.claims, waiting), waits=(replace(self.event, release=None),))

    def _dating_its_owner(self, decision: Decision) -> Decision:
        """If the URL's owner has no date, it takes the date of this event, although this article gets no page."""
        owner = self._previous_owner()
        if owner is None or owner.first_published is not None or not self._is_same_story(owner):
            return decision
        date = dated_by_another(self.event, owner, self.known, self.site, self.now)
        if date is None or decision.article is None:
            return decision
        return replace(
            decision,
            article=date.article,
            displaced=(*decision.displaced, decision.article),
            general=date.general,
            news=date.news,
            want_news=date.want_news,
            out=decision.out + date.out,
        )
