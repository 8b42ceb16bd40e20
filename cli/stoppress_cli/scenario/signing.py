"""Signs webhooks as the adapter of their source requires: those of a scenario, and the test article of `stoppress send`."""

import base64
import hashlib
import hmac
import json
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import TypeAlias
from urllib.parse import quote

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import PRESETS, Hmac, Scheme
from stoppress.signatures import canonical, verify

# Signs a request with a secret, a message id (for schemes that have one) and an instant. Existing headers are kept and signed.
Signer: TypeAlias = Callable[[Request, str, str, datetime], Request]


def standard(secret: str, headers: Mapping[str, str], body: bytes, message_id: str, now: datetime) -> dict[str, str]:
    """Headers of Standard Webhooks 1.0; an id or timestamp that `headers` has is kept and signed."""
    request = Request(headers, body, path="/")
    made = parametric_signer(PRESETS["standard"])(request, secret, message_id, now).headers
    return {name: made[name] for name in ("webhook-id", "webhook-timestamp", "webhook-signature")}


def parametric_signer(scheme: Hmac) -> Signer:
    """Return a signer for a parametric scheme: a preset, or a table of the same form."""

    def sign(request: Request, secret: str, message_id: str, now: datetime) -> Request:
        time = str(int(now.timestamp() * (1_000 if scheme.unit == "ms" else 1)))
        headers = dict(request.headers)
        for name in scheme.headers_needed:
            if name != scheme.header:
                headers.setdefault(name, time if name == scheme.time_header else message_id)
        time = headers.get(scheme.time_header, time)
        message = verify.message(scheme, replace(request, headers=headers), time)
        items = [scheme.prefix + verify.sign(scheme, verify.keys(scheme, [secret])[0], message)]
        items += [scheme.time + time] if scheme.time else []
        headers.setdefault(scheme.header, (scheme.separator or ",").join(items))
        return replace(request, headers=headers)

    return sign


def _contentful(request: Request, secret: str, message_id: str, now: datetime) -> Request:
    headers = {canonical.CONTENTFUL_TIMESTAMP: str(int(now.timestamp() * 1_000)), **request.headers}
    chosen = {name for name in headers if name.startswith("x-contentful-") or name == "content-type"}
    listed = sorted({*chosen, canonical.CONTENTFUL_HEADERS} - {canonical.CONTENTFUL})
    headers.setdefault(canonical.CONTENTFUL_HEADERS, ",".join(listed))
    message = canonical.contentful_messages(
        replace(request, headers=headers), headers[canonical.CONTENTFUL_HEADERS].split(",")
    )[0]
    headers.setdefault(canonical.CONTENTFUL, hmac.new(secret.encode(), message, hashlib.sha256).hexdigest())
    return replace(request, headers=headers)


def _hygraph(request: Request, secret: str, message_id: str, now: datetime) -> Request:
    time_ms = int(now.timestamp() * 1_000)
    signature = canonical.hygraph_signature(secret, canonical.hygraph_messages(request.body, "master", time_ms)[0])
    header = f"sign={signature}, env=master, t={time_ms}"
    return replace(request, headers={canonical.HYGRAPH: header, **request.headers})


def _bearer(request: Request, secret: str, message_id: str, now: datetime) -> Request:
    return replace(request, headers={"authorization": f"Bearer {secret}", **request.headers})


def _basic(request: Request, secret: str, message_id: str, now: datetime) -> Request:
    credentials = base64.b64encode(secret.encode()).decode()
    return replace(request, headers={"authorization": f"Basic {credentials}", **request.headers})


def _token(request: Request, secret: str, message_id: str, now: datetime) -> Request:
    if any(part.partition("=")[0] == "token" for part in request.query.split("&")):
        return request
    parameter = f"token={quote(secret, safe='')}"
    return replace(request, query=f"{request.query}&{parameter}" if request.query else parameter)


def _body_secret(request: Request, secret: str, message_id: str, now: datetime) -> Request:
    document = json.loads(request.body)
    if not isinstance(document, dict):
        raise ValueError("`sign` puts the secret into the body, which has to be a JSON object")
    return replace(request, body=json.dumps({"secret": secret, **document}).encode())


SIGNERS: dict[str, Signer] = {
    **{name: parametric_signer(scheme) for name, scheme in PRESETS.items()},
    "contentful": _contentful,
    "hygraph": _hygraph,
    "bearer": _bearer,
    "token": _token,
    "query-token": _token,
    "basic": _basic,
    "body-secret": _body_secret,
}


def signed(request: Request, scheme: Scheme, secret: str, message_id: str, now: datetime) -> Request:
    """Return the request, signed with the secret; headers that it has already win.

    Raises ValueError for a scheme without a signer, or a secret that it cannot use.
    """
    if isinstance(scheme, str) and scheme not in SIGNERS:
        raise ValueError(f"`sign` does not know the signature {scheme!r}; it knows {', '.join(SIGNERS)}")
    sign = SIGNERS[scheme] if isinstance(scheme, str) else parametric_signer(Hmac.of(scheme))
    return sign(request, secret, message_id, now)
