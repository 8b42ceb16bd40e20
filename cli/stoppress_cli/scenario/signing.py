"""Signs webhooks as the adapter of their source requires: those of a scenario, and the test article of `stoppress send`."""

import base64
import hashlib
import hmac
import json
from dataclasses import replace
from datetime import datetime
from urllib.parse import quote

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import PRESETS, Hmac, Scheme
from stoppress.signatures import canonical, verify


def signed(request: Request, scheme: Scheme, secret: str, message_id: str, now: datetime) -> Request:
    """Return the request, signed with the secret; its existing headers stay, and are signed.

    `message_id` is used by schemes that have one. Raises ValueError for a scheme without a signer, or a secret that it cannot use.
    """
    if not isinstance(scheme, str) or scheme in PRESETS:
        return _sign(request, PRESETS[scheme] if isinstance(scheme, str) else Hmac.of(scheme), secret, message_id, now)
    time_ms = int(now.timestamp() * 1_000)
    match scheme:
        case "contentful":
            return _sign_for_contentful(request, secret, time_ms)
        case "hygraph":
            message = canonical.hygraph_messages(request.body, "master", time_ms)[0]
            header = f"sign={canonical.hygraph_signature(secret, message)}, env=master, t={time_ms}"
            return _with_header(request, canonical.HYGRAPH, header)
        case "bearer":
            return _with_header(request, "authorization", f"Bearer {secret}")
        case "basic":
            return _with_header(request, "authorization", f"Basic {base64.b64encode(secret.encode()).decode()}")
        case "token" | "query-token":
            if "token" in request.query_parameters():
                return request
            return replace(request, query="&".join(filter(None, (request.query, f"token={quote(secret, safe='')}"))))
        case "body-secret":
            document = json.loads(request.body)
            if not isinstance(document, dict):
                raise ValueError("`sign` puts the secret into the body, which has to be a JSON object")
            return replace(request, body=json.dumps({"secret": secret, **document}).encode())
    raise ValueError(f"`sign` does not support the signature {scheme!r}")


def _with_header(request: Request, name: str, value: str) -> Request:
    return replace(request, headers={name: value, **request.headers})


def _sign(request: Request, scheme: Hmac, secret: str, message_id: str, now: datetime) -> Request:
    """Sign by a parametric scheme: a preset, or a table of the same form."""
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


def _sign_for_contentful(request: Request, secret: str, time_ms: int) -> Request:
    headers = {canonical.CONTENTFUL_TIMESTAMP: str(time_ms), **request.headers}
    chosen = {name for name in headers if name.startswith("x-contentful-") or name == "content-type"}
    listed = sorted({*chosen, canonical.CONTENTFUL_HEADERS} - {canonical.CONTENTFUL})
    headers.setdefault(canonical.CONTENTFUL_HEADERS, ",".join(listed))
    signed_headers = headers[canonical.CONTENTFUL_HEADERS].split(",")
    message = canonical.contentful_messages(replace(request, headers=headers), signed_headers)[0]
    headers.setdefault(canonical.CONTENTFUL, hmac.new(secret.encode(), message, hashlib.sha256).hexdigest())
    return replace(request, headers=headers)
