"""Who posted a webhook: signatures and tokens, over the raw bytes and in constant time (R11.3).

Which scheme holds is said by the source that the request's path names, never by a header. The parametric scheme is in
`parametric`, its presets in `presets`; what is more than an HMAC over a template is a function of a module of its own,
loaded only where a source needs it.
"""

import hmac
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, TypeAlias

# Standard Webhooks: a delivery is refused where its timestamp is further away than this.
TOLERANCE = timedelta(minutes=5)
# A day. What a CMS still repeats later than that it has to sign anew, since so can whoever has overheard it.
TOLERANCE_S_MAX = 86_400

# A day. A time that is so near to now in the other unit is in that unit.
OTHER_UNIT_MS_MAX = 86_400_000

# The name of a scheme, or a table that describes one as `presets` do.
Scheme: TypeAlias = str | Mapping[str, Any]


class BadSignature(ValueError):
    """A delivery that nobody with the secret has signed, or not now; the text says what to change."""


class BadSecret(ValueError):
    """A secret that cannot be used with its scheme: our own configuration is at fault, not the sender."""


class BadScheme(ValueError):
    """A scheme that is not known, or cannot be used here: our own configuration is at fault as well."""


@dataclass(frozen=True, slots=True)
class Request:
    """What was posted: headers with names in small letters, the raw bytes, path and query as they came."""

    headers: Mapping[str, str]
    body: bytes
    method: str = "POST"
    path: str = ""
    query: str = ""

    def header(self, name: str, how: str) -> str:
        """A header's value without the white space around it. Raises BadSignature where there is none."""
        value = self.headers.get(name, "").strip()
        if not value:
            raise BadSignature(f"the header {name} is missing: {how}")
        return value


Verifier: TypeAlias = Callable[[Request, list[str], datetime, timedelta], None]

# What is more than an HMAC over a template, by the module that knows it.
NAMED = {
    "contentful": "canonical",
    "hygraph": "canonical",
    "kontent": "canonical",
    "bearer": "tokens",
    "token": "tokens",
    "query-token": "tokens",
    "basic": "tokens",
    "body-secret": "tokens",
    "contentstack-rsa": "asymmetric",
    "ed25519": "asymmetric",
}
# Nothing can be posted: what comes has been let in by IAM, on the bus.
NONE = "none"


def names() -> list[str]:
    """Every scheme that a source may name."""
    from stoppress.signatures.presets import PRESETS

    return sorted({*PRESETS, *NAMED, NONE})


def verify(
    scheme: Scheme, request: Request, secrets: Iterable[str], now: datetime, tolerance: timedelta = TOLERANCE
) -> None:
    """Returns where the request is from somebody who has one of the secrets, and of now where the scheme has a time.

    Several secrets are good at once, so that one can be rotated; an empty one never is. Raises BadSignature; BadSecret
    where no secret can be used; BadScheme.
    """
    usable = [secret for secret in secrets if secret.strip()]
    if not usable:
        raise BadSecret("the secret is empty")
    _verifier(scheme)(request, usable, now, tolerance)


def check(scheme: object) -> None:
    """Raises BadScheme for what is neither the name of a scheme nor a table that describes one."""
    if not isinstance(scheme, str | Mapping):
        raise BadScheme("signature: give the name of a scheme, or a table that describes one")
    if scheme != NONE:
        _verifier(scheme)


def check_settings(settings: Mapping[str, Any]) -> None:
    """The settings of a source that are about its signature. Raises BadScheme."""
    if "signature" in settings:
        check(settings["signature"])
    said = settings.get("tolerance_s", 1)
    if isinstance(said, bool) or not isinstance(said, int | float) or not 0 < said <= TOLERANCE_S_MAX:
        raise BadScheme(f"tolerance_s: give a number of seconds, at most {TOLERANCE_S_MAX}")
    path = settings.get("signed_path", "/")
    if not isinstance(path, str) or not path.startswith("/"):
        raise BadScheme("signed_path: give the path that the sender posts to, beginning with /")


def _verifier(scheme: Scheme) -> Verifier:
    if scheme == NONE:
        raise BadSignature("nothing can be posted to this source: put its events on the bus")
    if isinstance(scheme, str) and scheme in NAMED:
        from importlib import import_module

        module = import_module(f"stoppress.signatures.{NAMED[scheme]}")
        verifier: Verifier = module.VERIFIERS[scheme]
        return verifier
    from stoppress.signatures.parametric import Hmac
    from stoppress.signatures.presets import PRESETS

    if not isinstance(scheme, str):
        return Hmac.of(scheme).verify
    if scheme not in PRESETS:
        raise BadScheme(f"the signature {scheme[:80]!r} is not known: give one of {', '.join(names())}")
    return PRESETS[scheme].verify


def of_now(what: str, text: str, unit: str, now: datetime, tolerance: timedelta) -> None:
    """Whether a timestamp, in `s` or `ms` since 1970, is near enough to now. Raises BadSignature."""
    # More digits than 15 are no time in either unit, and a number of thousands of them is slow to read.
    if not (text.isascii() and text.isdigit() and len(text) <= 15):
        raise BadSignature(f"{what} is not a number of {'seconds' if unit == 's' else 'milliseconds'} since 1970")
    away_ms = abs(round(now.timestamp() * 1_000) - int(text) * (1_000 if unit == "s" else 1))
    if away_ms > tolerance.total_seconds() * 1_000:
        wrong, right, factor = ("milliseconds", "seconds", 1) if unit == "s" else ("seconds", "milliseconds", 1_000)
        if abs(round(now.timestamp() * 1_000) - int(text) * factor) < OTHER_UNIT_MS_MAX:
            raise BadSignature(f"{what} is in {wrong} since 1970: give and sign it in {right}")
        raise BadSignature(
            f"{what} is {away_ms / 1_000:.0f} s away from now, at most {tolerance.total_seconds():.0f} are accepted:"
            " set the sender's clock, and sign each attempt anew"
        )


def any_equal(expected: Iterable[str], given: Iterable[str]) -> bool:
    """Whether one of the texts that would be right was given.

    All pairs are compared, each in constant time: how long it takes says nothing of what would have been right.
    """
    texts = [header_bytes(text) for text in given]
    matches = [hmac.compare_digest(header_bytes(right), text) for right in expected for text in texts]
    return any(matches)


def header_bytes(text: str) -> bytes:
    """A header's value as it is signed and compared; nothing that a sender writes there can fail to be encoded."""
    return text.encode(errors="surrogatepass")
