"""Requests to other web servers: a GET, or a POST for a hub or an engine.

Time, size and redirects are limited. Only public addresses are requested.
"""

import gzip
import io
import socket
import threading
import time
import zlib
from collections.abc import Collection, Iterable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from http.client import HTTPException
from typing import Any
from urllib.parse import quote, urlencode, urljoin, urlsplit

import urllib3
from urllib3.exceptions import ConnectTimeoutError, HTTPError, NewConnectionError, ReadTimeoutError

from stoppress.http import address
from stoppress.http.errors import Refused, TooLarge, TooManyRedirects, TooSlow, Unreachable, reason_of
from stoppress.primitives import dates

# The usual limit for the compressed and for the decompressed body, so that it stops a gzip bomb. The largest known feed has a
# fiftieth of this size.
BODY_BYTES_MAX = 10_000_000
CHUNK_BYTES = 65_536

_GZIP_MAGIC = b"\x1f\x8b"
USER_AGENT = "Stoppress/1"

# The Fetch standard allows 20; more than five redirects of a feed are a loop or a mistake.
REDIRECTS_MAX = 5
# A feed that takes longer could not be polled every minute.
CONNECT_SECONDS_MAX = 5.0
FETCH_SECONDS_MAX = 20.0
# A hub answers immediately, and verifies the subscription later.
POST_SECONDS_MAX = 10.0

_PERMANENT = {301, 308}
REDIRECTS = {301, 302, 303, 307, 308}
_REDIRECTS_OF_POST = {307, 308}
# Headers that an answer may have several times. Their values are joined by commas.
_LISTS = {"link", "x-robots-tag"}
_URL_SAFE = "/%:@!$&'()*+,;=~-._?[]"


@dataclass(frozen=True)
class Response:
    """An answer: header names in lower case, the body decompressed and perhaps incomplete.

    `url` is the URL after all redirects. `permanent_url` is the URL after the permanent redirects that precede any temporary one;
    None if there are none. `version` is 10 for HTTP/1.0 and 11 for HTTP/1.1.
    """

    status: int
    headers: dict[str, str]
    body: bytes
    url: str
    permanent_url: str | None = None
    version: int = 11


def user_agent(home: str) -> str:
    """Return the User-Agent for the feeds of a site. It contains the site's home page, so that a server's operator can find a contact."""
    return f"{USER_AGENT} (sitemap updater; +{home})"


def fetch(
    url: str,
    headers: Mapping[str, str] | None = None,
    *,
    bytes_max: int | None = None,
    seconds_max: float | None = None,
    redirects: bool = True,
    server: tuple[str, int] | None = None,
    unpack: bool = True,
) -> Response:
    """GET `url` and follow redirects. Raises FetchError. Another server does not get the header Authorization.

    `bytes_max` limits the body, both compressed and decompressed; by default BODY_BYTES_MAX. The default of `seconds_max` is
    FETCH_SECONDS_MAX. Without `redirects` the redirect itself is returned. `server` is an address and port that a user named:
    every connection goes there, even if the address is private.

    A body that the server cut off is returned incomplete: its text shows whether it is complete. Without `unpack` the body
    is returned as it was sent, compressed or not; of a body larger than `bytes_max` only the beginning.
    """
    seconds = FETCH_SECONDS_MAX if seconds_max is None else seconds_max
    statuses = REDIRECTS if redirects else set()
    return _follow("GET", url, headers or {}, seconds, statuses, bytes_max=bytes_max, server=server, unpack=unpack)


def post(url: str, form: Mapping[str, str], headers: Mapping[str, str] | None = None) -> Response:
    """POST a form. Raises FetchError, as `post_body`."""
    return post_body(url, urlencode(form).encode(), "application/x-www-form-urlencoded", headers)


def post_body(
    url: str,
    body: bytes,
    content_type: str | None,
    headers: Mapping[str, str] | None = None,
    method: str = "POST",
) -> Response:
    """POST, or PUT, a body over https, following only 307 and 308. Raises FetchError.

    Another server does not get the header Authorization.
    """
    of_body = {"Content-Type": content_type} if content_type else {}
    headers = {**of_body, "Accept": "*/*", **(headers or {})}
    return _follow(method, url, headers, POST_SECONDS_MAX, _REDIRECTS_OF_POST, body=body)


def retry_after(headers: Mapping[str, str], now: datetime) -> timedelta | None:
    """Return the wait that an answer's header `Retry-After` asks for, in seconds or as a date; None without a readable one."""
    text = headers.get("retry-after", "").strip()
    if text.isascii() and text.isdigit():
        return timedelta(seconds=int(text[:9]))
    until = dates.instant(text, dates.UTC_ZONE)
    return max(until - now, timedelta()) if until else None


def _follow(
    method: str, url: str, headers: Mapping[str, str], seconds: float, statuses: Collection[int], **options: Any
) -> Response:
    """Send a request, and send it again where redirects with these statuses lead, but never from https to http.

    `options` are those of `_send`.
    """
    deadline = time.monotonic() + seconds
    permanent_url: str | None = None
    for hop in range(REDIRECTS_MAX + 1):
        answer = _send(method, url, headers, deadline, **options)
        location = answer.headers.get("location")
        if answer.status not in statuses or not location:
            return replace(answer, permanent_url=permanent_url)
        previous, url = url, _target(url, location)
        before, after = urlsplit(previous), urlsplit(url)
        if before.scheme == "https" and after.scheme != "https":
            raise Refused(f"{previous} redirects from https to {url}, which is not https")
        if before[:2] != after[:2]:  # another server
            headers = {name: value for name, value in headers.items() if name.lower() != "authorization"}
        if answer.status in _PERMANENT and (hop == 0 or permanent_url == previous):
            permanent_url = url
    raise TooManyRedirects(f"more than {REDIRECTS_MAX} redirects, the last one to {url}")


def _target(url: str, location: str) -> str:
    """Return the URL of a Location header. `http.client` decodes the header as Latin-1, but servers send UTF-8."""
    with suppress(UnicodeError):
        location = location.encode("latin-1").decode("utf-8")
    try:
        return urljoin(url, location.strip())
    except ValueError as error:
        raise Unreachable(f"{url} redirects to an invalid URL: {error}") from None


def _send(
    method: str,
    url: str,
    headers: Mapping[str, str],
    deadline: float,
    body: bytes | None = None,
    *,
    bytes_max: int | None = None,
    server: tuple[str, int] | None = None,
    unpack: bool = True,
) -> Response:
    """Send one request and follow no redirect. Raises FetchError."""
    if method != "GET" and urlsplit(url).scheme != "https":
        raise Refused(f"{url[:200]} is not https, and the request has a secret in it")
    parts, host, port = address.split_url(url)
    pool = address.pool_at(server, parts.scheme, host) if server else _look_up(parts.scheme, host, port, deadline)
    name = f"[{host}]" if ":" in host else host
    request_headers = {
        "Host": name if port == address.PORTS[parts.scheme] else f"{name}:{port}",
        "User-Agent": USER_AGENT,
        "Accept": "application/rss+xml, application/atom+xml, application/xml;q=0.9, text/xml;q=0.9, */*;q=0.5",
        "Accept-Encoding": "gzip",
        "Connection": "close",
        **headers,
    }
    target = "?".join(quote(part, safe=_URL_SAFE) for part in (parts.path or "/", parts.query) if part)
    try:
        with _cut_at(deadline, pool):
            seconds_left = _seconds_left(deadline)
            answer = pool.urlopen(
                method,
                target,
                body=body,
                headers=request_headers,
                retries=False,
                redirect=False,
                assert_same_host=False,
                preload_content=False,
                decode_content=False,
                timeout=urllib3.Timeout(connect=min(CONNECT_SECONDS_MAX, seconds_left), read=seconds_left),
            )
            with closing(answer):
                answer_headers = {name.lower(): value for name, value in answer.headers.items()}
                # RFC 9110, 5.3: of other headers the last one counts, because a second ETag or Location is a mistake.
                answer_headers |= {name: answer.headers[name] for name in _LISTS & answer_headers.keys()}
                encoding = answer_headers.get("content-encoding", "").strip().lower()
                chunks = () if answer.status in REDIRECTS else _chunks(answer, deadline)
                read = read_body if unpack else _read_as_sent
                content = read(chunks, encoding if chunks else "", bytes_max)
                _seconds_left(deadline)  # a connection cut at the deadline may look like the end of the answer
    except (HTTPError, HTTPException, OSError, ValueError) as error:
        # In urllib3 the error for a refused connection is a subclass of the one for a connection that timed out.
        slow = isinstance(error, ConnectTimeoutError | ReadTimeoutError) and not isinstance(error, NewConnectionError)
        if slow or time.monotonic() >= deadline:
            raise TooSlow(f"{host} did not answer in time") from None
        raise Unreachable(f"{host}: {reason_of(error)}") from None
    return Response(answer.status, answer_headers, content, url, version=answer.version)


def _look_up(scheme: str, host: str, port: int, deadline: float) -> urllib3.HTTPConnectionPool:
    """Return the pool to a host, whose DNS lookup has no time-out. Raises TooSlow, and the lookup's own errors."""
    pool: Future[urllib3.HTTPConnectionPool] = Future()

    def run() -> None:
        try:
            pool.set_result(address.pool_to(scheme, host, port))
        except BaseException as error:  # noqa: BLE001 - the waiting thread raises it
            pool.set_exception(error)

    # A daemon thread does not keep the process alive.
    threading.Thread(target=run, daemon=True, name="look up").start()
    try:
        return pool.result(_seconds_left(deadline))
    except TimeoutError:
        raise TooSlow(f"the address of {host} was not found in time") from None


def _seconds_left(deadline: float) -> float:
    """Return the seconds until the deadline, which is a value of `time.monotonic`. Raises TooSlow after the deadline."""
    seconds_left = deadline - time.monotonic()
    if seconds_left <= 0:
        raise TooSlow("the request took too long")
    return seconds_left


def _chunks(answer: urllib3.BaseHTTPResponse, deadline: float) -> Iterator[bytes]:
    """Yield the body as it comes, until it ends or breaks off. Raises TooSlow and urllib3's ReadTimeoutError."""
    try:
        for chunk in answer.stream(CHUNK_BYTES, decode_content=False):
            yield chunk
            _seconds_left(deadline)
    except (HTTPError, HTTPException, OSError) as error:
        _seconds_left(deadline)
        if isinstance(error, ReadTimeoutError):
            raise


@contextmanager
def _cut_at(deadline: float, pool: urllib3.HTTPConnectionPool) -> Iterator[None]:
    """Cut the pool's connections at the deadline.

    A socket's time-out starts again with each byte: it never ends an answer, or a TLS handshake, that arrives byte by byte.
    So a duplicate of each socket is kept from the moment the socket connects. The original cannot be cut: TLS wraps
    and detaches it, and a connection releases it before the body is read.
    """
    sockets: list[socket.socket] = []

    class Connection(pool.ConnectionCls):  # type: ignore[misc, name-defined]
        def _new_conn(self) -> socket.socket:  # the only hook between connecting and the TLS handshake
            connected: socket.socket = super()._new_conn()
            sockets.append(connected.dup())
            _seconds_left(deadline)  # after the cut, nothing would close this connection
            return connected

    def cut() -> None:
        for duplicate in sockets:
            with suppress(OSError):  # closed already
                duplicate.shutdown(socket.SHUT_RDWR)

    pool.ConnectionCls = Connection
    timer = threading.Timer(max(0.0, deadline - time.monotonic()), cut)
    timer.daemon = True
    timer.start()
    try:
        yield
    finally:
        timer.cancel()
        for duplicate in sockets:
            duplicate.close()


def read_body(chunks: Iterable[bytes], encoding: str = "", bytes_max: int | None = None) -> bytes:
    """Join the chunks of a body; decompress gzip, whatever the Content-Encoding is: many servers set a wrong one.

    Gzip that breaks off is decompressed as far as it goes. Bytes after the gzip are dropped. Raises TooLarge, and Unreachable
    for damaged gzip and other encodings.
    """
    bytes_max = BODY_BYTES_MAX if bytes_max is None else bytes_max
    body = bytearray()
    for chunk in chunks:
        # Compressed bytes count too: a gzip stream that inflates to nothing may never end.
        body += chunk
        if len(body) > bytes_max:
            raise TooLarge(f"the body is larger than {bytes_max:,} bytes")
    if body.startswith(_GZIP_MAGIC):
        return _gunzip(body, bytes_max)
    if encoding not in ("", "identity", "gzip", "x-gzip"):
        raise Unreachable(f"the body has the encoding {encoding[:40]!r}, and the request accepts only gzip")
    return bytes(body)


def _read_as_sent(chunks: Iterable[bytes], _encoding: str, bytes_max: int | None) -> bytes:
    """Join the chunks of a body until it is larger than `bytes_max`."""
    bytes_max = BODY_BYTES_MAX if bytes_max is None else bytes_max
    body = bytearray()
    for chunk in chunks:
        body += chunk
        if len(body) > bytes_max:
            break
    return bytes(body)


def _gunzip(packed: bytearray, bytes_max: int) -> bytes:
    body = bytearray()
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(packed)) as file:
            while piece := file.read1(CHUNK_BYTES):
                body += piece
                if len(body) > bytes_max:
                    raise TooLarge(f"the body, decompressed, is larger than {bytes_max:,} bytes")
    except EOFError:
        pass  # it breaks off
    except (gzip.BadGzipFile, zlib.error) as error:
        if not str(error).startswith("Not a gzipped file"):  # bytes after the gzip
            raise Unreachable(f"the body is damaged gzip: {error}") from None
    return bytes(body)
