"""Verify the sender of a webhook: signatures and tokens, over the raw bytes and in constant time (R11.3).

The source in the request's path decides which scheme applies, never a header. This module verifies an HMAC over a template
of body, time and headers. Other schemes have functions in `canonical`, which is imported only when a source needs it.
"""

import base64
import hashlib
import hmac
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product
from typing import TypeAlias

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import ENCODINGS, KEYS, NONE, PLACEHOLDER, Hmac, Scheme, read_scheme

# Standard Webhooks: a delivery whose timestamp is further from now is refused.
TOLERANCE = timedelta(minutes=5)
# A day. If a time is this near to now when it is read in the other unit (s or ms), the sender used the other unit.
OTHER_UNIT_MS_MAX = 86_400_000


class BadSignature(ValueError):
    """A request that is not signed with the secret, or not recently; the text contains what the sender must change."""


class NotSigned(BadSignature):
    """A request without a signature or token, as anyone may send it."""


class BadSecret(ValueError):
    """A secret that its scheme cannot use: the site's configuration is at fault, not the sender."""


# A scheme's result for a request: the accepted signatures or tokens, those of the request, and the advice if they differ.
Proof: TypeAlias = tuple[Iterable[str], list[str], str]
Prover: TypeAlias = Callable[[Request, list[str], datetime, timedelta], Proof]


def verify(
    scheme: Scheme, request: Request, secrets: Iterable[str], now: datetime, tolerance: timedelta = TOLERANCE
) -> None:
    """Check that one of the secrets signed the request and, if the scheme has a time, that the time is near to `now`.

    Several secrets are valid during a rotation. Empty secrets are ignored. Raises BadSignature,
    BadScheme, and BadSecret if no secret can be used.
    """
    usable = [secret for secret in secrets if secret.strip()]
    if not usable:
        raise BadSecret("the secret is empty")
    parsed = read_scheme(scheme)
    if isinstance(parsed, Hmac):
        text, signatures = read(parsed, request, now, tolerance)
        if not any_equal([sign(parsed, key, text) for key in keys(parsed, usable)], signatures):
            mistake = _sender_mistake(parsed, usable, text, signatures)
            raise BadSignature(f"{parsed.header} does not match: {mistake}{parsed.how}")
        return
    if parsed == NONE:
        raise NotSigned("nothing can be posted to this source: put its events on the bus")
    from stoppress.signatures.canonical import PROVERS  # only a source with such a scheme needs it

    expected, signatures, how = PROVERS[parsed](request, usable, now, tolerance)
    if not any_equal(expected, signatures):
        raise (BadSignature if any(signatures) else NotSigned)(how)


def check_headers(scheme: Scheme, request: Request) -> None:
    """Raise NotSigned if the request lacks a header that an HMAC scheme needs. Raises BadScheme too. Needs no secret."""
    parsed = read_scheme(scheme)
    if isinstance(parsed, Hmac):
        for name in parsed.headers_needed:
            header_of(request, name, parsed.how)


def _sender_mistake(scheme: Hmac, secrets: list[str], text: bytes, signatures: list[str]) -> str:
    """Return the sender's mistake: a missing prefix, or another encoding of the secret or of the signature. Empty if it is not recognized.

    Only a sender that has the secret learns of an encoding: without the secret no encoding results in the sender's signature.
    """
    if not signatures:
        return f"it has no signature that begins with {scheme.prefix}; "
    for key, prefix, encoding in product(KEYS, dict.fromkeys(("", scheme.key_prefix)), ENCODINGS):
        other = replace(scheme, key=key, key_prefix=prefix, encoding=encoding)
        try:
            computed = [sign(other, usable, text) for usable in keys(other, secrets)]
        except BadSecret:
            continue
        if any_equal(computed, signatures):
            how_read = "the secret's characters as they are" if key == "text" else f"the secret read as {key}"
            wrong_key = f"the key was {how_read}; " if (key, prefix) != (scheme.key, scheme.key_prefix) else ""
            wrong_encoding = f"the signature is written in {encoding}, not in {scheme.encoding}; "
            return wrong_key + (wrong_encoding if encoding != scheme.encoding else "")
    return ""


def read(scheme: Hmac, request: Request, now: datetime, tolerance: timedelta) -> tuple[bytes, list[str]]:
    """Return the bytes that the sender has to sign, and the signatures it gave. Raises BadSignature."""
    for name in scheme.headers_needed:
        header_of(request, name, scheme.how)
    value = request.headers[scheme.header]
    items = (
        (value.replace(",", " ") if scheme.separator == "," else value).split() if scheme.separator else [value.strip()]
    )
    times = [item[len(scheme.time) :] for item in items if scheme.time and item.startswith(scheme.time)]
    if scheme.time_header:
        times = [request.headers[scheme.time_header].strip()]
    elif scheme.time and len(times) != 1:
        raise BadSignature(f"{scheme.header} has to give one time, as {scheme.time}<number>: {scheme.how}")
    for time in times:
        check_time(scheme.time_header or f"the time in {scheme.header}", time, scheme.unit, now, tolerance)
    signatures = [item[len(scheme.prefix) :] for item in items if item.startswith(scheme.prefix)]
    return message(scheme, request, "".join(times)), signatures


def message(scheme: Hmac, request: Request, time: str) -> bytes:
    """Return the bytes that are signed: the template with its placeholders filled."""
    values = {"body": request.body, "t": header_bytes(time)}
    # The names of the placeholders are at the odd positions, the text between them at the even ones.
    parts: list[bytes] = [part.encode() for part in PLACEHOLDER.split(scheme.signed)]
    for number, name in enumerate(PLACEHOLDER.findall(scheme.signed)):
        parts[2 * number + 1] = values[name] if name in values else header_bytes(request.headers[name].strip())
    return b"".join(parts)


def sign(scheme: Hmac, key: bytes, text: bytes) -> str:
    """Return the signature as the header has it, without its prefix."""
    digest = hmac.new(key, text, getattr(hashlib, scheme.digest)).digest()
    match scheme.encoding:
        case "hex":
            return digest.hex()
        case "base64url":
            return base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return base64.b64encode(digest).decode()


def keys(scheme: Hmac, secrets: list[str]) -> list[bytes]:
    """Return the keys of those secrets that can be used. Raises BadSecret where none can."""
    usable, faults = [], []
    for secret in secrets:
        try:
            usable.append(_key(scheme, secret))
        except BadSecret as error:
            faults.append(error)
    if not usable:
        raise faults[0]
    return usable


def _key(scheme: Hmac, secret: str) -> bytes:
    encoded = secret.removeprefix(scheme.key_prefix)
    try:
        match scheme.key:
            case "base64":
                key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
            case "hex":
                key = bytes.fromhex(encoded)
            case _:
                key = header_bytes(encoded)
    except ValueError:  # binascii.Error, or a character outside ASCII
        example = f"{scheme.key_prefix}<24 to 64 bytes in base64>" if scheme.key == "base64" else "hex digits"
        raise BadSecret(f"the secret is not {scheme.key}: make it {example}") from None
    if not key:
        raise BadSecret("the secret is empty")
    return key


def header_of(request: Request, name: str, how: str) -> str:
    """Return a header's value without surrounding white space. Raises NotSigned, with the advice `how`, where it is missing."""
    value = request.headers.get(name, "").strip()
    if not value:
        raise NotSigned(f"the header {name} is missing: {how}")
    return value


def check_time(name: str, text: str, unit: str, now: datetime, tolerance: timedelta) -> None:
    """Raise BadSignature unless a timestamp, in `s` or `ms` since 1970, is near to now. `name` is its place in the request."""
    # No time has more than 15 digits in either unit, and Python reads thousands of digits slowly.
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise BadSignature(f"{name} is not a number of {'seconds' if unit == 's' else 'milliseconds'} since 1970")
    now_ms = round(now.timestamp() * 1_000)
    difference_ms = abs(now_ms - int(text) * (1_000 if unit == "s" else 1))
    if difference_ms > tolerance.total_seconds() * 1_000:
        wrong, right, factor = ("milliseconds", "seconds", 1) if unit == "s" else ("seconds", "milliseconds", 1_000)
        if abs(now_ms - int(text) * factor) < OTHER_UNIT_MS_MAX:
            raise BadSignature(f"{name} is in {wrong} since 1970: give and sign it in {right}")
        raise BadSignature(
            f"{name} is {difference_ms / 1_000:.0f} s away from now, at most {tolerance.total_seconds():.0f} are accepted:"
            " set the sender's clock, and sign each attempt again"
        )


def any_equal(expected: Iterable[str], candidates: Iterable[str]) -> bool:
    """Return True if a given text equals an expected one. Compares every pair in constant time, so that timing reveals nothing."""
    texts = [header_bytes(text) for text in candidates]
    matches = [hmac.compare_digest(header_bytes(right), text) for right in expected for text in texts]
    return any(matches)


def header_bytes(text: str) -> bytes:
    """Return a header's value as bytes to sign and compare. Encodes lone surrogates too, so no sender can cause an error."""
    return text.encode(errors="surrogatepass")
