"""Messages for the articles queue from a CMS's delivery: an event for each article, or an incomplete item for quarantine.

Incomplete items are sent to the articles queue too, so that the webhook needs one write and no access to the table.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import Any

from stoppress.cms.contract import DROPPED_SHOWN, BadArticle
from stoppress.cms.engine import read_delivery
from stoppress.cms.mapping import load
from stoppress.cms.verdicts import Verdict
from stoppress.model.event import Incomplete
from stoppress.model.http_request import Request, delivery_id
from stoppress.model.site import BadConfiguration, Site
from stoppress.model.site_parts import secret_path
from stoppress.primitives.instants import exact
from stoppress.primitives.urls import host_of
from stoppress.receive.refused import Taken, named_in, take_event

# The limit for other sites in one delivery. Each may cost a read of the table, and a sender waits two seconds.
OTHER_SITES_MAX = 5


def take_delivery(
    request: Request, site: Site, name: str, now: datetime, load_site: Callable[[str], Site]
) -> list[Taken]:
    """Read a CMS's delivery to the source `name` by its mapping. `Taker` describes the other arguments. Raises BadDelivery."""
    source = site.sources[name]
    verdicts = read_delivery(load(source.adapter), request, source.settings, site, now)
    taker = Taker(site, name, now, load_site, request.headers)
    return [taker.take(verdict) for verdict in verdicts]


@dataclass
class Taker:
    """Turns the verdicts of one delivery to the source `name` into messages.

    `headers` are those of the delivery, with names in lower case. `load_site` returns another site of the stack, or raises
    LookupError or BadConfiguration.
    """

    site: Site
    name: str
    now: datetime
    load_site: Callable[[str], Site]
    headers: Mapping[str, str]
    _others: dict[str, Site | None] = field(default_factory=dict)

    def take(self, verdict: Verdict) -> Taken:
        """Return the result of a verdict. An event is sent only to the site of its URL's host."""
        delivery = delivery_id(self.headers, verdict.item)
        if verdict.disposition == "ignore":
            return Taken(None, {"status": "ignored", "reason": verdict.reason}, named_in(verdict.item), delivery)
        if verdict.disposition == "incomplete":
            return self._take_incomplete(verdict, verdict.missing, verdict.reason)
        try:
            event = verdict.event(self._site_of(verdict), self.name, self.now)
        except BadArticle as error:
            return self._take_incomplete(verdict, (error.field,), str(error))
        dropped = tuple([*verdict.dropped, *event.dropped][:DROPPED_SHOWN])
        taken = take_event(
            replace(event, dropped=dropped),
            str(verdict.action),
            self._site_of(verdict),
            self.now,
            {},
            held_until=verdict.hold_until and exact(verdict.hold_until),
            dropped=list(dropped),
        )
        return replace(taken, message=replace(event, delivery=delivery))

    def _take_incomplete(self, verdict: Verdict, missing: tuple[str, ...], reason: str) -> Taken:
        names = {name: str(verdict.data[name]) for name in ("id", "url") if name in verdict.data}
        adapter = self.site.sources[self.name].adapter
        message = Incomplete(self.site.host, self.name, adapter, missing, reason, verdict.kept(), **names)
        answer: dict[str, Any] = {"status": "incomplete", "site": self.site.host, "source": self.name}
        answer |= {"id": names["id"]} if "id" in names else {}
        return Taken(message, answer | {"missing": list(missing), "reason": reason}, names)

    def _site_of(self, verdict: Verdict) -> Site:
        """Return the site of the article's URL. Raises BadArticle.

        A removal without a URL belongs to the site in the source's settings (`Verdict.host`), else to the site in the path.
        """
        url = verdict.data.get("url")
        host = host_of(url) if url else verdict.host or self.site.host
        if host == self.site.host:
            return self.site
        if host not in self._others:
            if len(self._others) >= OTHER_SITES_MAX:
                limit = f"a delivery may have articles of {OTHER_SITES_MAX} other hosts"
                raise BadArticle(f"its host is {host}, and {limit}: split the delivery", "url")
            self._others[host] = self._load_other(host)
        other = self._others[host]
        if other is None:
            advice = f"post it to its own site, or give that site the source {self.name} too"
            conditions = "with the same adapter and shared secret"
            raise BadArticle(f"its host is {host}, not {self.site.host}: {advice}, {conditions}", "url")
        return other

    def _load_other(self, host: str) -> Site | None:
        """Return another site, if it has the same source, adapter and shared secret. The sender could post to that site directly."""
        try:
            other = self.load_site(host)
        except (LookupError, BadConfiguration):
            return None
        paths = [
            (source.adapter, secret_path("webhooks", site.host, source.secret or ""))
            for site in (self.site, other)
            if (source := site.sources.get(self.name))
        ]
        return other if paths[1:] == paths[:1] else None
