"""Checks several files together: an index and its sitemaps, duplicates, and alternates."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence

from stoppress_cli.check.findings import shown
from stoppress_cli.check.one_pass import Facts, Occurrence, Occurrences
from stoppress_cli.check.value_rules import Moment

ONE_SIDED_MAX = 1_000  # alternates that are reported
_ENTRY = "sitemap.xml"  # engines look for it at the root of a host

Report = Callable[[str, str, int | None, str], None]  # file, name of the rule, line, fault


def check_sets(files: Sequence[Facts], urls: Occurrences, report: Report, *, all_here: bool) -> None:
    """Check the files against each other. `all_here`: these are all the files that are published."""
    listed, is_whole = _check_indexes(files, report, all_here=all_here)
    _check_forms(files, report)
    _check_duplicates(urls, files, listed, report, is_whole=is_whole)
    is_plain = all(facts.is_whole and facts.kind != "sitemapindex" for facts in files)
    _check_alternates(urls, files, report, is_whole=is_whole or (all_here and is_plain))


def _check_duplicates(
    urls: Occurrences, files: Sequence[Facts], listed: set[int], report: Report, *, is_whole: bool
) -> None:
    """Report duplicate URLs (R2.4, R6.6), and articles that only a news sitemap lists (R2.6).

    `listed` are the files that an index lists. R2.6 is checked only if the set is whole, with every sitemap that the
    indexes list.
    """
    has_general = any(files[number].is_sitemap and not files[number].is_news for number in listed)
    for occurrences in urls.by_url():
        # An empty sitemap lists the home page: no duplicate.
        pages = [place for place in occurrences if not place.is_news and not files[place.file].only_home]
        articles = [place for place in occurrences if place.is_news]
        for place in _repeats(pages, files, listed):
            _report_repeated("duplicate", "URL", pages[0], place, files, report)
        for place in _repeats(articles, files):
            _report_repeated("news-duplicate", "article", articles[0], place, files, report)
        if articles and is_whole and has_general and not pages:
            fault = "this article is in no general sitemap"
            report(files[articles[0].file].name, "news-only", articles[0].line, fault)


def _repeats(
    places: Sequence[Occurrence], files: Sequence[Facts], listed: set[int] | None = None
) -> Iterator[Occurrence]:
    """Yield the places after the first, except those in another form of its sitemap, such as XML and gzip.

    With `listed`, two sitemaps may have the same page if no index lists both.
    """
    for place in places[1:]:
        both = {place.file, places[0].file}
        stems = {_stem(files[number].name) for number in both}
        if len(both) == 1 or (len(stems) == 2 and (listed is None or both <= listed)):
            yield place


def _report_repeated(
    rule: str, what: str, first: Occurrence, here: Occurrence, files: Sequence[Facts], report: Report
) -> None:
    if here[1:3] == first[1:3]:
        fault = f"URL {here.number} of this file is the same as its URL {first.number}"
    else:
        where = f"line {first.line}" if here.file == first.file else f"{files[first.file].name}, line {first.line},"
        fault = f"this {what} is in {where} already"
    report(files[here.file].name, rule, here.line, fault)


def _check_alternates(urls: Occurrences, files: Sequence[Facts], report: Report, *, is_whole: bool) -> None:
    """Report alternates whose page does not point back (R5.1).

    A page that no file lists is reported only if the set is whole and the page is on the same host.
    """
    for file, line, is_near, is_listed in urls.find_one_sided(ONE_SIDED_MAX):
        why = "does not point back" if is_listed else "is in no sitemap here, and so cannot point back"
        if is_listed or (is_whole and is_near):
            report(files[file].name, "alternate-not-mutual", line, f"an alternate of this page {why}")


def _check_indexes(files: Sequence[Facts], report: Report, *, all_here: bool) -> tuple[set[int], bool]:
    """Check the indexes and robots.txt against the files (R6.3 to R6.5). Return the files that an index lists, and whether all are here."""
    children = _find_children(files)
    indexes = [facts for facts in files if facts.kind == "sitemapindex"]
    entries = [(index, loc, child) for index in indexes for loc, child in children[index.number].items()]
    for index, loc, child in entries:
        if child is not None:
            _check_child(index, child, loc, *index.children[loc], report)
    listed = {child.number for _, _, child in entries if child}
    named = {url for facts in files if facts.kind == "robots" for url in facts.children}
    unlisted = _find_unlisted(files, listed, named)
    if listed:
        _check_unlisted(unlisted, indexes, report)
        _check_listed_twice(indexes, report)
    if all_here:
        for facts in files:
            _check_missing(facts, children[facts.number], report)
        _check_entries(unlisted, named | {facts.url for facts in files}, report)
    return listed, bool(listed) and all(child is not None and child.is_whole for _, _, child in entries)


def _find_children(files: Sequence[Facts]) -> list[dict[str, Facts | None]]:
    """Return for each file the files that it lists, by URL. Without their own URLs, files are found by name."""
    by_url = {facts.url: facts for facts in files if facts.url}
    by_name = {facts.name.rpartition("/")[2]: facts for facts in files if not facts.url}
    return [{loc: by_url.get(loc) or by_name.get(loc.rpartition("/")[2]) for loc in facts.children} for facts in files]


def _find_unlisted(files: Sequence[Facts], listed: set[int], named: Collection[str]) -> list[Facts]:
    """Return the files that neither an index nor robots.txt lists."""
    stems = {_stem(files[number].name) for number in listed}
    return [facts for facts in files if facts.url not in named and _stem(facts.name) not in stems]


def _check_missing(facts: Facts, children: Mapping[str, Facts | None], report: Report) -> None:
    """Report the children on the file's own host that are not here. Of an index without a child here, all may be elsewhere."""
    if facts.kind == "robots" or any(child not in (None, facts) for child in children.values()):
        for loc, child in children.items():
            if child is None and (not facts.url or loc.split("/")[:3] == facts.url.split("/")[:3]):
                report(facts.name, "child-missing", facts.children[loc][0], f"{shown(loc)} is not here")


def _check_child(index: Facts, child: Facts, loc: str, line: int, lastmod: Moment | None, report: Report) -> None:
    if child is index:
        report(index.name, "nested-index", line, f"{shown(loc)} is this index itself")
    elif child.kind == "sitemapindex":
        report(index.name, "nested-index", line, f"{shown(loc)} is an index too")
    elif lastmod and child.newest and lastmod.latest < child.newest.earliest:
        listed, newest = lastmod.at.isoformat(), child.newest.at.isoformat()
        fault = f"lastmod {listed} of {child.name} is older than {newest}, its newest date"
        report(index.name, "index-outdated", line, fault)


def _check_entries(unlisted: list[Facts], found_urls: Collection[str | None], report: Report) -> None:
    """Report a sitemap at the root of each host that engines cannot find (R8.2). `found_urls` are the URLs that they do find."""
    by_root: dict[str, Facts] = {}
    for facts in unlisted:
        root, _, name = (facts.url or "").rpartition("/")
        is_at_root = name and root.count("/") == 2 and facts.kind in {"urlset", "sitemapindex"}
        if is_at_root and f"{root}/{_ENTRY}" not in found_urls:
            by_root.setdefault(root, facts)
    for facts in by_root.values():
        folder, slash, name = facts.name.rpartition("/")
        fault = f"there is no {_ENTRY}, and no robots.txt here lists {name}"
        report(f"{folder}{slash}{_ENTRY}", "no-entry", None, fault)


def _check_unlisted(unlisted: list[Facts], indexes: list[Facts], report: Report) -> None:
    for facts in unlisted:
        is_sitemap = facts.kind in {"urlset", "text"} and not facts.only_home
        if is_sitemap and any(_is_below(facts, index) for index in indexes):
            report(facts.name, "not-in-index", None, "no index lists this sitemap")


def _check_listed_twice(indexes: list[Facts], report: Report) -> None:
    """Report sitemaps that indexes list twice, such as a plain file and its gzip (R6.6)."""
    first: dict[str, tuple[str, str]] = {}
    for index in indexes:
        for loc, (line, _) in index.children.items():
            where, other = first.setdefault(_stem(loc), (_stem(index.name), loc))
            if (where, other) != (_stem(index.name), loc):
                report(index.name, "duplicate", line, f"{shown(other)} is in an index already")


def _check_forms(files: Sequence[Facts], report: Report) -> None:
    """Report forms of a sitemap that differ: XML and its gzip in their bytes, XML and text in their URLs (R1.15)."""
    first: dict[str, Facts] = {}
    for facts in files:
        if facts.kind not in {"urlset", "sitemapindex", "text"} or not facts.is_whole:
            continue
        other = first.setdefault(_stem(facts.name), facts)
        is_equal = (other.urls, other.listed) == (facts.urls, facts.listed)
        if not is_equal or (other.kind == facts.kind and other.checksum != facts.checksum):
            report(facts.name, "forms-differ", None, f"{other.name} is the same sitemap with other content")


def _stem(name: str) -> str:
    """Return a sitemap's name without .xml, .txt or .gz, the same for all forms of a sitemap."""
    return name.removesuffix(".gz").removesuffix(".xml").removesuffix(".txt")


def _is_below(facts: Facts, index: Facts) -> bool:
    """Return True if a file is in the index's directory or deeper, so that the index could list it."""
    if facts.url and index.url:
        return facts.url.startswith(index.url.rpartition("/")[0] + "/")
    return facts.name.startswith(index.name.rpartition("/")[0])
