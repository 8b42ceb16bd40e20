"""Signatures of webhooks, over the raw bytes and in constant time. Standard Webhooks 1.0 (R11.3)."""

import base64
import hashlib
import hmac
from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta

# Standard Webhooks: a delivery is refused where its timestamp is further away than this.
TOLERANCE = timedelta(minutes=5)


class BadSignature(ValueError):
    """A delivery that nobody with the secret has signed, or not now; the text says what to change."""


class BadSecret(ValueError):
    """A secret that is not base64: our own configuration is at fault, not the sender."""


def verify_standard(headers: Mapping[str, str], body: bytes, secrets: Iterable[str], now: datetime) -> None:
    """Check `webhook-id`, `webhook-timestamp` and `webhook-signature` (header names in small letters).

    The timestamp is part of what is signed, so that an old delivery cannot be sent again for ever. One of several
    secrets is enough, so that one can be rotated. Raises BadSignature and BadSecret.
    """
    for name in ("webhook-id", "webhook-timestamp", "webhook-signature"):
        if not headers.get(name):
            raise BadSignature(f"the header {name} is missing: sign as Standard Webhooks 1.0 says")
    try:
        sent_at = datetime.fromtimestamp(int(headers["webhook-timestamp"]), UTC)
    except (ValueError, OverflowError, OSError):
        raise BadSignature("webhook-timestamp is not a number of seconds since 1970") from None
    if abs(now - sent_at) > TOLERANCE:
        raise BadSignature(
            f"webhook-timestamp is {abs(now - sent_at).total_seconds():.0f} s away from now, at most"
            f" {TOLERANCE.total_seconds():.0f} are accepted: set the sender's clock, and sign each attempt anew"
        )
    # Half a character in a header is the sender's fault too.
    signed = b".".join((_bytes(headers["webhook-id"]), _bytes(headers["webhook-timestamp"]), body))
    given = [part[3:] for part in headers["webhook-signature"].split() if part.startswith("v1,")]
    matches = [
        hmac.compare_digest(expected.encode(), _bytes(signature))
        for expected in _standard_signatures(secrets, signed)
        for signature in given
    ]
    if not any(matches):
        raise BadSignature(
            "webhook-signature does not match: sign '<webhook-id>.<webhook-timestamp>.<body>' with HMAC-SHA256,"
            " the key being the secret base64-decoded without its whsec_, over the very bytes of the body"
        )


def _bytes(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


def _standard_signatures(secrets: Iterable[str], signed: bytes) -> list[str]:
    """What each secret makes of it. One that cannot be used must not stop the others; raises BadSecret where none can."""
    signatures, faults = [], []
    for secret in secrets:
        try:
            signatures.append(_standard_signature(secret, signed))
        except BadSecret as error:
            faults.append(error)
    if faults and not signatures:
        raise faults[0]
    return signatures


def _standard_signature(secret: str, signed: bytes) -> str:
    encoded = secret.removeprefix("whsec_")
    try:
        key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
    except ValueError:  # binascii's, or a character outside ASCII
        raise BadSecret("the secret is not base64: make it of whsec_ and base64, 24 to 64 bytes of it") from None
    if not key:
        raise BadSecret("the secret is empty")
    return base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
