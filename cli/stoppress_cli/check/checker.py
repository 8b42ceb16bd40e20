"""Checks files one by one, then all together."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime

from stoppress_cli.check.documents import check_file
from stoppress_cli.check.findings import Findings
from stoppress_cli.check.input import Source
from stoppress_cli.check.one_pass import Facts, Pass, facts_of
from stoppress_cli.check.serving import check_headers
from stoppress_cli.check.sets import Together, check_indexes
from stoppress_cli.check.values import place_of

Follow = Callable[[Facts], Iterable[Source]]


@dataclass
class Checked:
    """The files that a run checked, by number."""

    files: dict[int, Facts] = field(default_factory=dict)

    @property
    def urls(self) -> int:
        return sum(facts.urls for facts in self.files.values() if facts.is_sitemap)


def check(
    sources: Iterable[Source], findings: Findings, now: datetime, *, is_all: bool = True, follow: Follow | None = None
) -> Checked:
    """Checks every rule on every source, and on all sources together.

    `is_all`: the sources are all the files that are published. `follow` is called after each file and
    returns further sources, such as the files that an index names. Raises OSError where a source cannot be opened.
    """
    checked, together = Checked(), Together()
    waiting = sorted(sources, key=lambda source: not source.name.endswith("robots.txt"))
    guests: dict[str, set[str]] = {}  # by a sitemap's URL, the hosts whose robots.txt names it
    while waiting:
        source = waiting.pop(0)
        number = len(checked.files)
        facts, base = facts_of(source.name, number, source.url)
        checked.files[number] = facts
        at = Pass(facts, findings, together, now, base, frozenset(guests.get(source.url or "", ())))
        check_file(source, at)
        check_headers(source, at)
        if base is not None:
            for _, url in facts.named:
                guests.setdefault(url, set()).add(base.host)
        if follow is not None:
            waiting += follow(facts)
    held, whole = check_indexes(checked.files, findings.add, all_here=is_all)
    together.duplicates(checked.files, held, findings.add, whole=whole)
    indexed = any(facts.kind == "sitemapindex" for facts in checked.files.values())
    alone = is_all and not indexed and all(facts.is_whole for facts in checked.files.values())
    together.one_sided(checked.files, whole=whole or alone, say=findings.add)
    return checked


def named_in(facts: Facts) -> list[tuple[str, int]]:
    """The URLs of the sitemaps that an index or a robots.txt names, each with its line."""
    named = [(loc, line) for loc, (line, _) in facts.children.items()] + [(url, line) for line, url in facts.named]
    return [(url, line) for url, line in named if place_of(url) is not None]
