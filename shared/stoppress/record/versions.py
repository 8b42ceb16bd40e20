"""Language versions across files: which pages list each other, and which must be recorded again after a change.

The claim on a URL has the alternates of its page's own event (`lists`), and the pages that list it (`links`). Whether two pages list
each other depends on the claim of the page that does not list the other. So a transaction that changes a claim contains all pages
whose lines change. They are recorded again, and each entry has all that its line needs.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby

from stoppress.model.alternates import ALTERNATES_MAX, DEFAULT, accept_links
from stoppress.model.article import FORGOTTEN, Claim, Decision, Known
from stoppress.model.entries import Alternate, GeneralEntry, excluding_rule
from stoppress.model.event import ArticleEvent
from stoppress.model.exclusion_reasons import is_home
from stoppress.model.order import hash_parts
from stoppress.model.site import Site
from stoppress.primitives.urls import host_of, identity
from stoppress.sitemaps.tags import hreflang_of, language_of

# A page that takes over the URLs of other pages may change the links of more versions. Then the removed pages are changed later.
VERSIONS_CHANGED_MAX = 2 * ALTERNATES_MAX
# The longest code, for the size of a line before its codes are decided.
_LONGEST_CODE = "zh-Hant-TW"


def mutual_hosts(site: Site, others: Iterable[Site]) -> set[str]:
    """Return the hosts whose pages may be versions of the site's: its own, and those of sites if each lists the other's host."""
    fitting = (other for other in others if {site.scheme, other.scheme} == {"https"})
    listing = {other.host for other in fitting if site.host in other.alternate_hosts}
    return {site.host, *listing.intersection(site.alternate_hosts)}


def is_version(url: str, hosts: Collection[str]) -> bool:
    """Return True if a page on these hosts may have to list other pages. No home page does: all articles may list one."""
    return url.startswith("https:") and host_of(url) in hosts and not is_home(url)


def with_possible_links(general: GeneralEntry, known: Known) -> GeneralEntry:
    """Return an entry with all alternates that it may list, to reserve a place of their size."""
    page = identity(general.loc)
    claim = known.claims.get(page) or known.versions.get(page)
    links = [Alternate(code, url) for url, code in claim.links.items()] if claim else []
    own = [Alternate(_LONGEST_CODE, general.loc)] if general.alternates or links else []
    return replace(general, alternates=(*general.alternates, *links, *own))


def link_versions(decision: Decision, event: ArticleEvent, known: Known, site: Site) -> Decision:
    """Return a decision with the alternates of its entries, the links of its claims, and the pages to record again.

    The decision's general entry has the alternates of the event.
    """
    decision = _with_seen_page(decision, event, known)
    if not (decision.claims or decision.general):
        return decision
    before = {**known.versions, **known.claims}
    after, general = dict(before), decision.general
    written = [identity(claim.url) for claim in decision.claims]
    for page, claim in zip(written, decision.claims, strict=True):
        after[page] = _with_lists(claim, before.get(page), general, site)
    later = _pages_for_later(written, before, after)
    for page in later:
        after[page] = replace(after[page], code=before[page].code, lists=before[page].lists)
    for page in written:
        _link(page, before.get(page), after)
    after = {page: _with_gone(claim, after) for page, claim in after.items()}
    listed = identity(general.loc) if general else ""
    if listed in after:
        # The claim is written with each decision that uses it, so that one of two concurrent decisions fails.
        written += [listed] if after[listed].lists or after[listed].links else []
        decision = _with_alternates(decision, tuple(_alternates(after[listed], after)))
    changed = [page for page, claim in after.items() if page in written or claim != before.get(page)]
    affected = {url for url in _affected_pages(changed, before, after) if identity(url) != listed}
    again = sorted({*affected, *(after[page].url for page in later)})
    decision = replace(decision, claims=tuple(after[page] for page in changed))
    return replace(decision, returns=(*decision.returns, *_events_again(again, decision.claims)))


def _pages_for_later(written: Iterable[str], before: Mapping[str, Claim], after: Mapping[str, Claim]) -> list[str]:
    """Return the removed pages that keep their links until they are recorded again, because one transaction has no room for all."""
    by_page = {page: {*_versions_of(before.get(page)), *_versions_of(after[page])} for page in written}
    if len(by_page) == 1 or len(set().union(*by_page.values())) <= VERSIONS_CHANGED_MAX:
        return []
    return [page for page, versions in by_page.items() if versions and not after[page].live]


def _with_seen_page(decision: Decision, event: ArticleEvent, known: Known) -> Decision:
    """Return a decision that also notes the page of its event if no article has it: of a held article, or of a late event.

    Other pages do not list it. So the result is the same whether a publication is received before the event that ends it or after.
    """
    page = identity(event.url or "")
    is_claimed = page in known.claims or page in {identity(claim.url) for claim in decision.claims}
    is_absent = decision.outcome in ("held", "late") and decision.reason != FORGOTTEN
    if event.action != "publish" or not is_absent or is_claimed or not event.url:
        return decision
    claim = known.versions.get(page) or Claim(event.site, event.url)
    return decision if claim.seen else replace(decision, claims=(*decision.claims, replace(claim, seen=True)))


def _with_alternates(decision: Decision, alternates: tuple[Alternate, ...]) -> Decision:
    general = replace(decision.general, alternates=alternates) if decision.general else None
    return replace(decision, general=general, news=decision.news and replace(decision.news, alternates=alternates))


def _events_again(urls: Iterable[str], claims: Iterable[Claim]) -> Iterator[ArticleEvent]:
    """Yield an event for each site, by which its pages are recorded again after a write of these claims."""
    # A claim is written once with each `rev`. So no other record has this name, and its deletion deletes no other work.
    name = hash_parts(*(f"{claim.url} {claim.rev}" for claim in claims))
    for host, pages in groupby(urls, host_of):
        yield ArticleEvent(site=host, source="", id=name, action="again", previous_urls=tuple(pages))


def _with_gone(claim: Claim, claims: Mapping[str, Claim]) -> Claim:
    """Return the claim with the codes whose pages were removed, so that other pages may have these codes. Not all claims may be read."""
    others = {code: claims.get(identity(href)) for code, href in claim.lists.items()}
    gone = (code for code, other in others.items() if (_is_gone(other) if other else code in claim.gone))
    return replace(claim, gone=tuple(sorted(gone)))


def _with_lists(claim: Claim, stored: Claim | None, general: GeneralEntry | None, site: Site) -> Claim:
    """Return a claim with the alternates of its page: none if the page is gone, those of the entry if it is the entry's."""
    if stored:
        claim = replace(claim, links=stored.links, rev=stored.rev)
    if not claim.live:
        return replace(claim, code="", lists={}, gone=())
    if general is None or identity(general.loc) != identity(claim.url):
        return claim
    own = [link.hreflang for link in general.alternates if _is_own(link, general) and link.hreflang != DEFAULT]
    code = (own or [hreflang_of(language_of(general, site)) or ""])[0]
    lists = {link.hreflang: link.href for link in general.alternates if link.hreflang != code or _is_own(link, general)}
    links = {url: kept for url, kept in claim.links.items() if host_of(url) in (site.host, *site.alternate_hosts)}
    # A rule for paths is applied when a file is rendered, because it shows which other pages it excludes.
    is_hidden = excluding_rule(site.rules, "general", general.loc, general.traits)
    if is_hidden and not excluding_rule(site.rules, "general", general.loc, None):
        code = ""
    return replace(claim, code=code, lists=lists, links=links)


def _is_own(link: Alternate, general: GeneralEntry) -> bool:
    return identity(link.href) == identity(general.loc)


def _versions_of(claim: Claim | None) -> list[str]:
    """Return the identities of the pages that a page's own event lists."""
    return sorted(set(map(identity, claim.lists.values()))) if claim and claim.code else []


def _link(page: str, before: Claim | None, claims: dict[str, Claim]) -> None:
    """Write the code of a page into the claims on its versions, and remove it from those that it no longer lists."""
    claim, listed = claims[page], _versions_of(claims[page])
    for other in {*_versions_of(before), *listed} & claims.keys() - {page}:
        links = {url: code for url, code in claims[other].links.items() if identity(url) != page}
        if other in listed and len(links) < ALTERNATES_MAX and not is_home(claims[other].url):
            links[claim.url] = claim.code
        claims[other] = replace(claims[other], links=links)


def _accepted_links(claim: Claim | None) -> dict[str, str]:
    """Return the pages that a claim's page lists only because they list it: codes by URL. Codes of removed pages are free."""
    if claim is None or not claim.links:
        return {}
    lists = {code: href for code, href in claim.lists.items() if code not in claim.gone}
    return accept_links(claim.code, lists, claim.links)


def _alternates(claim: Claim, claims: Mapping[str, Claim]) -> Iterator[Alternate]:
    """Yield the alternates of a page, itself included (R5.1), x-default last."""
    page, lists = identity(claim.url), claim.lists if claim.code else {}
    links = {code: href for code, href in lists.items() if not _refuses(claims.get(identity(href)), claim.url)}
    links |= {code: url for url, code in _accepted_links(claim).items()}
    if all(identity(href) == page for href in links.values()):
        return
    if not any(identity(href) == page for code, href in links.items() if code != DEFAULT):
        links[claim.code] = claim.url
    for code in sorted(links, key=lambda code: (code == DEFAULT, code)):
        other = claims.get(identity(links[code]))
        # In the spelling of its own line, because readers of a file compare texts.
        yield Alternate(code, other.url if other and other.live else links[code])


def _is_gone(claim: Claim | None) -> bool:
    """Return True if an event has contained the page, and the page does not exist. Links to a home page are not checked."""
    return claim is not None and (claim.owner != "" or claim.seen) and not claim.live and not is_home(claim.url)


def _refuses(claim: Claim | None, url: str) -> bool:
    """Return True if the page `url` must not list the claim's page: it is removed, or cannot list `url`.

    A page that was never seen refuses none. Links beyond the limit of a claim stay one-sided.
    """
    if claim is None or not claim.live or is_home(claim.url) or identity(url) in _versions_of(claim):
        return _is_gone(claim)
    return not claim.code or (url in claim.links and url not in _accepted_links(claim))


def _affected_pages(changed: Iterable[str], before: Mapping[str, Claim], after: Mapping[str, Claim]) -> Iterator[str]:
    """Yield the live pages whose alternates may change with these claims."""
    for page in changed:
        old, new = before.get(page), after[page]
        if new.live and _accepted_links(old) != _accepted_links(new):
            yield new.url
        for url in {**(old.links if old else {}), **new.links}:
            is_changed = (_is_gone(old), _refuses(old, url)) != (_is_gone(new), _refuses(new, url))
            is_changed |= new.live and (old is None or old.url != new.url)
            other = after.get(identity(url))
            if is_changed and (other is None or other.live):
                yield url
