"""What a removal changes.

A removal names an article by its id, or a source's own page by its URL. It deletes a page only while the article owns the
page's URL, so a late or repeated removal takes no page from another article. A source also removes the page of a source of
lower rank. The claim on a URL keeps the removal by URL alone: it stops older events of the source, waiting or still to come.
"""

from dataclasses import replace
from datetime import datetime

from stoppress.model.article import Article, Claim, Decision, Known
from stoppress.model.event import ArticleEvent, order_of, rank_of
from stoppress.model.exclude import is_home
from stoppress.model.order import page_order
from stoppress.primitives.urls import identity
from stoppress.record.claims import displace, entries_of, leave, outranked_by, without_entries
from stoppress.record.publication_date import newest


def removed(event: ArticleEvent, current: Article, known: Known, now: datetime) -> Decision:
    """Return the removal of an article by its id."""
    claims, returns = leave(current.url, current, known)
    after = without_entries(current, state="removed", reason="removed by its source")
    out = tuple(entries_of(current, now)) if claims else ()
    decision = Decision(outcome="removed", article=after, claims=claims, out=out, returns=returns)
    named = known.claims.get(identity(event.url)) if event.url else None
    # The event's URL may be a redirect's target, which is another page. So it counts only if the article has no other URL.
    is_its_page = current.url is None or identity(event.url or "") == identity(current.url)
    if event.url and is_its_page and not is_home(event.url) and (named is None or named.owner != current.name):
        page = weaker_page_removed(event, current.name, known, now)
        decision = replace(
            decision, claims=decision.claims + page.claims, displaced=page.displaced, out=decision.out + page.out
        )
    return decision


def weaker_page_removed(event: ArticleEvent, owner: str, known: Known, now: datetime) -> Decision:
    """Remove the page of a source of lower rank. `owner` takes the URL, so that source cannot list the page again."""
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
        displaced=(displace(before, outranked_by(owner), keeps_shard=True),) if before else (),
        out=tuple(entries_of(before, now)) if before else (),
    )


def url_removed(event: ArticleEvent, known: Known, decision: Decision) -> Decision:
    """Also store a removal by URL alone in the claim: it stops older events of its source, whoever owns the URL now."""
    assert event.url
    page = identity(event.url)
    claims = {identity(claim.url): claim for claim in (*known.claims.values(), *decision.claims)}
    order = replace(page_order(order_of(event)), removal="unpublished")
    latest = newest(claims[page].removed.get(event.source), order)
    assert latest
    changed = replace(claims[page], removed={**claims[page].removed, event.source: latest})
    others = tuple(claim for claim in decision.claims if identity(claim.url) != page)
    reason = decision.reason or "older events of its source for this URL no longer count"
    return replace(decision, reason=reason, claims=(*others, changed))
