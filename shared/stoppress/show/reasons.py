"""Why a sitemap does not list a page. The table and the site's configuration show the reasons; several may apply. Pure."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from itertools import takewhile
from operator import attrgetter
from typing import Literal, TypeAlias, cast

from stoppress.aws.refusals import Count, Refusal
from stoppress.model import exclusion_reasons
from stoppress.model.article import FORGOTTEN, Article, Claim
from stoppress.model.entries import Traits, excluding_rule
from stoppress.model.news_window import is_current, window_end
from stoppress.model.site import Site
from stoppress.primitives.instants import local_time, parse
from stoppress.primitives.urls import host_of
from stoppress.show.read_story import Facts, Received

Target: TypeAlias = Literal["news", "general"]
TARGETS: tuple[Target, ...] = ("news", "general")

Kind: TypeAlias = Literal[
    "never received",
    "wrong signature",
    "not found",
    "other host",
    "refused",
    "ignored",
    "quarantined",
    "removed",
    "forgotten",
    "moved",
    "other article",
    "held",
    "excluded",
    "rule",
    "page",
    "not news",
    "no date",
    "expired",
    "no title",
    "not written",
]

# The outcomes of deliveries that were not recorded.
_UNRECORDED = {"refused": "was refused", "ignored": "was ignored", "quarantined": "is in quarantine"}
# Reasons of an article that a later date ends.
_OF_DATES = (exclusion_reasons.NO_DATE, exclusion_reasons.EXPIRED)


@dataclass(frozen=True)
class Reason:
    """Why a page is not in a sitemap. `text` continues "no, because". `since` is when the reason began, if known."""

    kind: Kind
    text: str
    since: datetime | None = None


def find_reasons(facts: Facts, owner: Article | None, target: Target, now: datetime) -> tuple[Reason, ...]:
    """Return why a sitemap does not list the page; the first reason decides. Empty if its next version lists the page.

    `owner` is the article that has the page, if one has entries.
    """
    if facts.is_configured and target == "general":
        return ()
    if owner:
        entry = facts.general.get(owner.name)
        ruled = list(_rule_reasons(facts, target, entry.loc, entry.traits)) if entry else []
        if target == "general":
            return tuple(ruled)
        reasons = [*_event_reasons(owner.news_reason), *ruled, *_date_reasons(facts, owner, now)]
        return tuple([*reasons, *_unapplied_reasons(facts)] if reasons else reasons)
    if facts.is_configured:
        return (Reason("page", "it is a page of the site's configuration, not an article"),)
    return (*_absence_reasons(facts), *_later_reasons(facts, target))


def find_held_article(facts: Facts) -> Article | None:
    """Return the held article that is released next."""
    held = [article for article in _absent_articles(facts) if article.release_at and article.state == "held"]
    return min(held, key=attrgetter("release_at"), default=None)


# ── reasons of a page that has entries ──


def _rule_reasons(facts: Facts, target: Target, url: str, traits: Traits) -> Iterator[Reason]:
    if rule := excluding_rule(facts.site.rules, target, url, traits):
        yield Reason("rule", f"{rule} excludes it")


def _event_reasons(text: str) -> Iterator[Reason]:
    """Yield the reason that `model/exclusion_reasons.py` found in an event. Rules and dates are checked again elsewhere."""
    if text in (exclusion_reasons.PAGE, exclusion_reasons.HOME_PAGE):
        yield Reason("page", f"it is {text}" if text == exclusion_reasons.PAGE else text)
    elif text == exclusion_reasons.NO_TITLE:
        yield Reason("no title", "no event gave its title")
    elif text == exclusion_reasons.NOT_NEWS:
        yield Reason("not news", text)


def _date_reasons(facts: Facts, article: Article, now: datetime) -> Iterator[Reason]:
    """Yield the reason why the publication date keeps an article with entries out of the news sitemap."""
    first = article.first_published
    if first is None:
        yield Reason("no date", "no event gave its publication date (published_at)")
    elif not is_current(first, now):
        ended = window_end(first)
        text = f"it was published more than 48 hours ago: the window ended at {facts.at(ended)}"
        yield Reason("expired", text, ended)
    elif article.news_reason in _OF_DATES:  # the date came in a later event, without a title for an entry
        yield Reason("no title", "no event gave its title together with its publication date")


# ── reasons of a page without entries ──


def _absence_reasons(facts: Facts) -> Iterator[Reason]:
    """Yield why a page has no entries. The first reason decides."""
    reason = _article_reason(facts)
    reasons = [*([reason] if reason else []), *_unapplied_reasons(facts)]
    what = f"the article {facts.article}" if facts.article else "this URL"
    if reasons:
        yield from reasons
    elif facts.received and facts.received[-1].outcome == "ignored":
        yield _delivery_reason(facts, facts.received[-1])
    elif facts.url and host_of(facts.url) != facts.site.host:
        yield Reason("other host", f"{host_of(facts.url)} is not {facts.site.host}")
    elif facts.unsearched:
        yield Reason("not found", f"no event that was searched mentions {what}")
    else:
        yield Reason("never received", f"no event has mentioned {what}")
        yield from _unverified_reasons(facts)


def _unverified_reasons(facts: Facts) -> Iterator[Reason]:
    """Yield the sources whose deliveries of today had a wrong signature or contained no article, because one may be for the story."""
    for count in facts.unverified:
        text = f"{describe_unverified(count, facts.site)}. One of them may be for this story. Check or replace the secret in the CMS"
        yield Reason("wrong signature", text, count.unverified_at)
    for source in facts.site.sources:
        if refused := [refusal for refusal in facts.unidentified if refusal.source == source]:
            text = f"{describe_refused(refused, facts.site)}. They have no id and no URL, so one of them may be for this story"
            yield Reason("refused", text, refused[0].at)


def describe_unverified(count: Count, site: Site) -> str:
    """Return how many deliveries of a source had a wrong signature today, and the fault of the last one."""
    last = f", the last at {local_time(count.unverified_at, site.zone)}" if count.unverified_at else ""
    because = f" ({count.unverified_because})" if count.unverified_because else ""
    return f"at least {_deliveries(count.unverified)} from {count.source} had a wrong signature today{last}{because}"


def describe_refused(refused: Sequence[Refusal], site: Site) -> str:
    """Return how many deliveries of a source were refused today, and why the last one was. `refused`: newest first, at least one."""
    last = refused[0]
    what = f"at least {_deliveries(len(refused))} from {last.source} failed with 400 today"
    return f"{what}, the last at {local_time(last.at, site.zone)}: {last.reason}"


def _deliveries(number: int) -> str:
    return f"{number:,} {'delivery' if number == 1 else 'deliveries'}"


def _article_reason(facts: Facts) -> Reason | None:
    """Return why the page's articles have no entries, if the table shows it."""
    claim = facts.claim
    if held := find_held_article(facts):
        assert held.release_at
        text = f"article {held.name} is held until {facts.at(held.release_at)}"
        return Reason("held", text, parse(held.order.received))
    if facts.article and (owner := facts.owner):
        return Reason("other article", f"article {owner.name} has its URL", parse(owner.order.received))
    articles = [article for article in _absent_articles(facts) if article.state in ("removed", "excluded")]
    gone = [_gone_reason(facts, article) for article in articles]
    removal = claim.removed.get(claim.source) if claim and not claim.live else None
    orders = [claim.order, *(article.order for article in articles if article.source == claim.source)] if claim else []
    if claim and removal and not any(map(removal.is_before, orders)):
        gone.append(Reason("removed", f"{claim.source} removed this URL", parse(removal.received)))
    return max(gone, key=attrgetter("since")) if gone else _other_reason(facts)


def _other_reason(facts: Facts) -> Reason | None:
    """Return where an article of the page is now, or which other article has the page."""
    claim = facts.claim
    elsewhere = [article for article in facts.articles if article.url and not facts.is_here(article)]
    if elsewhere:
        article = next((article for article in elsewhere if claim and article.name == claim.owner), elsewhere[0])
        if article.state == "removed":
            return _gone_reason(facts, article)
        return Reason("moved", f"article {article.name} moved to {article.url}", parse(article.order.received))
    for article in facts.articles:
        if article.state == "displaced" and _is_requested(facts, article):
            hint = "" if claim is None or claim.live else f". The URL is free now, so send article {article.name} again"
            return Reason("other article", f"{article.reason}{hint}", parse(article.order.received))
    return None


def _absent_articles(facts: Facts) -> list[Article]:
    """Return the articles that would be listed at the page if their own reason ended: no claim on the URL keeps them out."""
    requested = [article for article in facts.articles if _is_requested(facts, article) and not article.has_entries]
    return [article for article in requested if not _is_outclaimed(article, facts.claim)]


def _is_outclaimed(article: Article, claim: Claim | None) -> bool:
    """Return True if a claim keeps an article out: its source ranks higher, or the article's own source removed the URL later."""
    if claim is None or claim.owner == article.name:
        return False
    removal = claim.removed.get(article.source)
    return claim.rank > article.rank or (removal is not None and article.order.is_before(removal))


def _is_requested(facts: Facts, article: Article) -> bool:
    """Return True if the answer is about the article: the user asked for it, or its URL is the page."""
    return article.name == facts.article if facts.article else facts.is_here(article)


def _later_reasons(facts: Facts, target: Target) -> Iterator[Reason]:
    """Yield the reasons that keep a held article out after its release too."""
    article = find_held_article(facts)
    event = facts.held.get(article.name) if article else None
    if article is None or event is None or event.url is None or article.release_at is None:
        return
    if excluded := exclusion_reasons.excluded_because(event, facts.site):
        yield Reason("excluded", f"article {article.name} is excluded: {excluded}")
    yield from _rule_reasons(facts, target, event.url, event.traits)
    if target == "news":
        yield from _event_reasons(
            exclusion_reasons.not_news_because(event, event.url, article.release_at, article.release_at)
        )


def _gone_reason(facts: Facts, article: Article) -> Reason:
    """Return why a removed or excluded article has no page."""
    since = parse(article.order.received)
    if article.reason == FORGOTTEN:
        return Reason("forgotten", f"an operator erased article {article.name} with `stoppress forget`", since)
    if article.state == "removed":
        return Reason("removed", f"its source removed article {article.name} at {facts.at(since)}", since)
    return Reason("excluded", f"article {article.name} is excluded: {article.reason}", since)


def _unapplied_reasons(facts: Facts) -> Iterator[Reason]:
    """Yield the newest refused or quarantined delivery, if no event was recorded after it. It might have ended another reason."""
    newest = takewhile(lambda received: received.outcome in _UNRECORDED, reversed(facts.received))
    unapplied = next((received for received in newest if received.outcome != "ignored"), None)
    if unapplied:
        yield _delivery_reason(facts, unapplied)


def _delivery_reason(facts: Facts, received: Received) -> Reason:
    """Return the reason of a delivery that never became an event in the table."""
    what = f"the delivery of {facts.at(received.at)} {_UNRECORDED[received.outcome]}: {received.reason}"
    return Reason(cast("Kind", received.outcome), what, received.at)
