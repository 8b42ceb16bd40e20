"""Read a site's old sitemap as a feed: a news sitemap, a plain sitemap, or an index of sitemaps.

Images, videos, language versions and keywords are read too. Namespaces of elements are ignored, because they are often
misspelt: crawler-commons accepts nine more for sitemaps (Namespace.java). Pages without title or date have the source
`sitemap`, which any feed or CMS overrides, so that they do not remove a story's title.
"""

import heapq
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from stoppress.feeds import feed_documents
from stoppress.feeds.feed_documents import Document, Entry, FeedError, Reading
from stoppress.feeds.links import web_url
from stoppress.model.site import FEED_SOURCE, SITEMAP_SOURCE, Site
from stoppress.primitives import dates
from stoppress.primitives.text import clean_html
from stoppress.primitives.xml import Broken, Document as Tree, Node

_PIECE_CHARACTERS = 65_536
# Each sitemap of an index costs a request, and only the newest ones change.
CHILDREN_MAX = 10
_NEVER = datetime.min.replace(tzinfo=UTC)


def read(document: Document, url: str, site: Site) -> Reading:
    """Return the newest ENTRIES_MAX pages of the sitemap at `url` as entries, newest first. Raises FeedError."""
    nodes, left_out, cut_off = _read_newest(document, site, feed_documents.ENTRIES_MAX)
    entries = [entry_of(node, url, site) for node in nodes]
    return Reading(
        tuple(entries),
        incomplete=f"the sitemap is damaged or cut off after {len(entries)} complete pages" if cut_off else None,
        left_out=(f"{left_out} pages beside the newest {feed_documents.ENTRIES_MAX:,}",) if left_out else (),
    )


def entry_of(node: Node, url: str, site: Site) -> Entry:
    """Return a `<url>` of the sitemap at `url` as an entry."""
    title = clean_html(text_of(node, "news", "title"))
    published, updated = (_instant_of(node, site, *path) for path in (("news", "publication_date"), ("lastmod",)))
    return Entry(
        guid=None,
        url=web_url(text_of(node, "loc"), url),
        title=title,
        published_at=published,
        updated_at=updated if not published or (updated and updated >= published) else None,
        language=text_of(node, "news", "publication", "language"),
        keywords=_keywords(node),
        images=tuple({"url": text_of(image, "loc")} for image in _children(node, "image")),
        videos=tuple(map(_video, _children(node, "video"))),
        alternates=_alternates(node),
        source=FEED_SOURCE if title and published else SITEMAP_SOURCE,
    )


def new_tree() -> Tree:
    """Return a parser of one sitemap, which ignores namespaces."""
    return Tree(lambda what, line, text: None, lambda namespace, prefix, name, line: namespace)


def children_of(document: Document, url: str, site: Site, most: int = CHILDREN_MAX) -> tuple[str, ...]:
    """Return the newest `most` sitemaps of an index, newest first. Raises FeedError."""
    urls = (web_url(text_of(node, "loc"), url) for node in _read_newest(document, site, most)[0])
    return tuple(dict.fromkeys(child for child in urls if child and child != url))


def _read_newest(document: Document, site: Site, most: int) -> tuple[list[Node], int, bool]:
    """Return the newest `most` `<url>` or `<sitemap>` elements, newest first; the number of others; whether the sitemap is truncated.

    Raises FeedError if none is readable.
    """
    pieces = (
        document.text[start : start + _PIECE_CHARACTERS] for start in range(0, len(document.text), _PIECE_CHARACTERS)
    )
    tree = new_tree()
    newest: list[tuple[datetime, int, Node]] = []
    number, broken = 0, ""
    try:
        for node in tree.entries(pieces):
            number -= 1
            instants = (_instant_of(node, site, "lastmod"), _instant_of(node, site, "news", "publication_date"))
            entry = (max(filter(None, instants), default=_NEVER), number, node)
            (heapq.heappush if len(newest) < most else heapq.heappushpop)(newest, entry)
    except Broken as error:
        broken = error.message
    if broken and not newest:
        raise FeedError(f"the sitemap cannot be read: {broken}")
    nodes = [node for _, _, node in sorted(newest, reverse=True, key=lambda entry: entry[:2])]
    return nodes, -number - len(nodes), document.cut_off or bool(broken)


def text_of(node: Node, *path: str) -> str:
    """Return the text of the first element at the path below a node; empty if there is none."""
    child: Node | None = node
    for name in path:
        child = next(_children(child, name), None) if child else None
    return child.text.strip() if child else ""


def _instant_of(node: Node, site: Site, *path: str) -> datetime | None:
    return dates.instant(text_of(node, *path), site.zone)


def _alternates(url: Node) -> tuple[dict[str, Any], ...]:
    links = (link.attributes for link in _children(url, "link"))
    return tuple(
        {"hreflang": link["hreflang"], "url": link.get("href", "")}
        for link in links
        if link.get("rel") == "alternate" and "hreflang" in link
    )


def _keywords(url: Node) -> tuple[str, ...]:
    words = (clean_html(word, 200) for word in text_of(url, "news", "keywords").split(","))
    return tuple(dict.fromkeys(word for word in words if word))


def _video(video: Node) -> dict[str, Any]:
    values: dict[str, Any] = {child.name: child.text.strip() for child in video.children}
    values["tags"] = [tag.text for tag in _children(video, "tag")]
    values.pop("tag", None)
    for name in ("restriction", "platform"):
        for relation in _children(video, name):
            values[name] = f"{relation.attributes.get('relationship', '')} {relation.text.strip()}"
    uploader = next(_children(video, "uploader"), None)
    if uploader and "info" in uploader.attributes:
        values["uploader_info"] = uploader.attributes["info"]
    return values


def _children(node: Node, name: str) -> Iterator[Node]:
    return (child for child in node.children if child.name == name)
