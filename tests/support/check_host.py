"""A host for `stoppress doctor`, on loopback with TLS: healthy, or broken in the ways that `BROKEN` lists."""

import gzip
import ssl
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from socket import AF_INET, AF_INET6

from tests.support.http_server import Answers
from tests.support.nginx import certificate_for

HOST = "www.example.com"
NOW = datetime(2026, 11, 20, 12, 30, tzinfo=UTC)
# Minutes after twelve at which each story was published.
STORIES = {"flood": 0, "ferry": 1, "bridge": 20, "harbour": 25}
NEWS, SHARD, INDEX = "/sitemap-news.xml", "/sitemap-2026-11.xml", "/sitemap.xml"
HTML = {"Content-Type": "text/html; charset=utf-8"}
_XML = {"Content-Type": "application/xml; charset=utf-8", "Cache-Control": "public, max-age=60"}
_SITEMAP = 'xmlns="http://www.sitemaps.org/schemas/sitemap/0.9"'
_NEWS = 'xmlns:news="http://www.google.com/schemas/sitemap-news/0.9"'
_CHALLENGE = b"<!doctype html><title>Just a moment...</title><p>Checking your browser"
_CONSENT = b"<!doctype html><title>Before you continue</title><p>We value your privacy"

Outcomes = set[tuple[str, str]]


def url(path: str) -> str:
    return f"https://{HOST}/{path}"


def published(name: str) -> str:
    return f"2026-11-20T12:{STORIES[name]:02}:00Z"


@dataclass
class Host:
    """The answers of a host by path, and its connection. `special` answers before `answers`, by path and user agent."""

    answers: Answers
    special: Callable[[str, str], tuple[int, dict[str, str], bytes] | None] = lambda _path, _agent: None
    begin: datetime = datetime(2020, 1, 1, tzinfo=UTC)
    end: datetime = datetime(2100, 1, 1, tzinfo=UTC)
    address: str = "127.0.0.1"
    protocol: str = "HTTP/1.1"
    alpn: tuple[str, ...] = ("h2", "http/1.1")
    delay: float = 0.0
    elapsed: float = 0.0
    requests: list[tuple[str, str]] = field(default_factory=list)

    def change(self, path: str, old: str, new: str) -> None:
        status, headers, body = self.answers[path]
        assert old.encode() in body, "else nothing is planted"
        self.answers[path] = (status, headers, body.replace(old.encode(), new.encode()))

    def headers(self, path: str, **headers: str) -> None:
        status, before, body = self.answers[path]
        self.answers[path] = (status, before | {name.replace("_", "-"): value for name, value in headers.items()}, body)

    @contextmanager
    def served(self, folder: Path) -> Iterator[tuple[str, int]]:
        """Serve the host; yield the address and port. The certificate is `host.pem` in the folder."""
        host = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = self.protocol

            def do_GET(self) -> None:
                agent = self.headers.get("User-Agent", "")
                host.requests.append((self.path, agent))
                host.elapsed += host.delay
                missing = (404, HTML, b"<!doctype html><title>Not found</title>")
                answer = host.special(self.path, agent) or host.answers.get(self.path, missing)
                self.send_response_only(answer[0])
                for name, value in {"Content-Length": str(len(answer[2])), **answer[1]}.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(answer[2])

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            address_family = AF_INET6 if ":" in self.address else AF_INET

            def handle_error(self, *_: object) -> None:
                pass

        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(certificate_for(HOST, folder / "host.pem", self.begin, self.end))
        context.set_alpn_protocols(list(self.alpn))
        with Server((self.address, 0), Handler) as server:
            server.socket = context.wrap_socket(server.socket, server_side=True)
            thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01}, daemon=True)
            thread.start()
            try:
                yield self.address, server.server_port
            finally:
                server.shutdown()
                thread.join()


def pages() -> Answers:
    """Return what the publisher serves beside the sitemaps."""
    robots = f"User-agent: *\nDisallow: /intern/\n\nSitemap: {url('sitemap.xml')}\nSitemap: {url('sitemap-news.xml')}\n"
    home = '<title>Home</title><script type="application/ld+json">{"@type": "WebSite", "name": "Example News"}</script>'
    page = (
        '<title>{name}</title><link rel="canonical" href="{url}"><script type="application/ld+json">'
        '{{"@type": "NewsArticle", "datePublished": "{date}"}}</script>'
    )
    return {
        "/robots.txt": (200, {"Content-Type": "text/plain; charset=utf-8"}, robots.encode()),
        "/": (200, HTML, home.encode()),
        **{
            f"/{name}": (200, HTML, page.format(name=name, url=url(name), date=published(name)).encode())
            for name in STORIES
        },
    }


def good() -> Host:
    urls = [f"<url><loc>{url(name)}</loc><lastmod>{published(name)}</lastmod>{{{name}}}</url>" for name in STORIES]
    tags = {
        name: "<news:news><news:publication><news:name>Example News</news:name><news:language>en</news:language>"
        f"</news:publication><news:publication_date>{published(name)}</news:publication_date>"
        f"<news:title>The {name}</news:title></news:news>"
        for name in STORIES
    }
    children = "".join(
        f"<sitemap><loc>{url(name[1:])}</loc><lastmod>{published('harbour')}</lastmod></sitemap>"
        for name in (SHARD, NEWS)
    )
    files = {
        INDEX: f"<sitemapindex {_SITEMAP}>{children}</sitemapindex>",
        NEWS: f"<urlset {_SITEMAP} {_NEWS}>{''.join(urls).format(**tags)}</urlset>",
        SHARD: f"<urlset {_SITEMAP}>{''.join(urls).format(**dict.fromkeys(STORIES, ''))}</urlset>",
    }
    start = '<?xml version="1.0" encoding="UTF-8"?>\n'
    return Host({**pages(), **{name: (200, _XML, (start + text).encode()) for name, text in files.items()}})


def is_crawler(agent: str) -> bool:
    return "bot/" in agent


def refuse_crawlers(host: Host) -> None:
    host.special = lambda _path, agent: (403, HTML, b"Forbidden") if is_crawler(agent) else None


def challenge_crawlers(host: Host) -> None:
    host.special = lambda _path, agent: (200, HTML, _CHALLENGE) if is_crawler(agent) else None


def ask_for_consent(host: Host) -> None:
    host.special = lambda path, _agent: (200, HTML, _CONSENT) if path[1:] in STORIES else None


def compress_twice(host: Host) -> None:
    status, headers, body = host.answers[NEWS]
    host.answers[NEWS] = (status, headers | {"Content-Encoding": "gzip"}, gzip.compress(gzip.compress(body)))


def redirect_three_times(host: Host) -> None:
    host.answers["/c"] = host.answers["/ferry"]
    host.answers |= {path: (302, {"Location": to}, b"") for path, to in (("/ferry", "/a"), ("/a", "/b"), ("/b", "/c"))}


def forbid_in_the_robots_txt_of_crawlers(host: Host) -> None:
    status, headers, body = host.answers["/robots.txt"]
    shut = (status, headers, body.replace(b"Disallow: /intern/", b"Disallow: /f"))
    host.special = lambda path, agent: shut if path == "/robots.txt" and is_crawler(agent) else None


def find_everything(host: Host) -> None:
    host.special = lambda path, _: None if path in host.answers else (200, HTML, b"<title>Not found</title>Sorry")


def expire(host: Host) -> None:
    host.end = datetime(2020, 3, 1, tzinfo=UTC)


# By fault: how it is planted, what the doctor reports, and words of it. A fault of the connection ends the checks.
BROKEN: dict[str, tuple[Callable[[Host], object], Outcomes, str]] = {
    "crawlers refused": (refuse_crawlers, {("user agents", "fault"), ("user agents", "not checked"), ("crawlers", "not checked")}, "gets 403"),
    "crawlers challenged": (challenge_crawlers, {("user agents", "fault"), ("user agents", "not checked"), ("crawlers", "not checked")}, "Just a moment..."),
    "consent": (ask_for_consent, {("pages", "fault")}, "Before you continue"),
    "double gzip": (compress_twice, {("headers", "fault"), ("compression", "fault"), ("name", "hint")}, "compressed twice"),
    "wrong type": (lambda host: host.headers(NEWS, Content_Type="text/html"), {("headers", "fault")}, "'text/html'"),
    "stale cache": (lambda host: host.headers(NEWS, Age="7200"), {("freshness", "fault")}, "7,200 seconds"),
    "redirect chain": (redirect_three_times, {("pages", "fault")}, "redirects 3 times"),
    "robots by user agent": (
        forbid_in_the_robots_txt_of_crawlers, {("user agents", "fault"), ("crawlers", "fault"), ("crawlers", "hint"), ("pages", "not checked")}, "keeps Googlebot from"),
    "X-Robots-Tag": (lambda host: host.headers("/ferry", X_Robots_Tag="noindex"), {("pages", "fault")}, "X-Robots-Tag"),
    "foreign canonical": (
        lambda host: host.change("/ferry", f'href="{url("ferry")}', 'href="https://www.example.org/ferry'), {("pages", "fault")}, "www.example.org/ferry"),
    "soft 404": (find_everything, {("pages", "fault")}, "soft 404"),
    "IPv6 only": (lambda host: setattr(host, "address", "::1"), {("address", "fault")}, "IPv6"),
    "expired certificate": (expire, {("certificate", "fault"), ("others", "not checked")}, "expired"),
    "a page without time": (lambda host: host.answers.update({"/ferry": (429, {}, b"")}), {("pages", "not checked")}, "429"),
    "a page that fails": (lambda host: host.answers.update({"/ferry": (503, {}, b"")}), {("pages", "fault")}, "503"),
    "no HTTP/2": (lambda host: setattr(host, "alpn", ("http/1.1",)), {("HTTP/2", "hint")}, "does not offer HTTP/2"),
    "HTTP/1.0": (lambda host: setattr(host, "protocol", "HTTP/1.0"), {("HTTP/2", "hint")}, "HTTP/1.0"),
    "slow": (lambda host: setattr(host, "delay", 4.0), {("speed", "fault")}, "4.0 seconds"),
}  # fmt: skip
