"""The HTTP client, against a server on loopback whose answers a test sets byte by byte."""

import gzip
import re
import socket
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
import urllib3

from stoppress.http import address, client, errors
from stoppress.http.client import BODY_BYTES_MAX
from tests.support.nginx import certificate_for

HOST = "http://www.example.com"
ANSWER = b"HTTP/1.1 200 OK\r\n"
POOL_TO = address.pool_to
HANDSHAKE = b"\x16\x03\x03\x40\x00"  # the start of a TLS handshake of 16 KB


class Origin:
    """A server that answers each path with fixed bytes, or calls a function with the connection.

    `connected` may do so before a request comes.
    """

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, bytes | Callable[[socket.socket], None]] = {}
        self.connected: Callable[[socket.socket], None] = lambda connection: None
        self.requests: list[str] = []
        self.closing = threading.Event()
        self._tls = tls
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listener.getsockname()[1]
        threading.Thread(target=self._serve, daemon=True).start()

    def answer(self, path: str, body: bytes = b"", status: str = "200 OK", **headers: str) -> None:
        lines = [f"HTTP/1.1 {status}", *(f"{name.replace('_', '-')}: {value}" for name, value in headers.items())]
        if "content_length" not in headers:
            lines.append(f"content-length: {len(body)}")
        self.answers[path] = "\r\n".join([*lines, "", ""]).encode("latin-1") + body

    def close(self) -> None:
        self.closing.set()
        with suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)  # unlike close, it ends the wait for a connection
        self._listener.close()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with suppress(OSError), connection:
            self.connected(connection)
            served = self._tls.wrap_socket(connection, server_side=True) if self._tls else connection
            with served:
                request = b""
                while b"\r\n\r\n" not in request:
                    request += served.recv(65_536)
                head, _, body = request.partition(b"\r\n\r\n")
                length = re.search(rb"(?i)content-length: (\d+)", head)
                while length and len(body) < int(length[1]):
                    request, body = request + (more := served.recv(65_536)), body + more
                self.requests.append(request.decode("latin-1"))
                answer = self.answers[request.decode("latin-1").split(" ")[1]]
                if callable(answer):
                    answer(served)
                else:
                    served.sendall(answer)


@pytest.fixture
def origin(monkeypatch: pytest.MonkeyPatch) -> Iterator[Origin]:
    """Yield a server to which every host and scheme leads."""
    server = Origin()
    monkeypatch.setattr(address, "pool_to", lambda *_: urllib3.HTTPConnectionPool("127.0.0.1", server.port))
    yield server
    server.close()


def test_an_answer_has_its_headers_and_an_etag_is_sent_back_unchanged(origin: Origin) -> None:
    etag, twice = "W/\"caf\xe9 'quoted'\"", b"x-robots-tag: noindex\r\nX-Robots-Tag: otherbot: nofollow\r\netag: 1\r\n"
    headers = twice + f"ETag: {etag}\r\nLast-Modified: Fri\r\ncontent-length: 6\r\n\r\n".encode("latin-1")
    origin.answers["/feed?a=1&b=%20x"] = b"HTTP/1.1 200 OK\r\n" + headers + b"<rss/>"
    url = f"{HOST}/feed?a=1&b=%20x#top"

    answer = client.fetch(url)
    assert (answer.status, answer.body, answer.headers["last-modified"]) == (200, b"<rss/>", "Fri")
    assert (answer.url, answer.permanent_url) == (url, None)
    # A repeated header is a list if it may be one; otherwise the last value counts.
    assert (answer.headers["x-robots-tag"], answer.headers["etag"]) == ("noindex, otherbot: nofollow", etag)

    client.fetch(url, {"If-None-Match": etag})
    request = origin.requests[1]
    assert "\r\nHost: www.example.com\r\n" in request
    assert f"\r\nIf-None-Match: {etag}\r\n" in request
    assert f"\r\nUser-Agent: {client.USER_AGENT}\r\n" in request


def test_an_address_beyond_ascii_is_escaped_once(origin: Origin) -> None:
    origin.answer("/fl%C3%BCt%20%5Ba?q=%C3%A9%26", b"found")

    assert client.fetch(f"{HOST}/flüt%20%5Ba?q=é%26").body == b"found"


def test_a_redirect_is_returned_if_it_is_not_to_be_followed(origin: Origin) -> None:
    origin.answer("/page", status="301 Moved Permanently", location="/other")

    answer = client.fetch(f"{HOST}/page", redirects=False)

    assert (answer.status, answer.headers["location"], len(origin.requests)) == (301, "/other", 1)


def test_a_user_may_set_the_servers_address_even_a_private_one(origin: Origin) -> None:
    origin.answer("/page", b"staging")

    assert client.fetch(f"{HOST}/page", server=("127.0.0.1", origin.port)).body == b"staging"
    assert "\r\nHost: www.example.com\r\n" in origin.requests[0]


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("600", 600),
        (" Fri, 20 Nov 2026 10:00:30 GMT", 7_200),
        ("Fri, 20 Nov 2020 10:00:30 GMT", 0),
        ("999999999999999", 999_999_999),
        *((text, None) for text in ("", "soon", "-5", "²")),
    ],
)
def test_retry_after_may_be_seconds_or_a_date(text: str, seconds: int | None) -> None:
    wait = client.retry_after({"retry-after": text}, datetime(2026, 11, 20, 8, 0, 30, tzinfo=UTC))

    assert wait == (None if seconds is None else timedelta(seconds=seconds))


# ── a form for a hub ──

HUB, FORM = "https://hub.example.net", {"hub.mode": "subscribe", "hub.topic": "https://www.example.com/a?b=c&d"}


@pytest.mark.parametrize(
    ("status", "goes_there"),
    [("301 Moved", 0), ("302 Found", 0), ("303 See Other", 0), ("307 Temporary", 1), ("308 Permanent", 1)],
)
def test_a_form_follows_only_redirects_that_repeat_the_request(origin: Origin, status: str, goes_there: int) -> None:
    origin.answer("/hub?a=1", status=status, location="/new")
    origin.answer("/new", b"yes", status="202 Accepted")

    answer = client.post(f"{HUB}/hub?a=1", FORM, {"User-Agent": "Stoppress/1 (test)"})

    assert (answer.status, answer.body) == ((202, b"yes") if goes_there else (int(status[:3]), b""))
    assert [request.split(" ")[1] for request in origin.requests] == ["/hub?a=1", "/new"][: 1 + goes_there]
    for request in origin.requests:
        assert request.startswith("POST /")
        assert "\r\nContent-Type: application/x-www-form-urlencoded\r\n" in request
        assert "\r\nUser-Agent: Stoppress/1 (test)\r\n" in request
        assert request.endswith("hub.mode=subscribe&hub.topic=https%3A%2F%2Fwww.example.com%2Fa%3Fb%3Dc%26d")


@pytest.mark.parametrize("url", ["http://hub.example.net/hub", "ftp://hub.example.net/", "hub"])
def test_a_form_with_a_secret_is_sent_over_https_only(origin: Origin, url: str) -> None:
    origin.answer("/hub", status="307 Temporary Redirect", location="http://hub.example.net/plain")

    for target in (url, f"{HUB}/hub"):
        with pytest.raises(errors.Refused, match="is not https"):
            client.post(target, FORM)
    assert [request.split(" ")[1] for request in origin.requests] == ["/hub"]


def test_permanent_redirects_are_reported_up_to_the_first_temporary_one(origin: Origin) -> None:
    origin.answer("/1", status="301 Moved", location="/2")
    origin.answer("/2", status="308 Moved", location="https://new.example.com/3")
    origin.answer("/3", status="302 Found", location="4")
    origin.answer("/4", status="301 Moved", location="/5")
    origin.answer("/5", b"here")

    answer = client.fetch(f"{HOST}/1")

    assert (answer.body, answer.url) == (b"here", "https://new.example.com/5")
    assert answer.permanent_url == "https://new.example.com/3"


@pytest.mark.parametrize(
    ("location", "keeps_key"),
    [("/there", True), ("http://www.example.net/there", False), ("https://www.example.com/there", False)],
)
def test_a_redirect_to_another_server_does_not_forward_the_key(origin: Origin, location: str, keeps_key: bool) -> None:
    origin.answer("/here", status="302 Found", location=location)
    origin.answer("/there", b"there")

    assert client.fetch(f"{HOST}/here", {"authorization": "Bearer key", "X-Other": "1"}).body == b"there"

    first, second = origin.requests
    assert "\r\nauthorization: Bearer key\r\n" in first
    assert ("authorization" in second) is keeps_key
    assert "\r\nX-Other: 1\r\n" in second


@pytest.mark.parametrize("send", [client.fetch, lambda url: client.post(url, FORM)], ids=["GET", "POST"])
def test_five_redirects_are_followed_and_no_more(origin: Origin, send: Callable[[str], client.Response]) -> None:
    for number in range(6):
        origin.answer(f"/{number}", status="307 Temporary Redirect", location=f"/{number + 1}")
    origin.answer("/6", b"here")

    assert send(f"{HUB}/1").body == b"here"
    with pytest.raises(errors.TooManyRedirects):
        send(f"{HUB}/0")


@pytest.mark.parametrize(
    "location",
    [
        "http://www.example.com/b", "file:///etc/hostname", "//user:secret@www.example.com/b", "https://[::1", "gopher://x",
        "https://x:y/",
    ],
)  # fmt: skip
def test_a_redirect_to_a_forbidden_address_is_refused(origin: Origin, location: str) -> None:
    origin.answer("/a", status="302 Found", location=location)

    with pytest.raises((errors.Refused, errors.Unreachable)):
        client.fetch("https://www.example.com/a")
    assert len(origin.requests) == 1


def test_gzip_is_detected_by_its_bytes(origin: Origin) -> None:
    packed = gzip.compress(b"<rss/>")
    origin.answer("/declared", packed, content_encoding="gzip")
    origin.answer("/undeclared", packed)
    origin.answer("/declared-wrongly", b"<rss/>", content_encoding="gzip")
    origin.answer("/with-a-greeting", packed + b"<!-- cached -->", content_encoding="gzip")
    origin.answer("/in-two-parts", gzip.compress(b"<r") + gzip.compress(b"ss/>"), content_encoding="gzip")

    for path in ("/declared", "/undeclared", "/declared-wrongly", "/with-a-greeting", "/in-two-parts"):
        assert client.fetch(HOST + path).body == b"<rss/>"


def test_other_encodings_and_gzip_bombs_are_refused(origin: Origin) -> None:
    origin.answer("/brotli", b"\x00\x01", content_encoding="br")
    origin.answer("/bomb", gzip.compress(b"\0" * (BODY_BYTES_MAX + 1)), content_encoding="gzip")
    origin.answer("/large", gzip.compress(b"\0" * BODY_BYTES_MAX), content_encoding="gzip")

    with pytest.raises(errors.Unreachable, match="'br'"):
        client.fetch(f"{HOST}/brotli")
    with pytest.raises(errors.TooLarge):
        client.fetch(f"{HOST}/bomb")
    assert len(client.fetch(f"{HOST}/large").body) == BODY_BYTES_MAX


def test_a_truncated_body_is_returned(origin: Origin) -> None:
    origin.answer("/feed", b"<rss><channel>", content_length="5000")
    origin.answers["/chunked"] = b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n5\r\n<rss>\r\n50\r\n<chan"
    origin.answer("/packed", gzip.compress(b"<rss>" * 5_000)[:-40], content_encoding="gzip")

    assert client.fetch(f"{HOST}/feed").body == b"<rss><channel>"
    assert client.fetch(f"{HOST}/chunked").body.startswith(b"<rss>")
    assert client.fetch(f"{HOST}/packed").body.startswith(b"<rss><rss>")


@pytest.mark.parametrize(
    ("start", "drop"), [(ANSWER + b"x-slow: ", b"x"), (ANSWER + b"\r\n", b"x"), (b"", b"x"), (HANDSHAKE, b"\x02")]
)
def test_a_slow_answer_or_handshake_ends_at_the_deadline(
    origin: Origin, monkeypatch: pytest.MonkeyPatch, start: bytes, drop: bytes
) -> None:
    def drip(connection: socket.socket) -> None:
        connection.sendall(start)
        while not origin.closing.wait(0.01):
            connection.sendall(drop)

    origin.answers["/feed"] = drip
    if start == HANDSHAKE:
        origin.connected = drip
        monkeypatch.setattr(address, "pool_to", lambda *_: urllib3.HTTPSConnectionPool("127.0.0.1", origin.port))
    monkeypatch.setattr(client, "FETCH_SECONDS_MAX", 0.2)

    with pytest.raises(errors.TooSlow):
        client.fetch(f"{HOST}/feed")


ENDLESS: dict[str, tuple[bytes, bytes, type[Exception] | None]] = {
    "body": (ANSWER + b"\r\n", b"x" * 65_536, errors.TooLarge),
    "one header": (ANSWER + b"x-one: ", b"x" * 65_536, errors.Unreachable),
    "many headers": (ANSWER, b"x-more: 1\r\n" * 1_000, errors.Unreachable),
    "continue": (b"", b"HTTP/1.1 100 Continue\r\n\r\n" * 1_000, errors.TooSlow),
    "gzip of nothing": (ANSWER + b"content-encoding: gzip\r\n\r\n", gzip.compress(b"") * 1_000, errors.TooLarge),
    "chunks": (ANSWER + b"transfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n" * 4_096, errors.TooLarge),
    "length of a chunk": (ANSWER + b"transfer-encoding: chunked\r\n\r\n", b"0" * 65_536, None),
}


@pytest.mark.parametrize(("start", "more", "error"), ENDLESS.values(), ids=ENDLESS)
def test_an_answer_without_end_ends_at_a_limit(
    origin: Origin, monkeypatch: pytest.MonkeyPatch, start: bytes, more: bytes, error: type[Exception] | None
) -> None:
    poured: list[int] = []

    def pour(connection: socket.socket) -> None:
        connection.sendall(start)
        while not origin.closing.is_set():
            connection.sendall(more)
            poured.append(len(more))

    origin.answers["/feed"] = pour
    monkeypatch.setattr("stoppress.http.client.BODY_BYTES_MAX", 300_000)
    monkeypatch.setattr(client, "FETCH_SECONDS_MAX", 0.3 if error is errors.TooSlow else 20.0)

    if error is None:  # and nothing is kept in memory, apart from the sockets' buffers
        assert client.fetch(f"{HOST}/feed").body == b""
        assert sum(poured) < 10_000_000
    else:
        with pytest.raises(error):
            client.fetch(f"{HOST}/feed")


@pytest.mark.parametrize("answer", [b"", b"SSH-2.0-OpenSSH_9.2\r\n", b"HTTP/1.1 abc\r\n\r\n"])
def test_an_invalid_answer_is_unreachable(origin: Origin, answer: bytes) -> None:
    origin.answers["/feed"] = answer

    with pytest.raises(errors.Unreachable):
        client.fetch(f"{HOST}/feed")


def test_a_server_that_refuses_connections_is_unreachable(origin: Origin) -> None:
    origin.close()

    with pytest.raises(errors.Unreachable, match=r"www\.example\.com"):
        client.fetch(f"{HOST}/feed")


NOT_PUBLIC = """
    127.0.0.1 127.8.8.8 0.0.0.0 0.1.2.3 10.0.0.1 172.16.0.1 172.31.255.255 192.168.1.1 169.254.169.254 169.254.170.2
    100.64.0.1 100.127.255.255 192.0.0.8 192.0.2.1 192.88.99.1 198.18.0.1 198.51.100.1 203.0.113.1 224.0.0.1
    239.255.255.250 240.0.0.1 255.255.255.255
    :: ::1 ::7f00:1 ::ffff:127.0.0.1 ::ffff:8.8.8.8 64:ff9b::7f00:1 64:ff9b::808:808 64:ff9b:1::1 2001::1 2001:db8::1
    2002:7f00:1:: fc00::1 fd00:ec2::254 fe80::1 fe80::1%eth0 fec0::1 ff02::1 100::1 ::ffff:0:7f00:1 3fff::1 5f00::1
    2001:10::1 2001:20::1
""".split()


def answers(*addresses: str) -> Callable[..., list[tuple[Any, ...]]]:
    return lambda host, port, **_: [(None, None, None, "", (address, port)) for address in addresses]


@pytest.mark.parametrize("ip", NOT_PUBLIC)
def test_an_address_that_is_not_public_is_refused(ip: str) -> None:
    for addresses in ((ip,), ("8.8.8.8", ip)):
        with pytest.raises(errors.Refused, match="not public"):
            address.pool_to("http", "www.example.com", 80, answers(*addresses))


@pytest.mark.parametrize("ip", ["8.8.8.8", "93.184.215.14", "2606:2800:21f:cb07:6820:80da:af6b:8b2c"])
def test_a_public_address_is_connected_to(ip: str) -> None:
    assert address.pool_to("http", "www.example.com", 80, answers(ip)).host == ip


@pytest.mark.parametrize(
    "host",
    [
        "127.0.0.1",
        "169.254.169.254",
        "2130706433",
        "0x7f000001",
        "0177.0.0.1",
        "127.1",
        "localhost",
        "[::1]",
        "[::ffff:7f00:1]",
        "",
    ],
)
def test_a_numeric_host_is_checked_as_an_address(host: str) -> None:
    for send in (client.fetch, lambda url: client.post(url, FORM)):
        with pytest.raises((errors.Refused, errors.Unreachable)):
            send(f"https://{host}/")


@pytest.mark.parametrize(("scheme", "port"), [("http", 8080), ("http", 443), ("https", 80), ("ftp", 21), ("http", 22)])
def test_other_ports_are_refused(scheme: str, port: int) -> None:
    with pytest.raises(errors.Refused, match="port"):
        address.pool_to(scheme, "www.example.com", port, answers("8.8.8.8"))


def test_a_host_without_an_address_is_unreachable() -> None:
    def unknown(*_: Any, **__: Any) -> list[tuple[Any, ...]]:
        raise socket.gaierror(-2, "Name or service not known")

    for resolve in (unknown, answers()):
        with pytest.raises(errors.Unreachable, match="has no address"):
            address.pool_to("http", "www.example.com", 80, resolve)


def test_a_slow_resolver_counts_against_the_time_of_the_fetch(monkeypatch: pytest.MonkeyPatch) -> None:
    go_on = threading.Event()

    def slow(*_: Any, **__: Any) -> Any:
        go_on.wait(5)
        return answers("8.8.8.8")("", 80)

    monkeypatch.setattr(address, "pool_to", lambda scheme, host, port: POOL_TO(scheme, host, port, slow))
    monkeypatch.setattr(client, "FETCH_SECONDS_MAX", 0.2)
    monkeypatch.setattr(client, "POST_SECONDS_MAX", 0.2)

    for send in (client.fetch, lambda url: client.post(url, FORM)):
        with pytest.raises(errors.TooSlow, match=r"the address of www\.example\.com was not found in time"):
            send("https://www.example.com/feed")
    go_on.set()


def resolve_to(monkeypatch: pytest.MonkeyPatch, addresses: dict[str, list[str]], scheme: str, port: int) -> None:
    """Have hosts resolve to these addresses in turn. Loopback counts as public, and one port is allowed."""
    really = socket.getaddrinfo

    def look_up(host: str, port: int, *args: Any, **kwargs: Any) -> Any:
        if host in addresses:
            return answers(addresses[host].pop(0))(host, port)
        return really(host, port, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    monkeypatch.setattr(address, "pool_to", lambda scheme, host, port: POOL_TO(scheme, host, port, look_up))
    monkeypatch.setattr(address, "PORTS", {scheme: port})
    monkeypatch.setattr(address, "is_public", lambda ip: ip.is_loopback)


def test_a_host_is_resolved_once_so_that_no_other_dns_answer_is_used(
    origin: Origin, monkeypatch: pytest.MonkeyPatch
) -> None:
    origin.answer("/feed", b"the server that was checked")
    addresses = {"www.example.com": ["127.0.0.1", "127.0.0.2"]}
    resolve_to(monkeypatch, addresses, "http", origin.port)

    assert client.fetch(f"{HOST}:{origin.port}/feed").body == b"the server that was checked"
    assert addresses == {"www.example.com": ["127.0.0.2"]}


def test_the_address_is_checked_again_at_each_redirect(origin: Origin, monkeypatch: pytest.MonkeyPatch) -> None:
    origin.answer("/feed", status="302 Found", location=f"http://inside.example.com:{origin.port}/secret")
    addresses = {"www.example.com": ["127.0.0.1"], "inside.example.com": ["169.254.169.254"]}
    resolve_to(monkeypatch, addresses, "http", origin.port)

    with pytest.raises(errors.Refused, match=r"169\.254\.169\.254"):
        client.fetch(f"{HOST}:{origin.port}/feed")


def test_a_certificate_is_checked_against_the_name_and_not_against_the_address(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    day, now = timedelta(days=1), datetime.now(UTC)
    file = certificate_for("www.example.com", tmp_path / "certificate.pem", now - day, now + day)
    served = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    served.load_cert_chain(file)
    server = Origin(served)
    server.answer("/feed", b"<rss/>")
    addresses = {host: ["127.0.0.1"] * 2 for host in ("www.example.com", "other.example.com")}
    resolve_to(monkeypatch, addresses, "https", server.port)

    with pytest.raises(errors.Unreachable, match="certificate"):
        client.fetch(f"https://www.example.com:{server.port}/feed")
    trusting = ssl.create_default_context(cafile=str(file))
    monkeypatch.setattr(address, "_tls", lambda: trusting)
    assert client.fetch(f"https://www.example.com:{server.port}/feed").body == b"<rss/>"
    with pytest.raises(errors.Unreachable, match="certificate"):
        client.fetch(f"https://other.example.com:{server.port}/feed")
    server.close()
