"""Find the hub and the topic of a feed (WebSub, 4). The hub pushes new entries; the topic is the feed's URL at the hub."""

import re
from collections.abc import Iterator, Mapping
from html import unescape
from urllib.parse import urljoin, urlsplit

URL_CHARACTERS_MAX = 2_000

_LINK_HEADER = re.compile(r"<([^<>]{1,2000})>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:\"[^\"]*\"|[^\s;,\"]*))?)*)")
_RELATIONS = re.compile(r"(?:^|;)\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)
_LINK = re.compile(r"<(?:[\w.-]+:)?link\s([^<>]{0,4000})>", re.IGNORECASE)
# The look-behind keeps a long name without a value from being tried at each of its letters.
_ATTRIBUTE = re.compile(r"(?<![\w:.-])([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


def hub_of(head: str, headers: Mapping[str, str], url: str) -> str | None:
    """The hub that an answer names in its headers or its feed: the first that uses https, else the first.

    `head` is the feed without its entries.
    """
    named = list(_linked("hub", head, headers, url))
    return next(filter(can_be_trusted, named), None) or next(iter(named), None)


def topic_of(head: str, headers: Mapping[str, str], url: str) -> str | None:
    """The topic: the URL that an answer gives as its own (`rel="self"`); None without one."""
    return next(_linked("self", head, headers, url), None)


def can_be_trusted(hub: str) -> bool:
    """Whether we may send a secret to a hub: over https only (WebSub, 5.1)."""
    return urlsplit(hub).scheme == "https"


def linked_in_headers(relation: str, headers: Mapping[str, str], url: str) -> Iterator[str]:
    """The URLs that the header Link names with this relation (RFC 8288)."""
    for target, parameters in _LINK_HEADER.findall(headers.get("link", "")):
        relations = [quoted or plain for quoted, plain in _RELATIONS.findall(parameters)]
        if relations and relation in relations[0].lower().split() and (linked := _usable(target, url)):
            yield linked


def _linked(relation: str, head: str, headers: Mapping[str, str], url: str) -> Iterator[str]:
    """The URLs that an answer links to with this relation, those of its headers first."""
    yield from linked_in_headers(relation, headers, url)
    for link in _LINK.finditer(head):
        attributes = {name.lower(): unescape(quoted or other) for name, quoted, other in _ATTRIBUTE.findall(link[1])}
        relations = attributes.get("rel", "").lower().split()
        if relation in relations and (linked := _usable(attributes.get("href", ""), url)):
            yield linked


def _usable(target: str, url: str) -> str | None:
    if not target.strip():
        return None
    try:
        linked = urljoin(url, target.strip())
        parts = urlsplit(linked)
    except ValueError:
        return None
    is_usable = parts.scheme in {"http", "https"} and parts.hostname and len(linked) <= URL_CHARACTERS_MAX
    return linked if is_usable else None
