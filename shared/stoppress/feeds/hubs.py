"""The hub that a feed names: where one could be told of news instead of asking (WebSub, 4 Discovery). None is subscribed to yet."""

import re
from collections.abc import Mapping
from html import unescape
from urllib.parse import urljoin, urlsplit

URL_CHARACTERS_MAX = 2_000

_LINK_HEADER = re.compile(r"<([^<>]{1,2000})>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:\"[^\"]*\"|[^\s;,\"]*))?)*)")
_RELATIONS = re.compile(r"(?:^|;)\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)
_LINK = re.compile(r"<(?:[\w.-]+:)?link\s([^<>]{0,4000})>", re.IGNORECASE)
_ATTRIBUTE = re.compile(r"([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


def hub_of(head: str, headers: Mapping[str, str], url: str) -> str | None:
    """The first hub that an answer names, in its headers or else in its feed; `head` is the feed without its entries."""
    for target, parameters in _LINK_HEADER.findall(headers.get("link", "")):
        relations = [quoted or plain for quoted, plain in _RELATIONS.findall(parameters)]
        if relations and "hub" in relations[0].lower().split() and (hub := _usable(target, url)):
            return hub
    for found in _LINK.finditer(head):
        said = {name.lower(): unescape(one or other) for name, one, other in _ATTRIBUTE.findall(found[1])}
        if "hub" in said.get("rel", "").lower().split() and (hub := _usable(said.get("href", ""), url)):
            return hub
    return None


def _usable(target: str, url: str) -> str | None:
    if not target.strip():
        return None
    try:
        hub = urljoin(url, target.strip())
        parts = urlsplit(hub)
    except ValueError:
        return None
    return hub if parts.scheme in {"http", "https"} and parts.hostname and len(hub) <= URL_CHARACTERS_MAX else None
