"""Where a hub reaches us, and how we know it: a token and a secret for each subscription, derived from one secret of the stack.

Nothing of them is kept. Of several secrets, while one is rotated, the first makes new ones and all are believed.
"""

import hashlib
import hmac
import re
from collections.abc import Mapping, Sequence

_METHODS = {"sha1", "sha256", "sha384", "sha512"}  # WebSub, 7.1; sha1 is what PubSubHubbub had
_TOKEN = re.compile(r"([0-9a-f]{16})-([0-9a-f]{32})")


def callback_path(master: str, site: str, feed: str, subscription: str) -> str:
    """The end of a callback's URL: `<site>/<feed>/<token>`. `feed` is the key of its URL, `subscription` the id."""
    return f"{site}/{feed}/{subscription}-{_proof(master, site, feed, subscription)}"


def subscription_of(token: str, masters: Sequence[str], site: str, feed: str) -> str | None:
    """The id of the subscription that a token was made for; None for one that we have not made."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return None
    proofs = [hmac.compare_digest(parts[2], _proof(master, site, feed, parts[1])) for master in masters]
    return parts[1] if any(proofs) else None


def hub_secret(master: str, site: str, feed: str, subscription: str) -> str:
    """What the hub signs its pushes with; less than the 200 bytes that it may have (WebSub, 5.1)."""
    return _derived(master, "secret", site, feed, subscription)


def is_signed(headers: Mapping[str, str], body: bytes, secrets: Sequence[str]) -> bool:
    """Whether the hub has signed these bytes (WebSub, 7.1): `X-Hub-Signature: sha256=<hex>`."""
    method, _, signature = headers.get("x-hub-signature", "").strip().partition("=")
    method, signature = method.lower(), signature.lower()
    if method not in _METHODS or not signature.isascii():
        return False
    good = [hmac.compare_digest(hmac.new(one.encode(), body, method).hexdigest(), signature) for one in secrets]
    return any(good)


def _proof(master: str, site: str, feed: str, subscription: str) -> str:
    return _derived(master, "callback", site, feed, subscription)[:32]


def _derived(master: str, purpose: str, site: str, feed: str, subscription: str) -> str:
    said = f"{purpose}\n{site}\n{feed}\n{subscription}"
    return hmac.new(master.encode(), said.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
