"""Checks from outside what a host serves to search engines: robots.txt, sitemaps, the pages that they list, the certificate.

With a stack, the checks also compare with the files in the bucket, the site's configuration and its webhooks.
"""

import os
import re
import socket
import ssl
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from functools import cached_property
from html import unescape
from typing import Literal
from urllib.parse import urlsplit

from stoppress.aws import bucket, sites
from stoppress.check import checker
from stoppress.check.findings import Finding, Findings
from stoppress.check.serving import FRESH_AGE_SECONDS_MAX
from stoppress.feeds import documents, old_sitemaps
from stoppress.feeds.documents import FeedError
from stoppress.http import client
from stoppress.http.errors import FetchError, Refused
from stoppress.model.file_names import INDEX_FILE, NEWS_FILE
from stoppress.model.limits import BYTES_MAX
from stoppress.model.site import Site
from stoppress.primitives.deadline import NEVER
from stoppress.primitives.instants import iso, parse
from stoppress.primitives.urls import host_of
from stoppress.sitemaps.robots import named_in_robots
from stoppress.tell.fetch import check_pages, rules_in
from stoppress.tell.indexnow import key_file
from stoppress.tell.page import Expected, site_name
from stoppress_cli.inputs.folder import Unreadable
from stoppress_cli.inputs.website import fetching
from stoppress_cli.printing import counted

Outcome = Literal["ok", "note", "fault"]
Server = tuple[str, int]

SEARCH_ENGINES = ("Googlebot", "Googlebot-News", "Bingbot")
# Crawlers of the search engines that answer with AI. A publisher may want to keep them out, so this is no fault.
AI_SEARCH_ENGINES = ("OAI-SearchBot", "PerplexityBot", "Claude-SearchBot")
# Certificates that are valid for a week are renewed after half of it, so an earlier warning would be false.
EXPIRY_MIN = timedelta(days=3)
CONNECT_SECONDS_MAX = 10.0
PAGES_MAX = 10
# How many findings of one kind in one file are shown.
EACH_MAX = 3

_GZIP = b"\x1f\x8b"
_NAME = re.compile(r"<news:name>([^<]*)</news:name>")
# The doctor's check to which a rule of `stoppress check` belongs. Other rules belong to `rules`.
_CHECK_OF_RULE = {
    **dict.fromkeys(("not-served", "redirected", "child-missing"), "answers"),
    **dict.fromkeys(("content-type", "content-encoding", "cache-control", "compressed-name"), "headers"),
    **dict.fromkeys(("other-host", "other-protocol", "out-of-scope", "index-scope", "storage-host"), "scope"),
    **dict.fromkeys(("robots-value", "robots-unknown", "robots-disallowed", "no-entry"), "robots.txt"),
    "index-outdated": "freshness",
    "crawler-shut-out": "",  # left out: the check `crawlers` covers it
}
_PAGE_FIXES = {
    "status": "serve the page, or take it out of the sitemap",
    "redirect": "list the URL to which it redirects",
    "noindex": "take noindex out, or take the page out of the sitemap",
    "canonical": "list the canonical URL, or correct the canonical link",
    "date": "send the page's datePublished as the article's date of publication",
    "title": "give the page a title element",
    "unreachable": "make the server answer within 10 seconds",
}


@dataclass(frozen=True)
class Check:
    """The result of a check. `fix` says how to mend a fault. A note may be intended, and has no fix."""

    check: str
    outcome: Outcome
    text: str
    fix: str = ""


@dataclass(frozen=True)
class Known:
    """What a stack knows of a site: the configuration, the files in the bucket by name, and the URL of a webhook."""

    site: Site
    files: Mapping[str, bucket.StoredFile]
    webhook: str | None = None


def known(host: str) -> Known:
    """What the connected stack knows of a site. Raises UnknownSite and BadConfiguration."""
    site = sites.load_usable(host)
    files = {name: file for name in named_in_robots(site) if (file := bucket.read(host, name))}
    source = next((name for name, source in site.sources.items() if source.secret), None)
    webhooks = os.environ.get("WEBHOOKS_URL")
    return Known(site, files, f"{webhooks}/webhooks/{host}/{source}" if webhooks and source else None)


@dataclass
class Doctor:
    """The checks of one host. `server` is an address and port to connect to, instead of the host's own.

    `webhook` is the URL of a webhook of the site.
    """

    host: str
    now: datetime
    known: Known | None = None
    server: Server | None = None
    webhook: str | None = None
    _results: list[tuple[Outcome, str, str]] = field(default_factory=list)
    _is_trusted: bool = False
    _protocol: str | None = None
    # Notes on files that were not fetched, and findings that are not shown.
    _left_out: list[str] = field(default_factory=list)

    def checks(self) -> Iterator[Check]:
        """Runs all checks. An invalid certificate ends them, because it stops crawlers too."""
        if self._origin.startswith("https:"):
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
            ("scope", lambda: f"all URLs are on {self.host}"),
            ("rules", lambda: "the files keep all other rules of stoppress check"),
            ("pages", self._pages),
            ("name", self._name),
        ):
            yield from self._check(name, check)
        if self._indexnow_key:
            yield from self._check("IndexNow", self._indexnow)
        if self.webhook:
            yield from self._check("webhook", self._unsigned)

    def _check(self, name: str, check: Callable[[], str]) -> Iterator[Check]:
        """The faults and notes of a check, or its text if there are none."""
        self._results = []
        text = ""
        try:
            text = check()
        except Refused as error:
            self._fault(str(error), "if this is the right server, give its address with --connect")
        except FetchError as error:
            self._fault(str(error), "make the server answer this request")
        for finding in self._findings.get(name, ()) if name not in ("certificate", "HTTP/2") else ():
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

    # ── what is fetched once ──

    @property
    def _origin(self) -> str:
        return self.known.site.origin if self.known else f"https://{self.host}"

    def _url(self, file: str) -> str:
        return f"{self._origin}/{file}"

    def _get(self, url: str, headers: Mapping[str, str] | None = None, **limits: object) -> client.Response:
        """Raises FetchError."""
        return client.fetch(url, headers, **{"redirects": False, "server": self.server, **limits})  # type: ignore[arg-type]

    @cached_property
    def _robots_txt(self) -> client.Response:
        return self._get(self._url("robots.txt"))

    @cached_property
    def _named(self) -> list[str]:
        """The files that robots.txt should name."""
        return named_in_robots(self.known.site) if self.known else [INDEX_FILE, NEWS_FILE]

    @cached_property
    def _served(self) -> dict[str, client.Response]:
        """The answers with status 200 for the files that robots.txt should name, by file name."""
        answers = {}
        for name in self._named:
            with suppress(FetchError):
                answers[name] = self._get(self._url(name), bytes_max=BYTES_MAX)
        return {name: answer for name, answer in answers.items() if answer.status == 200}

    @cached_property
    def _findings(self) -> dict[str, list[Finding]]:
        """What `stoppress check` finds in robots.txt and all sitemaps, by the doctor's check."""
        findings, sources = Findings(EACH_MAX), []
        with fetching(findings, self._left_out, self.server) as fetcher:
            for name in ("robots.txt", *self._named):
                try:
                    sources.append(fetcher.first(self._url(name)))
                except Unreadable as error:
                    if name != "robots.txt":
                        findings.add(name, "not-served", None, str(error))
            checker.check(sources, findings, self.now, is_all=False, follow=fetcher.follow)
        if more := sum(findings.omitted.values()):
            self._left_out.append(f"{more:,} more findings: stoppress check {self._url('robots.txt')} shows them")
        by_check: dict[str, list[Finding]] = {}
        for finding in findings:
            by_check.setdefault(_CHECK_OF_RULE.get(finding.rule.name, "rules"), []).append(finding)
        return by_check

    @cached_property
    def _listed(self) -> list[Expected]:
        """The first PAGES_MAX pages of the news sitemaps, then of the first other sitemap in the index."""
        site = self.known.site if self.known else Site(host=self.host, publication=self.host)
        answers = [self._served[name] for name in self._named if name != INDEX_FILE and name in self._served]
        if INDEX_FILE in self._served:
            with suppress(FeedError, FetchError):
                index = self._served[INDEX_FILE]
                others = old_sitemaps.children_of(documents.read_document(index.body, index.headers), index.url, site)
                further = next(
                    (url for url in others if "/sitemap-news" not in url and host_of(url) == self.host), None
                )
                answers += [self._get(further, bytes_max=BYTES_MAX)] if further else []
        pages: dict[str, Expected] = {}
        for answer in answers:
            with suppress(FeedError):
                reading = old_sitemaps.read(documents.read_document(answer.body, answer.headers), answer.url, site)
                for entry in reading.entries:
                    if entry.url and host_of(entry.url) == self.host:
                        pages.setdefault(entry.url, Expected(entry.url, entry.published_at))
        return list(pages.values())[:PAGES_MAX]

    # ── the checks ──

    def _certificate(self) -> str:
        context = ssl.create_default_context()
        context.set_alpn_protocols(["h2", "http/1.1"])
        fix = f"serve {self.host} over https, with a valid certificate that has this name"
        try:
            with (
                socket.create_connection(self.server or (self.host, 443), CONNECT_SECONDS_MAX) as connection,
                context.wrap_socket(connection, server_hostname=self.host) as tls,
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
        if expires_at < self.now + EXPIRY_MIN:
            self._fault(f"the certificate expires at {iso(expires_at)}", "renew it now, and see why it was not renewed")
        return f"valid for {self.host} until {iso(expires_at)}"

    def _http_2(self) -> str:
        if self._protocol != "h2":
            self._fault("the server does not offer HTTP/2", "switch HTTP/2 on: crawlers then need fewer connections")
        return "offered"

    def _robots(self) -> str:
        if self._robots_txt.status != 200:
            where = f" to {location}" if (location := self._robots_txt.headers.get("location")) else ""
            self._fault(f"robots.txt answers {self._robots_txt.status}{where}", "serve it with status 200")
            return ""
        text = self._robots_txt.body.decode("utf-8", "replace")
        urls = {line.split(":", 1)[1].strip() for line in text.splitlines() if line.lower().startswith("sitemap:")}
        for url in map(self._url, self._named):
            if url not in urls:
                self._fault(f"robots.txt does not name {url}", f"add the line Sitemap: {url}")
        return f"names {', '.join(self._named)}"

    def _crawlers(self) -> str:
        # Without a robots.txt every crawler may read everything (RFC 9309, 2.3.1.3).
        text = self._robots_txt.body.decode("utf-8", "replace") if self._robots_txt.status == 200 else ""
        may_fetch = rules_in(text)
        urls = [self._url(""), *(page.url for page in self._listed)]
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
        for text in self._left_out:
            self._note(text)
        return f"{', '.join(self._served)} and the files that they name answer 200 without a redirect"

    def _compression(self) -> str:
        for name, answer in self._served.items():
            if answer.body.startswith(_GZIP):
                fix = "let only the last cache compress, and store the file plain"
                self._fault(f"{name} is compressed twice for a client that accepts gzip", fix)
        return "a client that accepts gzip can read the files"

    def _freshness(self) -> str:
        fix = "let each cache obey Cache-Control, and purge the file"
        for name, answer in self._served.items():
            age = answer.headers.get("age", "")
            written = self._written_at(name, answer)
            if age.isdecimal() and int(age) > FRESH_AGE_SECONDS_MAX:
                self._fault(f"{name} has been in a cache for {int(age):,} seconds", fix)
            elif written and self.now - written > timedelta(seconds=FRESH_AGE_SECONDS_MAX):
                self._fault(f"{name} is older than the version written at {iso(written)}", fix)
        return "the files are those of the stack" if self.known else "the index and the files agree"

    def _written_at(self, name: str, answer: client.Response) -> datetime | None:
        """When a newer file than the served one was written: by the bucket, else by the index. None without a newer file."""
        if answer.body.startswith(_GZIP):  # another fault, and nothing to compare
            return None
        if self.known:
            stored = self.known.files.get(name)
            return stored.changed if stored and stored.body != answer.body else None
        listed = re.search(
            rf"<loc>{re.escape(self._url(name))}</loc>\s*<lastmod>([^<]*)",
            self._served[INDEX_FILE].body.decode("utf-8", "replace") if INDEX_FILE in self._served else "",
        )
        with suppress(ValueError, KeyError):
            served = datetime.strptime(answer.headers["last-modified"], "%a, %d %b %Y %H:%M:%S GMT").replace(tzinfo=UTC)
            written = parse(listed[1]) if listed else served
            return written if written - served > timedelta(seconds=FRESH_AGE_SECONDS_MAX) else None
        return None

    def _pages(self) -> str:
        verdicts = check_pages(self._listed, NEVER, self._get_page)
        for url, verdict in verdicts.items():
            if not verdict.ready:
                self._fault(f"{url} {verdict.reason}", _PAGE_FIXES[verdict.kind])
            elif verdict.reason:
                self._note(f"{url} {verdict.reason}")
        return f"{counted(len(verdicts), 'listed page')} can be indexed"

    def _get_page(self, url: str, headers: Mapping[str, str], **limits: object) -> client.Response:
        return self._get(url, headers, **{"redirects": True, **limits})

    def _name(self) -> str:
        listed = {self.known.site.publication} if self.known else self._listed_names()
        name = site_name(self._get(self._url(""), redirects=True))
        if not listed:
            self._note("no article names a publication")
        elif not name:
            self._note(f'the home page gives no name: add JSON-LD with "@type": "WebSite" and the name {min(listed)}')
        elif name not in listed:
            fix = "use the same name in both, the one that Google shows for the site"
            self._fault(f"the home page has the name {name!r}, and the news sitemap has {min(listed)!r}", fix)
        return f"{name}, as on the home page"

    def _listed_names(self) -> set[str]:
        bodies = (answer.body.decode("utf-8", "replace") for answer in self._served.values())
        return {unescape(name).strip() for body in bodies for name in _NAME.findall(body)}

    @property
    def _indexnow_key(self) -> str | None:
        engines = self.known.site.engines if self.known else None
        return engines.indexnow.key if engines and engines.indexnow else None

    def _indexnow(self) -> str:
        assert self._indexnow_key
        url = self._url(key_file(self._indexnow_key))
        answer = self._get(url)
        if answer.status != 200:
            self._fault(f"the key file {url} answers {answer.status}", "let the CDN serve it as it serves the sitemaps")
        elif answer.body.decode("utf-8", "replace").strip() != self._indexnow_key:
            self._fault(f"{url} does not contain the key", "let the CDN serve the file of the bucket")
        return "the key file is served"

    def _unsigned(self) -> str:
        assert self.webhook
        if urlsplit(self.webhook).scheme != "https":
            self._note(f"{self.webhook} is not https and was not checked")
            return ""
        status = client.post(self.webhook, {}).status
        if status != 401:
            fix = "give the URL and source of the site" if status == 404 else "give the source a secret"
            self._fault(f"{self.webhook} answers {status} to an unsigned request, not 401", fix)
        return "answers 401 to an unsigned request"
