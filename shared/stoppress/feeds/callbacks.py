"""The callback URL and the secret of each subscription, both derived from one secret of the stack and stored nowhere.

The stack's secret is called `master` here. During a rotation the stack has several masters. The first makes new tokens, and
the tokens of all masters are accepted.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence

_METHODS = {"sha1", "sha256", "sha384", "sha512"}  # WebSub, 7.1; sha1 comes from PubSubHubbub
_TOKEN = re.compile(r"([0-9a-f]{16})-([0-9a-f]{32})")


def callback_path(master: str, site: str, feed: str, subscription: str) -> str:
    """The end of a callback URL: `<site>/<feed>/<token>`. `feed` is the key of the feed's URL, `subscription` the id."""
    return f"{site}/{feed}/{subscription}-{_proof(master, site, feed, subscription)}"


def is_token(text: str) -> bool:
    """Whether a text has the form of a token. The token may still be forged."""
    return _TOKEN.fullmatch(text) is not None


def subscription_of(token: str, masters: Sequence[str], site: str, feed: str) -> str | None:
    """The id of the subscription that a token belongs to; None for a forged token."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return None
    proofs = [hmac.compare_digest(parts[2], _proof(master, site, feed, parts[1])) for master in masters]
    return parts[1] if any(proofs) else None


def hub_secret(master: str, site: str, feed: str, subscription: str) -> str:
    """The secret with which the hub signs its pushes, under the limit of 200 bytes (WebSub, 5.1)."""
    return _derived(master, "secret", site, feed, subscription)


def is_signed(headers: Mapping[str, str], body: bytes, secrets: Sequence[str]) -> bool:
    """Whether `X-Hub-Signature: sha256=<hex>` is the hub's signature of the body (WebSub, 7.1)."""
    method, _, signature = headers.get("x-hub-signature", "").strip().partition("=")
    method, signature = method.lower(), signature.lower()
    if method not in _METHODS or not signature.isascii():
        return False
    matches = [hmac.compare_digest(hmac.new(key.encode(), body, method).hexdigest(), signature) for key in secrets]
    return any(matches)


def _proof(master: str, site: str, feed: str, subscription: str) -> str:
    return _derived(master, "callback", site, feed, subscription)[:32]


def _derived(master: str, purpose: str, site: str, feed: str, subscription: str) -> str:
    text = f"{purpose}\n{site}\n{feed}\n{subscription}"
    return hmac.new(master.encode(), text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
