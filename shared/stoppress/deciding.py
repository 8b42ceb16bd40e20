"""The rules of recording: what an event changes, decided from what is known. No I/O, no clock of its own.

An article is known by its source and its id there, a page by its URL. Order is the article's own, removal is by id, and a
URL is taken out only while its claim is the article's: so events may come late, twice and in any order.
"""

from dataclasses import replace
from datetime import datetime
from typing import Literal
from urllib.parse import urlsplit

from stoppress.article import (
    CLOCK_SKEW_MAX,
    CMS_RANK,
    PREVIOUS_URLS_MAX,
    ArticleEvent,
    digest_of,
    order_of,
    rank_of,
)
from stoppress.files import NEWS_WINDOW, GeneralEntry, NewsEntry, general_line, line_bytes, news_line
from stoppress.instants import exact, whole
from stoppress.naming import PAGES_SERIES, news_series, shard_series
from stoppress.places import Want
from stoppress.rules import against
from stoppress.site import Site
from stoppress.state import FORGOTTEN, Article, Claim, Decision, EntryKey, Known
from stoppress.urls import host_of

EXPIRED = "published more than 48 hours ago"
SAID_BEFORE = Decision(outcome="duplicate", reason="said before")


def urls_of(event: ArticleEvent, article: Article | None) -> list[str]:
    """The URLs whose claims a decision needs."""
    urls = [event.url, article.url if article else None, *event.previous_urls[:PREVIOUS_URLS_MAX]]
    return list(dict.fromkeys(url for url in urls if url)) if event.action == "publish" else [u for u in urls[1:2] if u]


def decide(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    """What an event changes, given what is known. `known` must hold the claims of `urls_of` and their owners."""
    decision = _decide(event, known, site, now)
    before, after = known.article, decision.article or known.article
    due_after = after.release_at if after else None
    due_before = {event.release, before.release_at if before else None} - {None, due_after}
    released = {(instant, event.name) for instant in due_before if instant}
    for other in decision.displaced:
        held = known.owners[other.name].release_at
        released |= {(held, other.name)} if held else set()
    return replace(
        decision,
        released=tuple(sorted(released)),
        # A late event that only dates a held article is not what is to be published when its hour comes.
        held=decision.article.release_at if decision.article and decision.outcome == "held" else None,
    )


def _decide(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    article, order, digest = known.article, order_of(event), digest_of(event)
    same = False
    if article:
        if order.is_before(article.order):
            if article.reason == FORGOTTEN:
                return Decision(outcome="late", reason=FORGOTTEN)
            reason = f"older than what is known: {order.version} before {article.order.version}"
            return _first_dated(event, known, site, now) or Decision(outcome="late", reason=reason)
        same = (order.version, order.sequence, digest) == (
            article.order.version,
            article.order.sequence,
            article.digest,
        )
        settled = article.has_entries or article.state == "removed" or (article.release_at and article.release_at > now)
        if same and settled:
            return SAID_BEFORE
    current = article or Article(
        site=event.site, name=event.name, state="removed", order=order, digest="", heard_at=now
    )
    current = replace(current, order=order, digest=digest)
    if event.action == "remove":
        return _removed(current, known, now)
    decision = _Publication(event, current, known, site, now).decision(
        same_content=bool(article and article.digest == digest)
    )
    # What stays out for the reason that is known is nothing new; what it stayed out for may be gone by now.
    if article and same and (decision.outcome, decision.reason) == (article.state, article.reason):
        return SAID_BEFORE
    return decision


def excluded_because(event: ArticleEvent, site: Site) -> str:
    """Why an article can be in no sitemap of any site; empty where nothing speaks against it.

    The site's own rules are another matter: they hold when a file is rendered.
    """
    assert event.url
    if host_of(event.url) != site.host:
        return f"foreign host: {host_of(event.url)} is not {site.host}"
    if event.noindex:
        return "noindex: the page asks not to be indexed"
    if event.access == "protected":
        return "protected: the page asks for a password"
    if event.canonical_url and event.canonical_url != event.url:
        return f"canonical elsewhere: {event.canonical_url}"
    return ""


def is_late(event: ArticleEvent, article: Article) -> bool:
    """Whether something newer is known of the article than the event."""
    return order_of(event).is_before(article.order)


def _first_dated(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision | None:
    """What a late event is still good for: had it come in its order, its date would be the first publication.

    Else a story that is re-dated would be news again wherever the newer event happens to come first.
    """
    article, said = known.article, event.published_at
    assert article
    if not said or not _counts(event, article, site, now) or excluded_because(event, site):
        return None
    after = replace(
        article, first_published=whole(min(said, now)), dated_by=rank_of(event.source), dated_order=order_of(event)
    )
    decision = Decision(outcome="late", reason="older than what is known, but the first to be dated", article=after)
    if not article.has_entries or not article.url or not known.general:
        return decision
    decision = replace(decision, general=replace(known.general, lastmod=after.lastmod))
    if not known.news or not article.news or not article.is_in_news(now):
        return replace(decision, article=replace(after, news=None))  # its entry is the roller's, and so is its place
    news = replace(known.news, published=after.first_published or now, lastmod=after.lastmod)
    stays = news.expires_at > now
    gone = EntryKey(article.news.file, article.url, article.first_published, None if stays else article.news)
    if stays:
        return replace(decision, news=news, out=(gone,) if news.published != article.first_published else ())
    expired = replace(after, news=None, news_reason=EXPIRED)
    return replace(decision, article=expired, out=(gone,))


def _counts(event: ArticleEvent, article: Article, site: Site, now: datetime) -> bool:
    """Whether the date of a late publication is an earlier word of the first one than what is known."""
    if event.action == "remove" or site.republish != "keep-date":
        return False
    if not event.published_at or event.published_at > now + CLOCK_SKEW_MAX:
        return False
    is_first = article.first_published is None or article.dated_by < rank_of(event.source)
    return is_first or (article.dated_order is not None and order_of(event).is_before(article.dated_order))


def _removed(current: Article, known: Known, now: datetime) -> Decision:
    claim = known.claims.get(current.url or "")
    mine = claim is not None and claim.live and claim.owner == current.name
    after = replace(
        current,
        state="removed",
        reason="removed by its source",
        news_reason="",
        news=None,
        release_at=None,
    )
    return Decision(
        outcome="removed",
        article=after,
        claims=(replace(claim, live=False, at=current.order.timestamp),) if claim and mine else (),
        out=tuple(_entries(current, now)) if mine else (),
    )


def _entries(article: Article, now: datetime, *, keeps: bool = False) -> list[EntryKey]:
    """The entries that an article has in files; with `keeps`, its place in the news is not to be given back."""
    if not article.has_entries or not article.url or not article.shard:
        return []
    entries = [EntryKey(article.shard.file, article.url)]
    if article.news and article.is_in_news(now):
        place = None if keeps else article.news
        entries.append(EntryKey(article.news.file, article.url, article.first_published, place))
    return entries


def _speaks(owner: str) -> str:
    return f"{owner} speaks for this page"


def _is_newer(owner: str) -> str:
    return f"{owner} has this URL and is newer"


class _Publication:
    """One decision about a publication: the event, what is known, and what comes of both."""

    def __init__(self, event: ArticleEvent, current: Article, known: Known, site: Site, now: datetime) -> None:
        assert event.url
        self.event, self.current, self.known, self.site, self.now = event, current, known, site, now
        self.url = event.url
        self.rank = rank_of(event.source)
        self.at = exact(event.updated_at or (event.version if isinstance(event.version, datetime) else event.timestamp))
        self.claim = known.claims.get(self.url)

    def decision(self, *, same_content: bool) -> Decision:
        reason = excluded_because(self.event, self.site)
        if reason.startswith("foreign host"):
            return self._without_page("excluded", reason)
        stronger = self._stronger_claim()
        if stronger:
            return self._without_page("displaced", stronger)
        if reason:
            return self._with_claim(
                replace(self.current, state="excluded", reason=reason, news_reason="", url=self.url)
            )
        dated = self._dated()
        if dated.release_at:
            return self._with_claim(
                replace(dated, state="held", reason=f"to be published at {exact(dated.release_at)}")
            )
        if same_content and self.current.has_entries and self.claim and self.claim.owner == self.current.name:
            return Decision(outcome="duplicate", reason="a newer version of the same", article=self.current)
        return self._listed(dated)

    # ── whose page is it ──

    def _stronger_claim(self) -> str:
        claim = self.claim
        if claim is None or claim.owner == self.current.name or claim.rank < self.rank:
            return ""
        if claim.rank > self.rank:
            return _speaks(claim.owner) + ("" if claim.live else ", and has removed it")
        if claim.live and (claim.at, claim.owner) > (self.at, self.current.name):
            return _is_newer(claim.owner)
        return ""

    def _previous_owner(self) -> Article | None:
        """The article that had a live claim on the URL until now."""
        if self.claim and self.claim.live and self.claim.owner != self.current.name:
            return self.known.owners.get(self.claim.owner)
        return None

    # ── when was it published ──

    def _dated(self) -> Article:
        """The article with its first publication, its release where that lies ahead, and its lastmod."""
        event, current, before = self.event, self.current, self._previous_owner()
        if before and current.shard is None:
            current = replace(current, shard=before.shard)
        first, dated_by, heard_at = current.first_published, current.dated_by, current.heard_at
        dated_order = current.dated_order
        if before and before.rank < CMS_RANK and first is None:
            first, dated_by, heard_at = before.first_published, before.dated_by, min(heard_at, before.heard_at)
        said = event.published_at
        anew = first is not None and self.site.republish == "new-date"
        corrected = dated_by < self.rank
        if said and (first is None or anew or corrected):
            if said > self.now + CLOCK_SKEW_MAX:
                return replace(
                    current, url=self.url, first_published=first, dated_by=dated_by, heard_at=heard_at, release_at=said
                )
            first, dated_by, dated_order = whole(min(said, self.now)), self.rank, current.order
        return replace(
            current,
            url=self.url,
            first_published=first,
            dated_by=dated_by,
            dated_order=dated_order,
            heard_at=heard_at,
            release_at=None,
            # What the source says, and no later than now; never the moment of an event's arrival: the same story told in
            # another order must end in the same file.
            changed_at=whole(min(event.updated_at, self.now)) if event.updated_at else None,
        )

    # ── what is written ──

    def _listed(self, dated: Article) -> Decision:
        event = self.event
        general = GeneralEntry(
            self.url,
            dated.lastmod,
            event.traits,
            event.images,
            event.videos,
            event.alternates,
            event.language,
            event.changefreq,
            event.priority,
        )
        news, news_reason = self._news_entry(dated)
        hidden = against(self.site.rules, "general", self.url, event.traits)
        out_of_news = news_reason or against(self.site.rules, "news", self.url, event.traits)
        want_shard = self._want_shard(dated, line_bytes(general_line(general, self.site)))
        series = news_series(self.site, self.url)
        keeper = self._news_keeper(news, series) if news else None
        kept = keeper.news if keeper else None
        after = replace(
            dated,
            state="hidden" if hidden and out_of_news else "listed",
            reason=hidden,
            news_reason=out_of_news,
            dropped=event.dropped,
            news=kept,
        )
        decision = self._with_claim(after, keeper)
        assert decision.article
        staying = {(entry.file, entry.url, entry.published) for entry in _entries(decision.article, self.now)}
        return replace(
            decision,
            general=general,
            news=news,
            want_shard=want_shard,
            want_news=None if kept or not news else Want(series, line_bytes(news_line(news, self.site))),
            out=tuple(entry for entry in decision.out if (entry.file, entry.url, entry.published) not in staying),
        )

    def _want_shard(self, dated: Article, size_bytes: int) -> Want | None:
        shard = dated.shard
        if shard is None:
            return Want(self._series(dated), size_bytes)
        return Want(shard.series, size_bytes, held=shard) if size_bytes > shard.size_bytes else None

    def _series(self, dated: Article) -> str:
        """The series of shards that a page begins its life in."""
        if self.event.page:
            return PAGES_SERIES
        return shard_series(self.site, dated.first_published or dated.heard_at, self.event.section)

    def _news_keeper(self, news: NewsEntry, series: str) -> Article | None:
        """Whose place in the news the entry takes: the one's whose entry it replaces, else its own, else the previous owner's.

        Any other place is given back with an entry that is taken out, and so only if that was there.
        """
        owners = [self.current, self._previous_owner()]
        there = [
            one
            for one in owners
            if one and one.news and one.has_entries and one.is_in_news(self.now) and one.news.series == series
        ]
        replaced = [one for one in there if (one.url, one.first_published) == (news.loc, news.published)]
        return next(iter(replaced + there), None)

    def _news_entry(self, dated: Article) -> tuple[NewsEntry | None, str]:
        event, first = self.event, dated.first_published
        if event.page:
            return None, "a page, not an article"
        home = urlsplit(self.url)
        if home.path == "/" and not home.query:
            return None, "the home page is no article"
        if not event.news:
            return None, "its source keeps it out of the news sitemap"
        if first is None:
            return None, "no publication date"
        if first + NEWS_WINDOW <= self.now:
            return None, EXPIRED
        if not event.title:
            return None, "no title"
        entry = NewsEntry(self.url, event.title, first, dated.lastmod, event.publication, event.language, event.traits)
        return entry, ""

    def _with_claim(self, after: Article, news_keeper: Article | None = None) -> Decision:
        """The article takes its URL; what it and the previous owner had in files goes out.

        The news place of `news_keeper` goes over to the article, and is not given back.
        """
        after = replace(
            after,
            news=after.news if after.has_entries else None,
            release_at=after.release_at if after.state == "held" else None,
        )
        out = _entries(self.current, self.now, keeps=news_keeper is self.current)
        claims = [
            Claim(
                self.event.site, self.url, after.name, live=True, at=self.at, rev=self.claim.rev if self.claim else None
            )
        ]
        displaced = []
        before = self._previous_owner()
        if before:
            out += _entries(before, self.now, keeps=news_keeper is before)
            displaced.append(self._displaced(before, keep_shard=after.shard != before.shard))
        for url in [self.current.url, *self.event.previous_urls[:PREVIOUS_URLS_MAX]]:
            if url and url != self.url and all(claim.url != url for claim in claims):
                self._leave(url, claims, displaced, out)
        return Decision(
            outcome="excluded" if after.state == "hidden" else after.state,
            reason=after.reason,
            article=after,
            claims=tuple(claims),
            displaced=tuple(displaced),
            out=tuple(dict.fromkeys(out)),
        )

    def _leave(self, url: str, claims: list[Claim], displaced: list[Article], out: list[EntryKey]) -> None:
        """Bury a URL that the article had before, unless it is now somebody else's who is believed as much."""
        claim = self.known.claims.get(url)
        if claim is None:
            if self.rank == CMS_RANK and host_of(url) == self.site.host:
                claims.append(Claim(self.event.site, url, self.current.name, live=False, at=self.at))
            return
        if claim.owner != self.current.name and (claim.rank >= self.rank):
            return
        owner = self.known.owners.get(claim.owner)
        if claim.live and owner and claim.owner != self.current.name:
            out += _entries(owner, self.now)
            displaced.append(self._displaced(owner, keep_shard=True))
        if claim.live or claim.owner != self.current.name:
            claims.append(replace(claim, owner=self.current.name, live=False, at=self.at))

    def _displaced(self, article: Article, *, keep_shard: bool) -> Article:
        return replace(
            article,
            state="displaced",
            reason=_speaks(self.current.name) if self.rank > article.rank else _is_newer(self.current.name),
            news_reason="",
            news=None,
            release_at=None,
            shard=article.shard if keep_shard else None,
        )

    def _without_page(self, state: Literal["excluded", "displaced"], reason: str) -> Decision:
        """The article has no page in this site: what it had goes out, its claim is buried, the reason is kept."""
        claims = []
        old = self.known.claims.get(self.current.url or "")
        if old and old.live and old.owner == self.current.name:
            claims.append(replace(old, live=False, at=self.at))
        after = replace(
            self.current, state=state, url=self.url, reason=reason, news_reason="", news=None, release_at=None
        )
        return Decision(
            outcome=state,
            reason=reason,
            article=after,
            claims=tuple(claims),
            out=tuple(_entries(self.current, self.now)),
        )
