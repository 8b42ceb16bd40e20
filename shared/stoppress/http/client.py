"""The door to other people's web servers: a GET, or a form to a hub, limited in every direction, to public addresses only.

    FetchError            the fetch failed; its text is the reason, kept in the feed's item
    ├── Refused           we do not go there: scheme, port, user name, https to http, an address that is not public
    ├── TooSlow           no connection in time, or the whole fetch took too long
    ├── TooLarge          the body, decompressed, is over the limit
    ├── TooManyRedirects
    └── Unreachable       the name, the connection, the certificate or the answer was wrong

A status is no error: whoever asked decides what a 404 means.
"""

import ipaddress
import socket
import ssl
import threading
import time
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from http.client import HTTPException
from typing import Any
from urllib.parse import SplitResult, quote, urlencode, urljoin, urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError

# Who asks, and of whom to complain (R10.5): the site whose sitemaps are kept.
USER_AGENT = "Stoppress/1"

# The Fetch standard allows 20; a feed that needs more than five is a loop or a mistake (R10.2).
REDIRECTS_MAX = 5
# Decompressed, so that a gzip bomb ends here (R10.5); the largest real feed we know has a fiftieth of it.
BODY_BYTES_MAX = 10_000_000
# R10.5: ten seconds and more is no feed that could be polled every minute.
CONNECT_SECONDS_MAX = 5.0
FETCH_SECONDS_MAX = 20.0
# A hub has only to take a form; what it makes of it, it tells later.
POST_SECONDS_MAX = 10.0
CHUNK_BYTES = 65_536

PORTS = {"http": 80, "https": 443}
_PERMANENT = {301, 308}
_REDIRECTS = {301, 302, 303, 307, 308}
_REPEATING = {307, 308}  # the redirects that a POST survives
GZIP_MAGIC = b"\x1f\x8b"
_URL_SAFE = "/%:@!$&'()*+,;=~-._?[]"

# What `is_global` lets through, or did in some Python: addresses that carry another address inside, and old relays.
_NOT_PUBLIC = tuple(
    ipaddress.ip_network(network)
    for network in (
        "0.0.0.0/8",
        "100.64.0.0/10",  # carrier-grade NAT
        "169.254.0.0/16",  # link-local: the credentials of EC2, ECS and Lambda
        "192.0.0.0/24",
        "192.88.99.0/24",  # 6to4 relays
        "198.18.0.0/15",
        "240.0.0.0/4",
        "::/96",  # IPv4-compatible
        "::ffff:0:0/96",  # IPv4-mapped
        "64:ff9b::/96",  # NAT64
        "64:ff9b:1::/48",
        "2001::/32",  # Teredo
        "2001:10::/28",  # ORCHID: names, not places
        "2001:20::/28",
        "2002::/16",  # 6to4
        "3fff::/20",  # documentation
        "5f00::/16",  # segment routing
        "fec0::/10",
    )
)

Resolver = Callable[..., list[tuple[Any, ...]]]


class FetchError(Exception):
    """The fetch failed; the text is the reason."""


class Refused(FetchError):
    """A place where we do not go."""


class TooSlow(FetchError):
    """No connection in time, or the whole took too long."""


class TooLarge(FetchError):
    """The body is over the limit."""


class TooManyRedirects(FetchError):
    """More redirects than a feed has reason for."""


class Unreachable(FetchError):
    """The name, the connection, the certificate or the answer was wrong."""


@dataclass(frozen=True)
class Response:
    """An answer: header names in small letters, the body decompressed and possibly cut off by the other side.

    `url` is where it came from in the end, `permanent_url` the same as far as all redirects up to there were permanent.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    url: str
    permanent_url: str | None = None


def user_agent(home: str) -> str:
    """Who asks, for the feeds of the site with this home page: whom to write to where it is a nuisance (R10.5)."""
    return f"{USER_AGENT} (sitemap updater; +{home})"


def fetch(url: str, headers: Mapping[str, str] | None = None) -> Response:
    """GET `url`, redirects followed. Raises FetchError.

    A body that the other side cut off is returned as far as it came: what it holds tells whether it is whole.
    """
    deadline = time.monotonic() + FETCH_SECONDS_MAX
    permanent_url: str | None = None
    for hop in range(REDIRECTS_MAX + 1):
        answer = _sent("GET", url, headers or {}, deadline)
        location = answer.headers.get("location")
        if answer.status not in _REDIRECTS or not location:
            return Response(answer.status, answer.headers, answer.body, url, permanent_url)
        previous, url = url, _target(url, location)
        if urlsplit(previous).scheme == "https" and urlsplit(url).scheme != "https":
            raise Refused(f"{previous} redirects from https to {url}")
        if answer.status in _PERMANENT and (hop == 0 or permanent_url == previous):
            permanent_url = url
    raise TooManyRedirects(f"more than {REDIRECTS_MAX} redirects, the last one to {url}")


def post(url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Response:
    """POST a form that has a secret in it: over https alone, also where a 307 or 308 leads; no other redirect is followed.

    Raises FetchError.
    """
    deadline = time.monotonic() + POST_SECONDS_MAX
    said = {"Content-Type": "application/x-www-form-urlencoded", "Accept": "*/*", **(headers or {})}
    for _ in range(REDIRECTS_MAX + 1):
        if urlsplit(url).scheme != "https":
            raise Refused(f"{url[:200]} is not https, and the form has a secret in it")
        answer = _sent("POST", url, said, deadline, urlencode(form).encode())
        location = answer.headers.get("location")
        if answer.status not in _REPEATING or not location:
            return answer
        url = _target(url, location)
    raise TooManyRedirects(f"more than {REDIRECTS_MAX} redirects, the last one to {url}")


def pool_to(scheme: str, host: str, port: int, resolve: Resolver = socket.getaddrinfo) -> urllib3.HTTPConnectionPool:
    """Connections to one address of the host, every address of it having been found public.

    The name is looked up once and the connection goes to the address that was checked, so that an answer which changes
    in between does not get through; the certificate is checked against the name. Raises Refused, Unreachable.
    """
    if PORTS.get(scheme) != port:
        raise Refused(f"{scheme}://{host}:{port}: only http on port 80 and https on port 443 are fetched")
    try:
        found = resolve(host, port, type=socket.SOCK_STREAM)
        addresses = {ipaddress.ip_address(row[4][0]) for row in found}
    except (OSError, UnicodeError, ValueError) as error:
        raise Unreachable(f"{host} has no address: {error}") from None
    if not addresses:
        raise Unreachable(f"{host} has no address")
    for address in addresses:
        if not is_public(address):
            raise Refused(f"{host} has the address {address}, which is not public")
    # IPv4 first: a Lambda function outside a VPC has no way to IPv6.
    address = min(addresses, key=lambda address: (address.version, int(address)))
    if scheme == "http":
        return urllib3.HTTPConnectionPool(str(address), port, maxsize=1)
    return urllib3.HTTPSConnectionPool(str(address), port, maxsize=1, ssl_context=_tls(), server_hostname=host)


def is_public(address: ipaddress.IPv4Address | ipaddress.IPv6Address) -> bool:
    """Whether an address belongs to the public Internet, and hides no other address (R11.2)."""
    if not address.is_global or address.is_multicast or address.is_reserved:
        return False
    return not any(address in network for network in _NOT_PUBLIC if network.version == address.version)


@cache
def _tls() -> ssl.SSLContext:
    # Loading the certificates takes longer than many a fetch; checks of certificate and name are its defaults.
    return ssl.create_default_context()


def _target(url: str, location: str) -> str:
    """Where a redirect leads. A Location is Latin-1 to http.client, though mostly UTF-8 where it is not ASCII."""
    with suppress(UnicodeError):
        location = location.encode("latin-1").decode("utf-8")
    try:
        return urljoin(url, location.strip())
    except ValueError as error:
        raise Unreachable(f"{url} redirects to what is not a URL: {error}") from None


def _split(url: str) -> tuple[SplitResult, str, int]:
    """The URL's parts, host and port. Raises Refused for what is no plain http or https URL."""
    try:
        parts = urlsplit(url)
        port = parts.port
        host = (parts.hostname or "").encode("idna" if "." in (parts.hostname or "") else "ascii").decode()
    except (ValueError, UnicodeError) as error:
        raise Refused(f"{url[:200]!r} is not a URL: {error}") from None
    if parts.scheme not in PORTS or not host:
        raise Refused(f"{url[:200]!r} is not an http or https URL")
    if parts.username is not None or parts.password is not None:
        raise Refused(f"the URL of {host} has a user name or password in it")
    return parts, host, PORTS[parts.scheme] if port is None else port


def _sent(method: str, url: str, headers: Mapping[str, str], deadline: float, body: bytes | None = None) -> Response:
    """One request, no redirect followed."""
    parts, host, port = _split(url)
    pool = pool_to(parts.scheme, host, port)
    name = f"[{host}]" if ":" in host else host
    sent = {
        "Host": name if port == PORTS[parts.scheme] else f"{name}:{port}",
        "User-Agent": USER_AGENT,
        "Accept": "application/rss+xml, application/atom+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5",
        "Accept-Encoding": "gzip",
        "Connection": "close",
        **headers,
    }
    target = "?".join(quote(part, safe=_URL_SAFE) for part in (parts.path or "/", parts.query) if part)
    stop = _Stop(pool, deadline)
    try:
        left = _left(deadline)
        answer = pool.urlopen(
            method,
            target,
            body=body,
            headers=sent,
            retries=False,
            redirect=False,
            assert_same_host=False,
            preload_content=False,
            decode_content=False,
            timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS_MAX, left), read=left),
        )
        try:
            found = {name.lower(): value for name, value in answer.headers.items()}
            received = b"" if answer.status in _REDIRECTS else _body(answer, found, deadline)
            _left(deadline)  # a connection cut at the deadline may look like the end of the answer
        finally:
            answer.close()
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        # A refused connection is, to urllib3, a kind of connection that timed out.
        slow = isinstance(error, ConnectTimeoutError | ReadTimeoutError) and not isinstance(error, NewConnectionError)
        if slow or time.monotonic() >= deadline:
            raise TooSlow(f"{host} did not answer in time") from None
        raise Unreachable(f"{host}: {_reason(error)}") from None
    finally:
        stop.cancel()
    return Response(answer.status, found, received, url)


def _left(deadline: float) -> float:
    left = deadline - time.monotonic()
    if left <= 0:
        raise TooSlow("it took longer than it may")
    return left


class _Stop:
    """Cuts the pool's connections at the deadline.

    A time-out of the socket counts from one byte to the next, and so never ends an answer, or a TLS handshake, that drips in
    byte by byte. What is kept is a duplicate of each socket from the moment of connecting: wrapping a socket in TLS takes it
    apart, and a connection lets go of its own before the body is read.
    """

    def __init__(self, pool: urllib3.HTTPConnectionPool, deadline: float) -> None:
        self._sockets: list[socket.socket] = []
        self._deadline = deadline
        self._make = pool.ConnectionCls
        pool.ConnectionCls = self._kept  # type: ignore[assignment]
        self._timer = threading.Timer(max(0.0, deadline - time.monotonic()), self._cut)
        self._timer.daemon = True
        self._timer.start()

    def _kept(self, *args: Any, **kwargs: Any) -> Any:
        connection: Any = self._make(*args, **kwargs)
        connect = connection._new_conn  # noqa: SLF001 - the one place between connecting and the TLS handshake

        def connect_and_keep() -> socket.socket:
            made: socket.socket = connect()
            self._sockets.append(made.dup())
            _left(self._deadline)  # nobody cuts what is connected after it
            return made

        connection._new_conn = connect_and_keep  # noqa: SLF001
        return connection

    def _cut(self) -> None:
        for one in self._sockets:
            with suppress(OSError):  # closed already
                one.shutdown(socket.SHUT_RDWR)

    def cancel(self) -> None:
        self._timer.cancel()
        for one in self._sockets:
            one.close()


def _body(answer: urllib3.BaseHTTPResponse, headers: Mapping[str, str], deadline: float) -> bytes:
    """The body, decompressed where it is gzip, whatever its header says (many servers get that wrong)."""
    encoding = headers.get("content-encoding", "").strip().lower()
    chunks = _chunks(answer, deadline)
    first = next(chunks, b"")
    if first.startswith(GZIP_MAGIC):
        return inflated(first, chunks)
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise Unreachable(f"the body is encoded as {encoding[:40]!r}, which was not asked for")
    return b"".join([first, *chunks])


def _chunks(answer: urllib3.BaseHTTPResponse, deadline: float) -> Iterator[bytes]:
    """The body as it comes, until it ends or breaks off. Raises TooLarge."""
    size_bytes = 0
    try:
        for chunk in answer.stream(CHUNK_BYTES, decode_content=False):
            # As it comes: gzip that inflates to nothing has no end either.
            size_bytes += len(chunk)
            if size_bytes > BODY_BYTES_MAX:
                raise TooLarge(f"the body is larger than {BODY_BYTES_MAX:,} bytes")
            yield chunk
            _left(deadline)
    except (HTTPError, HTTPException, OSError) as error:
        _left(deadline)
        if isinstance(error, ReadTimeoutError):
            raise


def inflated(first: bytes, chunks: Iterator[bytes]) -> bytes:
    """Gzip decompressed, as much as there is of it, never more than the limit; what follows the stream is left out.

    Raises TooLarge, and Unreachable for damage.
    """
    received = bytearray()
    inflate = zlib.decompressobj(wbits=31)
    chunk: bytes | None = first
    try:
        while chunk is not None:
            received += inflate.decompress(chunk, BODY_BYTES_MAX + 1 - len(received))
            if len(received) > BODY_BYTES_MAX:
                raise TooLarge(f"the body, decompressed, is larger than {BODY_BYTES_MAX:,} bytes")
            if not inflate.eof:
                chunk = next(chunks, None)
                continue
            # The next part may begin with the next piece, and its first two bytes be in two of them.
            left = inflate.unused_data
            while len(left) < len(GZIP_MAGIC) and (more := next(chunks, b"")):
                left += more
            chunk, inflate = left if left.startswith(GZIP_MAGIC) else None, zlib.decompressobj(wbits=31)
    except zlib.error as error:
        raise Unreachable(f"the body is damaged gzip: {error}") from None
    return bytes(received)


def _reason(error: Exception) -> str:
    """The last sentence of urllib3's nested errors, without the object that raised it."""
    return str(error).rsplit(">: ", 1)[-1][:300] or type(error).__name__
