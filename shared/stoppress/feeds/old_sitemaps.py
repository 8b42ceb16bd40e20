"""A site's own old sitemap, read as a feed: a news sitemap, a general one, an index of them.

What a sitemap says of a page it says for sitemaps: images, videos, language versions and keywords come along. Names are
looked at without their namespaces, which are often misspelt (R12.2).
"""

import heapq
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from stoppress.feeds import documents
from stoppress.feeds.documents import Document, FeedError
from stoppress.feeds.entries import Entry, Reading
from stoppress.feeds.links import web_url
from stoppress.model.site import FEED_SOURCE, SITEMAP_SOURCE, Site
from stoppress.primitives import dates
from stoppress.primitives.text import clean
from stoppress.primitives.xml import Broken, Document as Tree, Node

_PIECE_CHARACTERS = 65_536
# Of an index of sitemaps each child is a request: the newest, which are those that change.
CHILDREN_MAX = 10
_NEVER = datetime.min.replace(tzinfo=UTC)


def read(document: Document, url: str, site: Site) -> Reading:
    """The pages of a sitemap as entries, the newest ENTRIES_MAX first; `url` is where it came from. Raises FeedError."""
    found = _listed(document, site, documents.ENTRIES_MAX)
    entries = []
    for node in found.nodes:
        title = clean(_text_of(node, "news", "title"))
        published, updated = (_instant_of(node, site, *path) for path in (("news", "publication_date"), ("lastmod",)))
        entries.append(
            Entry(
                guid=None,
                url=web_url(_text_of(node, "loc"), url),
                title=title,
                published_at=published,
                updated_at=updated if not published or (updated and updated >= published) else None,
                language=_text_of(node, "news", "publication", "language"),
                keywords=_keywords(node),
                images=_images(node),
                videos=_videos(node),
                alternates=_alternates(node),
                source=FEED_SOURCE if title and published else SITEMAP_SOURCE,
            )
        )
    return Reading(
        tuple(entries),
        incomplete=f"the sitemap is damaged or cut off after {len(entries)} complete pages" if found.cut_off else None,
        left_out=(f"{found.left_out} pages beside the newest {documents.ENTRIES_MAX:,}",) if found.left_out else (),
    )


def children_of(document: Document, url: str, site: Site) -> tuple[str, ...]:
    """The sitemaps that an index names, the newest CHILDREN_MAX. Raises FeedError."""
    named = (web_url(_text_of(node, "loc"), url) for node in _listed(document, site, CHILDREN_MAX).nodes)
    return tuple(dict.fromkeys(child for child in named if child and child != url))


@dataclass(frozen=True, slots=True)
class _Listed:
    """What a sitemap lists, newest first as far as it has dates: the nodes, how many there were, whether it broke off."""

    nodes: tuple[Node, ...]
    left_out: int
    cut_off: bool


def _listed(document: Document, site: Site, most: int) -> _Listed:
    """The newest `<url>` or `<sitemap>` elements of a document, `most` of them. Raises FeedError where none can be read."""
    pieces = (
        document.text[start : start + _PIECE_CHARACTERS] for start in range(0, len(document.text), _PIECE_CHARACTERS)
    )
    tree = Tree(lambda what, line, text: None, lambda namespace, prefix, name, line: namespace)
    newest: list[tuple[datetime, int, Node]] = []
    number, broken = 0, ""
    try:
        for node in tree.entries(pieces):
            number -= 1
            one = (_newest_date(node, site), number, node)
            (heapq.heappush if len(newest) < most else heapq.heappushpop)(newest, one)
    except Broken as error:
        broken = error.message
    if broken and not newest:
        raise FeedError(f"the sitemap cannot be read: {broken}")
    nodes = tuple(node for _, _, node in sorted(newest, reverse=True, key=lambda one: one[:2]))
    return _Listed(nodes, -number - len(nodes), document.cut_off or bool(broken))


def _text_of(node: Node, *path: str) -> str:
    """The text of the first element at the path below a node, empty where there is none."""
    found: Node | None = node
    for name in path:
        found = next(_named(found, name), None) if found else None
    return found.text.strip() if found else ""


def _instant_of(node: Node, site: Site, *path: str) -> datetime | None:
    """The date there."""
    return dates.instant(_text_of(node, *path), site.zone)


def _images(url: Node) -> tuple[dict[str, Any], ...]:
    """The images of a `<url>`, in the form that a CMS would send."""
    return tuple({"url": _text_of(image, "loc")} for image in _named(url, "image"))


def _videos(url: Node) -> tuple[dict[str, Any], ...]:
    """Its videos."""
    return tuple(_video(video) for video in _named(url, "video"))


def _alternates(url: Node) -> tuple[dict[str, Any], ...]:
    """Its language versions."""
    links = (link.attributes for link in _named(url, "link"))
    return tuple(
        {"hreflang": link["hreflang"], "url": link.get("href", "")}
        for link in links
        if link.get("rel") == "alternate" and "hreflang" in link
    )


def _keywords(url: Node) -> tuple[str, ...]:
    """The keywords of its news."""
    words = (clean(word, 200) for word in _text_of(url, "news", "keywords").split(","))
    return tuple(dict.fromkeys(word for word in words if word))


def _newest_date(node: Node, site: Site) -> datetime:
    dates = (_instant_of(node, site, "lastmod"), _instant_of(node, site, "news", "publication_date"))
    return max((date for date in dates if date), default=_NEVER)


def _video(video: Node) -> dict[str, Any]:
    said: dict[str, Any] = {child.name: child.text.strip() for child in video.children}
    said["tags"] = [tag.text for tag in _named(video, "tag")]
    said.pop("tag", None)
    for relation in _with_relationship(video):
        said[relation.name] = f"{relation.attributes.get('relationship', '')} {relation.text.strip()}"
    uploader = next(_named(video, "uploader"), None)
    if uploader and "info" in uploader.attributes:
        said["uploader_info"] = uploader.attributes["info"]
    return said


def _with_relationship(video: Node) -> Iterable[Node]:
    return (child for child in video.children if child.name in ("restriction", "platform"))


def _named(node: Node, name: str) -> Iterator[Node]:
    return (child for child in node.children if child.name == name)
