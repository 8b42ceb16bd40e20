"""Checks one file. Its content shows whether it is a urlset, an index, a feed, a list of URLs or a robots.txt."""

import re
from collections.abc import Iterator

from stoppress.primitives.xml import Broken, Document, Node
from stoppress_cli.check import entry_rules
from stoppress_cli.check.findings import shown
from stoppress_cli.check.input import Source, Text, read_text
from stoppress_cli.check.namespaces import SITEMAP_ROOTS, Namespaces
from stoppress_cli.check.one_pass import Pass
from stoppress_cli.check.robots_rules import check_robots, is_robots
from stoppress_cli.check.rulebook import NEWS_ENTRIES_MAX, SITEMAP
from stoppress_cli.check.value_rules import check_url

COMMENT_CHARACTERS_MAX = 500  # only this part of a comment is checked
LINE_CHARACTERS_MAX = 65_536  # only this part of a line in a text sitemap, or of a tag, is read; no URL is as long
_ROOT = re.compile(r"<(?:[\w.-]+:)?(urlset|sitemapindex|rss|feed|RDF)[\s>/]")
_PAGE = re.compile(r"\s*(?:<!doctype\s+html|<html[\s>])", re.IGNORECASE)
_URL_LINE = re.compile(r"\s*https?://", re.IGNORECASE)
# A comment with the time of generation, which changes the file's bytes each time (R6.4).
_GENERATED_AT = re.compile(
    r"\d{4}-\d\d-\d\d|\d\d?:\d\d|\b(?:generated|written|created|updated|built|cached|made)\s+(?:at|on)\b.{0,80}\d",
    re.IGNORECASE | re.DOTALL,
)
_FEED_ROOTS = {"rss": 3, "RDF": 2, "feed": 2}  # the depth of a feed's entries, by its root element


def looks_like_sitemap(head: str) -> bool:
    """Return True if a file begins like a sitemap, a feed, a list of URLs or a robots.txt."""
    return bool(_ROOT.search(head)) or _is_list(head[:2_048]) or is_robots(head)


def _is_list(head: str) -> bool:
    return any(_URL_LINE.match(line) for line in head.splitlines())


def check_file(source: Source, at: Pass) -> None:
    with source.open() as stream:
        text = read_text(stream, at.report)
        if _PAGE.match(text.head):
            at.report("root-element", 1, "this is an HTML page")
        elif text.head.lstrip().startswith("<"):
            if not _check_xml(text, at):
                at.facts.unchecked = max(0, _count_entries(source, at.facts.kind) - at.facts.urls)
        elif is_robots(text.head) or source.name.rpartition("/")[2] == "robots.txt":
            at.facts.kind = "robots"
            check_robots(text, at)
        elif text.head.strip() and (_is_list(text.head) or source.name.endswith(".txt")):
            at.facts.kind = "text"
            _check_lines(text, at)
        elif text.head.strip():
            at.report("root-element", 1, f"it begins with {shown(text.head.strip()[:60])}")
        else:
            for _ in text.rest:  # reading the rest reports the faults of its bytes
                pass
            if not text.cut:  # a file that is cut off has a finding already
                at.report("not-well-formed", None, "it is empty")
    at.facts.checksum = text.checksum
    at.facts.is_whole = at.facts.is_whole and at.facts.kind != "unknown"
    _check_name(source, text, at)
    _check_counts(at)


def _check_name(source: Source, text: Text, at: Pass) -> None:
    if at.facts.kind == "robots" or (source.headers or {}).get("content-encoding"):
        return
    if text.compressed and not source.is_gzip_by_name:
        at.report("compressed-name", None, "it is compressed, and its name does not end in .gz")
    elif source.is_gzip_by_name and not text.compressed and text.bytes:
        at.report("compressed-name", None, "it is not compressed, and its name ends in .gz")


def _check_counts(at: Pass) -> None:
    facts = at.facts
    if facts.articles > NEWS_ENTRIES_MAX:
        at.report("too-many-news", None, f"it has {facts.articles:,} articles, and the limit is {NEWS_ENTRIES_MAX:,}")
    plain = facts.urls - facts.articles
    if facts.articles and plain and facts.kind == "urlset":
        if facts.articles >= plain:
            at.report("news-mixed", at.first_lines[False], f"{plain:,} of {facts.urls:,} URLs have no news tags")
        else:
            fault = f"{facts.articles:,} of {facts.urls:,} URLs have news tags"
            at.report("news-in-general", at.first_lines[True], fault)


def _count_entries(source: Source, kind: str) -> int:
    """Count the entries of a file that may be broken, by their start tags."""
    tags = {"feed": "item|entry", "sitemapindex": "sitemap"}.get(kind, "url")
    tag = re.compile(rf"(?:[\w.-]+:)?(?:{tags})[\s>]")
    with source.open() as stream:
        parts = _split(read_text(stream, lambda *_: None), "<")
        return sum(tag.match(part) is not None for _, part in parts)


def _check_xml(text: Text, at: Pass) -> bool:
    """Check a document. Return False if an error ended the parsing."""
    doctypes: list[int] = []

    def note(kind: str, line: int, content: str) -> None:
        if kind == "doctype":
            doctypes.append(line)
        elif kind == "comment" and _GENERATED_AT.search(content[:COMMENT_CHARACTERS_MAX]):
            at.report(
                "generation-time",
                line,
                f"the comment {shown(content.strip())} contains the time at which the file was written",
            )
        elif kind == "text" and (document.root is None or document.root.name in SITEMAP_ROOTS):
            at.report("stray-text", line, f"{shown(content.strip())} is outside the entries")

    document = Document(note, Namespaces(at.report).correct, text.line, lambda root: _FEED_ROOTS.get(root.name, 2))
    broken: Broken | None = None
    try:
        for entry in document.entries(text.pieces()):
            if document.root is None or not _check_entry(document.root, entry, at):
                break
    except Broken as error:
        broken = error
    at.facts.is_whole = broken is None and not text.cut
    _check_root(document.root, text, doctypes, at)
    if broken and not (text.cut and broken.rule == "not-well-formed"):
        at.report(broken.rule, broken.line, broken.message.removesuffix(": take it out"))
    return broken is None


def _check_root(root: Node | None, text: Text, doctypes: list[int], at: Pass) -> None:
    """Check the root element, which may be incomplete."""
    if doctypes and not (root and root.name in _FEED_ROOTS):
        at.report("document-type", doctypes[0], "it has a document type, which readers of sitemaps refuse")
    if root is None:
        return
    if root.name in _FEED_ROOTS:
        at.facts.kind = "feed"
        entry_rules.check_feed(root, at)
    elif root.name in SITEMAP_ROOTS:
        at.facts.kind = root.name
        if not text.head.startswith("<?xml"):
            at.report("no-declaration", text.line, "it has no XML declaration")
        entry_rules.check_attributes(root, at)
        if not at.facts.urls and at.facts.is_whole:
            at.report("empty", root.line, f"{root.tag} is empty")
    else:
        at.report("root-element", root.line, f"the root element is {shown(root.tag)}")


def _check_entry(root: Node, entry: Node, at: Pass) -> bool:
    """Check one entry. Return False if the rest of the file does not have to be read."""
    expected = "sitemap" if root.name == "sitemapindex" else "url"
    is_in_sitemap = root.name in SITEMAP_ROOTS or root.namespace == SITEMAP  # also with a wrong root element
    if root.name in _FEED_ROOTS:
        entry_rules.check_feed_entry(root, entry, at)
    elif not is_in_sitemap and entry.name != "url":
        return root.name.lower() != "html"
    elif entry.name != expected:
        at.report("unknown-child", entry.line, f"{entry.tag} is in {root.tag}, which takes only {expected}")
    elif expected == "url":
        entry_rules.check_url_entry(entry, at)
    else:
        entry_rules.check_sitemap_entry(entry, at)
    return True


def _check_lines(text: Text, at: Pass) -> None:
    for number, line in _split(text, "\n"):
        url = line.rstrip("\r")
        if not url.strip():
            continue
        if not _URL_LINE.match(url) or len(url.split()) > 1:
            at.report("text-line", number, f"{shown(url)} is no URL")
            if len(url.split()) > 1 or "://" not in url:
                continue
        at.count_url(url.strip(), check_url(url, at.on(number)), number, is_news=False)


def _split(text: Text, separator: str) -> Iterator[tuple[int, str]]:
    """Yield the number and the text of each line, or of each part up to another separator, cut to LINE_CHARACTERS_MAX."""
    rest, number = "", text.line
    for piece in text.pieces():
        *whole, rest = (rest + piece).split(separator)
        for line in whole:
            yield number, line[:LINE_CHARACTERS_MAX]
            number += 1
        rest = rest[:LINE_CHARACTERS_MAX]
    if rest:
        yield number, rest
