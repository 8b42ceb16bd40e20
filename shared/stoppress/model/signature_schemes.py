"""Signature schemes as data: the schemes that a source may use by name, and the fields that describe any other HMAC.

`stoppress.signatures` verifies requests with these schemes. Each preset follows the vendor's documentation or code.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, ClassVar, Literal, TypeAlias, get_args

from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError

from stoppress.model.validation import explain, matching
from stoppress.primitives.text import did_you_mean

# The name of a scheme, or a table with the fields of `Hmac`.
Scheme: TypeAlias = str | Mapping[str, Any]

# A day. Anyone who intercepts a request can repeat it until the tolerance ends.
TOLERANCE_S_MAX = 86_400

Encoding: TypeAlias = Literal["hex", "base64", "base64url"]
Key: TypeAlias = Literal["text", "base64", "hex"]
ENCODINGS: tuple[Encoding, ...] = get_args(Encoding)
KEYS: tuple[Key, ...] = get_args(Key)

PLACEHOLDER = re.compile(r"\{([^{}]+)\}")


class BadScheme(ValueError):
    """A signature setting that cannot be used: the configuration is at fault."""


def _template(text: str) -> str:
    template = PLACEHOLDER.sub(lambda place: place[0].lower(), text)
    if "{body}" not in template:
        raise ValueError("the template has no {body}, so that anything could be posted")
    return template


@dataclass(frozen=True, slots=True, kw_only=True)
class Hmac:
    """An HMAC over a template of body, time and headers, sent in a header.

    `header` has the signature, or several items. `separator` is between the items: a space, or a comma with or without
    spaces. An item that begins with `prefix` is a signature, written in `encoding`; an item that begins with `time` is
    the time. Other items are ignored. Alternatively the header `time_header` has the time. The time counts seconds or
    milliseconds (`unit`) since 1970. `signed` is the template: {body}, {t} for the time, {a-header} for the value of another
    header. The key is the secret without `key_prefix`, as text or decoded (`key`). A signature must have the canonical
    spelling, because base64 has several spellings of one digest. `how` is the advice in errors.
    """

    __pydantic_config__: ClassVar[ConfigDict] = ConfigDict(extra="forbid", defer_build=True)

    header: Annotated[str, Field(min_length=1), AfterValidator(str.lower)]
    signed: Annotated[str, AfterValidator(_template)] = "{body}"
    digest: Literal["sha1", "sha256", "sha384", "sha512"] = "sha256"
    encoding: Encoding = "hex"
    prefix: str = ""
    separator: Literal["", " ", ","] = ""
    time: str = ""
    time_header: Annotated[str, AfterValidator(str.lower)] = ""
    unit: Literal["s", "ms"] = "s"
    key: Key = "text"
    key_prefix: str = ""
    how: str = "give the sender the secret of this source, the very same characters, and have it sign the very bytes of the body"

    @classmethod
    def of(cls, table: Mapping[str, Any]) -> "Hmac":
        """Return the scheme that a mapping file or a source's settings describe. Raises BadScheme."""
        try:
            scheme = _TABLES.validate_python(dict(table))
        except ValidationError as error:
            raise BadScheme(explain(error)) from None
        if "{t}" in scheme.signed and not (scheme.time or scheme.time_header):
            raise BadScheme("signed: {t} needs a time or a time_header")
        return scheme

    @property
    def headers_needed(self) -> list[str]:
        """Return the headers that a request must have, in the order in which they are checked."""
        places = [place for place in PLACEHOLDER.findall(self.signed) if place not in ("body", "t")]
        return list(dict.fromkeys(name for name in (*places, self.time_header, self.header) if name))


_TABLES = TypeAdapter(Hmac)
# By name. GitHub's scheme is used by others too, such as Drupal's webhooks module. Ghost signs the time since July 2024; before, the
# time was in the header and not signed. `wp-webhooks` is the WordPress plugin WP Webhooks. Storyblok and Standard Webhooks use the
# same header: a header does not show which scheme a sender uses. `stripe-like` is Stripe's scheme with a neutral header name,
# for senders that a newsroom writes itself.
PRESETS = {
    name: Hmac(**table)
    for name, table in json.loads(Path(__file__).with_name("signature_presets.json").read_text("utf-8")).items()
}
# Schemes that are more than an HMAC over a template: `stoppress.signatures.canonical` verifies them.
NAMED = ("contentful", "hygraph", "kontent", "bearer", "token", "query-token", "basic", "body-secret")
# Webhooks are refused. Events of such a source arrive on the bus, where IAM decides who may send.
NONE = "none"


def names() -> list[str]:
    """Return the name of every scheme."""
    return sorted({*PRESETS, *NAMED, NONE})


def read_scheme(scheme: object) -> str | Hmac:
    """Return the HMAC that a preset or a table describes, or the name of any other scheme. Raises BadScheme."""
    if isinstance(scheme, Mapping):
        return Hmac.of(scheme)
    if not isinstance(scheme, str):
        raise BadScheme("give the name of a scheme, or a table that describes one")
    if scheme not in names():
        meant = did_you_mean(scheme, names())
        raise BadScheme(f"the signature {scheme[:80]!r} is not supported: use one of {', '.join(names())}{meant}")
    return scheme if scheme in NAMED or scheme == NONE else PRESETS[scheme]


def _check_scheme(scheme: Any) -> Any:
    read_scheme(scheme)
    return scheme


# A scheme as it is written in a configuration.
Signature: TypeAlias = Annotated[Any, AfterValidator(_check_scheme)]


# The settings of any source that concern its signature, each with the type of its values.
SIGNATURE_SETTINGS: dict[str, Any] = {
    "signature": Signature,
    "signed_path": Annotated[str, matching("/.*", "give the path that the sender posts to, beginning with /")],
    "tolerance_s": Annotated[float, Field(strict=True, gt=0, le=TOLERANCE_S_MAX)],
}
