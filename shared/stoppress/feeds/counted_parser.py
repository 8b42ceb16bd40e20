"""Parse a feed's text with feedparser, within a limit of counted steps.

feedparser takes quadratic time for namespaces, attributes, categories and nested base URLs: 1 MB of them takes minutes. So
this module counts the steps that feedparser repeats, and rejects a document that takes too many.
"""

import io
import xml.sax
from typing import Any
from xml.sax.handler import feature_external_ges, feature_namespaces

from feedparser.api import LooseFeedParser, StrictFeedParser

from stoppress.feeds.feed_documents import FeedError

# A step takes feedparser 20 to 110 nanoseconds, about two seconds in all. Of the real feeds that we know, the one with the
# most steps takes 18,483.
STEPS_MAX = 20_000_000

_OF_AN_ITEM = {"title", "link", "guid", "pubdate"}


class _Counted:
    """A feedparser class that counts its steps, and collects the attributes of tombstones outside entries (RFC 6721)."""

    resolve_relative_uris = sanitize_html = False
    steps = 0
    has_items = False  # of any namespace

    def __init__(self, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.tombstones: list[dict[str, str]] = []

    def count(self, steps: int) -> None:
        self.steps += steps
        if self.steps > STEPS_MAX:
            raise FeedError(
                f"feedparser would take more than {STEPS_MAX:,} steps: too many namespaces, attributes or categories"
            )

    def unknown_starttag(self: Any, tag: str, attrs: list[tuple[str, str]]) -> None:
        # A tag is compared with all namespaces, and its base URL is joined with that of the tag around it.
        self.count(len(self.namespaces_in_use) + len(self.baseuri))
        name = tag.rpartition(":")[2]
        self.has_items |= name in ("item", "entry")
        if name == "deleted-entry" and not self.inentry:
            self.tombstones.append(dict(attrs))
        super().unknown_starttag(tag, attrs)  # type: ignore[misc]

    def _add_tag(self: Any, *tag: Any) -> None:
        # A category or keyword is compared with all before it.
        self.count(len(self._get_context().get("tags", ())))
        super()._add_tag(*tag)  # type: ignore[misc]

    def _sync_author_detail(self, key: str = "author") -> None:
        """Do nothing. feedparser would search a name for addresses, in quadratic time, and Stoppress reads no authors."""


class _Strict(_Counted, StrictFeedParser):  # type: ignore[misc]
    """The parser of well-formed feeds. It ignores titles, links, guids and dates that are not direct children of their item.

    They belong to an image, a related story or an author, but feedparser would treat them as the item's own. aktuality.sk has
    an `<image>` with a title and a link in each item.
    """

    level = 0  # of the next element below its item: 1 for a direct child, 0 outside items

    def unknown_starttag(self, tag: str, attrs: list[tuple[str, str]]) -> None:
        super().unknown_starttag(self._name_at_level(tag), attrs)
        if self.level or tag == "item":
            self.level += 1

    def unknown_endtag(self, tag: str) -> None:
        self.level = max(self.level - 1, 0)
        super().unknown_endtag(self._name_at_level(tag))

    def _name_at_level(self, tag: str) -> str:
        return "nested" if self.level > 1 and tag in _OF_AN_ITEM else tag

    def startElementNS(self, name: Any, qname: Any, attrs: Any) -> None:  # noqa: N802 - SAX
        # The value of each attribute is searched among all attributes of the tag.
        self.count(len(attrs) ** 2)
        super().startElementNS(name, qname, attrs)


class _Loose(_Counted, LooseFeedParser):  # type: ignore[misc]
    pass


def parse_feed(text: str, base: str) -> tuple[list[dict[str, Any]], dict[str, Any], list[dict[str, str]]]:
    """Return the entries and the head of a feed, as `feedparser.parse` does, and its tombstones. Raises FeedError.

    `base` may be empty. `text` begins with the root element. Text that is not well-formed goes to feedparser's loose parser.
    """
    try:
        parser: Any = _Strict(base, None, "utf-8")
        reader = xml.sax.make_parser()  # noqa: S317 - after its root element a text declares no entities
        reader.setFeature(feature_namespaces, True)
        reader.setFeature(feature_external_ges, False)
        reader.setContentHandler(parser)
        reader.setErrorHandler(parser)
        try:
            reader.parse(io.BytesIO(text.encode()))
        except xml.sax.SAXException:
            parser = _Loose(base, None, "utf-8", {})
            parser.feed(text)
    except FeedError:
        raise
    except Exception as error:  # feedparser documents no exceptions, and has raised a dozen types for damaged input
        raise FeedError(f"feedparser failed: {error!r:.200}") from error
    if parser.has_items and not parser.entries:
        raise FeedError("the feed has items, but none is an item of RSS or Atom")
    return parser.entries, parser.feeddata, parser.tombstones
