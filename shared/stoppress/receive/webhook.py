"""Webhooks: verify, read and answer a delivery. A refusal contains what the sender must change.

Items that are refused or ignored after the signature was verified are reported to record_article, which stores them
(`aws/refusals.py`). Requests with a wrong signature are only counted.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import queues, secrets, sites
from stoppress.cms.contract import BadArticle, UnknownType, read_delivery
from stoppress.model.http_request import BadDelivery, Request, delivery_id, document_of
from stoppress.model.signature_schemes import BadScheme, Scheme
from stoppress.model.site import Site
from stoppress.model.site_parts import secret_path
from stoppress.primitives.urls import host_of
from stoppress.receive import refused
from stoppress.receive.refused import OUR_FAULT, Refused, Taken
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, NotSigned, check_headers, verify

# SQS accepts messages of 1 MiB. Even an article with its text is far smaller.
BODY_BYTES_MAX = 1_048_576


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the sender. Only the log contains the articles' names (`id` and `url`) and the cause of a refusal.

    `of_stranger`: the request was refused before a known site was found. `is_wrongly_signed`: the request has a signature or a
    token, but not the source's.
    """

    status: int
    body: dict[str, Any]
    names: Sequence[Mapping[str, str]] = ()
    cause: str = ""
    of_stranger: bool = False
    is_wrongly_signed: bool = False


def receive(request: Request, now: datetime) -> Answer:
    """Verify, read and queue a delivery to /webhooks/{site}/{source}. Raises the queue's errors.

    Costs one write to the queue, another one for a report of refused or ignored items, and reads of a site and a secret if their
    cache entries expired.
    """
    try:
        site, name = _site_and_source(request)
        _verify(request, site, name, now)
    except Refused as refusal:
        return _refusal_answer(refusal, cause=refusal.cause, **refusal.about)
    is_standard = site.sources[name].adapter == "standard"
    try:
        items = [_read_standard(request, site, name, now)] if is_standard else _read_adapted(request, site, name, now)
    except (BadDelivery, Refused) as error:
        refusal_of_item = error if isinstance(error, Refused) else Refused(400, error)
        article = refused.named_in(refusal_of_item.about.get("document"))
        item = Taken(None, {"reason": str(error)}, article, delivery_id(request.headers))
        refused.send_report(refused.report_of(site, name, now, [item], "refused"))
        return _refusal_answer(refusal_of_item, names=[article])
    if messages := [item.message for item in items if item.message]:
        queues.send_articles(messages)
    refused.send_report(
        refused.report_of(site, name, now, items)
    )  # sent separately, so that its failure does not fail the articles
    names = [item.names for item in items]
    if len(items) == 1:
        return Answer(200, items[0].answer, names, cause=items[0].answer.get("reason", "") if is_standard else "")
    statuses = {item.answer["status"] for item in items}
    status = next(status for status in ("queued", "incomplete", "ignored") if status in statuses)
    body = {"status": status, "site": site.host, "source": name, "articles": [item.answer for item in items]}
    return Answer(200, body, names)


def _refusal_answer(refusal: Refused, **about: Any) -> Answer:
    body: dict[str, Any] = {"status": "failed" if refusal.status == OUR_FAULT else "refused", "error": str(refusal)}
    if isinstance(refusal.error, BadArticle) and refusal.error.errors:
        body["errors"] = [{"field": field, "message": message} for field, message in refusal.error.errors]
    return Answer(refusal.status, body, **about)


def _site_and_source(request: Request) -> tuple[Site, str]:
    """Return the site in the path, and the name of the source. Raises Refused."""
    host, name = (request.path_parameters.get(key, "") for key in ("site", "source"))
    if len(request.body) > BODY_BYTES_MAX:
        error = f"the body has {len(request.body)} bytes, at most {BODY_BYTES_MAX}: leave the article's text out"
        raise Refused(413, error, of_stranger=True)
    try:
        site = refused.load_site(host.lower(), lambda site: name in site.sources)
    except sites.UnknownSite:
        if host and host.lower() == os.environ["FIRST_HOST"] and sites.read_current(host.lower()) is None:
            raise Refused(OUR_FAULT, "this site is being added: send it again in a minute") from None
        error = f"unknown site {host[:120]!r}: check the host in the path"
        raise Refused(404, error, of_stranger=True) from None
    if name not in site.sources:
        raise Refused(404, f"{site.host} has no source {name[:120]!r}: check the last part of the path")
    return site, name


def _verify(request: Request, site: Site, name: str, now: datetime) -> None:
    """Raise Refused unless the request is signed as the source requires."""
    source = site.sources[name]
    if not source.secret:
        raise Refused(401, f"the source {name} has no secret, so nothing can be posted to it")
    settings = source.settings
    try:
        scheme = scheme_of(source.adapter, settings)
        check_headers(scheme, request)  # before the secret is read, which AWS bills
        signed = replace(request, path=settings.get("signed_path", request.path))
        tolerance = timedelta(seconds=settings["tolerance_s"]) if "tolerance_s" in settings else TOLERANCE
        secret = secret_path("webhooks", site.host, source.secret)
        try:
            verify(scheme, signed, secrets.load(secret, secrets.SIGNED_AGE_MAX), now, tolerance)
        except (BadSignature, BadSecret, secrets.NoSecret):  # the secret may have changed since it was cached
            verify(scheme, signed, secrets.load(secret, secrets.REFUSED_AGE_MAX), now, tolerance)
    except BadSignature as error:
        is_wrongly_signed = not isinstance(error, NotSigned)
        if is_wrongly_signed:
            refused.count_unverified(site.host, name, now, str(error).partition(": ")[0])  # without the advice
        raise Refused(401, str(error), is_wrongly_signed=is_wrongly_signed) from None
    except (BadScheme, BadSecret, secrets.NoSecret) as error:
        raise Refused(
            OUR_FAULT, "this source cannot be verified at the moment: send it again", cause=str(error)
        ) from None


def scheme_of(adapter: str, settings: Mapping[str, Any]) -> Scheme:
    """Return the signature scheme of a source: that of its settings, else that of its CMS."""
    if "signature" in settings:
        scheme: Scheme = settings["signature"]
        return scheme
    if adapter == "standard":  # saves the import of the engine
        return adapter
    from stoppress.cms.mapping import load

    signature: Scheme = load(adapter).signature
    return signature


def _read_standard(request: Request, site: Site, name: str, now: datetime) -> Taken:
    """Read a delivery in our own contract. Raises Refused, BadDelivery."""
    document, delivery = document_of(request, "standard"), delivery_id(request.headers)
    try:
        event, unknown = read_delivery(document, site, name, now, delivery=delivery)
    except BadArticle as error:
        raise Refused(400, error, document=document) from None
    except UnknownType as error:
        return Taken(None, {"status": "ignored", "reason": str(error)}, refused.named_in(document), delivery)
    if event.url and (host := host_of(event.url)) != site.host:
        foreign = BadArticle(f"its host is {host}, not {site.host}: post it to its own site", "url")
        raise Refused(400, foreign, document=document)
    values = {field: document["data"].get(field) for field in unknown}
    return refused.take_event(event, event.action, site, now, values, unknown_fields=unknown)


def _read_adapted(request: Request, site: Site, name: str, now: datetime) -> list[Taken]:
    from stoppress.receive.queueing import take_delivery  # a site with `standard` needs no engine

    return take_delivery(request, site, name, now, sites.load)
