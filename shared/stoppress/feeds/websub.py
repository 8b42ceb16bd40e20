"""WebSub's protocol: the hub and topic that an answer links to (WebSub, 4), the callback URL, and the signature of a push.

The hub pushes new entries; the topic is the feed's URL at the hub. A subscription's callback and secret are derived from one
secret of the stack, called `master` here, and stored nowhere. During a rotation the stack has several masters. New
tokens are created with the first, and the tokens of all masters are accepted.
"""

import hashlib
import hmac
import re
from collections.abc import Iterator, Mapping, Sequence
from html import unescape
from urllib.parse import urljoin, urlsplit

from stoppress.primitives.urls import link_targets

URL_CHARACTERS_MAX = 2_000

_LINK = re.compile(r"<(?:[\w.-]+:)?link\s([^<>]{0,4000})>", re.IGNORECASE)
# The look-behind prevents an attempt at each letter of a long name without a value.
_ATTRIBUTE = re.compile(r"(?<![\w:.-])([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")
_METHODS = {"sha1", "sha256", "sha384", "sha512"}  # WebSub, 7.1; sha1 comes from PubSubHubbub
_TOKEN = re.compile(r"([0-9a-f]{16})-([0-9a-f]{32})")


def hub_and_topic(head: str, headers: Mapping[str, str], url: str) -> tuple[str | None, str | None]:
    """Return the hub that an answer's headers or feed link to, and the feed's own URL (`rel="self"`).

    The hub is the first that uses https, else the first. `head` is the feed without its entries.
    """
    hubs = list(_find_links("hub", head, headers, url))
    hub = next(filter(can_be_trusted, hubs), None) or next(iter(hubs), None)
    return hub, next(_find_links("self", head, headers, url), None)


def can_be_trusted(hub: str) -> bool:
    """Return True if a secret may be sent to a hub: over https only (WebSub, 5.1)."""
    return urlsplit(hub).scheme == "https"


def linked_in_headers(relation: str, headers: Mapping[str, str], url: str) -> Iterator[str]:
    """Yield the URLs in the header Link with this relation."""
    return filter(None, (_resolve_link(target, url) for target in link_targets(relation, headers)))


def _find_links(relation: str, head: str, headers: Mapping[str, str], url: str) -> Iterator[str]:
    """Yield the URLs that an answer links to with this relation, those of its headers first."""
    yield from linked_in_headers(relation, headers, url)
    for link in _LINK.finditer(head):
        attributes = {name.lower(): unescape(quoted or other) for name, quoted, other in _ATTRIBUTE.findall(link[1])}
        relations = attributes.get("rel", "").lower().split()
        if relation in relations and (linked := _resolve_link(attributes.get("href", ""), url)):
            yield linked


def _resolve_link(target: str, url: str) -> str | None:
    if not target.strip():
        return None
    try:
        linked = urljoin(url, target.strip())
        parts = urlsplit(linked)
    except ValueError:
        return None
    is_usable = parts.scheme in {"http", "https"} and parts.hostname and len(linked) <= URL_CHARACTERS_MAX
    return linked if is_usable else None


def callback_path(master: str, site: str, feed: str, subscription: str) -> str:
    """Return the end of a callback URL: `<site>/<feed>/<token>`. `feed` is the key of the feed's URL, `subscription` the id."""
    return f"{site}/{feed}/{subscription}-{_proof(master, site, feed, subscription)}"


def is_token(text: str) -> bool:
    """Return True if a text has the form of a token. The token may still be forged."""
    return _TOKEN.fullmatch(text) is not None


def subscription_of(token: str, masters: Sequence[str], site: str, feed: str) -> str | None:
    """Return the id of the subscription that a token belongs to; None for a forged token."""
    parts = _TOKEN.fullmatch(token)
    if parts is None:
        return None
    proofs = [hmac.compare_digest(parts[2], _proof(master, site, feed, parts[1])) for master in masters]
    return parts[1] if any(proofs) else None


def hub_secret(master: str, site: str, feed: str, subscription: str) -> str:
    """Return the secret with which the hub signs its pushes, under the limit of 200 bytes (WebSub, 5.1)."""
    return _derive(master, "secret", site, feed, subscription)


def is_signed(headers: Mapping[str, str], body: bytes, secrets: Sequence[str]) -> bool:
    """Return True if `X-Hub-Signature: sha256=<hex>` is the hub's signature of the body (WebSub, 7.1)."""
    method, _, signature = headers.get("x-hub-signature", "").strip().partition("=")
    method, signature = method.lower(), signature.lower()
    if method not in _METHODS or not signature.isascii():
        return False
    matches = [hmac.compare_digest(hmac.new(key.encode(), body, method).hexdigest(), signature) for key in secrets]
    return any(matches)


def _proof(master: str, site: str, feed: str, subscription: str) -> str:
    return _derive(master, "callback", site, feed, subscription)[:32]


def _derive(master: str, purpose: str, site: str, feed: str, subscription: str) -> str:
    text = f"{purpose}\n{site}\n{feed}\n{subscription}"
    return hmac.new(master.encode(), text.encode(errors="surrogatepass"), hashlib.sha256).hexdigest()
