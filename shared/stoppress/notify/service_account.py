"""The access token of a Google service account, in exchange for a request that the account's key signs (RFC 7523).

Source: developers.google.com/identity/protocols/oauth2/service-account.
"""

import json
from base64 import urlsafe_b64encode
from collections.abc import Callable
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from stoppress.aws import secrets
from stoppress.http import client
from stoppress.http.errors import FetchError
from stoppress.notify.indexnow import Meaning, meaning_of_failure, wrong
from stoppress.notify.search_console import meaning
from stoppress.primitives.instants import epoch_seconds

# Also the audience of the signed request. `token_uri` of the JSON key is ignored: no secret decides where requests go.
TOKEN_URL = "https://oauth2.googleapis.com/token"
GRANT_TYPE = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# Allows to submit sitemaps. The scope that only reads does not.
SCOPE = "https://www.googleapis.com/auth/webmasters"
# The longest that Google allows.
ASSERTION_LIFETIME = timedelta(hours=1)
# A token is not used in its last minute.
EXPIRY_MARGIN = timedelta(minutes=1)

# A token that a header may contain (RFC 6750, 2.1).
_TOKEN = r"^[A-Za-z0-9._~+/-]{1,4096}=*$"
_NEW_KEY = "store a new key of the service account in the secret"
_NO_KEY = "is no JSON key of a service account, with an RSA key: store the file from Google unchanged"
_HEADER = {"alg": "RS256", "typ": "JWT"}


class Unanswered(Exception):
    """A request to Google failed. `meaning` has the reason, and when to try again.

    `is_of_page`: the failure may concern only the inspected page.
    """

    def __init__(self, meaning: Meaning, *, is_of_page: bool = False) -> None:
        super().__init__(meaning.reason)
        self.meaning, self.is_of_page = meaning, is_of_page


class ServiceAccount(BaseModel, frozen=True, defer_build=True):
    """The JSON key of a service account, as Google's console creates it."""

    type: Literal["service_account"]
    client_email: str
    private_key: str = Field(repr=False)


class _Answer(BaseModel, defer_build=True):
    """The answer to the request for a token."""

    access_token: str = Field(pattern=_TOKEN)
    expires_in: int


# By service account: until when its token is used, and the token. Only in memory.
_tokens: dict[ServiceAccount, tuple[datetime, str]] = {}


def token(secret: str, now: datetime) -> str:
    """Return a valid access token for the service account whose JSON key is in a secret. Raises Unanswered."""
    try:
        account = ServiceAccount.model_validate_json(secrets.load_text(secret))
        valid_until, cached = _tokens.get(account, (now, ""))
        if now < valid_until:
            return cached
        form = {"grant_type": GRANT_TYPE, "assertion": assertion(account, now)}
    except secrets.NoSecret as error:
        later = Meaning("later", str(error), is_certain=True)
        raise Unanswered(later if error.may_pass else wrong(str(error))) from None
    except ValueError:  # pydantic's text has the key
        raise Unanswered(wrong(f"the secret {secret} {_NO_KEY}")) from None
    answer = send(lambda: client.post(TOKEN_URL, form))
    refused = meaning(answer.status, answer.headers, answer.body, now, _NEW_KEY)
    if refused.result != "accepted":
        raise Unanswered(replace(refused, reason=f"returns no token: {refused.reason}"))
    try:
        read = _Answer.model_validate_json(answer.body)
    except ValidationError:
        raise Unanswered(Meaning("later", "answers without a token", is_certain=True)) from None
    _tokens[account] = (now + timedelta(seconds=read.expires_in) - EXPIRY_MARGIN, read.access_token)
    return read.access_token


def send(request: Callable[[], client.Response]) -> client.Response:
    """Return the answer to a request to Google. Raises Unanswered if there is none."""
    try:
        return request()
    except FetchError as error:
        raise Unanswered(meaning_of_failure(error, is_certain=True)) from None


def forget() -> None:
    """Empty the cache, like a cold start. A token that Google refuses is not used again."""
    _tokens.clear()


def assertion(account: ServiceAccount, now: datetime) -> str:
    """Return the signed request for a token: a JSON Web Token with an RS256 signature (RFC 7518, 3.3). Raises ValueError for a bad key."""
    # Imported here, because only notify_engines has the library.
    from cryptography.exceptions import UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.padding import PKCS1v15
    from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import load_pem_private_key

    try:
        key = load_pem_private_key(account.private_key.encode(), password=None)
    except (TypeError, UnsupportedAlgorithm) as error:
        raise ValueError(str(error)) from None
    if not isinstance(key, RSAPrivateKey):
        raise ValueError("is no RSA key")
    issued = epoch_seconds(now)
    expires = issued + int(ASSERTION_LIFETIME.total_seconds())
    claims = {"iss": account.client_email, "scope": SCOPE, "aud": TOKEN_URL, "exp": expires, "iat": issued}
    parts = [urlsafe_b64encode(json.dumps(part, separators=(",", ":")).encode()) for part in (_HEADER, claims)]
    signed = b".".join(part.rstrip(b"=") for part in parts)
    signature = urlsafe_b64encode(key.sign(signed, PKCS1v15(), SHA256())).rstrip(b"=")
    return b".".join((signed, signature)).decode()
