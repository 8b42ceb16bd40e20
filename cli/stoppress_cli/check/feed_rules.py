"""Checks RSS and Atom feeds that serve as sitemaps (R1.14): each entry must link a page."""

from email.utils import parsedate_to_datetime

from stoppress.primitives.instants import utc
from stoppress.primitives.xml import Node
from stoppress_cli.check.findings import shown
from stoppress_cli.check.one_pass import Pass
from stoppress_cli.check.rulebook import ATOM
from stoppress_cli.check.value_rules import Moment, check_date, check_url

_ENTRIES = {"rss": "item", "RDF": "item", "feed": "entry"}


def check_root(root: Node, at: Pass) -> None:
    """Checks the version of a feed."""
    if root.name == "feed" and root.namespace != ATOM:
        at.tell("feed-version", root.line, f"the namespace is {shown(root.namespace or '')}")
    elif root.name == "rss" and root.attributes.get("version") != "2.0":
        at.tell("feed-version", root.line, f"this is RSS {shown(root.attributes.get('version', ''))}")
    elif root.name == "RDF":
        at.tell("feed-version", root.line, "this is RSS 1.0")


def check_entry(root: Node, entry: Node, at: Pass) -> None:
    """Checks the link and the date of one item or entry."""
    if entry.name != _ENTRIES[root.name]:
        return
    url, line = next(filter(None, (_find_page(root, child) for child in entry.children)), ("", 0))
    if not url:
        at.tell("feed-link", entry.line, f"this {entry.name} has no link")
        return
    at.count_url(url.strip(), check_url(url, at.on(line)), line, is_news=False)
    for child in entry.children:
        if child.name in {"updated", "published"} and child.namespace == ATOM:
            at.newest(check_date(child.text, at.now, at.on(child.line)))
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
        at.tell("date-form", node.line, f"{shown(node.text)} is no date in the form of RSS")
        return
    at.newest(Moment(instant))
    if instant > at.now:
        at.tell("date-future", node.line, f"{shown(node.text.strip())} is in the future")
