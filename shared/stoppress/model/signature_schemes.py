"""Signature schemes as data: the schemes that a source may name, and the fields that describe any other HMAC.

`stoppress.signatures` verifies requests with these schemes. Each preset follows the vendor's documentation or code.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

# The name of a scheme, or a table with the fields of `Hmac`.
Scheme: TypeAlias = str | Mapping[str, Any]

# A day. Anyone who overhears a request can repeat it for as long as the tolerance lasts.
TOLERANCE_S_MAX = 86_400

DIGESTS = ("sha1", "sha256", "sha384", "sha512")
ENCODINGS = ("hex", "base64", "base64url")
UNITS = ("s", "ms")
KEYS = ("text", "base64", "hex")

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")

_SAME = "give the sender the secret of this source, the very same characters"


class BadScheme(ValueError):
    """A signature setting that cannot be used: the configuration is at fault. `setting` is its name."""

    def __init__(self, setting: str, reason: str) -> None:
        super().__init__(f"{setting}: {reason}")
        self.setting, self.reason = setting, reason


@dataclass(frozen=True, slots=True, kw_only=True)
class Hmac:
    """An HMAC over a template of body, time and headers, sent in a header.

    `header` holds the signature, or several items. `separator` is between the items: a space, or a comma with or without
    spaces. An item that begins with `prefix` is a signature, written in `encoding`; an item that begins with `time` is
    the time. Other items are ignored. Alternatively the header `time_header` holds the time. The time counts seconds or
    milliseconds (`unit`) since 1970. `signed` is the template: {body}, {t} for the time, {a-header} for the value of another
    header. The key is the secret without `key_prefix`, as text or decoded (`key`). A signature must be spelled as we spell
    it: base64 has several spellings of one digest. `how` is the advice in errors.
    """

    header: str
    signed: str = "{body}"
    digest: str = "sha256"
    encoding: str = "hex"
    prefix: str = ""
    separator: str = ""
    time: str = ""
    time_header: str = ""
    unit: str = "s"
    key: str = "text"
    key_prefix: str = ""
    how: str = "give the sender the secret of this source, and have it sign the very bytes of the body"

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "Hmac":
        """The scheme that a mapping file or a source's settings describe. Raises BadScheme."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(map(str, table.keys() - known)):
            raise BadScheme("signature", f"{', '.join(unknown)} is not known; it takes {', '.join(sorted(known))}")
        if wrong := sorted(name for name, value in table.items() if not isinstance(value, str)):
            raise BadScheme("signature", f"{', '.join(wrong)} is no text: give it in quotation marks")
        if not table.get("header"):
            raise BadScheme("signature", "header is missing: give the name of the header that holds the signature")
        names = {name: table[name].lower() for name in ("header", "time_header") if name in table}
        if "signed" in table:
            names["signed"] = PLACEHOLDER.sub(lambda place: place[0].lower(), table["signed"])
        scheme = cls(**{**table, **names})
        scheme._check()
        return scheme

    def _check(self) -> None:
        for name, allowed in (("digest", DIGESTS), ("encoding", ENCODINGS), ("unit", UNITS), ("key", KEYS)):
            if getattr(self, name) not in allowed:
                raise BadScheme("signature", f"{name}: give one of {', '.join(allowed)}")
        if self.separator not in ("", " ", ","):
            raise BadScheme("signature", "separator: give a space, a comma, or leave it out")
        if "{body}" not in self.signed:
            raise BadScheme("signature", "signed: the template has no {body}, so that anything could be posted")
        if "{t}" in self.signed and not (self.time or self.time_header):
            raise BadScheme("signature", "signed: {t} needs a time or a time_header")

    @property
    def headers_needed(self) -> list[str]:
        """The headers that a request must have, in the order in which they are checked."""
        places = [place for place in PLACEHOLDER.findall(self.signed) if place not in ("body", "t")]
        return list(dict.fromkeys(name for name in (*places, self.time_header, self.header) if name))


PRESETS = {
    # Standard Webhooks 1.0.
    "standard": Hmac(
        header="webhook-signature",
        signed="{webhook-id}.{webhook-timestamp}.{body}",
        encoding="base64",
        prefix="v1,",
        separator=" ",
        time_header="webhook-timestamp",
        key="base64",
        key_prefix="whsec_",
        how="sign '<webhook-id>.<webhook-timestamp>.<body>' with HMAC-SHA256, the key being the secret base64-decoded"
        " without its whsec_, over the very bytes of the body (Standard Webhooks 1.0)",
    ),
    # GitHub's scheme, which others use too, such as Drupal's webhooks module.
    "github": Hmac(header="x-hub-signature-256", prefix="sha256=", how=_SAME),
    # Ghost signs the time since July 2024. Before, the time was in the header and not signed.
    "ghost": Hmac(
        header="x-ghost-signature",
        signed="{body}{t}",
        prefix="sha256=",
        separator=",",
        time="t=",
        unit="ms",
        how=f"{_SAME}; a Ghost of before July 2024 needs the signature ghost-legacy in this source's settings",
    ),
    "ghost-legacy": Hmac(header="x-ghost-signature", prefix="sha256=", separator=",", time="t=", unit="ms", how=_SAME),
    "superdesk": Hmac(header="x-superdesk-signature", digest="sha1", prefix="sha1=", how=_SAME),
    # The WordPress plugin WP Webhooks.
    "wp-webhooks": Hmac(header="x-wp-webhook-signature", encoding="base64", how=_SAME),
    "sanity": Hmac(
        header="sanity-webhook-signature",
        signed="{t}.{body}",
        encoding="base64url",
        prefix="v1=",
        separator=",",
        time="t=",
        unit="ms",
        how=_SAME,
    ),
    # Storyblok and Standard Webhooks use the same header: a header cannot tell which scheme a sender uses.
    "storyblok": Hmac(header="webhook-signature", digest="sha1", how=_SAME),
    "webflow": Hmac(
        header="x-webflow-signature", signed="{t}:{body}", time_header="x-webflow-timestamp", unit="ms", how=_SAME
    ),
    "kontent": Hmac(header="x-kontent-ai-signature", encoding="base64", how=_SAME),
    # Stripe's way to sign, under a neutral header name, for senders that a newsroom writes itself.
    "stripe-like": Hmac(
        header="x-webhook-signature", signed="{t}.{body}", prefix="v1=", separator=",", time="t=", how=_SAME
    ),
}
# Schemes that are more than an HMAC over a template, each with the module of `stoppress.signatures` that verifies it.
NAMED = {
    "contentful": "canonical",
    "hygraph": "canonical",
    "kontent": "canonical",
    "bearer": "tokens",
    "token": "tokens",
    "query-token": "tokens",
    "basic": "tokens",
    "body-secret": "tokens",
}
# Webhooks are refused. Events of such a source come over the bus, where IAM decides who may send.
NONE = "none"


def names() -> list[str]:
    """Every scheme that a source may name."""
    return sorted({*PRESETS, *NAMED, NONE})


def check(scheme: object) -> None:
    """Raises BadScheme for anything but the name of a scheme or a table that describes one."""
    if isinstance(scheme, Mapping):
        Hmac.of(scheme)
    elif not isinstance(scheme, str):
        raise BadScheme("signature", "give the name of a scheme, or a table that describes one")
    elif scheme not in names():
        raise BadScheme("signature", f"the signature {scheme[:80]!r} is not known: give one of {', '.join(names())}")


def check_settings(settings: Mapping[str, Any]) -> None:
    """Check the settings of a source that concern its signature. Raises BadScheme."""
    if "signature" in settings:
        check(settings["signature"])
    tolerance_s = settings.get("tolerance_s", 1)
    if (
        isinstance(tolerance_s, bool)
        or not isinstance(tolerance_s, int | float)
        or not 0 < tolerance_s <= TOLERANCE_S_MAX
    ):
        raise BadScheme("tolerance_s", f"give a number of seconds, at most {TOLERANCE_S_MAX}")
    path = settings.get("signed_path", "/")
    if not isinstance(path, str) or not path.startswith("/"):
        raise BadScheme("signed_path", "give the path that the sender posts to, beginning with /")
