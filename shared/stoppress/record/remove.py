"""What a removal changes.

A removal names an article by its id or a page by its URL. It deletes a page only while the article owns the page's URL, so
a late or repeated removal takes no page from another article. A source also removes the page of a source of lower rank.
A removal of an unknown page is recorded too: it stops older events that arrive later.
"""

from dataclasses import replace
from datetime import datetime

from stoppress.model.article import Article, Claim, Decision, Known
from stoppress.model.event import ArticleEvent, article_name, order_of, rank_of
from stoppress.model.exclude import is_home
from stoppress.model.order import is_claimed_before, page_order
from stoppress.primitives.urls import identity
from stoppress.record.claims import leave, outranked_by
from stoppress.record.entry_keys import displace, entries_of, without_entries


def removed(event: ArticleEvent, current: Article, known: Known, now: datetime) -> Decision:
    """The removal of an article by its id."""
    claim = known.claims.get(identity(current.url)) if current.url else None
    after = without_entries(current, state="removed", reason="removed by its source")
    decision = Decision(outcome="removed", article=after)
    if claim and claim.live and claim.owner == current.name:
        claim_left, returns = leave(claim, current, known)
        decision = replace(decision, claims=(claim_left,), out=tuple(entries_of(current, now)), returns=returns)
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


def url_removed(event: ArticleEvent, known: Known) -> Decision:
    """A removal by URL alone, where the source has no article at the URL."""
    assert event.url
    assert event.heard_at
    claim, owner, order = known.claims.get(identity(event.url)), article_name(event.source, ""), order_of(event)
    if claim and claim.live and claim.rank >= rank_of(event.source):
        return Decision(outcome="excluded", reason=f"the page is {claim.owner}'s: only its own source removes it")
    if claim and claim.live:
        return weaker_page_removed(event, owner, known, event.heard_at)
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
        outcome="removed",
        reason="no page was known at its URL; older events of that URL no longer count",
        claims=(buried,),
    )
