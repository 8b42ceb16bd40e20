"""Webhooks: who may post, what a delivery means, and the answer. A refusal says what the sender must change."""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import queues, secrets, sites
from stoppress.cms.contract import BadArticle, UnknownType, read_delivery
from stoppress.cms.delivery_id import delivery_id
from stoppress.model.event import ArticleEvent
from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import BadScheme, Scheme, check_settings
from stoppress.model.site import BadConfiguration, Site, secret_path
from stoppress.primitives.text import not_json, utf8
from stoppress.primitives.urls import host_of
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, NotSigned, check_headers, verify

# Even an article with its text is far smaller. SQS takes 1 MiB a message.
BODY_BYTES_MAX = 1_048_576
# The answer asks the sender to try again. The cause is only logged, because the sender is not verified yet.
OUR_FAULT = 503


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the sender, the queued event, and the cause of a refusal, which only the log shows.

    `of_stranger`: the request was refused before a known site was found. `is_wrongly_signed`: the request has a signature or a
    token, but not the source's.
    """

    status: int
    body: dict[str, Any]
    event: ArticleEvent | None = None
    cause: str = ""
    of_stranger: bool = False
    is_wrongly_signed: bool = False


class _Refused(Exception):
    def __init__(
        self, status: int, error: str, cause: str = "", *, of_stranger: bool = False, is_wrongly_signed: bool = False
    ) -> None:
        super().__init__(error)
        self.status, self.cause = status, cause
        self.of_stranger, self.is_wrongly_signed = of_stranger, is_wrongly_signed


def receive(request: Request, now: datetime) -> Answer:
    """Verifies, reads and queues a delivery to /webhooks/{site}/{source}. Raises the queue's errors.

    Costs one write to the queue, and reads of the registry, a parameter and a secret if their cache entries expired.
    """
    try:
        site, name = _site_and_source(request)
        _verify(request, site, name, now)
        delivery = delivery_id(request.headers)
        if site.sources[name].adapter != "standard":
            return _receive_adapted(request, site, name, now, delivery)
        event, unknown = _read(request, site, name, now, delivery)
    except _Refused as refusal:
        status = "failed" if refusal.status == OUR_FAULT else "refused"
        body = {"status": status, "error": str(refusal)}
        return Answer(
            refusal.status,
            body,
            cause=refusal.cause,
            of_stranger=refusal.of_stranger,
            is_wrongly_signed=refusal.is_wrongly_signed,
        )
    except UnknownType as error:
        return Answer(200, {"status": "ignored", "reason": str(error)}, cause=str(error))
    queues.send_articles([event])
    body = {"status": "queued", "site": event.site, "source": event.source}
    body |= {"id": event.id} if event.id else {"url": str(event.url)}
    body |= {"action": event.action}
    return Answer(200, body | ({"unknown_fields": unknown} if unknown else {}), event)


def _site_and_source(request: Request) -> tuple[Site, str]:
    """The site in the path, and the name of the source. Raises _Refused."""
    host, name = (request.path_parameters.get(key, "") for key in ("site", "source"))
    if len(request.body) > BODY_BYTES_MAX:
        error = f"the body has {len(request.body)} bytes, at most {BODY_BYTES_MAX}: leave the article's text out"
        raise _Refused(413, error, of_stranger=True)
    try:
        # The request is not verified yet, so the host may be invented.
        site = sites.load_registered(host.lower())
        if name not in site.sources:
            site = sites.load_registered(host.lower(), age_max=sites.MISSED_AGE_MAX)
    except sites.UnknownSite:
        error = f"no site {host[:120]!r} is kept here: check the host in the path"
        raise _Refused(404, error, of_stranger=True) from None
    except BadConfiguration as error:
        raise _Refused(OUR_FAULT, "this site cannot be served at the moment: send it again", str(error)) from None
    if name not in site.sources:
        raise _Refused(404, f"{site.host} has no source {name[:120]!r}: check the last part of the path")
    return site, name


def _verify(request: Request, site: Site, name: str, now: datetime) -> None:
    """Raises _Refused unless the request is signed as the source demands."""
    source = site.sources[name]
    if not source.secret:
        raise _Refused(401, f"the source {name} has no secret, so nothing can be posted to it")
    settings = source.settings
    try:
        check_settings(settings)
        scheme = scheme_of(source.adapter, settings)
        check_headers(scheme, request)  # before the secret is read, which AWS bills
        signed = Request(
            request.headers, request.body, path=settings.get("signed_path", request.path), query=request.query
        )
        tolerance = timedelta(seconds=settings["tolerance_s"]) if "tolerance_s" in settings else TOLERANCE
        name = secret_path(site.host, source.secret)
        try:
            verify(scheme, signed, secrets.load(name, secrets.SIGNED_AGE_MAX), now, tolerance)
        except (BadSignature, BadSecret, secrets.NoSecret):  # the secret may have changed since it was cached
            verify(scheme, signed, secrets.load(name, secrets.REFUSED_AGE_MAX), now, tolerance)
    except BadSignature as error:
        raise _Refused(401, str(error), is_wrongly_signed=not isinstance(error, NotSigned)) from None
    except (BadScheme, BadSecret, secrets.NoSecret) as error:
        raise _Refused(OUR_FAULT, "this source cannot be verified at the moment: send it again", str(error)) from None


def scheme_of(adapter: str, settings: Mapping[str, Any]) -> Scheme:
    """How a source's deliveries are signed: as its settings say, else as its CMS does."""
    if "signature" in settings:
        scheme: Scheme = settings["signature"]
        return scheme
    if adapter == "standard":  # saves the import of the engine
        return adapter
    from stoppress.cms.mapping import load

    return load(adapter).signature


def _receive_adapted(request: Request, site: Site, name: str, now: datetime, delivery: str | None) -> Answer:
    """Reads and queues a CMS's delivery by its mapping. Raises _Refused."""
    from stoppress.cms.envelopes import BadDelivery  # a site with `standard` needs no engine
    from stoppress.receive.queueing import take_delivery

    try:
        items = take_delivery(request, site, name, now, sites.load_registered, delivery)
    except BadDelivery as error:
        raise _Refused(400, str(error)) from None
    if messages := [item.message for item in items if item.message]:
        queues.send_articles(messages)
    if len(items) == 1:
        return Answer(200, items[0].answer)
    statuses = {item.answer["status"] for item in items}
    status = next(status for status in ("queued", "incomplete", "ignored") if status in statuses)
    body = {"status": status, "site": site.host, "source": name, "articles": [item.answer for item in items]}
    return Answer(200, body)


def _read(
    request: Request, site: Site, name: str, now: datetime, delivery: str | None
) -> tuple[ArticleEvent, list[str]]:
    """The event of a delivery in our own contract, and its unknown fields. Raises _Refused and UnknownType."""
    try:
        text = utf8(request.body)
    except ValueError as error:
        raise _Refused(400, str(error)) from None
    try:
        document = json.loads(text)
    except RecursionError:
        raise _Refused(400, "the body is nested too deeply") from None
    except json.JSONDecodeError as error:
        reason = not_json(request.headers.get("content-type", ""))
        raise _Refused(400, reason or f"the body is not JSON: {error}") from None
    except ValueError:  # Python converts no number of more than 4,300 digits
        raise _Refused(400, "the body has a number of thousands of digits in it") from None
    try:
        event, unknown = read_delivery(document, site, name, now, delivery=delivery)
    except BadArticle as error:
        raise _Refused(400, str(error)) from None
    if event.url and host_of(event.url) != site.host:
        raise _Refused(400, f"url: its host is {host_of(event.url)}, not {site.host}: post it to its own site")
    return event, unknown
