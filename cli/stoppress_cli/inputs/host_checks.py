"""The checks of `stoppress doctor`: each yields faults, hints and parts that could not be checked, or OK."""

import re
import socket
import ssl
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from html import unescape
from math import ceil
from statistics import median
from typing import Literal
from urllib.parse import urlsplit

from protego import Protego

from stoppress.http import address, client
from stoppress.http.errors import FetchError, Refused
from stoppress.model.file_names import INDEX_FILE
from stoppress.notify.indexnow import key_file
from stoppress.notify.page_readiness import site_name
from stoppress.primitives.instants import iso, parse
from stoppress_cli.check.rulebook import FRESH_AGE_SECONDS_MAX, RULES
from stoppress_cli.inputs.page_answers import ListedPages
from stoppress_cli.inputs.served import BROWSER, PAUSE_SECONDS, READERS, Served, Server, is_page
from stoppress_cli.output import Check, counted, errors

Outcome = Literal["fault", "not checked", "hint", "ok"]
_OUTCOMES: tuple[Outcome, ...] = ("fault", "not checked", "hint", "ok")
# The outcome, the text and the fix of each result of a check. It is OK if there is no other result.
Results = Iterator[tuple[Outcome, str, str]]
# Checks that also report findings of `stoppress check`.
_CHECKS_OF_FILES = {rule.doctor for rule in RULES.values()}
# By token of robots.txt, the crawler that sends its requests.
SEARCH_ENGINES = {"Googlebot": "Googlebot", "Googlebot-News": "Googlebot", "Bingbot": "Bingbot"}
# Crawlers of the search engines that answer with AI. A publisher may want to keep them out, so this is no fault.
AI_SEARCH_ENGINES = ("OAI-SearchBot", "PerplexityBot", "Claude-SearchBot")
# Certificates that are valid for a week are renewed after half of it, so an earlier warning would be false.
EXPIRY_MIN = timedelta(days=3)
CONNECT_SECONDS_MAX = 10.0
# Crawlers request less from a server that takes longer.
SLOW_SECONDS = 2.0

# The command announces a check of more pages, because it takes a while.
_PAGES_QUICK = 40
_GZIP = b"\x1f\x8b"
_NAME = re.compile(r"<news:name>([^<]*)</news:name>")
_FIREWALL = (
    "if Search Console's URL Inspection shows the same, let crawlers in. A firewall that verifies crawlers by their address treats"
    " this command in the same way: compare with URL Inspection"
)
_PAGE_FIXES = {
    "status": "serve the page, or take it out of the sitemap",
    "redirect": "list the URL to which it redirects",
    "noindex": "take noindex out, or take the page out of the sitemap",
    "canonical": "list the canonical URL, or correct the canonical link",
    "date": "send the page's datePublished as the article's date of publication",
    "title": "add a title element to the page",
    "unreachable": "make the server answer within 10 seconds",
}


class _NotChecked(Exception):
    """A check cannot run; the text is the reason."""


@dataclass
class Doctor:
    """The checks of one host. `webhook` is the URL of a webhook of the site."""

    served: Served
    webhook: str | None = None
    _is_trusted: bool = False  # TLS works, or is not used
    _place: Server = ("", 0)
    _protocol: str | None = None

    def __post_init__(self) -> None:
        self.pages = ListedPages(self.served)

    def checks(self) -> Iterator[Check]:
        """Run all checks. Without an address or with an invalid certificate the others do not run: crawlers get no further either."""
        yield from self._check("address", self._address)
        if self._place[1] and self.served.site.origin.startswith("https:"):
            yield from self._check("certificate", self._certificate)
        if not self._is_trusted:
            yield Check("others", "not checked", "crawlers get no further either")
            return
        for name, check in (
            ("HTTP/2", self._http_version),
            ("user agents", self._user_agents),
            ("robots.txt", self._robots),
            ("crawlers", self._crawlers),
            ("answers", self._answers),
            ("headers", lambda: self._if_files("content types and caching are right")),
            ("compression", self._compression),
            ("freshness", self._freshness),
            ("scope", lambda: self._if_files(f"all URLs are on {self.served.host}")),
            ("rules", self._rules),
            ("pages", self._pages),
            ("name", self._name),
            ("speed", self._speed),
        ):
            yield from self._check(name, check)
        engines = self.served.site.engines
        if engines and engines.indexnow:
            yield from self._check("IndexNow", partial(self._indexnow, engines.indexnow.key))
        if self.webhook:
            yield from self._check("webhook", partial(self._check_unsigned, self.webhook))

    def _check(self, name: str, check: Callable[[], Results]) -> Iterator[Check]:
        """Yield the results of a check and of its rules, or one result that it is OK."""
        results = sorted(self._run(name, check), key=lambda result: (_OUTCOMES.index(result[0]), result[2]))
        reported = [result for result in results if result[0] != "ok"]
        yield from (Check(name, *result) for result in reported or results)

    def _run(self, name: str, check: Callable[[], Results]) -> Results:
        try:
            yield from check()
        except _NotChecked as error:
            yield "not checked", str(error), ""
        except Refused as error:
            yield "not checked", str(error), "if this is the right server, give its address with --connect"
        except FetchError as error:
            yield "fault", str(error), "make the server answer this request"
        for finding in self.served.findings.get(name, ()) if name in _CHECKS_OF_FILES else ():
            outcome: Outcome = "fault" if finding.rule.severity == "error" else "hint"
            yield outcome, f"{finding.where}: {finding.fault}", finding.rule.fix

    def _if_files(self, text: str) -> Results:
        """Report that all is OK if there are files to check. Raises _NotChecked."""
        if not self.served.files:
            raise _NotChecked("no sitemap could be read")
        yield "ok", text, ""

    def _address(self) -> Results:
        scheme = urlsplit(self.served.site.origin).scheme
        port = address.PORTS[scheme]
        self._place = self.served.server or (address.pool_to(scheme, self.served.host, port).host, port)
        self._is_trusted = scheme == "http"
        if ":" in self._place[0]:
            fix = "add an A record: some crawlers connect with IPv4 only"
            yield "fault", f"the host has only IPv6 addresses, such as {self._place[0]}", fix
        yield "ok", f"{self.served.host} is at {self._place[0]}", ""

    def _certificate(self) -> Results:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        fix = f"serve {self.served.host} over https, with a valid certificate that has this name"
        try:
            with (
                socket.create_connection(self._place, CONNECT_SECONDS_MAX) as connection,
                context.wrap_socket(connection, server_hostname=self.served.host) as tls,
            ):
                self._is_trusted, self._protocol = True, tls.selected_alpn_protocol()
                end = ssl.cert_time_to_seconds(str((tls.getpeercert() or {})["notAfter"]))
        except ssl.SSLCertVerificationError as error:
            yield "fault", f"crawlers refuse it: {error.verify_message.rstrip('.')}", fix
            return
        except ssl.SSLError as error:
            yield "fault", f"the server does not speak TLS ({error.reason})", fix
            return
        except OSError as error:
            if ":" in self._place[0]:
                raise _NotChecked(f"this machine may have no IPv6: {error}") from None
            yield "fault", f"the server cannot be reached: {error}", fix
            return
        expires_at = datetime.fromtimestamp(end, UTC)
        if expires_at < self.served.now + EXPIRY_MIN:
            fix = "renew it now, and see why it was not renewed"
            yield "fault", f"the certificate expires at {iso(expires_at)}", fix
        yield "ok", f"valid for {self.served.host} until {iso(expires_at)}", ""

    def _http_version(self) -> Results:
        advice = "switch HTTP/2 on: crawlers then need fewer connections"
        if self.served.robots_txt.version == 10:
            yield "hint", "the server answers in HTTP/1.0, with a connection for each request", advice
        elif self._protocol != "h2":
            yield "hint", "the server does not offer HTTP/2", advice
        yield "ok", "offered", ""

    def _user_agents(self) -> Results:
        for text in self.pages.differences():
            yield "fault", text, _FIREWALL
        if self.served.reader == BROWSER:
            yield "not checked", "what crawlers get: the checks below use the answers for a browser", ""
        yield "ok", f"{', '.join(READERS)} get the same answers", ""

    def _robots(self) -> Results:
        if self.served.robots_txt.status != 200:
            where = f" to {location}" if (location := self.served.robots_txt.headers.get("location")) else ""
            yield "fault", f"robots.txt answers {self.served.robots_txt.status}{where}", "serve it with status 200"
            return
        text = self.served.robots_txt.body.decode("utf-8", "replace")
        urls = {line.split(":", 1)[1].strip() for line in text.splitlines() if line.lower().startswith("sitemap:")}
        for url in map(self.served.url, self.served.named):
            if url not in urls:
                is_in_index = f"<loc>{url}<" in self._index()
                outcome: Outcome = "hint" if is_in_index and self.served.url(INDEX_FILE) in urls else "fault"
                yield outcome, f"robots.txt does not list {url}", f"add the line Sitemap: {url}"
        yield "ok", f"lists {', '.join(self.served.named)}", ""

    def _crawlers(self) -> Results:
        urls = [self.served.url(""), *self.pages.dates]
        shut_out: dict[str, str] = {}
        for name in (*SEARCH_ENGINES, *AI_SEARCH_ENGINES):
            robots_txt = self.served.get(self.served.url("robots.txt"), SEARCH_ENGINES.get(name))
            if robots_txt.status not in (200, 404, 410):
                raise _NotChecked(f"robots.txt answers {robots_txt.status}")
            if is_page(robots_txt):
                raise _NotChecked("robots.txt is a page of HTML")
            # Without a robots.txt every crawler may read everything (RFC 9309, 2.3.1.3).
            rules = Protego.parse(robots_txt.body.decode("utf-8", "replace") if robots_txt.status == 200 else "")
            if url := next((url for url in urls if not rules.can_fetch(url, name)), None):
                shut_out[name] = url
        for name in sorted(shut_out.keys() & SEARCH_ENGINES.keys()):
            yield "fault", f"robots.txt keeps {name} from {shut_out[name]}", f"allow it in the group of {name}"
        if names := [name for name in AI_SEARCH_ENGINES if name in shut_out]:
            yield "hint", f"robots.txt keeps out search engines that answer with AI: {', '.join(names)}", ""
        yield "ok", "robots.txt keeps out no search engine", ""

    def _answers(self) -> Results:
        yield "ok", f"{', '.join(self.served.files)} and the files that they list answer 200 without a redirect", ""

    def _rules(self) -> Results:
        yield from self._if_files("the files keep all other rules of stoppress check")
        for outcome, text in self.served.notes:
            yield outcome, text, ""

    def _compression(self) -> Results:
        for name, answer in self.served.files.items():
            if answer.body.startswith(_GZIP):
                how = "twice" if "content-encoding" in answer.headers else "without the header Content-Encoding"
                fix = "let only the last cache compress, and store the file plain"
                yield "fault", f"{name} is compressed {how} for a client that accepts gzip", fix
        yield from self._if_files("a client that accepts gzip can read the files")

    def _freshness(self) -> Results:
        fix = "let each cache obey Cache-Control, and purge the file"
        for name, answer in self.served.files.items():
            age = answer.headers.get("age", "")
            written = self._written_at(name, answer)
            if age.isdecimal() and int(age) > FRESH_AGE_SECONDS_MAX:
                yield "fault", f"{name} has been in a cache for {int(age):,} seconds", fix
            elif written and self.served.now - written > timedelta(seconds=FRESH_AGE_SECONDS_MAX):
                yield "fault", f"{name} is older than the version written at {iso(written)}", fix
        agree = "the files are those of the stack" if self.served.known else "the index and the files agree"
        yield from self._if_files(agree)

    def _index(self) -> str:
        index = self.served.files.get(INDEX_FILE)
        return index.body.decode("utf-8", "replace") if index else ""

    def _written_at(self, name: str, answer: client.Response) -> datetime | None:
        """Return when a newer file than the served one was written: by the bucket, else by the index. None without a newer file."""
        if answer.body.startswith(_GZIP):  # another fault, and nothing to compare
            return None
        if self.served.known:
            stored = self.served.known.files.get(name)
            return stored.changed if stored and stored.body != answer.body else None
        listed = re.search(rf"<loc>{re.escape(self.served.url(name))}</loc>\s*<lastmod>([^<]*)", self._index())
        with suppress(ValueError, KeyError):
            served = datetime.strptime(answer.headers["last-modified"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
            written = parse(listed[1]) if listed else served
            return written if written - served > timedelta(seconds=FRESH_AGE_SECONDS_MAX) else None
        return None

    def _pages(self) -> Results:
        if not self.pages.dates:
            raise _NotChecked("no listed page could be read")
        if len(self.pages.dates) > _PAGES_QUICK:
            rate = f"at most {1 / PAUSE_SECONDS:g} a second"
            errors.print(f"stoppress: {len(self.pages.dates):,} pages are requested, {rate}")
        for state in self.pages.states:
            if state.indexable == "not checked":
                yield "not checked", f"{state.url} {state.reason}", ""
            elif state.reason:
                yield "fault", f"{state.url} {state.reason}", _PAGE_FIXES[state.kind]
        for text in self.pages.chains():
            yield "fault", text, _PAGE_FIXES["redirect"]
        for text in self.pages.same_titles():
            yield "fault", text, "answer each URL with its own page, also without cookies, and a missing page with 404"
        yield "ok", f"{counted(len(self.pages.dates), 'listed page')} can be indexed", ""

    def _speed(self) -> Results:
        typical = median(self.served.seconds)
        if typical > SLOW_SECONDS:
            text = f"half of the answers take longer than {typical:.1f} seconds"
            yield "fault", text, "cache the answers, or find what is slow"
        yield "ok", f"half of the answers are complete within {counted(max(1, ceil(typical)), 'second')}", ""

    def _name(self) -> Results:
        bodies = (answer.body.decode("utf-8", "replace") for answer in self.served.files.values())
        listed = {unescape(name).strip() for body in bodies for name in _NAME.findall(body)}
        if self.served.known:
            listed = {self.served.site.publication}
        home = self.served.get(self.served.url(""))
        if home.status != 200:
            raise _NotChecked(f"the home page answers {home.status}")
        name = site_name(home)
        if not listed:
            yield "hint", "no article has the name of a publication", ""
        elif not name:
            fix = f'add JSON-LD with "@type": "WebSite" and the name {min(listed)}'
            yield "hint", "the home page has no name", fix
        elif name not in listed:
            fix = "use the same name in both, the one that Google shows for the site"
            yield "fault", f"the home page has the name {name!r}, and the news sitemap has {min(listed)!r}", fix
        yield "ok", f"{name}, as on the home page", ""

    def _indexnow(self, key: str) -> Results:
        url = self.served.url(key_file(key))
        answer = self.served.get(url)
        if answer.status != 200:
            fix = "let the CDN serve it as it serves the sitemaps"
            yield "fault", f"the key file {url} answers {answer.status}", fix
        elif answer.body.decode("utf-8", "replace").strip() != key:
            yield "fault", f"{url} does not contain the key", "let the CDN serve the file of the bucket"
        yield "ok", "the key file is served", ""

    def _check_unsigned(self, webhook: str) -> Results:
        if urlsplit(webhook).scheme != "https":
            raise _NotChecked(f"{webhook} is not https")
        status = client.post(webhook, {}).status
        if status != 401:
            fix = "give the URL and source of the site" if status == 404 else "give the source a secret"
            yield "fault", f"{webhook} answers {status} to an unsigned request, not 401", fix
        yield "ok", "answers 401 to an unsigned request", ""
