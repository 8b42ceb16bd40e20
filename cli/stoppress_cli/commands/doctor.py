"""`stoppress doctor`: checks from outside what a host serves to search engines.

With a stack, the checks also compare with the files in the bucket, the site's configuration and its webhooks.
"""

import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from typing import Annotated, Literal
from urllib.parse import urlsplit

import typer

from stoppress.http import client
from stoppress.http.errors import FetchError, Refused
from stoppress.model.file_names import INDEX_FILE
from stoppress.model.site import HOST
from stoppress.notify.fetch_page import check_pages, rules_in
from stoppress.notify.indexnow import key_file
from stoppress.notify.page_readiness import site_name
from stoppress.primitives.instants import NEVER, iso, parse
from stoppress.show.stack_status import Access
from stoppress_cli.check.rulebook import FRESH_AGE_SECONDS_MAX
from stoppress_cli.inputs.served import Served, Server, known
from stoppress_cli.options import READS, Commands
from stoppress_cli.output import ATTENTION, OK, Check, counted, fail, print_checks

app = Commands()

SEARCH_ENGINES = ("Googlebot", "Googlebot-News", "Bingbot")
# Crawlers of the search engines that answer with AI. A publisher may want to keep them out, so this is no fault.
AI_SEARCH_ENGINES = ("OAI-SearchBot", "PerplexityBot", "Claude-SearchBot")
# Certificates that are valid for a week are renewed after half of it, so an earlier warning would be false.
EXPIRY_MIN = timedelta(days=3)
CONNECT_SECONDS_MAX = 10.0

_GZIP = b"\x1f\x8b"
_NAME = re.compile(r"<news:name>([^<]*)</news:name>")
_PAGE_FIXES = {
    "status": "serve the page, or take it out of the sitemap",
    "redirect": "list the URL to which it redirects",
    "noindex": "take noindex out, or take the page out of the sitemap",
    "canonical": "list the canonical URL, or correct the canonical link",
    "date": "send the page's datePublished as the article's date of publication",
    "title": "give the page a title element",
    "unreachable": "make the server answer within 10 seconds",
}


@app.command(effect=READS, example="stoppress doctor www.example.com --stack stoppress", may_lack_stack=True)
def doctor(
    access: Access | None,
    host: Annotated[str, typer.Argument(help="Host as readers see it, including `www.`.")],
    connect: Annotated[
        str | None,
        typer.Option(
            help="Server to connect to instead of the host's, such as 127.0.0.1:8443.", metavar="ADDRESS:PORT"
        ),
    ] = None,
    webhook: Annotated[
        str | None, typer.Option(help="URL of a webhook of the site; default: with a stack, one of its webhooks.")
    ] = None,
) -> None:
    """Check from outside what a host serves to search engines: robots.txt, sitemaps, listed pages, certificate, webhook.

    Each fault comes with its fix. The command needs no stack. Exit code 0: no fault; 1: faults; 2: the stack cannot be reached, or
    an argument is not valid.
    """
    if not HOST.fullmatch(host):
        fail(f"{host!r} is not a host: give a name in small letters, such as www.example.com")
    server = _server(connect)
    facts = known(host) if access else None
    webhook = webhook or (facts.webhook if facts else None)
    outcomes = print_checks(Doctor(Served(host, datetime.now(UTC), facts, server), webhook).checks())
    raise typer.Exit(ATTENTION if "fault" in outcomes else OK)


def _server(connect: str | None) -> Server | None:
    if connect is None:
        return None
    with suppress(ValueError):
        parts = urlsplit(f"//{connect}")
        if parts.hostname and parts.port and parts.netloc == connect and "@" not in connect:
            return parts.hostname, parts.port
    return fail(f"--connect {connect!r}: give an address and a port, such as 127.0.0.1:8443")


@dataclass
class Doctor:
    """The checks of what one host serves. `webhook` is the URL of a webhook of the site."""

    served: Served
    webhook: str | None = None
    _results: list[tuple[Literal["note", "fault"], str, str]] = field(default_factory=list)
    _is_trusted: bool = False
    _protocol: str | None = None

    def checks(self) -> Iterator[Check]:
        """Run all checks. An invalid certificate ends them, because it stops crawlers too."""
        if self.served.origin.startswith("https:"):
            yield from self._check("certificate", self._certificate)
            if not self._is_trusted:
                return
            yield from self._check("HTTP/2", self._http_2)
        for name, check in (
            ("robots.txt", self._robots),
            ("crawlers", self._crawlers),
            ("answers", self._answers),
            ("headers", lambda: "content types and caching are right"),
            ("compression", self._compression),
            ("freshness", self._freshness),
            ("scope", lambda: f"all URLs are on {self.served.host}"),
            ("rules", lambda: "the files keep all other rules of stoppress check"),
            ("pages", self._pages),
            ("name", self._name),
        ):
            yield from self._check(name, check)
        engines = self.served.known.site.engines if self.served.known else None
        if engines and engines.indexnow:
            yield from self._check("IndexNow", partial(self._indexnow, engines.indexnow.key))
        if self.webhook:
            yield from self._check("webhook", partial(self._unsigned, self.webhook))

    def _check(self, name: str, check: Callable[[], str]) -> Iterator[Check]:
        """Yield the faults and notes of a check, or its text if there are none."""
        self._results = []
        text = ""
        try:
            text = check()
        except Refused as error:
            self._fault(str(error), "if this is the right server, give its address with --connect")
        except FetchError as error:
            self._fault(str(error), "make the server answer this request")
        for finding in self.served.findings.get(name, ()) if name not in ("certificate", "HTTP/2") else ():
            message, colon, fix = finding.message.rpartition(": ")
            where = f"{finding.file}:{finding.line}" if finding.line else finding.file
            self._fault(f"{where}: {message if colon else fix}", fix if colon else finding.rule.text)
        yield from (Check(name, *result) for result in self._results)
        if not self._results:
            yield Check(name, "ok", text)

    def _fault(self, text: str, fix: str) -> None:
        self._results.append(("fault", text, fix))

    def _note(self, text: str) -> None:
        self._results.append(("note", text, ""))

    def _certificate(self) -> str:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        fix = f"serve {self.served.host} over https, with a valid certificate that has this name"
        try:
            with (
                socket.create_connection(
                    self.served.server or (self.served.host, 443), CONNECT_SECONDS_MAX
                ) as connection,
                context.wrap_socket(connection, server_hostname=self.served.host) as tls,
            ):
                self._is_trusted, self._protocol = True, tls.selected_alpn_protocol()
                end = ssl.cert_time_to_seconds(str((tls.getpeercert() or {})["notAfter"]))
        except ssl.SSLCertVerificationError as error:
            self._fault(f"crawlers refuse it: {error.verify_message.rstrip('.')}", fix)
            return ""
        except ssl.SSLError as error:
            self._fault(f"the server does not speak TLS ({error.reason})", fix)
            return ""
        except OSError as error:
            self._fault(f"the server cannot be reached: {error}", fix)
            return ""
        expires_at = datetime.fromtimestamp(end, UTC)
        if expires_at < self.served.now + EXPIRY_MIN:
            self._fault(f"the certificate expires at {iso(expires_at)}", "renew it now, and see why it was not renewed")
        return f"valid for {self.served.host} until {iso(expires_at)}"

    def _http_2(self) -> str:
        if self._protocol != "h2":
            self._fault("the server does not offer HTTP/2", "switch HTTP/2 on: crawlers then need fewer connections")
        return "offered"

    def _robots(self) -> str:
        if self.served.robots_txt.status != 200:
            where = f" to {location}" if (location := self.served.robots_txt.headers.get("location")) else ""
            self._fault(f"robots.txt answers {self.served.robots_txt.status}{where}", "serve it with status 200")
            return ""
        text = self.served.robots_txt.body.decode("utf-8", "replace")
        urls = {line.split(":", 1)[1].strip() for line in text.splitlines() if line.lower().startswith("sitemap:")}
        for url in map(self.served.url, self.served.named):
            if url not in urls:
                self._fault(f"robots.txt does not name {url}", f"add the line Sitemap: {url}")
        return f"names {', '.join(self.served.named)}"

    def _crawlers(self) -> str:
        # Without a robots.txt every crawler may read everything (RFC 9309, 2.3.1.3).
        text = self.served.robots_txt.body.decode("utf-8", "replace") if self.served.robots_txt.status == 200 else ""
        may_fetch = rules_in(text)
        urls = [self.served.url(""), *self.served.listed]
        kept_out = {
            name: url
            for name in SEARCH_ENGINES + AI_SEARCH_ENGINES
            if (url := next((url for url in urls if not may_fetch(name, url)), None))
        }
        for name in kept_out.keys() & set(SEARCH_ENGINES):
            self._fault(f"robots.txt keeps {name} from {kept_out[name]}", f"allow it in the group of {name}")
        if notes := [name for name in AI_SEARCH_ENGINES if name in kept_out]:
            self._note(f"robots.txt keeps out search engines that answer with AI: {', '.join(notes)}")
        return "robots.txt keeps out no search engine"

    def _answers(self) -> str:
        for text in self.served.left_out:
            self._note(text)
        return f"{', '.join(self.served.files)} and the files that they name answer 200 without a redirect"

    def _compression(self) -> str:
        for name, answer in self.served.files.items():
            if answer.body.startswith(_GZIP):
                fix = "let only the last cache compress, and store the file plain"
                self._fault(f"{name} is compressed twice for a client that accepts gzip", fix)
        return "a client that accepts gzip can read the files"

    def _freshness(self) -> str:
        fix = "let each cache obey Cache-Control, and purge the file"
        for name, answer in self.served.files.items():
            age = answer.headers.get("age", "")
            written = self._written_at(name, answer)
            if age.isdecimal() and int(age) > FRESH_AGE_SECONDS_MAX:
                self._fault(f"{name} has been in a cache for {int(age):,} seconds", fix)
            elif written and self.served.now - written > timedelta(seconds=FRESH_AGE_SECONDS_MAX):
                self._fault(f"{name} is older than the version written at {iso(written)}", fix)
        return "the files are those of the stack" if self.served.known else "the index and the files agree"

    def _written_at(self, name: str, answer: client.Response) -> datetime | None:
        """When a newer file than the served one was written: by the bucket, else by the index. None without a newer file."""
        if answer.body.startswith(_GZIP):  # another fault, and nothing to compare
            return None
        if self.served.known:
            stored = self.served.known.files.get(name)
            return stored.changed if stored and stored.body != answer.body else None
        listed = re.search(
            rf"<loc>{re.escape(self.served.url(name))}</loc>\s*<lastmod>([^<]*)",
            self.served.files[INDEX_FILE].body.decode("utf-8", "replace") if INDEX_FILE in self.served.files else "",
        )
        with suppress(ValueError, KeyError):
            served = datetime.strptime(answer.headers["last-modified"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
            written = parse(listed[1]) if listed else served
            return written if written - served > timedelta(seconds=FRESH_AGE_SECONDS_MAX) else None
        return None

    def _pages(self) -> str:
        verdicts = check_pages(self.served.listed, NEVER, self._get_page)
        for url, verdict in verdicts.items():
            if not verdict.ready:
                self._fault(f"{url} {verdict.reason}", _PAGE_FIXES[verdict.kind])
            elif verdict.reason:
                self._note(f"{url} {verdict.reason}")
        return f"{counted(len(verdicts), 'listed page')} can be indexed"

    def _get_page(self, url: str, headers: Mapping[str, str], **limits: object) -> client.Response:
        return self.served.get(url, headers, **{"redirects": True, **limits})

    def _name(self) -> str:
        listed = {self.served.known.site.publication} if self.served.known else self._listed_names()
        name = site_name(self.served.get(self.served.url(""), redirects=True))
        if not listed:
            self._note("no article names a publication")
        elif not name:
            self._note(f'the home page gives no name: add JSON-LD with "@type": "WebSite" and the name {min(listed)}')
        elif name not in listed:
            fix = "use the same name in both, the one that Google shows for the site"
            self._fault(f"the home page has the name {name!r}, and the news sitemap has {min(listed)!r}", fix)
        return f"{name}, as on the home page"

    def _listed_names(self) -> set[str]:
        bodies = (answer.body.decode("utf-8", "replace") for answer in self.served.files.values())
        return {unescape(name).strip() for body in bodies for name in _NAME.findall(body)}

    def _indexnow(self, key: str) -> str:
        url = self.served.url(key_file(key))
        answer = self.served.get(url)
        if answer.status != 200:
            self._fault(f"the key file {url} answers {answer.status}", "let the CDN serve it as it serves the sitemaps")
        elif answer.body.decode("utf-8", "replace").strip() != key:
            self._fault(f"{url} does not contain the key", "let the CDN serve the file of the bucket")
        return "the key file is served"

    def _unsigned(self, webhook: str) -> str:
        if urlsplit(webhook).scheme != "https":
            self._note(f"{webhook} is not https and was not checked")
            return ""
        status = client.post(webhook, {}).status
        if status != 401:
            fix = "give the URL and source of the site" if status == 404 else "give the source a secret"
            self._fault(f"{webhook} answers {status} to an unsigned request, not 401", fix)
        return "answers 401 to an unsigned request"
