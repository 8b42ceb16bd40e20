"""Check the files that a scenario has saved: by `stoppress check`, by the official schemas, and against the save before."""

import re
from collections.abc import Collection, Iterator
from datetime import datetime
from functools import cache
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from lxml import etree

from stoppress_cli.check import checker
from stoppress_cli.check.findings import Findings
from stoppress_cli.inputs.folder import collect
from tests.support.adjacent_paths import SHARED

SITEMAP = "{http://www.sitemaps.org/schemas/sitemap/0.9}"
ATOM = "{http://www.w3.org/2005/Atom}"
NEWS = "{http://www.google.com/schemas/sitemap-news/0.9}"
Entries = dict[str, tuple[str, str]]  # by loc: lastmod and publication_date, as they are written


@cache
def schema(name: str) -> Any:
    return etree.XMLSchema(etree.parse(SHARED / "schemas" / name, etree.XMLParser(no_network=True)))


def broken_rules(folder: Path, now: datetime, ignored: Collection[str] = ()) -> list[str]:
    """Return every finding in a folder of hosts, or of one host. `ignored` are names of rules of the checker."""
    report = Findings(each_max=20)
    checked = checker.check(collect(folder, None).sources, report, now)
    findings = [finding for finding in report if finding.rule.name not in ignored]
    files = {path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file()}
    unchecked = files - {facts.name for facts in checked.files}
    return [
        *(f"{found.file}:{found.line}: {found.rule.name}: {found.message}" for found in findings),
        *(f"{name} is not a file that the checker reads" for name in sorted(unchecked)),
        *(f"{path.name}: {error}" for path in folder.rglob("*.xml") for error in _schema_errors(path)),
        *(f"{path.name} lists other articles than the news" for path in folder.rglob("*.atom") if _is_stale(path)),
    ]


def _schema_errors(path: Path) -> list[str]:
    if not SHARED.is_dir():
        return []
    root = etree.parse(path).getroot()
    validator = schema("siteindex.xsd" if root.tag == f"{SITEMAP}sitemapindex" else "all.xsd")
    return [] if validator.validate(root) else [error.message for error in validator.error_log]


def _is_stale(feed: Path) -> bool:
    """Return True if an Atom feed does not list exactly the articles of its news sitemaps."""
    links = [link.get("href") for link in etree.parse(feed).iterfind(f"{ATOM}entry/{ATOM}link[@rel='alternate']")]
    news = (
        path for path in feed.parent.glob("*.xml") if re.fullmatch(rf"{re.escape(feed.stem)}(?:-\d+)?\.xml", path.name)
    )
    return sorted(links) != sorted(loc for path in news for loc, (_, date) in _entries_of(path).items() if date)


def changes(before: Path, after: Path, moved: Collection[str] = ()) -> Iterator[str]:
    """Yield what must not change between two saves of a host. The URLs in `moved` may change their file or date."""
    then, since = _entries(before), _entries(after)
    for name in sorted(then.keys() & since.keys()):
        both = then[name].keys() & since[name].keys()
        if name == "sitemap.xml":
            misdated = (loc for loc in sorted(both) if _is_misdated(loc, then[name], since[name], before, after))
            yield from (
                f"R6.4 {loc}: of its bytes and its lastmod in the index only one has changed" for loc in misdated
            )
            continue
        dates = {since[name][loc][0] for loc in both}
        if len(both) > 1 and len(dates) == 1 and dates.isdisjoint(then[name][loc][0] for loc in both):
            yield f"R7.2 {name}: all its lastmods became one new instant, which is a build's and not a page's"
    for rule, place_of in (("R6.6", _shards), ("R2.11", _dates)):
        old, new = place_of(then), place_of(since)
        for loc in sorted(old.keys() & new.keys() - set(moved)):
            if old[loc] != new[loc]:
                yield f"{rule} {loc} changed from {old[loc]} to {new[loc]}"


def _is_misdated(loc: str, then: Entries, since: Entries, before: Path, after: Path) -> bool:
    name = loc.rpartition("/")[2]
    is_there = (before / name).is_file() and (after / name).is_file()
    return is_there and (then[loc] == since[loc]) != ((before / name).read_bytes() == (after / name).read_bytes())


def _shards(files: dict[str, Entries]) -> dict[str, str]:
    shards = (name for name in files if not re.fullmatch(r"sitemap(?:-news.*)?\.xml", name))
    return {loc: name for name in shards for loc in files[name] if urlsplit(loc).path != "/"}


def _dates(files: dict[str, Entries]) -> dict[str, str]:
    return {loc: date for entries in files.values() for loc, (_, date) in entries.items() if date}


def _entries(folder: Path) -> dict[str, Entries]:
    return {path.name: _entries_of(path) for path in sorted(folder.glob("*.xml"))}


def _entries_of(path: Path) -> Entries:
    return {
        entry.findtext(f"{SITEMAP}loc"): (
            entry.findtext(f"{SITEMAP}lastmod", ""),
            entry.findtext(f"{NEWS}news/{NEWS}publication_date", ""),
        )
        for entry in etree.parse(path).getroot().iterfind(f"{SITEMAP}*")
    }
