"""Checks several files together: an index and its sitemaps, duplicates, and alternates."""

from collections.abc import Callable, Collection, Mapping, Sequence

from stoppress_cli.check.findings import shown
from stoppress_cli.check.one_pass import Facts, Occurrence, Occurrences
from stoppress_cli.check.value_rules import Moment

ONE_SIDED_MAX = 1_000  # alternates that are reported
_ENTRY = "sitemap.xml"  # engines look for it at the root of a host

Say = Callable[[str, str, int | None, str], None]  # file, name of the rule, line, message
Files = Mapping[int, Facts]


def check_duplicates(urls: Occurrences, files: Files, indexed: set[int], say: Say, *, whole: bool) -> None:
    """Report duplicate URLs (R2.4, R6.6), and articles that only a news sitemap lists (R2.6).

    `indexed` are the files that an index lists. Two general sitemaps may list the same page if no index lists both.
    R2.6 is checked only if the set is `whole`, with every sitemap that the indexes list.
    """
    general = [number for number in indexed if files[number].is_sitemap and not files[number].is_news]
    for occurrences in urls.by_url():
        # An empty sitemap lists the home page: no duplicate.
        pages = [place for place in occurrences if not place.is_news and not files[place.file].only_home]
        articles = [place for place in occurrences if place.is_news]
        repeated = (
            place
            for place in _repeats(pages, files)
            if place.file == pages[0].file or {place.file, pages[0].file} <= indexed
        )
        for place in repeated:
            _say_repeated("duplicate", "URL", pages[0], place, files, say)
        for place in _repeats(articles, files):
            _say_repeated("news-duplicate", "article", articles[0], place, files, say)
        if articles and whole and general and not pages:
            message = "this article is in no general sitemap"
            say(files[articles[0].file].name, "news-only", articles[0].line, message)


def _repeats(places: Sequence[Occurrence], files: Files) -> list[Occurrence]:
    """Return all occurrences but the first, and but those in another form of its sitemap, such as XML and gzip."""
    forms = {place.file: _stem(files[place.file].name) for place in places}
    return [place for place in places[1:] if place.file == places[0].file or forms[place.file] != forms[places[0].file]]


def check_alternates(urls: Occurrences, files: Files, say: Say, *, whole: bool) -> None:
    """Report alternates whose page does not point back (R5.1).

    A page that no file lists is reported only if the set is `whole` and the page is on the same host.
    """
    for file, line, is_near, is_listed in urls.one_sided(ONE_SIDED_MAX):
        if is_listed:
            why = "does not point back"
        elif whole and is_near:
            why = "is in no sitemap here, and so cannot point back"
        else:
            continue
        say(files[file].name, "alternate-not-mutual", line, f"an alternate of this page {why}")


def check_indexes(files: Files, say: Say, *, all_here: bool) -> tuple[set[int], bool]:
    """Checks the indexes and robots.txt against the files (R6.3 to R6.5).

    Returns the files that an index lists, and whether all of them are here. `all_here`: these are all the files that
    are published.
    """
    whole = True
    by_url = {facts.url: facts for facts in files.values() if facts.url}
    by_path = {facts.name.rpartition("/")[2]: facts for facts in files.values() if not facts.url}
    held: set[int] = set()
    indexes = [facts for facts in files.values() if facts.kind == "sitemapindex"]
    for facts in files.values():
        children = {loc: by_url.get(loc) or by_path.get(loc.rpartition("/")[2]) for loc in facts.children}
        any_here = facts.kind == "robots" or any(child not in (None, facts) for child in children.values())
        if all_here and any_here:
            _check_missing(facts, children, say)
        if facts.kind == "sitemapindex":
            here = {loc: child for loc, child in children.items() if child}
            held |= {child.number for child in here.values()}
            whole = whole and len(here) == len(children) and all(child.is_whole for child in here.values())
            for loc, child in here.items():
                _check_child(facts, child, loc, *facts.children[loc], say)
    lost, named = _find_lost(files, held)
    if held:
        _check_unlisted(lost, indexes, say)
        _check_listed_twice(indexes, say)
    _check_forms(files, say)
    if all_here:
        _check_entries(lost, named | by_url.keys(), say)
    return held, whole and bool(held)


def _find_lost(files: Files, held: set[int]) -> tuple[list[Facts], set[str]]:
    """Return the files that neither an index nor robots.txt lists, and the URLs in robots.txt."""
    named = {url for facts in files.values() if facts.kind == "robots" for url in facts.children}
    listed = {_stem(files[number].name) for number in held}
    return [facts for facts in files.values() if facts.url not in named and _stem(facts.name) not in listed], named


def _check_missing(facts: Facts, children: Mapping[str, Facts | None], say: Say) -> None:
    for loc, child in children.items():
        if child is None and _is_beside(loc, facts):
            say(facts.name, "child-missing", facts.children[loc][0], f"{shown(loc)} is not here")


def _check_child(index: Facts, child: Facts, loc: str, line: int, lastmod: Moment | None, say: Say) -> None:
    if child is index:
        say(index.name, "nested-index", line, f"{shown(loc)} is this index itself")
    elif child.kind == "sitemapindex":
        say(index.name, "nested-index", line, f"{shown(loc)} is an index too")
    elif lastmod and child.newest and lastmod.latest < child.newest.earliest:
        listed, newest = lastmod.at.isoformat(), child.newest.at.isoformat()
        message = f"lastmod {listed} of {child.name} is older than {newest}, its newest date"
        say(index.name, "index-outdated", line, message)


def _check_entries(lost: list[Facts], found: Collection[str], say: Say) -> None:
    """Reports a sitemap at the root of each host that engines cannot find (R8.2). `found` are the URLs that they do find."""
    by_root: dict[str, Facts] = {}
    for facts in lost:
        root, _, name = (facts.url or "").rpartition("/")
        is_at_root = name and root.count("/") == 2 and facts.kind in {"urlset", "sitemapindex"}
        if is_at_root and f"{root}/{_ENTRY}" not in found:
            by_root.setdefault(root, facts)
    for facts in by_root.values():
        folder, slash, name = facts.name.rpartition("/")
        message = f"there is no {_ENTRY}, and no robots.txt here names {name}"
        say(f"{folder}{slash}{_ENTRY}", "no-entry", None, message)


def _check_unlisted(lost: list[Facts], indexes: list[Facts], say: Say) -> None:
    for facts in lost:
        is_sitemap = facts.kind in {"urlset", "text"} and not facts.only_home
        if is_sitemap and any(_is_below(facts, index) for index in indexes):
            say(facts.name, "not-in-index", None, "no index lists this sitemap")


def _check_listed_twice(indexes: list[Facts], say: Say) -> None:
    """Reports sitemaps that indexes list twice, such as a plain file and its gzip (R6.6)."""
    first: dict[str, tuple[str, str]] = {}
    for index in indexes:
        for loc, (line, _) in index.children.items():
            where, other = first.setdefault(_stem(loc), (_stem(index.name), loc))
            if (where, other) != (_stem(index.name), loc):
                say(index.name, "duplicate", line, f"{shown(other)} is in an index already")


def _check_forms(files: Files, say: Say) -> None:
    """Reports forms of a sitemap that differ: XML and its gzip in their bytes, XML and text in their URLs (R1.15)."""
    first: dict[str, Facts] = {}
    for facts in files.values():
        if facts.kind not in {"urlset", "sitemapindex", "text"} or not facts.is_whole:
            continue
        other = first.setdefault(_stem(facts.name), facts)
        is_equal = (other.urls, other.listed) == (facts.urls, facts.listed)
        if not is_equal or (other.kind == facts.kind and other.checksum != facts.checksum):
            message = f"{other.name} is the same sitemap with other content"
            say(facts.name, "forms-differ", None, message)


def _stem(name: str) -> str:
    """A sitemap's name without .xml, .txt or .gz, the same for all forms of a sitemap."""
    return name.removesuffix(".gz").removesuffix(".xml").removesuffix(".txt")


def _is_beside(loc: str, index: Facts) -> bool:
    """Whether a sitemap is on the index's own host, and so should be among these files."""
    return not index.url or loc.split("/")[:3] == index.url.split("/")[:3]


def _is_below(facts: Facts, index: Facts) -> bool:
    """Whether a file is in the index's directory or deeper, so that the index could list it."""
    if facts.url and index.url:
        return facts.url.startswith(index.url.rpartition("/")[0] + "/")
    return facts.name.startswith(index.name.rpartition("/")[0])


def _say_repeated(rule: str, what: str, first: Occurrence, here: Occurrence, files: Files, say: Say) -> None:
    if here[1:3] == first[1:3]:
        message = f"URL {here.number} of this file is the same as its URL {first.number}"
    else:
        where = f"line {first.line}" if here.file == first.file else f"{files[first.file].name}, line {first.line},"
        message = f"this {what} is in {where} already"
    say(files[here.file].name, rule, here.line, message)
