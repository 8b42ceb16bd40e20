"""Verifies who posted a webhook: signatures and tokens, over the raw bytes and in constant time (R11.3).

The source in the request's path decides which scheme applies, never a header. `parametric` verifies an HMAC over a
template. Other schemes have functions in `canonical` and `tokens`, which are imported only when a source needs them.
"""

import hmac
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from functools import partial
from typing import TypeAlias

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import NAMED, NONE, PRESETS, Hmac, Scheme, check

# Standard Webhooks: a delivery whose timestamp is further from now is refused.
TOLERANCE = timedelta(minutes=5)
# A day. If a time is this near to now when it is read in the other unit (s or ms), the sender used the other unit.
OTHER_UNIT_MS_MAX = 86_400_000


class BadSignature(ValueError):
    """A request that is not signed with the secret, or not recently; the text says what the sender must change."""


class NotSigned(BadSignature):
    """A request without a signature or token, as anyone may send it."""


class BadSecret(ValueError):
    """A secret that its scheme cannot use: our configuration is at fault, not the sender."""


Verifier: TypeAlias = Callable[[Request, list[str], datetime, timedelta], None]


def verify(
    scheme: Scheme, request: Request, secrets: Iterable[str], now: datetime, tolerance: timedelta = TOLERANCE
) -> None:
    """Checks that one of the secrets signed the request and, if the scheme has a time, that the time is near to `now`.

    Several secrets are valid at once while a secret is rotated. Empty secrets are ignored. Raises BadSignature,
    BadScheme, and BadSecret if no secret can be used.
    """
    usable = [secret for secret in secrets if secret.strip()]
    if not usable:
        raise BadSecret("the secret is empty")
    _verifier(scheme)(request, usable, now, tolerance)


def check_headers(scheme: Scheme, request: Request) -> None:
    """Raises NotSigned if the request lacks a header that a parametric scheme needs. Raises BadScheme too. Needs no secret."""
    check(scheme)
    if scheme == NONE or (isinstance(scheme, str) and scheme in NAMED):
        return
    parameters = _parameters(scheme)
    for name in parameters.headers_needed:
        header_of(request, name, parameters.how)


def _verifier(scheme: Scheme) -> Verifier:
    check(scheme)
    if scheme == NONE:
        raise NotSigned("nothing can be posted to this source: put its events on the bus")
    if isinstance(scheme, str) and scheme in NAMED:
        from importlib import import_module

        verifier: Verifier = import_module(f"stoppress.signatures.{NAMED[scheme]}").VERIFIERS[scheme]
        return verifier
    from stoppress.signatures import parametric

    return partial(parametric.verify, _parameters(scheme))


def _parameters(scheme: Scheme) -> Hmac:
    return PRESETS[scheme] if isinstance(scheme, str) else Hmac.of(scheme)


def header_of(request: Request, name: str, how: str) -> str:
    """A header's value without surrounding white space. Raises NotSigned, with the advice `how`, where it is missing."""
    value = request.headers.get(name, "").strip()
    if not value:
        raise NotSigned(f"the header {name} is missing: {how}")
    return value


def check_time(name: str, text: str, unit: str, now: datetime, tolerance: timedelta) -> None:
    """Raises BadSignature unless a timestamp, in `s` or `ms` since 1970, is near to now. `name` is its place in the request."""
    # No time has more than 15 digits in either unit, and Python reads thousands of digits slowly.
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise BadSignature(f"{name} is not a number of {'seconds' if unit == 's' else 'milliseconds'} since 1970")
    now_ms = round(now.timestamp() * 1_000)
    away_ms = abs(now_ms - int(text) * (1_000 if unit == "s" else 1))
    if away_ms > tolerance.total_seconds() * 1_000:
        wrong, right, factor = ("milliseconds", "seconds", 1) if unit == "s" else ("seconds", "milliseconds", 1_000)
        if abs(now_ms - int(text) * factor) < OTHER_UNIT_MS_MAX:
            raise BadSignature(f"{name} is in {wrong} since 1970: give and sign it in {right}")
        raise BadSignature(
            f"{name} is {away_ms / 1_000:.0f} s away from now, at most {tolerance.total_seconds():.0f} are accepted:"
            " set the sender's clock, and sign each attempt anew"
        )


def any_equal(expected: Iterable[str], given: Iterable[str]) -> bool:
    """Whether a given text equals an expected one. Compares every pair in constant time, so that timing reveals nothing."""
    texts = [header_bytes(text) for text in given]
    matches = [hmac.compare_digest(header_bytes(right), text) for right in expected for text in texts]
    return any(matches)


def header_bytes(text: str) -> bytes:
    """A header's value as bytes to sign and compare. Encodes lone surrogates too, so no sender can cause an error."""
    return text.encode(errors="surrogatepass")
