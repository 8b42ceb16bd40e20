"""Predicts the changes of the table by the events of an archive. Only reads the table."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from stoppress.model.article import Article, Decision, Known
from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from stoppress.primitives.urls import identity
from stoppress.record.decide import decide
from stoppress.record.transaction import recall

# The words of the report for each kind of effect, in its order.
KINDS = {
    "new": "new",
    "unchanged": "unchanged",
    "changed": "with other changes",
    "changes_date": "with another date",
    "moves": "at another URL",
    "leaves_news": "out of the news",
}


@dataclass(frozen=True, slots=True)
class Effect:
    """The most severe effect of an event, one of KINDS. `live_url`: the URL at which the event's article would no longer be live."""

    kind: str
    live_url: str = ""


def predict_effects(events: Sequence[ArticleEvent], site: Site, now: datetime) -> list[Effect]:
    """Return the effect of each event on the table as it is now. Raises the errors of the table."""
    effects = []
    for event, known in zip(events, recall((event, site, False) for event in events), strict=True):
        if isinstance(known, Exception):
            raise known
        effects.append(_effect(event, known, site, now))
    return effects


def _effect(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Effect:
    decision = decide(event, known, site, now)
    articles = (known.article, *known.owners.values())
    live = {article.name: article for article in articles if article and article.has_entries}
    own = live.get(event.name)
    is_moved = own is not None and identity(own.url or "") != identity(event.url or "")
    live_url = str(own.url) if own and is_moved and decision.outcome not in ("duplicate", "late") else ""
    kind = _find_kind(decision, live, is_moved=bool(live_url))
    return Effect(kind, "" if kind == "unchanged" else live_url)


def _find_kind(decision: Decision, live: Mapping[str, Article], *, is_moved: bool) -> str:
    """Return the most severe effect of a decision; `live` are the articles with entries that it may change, by name."""
    after = decision.article
    if any(entry.published for entry in decision.out) and not decision.news:
        return "leaves_news"
    if after is None or decision.outcome == "duplicate" or not (after.has_entries or after.state == "held" or is_moved):
        return "unchanged"
    if is_moved:
        return "moves"
    displaced = (live[article.name] for article in decision.displaced if article.name in live)
    before = live.get(after.name) or next(displaced, None)
    if before and before.first_published != after.first_published:
        return "changes_date"
    if decision.outcome == "late":
        return "unchanged"
    return "changed" if before else "new"
