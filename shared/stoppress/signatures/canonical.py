"""Signatures over a text that is made of the request first: Contentful's, Hygraph's and Kontent.ai's."""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from urllib.parse import quote, unquote

from stoppress.signatures.presets import PRESETS
from stoppress.signatures.verify import BadSignature, Request, Verifier, any_equal, header_bytes, of_now

CONTENTFUL = "x-contentful-signature"
CONTENTFUL_HEADERS = "x-contentful-signed-headers"
CONTENTFUL_TIMESTAMP = "x-contentful-timestamp"
_ENABLE = "enable request verification in the settings of Contentful's webhooks"

HYGRAPH = "gcms-signature"
_HYGRAPH_KEY = "give Hygraph's webhook a secret key, and this source the same"

# Kontent.ai's library makes one CRLF of each run of them before it compares.
_LINE_ENDS = re.compile(rb"[\r\n]+")

# ECMAScript: what encodeURI and encodeURIComponent leave as it is, beside letters and digits.
_URI_MARKS = "-_.!~*'()"
_URI_RESERVED = ";,/?:@&=+$#"


def contentful(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """Contentful's request verification: method, path, chosen headers and body. Raises BadSignature."""
    given = request.header(CONTENTFUL, _ENABLE)
    listed = request.header(CONTENTFUL_HEADERS, _ENABLE)
    timestamp = request.header(CONTENTFUL_TIMESTAMP, _ENABLE)
    of_now(CONTENTFUL_TIMESTAMP, timestamp, "ms", now, tolerance)
    names = {name.strip().lower() for name in listed.split(",")}
    messages = contentful_messages(request, names)
    expected = [
        hmac.new(header_bytes(secret), message, hashlib.sha256).hexdigest()
        for secret in secrets
        for message in messages
    ]
    if not any_equal(expected, [given]):
        raise BadSignature(
            f"{CONTENTFUL} does not match: give this source the signing secret of Contentful's space. Contentful signs the"
            " path too: where it posts to another than this function sees (a base path of a domain of your own), name that"
            " as signed_path in this source's settings"
        )


def contentful_messages(request: Request, names: Iterable[str]) -> list[bytes]:
    """What Contentful signs of a request, with the headers of these names.

    Several: a gateway may have decoded what Contentful's path had encoded, or the reverse.
    """
    headers = {name: request.headers[name].strip() for name in names if name in request.headers}
    # These two are always of what is signed, and the list is of what is there.
    headers[CONTENTFUL_TIMESTAMP] = request.headers[CONTENTFUL_TIMESTAMP].strip()
    headers[CONTENTFUL_HEADERS] = ",".join(sorted({*headers, CONTENTFUL_HEADERS}))
    lines = ";".join(f"{name}:{value}" for name, value in sorted(headers.items()))
    spellings = [(request.path, request.query), (unquote(request.path), unquote(request.query))]
    return [
        b"\n".join((request.method.upper().encode(), _encoded(path, query), header_bytes(lines), request.body))
        for path, query in dict.fromkeys(spellings)
    ]


def _encoded(path: str, query: str) -> bytes:
    """The path as encodeURI has it, with a query that was encoded as a whole before; a second ? ends it."""
    search = quote(query.partition("?")[0], safe=_URI_MARKS, errors="surrogatepass")
    whole = f"{path}?{search}" if search else path
    return quote(whole, safe=_URI_MARKS + _URI_RESERVED, errors="surrogatepass").encode()


def hygraph(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """Hygraph's: the body as a text in a JSON object, with environment and time. Raises BadSignature."""
    items = [item.strip().partition("=") for item in request.header(HYGRAPH, _HYGRAPH_KEY).split(",")]
    given = {name: value for name, equals, value in items if equals}
    if len(items) != 3 or given.keys() != {"sign", "env", "t"}:
        raise BadSignature(f"{HYGRAPH} is not of the form sign=…, env=…, t=…: {_HYGRAPH_KEY}")
    of_now(f"the time in {HYGRAPH}", given["t"], "ms", now, tolerance)
    messages = hygraph_messages(request.body, given["env"], int(given["t"]))
    expected = [hygraph_signature(secret, message) for secret in secrets for message in messages]
    if not any_equal(expected, [given["sign"]]):
        raise BadSignature(f"{HYGRAPH} does not match: {_HYGRAPH_KEY}")


def hygraph_signature(secret: str, message: bytes) -> str:
    """As Hygraph's header has it."""
    return base64.b64encode(hmac.new(header_bytes(secret), message, hashlib.sha256).digest()).decode()


def hygraph_messages(body: bytes, environment: str, timestamp_ms: int) -> list[bytes]:
    """What Hygraph signs. Two ways: its own library also escapes &, < and > where the body has them bare."""
    text = body.decode(errors="replace")
    envelope = {"Body": text, "EnvironmentName": environment, "TimeStamp": timestamp_ms}
    plain = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))
    escaped = plain.replace("&", r"\\u0026").replace("<", r"\\u003c").replace(">", r"\\u003e")
    return [header_bytes(message) for message in dict.fromkeys((plain, escaped))]


def kontent(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> None:
    """Kontent.ai's: the body, its line ends as they are or as the vendor's own library has them. Raises BadSignature."""
    preset = PRESETS["kontent"]
    message, given = preset.read(request, now, tolerance)
    messages = dict.fromkeys((message, _LINE_ENDS.sub(b"\r\n", message)))
    expected = [preset.sign(key, spelling) for key in preset.keys(secrets) for spelling in messages]
    if not any_equal(expected, given):
        raise BadSignature(f"{preset.header} does not match: {preset.how}")


VERIFIERS: dict[str, Verifier] = {"contentful": contentful, "hygraph": hygraph, "kontent": kontent}
