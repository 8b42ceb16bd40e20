"""Webhooks: who may post, what a delivery means, and the answer. A refusal says what the sender must change.

What is refused or ignored after the signature was verified is reported to record_article, which keeps it
(`aws/refusals.py`). Of requests with a wrong signature it keeps the number.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any

from stoppress.aws import queues, secrets, sites
from stoppress.cms.contract import BadArticle, UnknownType, read_delivery
from stoppress.cms.envelopes import BadDelivery, document_of
from stoppress.cms.warnings import warnings_of
from stoppress.model.http_request import Request, delivery_id
from stoppress.model.signature_schemes import BadScheme, Scheme
from stoppress.model.site import BadConfiguration, Site
from stoppress.model.site_sources import secret_path
from stoppress.primitives.urls import host_of
from stoppress.signatures.verify import TOLERANCE, BadSecret, BadSignature, NotSigned, check_headers, verify

if TYPE_CHECKING:
    from stoppress.aws.refusals import Outcome

# Even an article with its text is far smaller. SQS takes 1 MiB a message.
BODY_BYTES_MAX = 1_048_576
# The answer asks the sender to try again. The cause is only logged, because the sender is not verified yet.
OUR_FAULT = 503


@dataclass(frozen=True, slots=True)
class Answer:
    """The answer to the sender. Only the log shows the articles' names (`id` and `url`) and the cause of a refusal.

    `of_stranger`: the request was refused before a known site was found. `is_wrongly_signed`: the request has a signature or a
    token, but not the source's.
    """

    status: int
    body: dict[str, Any]
    names: Sequence[Mapping[str, str]] = ()
    cause: str = ""
    of_stranger: bool = False
    is_wrongly_signed: bool = False


class _Refused(Exception):
    """A refused delivery: the answer to it, and its JSON, if it is verified and could be read."""

    def __init__(
        self, status: int, error: str, *, errors: Sequence[tuple[str, str]] = (), document: Any = None, **about: Any
    ) -> None:
        super().__init__(error)
        body: dict[str, Any] = {"status": "failed" if status == OUR_FAULT else "refused", "error": error}
        if errors:
            body["errors"] = [{"field": field, "message": message} for field, message in errors]
        self.answer, self.document = Answer(status, body, **about), document


def receive(request: Request, now: datetime) -> Answer:
    """Verify, reads and queues a delivery to /webhooks/{site}/{source}. Raises the queue's errors.

    Costs one write to the queue, another one to report what was refused or ignored, and reads of a site and a secret if their cache
    entries expired.
    """
    try:
        site, name = _site_and_source(request)
        _verify(request, site, name, now)
    except _Refused as refusal:
        return refusal.answer
    delivery = delivery_id(request.headers)
    try:
        if site.sources[name].adapter == "standard":
            return _receive_standard(request, site, name, now, delivery)
        return _receive_adapted(request, site, name, now)
    except _Refused as refusal:
        names = _report_refusal(site, name, now, delivery, "refused", str(refusal), refusal.document)
        return replace(refusal.answer, names=names)


def _site_and_source(request: Request) -> tuple[Site, str]:
    """Return the site in the path, and the name of the source. Raises _Refused."""
    host, name = (request.path_parameters.get(key, "") for key in ("site", "source"))
    if len(request.body) > BODY_BYTES_MAX:
        error = f"the body has {len(request.body)} bytes, at most {BODY_BYTES_MAX}: leave the article's text out"
        raise _Refused(413, error, of_stranger=True)
    try:
        site = sites.load(host.lower())
        if name not in site.sources:
            site = sites.load(host.lower(), age_max=sites.MISSED_AGE_MAX)
    except sites.UnknownSite:
        if host and host.lower() == os.environ["FIRST_HOST"] and sites.read_current(host.lower()) is None:
            raise _Refused(OUR_FAULT, "this site is being added: send it again in a minute") from None
        error = f"unknown site {host[:120]!r}: check the host in the path"
        raise _Refused(404, error, of_stranger=True) from None
    except BadConfiguration as error:
        raise _Refused(OUR_FAULT, "this site cannot be served at the moment: send it again", cause=str(error)) from None
    if name not in site.sources:
        raise _Refused(404, f"{site.host} has no source {name[:120]!r}: check the last part of the path")
    return site, name


def _verify(request: Request, site: Site, name: str, now: datetime) -> None:
    """Raise _Refused unless the request is signed as the source demands."""
    source = site.sources[name]
    if not source.secret:
        raise _Refused(401, f"the source {name} has no secret, so nothing can be posted to it")
    settings = source.settings
    try:
        scheme = scheme_of(source.adapter, settings)
        check_headers(scheme, request)  # before the secret is read, which AWS bills
        signed = Request(
            request.headers, request.body, path=settings.get("signed_path", request.path), query=request.query
        )
        tolerance = timedelta(seconds=settings["tolerance_s"]) if "tolerance_s" in settings else TOLERANCE
        secret = secret_path("webhooks", site.host, source.secret)
        try:
            verify(scheme, signed, secrets.load(secret, secrets.SIGNED_AGE_MAX), now, tolerance)
        except (BadSignature, BadSecret, secrets.NoSecret):  # the secret may have changed since it was cached
            verify(scheme, signed, secrets.load(secret, secrets.REFUSED_AGE_MAX), now, tolerance)
    except BadSignature as error:
        is_wrongly_signed = not isinstance(error, NotSigned)
        if is_wrongly_signed:
            from stoppress.receive import refused  # only a refusal needs it

            refused.count_unverified(site.host, name, now)
        raise _Refused(401, str(error), is_wrongly_signed=is_wrongly_signed) from None
    except (BadScheme, BadSecret, secrets.NoSecret) as error:
        raise _Refused(
            OUR_FAULT, "this source cannot be verified at the moment: send it again", cause=str(error)
        ) from None


def scheme_of(adapter: str, settings: Mapping[str, Any]) -> Scheme:
    """Return how a source's deliveries are signed: as its settings say, else as its CMS does."""
    if "signature" in settings:
        scheme: Scheme = settings["signature"]
        return scheme
    if adapter == "standard":  # saves the import of the engine
        return adapter
    from stoppress.cms.mapping import load

    signature: Scheme = load(adapter).signature
    return signature


def _receive_standard(request: Request, site: Site, name: str, now: datetime, delivery: str | None) -> Answer:
    """Read and queues a delivery in our own contract. Raises _Refused."""
    try:
        document = document_of(request, "standard")
    except BadDelivery as error:
        raise _Refused(400, str(error)) from None
    try:
        event, unknown = read_delivery(document, site, name, now, delivery=delivery)
    except BadArticle as error:
        raise _refuse_article(error, document) from None
    except UnknownType as error:
        names = _report_refusal(site, name, now, delivery, "ignored", str(error), document)
        return Answer(200, {"status": "ignored", "reason": str(error)}, names, cause=str(error))
    if event.url and host_of(event.url) != site.host:
        foreign = f"its host is {host_of(event.url)}, not {site.host}: post it to its own site"
        raise _refuse_article(BadArticle(foreign, "url"), document)
    queues.send_articles([event])
    body: dict[str, Any] = {"status": "queued", "site": event.site, "source": event.source}
    body |= {"id": event.id} if event.id else {"url": str(event.url)}
    body |= {"action": event.action}
    body |= {"unknown_fields": unknown} if unknown else {}
    warnings = warnings_of(event, site, now, {field: document["data"].get(field) for field in unknown})
    return Answer(200, body | ({"warnings": warnings} if warnings else {}), [event.named])


def _receive_adapted(request: Request, site: Site, name: str, now: datetime) -> Answer:
    """Read and queues a CMS's delivery by its mapping. Raises _Refused."""
    from stoppress.receive.queueing import report_of, take_delivery  # a site with `standard` needs no engine
    from stoppress.receive.refused import send

    try:
        items = take_delivery(request, site, name, now, sites.load)
    except BadDelivery as error:
        raise _Refused(400, str(error)) from None
    report = report_of(site, name, now, items)
    if messages := [item.message for item in items if item.message]:
        queues.send_articles(messages)
    if report:  # apart from the articles, because its failure must not fail them
        send(report)
    names = [item.names for item in items]
    if len(items) == 1:
        return Answer(200, items[0].answer, names)
    statuses = {item.answer["status"] for item in items}
    status = next(status for status in ("queued", "incomplete", "ignored") if status in statuses)
    body = {"status": status, "site": site.host, "source": name, "articles": [item.answer for item in items]}
    return Answer(200, body, names)


def _report_refusal(
    site: Site, name: str, now: datetime, delivery: str | None, outcome: "Outcome", reason: str, document: Any
) -> list[dict[str, str]]:
    """Report a delivery that was refused or ignored. Returns the names of its article."""
    from stoppress.aws.refusals import Refusal, Report  # only a refusal needs them
    from stoppress.receive.refused import named_in, send

    names = named_in(document)
    refusal = Refusal(at=now, source=name, outcome=outcome, reason=reason, delivery=delivery or "", **names)
    send(Report(site=site.host, source=name, at=now, refusals=(refusal,)))
    return [names]


def _refuse_article(error: BadArticle, document: Any) -> _Refused:
    return _Refused(400, str(error), errors=error.errors, document=document)
