"""Canonical URLs of pages, without session ids and tracking parameters, and the targets of `Link` headers.

w3lib, url-normalize and yarl are not used: they change more of a URL than RFC 3986, 6.2.2 allows. Search engines fetch the
URL as listed.
"""

import hashlib
import re
import string
from collections.abc import Iterator, Mapping
from urllib.parse import quote, urljoin, urlsplit, urlunsplit

# sitemaps.org: "less than 2,048 characters", counted on the final form (R1.4).
LOC_CHARACTERS_MAX = 2_047

# Parameters about the reader or the referrer, not about the page (R1.6).
_TRACKING = re.compile(
    r"(?:utm_\w+|xtor|partner|emc|wt_mc|fbclid|gclid|dclid|msclkid|mc_cid|mc_eid|igshid|ocid|cmpid|ns_\w+"
    r"|at_(?:medium|campaign|custom\w*|format|link\w*|ptr\w*|bbc\w*)|jsessionid|phpsessid|aspsessionid\w*)",
    re.IGNORECASE,
)
# A servlet's session, at the end of any segment of the path.
_SESSION = re.compile(r";jsessionid=[^/;]*", re.IGNORECASE)
_DEFAULT_PORTS = {"http": 80, "https": 443}
# RFC 3986: characters that need no escape in a path and in a query. "%" is one of them, so nothing is encoded twice (R1.5).
_PATH_SAFE = "/%:@!$&'()*+,;=~-._"
_QUERY_SAFE = _PATH_SAFE + "?"
_HOST = re.compile(r"[a-z0-9_][a-z0-9_-]*(?:\.[a-z0-9_][a-z0-9_-]*)*\.?")
_CONTROL = re.compile("[\x00-\x1f\x7f]")
_ESCAPE = re.compile(r"%([0-9A-Fa-f]{2})")
# RFC 3986, 2.3: characters that mean the same escaped and plain.
_UNRESERVED = frozenset(string.ascii_letters + string.digits + "-._~")
_LONE_PERCENT = re.compile(r"%(?![0-9A-Fa-f]{2})")
_LINK_HEADER = re.compile(r"<([^<>]{1,8000})>((?:\s*;\s*[\w*-]+\s*(?:=\s*(?:\"(?:[^\"\\]|\\.)*\"|[^\s;,\"]*))?)*)")
_RELATIONS = re.compile(r"(?:^|;)\s*rel\s*=\s*(?:\"([^\"]*)\"|([^\s;,\"]+))", re.IGNORECASE)


def canonical(url: str, scheme: str | None = None, *, keep_query: bool = False) -> str:
    """Return the canonical form of a page's URL, with `scheme` if given.

    The URL is absolute http(s), with the host in small letters and punycode. It has no default port, fragment, tracking
    parameter or session. Characters that are not allowed become percent-encoded UTF-8; existing escapes stay. With
    `keep_query` every parameter stays, because the URL of an image or a video may be signed. Raises ValueError, with what to
    change.
    """
    shown = repr(url[:120])
    if _CONTROL.search(url.strip()):
        raise ValueError(f"{shown} has a line break or another control character in it: remove it")
    try:
        parts = urlsplit(url.strip())
        port = parts.port
    except ValueError as error:
        raise ValueError(f"{shown} is not a URL: {error}") from None
    if parts.scheme not in _DEFAULT_PORTS:
        raise ValueError(f"{shown} is not an absolute http or https URL")
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{shown} has a user name or password in it")
    if not parts.hostname:
        raise ValueError(f"{shown} has no host")
    authority = _host(parts.hostname, shown)
    if port is not None and port != _DEFAULT_PORTS[parts.scheme]:
        authority = f"{authority}:{port}"
    try:
        path = _encode((parts.path if keep_query else _SESSION.sub("", parts.path)) or "/", _PATH_SAFE)
        query = _encode(parts.query if keep_query else _without_tracking(parts.query), _QUERY_SAFE)
    except UnicodeEncodeError:
        raise ValueError(f"{shown} has half a character in it (a lone surrogate)") from None
    result = urlunsplit((scheme or parts.scheme, authority, path, query, ""))
    if len(result) > LOC_CHARACTERS_MAX:
        raise ValueError(f"{shown}… is {len(result)} characters long; a sitemap takes at most {LOC_CHARACTERS_MAX}")
    return result


def linked(url: str, base: str, *, keep_query: bool = False) -> str:
    """Return the canonical form of a URL, absolute or relative, on the page `base`. On the page's host it gets the page's scheme.

    Raises ValueError, with what to change.
    """
    target = url.strip()
    if not target:
        raise ValueError("is empty: give a URL")
    if not _CONTROL.search(target):  # urljoin would drop a line break; `canonical` rejects it
        try:
            target = urljoin(base, target)
        except ValueError as error:
            raise ValueError(f"{url[:120]!r} is not a URL: {error}") from None
    result = canonical(target, keep_query=keep_query)
    if host_of(result) != host_of(base):
        return result
    return canonical(result, urlsplit(base).scheme, keep_query=keep_query)


def on_site(url: str, host: str) -> str:
    """Return a canonical URL, changed to https if it is on this host. The table stores https URLs, whatever the site's scheme."""
    if url.startswith("https:") or host_of(url) != host:
        return url
    return canonical(url, "https")


def host_of(url: str) -> str:
    """Return the host of a canonical URL, with the port if it is not the default."""
    return urlsplit(url).netloc


def identity(url: str) -> str:
    """Return the identity of a page: the same text for each equivalent spelling of its canonical URL (RFC 3986, 6.2.2)."""
    if "%" not in url and "/." not in url:
        return url
    parts = urlsplit(plain_escapes(url))
    return urlunsplit(parts._replace(path=_without_dots(parts.path)))


def path_identity(path: str) -> str:
    """Return a path, with or without escapes, as `identity` spells it."""
    return _without_dots(plain_escapes(_encode(path, _PATH_SAFE)))


def plain_escapes(text: str) -> str:
    """Return a text with escapes in capitals, and without unnecessary escapes (RFC 3986, 6.2.2.1 and 6.2.2.2)."""
    return _ESCAPE.sub(
        lambda escape: plain if (plain := chr(int(escape[1], 16))) in _UNRESERVED else escape[0].upper(), text
    )


def key_of(url: str) -> str:
    """Return a page's key in the table: 128 bits of SHA-256 of its identity, in hexadecimal."""
    return hashlib.sha256(identity(url).encode()).hexdigest()[:32]


def _without_dots(path: str) -> str:
    """Return a path without `.` and `..` (RFC 3986, 5.2.4)."""
    kept: list[str] = []
    segments = path.split("/")
    for segment in segments:
        if segment == ".." and len(kept) > 1:
            kept.pop()
        elif segment not in (".", ".."):
            kept.append(segment)
    return "/".join(kept) + ("/" if segments[-1] in (".", "..") else "")


def _host(host: str, shown: str) -> str:
    if host.isascii():
        if not _HOST.fullmatch(host):
            raise ValueError(f"{shown} has no valid host name")
        return host.rstrip(".")
    import idna  # has large tables, which ASCII hosts do not need

    try:
        return idna.encode(host, uts46=True).decode()
    except idna.IDNAError:
        raise ValueError(f"{shown} has no valid host name") from None


def _without_tracking(query: str) -> str:
    pairs = query.split("&")
    return "&".join(pair for pair in pairs if pair and not _TRACKING.fullmatch(pair.split("=", 1)[0]))


def _encode(part: str, safe: str) -> str:
    return quote(_LONE_PERCENT.sub("%25", part), safe=safe)


def link_targets(relation: str, headers: Mapping[str, str]) -> Iterator[str]:
    """Yield the targets in the header Link with this relation (RFC 8288), perhaps relative."""
    for target, parameters in _LINK_HEADER.findall(headers.get("link", "")):
        relations = [quoted or plain for quoted, plain in _RELATIONS.findall(parameters)]
        if relations and relation in relations[0].lower().split():
            yield target
