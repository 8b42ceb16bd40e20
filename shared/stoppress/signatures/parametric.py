"""Verifies every scheme that is an HMAC over a template of body, time and headers."""

import base64
import hashlib
import hmac
from dataclasses import replace
from datetime import datetime, timedelta
from itertools import product

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import ENCODINGS, KEYS, PLACEHOLDER, Hmac
from stoppress.signatures.verify import BadSecret, BadSignature, any_equal, check_time, header_bytes, header_of


def verify(scheme: Hmac, request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """Verifies a request by an HMAC scheme. Raises BadSignature and BadSecret."""
    text, given = read(scheme, request, now, tolerance)
    if not any_equal([sign(scheme, key, text) for key in keys(scheme, secrets)], given):
        raise BadSignature(f"{scheme.header} does not match: {_mistake(scheme, secrets, text, given)}{scheme.how}")


def _mistake(scheme: Hmac, secrets: list[str], text: bytes, given: list[str]) -> str:
    """The sender's mistake: a missing prefix, or another encoding of the secret or of the signature. Empty if it is not recognised.

    Only a sender that has the secret learns of an encoding: without the secret no encoding gives the sender's signature.
    """
    if not given:
        return f"it has no signature that begins with {scheme.prefix}; "
    for key, prefix, encoding in product(KEYS, dict.fromkeys(("", scheme.key_prefix)), ENCODINGS):
        other = replace(scheme, key=key, key_prefix=prefix, encoding=encoding)
        try:
            signatures = [sign(other, usable, text) for usable in keys(other, secrets)]
        except BadSecret:
            continue
        if any_equal(signatures, given):
            how_read = "the secret's characters as they are" if key == "text" else f"the secret read as {key}"
            wrong_key = f"the key was {how_read}; " if (key, prefix) != (scheme.key, scheme.key_prefix) else ""
            wrong_encoding = f"the signature is written in {encoding}, not in {scheme.encoding}; "
            return wrong_key + (wrong_encoding if encoding != scheme.encoding else "")
    return ""


def read(scheme: Hmac, request: Request, now: datetime, tolerance: timedelta) -> tuple[bytes, list[str]]:
    """The bytes that the sender has to sign, and the signatures it gave. Raises BadSignature."""
    for name in scheme.headers_needed:
        header_of(request, name, scheme.how)
    items = _items(scheme, request.headers[scheme.header])
    time = _time(scheme, request, items)
    if time is not None:
        check_time(scheme.time_header or f"the time in {scheme.header}", time, scheme.unit, now, tolerance)
    given = [item[len(scheme.prefix) :] for item in items if item.startswith(scheme.prefix)]
    return message(scheme, request, time or ""), given


def _items(scheme: Hmac, value: str) -> list[str]:
    if not scheme.separator:
        return [value.strip()]
    return (value.replace(",", " ") if scheme.separator == "," else value).split()


def _time(scheme: Hmac, request: Request, items: list[str]) -> str | None:
    if scheme.time_header:
        return request.headers[scheme.time_header].strip()
    if not scheme.time:
        return None
    times = [item[len(scheme.time) :] for item in items if item.startswith(scheme.time)]
    if len(times) != 1:
        raise BadSignature(f"{scheme.header} has to give one time, as {scheme.time}<number>: {scheme.how}")
    return times[0]


def message(scheme: Hmac, request: Request, time: str) -> bytes:
    """The bytes that are signed: the template with its placeholders filled."""
    values = {"body": request.body, "t": header_bytes(time)}
    # The names of the placeholders are at the odd positions, the text between them at the even ones.
    parts = PLACEHOLDER.split(scheme.signed)
    return b"".join(
        part.encode()
        if number % 2 == 0
        else values[part]
        if part in values
        else header_bytes(request.headers[part].strip())
        for number, part in enumerate(parts)
    )


def sign(scheme: Hmac, key: bytes, text: bytes) -> str:
    """The signature as the header has it, without its prefix."""
    digest = hmac.new(key, text, getattr(hashlib, scheme.digest)).digest()
    match scheme.encoding:
        case "hex":
            return digest.hex()
        case "base64url":
            return base64.urlsafe_b64encode(digest).decode().rstrip("=")
    return base64.b64encode(digest).decode()


def keys(scheme: Hmac, secrets: list[str]) -> list[bytes]:
    """The keys of those secrets that can be used. Raises BadSecret where none can."""
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
