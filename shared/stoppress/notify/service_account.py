"""The access token of a Google service account, in exchange for a request that the account's key signs (RFC 7523).

Source: developers.google.com/identity/protocols/oauth2/service-account.
"""

import json
import re
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from stoppress.aws import secrets
from stoppress.http import client
from stoppress.http.errors import FetchError, Refused
from stoppress.notify.indexnow import LATER_SECONDS, WRONG_SECONDS, Meaning, retry_after
from stoppress.primitives.instants import epoch_seconds

# Also the audience of the signed request. `token_uri` of the JSON key is ignored: no secret decides where requests go.
TOKEN_URL = "https://oauth2.googleapis.com/token"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# Allows to submit sitemaps. The scope that only reads does not.
SCOPE = "https://www.googleapis.com/auth/webmasters"
# The longest that Google allows.
SIGNED_FOR = timedelta(hours=1)
# A token is not used in its last minute.
SPARED = timedelta(minutes=1)

# A token that may stand in a header (RFC 6750, 2.1).
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]{1,4096}=*")
_HEADER = {"alg": "RS256", "typ": "JWT"}


class Unanswered(Exception):
    """Google did not do what it was asked. `meaning` says why, and when to ask again.

    `is_of_page`: perhaps this concerns only the page of the question.
    """

    def __init__(self, meaning: Meaning, *, is_of_page: bool = False) -> None:
        super().__init__(meaning.reason)
        self.meaning, self.is_of_page = meaning, is_of_page


@dataclass(frozen=True, slots=True)
class ServiceAccount:
    """What the JSON key of a service account holds."""

    email: str
    private_key: str = field(repr=False)


# By service account: until when its token is used, and the token. Only in memory.
_tokens: dict[ServiceAccount, tuple[datetime, str]] = {}


def token(secret: str, now: datetime) -> str:
    """A valid access token for the service account whose JSON key is in a secret. Raises Unanswered."""
    try:
        account = read_key(secrets.load_text(secret))
        until, kept = _tokens.get(account, (now, ""))
        if now < until:
            return kept
        form = {"grant_type": GRANT_TYPE, "assertion": assertion(account, now)}
    except secrets.NoSecret as error:
        raise (_later if error.may_pass else _wrong)(str(error)) from None
    except ImportError:
        raise _wrong("the function lacks the library cryptography: build it with `make build`, and deploy") from None
    except ValueError as error:
        raise _wrong(f"the secret {secret} {error}") from None
    value, seconds = read_answer(ask(lambda: client.post(TOKEN_URL, form)), now)
    _tokens[account] = (now + timedelta(seconds=seconds) - SPARED, value)
    return value


def ask(request: Callable[[], client.Response]) -> client.Response:
    """Return the answer to a request to Google. Raises Unanswered if there is none."""
    try:
        return request()
    except Refused as error:
        raise _wrong(str(error)) from None
    except FetchError as error:
        raise _later(str(error)) from None


def forget() -> None:
    """Empty the cache, like a cold start. A token that Google refuses is not used again."""
    _tokens.clear()


def read_key(text: str) -> ServiceAccount:
    """The service account of a JSON key, as Google's console makes it. Raises ValueError."""
    document = _object(text)
    email, private_key = document.get("client_email"), document.get("private_key")
    if document.get("type") != "service_account" or not isinstance(email, str) or not isinstance(private_key, str):
        raise ValueError("is no JSON key of a service account: store the file from Google unchanged")
    return ServiceAccount(email, private_key)


def assertion(account: ServiceAccount, now: datetime) -> str:
    """The signed request for a token: a JSON Web Token. Raises ValueError for a bad key, and ImportError without cryptography."""
    signed = f"{encoded(_HEADER)}.{encoded(claims(account.email, now))}"
    return f"{signed}.{_base64url(sign(account.private_key, signed.encode()))}"


def claims(email: str, now: datetime) -> dict[str, Any]:
    """What the request for a token says, in the order of Google's example."""
    issued = epoch_seconds(now)
    expires = issued + int(SIGNED_FOR.total_seconds())
    return {"iss": email, "scope": SCOPE, "aud": TOKEN_URL, "exp": expires, "iat": issued}


def encoded(part: dict[str, Any]) -> str:
    """A part of a JSON Web Token."""
    return _base64url(json.dumps(part, separators=(",", ":")).encode())


def sign(private_key: str, text: bytes) -> bytes:
    """The RS256 signature of a text (RFC 7518, 3.3). Raises ValueError for a bad key, and ImportError without cryptography."""
    # Imported here, because only notify_engines has the library.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(private_key.encode(), password=None)
    except (ValueError, TypeError, UnsupportedAlgorithm):
        key = None
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("has no RSA key in `private_key`: store the file from Google unchanged")
    return key.sign(text, PKCS1v15(), SHA256())


def read_answer(answer: client.Response, now: datetime) -> tuple[str, float]:
    """The token in an answer, and for how many seconds it is valid. Raises Unanswered."""
    document = _object(answer.body)
    if answer.status == 200:
        value, seconds = document.get("access_token"), document.get("expires_in")
        if isinstance(value, str) and _TOKEN.fullmatch(value) and isinstance(seconds, int):
            return value, seconds
        raise _later("answers without a token")
    words = (document.get("error"), document.get("error_description"))
    detail = ": ".join(word for word in words if isinstance(word, str))[:300]
    reason = f"gives no token: it answers {answer.status}" + (f", {detail}" if detail else "")
    if answer.status == 429 or answer.status >= 500:
        raise _later(reason, retry_after(answer.headers, now))
    raise _wrong(f"{reason}: store a new key of the service account in the secret")


def _object(text: str | bytes) -> dict[str, Any]:
    """A JSON object; an empty one for any other text."""
    try:
        document = json.loads(text)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}


def _base64url(content: bytes) -> str:
    return urlsafe_b64encode(content).rstrip(b"=").decode()


def _later(reason: str, seconds: int = LATER_SECONDS) -> Unanswered:
    return Unanswered(Meaning("later", reason, seconds, is_certain=True))


def _wrong(reason: str) -> Unanswered:
    return Unanswered(Meaning("wrong", reason, WRONG_SECONDS, is_certain=True))
