"""What the events of an archive would change in the table. Reads it, and changes nothing."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from stoppress.model.article import Known
from stoppress.model.event import ArticleEvent
from stoppress.model.site import Site
from stoppress.primitives.urls import identity
from stoppress.record.decide import decide
from stoppress.record.transaction import recall

# How the report calls each kind of effect, in its order.
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
    """The gravest effect of an event, one of KINDS. `live_url` is the other URL at which the event's article is live and would no longer be."""

    kind: str
    live_url: str = ""


def predict_effects(events: Sequence[ArticleEvent], site: Site, now: datetime) -> list[Effect]:
    """Return the effect of each event on the table as it is now. Raises the errors of the table."""
    effects = []
    for event, known in zip(events, recall((event, False) for event in events), strict=True):
        if isinstance(known, Exception):
            raise known
        effects.append(_effect(event, known, site, now))
    return effects


def _effect(event: ArticleEvent, known: Known, site: Site, now: datetime) -> Effect:
    decision = decide(event, known, site, now)
    live = {
        article.name: article for article in (known.article, *known.owners.values()) if article and article.has_entries
    }
    own, after = live.get(event.name), decision.article
    is_moved = bool(own and identity(own.url or "") != identity(event.url or ""))
    live_url = str(own.url) if own and is_moved and decision.outcome not in ("duplicate", "late") else ""
    if any(entry.published for entry in decision.out) and not decision.news:
        return Effect("leaves_news", live_url)
    if after is None or decision.outcome == "duplicate" or not (after.has_entries or after.state == "held" or live_url):
        return Effect("unchanged")
    displaced = (live[article.name] for article in decision.displaced if article.name in live)
    before = live.get(after.name) or next(displaced, None)
    if live_url:
        return Effect("moves", live_url)
    if before and before.first_published != after.first_published:
        return Effect("changes_date")
    if decision.outcome == "late":
        return Effect("unchanged")
    return Effect("changed" if before else "new")
