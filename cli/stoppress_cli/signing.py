"""Signs a scenario's webhooks as the adapter of their source demands."""

import base64
import hashlib
import hmac
from collections.abc import Callable, Mapping
from datetime import datetime

from stoppress_cli.gateway import Request

SECRET_PREFIX = "whsec_"


def standard(secret: str, headers: Mapping[str, str], body: bytes, message_id: str, now: datetime) -> dict[str, str]:
    """Headers of Standard Webhooks 1.0; an id or timestamp that `headers` has is kept and signed.

    `secret` may hold several, parted by spaces: the first one signs.
    """
    message_id = headers.get("webhook-id", message_id)
    timestamp = headers.get("webhook-timestamp", str(int(now.timestamp())))
    first = (secret.split() or [""])[0].removeprefix(SECRET_PREFIX)
    key = base64.b64decode(first + "=" * (-len(first) % 4))
    signed = f"{message_id}.{timestamp}.".encode() + body
    signature = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
    return {"webhook-id": message_id, "webhook-timestamp": timestamp, "webhook-signature": f"v1,{signature}"}


Signer = Callable[[str, Mapping[str, str], bytes, str, datetime], dict[str, str]]

SIGNERS: dict[str, Signer] = {"standard": standard}


def signed(request: Request, adapter: str, secret: str, message_id: str, now: datetime) -> Request:
    """The request with the headers of its adapter's signature; headers it has already win.

    Raises ValueError for an adapter without a signer, or a secret that is not base64.
    """
    if adapter not in SIGNERS:
        raise ValueError(f"`sign` does not know the adapter {adapter!r}; it knows {', '.join(SIGNERS)}")
    headers = SIGNERS[adapter](secret, request.headers, request.body, message_id, now)
    return Request(request.method, request.path, request.query, {**headers, **request.headers}, request.body)
