"""For senders that cannot sign: a long secret in each request, which only TLS protects.

A token does not cover the content or the time: whoever has seen one request can make others.
"""

import base64
import json
from collections.abc import Iterable
from datetime import datetime, timedelta
from urllib.parse import unquote, unquote_plus

from stoppress.model.http_request import Request
from stoppress.signatures.verify import BadSecret, BadSignature, NotSigned, Verifier, any_equal, header_bytes


def bearer(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """`Authorization: Bearer <secret>`, or `?access_token=<secret>`. Raises BadSignature.

    The parameter is in RFC 6750 and the HTTP webhooks of CloudEvents, for senders that cannot set a header.
    """
    given = _credentials(request, "bearer") or _parameter(request, "access_token")
    _check(secrets, given, "Authorization does not match: have the sender set it to 'Bearer ' and this source's secret")


def token(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """`?token=<secret>` in the URL that the sender posts to. Raises BadSignature."""
    how = "the token does not match: end the URL given to the sender with ?token= and this source's secret"
    _check(secrets, _parameter(request, "token"), how)


def basic(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """`Authorization: Basic …` with a secret of the form user:password. Raises BadSignature and BadSecret."""
    pairs = [secret for secret in secrets if ":" in secret]
    if not pairs:
        raise BadSecret("the secret is not of the form user:password")
    expected = [base64.b64encode(header_bytes(pair)).decode() for pair in pairs]
    how = "Authorization does not match: give the sender the user and the password of this source's secret"
    _check(expected, _credentials(request, "basic"), how)


def body_secret(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """`{"secret": …}` in a JSON body, as Prismic sends it. Raises BadSignature."""
    try:
        document = json.loads(request.body)
    except (ValueError, RecursionError):
        raise NotSigned('the body is not JSON with a "secret" in it') from None
    given = document.get("secret") if isinstance(document, dict) else None
    how = '"secret" in the body does not match: give the sender the secret of this source'
    _check(secrets, [given] if isinstance(given, str) else [], how)


def _check(expected: Iterable[str], given: list[str], how: str) -> None:
    """Raises BadSignature with the text `how` unless a given token is an expected one, and NotSigned if no token is given."""
    if not any_equal(expected, given):
        raise (BadSignature if any(given) else NotSigned)(how)


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


VERIFIERS: dict[str, Verifier] = {
    "bearer": bearer,
    "token": token,
    "query-token": token,
    "basic": basic,
    "body-secret": body_secret,
}
