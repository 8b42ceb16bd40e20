"""The rules of recording: what an event changes, decided from what is known. No I/O, no clock of its own.

An article is known by its source and its id there, a page by the identity of its URL. `order` says which of two events is newer. A
removal names the id or the URL, and a URL is taken out only while its claim is the article's: so events may come late and twice.
"""

from dataclasses import replace
from datetime import datetime
from typing import Any, Literal
from urllib.parse import urlsplit

from stoppress.model.article import FORGOTTEN, Article, Claim, Decision, Entries, EntryKey, Known
from stoppress.model.entries import GeneralEntry, NewsEntry
from stoppress.model.event import CMS_RANK, PREVIOUS_URLS_MAX, ArticleEvent, digest_of, names_of, order_of, rank_of
from stoppress.model.file_names import PAGES_SERIES, news_series, shard_series
from stoppress.model.limits import NEWS_WINDOW
from stoppress.model.order import Order, dated_names, is_claimed_before, page_order, remembered
from stoppress.model.places import Want
from stoppress.model.rules import excluding_rule
from stoppress.model.site import Site
from stoppress.primitives.instants import exact, parse
from stoppress.primitives.urls import host_of, identity
from stoppress.record.publication_date import (
    changed_at,
    dated,
    dated_late,
    first_heard,
    inherited,
    is_embargo,
    newest,
    released,
    with_date_order,
)
from stoppress.sitemaps.lines import general_line, line_bytes, news_line

EXPIRED = "published more than 48 hours ago"
NO_DATE = "no publication date"
NOT_NEWS = "its source keeps it out of the news sitemap"
REPEATED = Decision(outcome="duplicate", reason="this was heard before")
# Articles that wait for one URL. More than a few are a CMS that gives every page the same URL.
WAITING_MAX = 10


def urls_of(event: ArticleEvent, article: Article | None) -> list[str]:
    """The URLs whose claims a decision needs."""
    urls = [event.url, article.url if article else None]
    if event.action == "publish":
        urls += event.previous_urls[:PREVIOUS_URLS_MAX]
    return list({identity(url): url for url in reversed(urls) if url}.values())[::-1]


def is_aimed_at(event: ArticleEvent, claim: Claim | None, owner: Article | None) -> bool:
    """Whether a removal by URL alone means this owner: its page is live at the URL, or it is held for that URL."""
    if claim is None or owner is None or claim.source != event.source:
        return False
    return claim.live or identity(owner.url or "") == identity(event.url or "")


def decide(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    """What an event changes, given what is known. `known` must hold the claims of `urls_of` and their owners.

    Of a removal by URL alone the article that it means must be known (`is_aimed_at`).
    """
    by_url = event.action == "remove" and not event.id
    if by_url and known.article:
        event = replace(event, id=known.article.name.partition("#")[2])
    decision = _decide(event, known, site, now) if event.id else _url_removed(event, known)
    if by_url:  # the URL itself was removed, so articles that wait for it do not return
        decision = replace(decision, returns=())
    before, changed = known.article, [one for one in (decision.article, *decision.displaced) if one]
    after = next((one for one in changed if one.name == event.name), before)
    due_after = after.release_at if after else None
    due_before = {event.release, before.release_at if before else None} - {None, due_after}
    kept = {(back.release, back.name) for back in decision.returns}
    released = {(instant, event.name) for instant in due_before if instant} - kept
    return replace(
        decision,
        released=tuple(sorted(released)),
        # A late event that only dates a held article is not what is to be published when its hour comes.
        held=due_after if decision.outcome == "held" else None,
        no_longer_waits=_no_longer_waits(before, after),
    )


def _no_longer_waits(before: Article | None, after: Article | None) -> tuple[str, str] | None:
    """URL and name of an article that waited for a URL before an event and does not after it."""
    if before is None or after is None or before.url is None or before.state != "displaced":
        return None
    still_waits = after.state == "displaced" and identity(after.url or "") == identity(before.url)
    return None if still_waits else (before.url, before.name)


def _decide(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    article, order, digest, names = known.article, order_of(event), digest_of(event), names_of(event)
    same = False
    if article:
        is_last = order == article.order and digest == article.digest
        is_repeat = bool(set(names) & set(article.deliveries)) or _is_same_version(order, digest, article)
        if not event.release and not is_last and is_repeat:
            return REPEATED
        if order.is_before(article.order):
            return _late(event, known, site, now)
        same = is_last or (event.verb is None and digest == article.digest and article.order.removal == "")
        settled = article.has_entries or article.state == "removed" or (article.release_at and article.release_at > now)
        if same and settled:
            return REPEATED
    current = _current(event, article, now)
    deliveries = remembered(current.deliveries, names, removal=order.removal)
    current = replace(
        first_heard(current, event),
        order=order,
        digest=digest,
        deliveries=deliveries,
        is_undated=event.action == "publish" and event.published_at is None,
    )
    if event.action == "remove":
        return _removed(event, current, known, now)
    decision = _Publication(event, current, known, site, now).decision(
        same_content=bool(article and article.digest == digest)
    )
    # The same content stays out for the same reason: nothing changed. If the reason has gone, the new decision counts.
    if (
        article
        and same
        and not event.release
        and (decision.outcome, decision.reason) == (article.state, article.reason)
    ):
        return REPEATED
    return decision


def _is_same_version(order: Order, digest: str, article: Article) -> bool:
    """Whether an event without a timestamp says the version and the content that the article has already."""
    last = article.order
    if order.version is None or order.timestamp is not None or last.timestamp is not None or digest != article.digest:
        return False
    return (order.version, order.sequence, order.removal) == (last.version, last.sequence, last.removal)


def _current(event: ArticleEvent, article: Article | None, now: datetime) -> Article:
    """What is known of the article before the event. An id that was deleted and is used again is another story."""
    assert event.heard_at
    order = order_of(event)
    fresh = Article(site=event.site, name=event.name, state="removed", order=order, digest="", heard_at=event.heard_at)
    if article is None:
        return fresh
    if article.release_at and not event.release:
        # Without a date of its own the event leaves the embargo as it is, until it is over.
        is_over_at = now if event.published_at is None else event.heard_at
        article = released(article) if article.release_at <= is_over_at else article
    if article.order.removal != "deleted" or event.action == "remove":
        return article
    deleted = article.order
    reborn = min(deleted.timestamp or deleted.heard, deleted.heard)
    return replace(fresh, deliveries=article.deliveries, reborn=reborn, rev=article.rev)


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
    if event.canonical_url and identity(event.canonical_url) != identity(event.url):
        return f"canonical elsewhere: {event.canonical_url}"
    return ""


def is_late(event: ArticleEvent, article: Article) -> bool:
    """Whether something newer is known of the article than the event."""
    return order_of(event).is_before(article.order)


# ── late events ──


def _late(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Decision:
    """A late event changes nothing but the first publication: its date counts as if it had come in its order."""
    article = known.article
    assert article
    if article.reason == FORGOTTEN:
        return Decision(outcome="late", reason=FORGOTTEN)
    names = dated_names(names_of(event))
    if names:  # its repeats may look newer, where the sender's clock is ahead
        article = replace(article, deliveries=remembered(article.deliveries, names, removal=""))
    embargo = _embargo_moved(event, article, known) or _embargo_heard_late(event, article, known, now)
    if embargo:
        return embargo
    if names and article.state != "held":
        article = with_date_order(article, event)
    decision = _dated_by_another(event, article, known, site, now)
    reason = f"a newer event was heard before: {_place(article)}"
    return decision or Decision(outcome="late", reason=reason, article=article if names else None)


def _place(article: Article) -> str:
    order = article.order
    what = f"{'the removal' if order.removal else 'the event'} of {order.timestamp or order.heard}"
    return what if order.version is None else f"{what}, version {order.version}"


def _embargo_moved(event: ArticleEvent, article: Article, known: Known) -> Decision | None:
    """The newest event of a held article, recorded again with the date of one that came late, if that is the newest date.

    The newest event has left an embargo as it was; by what was said in between it is another, or over.
    """
    if event.action == "remove" or event.published_at is None or article.held_order is None or known.due is None:
        return None
    if order_of(event).is_before(article.held_order):
        return None
    after = replace(article, release_at=None, held_order=order_of(event))
    returns = (replace(known.due, published_at=event.published_at, release=None),)
    return Decision(
        outcome="late", reason="a newer event was heard before; its date counts", article=after, returns=returns
    )


def _embargo_heard_late(event: ArticleEvent, article: Article, known: Known, now: datetime) -> Decision | None:
    """A listed article, held by an event that comes late: the newest event said no date, and so left the embargo as it is."""
    if event.action == "remove" or not article.is_undated or not is_embargo(event, now):
        return None
    order, entries = order_of(event), known.entries.get(article.name, Entries())
    told = _told_again(article, entries)
    date_order = newest(article.dated_order, article.held_order)
    if told is None or (date_order and order.is_before(date_order)):
        return None
    assert event.published_at
    release_at = event.published_at
    reason = f"to be published at {exact(release_at)}"
    after = _without_entries(article, state="held", reason=reason, release_at=release_at, held_order=order)
    decision = Decision(outcome="late", reason=f"a newer event was heard before; {reason}", article=after)
    claim = known.claims.get(identity(article.url or ""))
    if claim and claim.live and claim.owner == article.name:
        left, returns = _left(claim, article, known)
        decision = replace(decision, claims=(left,), returns=returns)
    held = replace(told, published_at=release_at, release=release_at)
    return replace(decision, out=tuple(_entries(article, now)), returns=(*decision.returns, held))


def _dated_by_another(
    event: ArticleEvent, article: Article, known: Known, site: Site, now: datetime
) -> Decision | None:
    """The article with another first publication by an event that is not its newest, and its entries; None: it stays."""
    if event.action == "remove" or site.republish != "keep-date" or excluded_because(event, site):
        return None
    after = dated_late(article, event, now)
    if after is None:
        return None
    decision = Decision(outcome="late", reason="a newer event was heard before; its date counts", article=after)
    entries = known.entries.get(article.name, Entries())
    if not article.has_entries or not article.url or not entries.general:
        return decision
    decision = replace(decision, general=replace(entries.general, lastmod=after.lastmod))
    first = after.first_published
    assert first
    is_news = first + NEWS_WINDOW > now
    if article.news and entries.news and article.is_in_news(now):
        news = replace(entries.news, published=first, lastmod=after.lastmod)
        old = EntryKey(
            article.news.file, identity(article.url), article.first_published, None if is_news else article.news
        )
        if is_news:
            return replace(decision, news=news, out=(old,) if news.published != article.first_published else ())
        return replace(decision, article=replace(after, news=None, news_reason=EXPIRED), out=(old,))
    after = replace(after, news=None)  # an expired entry and its place are roll_window's
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


# ── removals ──


def _removed(event: ArticleEvent, current: Article, known: Known, now: datetime) -> Decision:
    claim = known.claims.get(identity(current.url)) if current.url else None
    after = _without_entries(current, state="removed", reason="removed by its source")
    decision = Decision(outcome="removed", article=after)
    if claim and claim.live and claim.owner == current.name:
        left, returns = _left(claim, current, known)
        decision = replace(decision, claims=(left,), out=tuple(_entries(current, now)), returns=returns)
    named = known.claims.get(identity(event.url)) if event.url else None
    # The URL beside an id is believed where nothing contradicts it: a redirect's target is another page.
    is_its_page = current.url is None or identity(event.url or "") == identity(current.url)
    if event.url and is_its_page and not _is_home(event.url) and (named is None or named.owner != current.name):
        page = _weaker_page_removed(event, current.name, known, now)
        decision = replace(
            decision, claims=decision.claims + page.claims, displaced=page.displaced, out=decision.out + page.out
        )
    return decision


def _weaker_page_removed(event: ArticleEvent, owner: str, known: Known, now: datetime) -> Decision:
    """Take out the page that only a source of lower rank has told of, and keep that source from bringing it again."""
    assert event.url
    claim, order = known.claims.get(identity(event.url)), page_order(order_of(event))
    if claim is None:
        return Decision(outcome="removed", claims=(Claim(event.site, event.url, owner, live=False, order=order),))
    if claim.rank >= rank_of(event.source):
        return Decision(outcome="removed")
    before = known.owners.get(claim.owner) if claim.live else None
    taken = replace(claim, owner=owner, live=False, order=order, waiting=())
    return Decision(
        outcome="removed",
        reason="its URL was removed",
        claims=(taken,),
        displaced=(_displaced(before, _speaks(owner), keeps_shard=True),) if before else (),
        out=tuple(_entries(before, now)) if before else (),
    )


def _url_removed(event: ArticleEvent, known: Known) -> Decision:
    """A removal by URL alone, where the source has no article at the URL."""
    assert event.url
    assert event.heard_at
    claim, owner, order = known.claims.get(identity(event.url)), f"{event.source}#", order_of(event)
    if claim and claim.live and claim.rank >= rank_of(event.source):
        return Decision(outcome="excluded", reason=f"the page is {claim.owner}'s: only its own source removes it")
    if claim and claim.live:
        return _weaker_page_removed(event, owner, known, event.heard_at)
    if claim and claim.rank > rank_of(event.source):
        return Decision(outcome="excluded", reason=f"{claim.owner} has removed this page already")
    if claim and is_claimed_before(order, claim.order, same_source=claim.source == event.source):
        return Decision(outcome="late", reason="a newer event of this URL was heard before")
    buried = Claim(
        event.site,
        event.url,
        owner,
        live=False,
        order=page_order(order),
        is_old_form=claim.is_old_form if claim else False,
        rev=claim.rev if claim else None,
    )
    return Decision(
        outcome="removed", reason="no page was known at its URL; older events of it count no more", claims=(buried,)
    )


def _left(claim: Claim, article: Article, known: Known) -> tuple[Claim, tuple[ArticleEvent, ...]]:
    """The claim that an article leaves, and the events of those that have waited for it."""
    returns = tuple(known.waiting[name] for name in claim.waiting if name in known.waiting and name != article.name)
    return replace(claim, live=False, order=page_order(article.order), waiting=()), returns


def _entries(article: Article, now: datetime, *, keeps: bool = False) -> list[EntryKey]:
    """The entries that an article has in files; with `keeps`, its place in the news is not to be given back."""
    if not article.has_entries or not article.url or not article.shard:
        return []
    is_old_form = article.is_old_form and identity(article.url) != article.url
    url = article.url if is_old_form else identity(article.url)
    entries = [EntryKey(article.shard.file, url, is_old_form=is_old_form)]
    if article.news and article.is_in_news(now):
        place = None if keeps else article.news
        entries.append(EntryKey(article.news.file, url, article.first_published, place, is_old_form))
    return entries


def entry_keys_of(article: Article) -> list[EntryKey]:
    """Keys of an article's entries, whether or not its news entry has expired."""
    in_news = article.first_published if article.news and article.first_published else None
    return _entries(article, in_news) if in_news else _entries(replace(article, news=None), article.heard_at)


def _is_home(url: str) -> bool:
    parts = urlsplit(url)
    return parts.path == "/" and not parts.query


def _speaks(owner: str) -> str:
    return f"{owner} speaks for this page"


def _is_newer(owner: str) -> str:
    return f"{owner} has this URL and is newer"


def _displaced(article: Article, reason: str, *, keeps_shard: bool) -> Article:
    shard = article.shard if keeps_shard else None
    return _without_entries(article, state="displaced", reason=reason, shard=shard)


def _without_entries(article: Article, **changes: Any) -> Article:
    """The article with nothing of it in any file. Its place in a shard stays its own."""
    gone: dict[str, Any] = {"news": None, "news_reason": "", "release_at": None, "title": "", "publication": None}
    return replace(article, **(gone | changes))


def _told_again(article: Article, entries: Entries) -> ArticleEvent | None:
    """Rebuild the event of a listed article from its entries, so that it can be recorded again when its URL is free."""
    general, news, order = entries.general, entries.news, article.order
    if general is None or article.shard is None:
        return None
    source, _, id_ = article.name.partition("#")
    return ArticleEvent(
        site=article.site,
        source=source,
        id=id_,
        action="publish",
        timestamp=parse(order.timestamp) if order.timestamp else None,
        heard_at=parse(order.heard),
        verb="published" if rank_of(source) == CMS_RANK else None,
        version=parse(order.version) if isinstance(order.version, str) else order.version,
        sequence=order.sequence,
        url=general.loc,
        title=news.title if news else article.title,
        published_at=article.first_published,
        updated_at=article.changed_at,
        language=general.language,
        publication=news.publication if news else article.publication,
        section=general.traits.section,
        keywords=general.traits.keywords,
        news=article.news_reason != NOT_NEWS,
        page=article.shard.series == PAGES_SERIES,
        type=general.traits.type,
        flags=general.traits.flags,
        images=general.images,
        videos=general.videos,
        alternates=general.alternates,
        changefreq=general.changefreq,
        priority=general.priority,
        dropped=article.dropped,
    )


class _Publication:
    """One decision about a publication: the event, what is known, and what comes of both."""

    def __init__(self, event: ArticleEvent, current: Article, known: Known, site: Site, now: datetime) -> None:
        assert event.url
        self.event, self.current, self.known, self.site, self.now = event, current, known, site, now
        self.url = event.url
        self.rank = rank_of(event.source)
        self.claim = known.claims.get(identity(self.url))

    def decision(self, *, same_content: bool) -> Decision:
        reason = excluded_because(self.event, self.site)
        if host_of(self.url) != self.site.host:
            return self._without_page("excluded", reason)
        if release_at := self._embargo():
            return self._held(release_at)
        if self._is_removed_since():
            return replace(self._without_page("excluded", "a newer event removed its URL"), outcome="late")
        stronger = self._stronger_claim()
        if stronger:
            return self._dating_its_owner(self._without_page("displaced", stronger))
        if reason:
            return self._excluded(reason)
        after = self._dated()
        is_same = same_content and (after.changed_at, after.first_published) == (
            self.current.changed_at,
            self.current.first_published,
        )
        if is_same and self.current.has_entries and self.claim and self.claim.owner == self.current.name:
            return Decision(outcome="duplicate", reason="a newer event with the same content", article=self.current)
        return self._listed(after)

    # ── whose page is it ──

    def _is_removed_since(self) -> bool:
        """Whether the source has removed the URL itself by an event that is newer."""
        claim = self.claim
        if claim is None or claim.live or claim.owner != f"{self.event.source}#":
            return False
        return is_claimed_before(order_of(self.event), claim.order, same_source=True)

    def _stronger_claim(self) -> str:
        claim = self.claim
        if claim is None or claim.owner == self.current.name or claim.rank < self.rank:
            return ""
        if claim.rank > self.rank:
            return _speaks(claim.owner) + ("" if claim.live else ", and has removed it")
        same_source = claim.source == self.event.source
        owner = self.known.owners.get(claim.owner)
        claimed = owner.order if owner else claim.order
        if claim.live and is_claimed_before(self.current.order, claimed, same_source=same_source):
            return _is_newer(claim.owner)
        return ""

    def _previous_owner(self) -> Article | None:
        """The article that had a live claim on the URL until now."""
        if self.claim and self.claim.live and self.claim.owner != self.current.name:
            return self.known.owners.get(self.claim.owner)
        return None

    def _is_same_story(self, other: Article) -> bool:
        """Whether another article of the URL tells the same story: a feed does, another CMS if it has the same title."""
        if min(other.rank, self.rank) < CMS_RANK:
            return True
        return other.name.partition("#")[0] != self.event.source and self._has_same_title(other)

    def _has_same_title(self, other: Article) -> bool:
        """Whether another article of the URL has the event's title: then it is the same story, under another id or source."""
        news = self.known.entries.get(other.name, Entries()).news
        title = news.title if news else other.title
        return title == self.event.title != ""

    # ── when was it published ──

    def _embargo(self) -> datetime | None:
        """The hour that the article is held for. An event that says no date leaves an embargo as it is."""
        if self.event.published_at is None:
            release_at = self.current.release_at
            return release_at if release_at and release_at > self.now else None
        return self.event.published_at if is_embargo(self.event, self.now) else None

    def _dated(self) -> Article:
        """The article with its first publication and its lastmod."""
        current, before = self.current, self._previous_owner()
        if before and current.shard is None:
            current = replace(current, shard=before.shard)
        if before and self.event.published_at is None and self._is_same_story(before):
            current = inherited(current, before)
        current = with_date_order(dated(current, self.event, self.site), self.event)
        return replace(current, url=self.url, release_at=None, changed_at=changed_at(self.event))

    # ── what is written ──

    def _held(self, release_at: datetime) -> Decision:
        """Until its hour the article has no page: its entries go out, and no URL is claimed for it."""
        reason = f"to be published at {exact(release_at)}"
        after = _without_entries(self.current, state="held", reason=reason, url=self.url, release_at=release_at)
        if self.event.published_at:
            after = replace(after, held_order=self.current.order)
        out = tuple(_entries(self.current, self.now))
        return self._leaving(Decision(outcome="held", reason=reason, article=after, out=out))

    def _excluded(self, reason: str) -> Decision:
        """The article keeps its own page out. Weaker sources cannot bring the page back; a source of equal rank can."""
        decision = self._without_page("excluded", reason)
        page = _weaker_page_removed(self.event, self.current.name, self.known, self.now)
        claims = {identity(claim.url) for claim in decision.claims}
        return replace(
            decision,
            claims=decision.claims + tuple(claim for claim in page.claims if identity(claim.url) not in claims),
            displaced=decision.displaced + page.displaced,
            out=decision.out + page.out,
        )

    def _listed(self, after: Article) -> Decision:
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
        news, news_reason = self._news_entry(after)
        hidden = excluding_rule(self.site.rules, "general", self.url, event.traits)
        out_of_news = news_reason or excluding_rule(self.site.rules, "news", self.url, event.traits)
        want_shard = self._want_shard(after, line_bytes(general_line(general, self.site)))
        series = news_series(self.site, self.url)
        keeper = self._news_keeper(news, series) if news else None
        kept = keeper.news if keeper else None
        may_become_news = news_reason in (NO_DATE, EXPIRED) and after.heard_at + NEWS_WINDOW > self.now
        after = replace(
            after,
            state="hidden" if hidden and out_of_news else "listed",
            reason=hidden,
            news_reason=out_of_news,
            dropped=event.dropped,
            news=kept,
            title=event.title if may_become_news else "",
            publication=event.publication if may_become_news else None,
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
            out=tuple(
                entry
                for entry in decision.out
                if entry.is_old_form or (entry.file, entry.url, entry.published) not in staying
            ),
        )

    def _want_shard(self, after: Article, size_bytes: int) -> Want | None:
        shard = after.shard
        if shard is None:
            return Want(self._series(after), size_bytes)
        return Want(shard.series, size_bytes, held=shard) if size_bytes > shard.size_bytes else None

    def _series(self, after: Article) -> str:
        """The series of shards that a page begins its life in."""
        if self.event.page:
            return PAGES_SERIES
        return shard_series(self.site, after.first_published or after.heard_at, self.event.section)

    def _news_keeper(self, news: NewsEntry, series: str) -> Article | None:
        """The article whose news place the new entry takes over.

        First choice: the one whose entry has the same page and date. Then this article, then the previous owner. Any other
        place is given back with its entry.
        """
        owners = [self.current, self._previous_owner()]
        there = [
            one
            for one in owners
            if one and one.news and one.has_entries and one.is_in_news(self.now) and one.news.series == series
        ]
        page = identity(news.loc)
        replaced = [one for one in there if (identity(one.url or ""), one.first_published) == (page, news.published)]
        return next(iter(replaced + there), None)

    def _news_entry(self, after: Article) -> tuple[NewsEntry | None, str]:
        event, first = self.event, after.first_published
        if event.page:
            return None, "a page, not an article"
        if _is_home(self.url):
            return None, "the home page is no article"
        if not event.news:
            return None, NOT_NEWS
        if first is None:
            return None, NO_DATE
        if first + NEWS_WINDOW <= self.now:
            return None, EXPIRED
        if not event.title:
            return None, "no title"
        entry = NewsEntry(self.url, event.title, first, after.lastmod, event.publication, event.language, event.traits)
        return entry, ""

    def _with_claim(self, after: Article, news_keeper: Article | None = None) -> Decision:
        """The article takes its URL; what it and the previous owner had in files goes out.

        The news place of `news_keeper` goes over to the article, and is not given back.
        """
        decision = Decision(
            outcome="excluded" if after.state == "hidden" else after.state,
            reason=after.reason,
            article=after,
            out=tuple(_entries(self.current, self.now, keeps=news_keeper is self.current)),
        )
        before = self._previous_owner()
        waiting = tuple(name for name in (self.claim.waiting if self.claim else ()) if name != after.name)
        if before:
            same_rank = before.rank == self.rank
            # A feed's entry that has another id by now must not come back: only articles of a CMS wait.
            can_wait = same_rank and self.rank == CMS_RANK and not self._has_same_title(before)
            event = _told_again(before, self.known.entries.get(before.name, Entries())) if can_wait else None
            waiting = ((before.name, *waiting) if event else waiting)[:WAITING_MAX]
            reason = _is_newer(after.name) if same_rank else _speaks(after.name)
            decision = replace(
                decision,
                displaced=(_displaced(before, reason, keeps_shard=after.shard != before.shard),),
                out=decision.out + tuple(_entries(before, self.now, keeps=news_keeper is before)),
                waits=(event,) if event else (),
            )
        claim = self.claim or Claim(self.event.site, self.url, after.name, live=True, order=after.order)
        is_mine = claim.owner == after.name or before is not None
        claim = replace(
            claim,
            url=self.url,
            owner=after.name,
            live=True,
            order=page_order(after.order),
            waiting=waiting if is_mine else (),
        )
        return self._leaving(replace(decision, claims=(claim,)))

    def _leaving(self, decision: Decision) -> Decision:
        """The decision with the URLs left that the article had before; who has waited for one comes back.

        Hints of earlier URLs are followed only by an article that takes a URL.
        """
        out, displaced = [*decision.out], [*decision.displaced]
        claims, returns = [*decision.claims], [*decision.returns]
        taken = {identity(claim.url) for claim in decision.claims}
        hints = [url for url in self.event.previous_urls[:PREVIOUS_URLS_MAX] if decision.claims and not _is_home(url)]
        for url in [self.current.url, *hints]:
            page = identity(url) if url else ""
            if not url or page in taken:
                continue
            taken.add(page)
            claim = self.known.claims.get(page)
            if claim and claim.live and claim.owner == self.current.name:
                left, back = _left(claim, self.current, self.known)
                claims.append(left)
                returns += back
            elif decision.claims:
                self._bury(url, claim, claims, displaced, out)
        return replace(
            decision,
            claims=tuple(claims),
            displaced=tuple(displaced),
            out=tuple(dict.fromkeys(out)),
            returns=tuple(returns),
        )

    def _bury(
        self, url: str, claim: Claim | None, claims: list[Claim], displaced: list[Article], out: list[EntryKey]
    ) -> None:
        """Keep a weaker source from bringing a URL that the article had before."""
        order = page_order(self.current.order)
        if claim is None:
            if self.rank == CMS_RANK and host_of(url) == self.site.host:
                claims.append(Claim(self.event.site, url, self.current.name, live=False, order=order))
            return
        if claim.rank >= self.rank:
            return
        owner = self.known.owners.get(claim.owner) if claim.live else None
        if owner:
            out += _entries(owner, self.now)
            displaced.append(_displaced(owner, _speaks(self.current.name), keeps_shard=True))
        claims.append(replace(claim, owner=self.current.name, live=False, order=order, waiting=()))

    def _without_page(self, state: Literal["excluded", "displaced"], reason: str) -> Decision:
        """The article has no page in this site: what it had goes out, its claim is left, the reason is kept."""
        after = with_date_order(dated(self.current, self.event, self.site), self.event)
        after = _without_entries(after, state=state, reason=reason, url=self.url)
        out = tuple(_entries(self.current, self.now))
        decision = self._leaving(Decision(outcome=state, reason=reason, article=after, out=out))
        claim = self.claim
        if state == "excluded" or claim is None or not claim.rank == self.rank == CMS_RANK:
            return decision
        owner = self.known.owners.get(claim.owner)
        if owner and self._has_same_title(owner):
            return decision
        names = [name for name in claim.waiting if name != after.name]
        # Written even where the name is there already: who leaves the URL at this moment has read an older event of it.
        waiting = replace(claim, waiting=tuple([after.name, *names][:WAITING_MAX]))
        return replace(decision, claims=(*decision.claims, waiting), waits=(replace(self.event, release=None),))

    def _dating_its_owner(self, decision: Decision) -> Decision:
        """A page without a date takes that of another source that tells of it, though it has no page by it."""
        owner = self._previous_owner()
        if owner is None or owner.first_published is not None or not self._is_same_story(owner):
            return decision
        date = _dated_by_another(self.event, owner, self.known, self.site, self.now)
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
