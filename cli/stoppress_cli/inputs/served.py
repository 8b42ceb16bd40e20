"""What a host serves to search engines, each file fetched once: robots.txt, the sitemaps that it should name, the pages they list.

`known` has what a stack has of the same site, to compare with.
"""

import os
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property
from itertools import islice

from stoppress.aws import bucket, sites
from stoppress.feeds import feed_documents, old_sitemaps
from stoppress.feeds.feed_documents import FeedError
from stoppress.http import client
from stoppress.http.errors import FetchError
from stoppress.model.file_names import BYTES_MAX, INDEX_FILE, NEWS_FILE
from stoppress.model.site import Site
from stoppress.primitives.urls import host_of
from stoppress.sitemaps.robots import named_in_robots
from stoppress_cli.check import checker
from stoppress_cli.check.findings import Finding, Findings
from stoppress_cli.inputs.folder import Unreadable
from stoppress_cli.inputs.website import Fetcher

Server = tuple[str, int]

PAGES_MAX = 10
# How many findings of one kind in one file are shown.
EACH_MAX = 3

# The doctor's check to which a rule of `stoppress check` belongs. Other rules belong to `rules`.
_CHECK_OF_RULE = {
    **dict.fromkeys(("not-served", "redirected", "child-missing"), "answers"),
    **dict.fromkeys(("content-type", "content-encoding", "cache-control", "compressed-name"), "headers"),
    **dict.fromkeys(("other-host", "other-protocol", "out-of-scope", "index-scope", "storage-host"), "scope"),
    **dict.fromkeys(("robots-value", "robots-unknown", "robots-disallowed", "no-entry"), "robots.txt"),
    "index-outdated": "freshness",
    "crawler-shut-out": "",  # left out: the check `crawlers` covers it
}


@dataclass(frozen=True)
class Known:
    """What a stack knows of a site: the configuration, the files in the bucket by name, and the URL of a webhook."""

    site: Site
    files: Mapping[str, bucket.StoredFile]
    webhook: str | None = None


def known(host: str) -> Known:
    """Return what the connected stack knows of a site. Raises UnknownSite and BadConfiguration."""
    site = sites.load(host)
    files = {name: file for name in named_in_robots(site) if (file := bucket.read(host, name))}
    source = next((name for name, source in site.sources.items() if source.secret), None)
    webhooks = os.environ.get("WEBHOOKS_URL")
    return Known(site, files, f"{webhooks}/webhooks/{host}/{source}" if webhooks and source else None)


@dataclass
class Served:
    """What a host serves. `server` is an address and port to connect to, instead of the host's own.

    `left_out` has notes on files that were not fetched, and on findings that are not shown.
    """

    host: str
    now: datetime
    known: Known | None = None
    server: Server | None = None
    left_out: list[str] = field(default_factory=list)

    @property
    def origin(self) -> str:
        return self.known.site.origin if self.known else f"https://{self.host}"

    def url(self, file: str) -> str:
        return f"{self.origin}/{file}"

    def get(self, url: str, headers: Mapping[str, str] | None = None, **limits: object) -> client.Response:
        """Raises FetchError."""
        return client.fetch(url, headers, **{"redirects": False, "server": self.server, **limits})  # type: ignore[arg-type]

    @cached_property
    def robots_txt(self) -> client.Response:
        return self.get(self.url("robots.txt"))

    @cached_property
    def named(self) -> list[str]:
        """The files that robots.txt should name."""
        return named_in_robots(self.known.site) if self.known else [INDEX_FILE, NEWS_FILE]

    @cached_property
    def files(self) -> dict[str, client.Response]:
        """The answers with status 200 for the files that robots.txt should name, by file name."""
        answers = {}
        for name in self.named:
            with suppress(FetchError):
                answers[name] = self.get(self.url(name), bytes_max=BYTES_MAX)
        return {name: answer for name, answer in answers.items() if answer.status == 200}

    @cached_property
    def findings(self) -> dict[str, list[Finding]]:
        """What `stoppress check` finds in robots.txt and all sitemaps, by the doctor's check."""
        findings, sources = Findings(EACH_MAX), []
        fetcher = Fetcher(findings, self.server)
        for name in ("robots.txt", *self.named):
            try:
                sources.append(fetcher.first(self.url(name)))
            except Unreadable as error:
                if name != "robots.txt":
                    findings.add(name, "not-served", None, str(error))
        checker.check(sources, findings, self.now, is_all=False, follow=fetcher.follow)
        self.left_out += fetcher.notes
        if more := sum(findings.omitted.values()):
            self.left_out.append(f"{more:,} more findings: stoppress check {self.url('robots.txt')} shows them")
        by_check: dict[str, list[Finding]] = {}
        for finding in findings:
            by_check.setdefault(_CHECK_OF_RULE.get(finding.rule.name, "rules"), []).append(finding)
        return by_check

    @cached_property
    def listed(self) -> dict[str, datetime | None]:
        """The first PAGES_MAX pages of the news sitemaps, then of the first other sitemap in the index, with their dates."""
        site = self.known.site if self.known else Site(host=self.host, publication=self.host)
        answers = [self.files[name] for name in self.named if name != INDEX_FILE and name in self.files]
        if INDEX_FILE in self.files:
            with suppress(FeedError, FetchError):
                index = self.files[INDEX_FILE]
                others = old_sitemaps.children_of(
                    feed_documents.read_document(index.body, index.headers), index.url, site
                )
                further = next(
                    (url for url in others if "/sitemap-news" not in url and host_of(url) == self.host), None
                )
                answers += [self.get(further, bytes_max=BYTES_MAX)] if further else []
        pages: dict[str, datetime | None] = {}
        for answer in answers:
            with suppress(FeedError):
                reading = old_sitemaps.read(feed_documents.read_document(answer.body, answer.headers), answer.url, site)
                for entry in reading.entries:
                    if entry.url and host_of(entry.url) == self.host:
                        pages.setdefault(entry.url, entry.published_at)
        return dict(islice(pages.items(), PAGES_MAX))
