"""Checks the news:news of a `<url>`: Google's news sitemap (R2.1 to R2.16)."""

import re

from stoppress.primitives.xml import Node
from stoppress_cli.check.findings import shown
from stoppress_cli.check.one_pass import Pass
from stoppress_cli.check.rulebook import NEWS_HOURS, NEWS_WINDOW
from stoppress_cli.check.value_rules import (
    Place,
    check_date,
    check_plain_text,
    is_escaped_twice,
    is_spaced,
    news_language_fault,
)

_CHILDREN = ("publication", "publication_date", "title")
_OF_PUBLICATION = ("name", "language")


def check(articles: list[Node], loc: str, place: Place | None, at: Pass) -> None:
    for further in articles[1:]:
        at.report("news-twice", further.line, "a URL has one news:news")
    if place is not None and place.is_home:
        at.report("news-home", articles[0].line, f"{shown(loc)} is the home page, no article")
    for article in articles:
        _check_article(article, at)


def _check_article(article: Node, at: Pass) -> None:
    children, name = _check_children(article, _CHILDREN, at), ""
    if publication := children.get("publication"):
        about = _check_children(publication, _OF_PUBLICATION, at)
        if "name" in about:
            name = _check_name(about["name"], at)
        language = about.get("language")
        if language and (fault := news_language_fault(language.text)):
            at.report("news-language", language.line, f"{shown(language.text)} {fault}")
    if date := children.get("publication_date"):
        _check_date(date, at)
    if title := children.get("title"):
        _check_title(title, name, at)


def _check_children(node: Node, required: tuple[str, ...], at: Pass) -> dict[str, Node]:
    """Check that a node has each of `required` once, in order, and nothing else (R2.2, R2.3, R2.13). Return the first of each."""
    children = at.read_children(node, required)
    for name in required:
        if (count := len(children.get(name, ()))) != 1:
            at.report("news-child-count", node.line, f"{node.tag} has {count or 'no'} {name}")
    if list(children) != [name for name in required if name in children]:
        at.report("news-order", node.line, f"{node.tag} has {', '.join(children)} in this order")
    return {name: nodes[0] for name, nodes in children.items()}


def _check_name(node: Node, at: Pass) -> str:
    name = node.text
    if not name.strip():
        at.report("news-name", node.line, "the publication has no name")
    elif is_spaced(name):
        at.report("news-name", node.line, f"the name {shown(name)} has too much white space")
    elif re.search(r"[()]", name):
        at.report("news-name", node.line, f"the name {shown(name)} has something in parentheses")
    elif fault := check_plain_text(name):
        at.report("news-name", node.line, f"the name {shown(name)} has {fault} in it")
    return name.strip()


def _check_date(node: Node, at: Pass) -> None:
    moment = check_date(node.text, at.now, at.on(node.line), "published")
    at.keep_newest(moment)
    if moment and moment.end_in_utc < at.now - NEWS_WINDOW:
        date = shown(node.text.strip())
        at.report("out-of-window", node.line, f"published at {date}, more than {NEWS_HOURS} hours ago")


def _check_title(node: Node, name: str, at: Pass) -> None:
    title = node.text
    if not title.strip():
        at.report("title-empty", node.line, "the title is empty")
        return
    if fault := check_plain_text(title):
        at.report("title-markup", node.line, f"the title {shown(title.strip())} has {fault} in it")
        if is_escaped_twice(title):
            at.report("escaped-twice", node.line, f"the title {shown(title.strip())} was escaped twice")
    if is_spaced(title):
        at.report("title-white-space", node.line, f"the title {shown(title)} has too much white space")
    if name and re.search(rf"\s[-|\u2013\u2014]\s{re.escape(name)}$", title.strip()):
        at.report("title-with-name", node.line, f"the title {shown(title.strip())} ends with the publication's name")
