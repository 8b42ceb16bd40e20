"""Signature schemes beyond an HMAC over a template: a canonical form of the request is signed, or there is only a token."""

import base64
import hashlib
import hmac
import json
import re
from collections.abc import Iterable
from datetime import datetime, timedelta
from urllib.parse import quote, unquote, unquote_plus

from stoppress.model.http_request import Request
from stoppress.model.signature_schemes import PRESETS
from stoppress.signatures.verify import (
    BadSecret,
    BadSignature,
    NotSigned,
    Proof,
    Prover,
    check_time,
    header_bytes,
    header_of,
    keys,
    read,
    sign,
)

CONTENTFUL = "x-contentful-signature"
CONTENTFUL_HEADERS = "x-contentful-signed-headers"
CONTENTFUL_TIMESTAMP = "x-contentful-timestamp"
_ENABLE = "enable request verification in the settings of Contentful's webhooks"

HYGRAPH = "gcms-signature"
_HYGRAPH_KEY = "give Hygraph's webhook a secret key, and this source the same"

# Kontent.ai's library replaces each run of line ends by one CRLF before it compares.
_LINE_ENDS = re.compile(rb"[\r\n]+")

# ECMAScript: encodeURIComponent keeps letters, digits and these marks. encodeURI keeps the reserved characters as well.
_URI_MARKS = "-_.!~*'()"
_URI_RESERVED = ";,/?:@&=+$#"


def contentful(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """Return the proof by Contentful's request verification: method, path, chosen headers and body. Raises BadSignature."""
    signature = header_of(request, CONTENTFUL, _ENABLE)
    signed_headers = header_of(request, CONTENTFUL_HEADERS, _ENABLE)
    timestamp = header_of(request, CONTENTFUL_TIMESTAMP, _ENABLE)
    check_time(CONTENTFUL_TIMESTAMP, timestamp, "ms", now, tolerance)
    names = {name.strip().lower() for name in signed_headers.split(",")}
    messages = contentful_messages(request, names)
    expected = [
        hmac.new(header_bytes(secret), message, hashlib.sha256).hexdigest()
        for secret in secrets
        for message in messages
    ]
    return (
        expected,
        [signature],
        (
            f"{CONTENTFUL} does not match: give this source the signing secret of Contentful's space. Contentful signs the"
            " path too: if it posts to another path than this function sees (a custom domain with a base path), give"
            " Contentful's path as signed_path in this source's settings"
        ),
    )


def contentful_messages(request: Request, names: Iterable[str]) -> list[bytes]:
    """Return the texts that Contentful may have signed for a request, with the headers of these names.

    There are several because a gateway may have decoded the path that Contentful encoded, or the reverse.
    """
    headers = {name: request.headers[name].strip() for name in names if name in request.headers}
    # Contentful always signs these two headers, and lists only headers that the request has.
    headers[CONTENTFUL_TIMESTAMP] = request.headers[CONTENTFUL_TIMESTAMP].strip()
    headers[CONTENTFUL_HEADERS] = ",".join(sorted({*headers, CONTENTFUL_HEADERS}))
    lines = ";".join(f"{name}:{value}" for name, value in sorted(headers.items()))
    spellings = [(request.path, request.query), (unquote(request.path), unquote(request.query))]
    return [
        b"\n".join((request.method.upper().encode(), _encode(path, query), header_bytes(lines), request.body))
        for path, query in dict.fromkeys(spellings)
    ]


def _encode(path: str, query: str) -> bytes:
    """Encode the query, then path and query together, as Contentful does. A second ? ends the query."""
    search = quote(query.partition("?")[0], safe=_URI_MARKS, errors="surrogatepass")
    whole = f"{path}?{search}" if search else path
    return quote(whole, safe=_URI_MARKS + _URI_RESERVED, errors="surrogatepass").encode()


def hygraph(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """Return the proof by Hygraph's scheme: it signs a JSON object with body, environment and time. Raises BadSignature."""
    items = [item.strip().partition("=") for item in header_of(request, HYGRAPH, _HYGRAPH_KEY).split(",")]
    parts = {name: value for name, equals, value in items if equals}
    if len(items) != 3 or parts.keys() != {"sign", "env", "t"}:
        raise BadSignature(f"{HYGRAPH} is not of the form sign=…, env=…, t=…: {_HYGRAPH_KEY}")
    check_time(f"the time in {HYGRAPH}", parts["t"], "ms", now, tolerance)
    messages = hygraph_messages(request.body, parts["env"], int(parts["t"]))
    expected = [hygraph_signature(secret, message) for secret in secrets for message in messages]
    return expected, [parts["sign"]], f"{HYGRAPH} does not match: {_HYGRAPH_KEY}"


def hygraph_signature(secret: str, message: bytes) -> str:
    """Return the signature in the form of Hygraph's header."""
    return base64.b64encode(hmac.new(header_bytes(secret), message, hashlib.sha256).digest()).decode()


def hygraph_messages(body: bytes, environment: str, timestamp_ms: int) -> list[bytes]:
    """Return the two texts that Hygraph may have signed: its own library also escapes &, < and >."""
    text = body.decode(errors="replace")
    envelope = {"Body": text, "EnvironmentName": environment, "TimeStamp": timestamp_ms}
    plain = json.dumps(envelope, ensure_ascii=False, separators=(",", ":"))
    escaped = plain.replace("&", r"\\u0026").replace("<", r"\\u003c").replace(">", r"\\u003e")
    return [header_bytes(message) for message in dict.fromkeys((plain, escaped))]


def kontent(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """Return the proof by Kontent.ai's scheme: it signs the body, with original or replaced line ends. Raises BadSignature."""
    preset = PRESETS["kontent"]
    body, signatures = read(preset, request, now, tolerance)
    spellings = dict.fromkeys((body, _LINE_ENDS.sub(b"\r\n", body)))
    expected = [sign(preset, key, spelling) for key in keys(preset, secrets) for spelling in spellings]
    return expected, signatures, f"{preset.header} does not match: {preset.how}"


# A token is a long secret in each request, for senders that cannot sign. It does not cover the content or the time: anyone
# who has seen a request can forge others, and only TLS protects it.


def bearer(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """Read `Authorization: Bearer <secret>`, or `?access_token=<secret>`.

    The parameter is in RFC 6750 and the HTTP webhooks of CloudEvents, for senders that cannot set a header.
    """
    tokens = _credentials(request, "bearer") or _parameter(request, "access_token")
    return secrets, tokens, "Authorization does not match: have the sender set it to 'Bearer ' and this source's secret"


def token(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """Read `?token=<secret>` in the URL that the sender posts to."""
    how = "the token does not match: end the URL given to the sender with ?token= and this source's secret"
    return secrets, _parameter(request, "token"), how


def basic(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """Read `Authorization: Basic …` with a secret of the form user:password. Raises BadSecret."""
    expected = [base64.b64encode(header_bytes(secret)).decode() for secret in secrets if ":" in secret]
    if not expected:
        raise BadSecret("the secret is not of the form user:password")
    how = "Authorization does not match: give the sender the user and the password of this source's secret"
    return expected, _credentials(request, "basic"), how


def body_secret(request: Request, secrets: list[str], now: datetime, tolerance: timedelta) -> Proof:
    """Read `{"secret": …}` in a JSON body, as Prismic sends it. Raises NotSigned."""
    try:
        document = json.loads(request.body)
    except (ValueError, RecursionError):
        raise NotSigned('the body is not JSON with a "secret" in it') from None
    token = document.get("secret") if isinstance(document, dict) else None
    how = '"secret" in the body does not match: give the sender the secret of this source'
    return secrets, [token] if isinstance(token, str) else [], how


def _credentials(request: Request, scheme: str) -> list[str]:
    name, _, value = request.headers.get("authorization", "").strip().partition(" ")
    return [value.strip()] if name.lower() == scheme else []


def _parameter(request: Request, name: str) -> list[str]:
    """Return the value of a query parameter, decoded with + as itself and with + as a space.

    People paste a secret with a + into a URL without escaping it. The list is empty if the parameter is missing or
    repeated, because it is then unclear which one counts.
    """
    pairs = [part.partition("=") for part in request.query.split("&")]
    values = [value for key, _, value in pairs if unquote_plus(key) == name]
    return [unquote(values[0]), unquote_plus(values[0])] if len(values) == 1 else []


PROVERS: dict[str, Prover] = {
    "contentful": contentful, "hygraph": hygraph, "kontent": kontent,
    "bearer": bearer, "token": token, "query-token": token, "basic": basic, "body-secret": body_secret,
}  # fmt: skip
