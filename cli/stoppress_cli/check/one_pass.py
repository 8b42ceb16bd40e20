"""The state of the pass over one file, and the facts about it that later checks need."""

import sqlite3
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from stoppress.primitives.xml import Node
from stoppress_cli.check.findings import Findings, shown
from stoppress_cli.check.rulebook import EXTENSIONS, URLS_MAX
from stoppress_cli.check.value_rules import Moment, Place, is_storage


@dataclass
class Facts:
    """The facts about one file that the rules on several files need."""

    name: str
    number: int
    url: str | None
    kind: str = "unknown"  # urlset, sitemapindex, feed, text, robots, unknown
    urls: int = 0
    unchecked: int = 0  # entries after the place at which the file is not well-formed
    articles: int = 0
    only_home: bool = False
    is_whole: bool = True  # read to its end
    newest: Moment | None = None
    checksum: int = 0  # of its uncompressed bytes
    listed: int = 0  # a sum over its URLs that does not depend on their order
    # The sitemaps that an index or a robots.txt lists, by URL: line, lastmod.
    children: dict[str, tuple[int, Moment | None]] = field(default_factory=dict)

    @property
    def is_news(self) -> bool:
        return self.articles > 0

    @property
    def is_sitemap(self) -> bool:
        return self.kind in {"urlset", "feed", "text"}


class Occurrence(NamedTuple):
    """A place that lists a URL: the file and line, and the URL's number in the file, because a file may be a single line."""

    is_news: int
    file: int
    line: int
    number: int


class Occurrences:
    """The URLs and the alternates of all files, to be compared when every file has been read. Their hashes are in a temporary file.

    Python's hash has a random key in each process, so that no site can construct URLs that collide.
    """

    def __init__(self, rows: sqlite3.Connection) -> None:
        self._rows = rows
        self._rows.execute("CREATE TABLE urls (url, is_news, file, line, number)")
        self._rows.execute("CREATE TABLE alternates (page, other, file, line, near)")

    def add_url(self, loc: str, occurrence: Occurrence) -> None:
        """Add a page, or an article, that a file lists."""
        self._rows.execute("INSERT INTO urls VALUES (?, ?, ?, ?, ?)", (hash(loc), *occurrence))

    def add_alternate(self, loc: str, href: str, file: int, line: int, *, is_near: bool) -> None:
        """Add an alternate of a page other than the page itself. `is_near`: both are on one host."""
        row = hash(loc), hash(href), file, line, is_near
        self._rows.execute("INSERT INTO alternates VALUES (?, ?, ?, ?, ?)", row)

    def by_url(self) -> Iterator[list[Occurrence]]:
        """Yield the occurrences of each URL, in the order in which they were added."""
        rows = self._rows.execute("SELECT * FROM urls ORDER BY url, rowid")
        for _, group in groupby(rows, key=lambda row: row[0]):
            yield [Occurrence(*row[1:]) for row in group]

    def find_one_sided(self, limit: int) -> list[tuple[int, int, bool, bool]]:
        """Return alternates that do not point back: file and line of the page, if both share a host, and if a file lists the alternate."""
        self._rows.execute("CREATE INDEX pairs ON alternates (page, other)")
        self._rows.execute("CREATE INDEX listed ON urls (url)")
        return self._rows.execute(
            """
            SELECT file, line, near, EXISTS (SELECT 1 FROM urls WHERE url = link.other) FROM alternates AS link
            WHERE NOT EXISTS (SELECT 1 FROM alternates AS back WHERE back.page = link.other AND back.other = link.page)
            ORDER BY file, line LIMIT ?
            """,
            (limit,),
        ).fetchall()


@dataclass
class Pass:
    """The state of the pass over one file. Rules report through `report`."""

    facts: Facts
    findings: Findings
    urls: Occurrences  # of all files
    now: datetime
    base: Place | None  # the file's place; if it is unknown, the host of its first URL is used
    listing_hosts: frozenset[str] = frozenset()  # other hosts whose robots.txt lists this file (R1.9)
    first_lines: dict[bool, int] = field(default_factory=dict)  # of articles, and of other pages

    def report(self, name: str, line: int | None, message: str) -> None:
        self.findings.add(self.facts.name, name, line, message)

    def read_children(self, node: Node, names: Collection[str]) -> dict[str, list[Node]]:
        """Return the children of an extension's element with these names, by name. Report the others."""
        extension, children = EXTENSIONS[node.namespace or ""], dict[str, list[Node]]()
        for child in node.children:
            if child.namespace == node.namespace and child.name in names:
                children.setdefault(child.name, []).append(child)
            elif child.namespace == node.namespace and child.name in extension.retired:
                self.report(f"{extension.prefix}-dead-tag", child.line, f"{child.tag} was retired")
            else:
                self.report(f"{extension.prefix}-unknown-tag", child.line, f"{child.tag} does not exist in {node.tag}")
        return children

    def on(self, line: int | None) -> Callable[[str, str], None]:
        """Return `report` for one line."""
        return lambda name, message: self.findings.add(self.facts.name, name, line, message)

    def keep_newest(self, moment: Moment | None) -> None:
        """Keep the date if it is the newest in the file so far."""
        if moment and (self.facts.newest is None or moment.earliest > self.facts.newest.earliest):
            self.facts.newest = moment

    def count_url(self, loc: str, place: Place | None, line: int, *, is_news: bool) -> None:
        """Count a page that the file lists, and check its place (R1.7 to R1.10)."""
        self._count(loc, place, line, "sitemap")
        self.facts.only_home = self.facts.urls == 1 and not is_news and place is not None and place.is_home
        self.facts.articles += is_news
        self.first_lines.setdefault(is_news, line)
        if loc:
            self.facts.listed += hash(loc)
            self.urls.add_url(loc, Occurrence(is_news, self.facts.number, line, self.facts.urls))

    def count_child(self, loc: str, place: Place | None, line: int, lastmod: Moment | None) -> None:
        """Count a sitemap that the index lists, and check its place (R1.11, R6.1)."""
        self._count(loc, place, line, "index")
        if loc in self.facts.children:
            first = self.facts.children[loc][0]
            self.report("duplicate", line, f"{shown(loc)} is in the index twice, first on line {first}")
        elif loc and len(self.facts.children) <= URLS_MAX:
            self.facts.children[loc] = (line, lastmod)

    def _count(self, url: str, place: Place | None, line: int, what: str) -> None:
        """Count an entry, and check that the file has not too many."""
        if place is not None:
            self._check_scope(url, place, line, what)
        self.facts.urls += 1
        if self.facts.urls == URLS_MAX + 1:
            rule = "too-many-urls" if what == "sitemap" else "too-many-sitemaps"
            self.report(rule, line, f"this is entry number {URLS_MAX + 1:,}, and the limit is {URLS_MAX:,}")

    def _check_scope(self, url: str, place: Place, line: int, what: str) -> None:
        """Check that a URL has the file's host and protocol, and is in its directory."""
        if is_storage(place.host):
            self.report("storage-host", line, f"{place.host} is where files are stored")
        base = self.base = self.base or Place(place.scheme, place.host, "/")
        if place.host != base.host:
            rule, where = "other-host", f"is not on {base.host}, where"
        elif place.scheme != base.scheme:
            rule, where = "other-protocol", f"is not {base.scheme}, as"
        elif not place.path.startswith(base.directory):
            rule, where = "out-of-scope", f"is outside {base.directory}, where"
        else:
            return
        if what == "index" or rule != "other-host" or place.host not in self.listing_hosts:
            rule = "index-scope" if what == "index" else rule
            self.report(rule, line, f"{shown(url)} {where} this {what} is")
