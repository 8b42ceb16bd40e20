"""Webhooks: who may post, what it means, and the answer. A refusal says what to change, an acceptance what was understood."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any
from urllib.parse import parse_qsl

from stoppress.aws import queues, secrets, sites
from stoppress.cms.contract import BadArticle, UnknownType, delivery_id, read_delivery
from stoppress.model.event import ArticleEvent
from stoppress.model.site import BadConfiguration, Site, Source
from stoppress.primitives.text import not_json, utf8
from stoppress.primitives.urls import host_of
from stoppress.signatures.verify import (
    TOLERANCE,
    BadScheme,
    BadSecret,
    BadSignature,
    Request,
    Scheme,
    check_settings,
    verify,
)

# Whole articles with their text are far smaller; SQS and Lambda take not much more.
BODY_BYTES_MAX = 1_048_576
# A webhook's URL has one or two.
QUERY_FIELDS_MAX = 100
# What the sender is to try again. Why is for the log alone: whoever asks has not been verified yet.
OUR_FAULT = 503


@dataclass(frozen=True, slots=True)
class Delivery:
    """One request: the site and source of its path, headers with names in small letters, the raw bytes.

    Path and query are those that the sender asked for, as far as the gateway tells: some sign them.
    """

    site: str
    source: str
    headers: Mapping[str, str]
    body: bytes
    path: str = ""
    query: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """What the sender hears, what was queued for it, and the cause that an operator is to see in the log."""

    status: int
    body: dict[str, Any]
    event: ArticleEvent | None = None
    cause: str = ""


class _Refused(Exception):
    def __init__(self, status: int, error: str, cause: str = "") -> None:
        super().__init__(error)
        self.status, self.cause = status, cause


def receive(delivery: Delivery, now: datetime) -> Answer:
    """Verify, normalise, enqueue. No network but two cached parameters and one queue write."""
    try:
        site, source = _site_and_source(delivery)
        _verify(delivery, source, now)
        if source.adapter != "standard":
            return _adapted(delivery, site, source, now)
        event, unknown = _read(delivery, site, now)
    except _Refused as refusal:
        status = "failed" if refusal.status == OUR_FAULT else "refused"
        return Answer(refusal.status, {"status": status, "error": str(refusal)}, cause=refusal.cause)
    except UnknownType as error:
        return Answer(200, {"status": "ignored", "reason": str(error)}, cause=str(error))
    queues.send_articles([event])
    said = {"status": "queued", "site": event.site, "source": event.source}
    said |= {"id": event.id} if event.id else {"url": str(event.url)}
    said |= {"action": event.action}
    return Answer(200, said | ({"unknown_fields": unknown} if unknown else {}), event)


def _site_and_source(delivery: Delivery) -> tuple[Site, Source]:
    if len(delivery.body) > BODY_BYTES_MAX:
        raise _Refused(413, f"the body has {len(delivery.body)} bytes, at most {BODY_BYTES_MAX}: leave the text out")
    try:
        # Anybody may ask for any host; recording, which would put an event into quarantine, takes no old answer.
        site = sites.load(delivery.site.lower(), unknown_age_max=sites.MISSED_AGE_MAX)
        if delivery.source not in site.sources:
            site = sites.load(delivery.site.lower(), age_max=sites.MISSED_AGE_MAX)
    except sites.UnknownSite:
        raise _Refused(404, f"no site {delivery.site[:120]!r} is kept here: check the host in the path") from None
    except BadConfiguration as error:
        raise _Refused(OUR_FAULT, "this site cannot be served at the moment: send it again", str(error)) from None
    if delivery.source not in site.sources:
        raise _Refused(404, f"{site.host} has no source {delivery.source[:120]!r}: check the last part of the path")
    return site, site.sources[delivery.source]


def _verify(delivery: Delivery, source: Source, now: datetime) -> None:
    if not source.secret:
        raise _Refused(401, f"the source {delivery.source} has no secret, so nothing can be posted to it")
    settings = source.settings
    try:
        check_settings(settings)
        path = settings.get("signed_path", delivery.path)
        request = Request(delivery.headers, delivery.body, path=path, query=delivery.query)
        tolerance = timedelta(seconds=settings["tolerance_s"]) if "tolerance_s" in settings else TOLERANCE
        verify(scheme_of(source.adapter, settings), request, secrets.load(source.secret), now, tolerance)
    except BadSignature as error:
        raise _Refused(401, str(error)) from None
    except (BadScheme, BadSecret, secrets.NoSecret) as error:
        raise _Refused(OUR_FAULT, "this source cannot be verified at the moment: send it again", str(error)) from None


def scheme_of(adapter: str, settings: Mapping[str, Any]) -> Scheme:
    """How a source's deliveries are signed: as its settings say, else as its CMS does."""
    if "signature" in settings:
        said: Scheme = settings["signature"]
        return said
    if adapter == "standard":  # which has no mapping file
        return adapter
    from stoppress.cms.mapping import load

    return load(adapter).signature


def _adapted(delivery: Delivery, site: Site, source: Source, now: datetime) -> Answer:
    """What a CMS sent, by its mapping. What is incomplete is queued too: recording keeps it in quarantine. Raises _Refused."""
    from stoppress.cms import registry  # what our own contract does without
    from stoppress.receive.queueing import Taker

    try:
        query = dict(parse_qsl(delivery.query, keep_blank_values=True, max_num_fields=QUERY_FIELDS_MAX))
    except ValueError:
        query = {}
    received = registry.Received(delivery.body, delivery.headers, query)
    try:
        verdicts = registry.read(source.adapter, received, source.settings, site, now)
    except registry.BadDelivery as error:
        raise _Refused(400, str(error)) from None
    taken = Taker(site, delivery.source, now, _other_site, delivery_id(delivery.headers)).take(verdicts)
    if messages := [one.message for one in taken if one.message]:
        queues.send_articles(messages)
    if len(taken) == 1:
        return Answer(200, taken[0].answer)
    statuses = {one.answer["status"] for one in taken}
    status = next(status for status in ("queued", "incomplete", "ignored") if status in statuses)
    said = {"status": status, "site": site.host, "source": delivery.source, "articles": [one.answer for one in taken]}
    return Answer(200, said)


def _other_site(host: str) -> Site:
    """Another site of the stack. Raises LookupError where there is none that can be used."""
    try:
        return sites.load(host)
    except BadConfiguration as error:
        raise LookupError(str(error)) from None


def _read(delivery: Delivery, site: Site, now: datetime) -> tuple[ArticleEvent, list[str]]:
    try:
        text = utf8(delivery.body)
    except ValueError as error:
        raise _Refused(400, str(error)) from None
    try:
        document = json.loads(text)
    except RecursionError:
        raise _Refused(400, "the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        reason = not_json(delivery.headers.get("content-type", ""))
        raise _Refused(400, reason or f"the body is not JSON: {error}") from None
    except ValueError:  # Python reads none of more than 4,300
        raise _Refused(400, "the body has a number of thousands of digits in it") from None
    try:
        event, unknown = read_delivery(document, site, delivery.source, now, delivery=delivery_id(delivery.headers))
    except BadArticle as error:
        raise _Refused(400, str(error)) from None
    if event.url and host_of(event.url) != site.host:
        raise _Refused(400, f"url: its host is {host_of(event.url)}, not {site.host}: post it to its own site")
    return event, unknown
