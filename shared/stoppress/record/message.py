"""Read a message of the articles queue: article events, each with its site, or why there are none.

There are four kinds of messages: article events from Stoppress's functions, reports of refusals from receive_webhook, and
from the bus events in Stoppress's own format or with a CMS's delivery.
"""

import json
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from stoppress.aws import refusals, sites
from stoppress.cms.contract import BadArticle, UnknownType, read_bus_event
from stoppress.model.event import ArticleEvent, Incomplete, article_name, from_message
from stoppress.model.http_request import Request
from stoppress.model.site import UNKNOWN_SITE, Site
from stoppress.primitives.text import encodable

# Sources with these adapters put events in Stoppress's own format on the bus.
CONTRACT_ADAPTERS = ("standard", "eventbridge")


@dataclass(frozen=True, slots=True)
class Message:
    """A message of the articles queue: its id, its body, and when it was sent."""

    id: str
    body: str
    sent_at: datetime


class Unusable(ValueError):
    """A message that no later attempt can apply."""

    def __init__(self, site: str, reason: str) -> None:
        super().__init__(reason)
        self.site = site


@dataclass(frozen=True, slots=True)
class Content:
    """The content of a message: events with their sites, an error for its incomplete articles, and why it has no event.

    `report` has the refusals of receive_webhook, or the events that the source's mapping ignored. `site` is None if there is only a report.
    """

    site: Site | None = None
    events: tuple[tuple[ArticleEvent, Site], ...] = ()
    incomplete: Unusable | None = None
    ignored: str = ""
    report: refusals.Report | None = None


def read(message: Message) -> Content:
    """Read a message. Raises Unusable, BadConfiguration, and what `aws.sites` raises."""
    try:
        document = json.loads(message.body)
    except (ValueError, RecursionError) as error:
        raise Unusable(UNKNOWN_SITE, f"the message is not JSON: {error}") from None
    envelope = document if isinstance(document, dict) else {}
    from_bus = "detail-type" in envelope
    if refusals.FIELD in envelope and not from_bus:
        try:
            return Content(report=refusals.read_report(envelope))
        except ValueError as error:
            raise Unusable(UNKNOWN_SITE, str(error)) from None
    site = _site_of(envelope, from_bus)
    if "incomplete" in envelope:
        raise Unusable(site.host, f"incomplete: {envelope.get('reason') or 'no reason was given'}")
    try:
        if not from_bus:
            return Content(site, tuple((event, site) for event in _events(from_message(message.body))))
        source = site.sources.get(str(envelope.get("source")))
        if source and source.adapter not in CONTRACT_ADAPTERS:
            return _apply_adapter(envelope, site, message.sent_at)
        return Content(site, ((read_bus_event(envelope, site, message.sent_at)[0], site),))
    except (BadArticle, UnknownType, ValueError) as error:
        raise Unusable(site.host, str(error)) from None


def _events(event: ArticleEvent) -> list[ArticleEvent]:
    """Return the events of a message: one for each page that is recorded again.

    The first of them deletes the due record, because the queue keeps the message until all pages are recorded. Raises ValueError.
    """
    needs_url = event.action != "remove" or not event.id
    if needs_url and not (event.previous_urls if event.action == "again" else event.url):
        raise ValueError("url: is missing: give the URL of the page")
    if event.action != "again":
        return [event]
    pages = [replace(event, url=url, previous_urls=(), release=None) for url in event.previous_urls]
    return [replace(pages[0], release=event.release), *pages[1:]]


def _site_of(envelope: Mapping[str, Any], from_bus: bool) -> Site:
    """Return the site of a message. Raises Unusable, BadConfiguration, and what `aws.sites` raises."""
    detail = envelope.get("detail") if from_bus else envelope
    host = detail.get("site") if isinstance(detail, dict) else None
    if not isinstance(host, str):
        raise Unusable(UNKNOWN_SITE, f"{'detail.site' if from_bus else 'site'}: is missing; give the host of the site")
    try:
        site = sites.load(host.lower())
        if from_bus and envelope.get("source") not in site.sources:  # the source may be new
            site = sites.load(site.host, age_max=sites.MISSED_AGE_MAX)
    except sites.UnknownSite as error:
        raise Unusable(UNKNOWN_SITE, str(error)) from None
    return site


def _apply_adapter(envelope: Mapping[str, Any], site: Site, now: datetime) -> Content:
    """Read a CMS's delivery in a bus event. `detail` is {"site": …, "headers": {…}, "body": …}. Raises ValueError."""
    from stoppress.receive.queueing import take_delivery
    from stoppress.receive.refused import report_of

    name, detail = envelope["source"], envelope["detail"]
    body = detail.get("body", {**detail, "site": None})
    headers = detail.get("headers") if isinstance(detail.get("headers"), dict) else {}
    request = Request(
        {str(key).lower(): str(value) for key, value in headers.items()},
        body.encode(errors="surrogatepass") if isinstance(body, str) else json.dumps(body).encode(),
    )
    taken = take_delivery(request, site, name, now, sites.load)
    faults = [item.answer["reason"] for item in taken if isinstance(item.message, Incomplete)]
    events = [item.message for item in taken if isinstance(item.message, ArticleEvent)]
    unusable = Unusable(site.host, f"incomplete: {'; '.join(faults)[:1_000]}") if faults else None
    if unusable and not events:
        raise unusable
    hosts = {site.host: site} | {event.site: sites.load(event.site) for event in events if event.site != site.host}
    reasons = dict.fromkeys(str(item.answer.get("reason", "")) for item in taken)
    with_sites = tuple((event, hosts[event.site]) for event in events)
    return Content(site, with_sites, unusable, "; ".join(reasons), report_of(site, name, now, taken))


def named_in(body: str) -> dict[str, str | None]:
    """Return the article and the URL of an unusable message, so that the log can be searched for them."""
    with suppress(ValueError, RecursionError, AttributeError):
        document = json.loads(body)
        detail = document.get("detail", document)
        name = article_name(str(document.get("source")), str(detail.get("id")))
        return {"article": encodable(name[:200]), "url": encodable(str(detail.get("url"))[:200])}
    return {}
