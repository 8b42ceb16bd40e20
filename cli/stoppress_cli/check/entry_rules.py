"""Checks one entry: a `<url>` of a urlset, a `<sitemap>` of an index, or an item of a feed that serves as a sitemap."""

import re
from email.utils import parsedate_to_datetime

from stoppress.primitives.instants import utc
from stoppress.primitives.xml import Node
from stoppress_cli.check import media_rules, news
from stoppress_cli.check.findings import shown
from stoppress_cli.check.one_pass import Pass
from stoppress_cli.check.rulebook import ATOM, EXTENSIONS, IMAGE, NEWS, SITEMAP, VIDEO, XHTML
from stoppress_cli.check.value_rules import CONTROLS, Moment, Place, check_date, check_url

CHANGEFREQ = {"always", "hourly", "daily", "weekly", "monthly", "yearly", "never"}
_PRIORITY = re.compile(r"\s*[+-]?(?:\d+(?:\.\d*)?|\.\d+)\s*")
_ORDER = ("loc", "lastmod", "changefreq", "priority")
_AFTER_ALL = len(_ORDER)
_FREE_ATTRIBUTES = ("xmlns", "xsi:", "xml:")


def check_url_entry(node: Node, at: Pass) -> None:
    """Check a `<url>` (R1.2 to R1.9, R1.11, R1.13, R1.17) and its extensions."""
    loc, place, _ = _check_entry(node, at, _ORDER)
    _check_order(node, at)
    extensions = [child for child in node.children if child.namespace != SITEMAP]
    at.count_url(loc, place, node.line, is_news=any(child.namespace == NEWS for child in extensions))
    if extensions:
        _check_extensions(node, extensions, loc, place, at)


def check_sitemap_entry(node: Node, at: Pass) -> None:
    """Check a `<sitemap>` of an index (R1.2 to R1.6, R1.11, R1.17, R6.1)."""
    loc, place, lastmod = _check_entry(node, at, _ORDER[:2])
    for child in node.children:
        if child.namespace != SITEMAP and child.namespace is not None:
            at.report(
                "unknown-child", child.line, f"{child.tag} is in an index, whose entries take only loc and lastmod"
            )
    at.count_child(loc, place, node.line, lastmod)


def check_plainness(node: Node, at: Pass) -> None:
    """Report stray text, CDATA, control characters and unknown attributes in an element and below (R1.3, R1.11, R1.16)."""
    if node.children and node.text.strip():
        at.report("stray-text", node.line, f"{shown(node.text.strip())} is directly in {node.tag}")
    if node.cdata:
        at.report("cdata", node.line, f"{node.tag} contains a CDATA section")
    if control := CONTROLS.search(node.text):
        at.report("control-character", node.line, f"{node.tag} has U+{ord(control[0]):04X} in it")
    if node.attributes:
        check_attributes(node, at)
    for child in node.children:
        check_plainness(child, at)


def check_attributes(node: Node, at: Pass) -> None:
    """Report attributes that the schemas do not have (R1.11)."""
    extension = EXTENSIONS.get(node.namespace or "")
    allowed = extension.attributes if extension else None
    if node.namespace == SITEMAP or allowed is not None:
        for name in node.attributes:
            if name not in (allowed or {}).get(node.name, ()) and not name.startswith(_FREE_ATTRIBUTES):
                at.report("attribute", node.line, f"{node.tag} has the attribute {shown(name)}")


def _check_entry(node: Node, at: Pass, allowed: tuple[str, ...]) -> tuple[str, Place | None, Moment | None]:
    """Check the children that `<url>` and `<sitemap>` share. Return the loc, its place and the lastmod."""
    check_plainness(node, at)
    if not node.children and node.text.strip():
        at.report("stray-text", node.line, f"{shown(node.text.strip())} is directly in {node.tag}")
    counts: dict[str, int] = {}
    loc, place, lastmod = "", None, None
    for child in node.children:
        if child.namespace != SITEMAP:
            continue
        counts[child.name] = counts.get(child.name, 0) + 1
        if child.name not in allowed:
            at.report(
                "unknown-child", child.line, f"{child.tag} is in {node.tag}, which takes only {', '.join(allowed)}"
            )
        elif child.children:
            inner = child.children[0]
            at.report("unknown-child", inner.line, f"{inner.tag} is in {child.tag}, which takes only text")
        elif counts[child.name] > 1:
            at.report("child-count", child.line, f"{child.name} is {counts[child.name]} times in {node.tag}")
        elif child.name == "loc":
            loc, place = child.text.strip(), _check_loc(child, at)
        elif child.name == "lastmod":
            lastmod = check_date(child.text, at.now, at.on(child.line))
            at.keep_newest(lastmod)
        elif child.name == "changefreq" and child.text.strip() not in CHANGEFREQ:
            at.report("changefreq-value", child.line, f"changefreq {shown(child.text)} does not exist")
        elif child.name == "priority" and not (_PRIORITY.fullmatch(child.text) and 0 <= float(child.text) <= 1):
            at.report("priority-value", child.line, f"priority {shown(child.text)} is wrong")
    if "loc" not in counts:
        at.report("child-count", node.line, f"{node.tag} has no loc")
        at.report("loc-empty", node.line, f"{node.tag} has no URL")
    return loc, place, lastmod


def _check_loc(loc: Node, at: Pass) -> Place | None:
    if loc.raw:
        at.report("unescaped", loc.line, f"{shown(loc.text.strip())} has \", ' or > in it")
    text = loc.text
    text += "x" * min(loc.size - len(text), len(text))
    return check_url(text, at.on(loc.line))


def _check_order(node: Node, at: Pass) -> None:
    before, extension = 0, ""
    for child in node.children:
        if child.namespace != SITEMAP:
            before, extension = _AFTER_ALL, extension or (child.tag if child.namespace == NEWS else "")
            continue
        place = _ORDER.index(child.name) if child.name in _ORDER else before
        if place < before:
            name = "news-order" if before == _AFTER_ALL and extension else "child-order"
            after = extension or "what follows it in the schema"
            at.report(name, child.line, f"{child.name} comes after {after}")
            return
        before = place


def _check_extensions(node: Node, extensions: list[Node], loc: str, place: Place | None, at: Pass) -> None:
    by_name: dict[tuple[str | None, str], list[Node]] = {}
    for child in extensions:
        by_name.setdefault((child.namespace, child.name), []).append(child)
    if articles := by_name.pop((NEWS, "news"), None):
        news.check(articles, loc, place, at)
    if images := by_name.pop((IMAGE, "image"), None):
        media_rules.check_images(images, loc, at)
    for video in by_name.pop((VIDEO, "video"), ()):
        media_rules.check_video(video, loc, at)
    if links := by_name.pop((XHTML, "link"), None):
        media_rules.check_alternates(links, loc, node.line, at)
    for (namespace, _), strays in by_name.items():
        for stray in strays if namespace in EXTENSIONS else ():
            at.report("unknown-child", stray.line, f"{stray.tag} is directly in {node.tag}")


def check_feed(root: Node, at: Pass) -> None:
    """Check the version of a feed (R1.14)."""
    if root.name == "feed" and root.namespace != ATOM:
        at.report("feed-version", root.line, f"the namespace is {shown(root.namespace or '')}")
    elif root.name == "rss" and root.attributes.get("version") != "2.0":
        at.report("feed-version", root.line, f"this is RSS {shown(root.attributes.get('version', ''))}")
    elif root.name == "RDF":
        at.report("feed-version", root.line, "this is RSS 1.0")


def check_feed_entry(root: Node, entry: Node, at: Pass) -> None:
    """Check the link and the date of one item or entry."""
    if entry.name != ("entry" if root.name == "feed" else "item"):
        return
    url, line = next(filter(None, (_find_page(root, child) for child in entry.children)), ("", 0))
    if not url:
        at.report("feed-link", entry.line, f"this {entry.name} has no link")
        return
    at.count_url(url.strip(), check_url(url, at.on(line)), line, is_news=False)
    for child in entry.children:
        if child.name in {"updated", "published"} and child.namespace == ATOM:
            at.keep_newest(check_date(child.text, at.now, at.on(child.line)))
        elif child.name == "pubDate":
            _check_mail_date(child, at)


def _find_page(root: Node, child: Node) -> tuple[str, int] | None:
    """Return the URL and line of a child that links the entry's page; None for another child."""
    is_link = child.name == "link" and (root.name == "RDF" or child.namespace in {root.namespace, ATOM})
    url = child.attributes.get("href") or child.text
    is_page = is_link and child.attributes.get("rel", "alternate") == "alternate" and url.strip()
    return (url, child.line) if is_page else None


def _check_mail_date(node: Node, at: Pass) -> None:
    try:
        date = parsedate_to_datetime(node.text.strip())
        instant = utc(date if date.tzinfo else date.astimezone())
    except (ValueError, TypeError, IndexError, OverflowError):
        at.report("date-form", node.line, f"{shown(node.text)} is no date in the form of RSS")
        return
    at.keep_newest(Moment(instant))
    if instant > at.now:
        at.report("date-future", node.line, f"{shown(node.text.strip())} is in the future")
