"""The one verifier for every sender that puts an HMAC over a template of body, time and headers into a header."""

import base64
import hashlib
import hmac
import re
from collections.abc import Mapping
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from itertools import product
from typing import Any

from stoppress.signatures.verify import BadScheme, BadSecret, BadSignature, Request, any_equal, header_bytes, of_now

DIGESTS = ("sha1", "sha256", "sha384", "sha512")
ENCODINGS = ("hex", "base64", "base64url")
UNITS = ("s", "ms")
KEYS = ("text", "base64", "hex")

_PLACE = re.compile(r"\{([^{}]+)\}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Hmac:
    """One sender's way to sign.

    `header` holds the signature, or several items parted by `separator`: a space, or a comma with or without spaces. An
    item that begins with `prefix` is a signature in `encoding`; one that begins with `time` is the time. Or the time is
    in the header `time_header`. `signed` is what is signed: {body}, {t} for the time, {a-header} for another header.
    Items of other versions are not looked at. The key is the secret after `key_prefix`: its characters, or what they
    encode. Encodings are compared as they are written: base64 of one digest can be written in more than one way.
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
        """A scheme described in a mapping file or a source's settings. Raises BadScheme."""
        known = {field.name for field in fields(cls)}
        if unknown := sorted(map(str, table.keys() - known)):
            raise BadScheme(f"signature: {', '.join(unknown)} is not known; it takes {', '.join(sorted(known))}")
        if wrong := sorted(name for name, value in table.items() if not isinstance(value, str)):
            raise BadScheme(f"signature: {', '.join(wrong)} is no text: give it in quotation marks")
        if not table.get("header"):
            raise BadScheme("signature: header is missing: give the name of the header that holds the signature")
        names = {name: table[name].lower() for name in ("header", "time_header") if name in table}
        if "signed" in table:
            names["signed"] = _PLACE.sub(lambda place: place[0].lower(), table["signed"])
        scheme = cls(**{**table, **names})
        scheme._check()
        return scheme

    def _check(self) -> None:
        for name, allowed in (("digest", DIGESTS), ("encoding", ENCODINGS), ("unit", UNITS), ("key", KEYS)):
            if getattr(self, name) not in allowed:
                raise BadScheme(f"signature: {name}: give one of {', '.join(allowed)}")
        if self.separator not in ("", " ", ","):
            raise BadScheme("signature: separator: give a space, a comma, or leave it out")
        if "{body}" not in self.signed:
            raise BadScheme("signature: signed: the template has no {body} in it, so that anything could be posted")
        if "{t}" in self.signed and not (self.time or self.time_header):
            raise BadScheme("signature: signed: {t} needs a time or a time_header")

    def verify(self, request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
        """Raises BadSignature and BadSecret."""
        message, given = self.read(request, now, tolerance)
        if not any_equal([self.sign(key, message) for key in self.keys(secrets)], given):
            mistake = self._mistake(secrets, message, given)
            raise BadSignature(f"{self.header} does not match: {mistake}{self.how}")

    def _mistake(self, secrets: list[str], message: bytes, given: list[str]) -> str:
        """What a sender did wrong that has the secret; empty where that cannot be told. Nobody else can get such an answer."""
        if not given:
            return f"it has no signature that begins with {self.prefix}; "
        for key, prefix, encoding in product(KEYS, dict.fromkeys(("", self.key_prefix)), ENCODINGS):
            other = replace(self, key=key, key_prefix=prefix, encoding=encoding)
            try:
                signatures = [other.sign(usable, message) for usable in other.keys(secrets)]
            except BadSecret:
                continue
            if any_equal(signatures, given):
                read = "the secret's characters as they are" if key == "text" else f"the secret read as {key}"
                wrong_key = f"the key was {read}; " if (key, prefix) != (self.key, self.key_prefix) else ""
                wrong_text = f"the signature is written in {encoding}, not in {self.encoding}; "
                return wrong_key + (wrong_text if encoding != self.encoding else "")
        return ""

    def read(self, request: Request, now: datetime, tolerance: timedelta) -> tuple[bytes, list[str]]:
        """What has to be signed, and the signatures that were given. Raises BadSignature."""
        for name in self.headers_needed():
            request.header(name, self.how)
        items = self._items(request.headers[self.header])
        time = self._time(request, items)
        if time is not None:
            of_now(self.time_header or f"the time in {self.header}", time, self.unit, now, tolerance)
        given = [item[len(self.prefix) :] for item in items if item.startswith(self.prefix)]
        return self.message(request, time or ""), given

    def headers_needed(self) -> list[str]:
        """The headers that a delivery must have, in the order in which they are asked for."""
        places = [place for place in _PLACE.findall(self.signed) if place not in ("body", "t")]
        return list(dict.fromkeys(name for name in (*places, self.time_header, self.header) if name))

    def _items(self, value: str) -> list[str]:
        if not self.separator:
            return [value.strip()]
        return (value.replace(",", " ") if self.separator == "," else value).split()

    def _time(self, request: Request, items: list[str]) -> str | None:
        if self.time_header:
            return request.headers[self.time_header].strip()
        if not self.time:
            return None
        times = [item[len(self.time) :] for item in items if item.startswith(self.time)]
        if len(times) != 1:
            raise BadSignature(f"{self.header} has to give one time, as {self.time}<number>: {self.how}")
        return times[0]

    def message(self, request: Request, time: str) -> bytes:
        """The bytes that are signed: the template, filled in."""
        # Between the places stand texts, at odd positions the names of places.
        parts = _PLACE.split(self.signed)
        return b"".join(
            part.encode() if number % 2 == 0 else self._value(part, request, time) for number, part in enumerate(parts)
        )

    def _value(self, place: str, request: Request, time: str) -> bytes:
        match place:
            case "body":
                return request.body
            case "t":
                return header_bytes(time)
        return header_bytes(request.headers[place].strip())

    def sign(self, key: bytes, message: bytes) -> str:
        """The signature as the header writes it, without its prefix."""
        digest = hmac.new(key, message, getattr(hashlib, self.digest)).digest()
        match self.encoding:
            case "hex":
                return digest.hex()
            case "base64url":
                return base64.urlsafe_b64encode(digest).decode().rstrip("=")
        return base64.b64encode(digest).decode()

    def keys(self, secrets: list[str]) -> list[bytes]:
        """The keys of the secrets. One that cannot be used must not stop the others; raises BadSecret where none can."""
        keys, faults = [], []
        for secret in secrets:
            try:
                keys.append(self._key(secret))
            except BadSecret as error:
                faults.append(error)
        if not keys:
            raise faults[0]
        return keys

    def _key(self, secret: str) -> bytes:
        encoded = secret.removeprefix(self.key_prefix)
        try:
            match self.key:
                case "base64":
                    key = base64.b64decode(encoded + "=" * (-len(encoded) % 4), validate=True)
                case "hex":
                    key = bytes.fromhex(encoded)
                case _:
                    key = header_bytes(encoded)
        except ValueError:  # binascii's, or a character outside ASCII
            example = f"{self.key_prefix} and base64, 24 to 64 bytes of it" if self.key == "base64" else "hex digits"
            raise BadSecret(f"the secret is not {self.key}: make it of {example}") from None
        if not key:
            raise BadSecret("the secret is empty")
        return key
