"""The hub that a feed names, and what the feed is called there: who tells of news, so that nobody has to ask (WebSub, 4 Discovery)."""

import re
from collections.abc import Iterator, Mapping
from html import unescape
from urllib.parse import urljoin, urlsplit

URL_CHARACTERS_MAX = 2_000

_LINK_HEADER = re.compile(r"<([^<>]{1,2000})>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:\"[^\"]*\"|[^\s;,\"]*))?)*)")
_RELATIONS = re.compile(r"(?:^|;)\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)
_LINK = re.compile(r"<(?:[\w.-]+:)?link\s([^<>]{0,4000})>", re.IGNORECASE)
# From the start of a name alone: else a long name without a value is tried from each of its letters.
_ATTRIBUTE = re.compile(r"(?<![\w:.-])([\w:.-]+)\s*=\s*(?:\"([^\"]*)\"|'([^']*)')")


def hub_of(head: str, headers: Mapping[str, str], url: str) -> str | None:
    """The hub that an answer names, in its headers or else in its feed: the first that can be trusted with a secret, else the first.

    `head` is the feed without its entries.
    """
    named = list(_linked("hub", head, headers, url))
    return next(filter(can_be_trusted, named), None) or next(iter(named), None)


def topic_of(head: str, headers: Mapping[str, str], url: str) -> str | None:
    """What an answer says its own URL is, under which its hub knows it."""
    return next(_linked("self", head, headers, url), None)


def can_be_trusted(hub: str) -> bool:
    """Whether a secret may be told to a hub: over https only (WebSub, 5.1)."""
    return urlsplit(hub).scheme == "https"


def _linked(relation: str, head: str, headers: Mapping[str, str], url: str) -> Iterator[str]:
    """The URLs that an answer links to in this relation, those of its headers first."""
    for target, parameters in _LINK_HEADER.findall(headers.get("link", "")):
        relations = [quoted or plain for quoted, plain in _RELATIONS.findall(parameters)]
        if relations and relation in relations[0].lower().split() and (found := _usable(target, url)):
            yield found
    for link in _LINK.finditer(head):
        said = {name.lower(): unescape(one or other) for name, one, other in _ATTRIBUTE.findall(link[1])}
        if relation in said.get("rel", "").lower().split() and (found := _usable(said.get("href", ""), url)):
            yield found


def _usable(target: str, url: str) -> str | None:
    if not target.strip():
        return None
    try:
        found = urljoin(url, target.strip())
        parts = urlsplit(found)
    except ValueError:
        return None
    return found if parts.scheme in {"http", "https"} and parts.hostname and len(found) <= URL_CHARACTERS_MAX else None
