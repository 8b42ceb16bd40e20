"""Verdicts into what is queued: the event of each article for the site that its URL is of, or what quarantine is to keep."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from stoppress.cms.contract import BadArticle
from stoppress.cms.verdicts import Verdict
from stoppress.model.event import ArticleEvent, Incomplete
from stoppress.model.site import Site, Source
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import host_of

# Other sites that one delivery is looked up for: each may cost a call to Parameter Store, and a sender waits two seconds.
OTHER_SITES_MAX = 5
# What an answer repeats of what was left out.
DROPPED_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Taken:
    """What became of one verdict: what goes to the queue (nothing where it is ignored), and what the sender hears."""

    message: ArticleEvent | Incomplete | None
    answer: dict[str, Any]


class _Foreign(ValueError):
    """An article of a host that this source does not speak for."""


class Taker:
    """Takes the verdicts of one delivery to a site's source. `load` gives another site of the stack, or raises LookupError.

    `delivery` is the sender's id of the delivery, constant over attempts.
    """

    def __init__(
        self, site: Site, name: str, now: datetime, load: Callable[[str], Site], delivery: str | None = None
    ) -> None:
        self._site, self._name, self._now, self._load, self._delivery = site, name, now, load, delivery
        self._source = site.sources[name]
        self._others: dict[str, Site | None] = {}

    def take(self, verdicts: Iterable[Verdict]) -> list[Taken]:
        """What becomes of each verdict. The site's host is checked here; no article gets to a site whose host is another."""
        return [self._taken(verdict) for verdict in verdicts]

    def _taken(self, verdict: Verdict) -> Taken:
        if verdict.disposition == "ignore":
            return Taken(None, {"status": "ignored", "reason": verdict.reason})
        if verdict.disposition == "incomplete":
            return self._incomplete(verdict, verdict.missing, verdict.reason)
        try:
            event = verdict.event(self._site_of(verdict), self._name, self._now)
            event = replace(event, delivery=self._delivery)
        except _Foreign as error:
            return self._incomplete(verdict, ("url",), f"url: {error}")
        except BadArticle as error:
            return self._incomplete(verdict, (str(error).partition(":")[0],), str(error))
        dropped = (*verdict.dropped, *event.dropped)[:DROPPED_SHOWN]
        answer: dict[str, Any] = {
            "status": "queued", "site": event.site, "source": event.source, "id": event.id, "action": verdict.action,
        }  # fmt: skip
        if verdict.hold_until:
            answer["held_until"] = exact(verdict.hold_until)
        return Taken(event, answer | ({"dropped": list(dropped)} if dropped else {}))

    def _incomplete(self, verdict: Verdict, missing: tuple[str, ...], reason: str) -> Taken:
        said = {name: str(verdict.data[name]) for name in ("id", "url") if name in verdict.data}
        kept = Incomplete(
            self._site.host,
            self._name,
            self._source.adapter,
            missing,
            reason,
            verdict.kept(),
            said.get("id"),
            said.get("url"),
        )
        answer: dict[str, Any] = {"status": "incomplete", "site": self._site.host, "source": self._name}
        answer |= {"id": said["id"]} if "id" in said else {}
        return Taken(kept, answer | {"missing": list(missing), "reason": reason})

    def _site_of(self, verdict: Verdict) -> Site:
        """The site that an article is of: that of its URL; of a removal that of the CMS's site, else the delivery's own."""
        url = verdict.data.get("url")
        host = host_of(url) if url else verdict.host or self._site.host
        if host == self._site.host:
            return self._site
        if host not in self._others:
            if len(self._others) >= OTHER_SITES_MAX:
                raise _Foreign(f"its host is {host}, the {OTHER_SITES_MAX + 1}th other one in one delivery")
            self._others[host] = self._other(host)
        other = self._others[host]
        if other is None:
            raise _Foreign(
                f"its host is {host}, not {self._site.host}: post it to its own site, or give that site the source"
                f" {self._name} too, with the same adapter and secret"
            )
        return other

    def _other(self, host: str) -> Site | None:
        """Another site of the stack, where it names the same source: whoever may post here may then post there."""
        try:
            other = self._load(host)
        except LookupError:
            return None
        source = other.sources.get(self._name)
        return other if source and _same(source, self._source) else None


def _same(one: Source, other: Source) -> bool:
    return (one.adapter, one.secret) == (other.adapter, other.secret)
