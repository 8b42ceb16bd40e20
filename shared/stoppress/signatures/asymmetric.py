"""Signatures with a public key: Contentstack's, and Ed25519 of Standard Webhooks. They need the library cryptography.

It is not in the layer: zipped it is 5 MB beside 7, for two senders of which both can do otherwise as well. Where it is
wanted, shared/requirements.txt gets its lines (docs/reference/webhook.md).
"""

import base64
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from stoppress.signatures.presets import PRESETS
from stoppress.signatures.verify import BadScheme, BadSecret, BadSignature, Request, Verifier

CONTENTSTACK = "x-contentstack-request-signature"
_CONTENTSTACK_KEY = "turn signed webhooks on, and give this source Contentstack's public key as its secret"
_STANDARD_KEY = "sign as Standard Webhooks 1.0 says for v1a, with the key whose public half is this source's secret"

# Standard Webhooks: v1a is Ed25519 over the same content as v1, its public keys begin with whpk_.
STANDARD = replace(PRESETS["standard"], prefix="v1a,", key_prefix="whpk_", how=_STANDARD_KEY)


def contentstack(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """RSASSA-PSS with SHA-256 over the body; there is no time in it. Raises BadSignature, BadSecret, BadScheme."""
    first = request.header(CONTENTSTACK, _CONTENTSTACK_KEY).partition(",")[0]
    version, _, signature = first.partition("=")
    if version != "v1":
        raise BadSignature(f"{CONTENTSTACK} is not of the form v1=…: {_CONTENTSTACK_KEY}")
    _any_verifies([_rsa(secret) for secret in secrets], [signature], request.body, CONTENTSTACK, _CONTENTSTACK_KEY)


def ed25519(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """Ed25519 of Standard Webhooks 1.0. Raises BadSignature, BadSecret, BadScheme."""
    message, given = STANDARD.read(request, now, tolerance)
    _any_verifies([_ed25519(key) for key in STANDARD.keys(secrets)], given, message, STANDARD.header, _STANDARD_KEY)


Check = Callable[[bytes, bytes], None]


def _any_verifies(checks: list[Check], given: list[str], message: bytes, header: str, how: str) -> None:
    invalid = _cryptography("exceptions").InvalidSignature
    for text in given:
        try:
            signature = base64.b64decode(text, validate=True)
        except ValueError:
            continue
        for check in checks:
            try:
                check(signature, message)
            except invalid:
                continue
            return
    raise BadSignature(f"{header} does not match: {how}")


def _rsa(secret: str) -> Check:
    serialization = _cryptography("hazmat.primitives.serialization")
    padding = _cryptography("hazmat.primitives.asymmetric.padding")
    hashes = _cryptography("hazmat.primitives.hashes")
    rsa = _cryptography("hazmat.primitives.asymmetric.rsa")
    try:
        if "-----BEGIN" in secret:
            key = serialization.load_pem_public_key(secret.encode())
        else:
            key = serialization.load_der_public_key(base64.b64decode(secret, validate=True))
    except ValueError:
        raise BadSecret("the secret is no public key: give what stands between the BEGIN and END of its PEM") from None
    if not isinstance(key, rsa.RSAPublicKey):
        raise BadSecret("the secret is no RSA public key")
    pss = padding.PSS(mgf=padding.MGF1(hashes.SHA256()), salt_length=padding.PSS.AUTO)
    return lambda signature, message: key.verify(signature, message, pss, hashes.SHA256())


def _ed25519(key: bytes) -> Check:
    ed = _cryptography("hazmat.primitives.asymmetric.ed25519")
    try:
        verify: Check = ed.Ed25519PublicKey.from_public_bytes(key).verify
    except ValueError:
        raise BadSecret("the secret is no Ed25519 public key: give whpk_ and base64 of its 32 bytes") from None
    return verify


def _cryptography(name: str) -> Any:
    from importlib import import_module

    try:
        return import_module(f"cryptography.{name}")
    except ImportError:
        raise BadScheme(
            "signatures with a public key need the library cryptography: add it to shared/requirements.txt and build again"
        ) from None


VERIFIERS: dict[str, Verifier] = {"contentstack-rsa": contentstack, "ed25519": ed25519}
