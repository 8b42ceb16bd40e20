"""The token in the URL of a site's page: HMAC-SHA256 of the host, with the stack's secret for pages as key. It is stored nowhere.

While the secret is rotated, the stack may have several secrets. New tokens are made with the first. Tokens of all are accepted.
"""

import base64
import hashlib
import hmac
import re
from collections.abc import Sequence

# Name of the secret, below the stack's path (template.yaml).
PAGE_SECRET = "page"

_TOKEN = re.compile(r"[A-Za-z0-9_-]{43}")


def page_token(secret: str, host: str) -> str:
    """The token of a host in base64url, without padding."""
    digest = hmac.new(secret.encode(), host.encode(errors="surrogatepass"), hashlib.sha256).digest()
    return base64.urlsafe_b64encode(digest).rstrip(b"=").decode()


def is_token(text: str) -> bool:
    """Whether a text has the form of a token. It may still be forged."""
    return _TOKEN.fullmatch(text) is not None


def is_page_token(text: str, secrets: Sequence[str], host: str) -> bool:
    """Whether a text is the token of a host under one of the secrets. Compares in constant time."""
    if not is_token(text):
        return False
    matches = [hmac.compare_digest(text, page_token(secret, host)) for secret in secrets]
    return any(matches)
