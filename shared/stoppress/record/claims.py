"""Which article owns a URL, which articles wait for it, and what happens to an article that loses it.

A claim records which article owns a URL. A source of higher rank takes the URL from one of lower rank. Between sources of
equal rank the newer article takes it. An article of a CMS that loses its URL to another story waits for the URL. When the owner
leaves the URL, the events of the waiting articles are recorded again. A held article claims no URL, so nothing shows it
before its release. A source of lower rank cannot bring back a URL that a source of higher rank has removed or left.

A removal refers to an article by its id, or to a source's own page by its URL. It deletes a page only while the article owns the
page's URL, so a late or repeated removal takes no page from another article. A source also removes the page of a source of
lower rank. The claim on a URL stores a removal by URL alone, which stops older events of the source, waiting or still to arrive.
"""

from collections.abc import Iterable
from dataclasses import replace
from datetime import datetime
from typing import Any

from stoppress.model.article import Article, Claim, Decision, Known
from stoppress.model.entries import Alternate, GeneralEntry, NewsEntry
from stoppress.model.event import CMS_RANK, ArticleEvent, order_of, rank_of, split_name
from stoppress.model.exclusion_reasons import NOT_NEWS, PAGE, is_home
from stoppress.model.order import newest, page_order
from stoppress.primitives.instants import parse
from stoppress.primitives.urls import identity

# How many articles may wait for one URL. Only a CMS that sends the same URL for every page has more.
WAITING_MAX = 10


def copies_of(source: str, claim: Claim | None) -> list[str]:
    """Return the names of a source's articles at a URL: the owner, then those that wait for the URL."""
    names = (claim.owner, *claim.waiting) if claim else ()
    return [name for name in names if split_name(name)[0] == source and split_name(name)[1]]


def aimed_at(event: ArticleEvent, copies: Iterable[Article | None]) -> Article | None:
    """Return the article to which a removal by URL alone applies: the first of `copies_of` that has not moved to another URL."""
    return next((copy for copy in copies if copy and identity(copy.url or "") == identity(event.url or "")), None)


def displace(article: Article, reason: str, *, keeps_shard: bool) -> Article:
    """Return the article after another article has taken its URL."""
    shard = article.shard if keeps_shard else None
    return without_entries(article, state="displaced", reason=reason, shard=shard)


def without_entries(article: Article, **changes: Any) -> Article:
    """Return the article with no entry in any file. It keeps its place in a shard unless `changes` has another `shard`."""
    deleted: dict[str, Any] = {"news": None, "news_reason": "", "release_at": None, "title": "", "publication": None}
    return replace(article, **(deleted | changes))


def outranked_reason(owner: str) -> str:
    """Return the reason of an article whose URL belongs to a source of higher rank."""
    return f"{owner} speaks for this page"


def overtaken_reason(owner: str) -> str:
    """Return the reason of an article whose URL belongs to a newer article of a source of equal rank."""
    return f"{owner} has this URL and is newer"


def leave(url: str | None, article: Article, known: Known) -> tuple[tuple[Claim, ...], tuple[ArticleEvent, ...]]:
    """Return the claim on a URL after its owner `article` leaves it, and the events of the articles that waited for the URL.

    Both are empty if the article does not own the URL.
    """
    claim = known.claims.get(identity(url)) if url else None
    if claim is None or not claim.live or claim.owner != article.name:
        return (), ()
    returns = tuple(known.waiting[name] for name in claim.waiting if name in known.waiting and name != article.name)
    return (replace(claim, live=False, order=page_order(article.order), waiting=()),), returns


def event_again(
    article: Article, general: GeneralEntry | None, news: NewsEntry | None, claim: Claim | None
) -> ArticleEvent | None:
    """Rebuild a listed article's newest event from its entries and its claim, to record it again; None without an entry in a shard."""
    if general is None or article.shard is None:
        return None
    order = article.order
    lists = sorted(claim.lists.items()) if claim else ()
    return ArticleEvent(
        site=article.site,
        source=article.source,
        id=article.id,
        action="publish",
        timestamp=parse(order.timestamp) if order.timestamp else None,
        received_at=parse(order.received),
        verb="published" if article.rank == CMS_RANK else None,
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
        page=article.news_reason == PAGE,
        type=general.traits.type,
        flags=general.traits.flags,
        images=general.images,
        videos=general.videos,
        alternates=tuple(Alternate(code, href) for code, href in lists),
        changefreq=general.changefreq,
        priority=general.priority,
        dropped=article.dropped,
    )


def removed(event: ArticleEvent, current: Article, known: Known, now: datetime) -> Decision:
    """Return the removal of an article by its id."""
    claims, returns = leave(current.url, current, known)
    after = without_entries(current, state="removed", reason="removed by its source", held_order=current.order)
    out = tuple(current.list_entries(now)) if claims else ()
    decision = Decision(outcome="removed", article=after, claims=claims, out=out, returns=returns)
    url_claim = known.claims.get(identity(event.url)) if event.url else None
    # The event's URL may be a redirect's target, which is another page. So it counts only if the article has no other URL.
    is_its_page = current.url is None or identity(event.url or "") == identity(current.url)
    if event.url and is_its_page and not is_home(event.url) and (url_claim is None or url_claim.owner != current.name):
        return with_weaker_page_removed(decision, event, current.name, known, now)
    return decision


def with_weaker_page_removed(
    decision: Decision, event: ArticleEvent, owner: str, known: Known, now: datetime, url: str = ""
) -> Decision:
    """Return a decision that also removes the page of a source of lower rank, at the event's URL or at `url`.

    `owner` takes the URL, so that the other source cannot list the page again. The decision's own claims stay.
    """
    url, before = url or event.url or "", None
    claim, order = known.claims.get(identity(url)), page_order(order_of(event))
    if claim is None:
        taken = Claim(event.site, url, owner, live=False, order=order)
    elif claim.rank >= rank_of(event.source):
        return decision
    else:
        taken = replace(claim, owner=owner, live=False, order=order, waiting=())
        before = known.owners.get(claim.owner) if claim.live else None
    is_claimed = identity(url) in {identity(claim.url) for claim in decision.claims}
    decision = replace(decision, claims=decision.claims if is_claimed else (*decision.claims, taken))
    if before is None:
        return decision
    displaced = displace(before, outranked_reason(owner), keeps_shard=True)
    out = (*decision.out, *before.list_entries(now))
    return replace(decision, displaced=(*decision.displaced, displaced), out=out)


def store_url_removal(event: ArticleEvent, known: Known, decision: Decision) -> Decision:
    """Also store a removal by URL alone in the claim, where it stops older events of its source, whichever article owns the URL now."""
    assert event.url
    page = identity(event.url)
    claims = {identity(claim.url): claim for claim in (*known.claims.values(), *decision.claims)}
    order = replace(page_order(order_of(event)), removal="unpublished")
    latest = newest(claims[page].removed.get(event.source), order)
    assert latest
    changed = replace(claims[page], removed={**claims[page].removed, event.source: latest})
    others = tuple(claim for claim in decision.claims if identity(claim.url) != page)
    is_taken = decision.article is None and page in known.claims and decision.claims
    removed = "its URL was removed" if is_taken else "older events of its source for this URL no longer count"
    return replace(decision, reason=decision.reason or removed, claims=(*others, changed))
