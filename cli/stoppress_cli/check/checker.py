"""Checks files one by one, each with its HTTP headers, then all together."""

import re
import sqlite3
from collections.abc import Callable, Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass
from datetime import datetime
from itertools import chain

from stoppress_cli.check.findings import Findings, shown
from stoppress_cli.check.input import Source
from stoppress_cli.check.one_pass import Facts, Occurrences, Pass
from stoppress_cli.check.rulebook import FRESH_AGE_SECONDS_MAX
from stoppress_cli.check.sets import check_sets
from stoppress_cli.check.value_rules import Report, place_of
from stoppress_cli.check.xml_documents import check_file
from stoppress_cli.output import counted

Follow = Callable[[Facts], Iterable[Source]]

_TYPES = {
    "urlset": {"application/xml", "text/xml"},
    "sitemapindex": {"application/xml", "text/xml"},
    "feed": {"application/xml", "text/xml", "application/rss+xml", "application/atom+xml", "application/rdf+xml"},
    "text": {"text/plain"},
    "robots": {"text/plain"},
}
_COMPRESSED_TYPES = {"application/gzip", "application/x-gzip"}
_AGE = re.compile(r"\b(?:s-maxage|max-age)\s*=\s*\"?(\d{1,12})", re.IGNORECASE)
_CHARSET = re.compile(r"charset\s*=\s*\"?([\w-]+)", re.IGNORECASE)
_NOT_CACHED = re.compile(r"\bno-(?:store|cache)\b", re.IGNORECASE)


@dataclass(frozen=True)
class Checked:
    """The files that a run checked."""

    files: list[Facts]

    @property
    def checked_urls(self) -> str:
        """Return how many of the sitemaps' URLs were checked, in words."""
        sitemaps = [facts for facts in self.files if facts.is_sitemap]
        urls, unchecked = (sum(facts.urls for facts in sitemaps), sum(facts.unchecked for facts in sitemaps))
        return f"{urls:,} of {urls + unchecked:,} URLs" if unchecked else counted(urls, "URL")

    @property
    def unchecked(self) -> dict[str, int]:
        """Return how many entries were not checked, by file: those after the place at which it is not well-formed."""
        return {facts.name: facts.unchecked for facts in self.files if facts.unchecked}

    @property
    def unchecked_texts(self) -> list[str]:
        """Return how much of each file was not checked, in words."""
        cut = [facts for facts in self.files if facts.unchecked]
        return [f"{facts.name}: {facts.unchecked:,} of {facts.urls + facts.unchecked:,} entries" for facts in cut]


def check(
    sources: Iterable[Source], findings: Findings, now: datetime, *, is_all: bool = True, follow: Follow | None = None
) -> Checked:
    """Check every rule on every source, and on all sources together.

    `is_all`: the sources are all the files that are published. `follow` is called after each file and
    returns further sources, such as the files that an index lists. Raises OSError where a source cannot be opened.
    """
    files: list[Facts] = []
    first = sorted(sources, key=lambda source: not source.name.endswith("robots.txt"))
    waiting: Iterator[Source] = iter(first)  # each source is fetched just before its check
    listing_hosts: dict[str, set[str]] = {}  # by a sitemap's URL, the hosts whose robots.txt lists it
    with closing(sqlite3.connect("")) as rows:  # in a temporary file
        urls = Occurrences(rows)
        while source := next(waiting, None):
            base = place_of(source.url) if source.url else None
            facts = Facts(source.name, len(files), source.url)
            files.append(facts)
            at = Pass(facts, findings, urls, now, base, frozenset(listing_hosts.get(source.url or "", ())))
            check_file(source, at)
            _check_headers(source, at)
            if base is not None:
                for url in facts.children if facts.kind == "robots" else ():
                    listing_hosts.setdefault(url, set()).add(base.host)
            if follow is not None:
                waiting = chain(waiting, follow(facts))
        check_sets(files, urls, findings.add, all_here=is_all)
    return Checked(files)


def _check_headers(source: Source, at: Pass) -> None:
    """Check Content-Type, Content-Encoding and Cache-Control, if the headers are known."""
    if source.headers is None:
        return
    report = at.on(None)
    is_compressed = source.is_gzip_by_name
    content_type = source.headers.get("content-type", "")
    kind, _, parameters = content_type.partition(";")
    expected = _COMPRESSED_TYPES if is_compressed else _TYPES.get(at.facts.kind)
    charset = _CHARSET.search(parameters)
    if expected and kind.strip().lower() not in expected:
        served = f"as {shown(content_type)}" if content_type else "without Content-Type"
        report("content-type", f"it is served {served}, not as {min(expected)}")
    elif expected and charset and not is_compressed and charset[1].lower() != "utf-8":
        report("content-type", f"it is served as {shown(content_type)}, not in UTF-8")
    elif expected and not charset and kind.strip().lower() == "text/xml":
        report("content-type", "it is served as text/xml, which some readers take for ASCII")
    if encoding := source.headers.get("content-encoding", "").strip():
        reader = "so clients unpack it" if is_compressed else "whatever the client accepts"
        report("content-encoding", f"it is served as {shown(encoding)}, {reader}")
    is_empty_news = at.facts.only_home and "news" in source.name
    if at.facts.is_news or is_empty_news or at.facts.kind == "sitemapindex":
        _check_cache(source.headers.get("cache-control", ""), report)


def _check_cache(control: str, report: Report) -> None:
    ages = [int(age) for age in _AGE.findall(control)]
    if not control:
        report("cache-control", "it has no Cache-Control, so caches may keep it for a day")
    elif not _NOT_CACHED.search(control) and (not ages or max(ages) > FRESH_AGE_SECONDS_MAX):
        report(
            "cache-control", f"Cache-Control {shown(control)} lets caches keep it longer than {FRESH_AGE_SECONDS_MAX} s"
        )
