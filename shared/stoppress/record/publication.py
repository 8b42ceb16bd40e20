"""The effect of an event that publishes an article: whether its page is listed, held or kept out, and in which files.

A publication is checked in this order. An article of another host is excluded. An embargo holds the article. A newer removal of the
URL, then a stronger claim on it, keeps the article out. Then `model/exclusion_reasons.py` decides. All others are listed: an entry
in a shard for life, and a news entry while the first publication is less than 48 hours ago.
"""

from dataclasses import replace
from datetime import datetime
from typing import Literal

from stoppress.model.article import Article, Claim, Decision, Known
from stoppress.model.entries import GeneralEntry, NewsEntry, excluding_rule
from stoppress.model.event import CMS_RANK, PREVIOUS_URLS_MAX, ArticleEvent, order_of, rank_of
from stoppress.model.exclusion_reasons import (
    EXPIRED,
    FOREIGN_HOST,
    NO_DATE,
    excluded_because,
    is_embargo,
    is_home,
    not_news_because,
)
from stoppress.model.file_names import PAGES_SERIES, Want, news_series, shard_series
from stoppress.model.news_window import is_current
from stoppress.model.order import is_claimed_before, page_order
from stoppress.model.site import Site
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import host_of, identity
from stoppress.record.claims import (
    WAITING_MAX,
    displace,
    leave,
    outranked_reason,
    overtaken_reason,
    with_weaker_page_removed,
    without_entries,
)
from stoppress.record.publication_date import changed_at, with_date, with_date_order, with_late_date
from stoppress.record.versions import with_possible_links
from stoppress.sitemaps.tags import general_line, line_bytes, news_line


class Publication:
    """The decision about one event that publishes an article."""

    def __init__(self, event: ArticleEvent, current: Article, known: Known, site: Site, now: datetime) -> None:
        assert event.url
        self.event, self.current, self.known, self.site, self.now = event, current, known, site, now
        self.url = event.url
        self.rank = rank_of(event.source)
        self.claim = known.claims.get(identity(self.url))

    def decision(self) -> Decision:
        excluded = excluded_because(self.event, self.site)
        if excluded.startswith(FOREIGN_HOST):
            return self._without_page("excluded", excluded)
        if release_at := self._embargo():
            return self._held(release_at)
        if self._is_removed_since():
            return replace(self._without_page("excluded", "a newer event removed its URL"), outcome="late")
        stronger = self._stronger_claim()
        if stronger:
            decision = self._without_page("displaced", stronger)
            return decision if excluded else self._date_owner(decision)
        if excluded:
            # A source of lower rank cannot list a page that its event excludes; a source of equal rank can.
            decision = self._without_page("excluded", excluded)
            return with_weaker_page_removed(decision, self.event, self.current.name, self.known, self.now)
        after = self._apply_date()
        if self._is_unchanged(after):
            return Decision(outcome="duplicate", reason="a newer event with the same content", article=self.current)
        return self.list_page(after)

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
        current = with_date_order(with_date(current, self.event, self.site), self.event)
        return replace(current, url=self.url, release_at=None, changed_at=changed_at(self.event))

    def _held(self, release_at: datetime) -> Decision:
        """Hold the article: delete its entries and claim no URL, so that nothing shows it before its release."""
        reason = f"to be published at {exact(release_at)}"
        after = without_entries(self.current, state="held", reason=reason, url=self.url, release_at=release_at)
        if self.event.published_at:
            after = replace(after, held_order=self.current.order)
        out = tuple(self.current.list_entries(self.now))
        return self._leaving(Decision(outcome="held", reason=reason, article=after, out=out))

    def list_page(self, after: Article) -> Decision:
        """List the article, which has its date, or keep it in the table if the site's rules exclude it."""
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
        widest = with_possible_links(general, self.known)
        want_shard = self._want_shard(after, line_bytes(general_line(widest, self.site)))
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
        staying = {(entry.file, entry.url, entry.published) for entry in decision.article.list_entries(self.now)}
        return replace(
            decision,
            general=general,
            news=news,
            want_shard=want_shard,
            want_news=None
            if kept or not news
            else Want(series, line_bytes(news_line(replace(news, alternates=widest.alternates), self.site))),
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
        other place is freed with its entry.
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
        """Leave the article without a page: delete its entries and leave its URL. A displaced article may wait for the URL."""
        after = with_date_order(with_date(self.current, self.event, self.site), self.event)
        after = without_entries(after, state=state, reason=reason, url=self.url)
        out = tuple(self.current.list_entries(self.now))
        decision = self._leaving(Decision(outcome=state, reason=reason, article=after, out=out))
        claim = self.claim
        if state == "excluded" or claim is None or not claim.rank == self.rank == CMS_RANK:
            return decision
        owner = self.known.owners.get(claim.owner)
        if owner and self._has_same_title(owner):
            return decision
        names = [name for name in claim.waiting if name != after.name]
        # Written even if the article waits already, because an owner that leaves concurrently has read the older waiting event.
        waiting = replace(claim, waiting=tuple([after.name, *names][:WAITING_MAX]))
        return replace(decision, claims=(*decision.claims, waiting), waits=(replace(self.event, release=None),))

    def _date_owner(self, decision: Decision) -> Decision:
        """Set this event's date for the URL's owner if the owner has none, although this article gets no page."""
        owner = self._previous_owner()
        if owner is None or owner.first_published is not None or not self._is_same_story(owner):
            return decision
        date = date_by_another(self.event, owner, self.known, self.site, self.now)
        if date is None or decision.article is None:
            return decision
        return replace(
            decision,
            article=date.article,
            displaced=(*decision.displaced, decision.article),
            general=date.general,
            news=date.news,
            want_shard=date.want_shard,
            want_news=date.want_news,
            out=decision.out + date.out,
        )

    def _is_removed_since(self) -> bool:
        """Return True if a newer event of the same source removed the source's page by its URL alone."""
        removal = self.claim.removed.get(self.event.source) if self.claim else None
        return removal is not None and order_of(self.event).is_before(removal)

    def _stronger_claim(self) -> str:
        """Return the reason if another article keeps the URL: its source ranks higher, or the article is newer. Else empty."""
        claim = self.claim
        if claim is None or claim.owner == self.current.name or claim.rank < self.rank:
            return ""
        if claim.rank > self.rank:
            return outranked_reason(claim.owner) + ("" if claim.live else ", and has removed it")
        same_source = claim.source == self.event.source
        owner = self.known.owners.get(claim.owner)
        claimed = owner.order if owner else claim.order
        if claim.live and is_claimed_before(self.current.order, claimed, same_source=same_source):
            return overtaken_reason(claim.owner)
        return ""

    def _previous_owner(self) -> Article | None:
        """Return the other article that owned the URL so far, if any."""
        if self.claim and self.claim.live and self.claim.owner != self.current.name:
            return self.known.owners.get(self.claim.owner)
        return None

    def _is_same_story(self, other: Article) -> bool:
        """Return True if another article of the URL is the same story.

        It is if either is not from a CMS, or if two CMSs send the same title.
        """
        if min(other.rank, self.rank) < CMS_RANK:
            return True
        return other.source != self.event.source and self._has_same_title(other)

    def _has_same_title(self, other: Article) -> bool:
        """Return True if another article of the URL has the event's title, and the title is not empty."""
        return other.title_hash == self.current.title_hash != ""

    def _with_claim(self, after: Article, news_keeper: Article | None = None) -> Decision:
        """List the article at its URL. Delete its old entries and those of the previous owner.

        The article takes over the news place of `news_keeper`, so that place is not freed.
        """
        decision = Decision(
            outcome="excluded" if after.state == "hidden" else after.state,
            reason=after.reason,
            article=after,
            out=tuple(self.current.list_entries(self.now, keeps=news_keeper is self.current)),
        )
        before = self._previous_owner()
        waiting = tuple(name for name in (self.claim.waiting if self.claim else ()) if name != after.name)
        if before:
            same_rank = before.rank == self.rank
            # A feed may list a story under a new id, and the old id must not return. So only articles of a CMS wait.
            can_wait = same_rank and self.rank == CMS_RANK and not self._has_same_title(before)
            event = self.known.again.get(before.name) if can_wait else None
            waiting = ((before.name, *waiting) if event else waiting)[:WAITING_MAX]
            reason = overtaken_reason(after.name) if same_rank else outranked_reason(after.name)
            decision = replace(
                decision,
                displaced=(displace(before, reason, keeps_shard=after.shard != before.shard),),
                out=decision.out + tuple(before.list_entries(self.now, keeps=news_keeper is before)),
                waits=(event,) if event else (),
            )
        claim = self.claim or Claim(self.event.site, self.url, after.name, live=True, order=after.order)
        keeps_waiting = claim.owner == after.name or before is not None
        claim = replace(
            claim,
            url=self.url,
            owner=after.name,
            live=True,
            order=page_order(after.order),
            waiting=waiting if keeps_waiting else (),
        )
        return self._leaving(replace(decision, claims=(claim,)))

    def _leaving(self, decision: Decision) -> Decision:
        """Return the decision in which the article has left its earlier URLs. Events that waited for one of them are recorded again.

        The event's `previous_urls` count only if the article takes a URL.
        """
        claims = decision.claims
        taken = {identity(claim.url) for claim in claims}
        hints = [url for url in self.event.previous_urls[:PREVIOUS_URLS_MAX] if claims and not is_home(url)]
        for url in [self.current.url, *hints]:
            page = identity(url) if url else ""
            if not url or page in taken:
                continue
            taken.add(page)
            claims_left, returns = leave(url, self.current, self.known)
            decision = replace(decision, claims=decision.claims + claims_left, returns=decision.returns + returns)
            # Sources of lower rank must not list a URL that the article had before.
            is_on_site = self.rank == CMS_RANK and host_of(url) == self.site.host
            if claims and not claims_left and (page in self.known.claims or is_on_site):
                decision = with_weaker_page_removed(decision, self.event, self.current.name, self.known, self.now, url)
        return replace(decision, out=tuple(dict.fromkeys(decision.out)))


def date_by_another(event: ArticleEvent, article: Article, known: Known, site: Site, now: datetime) -> Decision | None:
    """Change an article's first publication by an event that is not its newest, and list it again. Return None for no change.

    The event is late, or its source has no page at the URL. If its page is excluded, it can only set the first date.
    """
    if event.action == "remove" or site.republish != "keep-date":
        return None
    excluded = excluded_because(event, site)
    if article.first_published and excluded:
        return None
    after = with_late_date(article, event, now)
    if after is None:
        return None
    if excluded:  # any date of a page that is listed replaces it
        after = replace(after, dated_by=0)
    newest = known.again.get(article.name) if article.has_entries else None
    decision = Publication(newest, article, known, site, now).list_page(after) if newest else None
    decision = decision or Decision(outcome="late", article=after)
    return replace(decision, outcome="late", reason="a newer event was received before; its date counts")
