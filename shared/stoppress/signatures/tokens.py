"""For senders that cannot sign: a long secret in each request, which only TLS protects.

A token does not cover the content or the time: whoever has seen one request can make others.
"""

import base64
import json
from datetime import datetime, timedelta
from urllib.parse import unquote, unquote_plus

from stoppress.model.http_request import Request
from stoppress.signatures.verify import BadSecret, NotSigned, Proof, Prover, header_bytes


def bearer(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """`Authorization: Bearer <secret>`, or `?access_token=<secret>`.

    The parameter is in RFC 6750 and the HTTP webhooks of CloudEvents, for senders that cannot set a header.
    """
    given = _credentials(request, "bearer") or _parameter(request, "access_token")
    return secrets, given, "Authorization does not match: have the sender set it to 'Bearer ' and this source's secret"


def token(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """`?token=<secret>` in the URL that the sender posts to."""
    how = "the token does not match: end the URL given to the sender with ?token= and this source's secret"
    return secrets, _parameter(request, "token"), how


def basic(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """`Authorization: Basic …` with a secret of the form user:password. Raises BadSecret."""
    expected = [base64.b64encode(header_bytes(secret)).decode() for secret in secrets if ":" in secret]
    if not expected:
        raise BadSecret("the secret is not of the form user:password")
    how = "Authorization does not match: give the sender the user and the password of this source's secret"
    return expected, _credentials(request, "basic"), how


def body_secret(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """`{"secret": …}` in a JSON body, as Prismic sends it. Raises NotSigned."""
    try:
        document = json.loads(request.body)
    except (ValueError, RecursionError):
        raise NotSigned('the body is not JSON with a "secret" in it') from None
    given = document.get("secret") if isinstance(document, dict) else None
    how = '"secret" in the body does not match: give the sender the secret of this source'
    return secrets, [given] if isinstance(given, str) else [], how


def _credentials(request: Request, scheme: str) -> list[str]:
    name, _, value = request.headers.get("authorization", "").strip().partition(" ")
    return [value.strip()] if name.lower() == scheme else []


def _parameter(request: Request, name: str) -> list[str]:
    """Return the value of a query parameter, decoded with + as itself and with + as a space.

    People paste a secret with a + into a URL without escaping it. The list is empty if the parameter is missing or
    repeated: nothing says which of two counts.
    """
    pairs = [part.partition("=") for part in request.query.split("&")]
    values = [value for key, _, value in pairs if unquote_plus(key) == name]
    return [unquote(values[0]), unquote_plus(values[0])] if len(values) == 1 else []


PROVERS: dict[str, Prover] = {
    "bearer": bearer, "token": token, "query-token": token, "basic": basic, "body-secret": body_secret,
}  # fmt: skip
